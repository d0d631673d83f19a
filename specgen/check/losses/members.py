"""`take`: what one member of an ensemble gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from specgen.check.losses.model import LossNetwork
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.expr import Binding, Typed
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import NamedAxis


def _infer(site: Site, fewest: float) -> Typed | None:
    (x,) = site.values
    axis, index = site.options["axis"], site.options["index"]
    assert isinstance(index, Typed)
    if not isinstance(axis, NamedAxis) or x.type.axes[axis] != "ensemble":
        site.fail(value_rules.MEMBER, "`take` takes a member: axis=ensemble")
        return None
    number = index.static
    if not isinstance(number, int) or number < 0:
        message = f"`{site.written(index)}` is no number of a member: they are 0, 1, …"
        site.fail(value_rules.MEMBER, message, at=index)
        return None
    if number >= fewest:
        message = f"there may be no member {number}: the fewest are {fewest:.0f}"
        site.fail(value_rules.MEMBER, message, at=index, help=f"let there be more: `min: {number + 1}`")
        return None
    kind = replace(x.type, axes=(), col=False)
    return site.node(kind, axis=axis, index=number)


def _show(node: Typed, printer: Printer) -> Printed:
    axis = node.options["axis"]
    assert isinstance(axis, int)
    return method(printer.logical(node.args[0]), "select", f"{axis:d}", str(node.options["index"]))


def _reference(np: Any, x: Any, index: int, axis: int) -> Any:
    return np.take(x, index, axis)


TAKE: Final = Builtin(
    name="take",
    signature="take(x, index, axis=ensemble)",
    family="index",
    doc="What one member of an ensemble gives; members count from 0.",
    params=(Param("x"), Param("index", "int"), Param("axis", "axes")),
    infer=lambda site: _infer(site, 1),
    interval=lambda args, node: args[0],
    torch=_show,
    reference=_reference,
    layout=lambda args: (),
)


def take_of(networks: Iterable[LossNetwork], scope: Mapping[str, Binding]) -> Builtin:
    """`take` of a loss, which knows how many members its networks have at least."""
    members = [scope[p].interval.low for one in networks if (p := one.members) is not None and p in scope]
    fewest = max(1, min(members, default=1))
    return replace(TAKE, infer=lambda site: _infer(site, fewest))
