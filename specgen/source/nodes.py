"""The nodes of a schema file: values that remember where they stand."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Literal

from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules.yaml import NUMBER_SPELLING, WRONG_VALUE
from specgen.source.charmap import Piece, character_map
from specgen.source.resolve import NONE, number_hint
from specgen.source.text import FileText
from specgen.values import dataclass

Style = Literal["plain", "single", "double", "literal", "folded"]

_SHOWN = 40
_FLOW = ("plain", "single", "double")
"""The styles that need no lines of their own."""


class Origin:
    """Where a scalar's text stands in its file; the character map is made when first asked for."""

    __slots__ = ("_map", "_mapped", "_source", "end", "start")

    def __init__(self, source: FileText, start: int, end: int) -> None:
        self._source = source
        self.start = start
        self.end = end
        self._map: list[Piece] | None = None
        self._mapped = False

    def span_of(self, scalar: Scalar, start: int, end: int) -> Span:
        """The span of the characters `start` to `end` of the decoded text."""
        quotes = int(scalar.style in ("single", "double"))
        size = len(scalar.text)
        if self.end - self.start == size + 2 * quotes and scalar.style in _FLOW and size:
            # as it stands in the file: what is escaped or folded is longer there, or is written differently
            first = self.start + quotes
            if self._source.text.startswith(scalar.text, first):
                start = min(max(start, 0), size)
                return self._source.span(first + start, first + min(max(end, start), size))
        if not self._mapped:
            raw = self._source.text[self.start : self.end]
            self._map = character_map(raw, scalar.style, scalar.text)
            self._mapped = True
        if self._map is None:
            return scalar.span
        if not self._map:
            return self._source.span(self.start, self.end)
        start = min(max(start, 0), len(self._map))
        end = min(max(end, start), len(self._map))
        first = self._map[start][1] if start < len(self._map) else self._map[-1][2]
        last = self._map[end - 1][2] if end > start else first
        return self._source.span(self.start + first, self.start + last)


_TRUTHS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
"""What YAML 1.1 read as truth values, and YAML 1.2 reads as texts."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of a file: a text, a number or a truth value.

    `text` is the decoded text however it was written; `value` is what YAML 1.2 makes of a plain
    scalar, and the text for quoted and block scalars.
    """

    text: str
    style: Style
    value: str | int | float | bool
    span: Span
    origin: Origin | None = field(default=None, compare=False, repr=False)

    def span_of(self, start: int, end: int) -> Span:
        """Where the characters `start` to `end` (exclusive) of `text` stand in the file.

        Exact also for quoted, folded, literal and multi-line scalars.
        """
        return self.span if self.origin is None else self.origin.span_of(self, start, end)

    def as_float(self, sink: Sink) -> float | None:
        """The number here as a float; None, with a diagnostic in `sink`, when it is none."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self._refuse(sink, "float")
            return None
        try:
            number = float(self.value)
        except OverflowError:
            number = float("inf")
        if number in (float("inf"), float("-inf")) and "inf" not in self.text.lower():
            infinity = "-.inf" if number < 0 else ".inf"
            help = f"write {infinity} if infinity is meant"
            sink.add(WRONG_VALUE.at(self.span, f"{_short(self.text)} is too large for a float", help=help))
            return None
        return number

    def as_int(self, sink: Sink) -> int | None:
        """The integer here; None, with a diagnostic in `sink`, when it is none."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self._refuse(sink, "int")
            return None
        return self.value

    def as_bool(self, sink: Sink) -> bool | None:
        """The truth value here; None, with a diagnostic in `sink`, when it is none."""
        if not isinstance(self.value, bool):
            self._refuse(sink, "bool")
            return None
        return self.value

    def _refuse(self, sink: Sink, expected: str) -> None:
        got = {str: "string", bool: "bool", int: "int", float: "float"}[type(self.value)]
        shown = f'"{_short(self.text)}"' if got == "string" else _short(self.text)
        message = f"expected {expected}, got {got} {shown}"
        if got == "string" and self.style == "plain" and expected in ("int", "float"):
            hint = number_hint(self.text)
            if hint is not None:
                sink.add(NUMBER_SPELLING.at(self.span, message, help=hint))
                return
        sink.add(WRONG_VALUE.at(self.span, message, help=self._mended(expected)))

    def _mended(self, expected: str) -> str | None:
        if expected == "bool":
            word = self.text.lower()
            if word in ("yes", "on", "true", "y", "1"):
                return "write true"
            return "write false" if word in ("no", "off", "false", "n", "0") else "write true or false"
        quoted = self.style in ("single", "double")
        number = _number(self.text) if quoted else self.value
        if self.text == NONE.lower():
            return "leave it out if there is none"
        if expected == "int" and isinstance(number, float) and math.isfinite(number):
            return _as_int(number) + (" without quotes" if quoted and number.is_integer() else "")
        if self.style == "plain" and self.text.lower() in _TRUTHS:
            return f"write {_TRUTHS[self.text.lower()]}, if a truth value is meant, else a number"
        if not quoted or number is None:
            return None if isinstance(number, int | float) else "write a number"
        hint = number_hint(self.text)
        return f"write {self.text} without quotes" if hint is None else f"{hint}, and without quotes"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in the order of the file; no key twice.

    `lost` are the keys whose value was refused, or was the second one; that is reported already.
    """

    entries: tuple[tuple[Scalar, Node], ...]
    span: Span
    lost: frozenset[str] = field(default=frozenset(), compare=False)
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {key.text: i for i, (key, _) in reversed(list(enumerate(self.entries)))}
        object.__setattr__(self, "_index", index)

    def get(self, name: str) -> Node | None:
        """The value of a key, or None."""
        at = self._index.get(name)
        return None if at is None else self.entries[at][1]

    def key(self, name: str) -> Scalar | None:
        """The key itself, for its position, or None."""
        at = self._index.get(name)
        return None if at is None else self.entries[at][0]


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items of a list."""

    items: tuple[Node, ...]
    span: Span


Node = Scalar | Mapping | Sequence


def report_slips(node: Node, sink: Sink) -> bool:
    """Report plain texts in `node` that were surely meant as numbers or truth values, where any kind of value goes.

    Returns:
        Whether there were any.
    """
    if isinstance(node, Mapping):
        return max([report_slips(value, sink) for _, value in node.entries], default=False)
    if isinstance(node, Sequence):
        return max([report_slips(item, sink) for item in node.items], default=False)
    if node.style != "plain" or not isinstance(node.value, str):
        return False
    shown = f'"{_short(node.text)}"'
    hint = number_hint(node.text)
    if hint is not None:
        help = f"{hint}; put it into quotes if the text is meant"
        sink.add(NUMBER_SPELLING.at(node.span, f"a number is meant, and {shown} is a text", help=help))
    elif node.text.lower() in _SWITCHES:
        help = f"write {_SWITCHES[node.text.lower()]}; put it into quotes if the text is meant"
        sink.add(WRONG_VALUE.at(node.span, f"a truth value is meant, and {shown} is a text", help=help))
    else:
        return False
    return True


_SWITCHES = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""What YAML 1.1 took for truth values."""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _number(text: str) -> float | None:
    """The number that Python reads in a text; None where it reads none."""
    try:
        return float(text)
    except ValueError:
        return None


def _as_int(number: float) -> str:
    """What to write in the place of a number where a whole one is meant."""
    if number.is_integer():
        return f"write {int(number)}"
    near = f": {math.floor(number)}, or {math.ceil(number)}" if abs(number) > 1 else ""
    return f"write a whole number{near}"
