"""Reads and renames nested keys, and finds those of an environment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch

from specgen_runtime.envs.keys import leaf_name as leaf
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.packing import peek
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from tensordict import TensorDictBase

    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import Composite, TensorSpec
    from specgen_runtime.transforms.base import Transform

_JOINT = "_-|-_"
"""What TorchRL joins nested keys with before it sorts them."""

CARRY = "_carry"
"""The entry below which private carries live; no group of keys contains them."""


def as_tuple(key: object) -> tuple[str, ...]:
    """The parts of a key, however deeply its tuples are nested.

    Raises:
        TypeError: if `key` is neither text nor a non-empty tuple of keys.
    """
    if isinstance(key, str):
        return (key,)
    if isinstance(key, tuple) and key:
        return tuple(part for inner in key for part in as_tuple(inner))
    raise TypeError(f"a key is text or a tuple of text, got {key!r}")


def normal_key(key: object) -> NestedKey:
    """The normal form of a key: text at the root, a flat tuple below it."""
    parts = as_tuple(key)
    return parts[0] if len(parts) == 1 else parts


def without_next(key: object) -> NestedKey:
    """A key as it is within its moment: the rest of one that begins with ``"next"``, others as they are."""
    parts = as_tuple(key)
    return normal_key(parts[1:] if parts[0] == "next" and len(parts) > 1 else parts)


def normal_keys(keys: object) -> list[NestedKey]:
    """The normal forms of one key or of a sequence of keys.

    Raises:
        TypeError: if an entry is no key.
    """
    if keys != () and isinstance(keys, (str, tuple)) and not _is_sequence_of_keys(keys):
        return [normal_key(keys)]
    if isinstance(keys, Iterable):
        return [normal_key(key) for key in keys]
    raise TypeError(f"keys are a sequence of nested keys, got {keys!r}")


def _is_sequence_of_keys(keys: object) -> bool:
    # ("agents", "reward") is one nested key; (("agents", "reward"), "reward") can only be several.
    return isinstance(keys, tuple) and any(not isinstance(part, str) for part in keys)


def sibling(key: NestedKey, name: str) -> NestedKey:
    """The key next to `key` whose last part is `name`."""
    return name if isinstance(key, str) else (*key[:-1], name)


def leaf_name(value: object, keyword: str) -> str:
    """`value`, if it can be the last part of a key.

    Raises:
        ValueError: if it is no text, or empty; `keyword` says which argument it was.
    """
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"{keyword} is the last part of a key, so it is a name; got {value!r}")


def rename_leaf(key: NestedKey, pattern: str) -> NestedKey:
    """The key next to `key` whose last part is `pattern` with ``{}`` replaced by the last part of `key`."""
    return sibling(key, pattern.replace("{}", leaf(key)))


def subspec(spec: Composite, name: str) -> Composite:
    """The composite under `name`; an empty one of the same shape if there is none."""
    return cast("Composite", spec.get(name, None) or spec.empty())


def group_spec(env: EnvBase, group: str) -> Composite:
    """The specs of an environment's ``"observation"``, ``"reward"``, ``"done"``, ``"action"`` or ``"state"`` entries."""
    return cast("Composite", getattr(env, f"full_{group}_spec"))


def remove(nested: Composite | TensorDictBase, key: NestedKey) -> None:
    """Delete an entry, if it is there, with the nests that it leaves empty; in place."""
    parts = as_tuple(key)
    if peek(nested, key) is None:
        return
    del nested[key]
    for end in range(len(parts) - 1, 0, -1):
        above = normal_key(parts[:end])
        inside: Any = nested[above]
        if any(True for _ in inside.keys()):  # noqa: SIM118 - of nested entries, too
            return
        del nested[above]


