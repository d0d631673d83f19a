"""The imports of a generated module: found in the finished strings, so that none is missing or unused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

from specgen.imported import IMPORTABLE, Import
from specgen.plan.model import Item, RecordPlan, TypingPlan

_WORD = re.compile(r"(?<![\w.\"'])[A-Za-z_][A-Za-z0-9_]*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def imports_of(items: Iterable[Item], further: Mapping[str, Import] | None = None) -> frozenset[Import]:
    """The imports that `items` need.

    Args:
        items: everything that stands in the module.
        further: names from other generated modules.
    """
    known = {**IMPORTABLE, **(further or {})}
    items = list(items)
    own = {item.name for item in items}
    used: set[str] = set()
    typing_only: set[str] = set()
    for item in items:
        names = typing_only if isinstance(item, TypingPlan) else used
        for text in _texts(item):
            names.update(_WORD.findall(_STRING.sub('""', text)))
        if isinstance(item, RecordPlan):
            used.add("NamedTuple")
        if isinstance(item, TypingPlan) and item.runtime is not None:
            used.add(item.runtime)
    return frozenset(
        [known[name] for name in used - own if name in known]
        + [replace(known[name], typing_only=True) for name in typing_only - own if name in known]
    )


def _texts(value: object) -> Iterator[str]:
    """Every string of a plan that is code, not documentation."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in ("doc", "origin", "key", "name"):
                yield from _texts(getattr(value, field.name))
