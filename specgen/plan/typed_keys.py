"""Types of keys, for type checkers: which keys hold which type of value, so that a misspelt key is a type error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.model import Key
from specgen.literals import literal
from specgen.plan.model import TypingPlan

MOST_TYPES = 16
"""How many types of values `TypedTensorDict` tells apart."""


def key_type(keys: Iterable[Key]) -> str:
    """The type of some keys: a union of `Literal`s and of tuples of them."""
    by_prefix: dict[Key, list[str]] = {}
    for key in keys:
        by_prefix.setdefault(key[:-1], []).append(literal(key[-1]))
    texts = []
    for prefix, names in by_prefix.items():
        parts = [*(f"Literal[{literal(part)}]" for part in prefix), f"Literal[{', '.join(names)}]"]
        texts.append(f"tuple[{', '.join(parts)}]" if prefix else parts[0])
    return " | ".join(texts)


def data_class(
    name: str, doc: str, tensors: Mapping[Key, str], parts: Mapping[Key, str] | None = None
) -> TypingPlan:
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
        by_tensor = {**kept, "Tensor": rest}
    keys = [*tensors, *parts]
    top = {key[0] for key in keys if len(key) == 1}
    within = dict.fromkeys((part,) for key in keys for part in key if part not in top)
    base = f"TypedTensorDict[{key_type(within) or 'Never'}, {_pairs({**by_tensor, **by_part})}]"
    return TypingPlan(name, (doc,), base, runtime="TensorDict")


def typed_composite(specs: Mapping[Key, str]) -> str:
    """`TypedComposite[...]`: the classes of the specs in a composite, by key."""
    groups = dict.fromkeys(key[:end] for key in specs for end in range(1, len(key)))
    return f"TypedComposite[{_pairs(_by_type({**specs, **dict.fromkeys(groups, 'Composite')}))}]"


def _by_type(types: Mapping[Key, str]) -> dict[str, list[Key]]:
    found: dict[str, list[Key]] = {}
    for key, type in types.items():
        found.setdefault(type, []).append(key)
    return found


def _pairs(by_type: Mapping[str, Iterable[Key]]) -> str:
    return ", ".join(f"{key_type(keys)}, {type}" for type, keys in by_type.items())
