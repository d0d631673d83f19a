"""`project`: masses at some numbers, as masses at the evenly spaced atoms of a support."""

from __future__ import annotations

from typing import Any, Final

from specgen.diagnostics.rules import loss_values as value_rules
from specgen.expr import Interval, Typed
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.dtypes import is_float
from specgen.expr.printer import Printed, Printer
from specgen.values import replace


def _infer(site: Site) -> Typed | None:
    masses, _, support = site.values
    for value in site.values:
        if value.type.rank != 1 or value.type.open or value.type.axes or not is_float(value.type.dtype):
            message = f"`project` takes vectors with one number for each atom, `{site.written(value)}` is {value.type}"
            site.fail(value_rules.PROJECTION, message, at=value)
            return None
    if support.type.level == "batch" or masses.type.level != "batch":
        one, other = site.written(support), site.written(masses)
        message = f"the support is the same for all samples, and masses are of each: `{one}`, `{other}`"
        help = "write project(masses, places, support), the support a buffer of a network"
        site.fail(value_rules.PROJECTION, message, at=support, help=help)
        return None
    if len({value.type.dims for value in site.values}) > 1:
        kinds = ", ".join(f"`{site.written(value)}` is {value.type}" for value in site.values)
        site.fail(value_rules.PROJECTION, f"masses, places and the support are of the same atoms: {kinds}")
        return None
    return site.node(replace(masses.type, col=False))


def _show(node: Typed, printer: Printer) -> Printed:
    return printer.call("project", *(printer.logical(arg).text for arg in node.args))


def _reference(np: Any, masses: Any, places: Any, support: Any) -> Any:
    step = support[1] - support[0]
    near = 1 - np.abs(np.clip(places, support[0], support[-1])[:, None] - support) / step
    return np.sum(masses[:, None] * np.maximum(near, 0), axis=0)


PROJECT: Final = Builtin(
    name="project",
    family="loss",
    doc="Masses at some places as masses at the atoms of a support, which are evenly spaced: each is split between its "
    "two neighbours, and what lies beyond an end is put there.",
    params=(Param("masses"), Param("places"), Param("support")),
    infer=_infer,
    interval=lambda args, node: Interval(-float("inf"), float("inf"), True),
    torch=_show,
    reference=_reference,
    layout=lambda args: (),
)
