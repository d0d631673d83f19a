"""The short form of types: `float32[3] in [-1, 1]`, `categorical(4)`, `like(x)`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

from specgen.diagnostics import Rule, Sink
from specgen.diagnostics.rules import specs as rules
from specgen.expr.dtypes import ABSTRACT, CONCRETE, is_float, is_int
from specgen.expr.interval import ANYTHING, Interval, full, store
from specgen.expr.numbers import Cursor, NotANumber, number
from specgen.expr.spec_limits import (
    MAX_ELEMENTS,
    Bound,
    classes_fault,
    domain_fault,
    flatten,
    has_shape,
    number_fault,
)
from specgen.expr.type_hints import bounds_in, meant_dtype, meant_type
from specgen.expr.types import Dims, Level, SourceText, Type

SpecKind = Literal[
    "bounded", "unbounded", "categorical", "onehot", "multi_categorical", "multi_onehot", "binary", "text",
    "pattern", "like",
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
        kind: The kind of spec; `pattern` for the patterns of transforms, `like` for another key's type.
        dtype: A dtype, or a pattern's `float | number | any`.
        shape: The shape as written; None for `[...]`. A dimension of 0 stands for a name in a pattern.
        low: The lower bound, a number or nested tuples; None when there is none.
        high: The upper bound.
        n: How many values a `categorical`, `onehot` or `binary` has.
        nvec: How many values each of the `multi_` kinds has.
        like: The key whose type this is.
        names: The dimensions of a pattern as written: `float32[3, H, W]` has `("3", "H", "W")`.

    """

    kind: SpecKind
    dtype: str
    shape: Dims | None = ()
    low: Bound | None = None
    high: Bound | None = None
    n: int | None = None
    nvec: Dims = ()
    like: str | None = None
    names: tuple[str, ...] = ()

    @property
    def dims(self) -> Dims | None:
        """The feature dimensions of the tensor: what a one-hot or multi kind adds is in them."""
        if self.shape is None:
            return None
        if self.kind == "onehot":
            return (*self.shape, self.n or 0)
        if self.kind == "multi_categorical":
            return (*self.shape, len(self.nvec))
        if self.kind == "multi_onehot":
            return (*self.shape, sum(self.nvec))
        return self.shape

    @property
    def interval(self) -> Interval:
        """The values that any element can take."""
        if self.kind == "categorical":
            return Interval(0, (self.n or 1) - 1)
        if self.kind == "multi_categorical":
            return Interval(0, max(self.nvec) - 1)
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
        if self.names:
            return f"{self.dtype}[{', '.join(self.names)}]"
        return str(Type(self.dtype, self.dims))


