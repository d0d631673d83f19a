"""Text and values of a schema inside Python source: as literals, as docstrings, as comments.

Nothing else may put what a schema says between quotes or behind a `#` (`tests/layout/test_literals.py` holds it).
Whatever the text, it stays what it is here: a constant, a documentation, a comment.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ENCODING = re.compile(r"coding(?=[:=])")
_FORMATTED = re.compile(r"[{}]")


def literal(value: object) -> str:
    """The Python expression of a value: text in double quotes, `math.inf` for an infinity.

    Args:
        value: text, a number, a truth value, None, or tuples, lists and mappings of those.

    Raises:
        TypeError: for a value of another kind.
    """
    match value:
        case str():
            return f'"{_escaped(value)}"'
        case bool() | None:
            return str(value)
        case int():
            return int.__repr__(value)
        case float():
            if math.isnan(value):
                return "math.nan"
            if math.isinf(value):
                return "math.inf" if value > 0 else "-math.inf"
            return float.__repr__(value)
        case tuple():
            return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case Mapping():
            return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
        case _:
            raise TypeError(f"{type(value).__name__} has no literal")


def formatted(text: str, *expressions: str) -> str:
    """An f-string: `text`, followed by the values of expressions (`x`, `x!r`), with "and" between them."""
    plain = _FORMATTED.sub(lambda brace: brace[0] * 2, _escaped(text))
    values = " and ".join(f"{{{one}}}" for one in expressions)
    return f'f"{plain}{values}"'


def listed(words: Iterable[str]) -> str:
    """Words as a message names them: `'l1', 'l2'`; for the text of `formatted`."""
    return ", ".join(f"'{word}'" for word in words)


def docstring(lines: Iterable[str], depth: int) -> str:
    """A docstring, quotes included; what has several lines closes on one of its own.

    Args:
        lines: what it says; may be empty.
        depth: how many levels its place is indented.
    """
    text = [_documented(part.rstrip()) for line in lines for part in line.split("\n")]
    if len(text) < 2:
        only = "".join(text)
        return f'"""{only}{" " if only.endswith(chr(34)) else ""}"""'
    pad = "    " * depth
    return "\n".join([f'"""{text[0]}', *(pad + line if line else "" for line in text[1:]), f'{pad}"""'])


def comment(text: str) -> str:
    """A comment of one line; it does not declare an encoding, whatever it says."""
    return f"# {_ENCODING.sub('coding ', _printable(text))}"


def _escaped(text: str) -> str:
    """The inside of a text in double quotes."""
    if text.isprintable() and "\\" not in text and '"' not in text:
        return text
    return "".join(_ESCAPES.get(char) or _shown(char) for char in text)


def _documented(line: str) -> str:
    """A line between triple quotes."""
    return _printable(line.replace("\\", "\\\\")).replace('"""', r"\"\"\"")


def _printable(text: str) -> str:
    """The text with what ends a line, turns the reading direction or can't be seen written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if unicodedata.category(char) == "Zs" else _shown(char) for char in text)


def _shown(char: str) -> str:
    """A character as `repr` shows it, without quotes."""
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
