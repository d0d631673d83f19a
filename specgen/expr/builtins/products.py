"""Products of vectors and matrices, `one_hot` and `gather`."""

from __future__ import annotations

from typing import Any

from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site, highest
from specgen.expr.conversions import convert
from specgen.expr.dtypes import is_int
from specgen.expr.interval import Interval
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.ranges import multiply, sums
from specgen.expr.sizes import Dim, Dims, Sym, at_most, limits
from specgen.expr.types import Type, Typed
from specgen.precedence import ATOM, MUL
from specgen.values import replace


def _infer_product(site: Site) -> Typed | None:
    a, b = site.values
    dtype = site.joined(site.values)
    if dtype is None:
        return None
    left, right = a.type.sizes, b.type.sizes
    written = f"`{site.written(a)}` is {a.type} and `{site.written(b)}` is {b.type}"
    only_vectors = site.builtin.name == "dot"
    if not (len(left) in (1, 2) and len(right) in (1, 2)) or (
        only_vectors and (len(left), len(right)) != (1, 1)
    ):
        kinds = "two vectors" if only_vectors else "vectors and matrices"
        site.fail(rules.SHAPE_MISMATCH, f"`{site.builtin.name}` is for {kinds}: {written}")
        return None
    if left[-1] != right[0]:
        site.fail(rules.SHAPE_MISMATCH, f"the inner dimensions {left[-1]} and {right[0]} differ: {written}")
        return None
    dims: Dims = (*left[:-1], *right[1:])
    return site.node(Type(dtype, dims, highest(site.values)), site.cast(site.values, dtype))


def _show_product(node: Typed, printer: Printer) -> Printed:
    a, b = node.args
    left, right = printer.logical(a), printer.logical(b)
    match a.type.rank, b.type.rank:
        case 1, 1:
            return Printed(f"({left.at(MUL)} * {right.at(MUL + 1)}).sum(dim=-1)")
        case 2, 1:
            return Printed(f"({left.at(MUL)} @ {right.at(ATOM)}.unsqueeze(-1)).squeeze(-1)")
        case 1, 2:
            return Printed(f"({left.at(ATOM)}.unsqueeze(-2) @ {right.at(MUL + 1)}).squeeze(-2)")
        case _:
            return Printed(f"{left.at(MUL)} @ {right.at(MUL + 1)}", MUL)


def _infer_outer(site: Site) -> Typed | None:
    a, b = site.values
    dtype = site.joined(site.values)
    if dtype is None:
        return None
    if a.type.rank != 1 or b.type.rank != 1:
        written = f"`{site.written(a)}` is {a.type} and `{site.written(b)}` is {b.type}"
        site.fail(rules.SHAPE_MISMATCH, f"`outer` is for two vectors: {written}")
        return None
    dims: Dims = (*a.type.sizes, *b.type.sizes)
    return site.node(Type(dtype, dims, highest(site.values)), site.cast(site.values, dtype))


def _show_outer(node: Typed, printer: Printer) -> Printed:
    column, row = (printer.logical(arg) for arg in node.args)
    left, right = method(column, "unsqueeze", "-1"), method(row, "unsqueeze", "-2")
    return Printed(f"{left.text} * {right.text}", MUL)


def _product_range(args: tuple[Interval, ...], node: Typed) -> Interval:
    one = multiply(args, node)
    return sums(one.with_nan(one.nan or not one.bounded), node.args[0].type.sizes[-1:], node.type.dtype)


def in_range(site: Site, index: Typed, size: Dim, what: str, instead: str | None = None) -> Typed | None:
    """`index` as int64 in `[0, size)` whatever the values are; None when it was reported that it is not.

    Where a section asks for no proof, an index without one is checked when the code runs. `instead` is what to write for
    one that may lie outside, if that is not a clip.
    """
    text = site.written(index)
    if not is_int(index.type.dtype):
        help = f"write int64({text})" if index.type.dtype != "bool" else f"write where({text}, …, …)"
        if index.type.dtype == "bool" and index.type.dims:
            help = f"the class of a one-hot is argmax({text})"
        site.fail(rules.WRONG_DTYPE, f"`{text}` is {index.type}; an index is an integer", at=index, help=help)
        return None
    low, high = index.interval.low, index.interval.high
    whole = index if index.type.python else convert(index, "int64")
    if index.interval.index_of(size):
        return whole
    if not site.context.prove and not index.type.python:
        return replace(
            whole, op="in_range", interval=Interval.indices(size), args=(whole,), options={"size": size}
        )
    outside = high < 0 or low > limits(size)[1] - 1
    verb = "is" if outside else "can be"
    worst = low if low < 0 else high
    shown = f" {verb} {int(worst)}" if abs(worst) < 2**31 else " can be anything"
    named = index.interval.known_size
    if isinstance(named, Sym) and (limits(named)[1] < 0 or at_most(size, named)):
        help = "the first one is 0" if limits(named)[1] < 0 else f"the last one is {size - 1}"
        message = f"`{text}` is outside 0 to {size - 1} of {what}"
        site.fail(rules.INDEX_UNPROVEN, message, at=index, help=help)
        return None
    message = f"`{text}`{shown}, outside 0 to {size - 1} of {what}"
    known = f"size({site.written(site.values[0])}) - 1" if isinstance(size, Sym) else size - 1
    help = f"wrap it: clip({text}, 0, {known})"
    if site.builtin.name == "one_hot" and low >= 0 and high < _MANY:
        help = f"write one_hot({text}, {int(high) + 1}), for all of its classes"
    elif instead is not None and not outside:
        help = instead
    site.fail(rules.INDEX_UNPROVEN, message, at=index, help=help)
    return None


_MANY = 1000
"""So many classes that a table of another size was meant."""


