"""Indexing: fixed positions, slices, new axes and computed indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from specgen.diagnostics.rules import expressions as rules
from specgen.expr import ranges
from specgen.expr.builtins.open_indexing import infer_open, show_open
from specgen.expr.builtins.products import checked_reference, gathered, in_range
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest
from specgen.expr.printer import Printed, Printer, method, tuple_text
from specgen.expr.sizes import Dim, Dims, Sym, limits, may_be_at_most
from specgen.expr.types import At, Cut, IndexItem, NewAxis, Type, Typed
from specgen.precedence import ADD, ATOM, MUL
from specgen.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class SliceItem:
    """A slice as written; an end that is left out is None."""

    lower: Dim | None
    upper: Dim | None
    step: int | None


class RestItem:
    """`...`: whole dimensions as many as are left."""


RawItem = At | SliceItem | NewAxis | RestItem


def infer_index(site: Site, raw: Sequence[RawItem]) -> Typed | None:
    """The node of `value[items]`, or None when a mistake was reported."""
    (value,) = site.values
    if value.type.python:
        site.fail(
            rules.SHAPE_MISMATCH, f"`{site.written(value)}` is one number and cannot be indexed", at=value
        )
        return None
    if value.type.open:
        return _open(site, value, raw)
    items = _completed(site, value, value.type.sizes, raw)
    if items is None:
        return None
    if any(map(_is_computed, items)):
        return _computed(site, value, items)
    return _fixed(site, value, items)


def _open(site: Site, value: Typed, raw: Sequence[RawItem]) -> Typed | None:
    """What stands before `...` takes the dimensions in front, what stands behind it the last ones."""
    split = next((place for place, item in enumerate(raw) if isinstance(item, RestItem)), len(raw))
    front, back = raw[:split], [item for item in raw[split:] if not isinstance(item, RestItem)]
    if split + len(back) + 1 < len(raw):
        site.fail(rules.WRONG_ARGUMENTS, "`...` stands at most once in an index")
        return None
    ahead, behind = value.type.front, value.type.back
    count = sum(isinstance(item, At | SliceItem) for item in back)
    if count > len(behind):
        message = f"`{site.written(value)}` is {value.type}: its last {count} dimensions are not all known"
        site.fail(rules.SHAPE_MISMATCH, message, at=value, help="name them in the pattern: [..., n]")
        return None
    if sum(isinstance(item, At | SliceItem) for item in front) > len(ahead):
        message = f"`{site.written(value)}` is {value.type}: nobody knows which dimension this is"
        help = "an index behind the others is written x[..., 0]; along an axis: narrow(x, 0, 1, axis=0)"
        site.fail(rules.SHAPE_MISMATCH, message, at=value, help=help)
        return None
    items = _completed(site, value, ahead, [*front, RestItem()] if len(ahead) else front)
    others = _completed(site, value, behind, [RestItem(), *back])
    return None if items is None or others is None else infer_open(site, items, others)


def _completed(
    site: Site, value: Typed, dims: Sequence[Dim], raw: Sequence[RawItem]
) -> list[IndexItem] | None:
    """The items with every dimension named and every slice brought to its ends."""
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
            size = next(left)
            index = _checked_index(site, item.index, size, _selected(site, raw, item))
            if index is None:
                return None
            items.append(At(index))
    return items


def _cut(site: Site, item: SliceItem, size: Dim) -> Cut | None:
    step = item.step or 1
    if step < 1:
        site.fail(rules.WRONG_ARGUMENTS, "the step of a slice is at least 1")
        return None
    start, stop = (
        default if end is None else size + end if limits(end)[1] < 0 else end
        for end, default in ((item.lower, 0), (item.upper, size))
    )
    if not (may_be_at_most(0, start) and may_be_at_most(start + 1, stop) and may_be_at_most(stop, size)):
        site.fail(rules.INDEX_UNPROVEN, f"the slice does not lie in a dimension of {size}")
        return None
    return Cut(start, stop, step)


def _selected(site: Site, raw: Sequence[RawItem], item: At) -> str | None:
    """`select` with a number that is known when the code is made; None where other dimensions are indexed as well."""
    if not item.index.type.python or any(isinstance(one, At | NewAxis) for one in raw if one is not item):
        return None
    if any(isinstance(one, SliceItem) and one != SliceItem(None, None, None) for one in raw):
        return None
    place = raw.index(item)
    rest = next((at for at, one in enumerate(raw) if isinstance(one, RestItem)), len(raw))
    axis = place if place < rest else place - len(raw)
    return f"write select({site.written(site.values[0])}, {site.written(item.index)}, axis={axis})"


def _checked_index(site: Site, index: Typed, size: Dim, instead: str | None) -> Typed | None:
    fixed = index.static
    if isinstance(fixed, int) and not isinstance(fixed, bool):
        if -limits(size)[1] <= fixed < limits(size)[1]:
            return index
        message = f"index {fixed} is outside a dimension of {size}"
        last = "-1" if isinstance(size, Sym) else f"{size - 1}, or -1"
        help = f"the last one is {last}" if fixed > 0 else "the first one is 0"
        help = "the only one is 0" if size == 1 else help
        site.fail(rules.INDEX_UNPROVEN, message, at=index, help=help)
        return None
    if index.type.open:
        site.fail(rules.SHAPE_MISMATCH, f"`{site.written(index)}` has an unknown rank", at=index)
        return None
    return in_range(site, index, size, f"a dimension of {size}", instead)


def _fixed(site: Site, value: Typed, items: list[IndexItem]) -> Typed:
    dims: list[Dim] = []
    broadcastable: set[int] = set()
    source = iter(range(value.type.rank))
    for item in items:
        if isinstance(item, NewAxis):
            broadcastable.add(len(dims))
            dims.append(1)
            continue
        axis = next(source)
        if isinstance(item, Cut):
            if axis in value.type.broadcastable:
                broadcastable.add(len(dims))
            dims.append(item.length)
    kind = Type(value.type.dtype, tuple(dims), value.type.level, broadcastable=frozenset(broadcastable))
    return replace(site.node(kind), items=tuple(items))


def _computed(site: Site, value: Typed, items: list[IndexItem]) -> Typed | None:
    """First what is fixed, as one index, then the computed indices of what is left."""
    shape = site.unified([item.index for item in items if _is_computed(item)])
    if shape is None or (shape.dims and not _side_by_side(site, value, items)):
        return None
    if value.type.level != "batch" and _all_in_front(value, items):
        base, axes = value, {axis: item.index for axis, item in enumerate(items) if isinstance(item, At)}
    else:
        base, axes = _base(site, value, items)
    dims: list[Dim] = []
    broadcastable: set[int] = set()
    taken: list[IndexItem] = []
    for axis, size in enumerate(base.type.sizes):
        if axis in axes:
            taken.append(At(axes[axis]))
            dims += shape.sizes if axis == min(axes) else ()
            continue
        if axis in base.type.broadcastable:
            broadcastable.add(len(dims))
        taken.append(Cut(0, size, 1))
        dims.append(size)
    kind = Type(
        value.type.dtype,
        tuple(dims),
        highest((value, *axes.values())),
        broadcastable=frozenset(broadcastable),
    )
    return replace(site.node(kind, (base,)), items=tuple(taken))


def _is_computed(item: IndexItem) -> TypeGuard[At]:
    return isinstance(item, At) and not item.index.type.python


def _side_by_side(site: Site, value: Typed, items: Sequence[IndexItem]) -> bool:
    """Whether no slice and no `None` separates the indices; NumPy would move their dimensions to the front."""
    places = [place for place, item in enumerate(items) if isinstance(item, At)]
    if places[-1] - places[0] == len(places) - 1:
        return True
    text = site.written(value)
    help = f"take the fixed ones first, in an index of their own: {text}[0][:, i]"
    if sum(map(_is_computed, items)) > 1:
        own = [item for item in items if not isinstance(item, NewAxis)]
        order = sorted(range(len(own)), key=lambda axis: not isinstance(own[axis], At))
        help = f"bring their axes side by side first: permute({text}, {tuple_text(map(str, order))})[i, j]"
    message = "a slice or `None` separates indices that have dimensions, and it is not clear where these dimensions go"
    site.fail(rules.WRONG_ARGUMENTS, message, help=help)
    return False


def _all_in_front(value: Typed, items: Sequence[IndexItem]) -> bool:
    """Whether all that follows the first indices is whole: then torch takes fixed and computed ones together."""
    count = sum(isinstance(item, At) for item in items)
    behind = zip(items[count:], value.type.sizes[count:], strict=False)
    return len(items) == value.type.rank and all(
        isinstance(item, Cut) and item.whole(size) for item, size in behind
    )


def _base(site: Site, value: Typed, items: Sequence[IndexItem]) -> tuple[Typed, dict[int, Typed]]:
    """`value` indexed by all but the computed indices, and these by the axes that they have there."""
    fixed: list[IndexItem] = []
    axes: dict[int, Typed] = {}
    sizes = iter(value.type.sizes)
    rank, plain = 0, True
    for item in items:
        size = 1 if isinstance(item, NewAxis) else next(sizes)
        if _is_computed(item):
            axes[rank] = item.index
            fixed.append(Cut(0, size, 1))
        else:
            fixed.append(item)
            plain &= isinstance(item, Cut) and item.whole(size)
        rank += not isinstance(item, At) or _is_computed(item)
    return (value if plain else _fixed(site, value, fixed)), axes


def show_index(node: Typed, printer: Printer) -> Printed:
    """Prints `value[items]`."""
    (value,) = node.args
    if value.type.open:
        return show_open(node, printer)
    if not any(map(_is_computed, node.items)):
        return _show_fixed(node, printer)
    indices = {axis: item.index for axis, item in enumerate(node.items) if isinstance(item, At)}
    if all(index.type.level != "batch" for index in indices.values()):
        return _show_for_all(node, indices, printer)
    if value.type.level != "batch":
        return _show_looked_up(node, indices, printer)
    return _show_taken(node, indices, printer)


def _show_for_all(node: Typed, indices: Mapping[int, Typed], printer: Printer) -> Printed:
    """The same indices for all environments: torch's own indexing."""
    (value,) = node.args
    batched = value.type.level == "batch"
    named = range(min(indices), value.type.rank) if batched else range(max(indices) + 1)
    texts = [printer.text(indices[axis]) if axis in indices else ":" for axis in named]
    return Printed(f"{printer.logical(value).at(ATOM)}[{', '.join([*(['...'] if batched else []), *texts])}]")


