"""Characters that look like those of the language and are others: what text processors and other keyboards write."""

from __future__ import annotations

import unicodedata

_OF_LETTERS = {
    "АВЕЅІЈКМНОРСТУХ": "ABESIJKMHOPCTYX",
    "аеѕіјорсухԁԛԝ": "aesijopcyxdqw",
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ": "ABEZHIKMNOPTYX",
    "ονα": "ova",
    "т": "t",
}
"""Letters of other alphabets that nobody tells from these."""
_OF_SIGNS = {
    "\N{MINUS SIGN}\N{EN DASH}\N{EM DASH}\N{HYPHEN}\N{NON-BREAKING HYPHEN}": "-",
    "\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}\N{DOT OPERATOR}\N{ASTERISK OPERATOR}": "*",
    "\N{DIVISION SIGN}\N{DIVISION SLASH}\N{FRACTION SLASH}": "/",
    "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}": '"',
    "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{NOT SIGN}": "not ",
    "\N{SUPERSCRIPT TWO}": "**2",
    "\N{SUPERSCRIPT THREE}": "**3",
    "\N{GREEK SMALL LETTER PI}": "pi",
    "\N{INFINITY}": "inf",
}
_MEANT = {
    **{one: other for many, others in _OF_LETTERS.items() for one, other in zip(many, others, strict=True)},
    **{one: meant for many, meant in _OF_SIGNS.items() for one in many},
}


def plain(text: str) -> str:
    """A text with the characters in it that look like those, or mean them; others stay.

    >>> plain("\N{MINUS SIGN}1")
    '-1'
    """
    if text.isascii():
        return text
    return "".join(map(_plain, text))


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if char in _MEANT:
        return _MEANT[char]
    if unicodedata.category(char) == "Cf":  # nobody sees it
        return ""
    alike = unicodedata.normalize("NFKC", char)
    return alike if alike.isascii() else char


def remedy(char: str) -> str | None:
    """What to do with a character that is not of the language; None where nothing looks like it."""
    found = plain(char)
    if found == char:
        return None
    if not found:
        return "remove it: it can't be seen"
    if found == " ":
        return "write a space of the keyboard"
    name = unicodedata.name(char, "").lower()
    return f"write `{found.strip()}`: this is {name}" if name else f"write `{found.strip()}`"
