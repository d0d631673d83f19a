"""Renders diagnostics for people, with the source lines that they speak of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from specgen.diagnostics.diagnostic import Diagnostic, Note
from specgen.diagnostics.sink import tidy

_STYLES = {"error": "1;31", "warning": "1;33", "frame": "1;34", "bold": "1"}
_TAB = 4
_WIDEST = 160
"""Of lines that take more columns, only what is around a mistake is shown."""
_MOST = 100
"""So many diagnostics are shown, and how many more there are."""
_LONG_NAME = re.compile(r"(`|')([^`'\n]{100,})\1")
_LONGEST = 1200
"""Messages end after so many characters."""


def render_human(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], color: bool = False) -> str:
    """Diagnostics, sorted, with the lines they speak of; "" when there are none.

    Of very many the first hundred are shown, and how many more there are; of long names the ends.

    Args:
        diagnostics: What was found, in any order.
        sources: The text of each file by the path that spans name; a span whose file is not
            here is shown without its line.
        color: Whether to write ANSI colours.

    """
    painter = _Painter(color)
    lines_of = {path: text.split("\n") for path, text in sources.items()}
    items = tidy(diagnostics)
    blocks = [_block(item, lines_of, painter) for item in items[:_MOST]]
    if len(items) > _MOST:
        blocks.append(f"… and {len(items) - _MOST} more; mend these first\n")
    return "\n".join(blocks)


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors, 1 warning`; "" when there are none."""
    items = tidy(diagnostics)
    errors = sum(item.severity == "error" for item in items)
    counts = ((errors, "error"), (len(items) - errors, "warning"))
    return ", ".join(f"{count} {word}{'s' if count > 1 else ''}" for count, word in counts if count)


class _Painter:
    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self._color and text else text


def _block(item: Diagnostic, lines_of: Mapping[str, list[str]], paint: _Painter) -> str:
    span = item.span
    width = len(str(span.line))
    gutter = " " * width
    out = [
        paint(item.severity, f"{item.severity}[{item.code}]") + paint("bold", f": {_safe(item.message)}"),
        f"{gutter}{paint('frame', '-->')} {_safe(str(span))}",
    ]
    lines = lines_of.get(span.file, [])
    if 1 <= span.line <= len(lines):
        line = lines[span.line - 1].removesuffix("\r")
        start = min(span.column - 1, len(line))
        end = min(span.end_column - 1, len(line)) if span.end_line == span.line else len(line)
        first, last = _window(line, start, end)
        before, after = "…" if first > 0 else "", "…" if last < len(line) else ""
        indent = _cells(before + line[first:start])
        caret = " " * indent + paint(item.severity, "^" * max(1, _cells(line[start : min(end, last)])))
        label = f" {paint(item.severity, _safe(item.label))}" if item.label else ""
        bar = paint("frame", "|")
        out += [
            f"{gutter} {bar}",
            f"{paint('frame', str(span.line))} {bar} {before}{_shown(line[first:last])}{after}".rstrip(),
            f"{gutter} {bar} {caret}{label}",
        ]
    equals = paint("frame", "=")
    out += [f"{gutter} {equals} {paint('bold', 'note')}: {_note(note, item)}" for note in item.notes]
    if item.help is not None:
        out.append(f"{gutter} {equals} {paint('bold', 'help')}: {_safe(item.help)}")
    return "\n".join(out) + "\n"


def _window(line: str, start: int, end: int) -> tuple[int, int]:
    """What is shown of a line: all of it, or of a long one the mistake and what stands around it."""
    if len(line) <= _WIDEST and _cells(line) <= _WIDEST:
        return 0, len(line)
    room = _WIDEST - 2  # for the marks of the cuts
    first = last = start
    while last < min(end, len(line)) and _cell(line[last]) <= room:
        room -= _cell(line[last])
        last += 1
    while room > 0:
        left = _cell(line[first - 1]) if first > 0 else room + 1
        right = _cell(line[last]) if last < len(line) else room + 1
        # the side that shows less comes first, so that the mistake stays in the middle
        if left <= room and (start - first <= last - end or right > room):
            first, room = first - 1, room - left
        elif right <= room:
            last, room = last + 1, room - right
        else:
            break
    return first, last


def _note(note: Note, item: Diagnostic) -> str:
    if note.span is None:
        return _safe(note.text)
    same = note.span.file == item.span.file
    return _safe(f"{note.text} (line {note.span.line})" if same else f"{note.text} ({note.span})")


def _safe(text: str) -> str:
    text = _LONG_NAME.sub(lambda found: f"{found[1]}{found[2][:50]}…{found[2][-30:]}{found[1]}", text)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}…"
    # Names in messages come from files that may come from strangers: no control character of
    # theirs, nor any that turns the reading direction, reaches the terminal.
    return "".join(_visible(char) for char in text)


def _shown(line: str) -> str:
    return "".join(" " * _TAB if char == "\t" else _visible(char) for char in line)


def _visible(char: str) -> str:
    if char.isprintable():
        return char
    return "\N{REPLACEMENT CHARACTER}" if char != "\n" else "\\n"


def _cells(text: str) -> int:
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if char == "\t":
        return _TAB
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
