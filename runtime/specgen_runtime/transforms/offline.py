"""Applies transforms to recorded data, such as a replay buffer's: moment by moment, or along time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name, next_key
from specgen_runtime.transforms.flags import flag_sets, raise_done
from specgen_runtime.transforms.keys import as_tuple, is_private, normal_key, root_most, without_next
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["map_moments", "moment_keys", "recorded_group", "recorded_moments", "replay", "time_dimension"]

NEVER = {"observation": (*FLAGS, "reward"), "reward": FLAGS, "done": ()}
"""What is called so in recorded data is not among what an environment returns as its observations, rewards and flags."""

Pairs = Iterable[tuple[NestedKey, NestedKey]]


def map_moments(
    tensordict: TensorDictBase, pairs: Pairs, apply: Callable[[NestedKey, NestedKey, Tensor], Tensor]
) -> list[NestedKey]:
    """Apply a function wherever its keys stand: at the root and under ``"next"``; in place.

    Args:
        tensordict: one moment, or transitions.
        pairs: what is read, and where the result is written, as at one moment. An entry under ``"next"`` that a
            pair names in full is read by that pair only.
        apply: the function, of the two keys and the value.

    Returns:
        The keys that stand nowhere.
    """
    pairs = list(pairs)
    named = {as_tuple(in_key) for in_key, _ in pairs}
    found: set[NestedKey] = set()
    for moment in ((), ("next",)):
        values: list[tuple[NestedKey, NestedKey, Tensor]] = []  # all are read before one is written
        for in_key, out_key in pairs:
            place = (*moment, *as_tuple(in_key))
            if moment and place in named:
                continue
            value: Tensor | None = tensordict.get(place, None)
            if value is not None:
                found.add(in_key)
                values.append((in_key, out_key, value))
        for in_key, out_key, value in values:
            tensordict.set((*moment, *as_tuple(out_key)), apply(in_key, out_key, value))
    return [in_key for in_key, _ in pairs if in_key not in found]


def recorded_moments(tensordict: TensorDictBase) -> list[TensorDictBase]:
    """Where recorded data have the entries of a moment: the root, and what stands under ``"next"``."""
    following: TensorDictBase | None = tensordict.get("next", None)
    return [tensordict] if following is None else [tensordict, following]


def moment_keys(tensordict: TensorDictBase, but: Collection[str] = ()) -> dict[NestedKey, torch.dtype]:
    """The entries of a moment with their dtypes: those at the root, and those under ``"next"`` without it.

    Args:
        tensordict: the moment.
        but: the last parts of keys that are left out.
    """
    found: dict[NestedKey, torch.dtype] = {}
    for key, value in tensordict.items(True, True):
        if leaf_name(key) not in but:
            found.setdefault(without_next(key), value.dtype)
    return found


def recorded_group(
    data: TensorDictBase | None, group: str, dtypes: Collection[torch.dtype], by_dtype: bool
) -> list[NestedKey] | None:
    """The keys of a group in recorded data, or what they are called where nobody says otherwise; None if nothing tells.

    Args:
        data: the data, if there are any.
        group: what is asked for: ``"observation"``, ``"reward"``, ``"done"``, ``"flags"``, ...
        dtypes: those that it may have.
        by_dtype: whether all entries of a moment are of the group that have such a dtype, but for flags and rewards.
    """
    named = {} if data is None else moment_keys(data)
    if group == "flags":
        return None if data is None else [key for key in named if leaf_name(key) in FLAGS]
    if data is not None and by_dtype:
        present = moment_keys(data, but=NEVER[group]).items()
        return [key for key, dtype in present if dtype in dtypes and not is_private(key)]
    if group not in ("reward", "done"):
        return None
    found = [key for key, dtype in named.items() if leaf_name(key) == group and dtype in dtypes]
    return (root_most(found) if group == "done" else found) or [group]


def of_moments(transform: GeneratedTransform[Any, Any]) -> GeneratedTransform[Any, Any]:
    """A transform, or a copy for the keys of a moment if users named some under ``"next"`` too: a replay writes both."""
    given, named = transform._in_keys or [], transform._out_keys
    if not any(as_tuple(key)[0] == "next" for key in given):
        return transform
    pairs = dict.fromkeys(
        zip(map(without_next, given), map(without_next, given if named is None else named), strict=False)
    )
    twin = transform.clone()
    twin._in_keys = [in_key for in_key, _ in pairs]
    twin._out_keys = None if named is None else [out_key for _, out_key in pairs]
    return twin


def time_dimension(owner: str, tensordict: TensorDictBase) -> int:
    """The dimension of time in recorded data: the one named ``"time"``, or of several without names the last.

    Args:
        owner: who looks at several moments.
        tensordict: the data. Replay buffers of sequences leave their names out.

    Raises:
        ValueError: if it has one dimension without a name, which may be transitions in any order, or none, or others
            are named.
    """
    names = list(tensordict.names) if tensordict.ndim else []
    if "time" in names:
        return names.index("time")
    if len(names) > 1 and not any(names):
        return len(names) - 1
    raise ValueError(
        f"{owner} looks at several moments: one dimension of the data must be named 'time' (as in a rollout), got "
        f"names {names}"
    )


def replay(transform: GeneratedTransform[Any, Any], tensordict: TensorDictBase) -> TensorDictBase:
    """Reset and step a transform along the time dimension of recorded data.

    Each moment that begins an episode (the first, and each one after ``done``) is reset with its own root. At the
    first moment, outputs that are there already continue an episode that began before the data, unless they take
    the place of an input. States of a policy that the data hold stay as the policy left them.

    Args:
        transform: has `_reset` and `_step`; in no environment or in any.
        tensordict: transitions with a dimension of time (`time_dimension`): ``"next"`` holds what each step returned.

    Returns:
        `tensordict`, with the transform's outputs at the root and in ``"next"``.

    Raises:
        ValueError: if no dimension is that of time.
        KeyError: if there is no ``"next"``, or an entry that is read is missing.
    """
    transform = of_moments(transform)
    time = time_dimension(type(transform).__name__, tensordict)
    if "next" not in tensordict:
        raise KeyError(f"{type(transform).__name__} needs what each step returned, under 'next'")
    length = tensordict.shape[time]
    bound = transform._bound_to(tensordict)
    inputs = set(bound.in_keys)
    # What a policy left is in the data, as it left it.
    left = [
        key
        for key in bound._fields(bound._policy)
        if tensordict.get(key, None) is not None and tensordict.get(next_key(key), None) is not None
    ]
    outputs = list(dict.fromkeys([*bound.out_keys, *bound._fields(bound._carries)]))
    outputs = [key for key in outputs if key not in left]
    written = [key for key in outputs if key not in inputs]  # the others take their input's place
    earlier = {
        key: value.narrow(time, 0, min(1, length)) for key, value in _entries(tensordict, written).items()
    }
    roots, nexts = tensordict.exclude("next", *written), tensordict["next"]
    before_step = nexts.copy()
    for key, value in nexts.items(True, True):
        if leaf_name(key) in FLAGS and key not in outputs and roots.get(key, None) is None:
            roots.set(key, torch.zeros_like(value))
    # Rows and moments are alike to a reset: one call for all of them.
    reset = _entries(bound._reset(roots, roots.copy()), outputs)
    if left:
        roots.set("next", nexts.select(*left))
    flag = _named_flag(transform, nexts)
    begins = {key: _begins(nexts, flag, key, value, time, key not in earlier) for key, value in reset.items()}
    carries = {key: reset[key] for key in bound.carry_keys if key in reset}
    if carries and length:
        following = _steps(transform, roots, nexts, outputs, carries, begins, earlier, time)
    else:
        following = _entries(bound._step(roots.copy().update(carries), nexts.copy()), outputs)
    for key, after in following.items():
        if is_private(key):
            continue
        tensordict.set(next_key(key), after)
        if key in reset and length:
            first = earlier.get(key, reset[key].narrow(time, 0, 1))
            before = torch.cat([first, after.narrow(time, 0, length - 1)], time)
            tensordict.set(key, torch.where(begins[key], reset[key], before))
    if bound._derives_done():
        raised = set(bound._fields(bound._flags))
        flags = [
            normal_key(key) for key in nexts.keys(True, True) if leaf_name(key) in FLAGS or key in raised
        ]
        sets = flag_sets(flags)
        raise_done(tensordict["next"], sets, [level.read(before_step) for level in sets])
    return tensordict


def _steps(
    transform: GeneratedTransform[Any, Any],
    roots: TensorDictBase,
    nexts: TensorDictBase,
    outputs: list[NestedKey],
    reset: dict[NestedKey, Tensor],
    begins: dict[NestedKey, Tensor],
    earlier: dict[NestedKey, Tensor],
    time: int,
) -> dict[NestedKey, Tensor]:
    """What each step writes, where it reads what the one before it has written."""
    moments = list(zip(roots.unbind(time), nexts.unbind(time), strict=True))
    fresh = {key: value.unbind(time) for key, value in reset.items()}
    new = {key: begins[key].unbind(time) for key in reset}
    state = {key: earlier[key].select(time, 0) if key in earlier else fresh[key][0] for key in reset}
    step = transform._bound_to(moments[0][0].copy().set("next", moments[0][1]))
    after = []
    for moment, (root, following) in enumerate(moments):
        root = root.copy()
        for key in reset:
            root.set(key, torch.where(new[key][moment], fresh[key][moment], state[key]))
        after.append(_entries(step._step(root, following.copy()), outputs))
        state = after[-1]
    return {key: torch.stack([entries[key] for entries in after], time) for key in after[0]}


def _entries(tensordict: TensorDictBase, keys: Iterable[NestedKey]) -> dict[NestedKey, Tensor]:
    """Those of the keys that are there."""
    return {key: value for key in keys if (value := tensordict.get(key, None)) is not None}


def _named_flag(transform: GeneratedTransform[Any, Any], nexts: TensorDictBase) -> Tensor | None:
    """The flag that users of a transform name as what ends episodes; None if they name none."""
    keyword = transform._done_keyword
    if keyword is None or (key := getattr(transform, keyword)) is None:
        return None
    flag: Tensor | None = nexts.get(key, None)
    if flag is None:
        raise KeyError(
            f"{type(transform).__name__}: the {keyword} {key!r} is not under 'next', which holds"
            f" {', '.join(sorted(map(repr, nexts.keys(True, True))))}"
        )
    return flag


def _begins(
    nexts: TensorDictBase, flag: Tensor | None, key: NestedKey, like: Tensor, time: int, first: bool
) -> Tensor:
    """Where an entry is one of a new episode: after ``done``, or `flag`, and at the first moment if `first` says so."""
    done = _done(nexts, key) if flag is None else flag
    if done is None:
        done = torch.zeros((*nexts.shape, 1), dtype=torch.bool, device=like.device)
    while done.ndim > like.ndim:
        done = done.squeeze(-1)
    while done.ndim < like.ndim:
        done = done.unsqueeze(-1)
    if not done.shape[time]:
        return done
    start = torch.full_like(done.narrow(time, 0, 1), first)
    return torch.cat([start, done.narrow(time, 0, done.shape[time] - 1)], time)


def _done(nexts: TensorDictBase, key: NestedKey) -> Tensor | None:
    """The root-most `done` on the path of `key`."""
    path = as_tuple(key)
    for depth in range(len(path)):
        flag: Tensor | None = nexts.get((*path[:depth], "done"), None)
        if flag is not None:
            return flag
    return None
