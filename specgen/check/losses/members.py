"""`take`: what one member of an ensemble gives."""

from __future__ import annotations

from typing import Any, Final

from specgen.diagnostics.rules import loss_values as value_rules
from specgen.expr import Typed
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import NamedAxis, limits
from specgen.values import replace


def _infer(site: Site) -> Typed | None:
    (x,) = site.values
    axis, index = site.options["axis"], site.options["index"]
    assert isinstance(index, Typed)
    if not isinstance(axis, NamedAxis) or x.type.axes[axis].name != "ensemble":
        site.fail(value_rules.MEMBER, "`take` takes a member: axis=ensemble")
        return None
    number = index.static
    if not isinstance(number, int) or number < 0:
        message = f"`{site.written(index)}` is no number of a member: they are 0, 1, …"
        site.fail(value_rules.MEMBER, message, at=index)
        return None
    size = x.type.axes[axis].size
    fewest, _ = limits(size)
    if number >= fewest:
        if isinstance(size, int):
            site.fail(value_rules.MEMBER, f"there is no member {number}: they are {size}", at=index)
            return None
        message = f"there may be no member {number}: the fewest are {fewest}"
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
    infer=_infer,
    interval=lambda args, node: args[0],
    torch=_show,
    reference=_reference,
    layout=lambda args: (),
)