def _show_looked_up(node: Typed, indices: Mapping[int, Typed], printer: Printer) -> Printed:
    """The indices of each environment into one table for all: with its axes in front, as the batch is."""
    (value,) = node.args
    axes, rank = list(indices), _index_rank(indices.values())
    table = _moved(printer.logical(value), axes, range(len(axes)), value.type.rank)
    texts = [printer.aligned(index, rank).text for index in indices.values()]
    found = Printed(f"{table.at(ATOM)}[{', '.join(texts)}]")
    kept = value.type.rank - len(axes)
    return _moved(found, range(rank, rank + axes[0]), range(axes[0]), rank + kept) if rank else found


def _moved(printed: Printed, axes: Iterable[int], places: Iterable[int], rank: int) -> Printed:
    """The feature axes at other places; the rest stays in its order."""
    sources, targets = ([axis - rank for axis in given] for given in (axes, places))
    if sources == targets:
        return printed
    if len(sources) == 1:
        return method(printed, "movedim", str(sources[0]), str(targets[0]))
    return method(printed, "movedim", tuple_text(map(str, sources)), tuple_text(map(str, targets)))


def _show_fixed(node: Typed, printer: Printer) -> Printed:
    (value,) = node.args
    texts: list[str] = []
    sizes = iter(value.type.sizes)
    plain = True
    for item in node.items:
        if isinstance(item, NewAxis):
            texts.append("None")
            plain = False
            continue
        size = next(sizes)
        if isinstance(item, Cut) and item.whole(size):
            # `...` covers the whole dimensions at the front.
            if not plain or node.type.level != "batch":
                texts.append(":")
            continue
        texts.append(printer.index_item(item, size))
        plain = False
    if texts == ["None"] and node.type.level == "batch":
        return printer.behind(printer.logical(value), 1)
    front = ["..."] if node.type.level == "batch" else []
    return Printed(f"{printer.logical(value).at(ATOM)}[{', '.join([*front, *texts])}]")