def _infer_one_hot(site: Site) -> Typed | None:
    (index,) = site.values
    count = site.options["n"]
    assert isinstance(count, Typed)
    size = count.interval.known_size
    if size is None or limits(size)[0] < 1:
        site.fail(
            rules.WRONG_ARGUMENTS,
            "the number of classes must be a whole number from 1, known at build",
            at=count,
        )
        return None
    if index.type.python:
        text = site.written(index)
        message = f"`{text}` is a number, not a value of each environment"
        help = f"write int64(arange({site.written(count)}) == {text})"
        site.fail(rules.WRONG_ARGUMENTS, message, at=index, help=help)
        return None
    proven = in_range(site, index, size, "the classes")
    if proven is None:
        return None
    dims = (*index.type.dims, size)
    return site.node(Type("int64", dims, index.type.level), (proven,), n=count)


def _show_one_hot(node: Typed, printer: Printer) -> Printed:
    index = printer.logical(node.args[0]).text
    return printer.call("torch.nn.functional.one_hot", index, printer.size(node.type.back[-1]))


def _infer_gather(site: Site) -> Typed | None:
    x, index = site.values
    axis = site.options["axis"]
    if x.type.open or not x.type.dims or index.type.open or index.type.python or x.type.python:
        message = "`gather` takes an array of known rank and a computed index"
        site.fail(rules.WRONG_ARGUMENTS, message, help="a fixed index is written x[0]")
        return None
    assert isinstance(axis, int)
    kept = (*x.type.dims[:axis], *x.type.dims[axis + 1 :])
    if index.type.dims != kept:
        written = f"`{site.written(index)}` is {index.type} and `{site.written(x)}` is {x.type}"
        message = f"one index is needed for each place off axis {axis}, of shape {list(kept)}: {written}"
        site.fail(rules.SHAPE_MISMATCH, message)
        return None
    proven = in_range(site, index, x.type.sizes[axis], f"axis {axis}")
    if proven is None:
        return None
    kind = Type(x.type.dtype, kept, highest(site.values))
    return site.node(kind, (x, proven), axis=axis)


def _show_gather(node: Typed, printer: Printer) -> Printed:
    x, index = node.args
    axis = node.options["axis"]
    assert isinstance(axis, int)
    dim = axis - x.type.rank
    if node.type.level == "batch":
        table = printer.filled(x, x.type.dtype, x.type.sizes)
        chosen = printer.filled(index, "int64", index.type.sizes)
    else:
        table, chosen = printer.logical(x), printer.logical(index)
    if x.type.axes != index.type.axes:
        # torch gathers with an index for each member of an ensemble
        chosen = method(chosen, "expand", f"len({table.text})", f"*{chosen.text}.shape")
    return method(gathered(printer, table, dim, method(chosen, "unsqueeze", str(dim))), "squeeze", str(dim))


def gathered(printer: Printer, table: Printed, dim: int, index: Printed) -> Printed:
    """`torch.gather`, which raises for an index out of range: `take_along_dim` takes it modulo the size."""
    return printer.call("torch.gather", table.text, str(dim), index.text)


def checked_reference(np: Any, index: Any, size: int) -> Any:
    """`index`, if all of it is in `[0, size)`: NumPy counts negative ones from the end."""
    wrong = [int(one) for one in np.asarray(index).reshape(-1) if not 0 <= one < size]
    if wrong:
        raise IndexError(f"index {wrong[0]} is out of bounds for a dimension with size {size}")
    return index


def _one_hot_reference(np: Any, index: Any, n: int) -> Any:
    return (checked_reference(np, np.asarray(index), n)[..., None] == np.arange(n)).astype(np.int64)


def _gather_reference(np: Any, x: Any, index: Any, axis: int) -> Any:
    checked_reference(np, index, x.shape[axis])
    return np.take_along_axis(x, np.expand_dims(index, axis), axis).squeeze(axis)


_PAIR = (Param("a"), Param("b"))
_MATMUL = "The matrix product: of two vectors a number, of a matrix and a vector a vector, of two matrices a matrix."


def _product(name: str, form: str, doc: str) -> Builtin:
    return Builtin(
        name=name,
        form=form,
        family="product",
        doc=doc,
        params=_PAIR,
        infer=_infer_product,
        interval=_product_range,
        torch=_show_product,
        reference=lambda np, a, b: np.matmul(a, b),
        agreement="ulp",
    )


PRODUCTS: tuple[Builtin, ...] = (
    _product("@", "a @ b", _MATMUL),
    _product("matmul", "matmul(a, b)", f"`a @ b`. {_MATMUL}"),
    _product("dot", "dot(a, b)", "The sum of the products of two vectors."),
    Builtin(
        name="outer",
        family="product",
        doc="Each element of one vector times each of another: a matrix with a row for each element of `a`.",
        params=_PAIR,
        infer=_infer_outer,
        interval=multiply,
        torch=_show_outer,
        reference=lambda np, a, b: np.multiply.outer(a, b),
    ),
    Builtin(
        name="one_hot",
        family="index",
        doc="int64 vectors of `n` with a 1 at the index, along a new last axis; the index is proven in range.",
        params=(Param("index"), Param("n", "int")),
        infer=_infer_one_hot,
        interval=lambda args, node: Interval(0, 1),
        torch=_show_one_hot,
        reference=_one_hot_reference,
    ),
    Builtin(
        name="gather",
        family="index",
        doc="The element of `x` at the index along an axis, for each place of the other axes: the value of the "
        "action taken is `gather(values, action)`. The index is proven in range.",
        params=(Param("x"), Param("index"), Param("axis", "axis", -1)),
        infer=_infer_gather,
        interval=lambda args, node: args[0],
        torch=_show_gather,
        reference=_gather_reference,
    ),
)
