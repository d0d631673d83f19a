"""Indexing: fixed positions, slices, new axes and computed indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.products import checked_reference, gathered, in_range
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest
from specgen.expr.printer import ADD, ATOM, MUL, Printed, Printer, method, tuple_text
from specgen.expr.types import At, Cut, Dims, IndexItem, NewAxis, Type, Typed


@dataclass(frozen=True, slots=True)
class SliceItem:
    """A slice as written; an end that is left out is None."""

    lower: int | None
    upper: int | None
    step: int | None


class RestItem:
    """`...`: whole dimensions as many as are left."""


RawItem = At | SliceItem | NewAxis | RestItem


def infer_index(site: Site, raw: Sequence[RawItem]) -> Typed | None:
    """The node of `value[items]`, or None when a mistake was reported."""
    (value,) = site.values
    if value.type.dims is None or value.type.python:
        kind = "of unknown rank" if value.type.dims is None else "one number"
        site.fail(rules.SHAPE_MISMATCH, f"`{site.written(value)}` is {kind} and cannot be indexed", at=value)
        return None
    items = _completed(site, value, raw)
    if items is None:
        return None
    if any(isinstance(item, At) and not item.index.type.python for item in items):
        return _computed(site, value, items)
    return _fixed(site, value, items)


def _completed(site: Site, value: Typed, raw: Sequence[RawItem]) -> list[IndexItem] | None:
    """The items with every dimension named and every slice brought to its ends."""
    dims = value.type.dims or ()
    named = sum(isinstance(item, At | SliceItem) for item in raw)
    if named > len(dims):
        message = f"{named} indices for `{site.written(value)}`, which is {value.type}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    rests = sum(isinstance(item, RestItem) for item in raw)
    if rests > 1:
        site.fail(rules.WRONG_ARGUMENTS, "`...` stands at most once in an index")
        return None
    items: list[IndexItem] = []
    left = iter(dims)
    for item in (*raw, *([] if rests else [RestItem()])):
        if isinstance(item, NewAxis):
            items.append(item)
        elif isinstance(item, RestItem):
            items += [Cut(0, next(left), 1) for _ in range(len(dims) - named)]
        elif isinstance(item, SliceItem):
            cut = _cut(site, item, next(left))
            if cut is None:
                return None
            items.append(cut)
        else:
            index = _in_range(site, item.index, next(left))
            if index is None:
                return None
            items.append(At(index))
    return items


def _cut(site: Site, item: SliceItem, size: int) -> Cut | None:
    step = item.step or 1
    if step < 1:
        site.fail(rules.WRONG_ARGUMENTS, "the step of a slice is at least 1")
        return None
    start, stop, _ = slice(item.lower, item.upper, None).indices(size)
    beyond = [end for end in (item.lower, item.upper) if end is not None and not -size <= end <= size]
    if stop <= start or beyond:
        site.fail(rules.INDEX_UNPROVEN, f"the slice does not lie in a dimension of {size}")
        return None
    return Cut(start, stop, step)


def _in_range(site: Site, index: Typed, size: int) -> Typed | None:
    fixed = index.static
    if isinstance(fixed, int) and not isinstance(fixed, bool):
        if -size <= fixed < size:
            return index
        message = f"index {fixed} is outside a dimension of {size}"
        site.fail(rules.INDEX_UNPROVEN, message, at=index)
        return None
    if index.type.dims is None:
        site.fail(rules.SHAPE_MISMATCH, f"`{site.written(index)}` has an unknown rank", at=index)
        return None
    return in_range(site, index, size, f"a dimension of {size}")


def _fixed(site: Site, value: Typed, items: list[IndexItem]) -> Typed:
    dims: list[int] = []
    stretch: set[int] = set()
    source = iter(range(value.type.rank))
    for item in items:
        if isinstance(item, NewAxis):
            stretch.add(len(dims))
            dims.append(1)
            continue
        axis = next(source)
        if isinstance(item, Cut):
            if axis in value.type.stretch:
                stretch.add(len(dims))
            dims.append(-((item.start - item.stop) // item.step))
    kind = Type(value.type.dtype, tuple(dims), value.type.level, stretch=frozenset(stretch))
    return replace(site.node(kind), items=tuple(items))


def _computed(site: Site, value: Typed, items: list[IndexItem]) -> Typed | None:
    dims = value.type.dims or ()
    leading = 0
    while leading < len(items) and isinstance(items[leading], At):
        leading += 1
    rest = items[leading:]
    whole = zip(rest, dims[leading:], strict=False)
    if len(items) != len(dims) or not all(isinstance(item, Cut) and item.whole(size) for item, size in whole):
        help = "index with the computed ones first, in a line of its own, and cut the result"
        site.fail(
            rules.WRONG_ARGUMENTS, "computed indices come first, and whole dimensions follow", help=help
        )
        return None
    indices = [item.index for item in items[:leading] if isinstance(item, At)]
    shape = site.unified(indices)
    if shape is None:
        return None
    level = highest((value, *indices))
    kind = Type(value.type.dtype, (*(shape.dims or ()), *dims[leading:]), level)
    return replace(site.node(kind), items=tuple(items))


def show_index(node: Typed, printer: Printer) -> Printed:
    """Prints `value[items]`."""
    (value,) = node.args
    indices = [item.index for item in node.items if isinstance(item, At)]
    if all(index.type.python for index in indices):
        return _show_fixed(node, printer)
    if value.type.level == "const":
        rank = _index_rank(indices)
        texts = [printer.aligned(index, rank).text for index in indices]
        return Printed(f"{printer.logical(value).at(ATOM)}[{', '.join(texts)}]")
    return _show_taken(node, indices, printer)


def _show_fixed(node: Typed, printer: Printer) -> Printed:
    (value,) = node.args
    texts: list[str] = []
    sizes = iter(value.type.dims or ())
    plain = True
    for item in node.items:
        if isinstance(item, NewAxis):
            texts.append("None")
            plain = False
            continue
        size = next(sizes)
        if isinstance(item, At):
            texts.append(printer.text(item.index))
        elif item.whole(size):
            # `...` covers the whole dimensions at the front.
            if not plain or node.type.level != "batch":
                texts.append(":")
            continue
        else:
            step = f":{item.step}" if item.step != 1 else ""
            texts.append(f"{item.start or ''}:{'' if item.stop == size else item.stop}{step}")
        plain = False
    if texts == ["None"] and node.type.level == "batch":
        return printer.behind(printer.logical(value), 1)
    front = ["..."] if node.type.level == "batch" else []
    return Printed(f"{printer.logical(value).at(ATOM)}[{', '.join([*front, *texts])}]")


def _index_rank(indices: Sequence[Typed]) -> int:
    return max(index.type.rank for index in indices)


def _show_taken(node: Typed, indices: list[Typed], printer: Printer) -> Printed:
    (value,) = node.args
    dims = value.type.dims or ()
    used, rank = len(indices), _index_rank(indices)
    left = len(dims) - used
    table = printer.logical(value)
    if used > 1:
        ends = (str(-len(dims)),) if left == 0 else (str(-len(dims)), str(-left - 1))
        table = method(table, "flatten", *ends)
    linear = _linear(indices, dims[:used], rank, printer)
    if all(index.type.level != "batch" for index in indices):
        whole = [":"] * left
        return Printed(f"{table.at(ATOM)}[{', '.join(['...', linear.text, *whole])}]")
    if rank > 1:
        linear = method(linear, "flatten", str(-rank))
    dim = -1 - left
    index = printer.behind(linear, left + (rank == 0))
    if left:
        # `gather` takes an index for each element
        batch = f"*{printer.batch_shape()}"
        sizes = [-1 if rank else 1, *dims[used:]]
        index = method(index, "expand", batch, *map(str, sizes))
    taken = gathered(table, dim, index)
    if rank == 0:
        return method(taken, "squeeze", str(dim))
    shape: Dims = (node.type.dims or ())[:rank]
    return method(taken, "unflatten", str(dim), tuple_text(map(str, shape))) if rank > 1 else taken


def _linear(indices: Sequence[Typed], sizes: Dims, rank: int, printer: Printer) -> Printed:
    """The position in the flattened dimensions."""
    total = _position(indices[0], sizes[0], rank, printer)
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        here = _position(index, size, rank, printer)
        total = Printed(f"{total.at(MUL)} * {size} + {here.at(ADD + 1)}", ADD)
    return total


def _position(index: Typed, size: int, rank: int, printer: Printer) -> Printed:
    if isinstance(index.static, int) and index.static < 0:
        return Printed(str(index.static + size))
    return printer.aligned(index, rank)


def _reference(np: Any, value: Any, items: tuple[Any, ...]) -> Any:
    sizes = iter(np.shape(value))
    for item in items:
        size = 1 if item is None else next(sizes)
        if isinstance(item, np.ndarray | np.generic):
            checked_reference(np, item, size)
    return value[items]


INDEX = Builtin(
    name="[]",
    signature="x[i, a:b, None]",
    family="index",
    doc="Elements of `x`: at fixed positions, in slices, and with `None` a new dimension that broadcasts. A computed "
    "index is an integer expression that is proven in range; computed indices come first: `table[i, j]`.",
    params=(Param("x"),),
    infer=lambda site: infer_index(site, ()),
    interval=ranges.same,
    torch=show_index,
    reference=_reference,
)
