"""The printing of typed trees as torch for any leading batch dimensions: vmap, at compile time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, cast

from specgen.code import value_code
from specgen.expr.dtypes import is_float
from specgen.expr.sizes import Dim, Dims, Sym
from specgen.expr.types import At, Cut, IndexItem, NewAxis, Static, Type, Typed
from specgen.precedence import ATOM, UNARY
from specgen.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class Printed:
    """Python text and the precedence of its outermost operator; `expanded` where its rows are one in memory."""

    text: str
    precedence: int = ATOM
    expanded: bool = False

    def at(self, floor: int) -> str:
        """The text, in parentheses when it binds less than `floor`."""
        return f"({self.text})" if self.precedence < floor else self.text


def method(receiver: Printed, name: str, *args: str) -> Printed:
    """`receiver.name(args)`."""
    return Printed(f"{receiver.at(ATOM)}.{name}({', '.join(args)})")


def tuple_text(items: Iterable[str]) -> str:
    """`(a,)`, `(a, b)`."""
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


_LARGE: Final = 2**13
"""From so many elements on, memory is worth reusing."""
_NAMED: Final = {"0": "zeros", "0.0": "zeros", "False": "zeros", "1": "ones", "1.0": "ones", "True": "ones"}
"""Values that torch has a function for."""


class FunctionTexts:
    """What the expressions of one function share: the names that they read of its module, and of batch shapes.

    Attributes:
        uses: The names of the module that were printed, such as `torch`, `math`, functions and records.
        shape_names: The variables that hold batch shapes, by the tensor that they are of.
        shape_reads: How often each tensor's batch shape was read.
        reuse: Whether large values are computed in the memory of what nobody reads again.
        spent: The variables that the statement reads once and for the last time, of tensors that nothing else shares.

    """

    def __init__(self, shape_names: Mapping[str, str] | None = None, *, reuse: bool = False) -> None:
        self.uses: set[str] = set()
        self.shape_names = shape_names or {}
        self.shape_reads: Counter[str] = Counter()
        self.reuse = reuse
        self.spent: set[str] = set()

    def batch_shape(self, tensor: str, stored: int) -> str:
        """The batch shape of a tensor with so many `stored` dimensions behind it: `x.shape[:-1]`."""
        self.shape_reads[tensor] += 1
        return self.shape_names.get(tensor) or f"{tensor}.shape" + (f"[:-{stored}]" if stored else "")

    def call(self, function: str, *args: str) -> Printed:
        """`function(args)`, of a function of the module or of a module that it imports."""
        self.uses.add(function.partition(".")[0])
        return Printed(f"{function}({', '.join(args)})")

    def dtype(self, dtype: str) -> str:
        """`torch.float32`."""
        self.uses.add("torch")
        return f"torch.{dtype}"

    def static(self, value: Static) -> Printed:
        """A Python number, bool or enum member as source text."""
        code = value_code(value)
        self.uses |= code.uses
        return Printed(code.text, UNARY if code.text.startswith("-") else ATOM)

    def full_like(self, like: str, value: str, dtype: str | None = None) -> Printed:
        """`torch.full_like(like, value, dtype=dtype)`, or the shorter function that there is for the value."""
        args = [like] if value in _NAMED else [like, value]
        args += [] if dtype is None else [f"dtype={self.dtype(dtype)}"]
        return self.call(f"torch.{_NAMED.get(value, 'full')}_like", *args)


class Printer:
    """Prints one expression.

    Args:
        root: The expression; its names tell the batch shape and the device where a number must
            become a tensor.
        like: The tensor to take them from, for expressions that read none.
        texts: What it shares with other expressions of the function around it.

    """

    def __init__(self, root: Typed, like: Typed | None = None, texts: FunctionTexts | None = None) -> None:
        self.texts = texts or FunctionTexts()
        self._root, self._like = root, like

    @cached_property
    def _all_leaves(self) -> list[Typed]:
        """The values that the expression reads."""
        read = (node for node in self._root.nodes if node.op in ("name", "site") and node.static is None)
        return [node for node in read if not node.several]

    @cached_property
    def _leaves(self) -> list[Typed]:
        """Those that tell rows and device."""
        tensors = list(filter(_is_witness, self._all_leaves))
        # What may be missing tells a shape only where nothing else does.
        leaves = [leaf for leaf in tensors if not leaf.options.get("optional")] or tensors
        if self._like is None or any(leaf.type.level == "batch" for leaf in leaves):
            return leaves
        return [*leaves, self._like]

    def show(self, node: Typed) -> Printed:
        """The node in its own layout: `(*batch, *dims)`, and a trailing 1 if it is `col`."""
        match node.op:
            case "literal" | "name":
                return self._leaf(node)
            case "site":
                return Printed(node.text)
            case "cast" if "dtype" not in node.options:
                return self._cast(node)
            case "in_range":
                size = cast("Dim", node.options["size"])
                return self.call("index_in_range", self.text(node.args[0]), self.size(size))
            case "spread":
                return self._spread(node)
            case "among":
                return method(self.show(node.args[0]), "unsqueeze", str(node.options["place"]))
        if node.type.python and isinstance(node.static, bool | int):
            return self.texts.static(node.static)
        assert node.builtin is not None, node.op
        return node.builtin.torch(node, self)

    def call(self, function: str, *args: str) -> Printed:
        """`function(args)`, of a function of the module or of a module that it imports."""
        return self.texts.call(function, *args)

    def text(self, node: Typed, floor: int = 0) -> str:
        """The node's text, in parentheses when it binds less than `floor`."""
        return self.show(node).at(floor)

    def logical(self, node: Typed) -> Printed:
        """The node without the trailing 1 of `col`."""
        return method(self.show(node), "squeeze", "-1") if node.type.col else self.show(node)

    def aligned(self, node: Typed, rank: int | None, col: bool = False) -> Printed:
        """The node ready to broadcast against tensors of `rank` feature dimensions.

        Axes are put behind the batch dimensions, so that a scalar of each environment meets the
        features of the same environment. Numbers and tensors without batch stay as they are.
        """
        kind = node.type
        if kind.level != "batch" or kind.open or rank is None:
            return self.show(node)
        if kind.col and kind.rank == rank and not col:
            return self.logical(node)
        missing = rank + col - kind.rank - kind.col
        return self.behind(self.show(node), missing) if missing > 0 else self.show(node)

    def reuses(self, part: Typed, node: Typed) -> bool:
        """Whether the result of `node` can take the memory of an operand: that is large, and nobody else has it.

        To allocate memory for an image costs as much as to compute it.
        """
        kind = node.type
        own = is_made(part) or (part.op == "name" and part.text in self.texts.spent)
        return self.texts.reuse and own and part.type == kind and kind.level == "batch" and is_large(kind)

    def behind(self, printed: Printed, count: int) -> Printed:
        """`count` new axes at the end."""
        if count == 0:
            return printed
        if count == 1:
            return method(printed, "unsqueeze", "-1")
        return Printed(f"{printed.at(ATOM)}[..., {', '.join(['None'] * count)}]")

    def number(self, node: Typed, dtype: str) -> Printed:
        """A Python number for a function of tensors of `dtype`: `-2` prints as `-2.0` for floats."""
        if node.type.python and isinstance(node.static, int) and is_float(dtype):
            return self.texts.static(float(node.static))
        return self.show(node)

    def tensor(self, node: Typed, dtype: str, rank: int | None, col: bool = False) -> Printed:
        """The node as a tensor that broadcasts at `rank`; a number becomes one without dimensions."""
        if not node.type.python:
            return self.aligned(node, rank, col)
        return self._full("()", self.number(node, dtype).text, dtype)

    def filled(
        self, node: Typed, dtype: str, dims: Dims, col: bool = False, *, batch: bool = True
    ) -> Printed:
        """The node as a tensor of exactly batch + dims (+ 1), expanded where it is smaller.

        Without `batch` it is one of exactly `dims`, for operations on constants alone.
        """
        kind = node.type
        if kind.python:
            return self._filled_number(node, dtype, dims, col, batch)
        if kind.dims == dims and (kind.level == "batch" or not batch):
            if kind.col == col:
                return self.show(node)
            return self.logical(node) if kind.col else method(self.show(node), "unsqueeze", "-1")
        if kind.level == "batch" and kind.col and col and not kind.rank:
            # A flag of each environment for each of its agents: the trailing 1 stays where it is.
            feature = [*self.sizes(dims), "1"]
            printed = self.behind(self.show(node), len(dims))
        else:
            feature = self.sizes(dims)
            printed = self.aligned(node, len(dims))
            if kind.level == "batch" and kind.col and kind.rank < len(dims):
                printed = self.behind(self.logical(node), len(dims) - kind.rank)
        shape = self.batch_shape() if batch else None
        expanded = shape is not None or bool(dims)
        if shape is not None and not feature:
            # One argument, not unpacked: the batch may have no dimensions either.
            printed = method(printed, "expand", shape)
        elif expanded:
            printed = method(printed, "expand", *([] if shape is None else [f"*{shape}"]), *feature)
        if col and len(feature) == len(dims):
            printed = method(printed, "unsqueeze", "-1")
        return replace(printed, expanded=expanded)

    def batch_shape(self) -> str | None:
        """The text of the batch shape, `th.shape`; None when nothing read has batch dimensions."""
        leaf = self._batch_leaf()
        if leaf is None:
            return None
        return self.texts.batch_shape(leaf.text, leaf.type.rank + leaf.type.col)

    def device(self) -> str:
        """`x.device` of a tensor that is read; "" when none is."""
        leaf = self._batch_leaf() or next((one for one in self._leaves if not one.type.python), None)
        return f"{leaf.text}.device" if leaf is not None else ""

    def constant(self, function: str, *args: str, dtype: str) -> Printed:
        """`torch.function(args, dtype=…, device=…)`."""
        placed = f", device={device}" if (device := self.device()) else ""
        return self.call(f"torch.{function}", *args, f"dtype={self.texts.dtype(dtype)}{placed}")

    def _batch_leaf(self) -> Typed | None:
        batched = [leaf for leaf in self._leaves if leaf.type.level == "batch"]
        # A tensor without feature dimensions has the batch shape itself: the shortest text.
        return min(batched, key=lambda leaf: leaf.type.rank + leaf.type.col, default=None)

    def _filled_number(self, node: Typed, dtype: str, dims: Dims, col: bool, batch: bool) -> Printed:
        value = self.number(node, dtype).text
        for leaf in self._leaves:
            kind, same = leaf.type, leaf.type.dtype == dtype
            if batch and kind.level == "batch" and (kind.dims, kind.col) == (dims, col):
                return self.texts.full_like(leaf.text, value, None if same else dtype)
        feature = [*self.sizes(dims), *(["1"] if col else [])]
        shape = self.batch_shape() if batch else None
        if shape is not None:
            whole = tuple_text([f"*{shape}", *feature]) if feature else shape
        else:
            whole = tuple_text(feature) if feature else "()"
        return self._full(whole, value, dtype)

    def _full(self, shape: str, value: str, dtype: str) -> Printed:
        if value in _NAMED:
            return self.constant(_NAMED[value], shape, dtype=dtype)
        return self.constant("full", shape, value, dtype=dtype)

    def size(self, size: Dim) -> str:
        """A dimension as a number: of a tensor that has it, or the name of an argument that is it.

        Raises:
            SizeUnknown: If neither is read by the expression.
        """
        if isinstance(size, int):
            return str(size)
        if (found := self._measured(size)) is not None:
            return found
        terms = []
        for names, count in size.terms:
            known = [self._measured(Sym.named(name)) for name in names]
            if None in known:
                raise SizeUnknown(size)
            terms.append(
                " * ".join([*([str(count)] if count != 1 or not names else []), *filter(None, known)])
            )
        return " + ".join(terms)

    def end(self, end: Dim, size: Dim) -> str:
        """The end of a slice in a dimension of `size`; one that lies so many elements before its end counts from there."""
        behind = end - size
        return self.size(behind if isinstance(behind, int) and not isinstance(end, int) else end)

    def index_item(self, item: IndexItem, size: Dim) -> str:
        """An item of an index, which stands at a dimension of `size`."""
        if isinstance(item, At):
            return self.text(item.index)
        if not isinstance(item, Cut):
            return "None" if isinstance(item, NewAxis) else "..."
        step = f":{item.step}" if item.step != 1 else ""
        start = "" if item.start == 0 else self.end(item.start, size)
        return f"{start}:{'' if item.stop == size else self.end(item.stop, size)}{step}"

    def _measured(self, size: Dim) -> str | None:
        for leaf in self._all_leaves:
            if leaf.type.python:
                if leaf.interval.size == size:
                    return leaf.text
                continue
            back = leaf.type.back
            for place, own in enumerate(back):
                if own == size:
                    return f"{leaf.text}.shape[{place - len(back) - leaf.type.col}]"
        return None

    def shape(self, dims: Dims) -> str:
        """Dimensions as a tuple of numbers."""
        return tuple_text(self.sizes(dims))

    def sizes(self, dims: Dims) -> list[str]:
        """Dimensions as numbers."""
        return [self.size(size) for size in Type("any", dims).sizes]

    def _spread(self, node: Typed) -> Printed:
        rank, more = node.options["rank"], node.options["more"]
        assert isinstance(rank, Typed)
        assert isinstance(more, int)
        count = self.text(rank) if not more else f"({self.text(rank)} {'+' if more > 0 else '-'} {abs(more)})"
        return Printed(f"{self.logical(node.args[0]).at(ATOM)}[(..., *(None,) * {count})]")

    def _leaf(self, node: Typed) -> Printed:
        number = node.op == "name" and node.symbol is None and node.static is not None
        if number and node.text:
            self.texts.uses.add("math")
        elif node.static is not None and (node.op != "literal" or not node.text):
            return self.texts.static(node.static)
        if node.several:
            return Printed(f"*{node.text}")
        return Printed(node.text, UNARY if node.text.startswith("-") else ATOM)

    def _cast(self, node: Typed) -> Printed:
        (inner,) = node.args
        dtype = node.type.dtype
        if not node.type.python:
            return method(self.show(inner), "to", self.texts.dtype(dtype))
        if node.static is not None:
            return self.texts.static(node.static)
        python = "float" if is_float(dtype) else "bool" if dtype == "bool" else "int"
        same = python == "float" and is_float(inner.type.dtype)
        return self.show(inner) if same else self.call(python, self.text(inner))


def _is_witness(leaf: Typed) -> bool:
    """Whether a leaf is a tensor, and never None, so that it tells rows and device."""
    return not (leaf.type.open or leaf.type.python or leaf.options.get("absent"))


def is_made(node: Typed) -> bool:
    """Whether the text of a node makes a tensor of its own, whose values its gradient does not need."""
    if node.op == "cast":
        return not node.type.python and node.args[0].type.dtype != node.type.dtype
    return node.op in ("+", "-", "*", "/") and not node.type.python


def is_large(kind: Type) -> bool:
    """Whether memory for a value is worth reusing."""
    known = not kind.open and all(isinstance(size, int) for size in kind.sizes)
    return known and math.prod(kind.shape) >= _LARGE


class SizeUnknown(Exception):  # noqa: N818 - it is reported where the expression is checked
    """A size is needed as a number that nothing in the expression tells."""