def parse_type(
    source: SourceText, sink: Sink, dims: Mapping[str, int] | None = None, *, patterns: bool = True
) -> SpecType | None:
    """The type that `source` writes, or None when `sink` got the reasons why there is none.

    Args:
        source: The text of the type.
        sink: Takes the mistakes.
        dims: The named dimensions, for shapes and bounds.
        patterns: Whether what is suggested may be a pattern, such as `float`.

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
        self._names: tuple[str, ...] = ()

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
        counts: Dims = ()
        if cursor.peek.text == "(":
            counts, dtype = self._counts(name, dtype)
        elif name in _COUNTED:
            example = f"{name}(3, 2)" if name.startswith("multi") else f"{name}(4)"
            message = f"`{name}` needs to know how many values there are"
            self._stop(rules.NOT_A_TYPE, token.start, token.end, message, f"write {example}")
        shape = self._shape() if cursor.peek.text == "[" else ()
        low: Bound | None = None
        high: Bound | None = None
        if cursor.peek.text == "in":
            low, high = self._domain(name, dtype, shape)
        rest = cursor.peek
        if rest.kind != "end":
            message = f"expected the end of the type before `{rest.text}`"
            bounds = bounds_in(self._source.text, rest.start, name)
            self._stop(rules.NOT_A_TYPE, rest.start, rest.end, message, bounds)
        made = self._made(name, dtype, counts, shape, low, high)
        if math.prod(made.dims or ()) > MAX_ELEMENTS:
            message = f"one value would have {math.prod(made.dims or ())} elements"
            self._stop(rules.BAD_SHAPE, token.start, cursor.last.end, message)
        return made

    def _made(
        self, name: str, dtype: str, counts: Dims, shape: Dims | None, low: Bound | None, high: Bound | None
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
            return SpecType("binary", dtype, shape, n=(shape or (None,))[-1])
        if name == "text":
            return SpecType("text", dtype, shape)
        if name in ABSTRACT or shape is None or 0 in shape:
            return SpecType("pattern", dtype, shape, low, high, names=self._names)
        kind: SpecKind = "unbounded" if low is None else "bounded"
        if name == "bool":
            return SpecType("binary", dtype, shape, n=(shape or (None,))[-1])
        return SpecType(kind, dtype, shape, low, high)

    def _like(self) -> SpecType:
        cursor = self._cursor
        cursor.expect("(")
        path = [cursor.expect_name()]
        while cursor.accept("."):
            path.append(cursor.expect_name())
        cursor.expect(")")
        if cursor.peek.kind != "end":
            rest = cursor.peek
            self._stop(
                rules.NOT_A_TYPE, rest.start, rest.end, f"expected the end of the type before `{rest.text}`"
            )
        return SpecType("like", "any", None, like=".".join(path))

    def _counts(self, name: str, dtype: str) -> tuple[Dims, str]:
        cursor = self._cursor
        opening = cursor.take()
        counts: list[int] = []
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
        elif name.endswith("categorical") and (why := classes_fault(counts, dtype)):
            self._stop(rules.CLASSES_OUTSIDE_DTYPE, opening.start, closing.end, why)
        return tuple(counts), dtype

    def _shape(self) -> Dims | None:
        cursor = self._cursor
        opening = cursor.expect("[")
        if cursor.accept("..."):
            cursor.expect("]")
            return None
        dims: list[int] = []
        names: list[str] = []
        while cursor.peek.text != "]":
            start = cursor.peek.start
            if self._is_pattern_dim():
                # A capital is a dimension of a pattern that any size matches.
                dims.append(0)
                names.append(cursor.take().text)
                if not cursor.accept(","):
                    break
                continue
            dims.append(self._size("a dimension", bounds_in(self._source.text, opening.start)))
            names.append(self._source.text[start : cursor.last.end])
            if not cursor.accept(","):
                break
        cursor.expect("]")
        self._names = tuple(names)
        return tuple(dims)

    def _is_pattern_dim(self) -> bool:
        token, after = self._cursor.peek, self._cursor.after
        named = token.kind == "name" and token.text not in self._cursor.dims
        return named and token.text[:1].isupper() and after.text in (",", "]")

    def _size(self, what: str, bounds: str | None = None) -> int:
        cursor = self._cursor
        start = cursor.peek.start
        value = number(cursor)
        if isinstance(value, float) or value < 1:
            message = f"{what} is a positive whole number, not {value}"
            quotient = isinstance(value, float) and "/" in self._source.text[start : cursor.last.end]
            help = "write `//` for a whole quotient" if quotient else bounds
            self._stop(rules.BAD_SHAPE, start, cursor.last.end, message, help)
        return int(value)

    def _domain(self, name: str, dtype: str, shape: Dims | None) -> tuple[Bound, Bound]:
        cursor = self._cursor
        word = cursor.take()
        if name in _DEFAULT_DTYPE or dtype in ("bool", "any"):
            self._stop(rules.NOT_A_TYPE, word.start, word.end, f"`{name}` has no bounds", None)
        if cursor.peek.text == "(":
            cursor.fail(cursor.peek, "expected `[` before `(`", "bounds are written in brackets: in [-1, 1]")
        cursor.expect("[")
        low, low_at = self._bound(dtype, shape or ())
        cursor.expect(",")
        high, high_at = self._bound(dtype, shape or ())
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
        if isinstance(bound, tuple) and not has_shape(bound, shape):
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


__all__ = ["Bound", "SpecKind", "SpecType", "flatten", "parse_type"]