def put_spec(transform: Transform, specs: Composite, key: NestedKey, spec: TensorSpec) -> None:
    """Set the spec of what `transform` writes or takes, in place.

    Raises:
        ValueError: if it stands in a group, such as one of agents, whose dimensions it has not.
    """
    try:
        specs[key] = spec
    except ValueError as error:
        group = normal_key(as_tuple(key)[:-1] or as_tuple(key))
        within = None if isinstance(key, str) else specs.get(group, None)
        if within is None:
            raise
        raise ValueError(
            f"{type(transform).__name__}: {show_key(key)} has the shape {list(spec.shape)}, and what stands under"
            f" {show_key(group)} starts with {list(within.shape)}; name a key outside of that group"
        ) from error


def leaf_keys(spec: Composite, dtypes: Collection[torch.dtype] | None = None) -> list[NestedKey]:
    """The leaf keys of a spec in its order, those of the given dtypes only; private carries are left out."""
    found: list[NestedKey] = []
    for key in spec.keys(True, True):
        key = normal_key(key)
        if not is_private(key) and (dtypes is None or spec[key].dtype in dtypes):
            found.append(key)
    return found


def is_private(key: NestedKey) -> bool:
    """Whether `key` is a private carry."""
    return CARRY in as_tuple(key)


def private_key(key: NestedKey, owner: str, depth: int | None = None) -> NestedKey:
    """Where `owner` keeps its own value of `key`: at the same level of nesting.

    Args:
        key: the entry as everybody sees it.
        owner: ``"t0"`` for the first transform of a chain, ``"e0"`` for the environment before it.
        depth: below how many names of `key`, where its own level takes no other entries; None for all but the last.
    """
    names = as_tuple(key)
    depth = len(names) - 1 if depth is None else depth
    return (*names[:depth], CARRY, owner, *names[depth:])


def hidden_key(key: NestedKey, owner: str, name: str) -> NestedKey:
    """Where `owner` keeps what it shows to nobody: at the level of `key`, for which it is kept.

    Args:
        key: the entry that it is kept for.
        owner: as for `private_key`.
        name: what is kept.
    """
    return private_key(sibling(key, f"{name}_{leaf(key)}"), owner)


def refuse_reset_keys(transform: Transform, keyword: str | None) -> None:
    """Compare the masks that users named for what `transform` carries with those of its environment.

    Raises:
        ValueError: if one is no reset key of the environment.
    """
    env, given = transform.parent, None if keyword is None else getattr(transform, keyword)
    if env is None or given is None:
        return
    known = [normal_key(key) for key in env.reset_keys]
    for key in given:
        if key not in known:
            raise ValueError(
                f"{type(transform).__name__}: {keyword} has {show_key(key)}, which is no reset key of the environment;"
                f" those are {', '.join(map(show_key, known))}"
            )


def done_sets(env: EnvBase) -> list[NestedKey]:
    """The key of ``done`` in each root-most done set of an environment.

    With done flags at the root, those of nested groups follow the root and are left out.
    """
    return root_most([normal_key(sibling(normal_key(key), "done")) for key in env.reset_keys])


def root_most(keys: Sequence[NestedKey]) -> list[NestedKey]:
    """The keys that have no other of them at a level above."""
    levels = sorted({as_tuple(key)[:-1] for key in keys}, key=len)
    kept: list[tuple[str, ...]] = []
    for level in levels:
        if not any(level[: len(above)] == above for above in kept):
            kept.append(level)
    return [key for key in dict.fromkeys(keys) if as_tuple(key)[:-1] in kept]


def in_order(keys: list[NestedKey], by_name: bool = True) -> list[NestedKey]:
    """`keys`, in the order of their names if `by_name`: TorchRL's, which compares nested ones as joined text."""
    return sorted(keys, key=lambda key: _JOINT.join(as_tuple(key))) if by_name else keys


def each_key(keys: NestedKey | list[NestedKey] | None) -> list[NestedKey]:
    """The keys of a role: one, several that are read together, or none."""
    return keys if isinstance(keys, list) else [] if keys is None else [keys]
