"""Where a trailing 1 stands: the layout of every node of a typed tree, from that of the values it reads."""

from __future__ import annotations

from operator import is_
from typing import Final

from specgen.expr.types import At, Type, Typed
from specgen.values import replace

_POINTWISE: Final = ("operator", "elementwise", "condition")
"""Families of built-ins whose result is laid out as their operands are, where a built-in says nothing else."""


def relayout(expr: Typed) -> Typed:
    """`expr` with the layout (`Type.col`) of each node as its operands have it; dtypes and shapes stay.

    A reward or a done flag is stored with a trailing 1, and the same name can be plain inside a step: after a name
    is replaced by another value, the nodes above it are laid out anew. Subtrees that stay as they were are shared.
    """
    if not expr.args and not expr.items:
        return expr
    kind, items = expr.type, expr.items
    args = tuple([relayout(arg) for arg in expr.args])
    same = all(map(is_, args, expr.args))
    if items:
        items = tuple([At(relayout(item.index)) if isinstance(item, At) else item for item in items])
        same = same and all(
            not isinstance(new, At) or not isinstance(old, At) or new.index is old.index
            for new, old in zip(items, expr.items, strict=True)
        )
    if same and not kind.col and not any(arg.type.col for arg in args):
        return expr
    col = _column(expr, kind, args)
    if same and col == kind.col:
        return expr
    return replace(
        expr,
        type=kind if col == kind.col else replace(kind, col=col),
        args=expr.args if same else args,
        items=expr.items if same else items,
    )


def _column(expr: Typed, kind: Type, args: tuple[Typed, ...]) -> bool:
    builtin = expr.builtin
    if expr.op in ("cast", "in_range"):
        followed = args
    elif builtin is None:
        return kind.col  # stored in a layout of its own
    elif builtin.layout is not None:
        followed = builtin.layout(args)
    else:
        followed = args if builtin.family in _POINTWISE else ()
    if kind.level != "batch" or kind.open:
        return False
    # A scalar of each environment meets features without a trailing 1; among scalars the batched ones decide.
    leading = [arg for arg in followed if arg.type.dims != ()] or [
        arg for arg in followed if arg.type.level == "batch"
    ]
    return bool(leading) and all(arg.type.level == "batch" and arg.type.col for arg in leading)
