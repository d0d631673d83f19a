"""The short form of types: `float32[3] in [-1, 1]`, `categorical(4)`, `like(x)`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NoReturn, cast

from specgen.diagnostics import Rule, Sink
from specgen.diagnostics.rules import specs as rules
from specgen.expr.dtypes import ABSTRACT, CONCRETE, is_float, is_int
from specgen.expr.interval import ANYTHING, Interval, full, store
from specgen.expr.numbers import Cursor, NotANumber, number, size
from specgen.expr.parser import parse
from specgen.expr.sizes import ANY_DIMS, Dim, Dims, Rest, Sizes, Sym, limits
from specgen.expr.source_text import Excerpt, SourceText
from specgen.expr.spec_limits import (
    MAX_ELEMENTS,
    Bound,
    classes_fault,
    domain_fault,
    flatten,
    has_shape,
    number_fault,
)
from specgen.expr.tree import Expr
from specgen.expr.type_hints import NAMED_BOUNDS, bounds_in, meant_dtype, meant_type, named_bounds
from specgen.expr.types import Level, Type
from specgen.values import dataclass, replace

SpecKind = Literal[
    "bounded", "unbounded", "categorical", "onehot", "multi_categorical", "multi_onehot", "binary", "text",
    "object", "pattern", "like",
]  # fmt: skip

_DEFAULT_DTYPE: Final = {
    "categorical": "int64",
    "multi_categorical": "int64",
    "onehot": "bool",
    "multi_onehot": "bool",
    "binary": "int8",
    "text": "str",
}
_KINDS: Final = (*CONCRETE, *_DEFAULT_DTYPE, *ABSTRACT, "like")
_COUNTED: Final = ("categorical", "onehot", "multi_categorical", "multi_onehot")


@dataclass(frozen=True, slots=True)
class SpecType:
    """A type: what a key holds.

    Attributes:
        kind: The kind of spec; `object` for Python objects, `pattern` for the patterns of transforms, `like` for another key's type.
        dtype: A dtype, or a pattern's `float | number | any`.
        shape: The shape as written: numbers, and in patterns named sizes and `...`.
        low: The lower bound, a number or nested tuples; None when there is none.
        high: The upper bound.
        n: How many values a `categorical`, `onehot` or `binary` has.
        nvec: How many values each of the `multi_` kinds has.
        like: The expression whose type this is, as written; a key is one, too.
        like_expr: Its tree, whose offsets are those in `like`.
        bounded: Whether a pattern asks for finite bounds on both sides, `in bounded`.

    """

    kind: SpecKind
    dtype: str
    shape: Dims = ()
    low: Bound | None = None
    high: Bound | None = None
    n: Dim | None = None
    nvec: Sizes = ()
    like: str | None = None
    like_expr: Expr | None = None
    bounded: bool = False

    @property
    def dims(self) -> Dims:
        """The feature dimensions of the tensor: what a one-hot or multi kind adds is in them."""
        if self.kind == "onehot":
            return (*self.shape, self.n or 0)
        if self.kind in ("multi_categorical", "multi_onehot"):
            if any(isinstance(count, Sym) for count in self.nvec):
                return (*self.shape, Sym.named("_"))  # one count for all choices, however many there are
            return (*self.shape, len(self.nvec) if self.kind == "multi_categorical" else sum(self.counts))
        return self.shape

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values each of the `multi_` kinds has, where that is known."""
        assert all(isinstance(count, int) for count in self.nvec), self
        return cast("tuple[int, ...]", self.nvec)

    @property
    def classes(self) -> int:
        """How many values a `categorical`, `onehot` or `binary` has, where that is known."""
        assert self.n is None or isinstance(self.n, int), self
        return self.n or 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as written, of a spec that says all there is to say."""
        return Type("any", self.shape).shape

    @property
    def interval(self) -> Interval:
        """The values that any element can take."""
        if self.kind == "categorical":
            return Interval.indices(self.n or 1)
        if self.kind == "multi_categorical":
            return Interval(0, max(limits(count)[1] for count in self.nvec) - 1)
        if self.kind in ("onehot", "multi_onehot", "binary"):
            return Interval(0, 1)
        if self.low is None or self.high is None:
            return full(self.dtype) if self.dtype in CONCRETE else ANYTHING
        low, high = min(flatten(self.low)), max(flatten(self.high))
        return store(Interval(low, high), self.dtype)

    def type(self, level: Level = "batch", *, col: bool = False) -> Type:
        """The type that an expression reading such a key has."""
        return Type(self.dtype, self.dims, level, col)

    def __str__(self) -> str:
        if self.like is not None:
            return f"like({self.like})"
        return f"{Type(self.dtype, self.dims)}{' in bounded' if self.bounded else ''}"


def parse_type(
    source: SourceText, sink: Sink, dims: Mapping[str, Dim] | None = None, *, patterns: bool = True
) -> SpecType | None:
    """The type that `source` writes, or None when `sink` got the reasons why there is none.

    Args:
        source: The text of the type.
        sink: Takes the mistakes.
        dims: The named dimensions, for shapes and bounds.
        patterns: Whether it may be a pattern: names that are no dimension stand for sizes of their own, and `float`
            may be suggested.

    """
    cursor = Cursor.of(source, sink, dims or {})
    if cursor is None:
        return None
    try:
        return _Parser(cursor, source, sink, patterns).whole()
    except NotANumber:
        return None


class _Parser:
    def __init__(self, cursor: Cursor, source: SourceText, sink: Sink, patterns: bool) -> None:
        self._cursor = cursor
        self._source = source
        self._sink = sink
        self._patterns = patterns

    def whole(self) -> SpecType:
        cursor = self._cursor
        token = cursor.take()
        name = token.text
        if token.kind != "name" or name not in _KINDS:
            end, written = token.end, name
            while token.kind == "name" and cursor.accept("."):  # torch.float32
                end = cursor.take().end
                written = self._source.text[token.start : end]
            help = (
                meant_type(written, self._source.text[token.start :], patterns=self._patterns)
                if token.kind == "name"
                else None
            )
            what = f"`{written}` is not a type" if name else "a type is missing"
            self._stop(rules.NOT_A_TYPE, token.start, end, what, help or "such as float32[3] in [-1, 1]")
        if name == "like":
            return self._like()
        dtype = _DEFAULT_DTYPE.get(name, name)
        counts: Sizes = ()
        if cursor.peek.text == "(":
            counts, dtype = self._counts(name, dtype)
        elif name in _COUNTED:
            example = f"{name}(3, 2)" if name.startswith("multi") else f"{name}(4)"
            message = f"`{name}` needs to know how many values there are"
            self._stop(rules.NOT_A_TYPE, token.start, token.end, message, f"write {example}")
        shape = self._shape() if cursor.peek.text == "[" else ()
        low: Bound | None = None
        high: Bound | None = None
        bounded = self._patterns and cursor.peek.text == "in" and cursor.after.text == "bounded"
        if bounded:
            cursor.take(), cursor.take()
        elif cursor.peek.text == "in":
            low, high = self._domain(name, dtype, shape)
        rest = cursor.peek
        if rest.kind != "end":
            message = f"expected the end of the type before `{rest.text}`"
            bounds = bounds_in(self._source.text, rest.start, name)
            self._stop(rules.NOT_A_TYPE, rest.start, rest.end, message, bounds)
        made = self._made(name, dtype, counts, shape, low, high)
        if bounded:
            made = replace(made, kind="pattern", bounded=True)
        count = math.prod(size for size in made.dims if isinstance(size, int))
        if count > MAX_ELEMENTS:
            message = f"one value would have {count} elements"
            self._stop(rules.BAD_SHAPE, token.start, cursor.last.end, message)
        return made

    def _made(
        self, name: str, dtype: str, counts: Sizes, shape: Dims, low: Bound | None, high: Bound | None
    ) -> SpecType:
        if name == "categorical":
            return SpecType("categorical", dtype, shape, n=counts[0])
        if name == "onehot":
            return SpecType("onehot", dtype, shape, n=counts[0])
        if name == "multi_categorical":
            return SpecType("multi_categorical", dtype, shape, nvec=counts)
        if name == "multi_onehot":
            return SpecType("multi_onehot", dtype, shape, nvec=counts)
        if name == "binary":
            return SpecType("binary", dtype, shape, n=_last(shape))
        if name == "text":
            return SpecType("text", dtype, shape)
        if name in ABSTRACT or not all(isinstance(size, int) for size in shape):
            return SpecType("pattern", dtype, shape, low, high)
        kind: SpecKind = "unbounded" if low is None else "bounded"
        if name == "bool":
            return SpecType("binary", dtype, shape, n=_last(shape))
        return SpecType(kind, dtype, shape, low, high)

    def _like(self) -> SpecType:
        cursor = self._cursor
        opening = cursor.expect("(")
        depth = 1
        while depth and cursor.peek.kind != "end":
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(cursor.take().text, 0)
        if depth:
            cursor.fail(opening, "`(` is not closed", "add the missing `)`")
        closing = cursor.last
        inside = Excerpt(self._source, opening.end, closing.start)
        expr = parse(inside, self._sink)
        if expr is None:
            raise NotANumber
        if cursor.peek.kind != "end":
            rest = cursor.peek
            self._stop(
                rules.NOT_A_TYPE, rest.start, rest.end, f"expected the end of the type before `{rest.text}`"
            )
        return SpecType("like", "any", ANY_DIMS, like=inside.text, like_expr=expr)

    def _counts(self, name: str, dtype: str) -> tuple[Sizes, str]:
        cursor = self._cursor
        opening = cursor.take()
        counts: list[Dim] = []
        if name not in (*_COUNTED, "binary"):
            message = f"`{name}` takes nothing in parentheses"
            self._stop(rules.NOT_A_TYPE, opening.start, opening.end, message, f"a shape is written {name}[3]")
        while cursor.peek.text != ")":
            if cursor.peek.text == "dtype" and cursor.after.text == "=":
                cursor.take(), cursor.take()
                token = cursor.take()
                if token.text not in CONCRETE:
                    message = f"`{token.text}` is not a dtype"
                    help = meant_dtype(token.text)
                    self._stop(rules.NOT_A_TYPE, token.start, token.end, message, help)
                dtype = token.text
                cursor.accept(",")
                break
            counts.append(self._size("a number of values"))
            if not cursor.accept(","):
                break
        closing = cursor.expect(")")
        if name == "binary":
            if counts:
                message = "`binary` takes no number, only a dtype, in parentheses"
                help = f"a shape is written binary[{', '.join(map(str, counts))}]"
                self._stop(rules.NOT_A_TYPE, opening.start, closing.end, message, help)
        elif not counts or (len(counts) > 1 and not name.startswith("multi")):
            message = f"`{name}` takes {'at least one number' if not counts else 'one number'}"
            if not counts and not name.startswith("multi"):
                message = f"`{name}` takes one number"
            help = f"did you mean multi_{name}?" if counts else None
            self._stop(rules.NOT_A_TYPE, opening.start, closing.end, message, help)
        elif name.endswith("categorical") and (why := classes_fault(_numbers(counts), dtype)):
            self._stop(rules.CLASSES_OUTSIDE_DTYPE, opening.start, closing.end, why)
        return tuple(counts), dtype

    def _shape(self) -> Dims:
        cursor = self._cursor
        opening = cursor.expect("[")
        dims: list[Dim | Rest] = []
        while cursor.peek.text != "]":
            word = cursor.peek
            if word.text in NAMED_BOUNDS and cursor.after.text == "=":
                help = named_bounds(self._source.text, opening.start, word.start)
                message = f"`{word.text}` is a bound, and dimensions stand here"
                self._stop(rules.NOT_A_TYPE, word.start, cursor.after.end, message, help)
            if word.text == "...":
                dims.append(self._rest(first=not dims))
            else:
                dims.append(self._size("a dimension", bounds_in(self._source.text, opening.start)))
            if not cursor.accept(","):
                break
        cursor.expect("]")
        return tuple(dims)

    def _rest(self, *, first: bool) -> Rest:
        cursor = self._cursor
        dots = cursor.take()
        if not first:
            message = "`...` stands in front of the dimensions that are named"
            self._stop(rules.BAD_SHAPE, dots.start, dots.end, message)
        token = cursor.peek
        if token.kind == "name" and token.start == dots.end:
            return Rest(cursor.take().text)
        return Rest()

    def _size(self, what: str, bounds: str | None = None) -> Dim:
        cursor = self._cursor
        start, token = cursor.peek.start, cursor.peek
        new = self._patterns and token.kind == "name" and token.text not in cursor.dims
        if new and cursor.after.text in (",", "]", ")"):
            made = Sym.named(cursor.take().text)
            cursor.dims = {**cursor.dims, token.text: made}
            return made
        value = size(cursor)
        if isinstance(value, float) or limits(value)[1] < 1:
            message = f"{what} is a positive whole number, not {value}"
            quotient = isinstance(value, float) and "/" in self._source.text[start : cursor.last.end]
            help = "write `//` for a whole quotient" if quotient else bounds
            self._stop(rules.BAD_SHAPE, start, cursor.last.end, message, help)
        return value

    def _domain(self, name: str, dtype: str, shape: Dims) -> tuple[Bound, Bound]:
        cursor = self._cursor
        word = cursor.take()
        if name in _DEFAULT_DTYPE or dtype in ("bool", "any"):
            self._stop(rules.NOT_A_TYPE, word.start, word.end, f"`{name}` has no bounds", None)
        if cursor.peek.text == "(":
            cursor.fail(cursor.peek, "expected `[` before `(`", "bounds are written in brackets: in [-1, 1]")
        cursor.expect("[")
        low, low_at = self._bound(dtype, shape)
        cursor.expect(",")
        high, high_at = self._bound(dtype, shape)
        cursor.expect("]")
        if fault := domain_fault(low, high):
            message, help = fault
            self._stop(rules.EMPTY_DOMAIN, low_at[0], high_at[1], message, help)
        return low, high

    def _bound(self, dtype: str, shape: Dims) -> tuple[Bound, tuple[int, int]]:
        cursor = self._cursor
        start = cursor.peek.start
        bound = self._nested(dtype)
        end = cursor.last.end
        if isinstance(bound, tuple) and not has_shape(bound, _numbers(shape)):
            self._stop(rules.BOUND_SHAPE, start, end, f"this bound does not have the shape {list(shape)}")
        return bound, (start, end)

    def _nested(self, dtype: str) -> Bound:
        cursor = self._cursor
        if cursor.accept("["):
            items = [self._nested(dtype)]
            while cursor.accept(","):
                items.append(self._nested(dtype))
            cursor.expect("]")
            return tuple(items)
        start = cursor.peek.start
        value = number(cursor)
        if message := number_fault(value, dtype):
            self._stop(rules.BOUND_OUTSIDE_DTYPE, start, cursor.last.end, message)
        return float(value) if is_float(dtype) else int(value) if is_int(dtype) else value

    def _stop(self, rule: Rule, start: int, end: int, message: str, help: str | None = None) -> NoReturn:
        span = self._source.span_of(start, max(end, start + 1))
        self._sink.add(rule.at(span, message, help=help))
        raise NotANumber


def _last(shape: Dims) -> Dim | None:
    last = shape[-1] if shape else None
    return None if isinstance(last, Rest) else last


def _numbers(sizes: Iterable[Dim | Rest]) -> tuple[int, ...]:
    return tuple(size for size in sizes if isinstance(size, int))


__all__ = ["Bound", "SpecKind", "SpecType", "flatten", "parse_type"]
