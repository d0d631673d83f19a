"""Where a trailing 1 stands: the layout of every node of a typed tree, from that of the values it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specgen.expr.types import At, Type, Typed

_POINTWISE: Final = ("operator", "elementwise", "condition")
"""Families of built-ins whose result is laid out as their operands are."""


def relayout(expr: Typed) -> Typed:
    """`expr` with the layout (`Type.col`) of each node as its operands have it; dtypes and shapes stay.

    A reward or a done flag is stored with a trailing 1, and the same name can be plain inside a step: after a name
    is replaced by another value, the nodes above it are laid out anew. Subtrees that stay as they were are shared.
    """
    kind = expr.type
    if expr.op in ("name", "literal"):
        return expr
    args = tuple([relayout(arg) for arg in expr.args])
    items = tuple([At(relayout(item.index)) if isinstance(item, At) else item for item in expr.items])
    same = all(new is old for new, old in zip(args, expr.args, strict=True)) and all(
        not isinstance(new, At) or not isinstance(old, At) or new.index is old.index
        for new, old in zip(items, expr.items, strict=True)
    )
    col = kind.col if expr.op == "store" else _column(expr, kind, args)
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
    pointwise = builtin is not None and (builtin.family in _POINTWISE or builtin.name.endswith("_like"))
    if expr.op != "cast" and not pointwise:
        return kind.col
    if kind.level != "batch" or kind.dims is None:
        return False
    # A scalar of each environment meets features without a trailing 1; among scalars the batched ones decide.
    leading = [arg for arg in args if arg.type.dims != ()] or [
        arg for arg in args if arg.type.level == "batch"
    ]
    return bool(leading) and all(arg.type.level == "batch" and arg.type.col for arg in leading)
