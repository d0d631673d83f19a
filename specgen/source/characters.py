"""Decodes schema files: UTF-8, and the characters that they may have."""

from __future__ import annotations

import re
import unicodedata

from specgen.diagnostics import Diagnostic, Sink, Span
from specgen.diagnostics.rules.yaml import CHARACTER, ENCODING
from specgen.source.text import FileText

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"

# Control characters (tab, line feed and a carriage return before one excepted), line breaks that
# only some programs see, marks that turn the reading direction, a BOM inside the file, surrogates
# and the code points that are no characters.
_REFUSED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff"
    "\ud800-\udfff\ufffe\uffff]|\r(?!\n)"
)
_MOST_REPORTED = 20


def decode(path: str, data: bytes, sink: Sink) -> str | None:
    """The text of a file; None, with a diagnostic in `sink`, when it is not UTF-8.

    A byte order mark at the start is dropped; line ends stay as they are.
    """
    try:
        return data.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8").removeprefix(_BOM)
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        byte = f"0x{data[error.start]:02x}"
        sink.add(
            ENCODING.at(
                Span(path, line, column, line, column + 1),
                f"the byte {byte} here is not UTF-8",
                help="save the file as UTF-8",
            )
        )
        return None


def without_refused(source: FileText, sink: Sink) -> str:
    """The text with every refused character reported and replaced by `_`.

    Positions stay what they were, so that the rest of the file can be read.
    """
    if refused_in(source.text) is None:
        return source.text
    returned = wide = False
    for count, match in enumerate(_REFUSED.finditer(source.text)):
        if count == _MOST_REPORTED:
            break
        span = source.span(match.start(), match.end())
        if match.group() == "\r":
            # A file of old line ends has one at each line.
            returned = returned or _returned(span, sink)
            continue
        if match.group() == "\0":
            # Between all characters of a text in UTF-16, and anywhere in what is no text.
            wide = wide or _wide(span, sink)
            continue
        sink.add(refused(match.group()[0], span, "is not allowed in a schema file"))
    return _REFUSED.sub("_", source.text)


def _returned(span: Span, sink: Sink) -> bool:
    message = "a line ends with a carriage return alone"
    help = "save the file with line feeds (LF), as editors for Unix do, or with both (CRLF)"
    sink.add(CHARACTER.at(span, message, help=help))
    return True


def _wide(span: Span, sink: Sink) -> bool:
    message = "U+0000 (control character) is not allowed in a schema file: this one is UTF-16, or no text"
    sink.add(CHARACTER.at(span, message, help="save the file as UTF-8"))
    return True


def refused_in(text: str) -> re.Match[str] | None:
    """The first refused character of a decoded text (escapes can write any)."""
    return _REFUSED.search(text)


def refused(char: str, span: Span, why: str) -> Diagnostic:
    """The diagnostic for a refused character."""
    name = unicodedata.name(char, "control character").lower()
    return CHARACTER.at(span, f"U+{ord(char):04X} ({name}) {why}", help="remove it")
