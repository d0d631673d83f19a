"""Terms of several numbers for each sample that are one number with other parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specgen.expr import Binding, Expr, Typed, tree
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.sizes import Sym
from specgen.expr.tree import free_names
from specgen.values import replace


def _infer(site: Site) -> Typed | None:
    (value,) = site.values
    if value.type.level != "batch" or value.type.axes or len(value.type.dims) > 1:
        return value
    return site.node(replace(value.type, dims=(Sym.named("entries"),), col=False))


ENTRIES: Final = Builtin(
    name="entries of",
    form="entries of x",
    family="fact",
    doc="The numbers of a sample, however many: nothing that could be written.",
    params=(Param("x"),),
    infer=_infer,
    interval=lambda args, node: args[0],
    torch=lambda node, printer: printer.logical(node.args[0]),
    reference=lambda np, x: x,
    layout=lambda args: (),
)
"""What an elementwise term chooses between: it is reduced, and nothing else reads it."""


def of_any_length(expr: Expr, scope: Mapping[str, Binding]) -> Expr:
    """A term that is a choice by what `scope` knows of parameters, of values with as many numbers as each has by itself."""
    if not isinstance(expr, tree.Call) or expr.function.path != "where" or len(expr.args) != 3:
        return expr
    condition, *values = expr.args
    found = [scope.get(name) for name in free_names(condition)]
    if not all(one is not None and (one.type.python or one.optional) for one in found):
        return expr
    made = tuple(
        inner
        if (inner := of_any_length(value, scope)) is not value
        else tree.Call(tree.Name(ENTRIES.name, value.start, value.end), (value,), (), value.start, value.end)
        for value in values
    )
    return replace(expr, args=(condition, *made))
