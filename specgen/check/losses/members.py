"""`take` and `flatten_members`: what one member of an ensemble gives, and what all of them give side by side."""

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
    form="take(x, index, axis=ensemble)",
    family="index",
    doc="What one member of an ensemble gives; members count from 0.",
    params=(Param("x"), Param("index", "int"), Param("axis", "axes")),
    infer=_infer,
    interval=lambda args, node: args[0],
    torch=_show,
    reference=_reference,
    layout=lambda args: (),
)


def _infer_all(site: Site) -> Typed | None:
    (x,) = site.values
    if not x.type.axes or x.type.axes[0].name != "ensemble":
        message = f"`{site.written(x)}` is {x.type}: there are no members"
        site.fail(value_rules.MEMBER, message, at=x, help="call a network that is declared with `ensemble`")
        return None
    if x.type.open or x.type.rank != 1:
        message = f"`{site.written(x)}` is {x.type}: the vectors of members stand side by side"
        site.fail(value_rules.MEMBER, message, at=x)
        return None
    members, *axes = x.type.axes
    kind = replace(x.type, dims=(members.size * x.type.sizes[0],), axes=tuple(axes), col=False)
    return site.node(kind, site.values, axis=NamedAxis(0))


def _show_all(node: Typed, printer: Printer) -> Printed:
    vectors = method(printer.logical(node.args[0]), "movedim", "0", "-2")
    return method(vectors, "flatten", "-2")


FLATTEN_MEMBERS: Final = Builtin(
    name="flatten_members",
    family="index",
    doc="The vectors of all members of an ensemble in one, those of one member behind those of another.",
    params=(Param("x"),),
    infer=_infer_all,
    interval=lambda args, node: args[0],
    torch=_show_all,
    reference=lambda np, x: np.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], -1),
    layout=lambda args: (),
)
