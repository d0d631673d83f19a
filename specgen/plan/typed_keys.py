"""Types of keys, for type checkers: which keys hold which type of value, so that a misspelt key is a type error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.code import Code, named
from specgen.expr.symbols import Key
from specgen.plan.model import DataPlan, KeyedType, KeyType

MOST_TYPES = 16
"""How many types of values `TypedTensorDict` tells apart."""


def key_types(keys: Iterable[Key]) -> tuple[KeyType, ...]:
    """The types of some keys: those of a group together, and groups of a group that have the same keys."""
    names: dict[Key, list[str]] = {}
    for key in keys:
        names.setdefault(key[:-1], []).append(key[-1])
    groups: dict[tuple[Key, bool, tuple[str, ...]], list[str]] = {}
    for prefix, found in names.items():
        groups.setdefault((prefix[:-1], bool(prefix), tuple(found)), []).extend(prefix[-1:])
    return tuple(
        KeyType((*((part,) for part in above), *([tuple(last)] if nested else []), found))
        for (above, nested, found), last in groups.items()
    )


def data_class(
    name: str, doc: str, tensors: Mapping[Key, Code], parts: Mapping[Key, Code] | None = None
) -> DataPlan:
    """A tensordict type that knows its keys, which at run time is another name of `TensorDict`.

    Args:
        name: of the class.
        doc: one line.
        tensors: the types of the tensors by key. If there are too many types, the last ones are just `Tensor`.
        parts: the types of the tensordicts within.
    """
    parts = parts or {}
    by_part = _by_type(parts)
    by_tensor = _by_type(tensors)
    room = MOST_TYPES - len(by_part)
    if len(by_tensor) > room:
        kept = dict(list(by_tensor.items())[: room - 1])
        rest = [key for type, keys in by_tensor.items() if type not in kept for key in keys]
        by_tensor = {**kept, named("Tensor"): rest}
    keys = [*tensors, *parts]
    top = {key[0] for key in keys if len(key) == 1}
    within = dict.fromkeys(part for key in keys for part in key if part not in top)
    return DataPlan(name, doc, tuple(within), _keyed({**by_tensor, **by_part}))


def composite_types(specs: Mapping[Key, Code]) -> tuple[KeyedType, ...]:
    """The classes of the specs in a composite, by key; its groups are composites."""
    groups = dict.fromkeys(key[:end] for key in specs for end in range(1, len(key)))
    return _keyed(_by_type({**specs, **dict.fromkeys(groups, named("Composite"))}))


def _by_type(types: Mapping[Key, Code]) -> dict[Code, list[Key]]:
    found: dict[Code, list[Key]] = {}
    for key, type in types.items():
        found.setdefault(type, []).append(key)
    return found


def _keyed(by_type: Mapping[Code, Iterable[Key]]) -> tuple[KeyedType, ...]:
    return tuple(KeyedType(key_types(keys), type) for type, keys in by_type.items())
