"""Indexing of values whose dimensions are not all known: what stands in front of the others, and behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.axes import Axis, axis_text, from_end
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.sizes import Dim, Dims, Rest, Sym
from specgen.expr.types import At, Cut, IndexItem, NewAxis, Others, Type, Typed
from specgen.precedence import ATOM
from specgen.values import replace


def infer_open(site: Site, front: Sequence[IndexItem], back: Sequence[IndexItem]) -> Typed | None:
    """The node of `value[front, ..., back]`, each item of which has a dimension of its own, or is a new one."""
    (value,) = site.values
    dims = value.type.dims
    axes: list[Axis] = []
    place = 0
    for item in front:
        behind: Dims = (1, *dims[place:]) if isinstance(item, NewAxis) else dims[place:]
        axis = from_end(behind, 0)
        if axis is None:
            message = f"nothing says how many dimensions `{site.written(value)}` has, from whose end axes are counted"
            site.fail(rules.SHAPE_MISMATCH, message, at=value, help="index its last dimensions: x[..., 0]")
            return None
        axes.append(axis)
        place += not isinstance(item, NewAxis)
    if any(isinstance(item, Cut) and item.step != 1 for item in front):
        site.fail(rules.WRONG_ARGUMENTS, "a slice in front of dimensions that nobody knows has no step")
        return None
    computed = [item for item in (*front, *back) if isinstance(item, At) and not item.index.type.python]
    if computed:
        message = "a computed index is for values all of whose dimensions are known"
        site.fail(rules.SHAPE_MISMATCH, message, at=computed[0].index)
        return None
    rest = next(size for size in dims if isinstance(size, Rest))
    kept = (*_kept(front, value.type.front), rest, *_kept(back, value.type.back))
    places = _new_places(front) | {
        place + len(kept) - len(_kept(back, value.type.back)) for place in _new_places(back)
    }
    kind = Type(value.type.dtype, kept, value.type.level, broadcastable=frozenset(places))
    node = site.node(kind, axes=tuple(axes))
    return replace(node, items=(*front, Others(), *back))


def _new_places(items: Sequence[IndexItem]) -> set[int]:
    """Where the dimensions that a `None` makes stand among those that are left."""
    left = [item for item in items if not isinstance(item, At)]
    return {place for place, item in enumerate(left) if isinstance(item, NewAxis)}


def _kept(items: Sequence[IndexItem], dims: Sequence[Dim]) -> tuple[Dim, ...]:
    found: list[Dim] = []
    sizes = iter(dims)
    for item in items:
        if isinstance(item, NewAxis):
            found.append(1)
        elif isinstance(item, Cut):
            next(sizes)
            found.append(item.length)
        else:
            next(sizes)
    return tuple(found)


def show_open(node: Typed, printer: Printer) -> Printed:
    """Prints `value[front, ..., back]`: one step for each item in front, an index for those behind."""
    (value,) = node.args
    split = node.items.index(Others())
    printed = printer.logical(value)
    axes = cast("tuple[Axis, ...]", node.options["axes"])
    sizes = iter(value.type.front)
    for item, axis in zip(node.items[:split], axes, strict=True):
        dim = axis_text(axis, value.type.dims, printer)
        size = None if isinstance(item, NewAxis) else next(sizes)
        if isinstance(item, NewAxis):
            printed = method(printed, "unsqueeze", dim)
        elif isinstance(item, At):
            printed = method(printed, "select", dim, printer.text(item.index))
        elif isinstance(item, Cut) and size is not None and not item.whole(size):
            # What follows to the end is as long as the tensor says.
            whole = f"{printed.at(ATOM)}.shape[{dim}] - {printer.size(item.start)}"
            rest = isinstance(item.length, Sym) and item.stop == size and item.step == 1
            length = whole if rest else printer.size(item.length)
            printed = method(printed, "narrow", dim, printer.size(item.start), length)
    texts = [
        printer.index_item(item, size)
        for item, size in zip(node.items[split + 1 :], _sizes(node.items[split + 1 :], value), strict=True)
    ]
    if all(text == ":" for text in texts):
        return printed
    return Printed(f"{printed.at(ATOM)}[{', '.join(['...', *texts])}]")


def _sizes(items: Sequence[IndexItem], value: Typed) -> list[Dim]:
    sizes = iter(value.type.back)
    return [1 if isinstance(item, NewAxis) else next(sizes) for item in items]
