"""Numbers that are known at build: the small arithmetic inside shapes and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NoReturn

from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import expressions as rules
from specgen.expr.lexer import Token, Tokens, tokenize_type
from specgen.expr.sizes import Dim, Sym
from specgen.expr.source_text import SourceText

_NAMED: Final = {"pi": math.pi, "inf": math.inf}
_MAX_DEPTH: Final = 40


class NotANumber(Exception):  # noqa: N818 - control flow: the mistake is already reported
    """What was read has no value."""


class Cursor(Tokens):
    """The tokens of a short form, and what is said of mistakes in them."""

    def __init__(self, tokens: list[Token], source: SourceText, sink: Sink, dims: Mapping[str, Dim]) -> None:
        super().__init__(tokens)
        self._source = source
        self._sink = sink
        self.depth = 0
        self.dims = dims

    @classmethod
    def of(cls, source: SourceText, sink: Sink, dims: Mapping[str, Dim]) -> Cursor | None:
        """A cursor at the first token of `source`, or None when the text has no tokens."""
        tokens = tokenize_type(source, sink)
        return None if tokens is None else cls(tokens, source, sink, dims)

    def expect(self, text: str) -> Token:
        """The token at hand, which must be `text`."""
        token = self.peek
        if not self.accept(text):
            found = f" before `{token.text}`" if token.text else ""
            self.fail(token, f"expected `{text}`{found}")
        return token

    def fail(self, token: Token, message: str, help: str | None = None) -> NoReturn:
        """Report a mistake at `token`."""
        size = len(self._source.text)
        start = min(token.start, max(size - 1, 0))
        end = min(max(token.end, start + 1), max(size, 1))
        self._sink.add(rules.SYNTAX.at(self._source.span_of(start, end), message, help=help))
        raise NotANumber

    def undefined(self, token: Token) -> NoReturn:
        """Report a name that is no dimension."""
        span = self._source.span_of(token.start, token.end)
        help = (
            suggestion(token.text, (*self.dims, *_NAMED))
            or "shapes and bounds read names of `dims:` and `groups:` only"
        )
        self._sink.add(rules.UNDEFINED.at(span, f"undefined name `{token.text}`", help=help))
        raise NotANumber


def number(cursor: Cursor) -> int | float:
    """The value of the sum at hand, which is a number: `size - 1`, `2 * pi`, `n // 2`."""
    start, value = cursor.peek, size(cursor)
    if isinstance(value, Sym):
        cursor.fail(start, f"`{value}` is a size that is not known here, and this is a number")
    return value


def size(cursor: Cursor) -> int | float | Sym:
    """The value of the sum at hand, which a named size may be in."""
    value = _product(cursor)
    while cursor.peek.kind == "op" and cursor.peek.text in ("+", "-"):
        sign = cursor.take().text
        other = _product(cursor)
        value = _sum(cursor, value, other if sign == "+" else -other)
    return value


def _sum(cursor: Cursor, a: int | float | Sym, b: int | float | Sym) -> int | float | Sym:
    if isinstance(a, float) or isinstance(b, float):
        return _limited(
            cursor, _number(cursor, a) + _number(cursor, b), _number(cursor, a), _number(cursor, b)
        )
    total = a + b
    return total if isinstance(total, Sym) else _limited(cursor, total)


def _number(cursor: Cursor, value: int | float | Sym) -> int | float:
    if isinstance(value, Sym):
        cursor.fail(cursor.last, f"`{value}` is a size: only whole numbers are added to it, and multiply it")
    return value


def _product(cursor: Cursor) -> int | float | Sym:
    value = _factor(cursor)
    while cursor.peek.kind == "op" and cursor.peek.text in ("*", "/", "//", "%"):
        sign = cursor.take()
        other = _factor(cursor)
        if isinstance(value, Sym) or isinstance(other, Sym):
            if sign.text == "*" and not isinstance(value, float) and not isinstance(other, float):
                value = value * other
                continue
            value, other = _number(cursor, value), _number(cursor, other)
        if sign.text != "*" and other == 0:
            cursor.fail(cursor.last, "division by zero")
        if sign.text == "*":
            result = value * other
        elif sign.text == "/":
            result = value / other
        elif sign.text == "//":
            result = value // other
        else:
            result = value % other
        value = _limited(cursor, result, value, other)
    return value


def _limited(cursor: Cursor, value: int | float, *operands: int | float) -> int | float:
    """`value`, unless it is no number or grew infinite on the way."""
    overflow = math.isinf(value) and not any(map(math.isinf, operands))
    if overflow or (isinstance(value, int) and abs(value) >= 2**64):
        cursor.fail(cursor.last, "the number is larger than any dtype holds")
    if math.isnan(value):
        cursor.fail(cursor.last, "the result is not a number")
    return value


def _factor(cursor: Cursor) -> int | float | Sym:
    token = cursor.take()
    cursor.depth += 1
    if cursor.depth > _MAX_DEPTH:
        cursor.fail(token, "nested too deep")
    value = _atom(cursor, token)
    cursor.depth -= 1
    if cursor.peek.kind == "op" and cursor.peek.text == "**":
        cursor.fail(cursor.peek, "no powers in shapes and bounds", "write the product")
    return value


def _atom(cursor: Cursor, token: Token) -> int | float | Sym:
    if token.kind == "number":
        text = token.text.replace("_", "")
        return _limited(cursor, float(text) if any(char in text for char in ".eE") else int(text[:25]))
    if token.kind == "name":
        if token.text in cursor.dims:
            return cursor.dims[token.text]
        if token.text in _NAMED:
            return _NAMED[token.text]
        if token.text == "nan":
            cursor.fail(token, "`nan` is not a number: nothing is above or below it")
        cursor.undefined(token)
    if token.kind == "op" and token.text == "(":
        value = size(cursor)
        cursor.expect(")")
        return value
    if token.kind != "op" or token.text not in ("-", "+"):
        message = f"expected a number before `{token.text}`" if token.text else "a number is missing"
        listed = "numbers stand beside each other, without brackets of their own: `(5, 2)`"
        cursor.fail(token, message, listed if token.text == "[" else None)
    value = _factor(cursor)
    return -value if token.text == "-" else value