def _index_rank(indices: Iterable[Typed]) -> int:
    return max(index.type.rank for index in indices)


def _show_taken(node: Typed, indices: Mapping[int, Typed], printer: Printer) -> Printed:
    """The indices of each environment into its own table: one position in the axes made one."""
    (value,) = node.args
    dims, axes = value.type.sizes, list(indices)
    first, used, rank = axes[0], len(axes), _index_rank(indices.values())
    left = len(dims) - first - used
    table = _moved(printer.logical(value), axes[1:], range(first + 1, first + used), len(dims))
    if used > 1:
        ends = (str(-left - used),) if left == 0 else (str(-left - used), str(-left - 1))
        table = method(table, "flatten", *ends)
    linear = _linear(list(indices.values()), [dims[axis] for axis in axes], rank, printer)
    if rank > 1:
        linear = method(linear, "flatten", str(-rank))
    dim = -1 - left
    if rank and first:
        places = ", ".join([*["None"] * first, ":", *["None"] * left])
        index = Printed(f"{linear.at(ATOM)}[..., {places}]")
    else:
        index = printer.behind(linear, left if rank else first + 1 + left)
    if first or left:
        # `gather` takes an index for each element
        kept = [printer.size(size) for axis, size in enumerate(dims) if axis not in indices]
        sizes = (*kept[:first], "-1" if rank else "1", *kept[first:])
        index = method(index, "expand", f"*{printer.batch_shape()}", *sizes)
    taken = gathered(printer, table, dim, index)
    if rank == 0:
        return method(taken, "squeeze", str(dim))
    shape: Dims = node.type.sizes[first : first + rank]
    return printer.call("torch.unflatten", taken.text, str(dim), printer.shape(shape)) if rank > 1 else taken


