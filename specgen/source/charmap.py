"""Maps the characters of a decoded YAML scalar back to their places in the file.

YAML decodes while it reads: escapes, folded lines, stripped indentation. To point at one token of an
expression inside such a scalar, each decoded character remembers which characters of the file it
came from. The decoding is done once more here, on demand, and its text is compared with what the
parser gave: positions are exact or not given at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Piece = tuple[str, int, int]
"""One decoded character and the offsets, start and end, of what it came from."""

_FOLD = re.compile(r"[ \t]*(\r\n|\n)(?:[ \t]*(?:\r\n|\n))*[ \t]*")
_BREAK = re.compile(r"\r\n|\n")
_ESCAPED_FOLD = re.compile(r"\\(?:\r\n|\n)((?:[ \t]*(?:\r\n|\n))*)[ \t]*")
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "\t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
    "N": "\x85",
    "_": "\xa0",
    "L": "\u2028",
    "P": "\u2029",
}


def character_map(raw: str, style: str, text: str) -> list[Piece] | None:
    """The origin of each character of `text`, or None when it cannot be told.

    Args:
        raw: The scalar as it stands in the file, quotes or block header included.
        style: plain, single, double, literal or folded.
        text: The decoded text.

    """
    for pieces in _candidates(raw, style):
        if "".join(char for char, _, _ in pieces) == text:
            return pieces
    return None


def _candidates(raw: str, style: str) -> Iterator[list[Piece]]:
    if style == "plain":
        yield list(_flow(raw, 0, len(raw), style))
    elif style in ("single", "double"):
        yield list(_flow(raw, 1, len(raw) - 1, style))
    else:
        # The indentation can be given in the header, relative to a parent that is not known
        # here; so try what the lines allow, deepest first.
        header = _BREAK.search(raw)
        if header is None:
            yield []
            return
        for indent in range(_deepest(raw, header.end()), -1, -1):
            yield list(_block(raw, header.end(), indent, style, _chomping(raw[: header.start()])))


def _flow(raw: str, at: int, end: int, style: str) -> Iterator[Piece]:
    while at < end:
        char = raw[at]
        if char in " \t\r\n" and (fold := _FOLD.match(raw, at, end)):
            breaks = list(_BREAK.finditer(raw, at, fold.end()))
            if len(breaks) == 1:
                yield " ", at, fold.end()
            else:
                yield from (("\n", found.start(), found.end()) for found in breaks[1:])
            at = fold.end()
        elif style == "single" and char == "'":
            yield "'", at, at + 2
            at += 2
        elif style == "double" and char == "\\":
            if fold := _ESCAPED_FOLD.match(raw, at, end):
                for found in _BREAK.finditer(raw, fold.start(1), fold.end(1)):
                    yield "\n", found.start(), found.end()
                at = fold.end()
            else:
                size = 2 + _HEX_ESCAPES.get(raw[at + 1], 0)
                yield _escape(raw[at + 1 : at + size]), at, at + size
                at += size
        else:
            yield char, at, at + 1
            at += 1


def _escape(code: str) -> str:
    return _ESCAPES[code] if len(code) == 1 else chr(int(code[1:], 16))


def _deepest(raw: str, at: int) -> int:
    lines = _BREAK.split(raw[at:])
    return max((len(line) - len(line.lstrip(" ")) for line in lines), default=0)


def _chomping(header: str) -> str:
    indicators = header[1:].split("#", 1)[0]
    return "-" if "-" in indicators else "+" if "+" in indicators else ""


def _block(raw: str, at: int, indent: int, style: str, chomping: str) -> Iterator[Piece]:
    # A line break is held back until the next line shows what becomes of it: kept, or (folded
    # style, between two lines that start with a word) turned into a space or dropped.
    held: list[Piece] = []
    started = first_held = more_before = False
    for start, stop, after in _lines(raw, at):
        spaces = len(raw[start:stop]) - len(raw[start:stop].lstrip(" "))
        if start + min(spaces, indent) == stop:
            if after > stop:
                held.append(("\n", stop, after))
            continue
        begin = start + min(spaces, indent)
        more = raw[begin] in " \t"
        if started and first_held and style == "folded" and not more_before and not more:
            leading, *rest = held
            yield from rest or [(" ", leading[1], leading[2])]
        else:
            yield from held
        yield from ((raw[i], i, i + 1) for i in range(begin, stop))
        held = [("\n", stop, after)] if after > stop else []
        started, first_held, more_before = True, bool(held), more
    if chomping == "+":
        yield from held
    elif chomping == "" and started:
        yield from held[:1]


def _lines(raw: str, at: int) -> Iterator[tuple[int, int, int]]:
    while at < len(raw):
        found = _BREAK.search(raw, at)
        if found is None:
            yield at, len(raw), len(raw)
            return
        yield at, found.start(), found.end()
        at = found.end()
