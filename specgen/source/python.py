"""Turns declarations that come as Python objects into nodes, through the same YAML reader.

The data is written as YAML and read back, so one declaration has one meaning however it was made, and
a diagnostic shows the declaration that it speaks of.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from specgen.diagnostics import Sink
from specgen.source import nodes
from specgen.source.parse import parse_yaml
from specgen.source.resolve import NONE, is_null, resolve
from specgen.values import dataclass

_PLAIN = re.compile(r"[A-Za-z_(][\w .+*/%()<>=,\[\]-]*")
_KEY = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True)
class PythonSchema:
    """A schema that a `.py` file declares, as plain data."""

    data: Mapping[str, object]

    @property
    def text(self) -> str:
        """The declaration as YAML: what diagnostics show the lines of."""
        return to_yaml(self.data)


def parse_source(path: str, source: str | PythonSchema, sink: Sink) -> nodes.Mapping | None:
    """The nodes of a schema file, whether it is written in YAML or in Python; None where it has none."""
    if isinstance(source, str):
        return parse_yaml(path, source, sink)
    return from_python(path, source.data, sink)


def shown_path(path: str) -> str:
    """The file name in diagnostics about a Python schema; its lines are those of the YAML text."""
    return f"{path} (as YAML)"


def from_python(path: str, data: Mapping[str, object], sink: Sink) -> nodes.Mapping | None:
    """Nodes from plain data: dicts with text keys, lists, texts, numbers and truth values.

    Args:
        path: The Python file; spans name `shown_path(path)` and count in `to_yaml(data)`.
        data: The declaration, such as the dump of a pydantic object.
        sink: Where mistakes go, the same as for a YAML file.

    Raises:
        TypeError: For data of any other kind, naming the path into the data.

    """
    return parse_yaml(shown_path(path), to_yaml(data), sink)


def to_yaml(data: Mapping[str, object]) -> str:
    """Plain data as YAML, in one form only: block style, quotes where they are needed.

    An entry whose value is None was not given and is left out. Numbers come back as they are.

    Raises:
        TypeError: For a value that is no plain data, naming the path into the data.

    """
    return "".join(f"{line}\n" for line in _entries(data, "$", 0)) or "{}\n"


def _entries(data: Mapping[str, object], path: str, indent: int) -> Iterator[str]:
    for key, value in data.items():
        if not isinstance(key, str):
            raise TypeError(f"{path}: a key is {type(key).__name__}, not text")
        if value is not None:
            yield from _node(f"{' ' * indent}{_text(key, _KEY)}:", value, f"{path}.{key}", indent + 2)


def _node(start: str, value: object, path: str, indent: int) -> Iterator[str]:
    inline = _inline(value, path)
    if inline is not None:
        yield f"{start} {inline}"
    elif isinstance(value, Mapping):
        yield start
        yield from _entries(value, path, indent)
    elif isinstance(value, list | tuple):
        yield start
        for i, item in enumerate(value):
            yield from _item(item, f"{path}[{i}]", indent)


def _item(value: object, path: str, indent: int) -> Iterator[str]:
    dash = f"{' ' * indent}-"
    if _inline(value, path) is not None:
        yield from _node(dash, value, path, indent + 2)
    elif isinstance(value, Mapping):
        lines = _entries(value, path, indent + 2)
        yield f"{dash} {next(lines).lstrip()}"
        yield from lines
    else:
        yield from _node(dash, value, path, indent + 2)


def _inline(value: object, path: str) -> str | None:
    if isinstance(value, Mapping):
        return None if any(item is not None for item in value.values()) else "{}"
    if isinstance(value, list | tuple):
        numbers = [_number_list(item, f"{path}[{i}]") for i, item in enumerate(value)]
        texts = [item for item in numbers if item is not None]
        return f"[{', '.join(texts)}]" if len(texts) == len(numbers) else None
    return _scalar(value, path)


def _number_list(value: object, path: str) -> str | None:
    """Numbers and lists of numbers stay on one line."""
    if isinstance(value, list | tuple):
        return _inline(value, path)
    return None if isinstance(value, str | Mapping) else _scalar(value, path)


def _scalar(value: object, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _text(str(value), _PLAIN)
    raise TypeError(f"{path}: {type(value).__name__} is no plain data (a dict, list, text, number or bool)")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return "-.inf" if value < 0 else ".inf"
    text = float.__repr__(value)
    if "e" in text and "." not in text:
        mantissa, exponent = text.split("e")
        return f"{mantissa}.0e{exponent}"
    return text


def _text(text: str, plain: re.Pattern[str]) -> str:
    safe = plain.fullmatch(text) and not text.endswith(" ") and not is_null(text) and text != NONE
    if safe and isinstance(resolve(text), str):
        return text
    # JSON's escapes are YAML's; a line break that only YAML knows would end the line.
    return (
        json.dumps(text, ensure_ascii=False)
        .replace("\x85", "\\N")
        .replace("\u2028", "\\L")
        .replace("\u2029", "\\P")
    )