def _linear(indices: Sequence[Typed], sizes: Sequence[Dim], rank: int, printer: Printer) -> Printed:
    """The position in the flattened dimensions."""
    total = printer.aligned(indices[0], rank)
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        here = printer.aligned(index, rank)
        total = Printed(f"{total.at(MUL)} * {printer.size(size)} + {here.at(ADD + 1)}", ADD)
    return total


def _reference(np: Any, value: Any, items: tuple[Any, ...]) -> Any:
    sizes = iter(np.shape(value))
    for item in items:
        if item is ...:
            break  # what stands behind is no computed index
        size = 1 if item is None else next(sizes)
        if isinstance(item, np.ndarray | np.generic):
            checked_reference(np, item, size)
    return value[items]


INDEX = Builtin(
    name="[]",
    form="x[i, a:b, None]",
    family="index",
    doc="Elements of `x`: at fixed positions, in slices, and with `None` a new dimension that broadcasts. A computed "
    "index is an integer expression that is proven in range, on any axis: `table[i, j]`, `x[:, i]`. Its dimensions "
    "take the place of the axis; several computed indices go together, element by element, and those with dimensions "
    "stand side by side.",
    params=(Param("x"),),
    infer=lambda site: infer_index(site, ()),
    interval=ranges.same,
    torch=show_index,
    reference=_reference,
)
