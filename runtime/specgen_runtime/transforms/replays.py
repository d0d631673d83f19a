"""Replays transforms along the time dimension of recorded data, from the beginning of each episode or from its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import leaf_name, next_key
from specgen_runtime.transforms.flags import flag_sets, raise_done
from specgen_runtime.transforms.keys import as_tuple, is_private, normal_key, without_next
from specgen_runtime.transforms.offline import time_dimension
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["refuse_moments", "replay", "replays_inversely"]


def replays_inversely(transform: GeneratedTransform[Any, Any]) -> bool:
    """Whether a transform replays recorded data on the way into a replay buffer, not by `forward`."""
    keyword = transform._inverse_keyword
    return keyword is not None and bool(getattr(transform, keyword))


def _replays_backward(transform: GeneratedTransform[Any, Any]) -> bool:
    param = transform._backward_param
    return param is not None and bool(getattr(transform, param))


def refuse_moments(transform: GeneratedTransform[Any, Any]) -> None:
    """Refuse a transform of recorded data that is given single moments, as environments do.

    Raises:
        ValueError: it is one.
    """
    name = type(transform).__name__
    if replays_inversely(transform):
        raise ValueError(f"{name} with {transform._inverse_keyword}=True is for replay buffers only")
    if _replays_backward(transform):
        raise ValueError(
            f"{name} with {transform._backward_param}=True needs whole episodes: call it on recorded data"
        )


def replay(transform: GeneratedTransform[Any, Any], tensordict: TensorDictBase) -> TensorDictBase:
    """Reset and step a transform along the time dimension of recorded data, from either end.

    Args:
        transform: has `_reset` and `_step`; in no environment or in any.
        tensordict: transitions with a dimension of time (`time_dimension`): ``"next"`` holds what each step returned.

    Returns:
        `tensordict`, with the transform's outputs.

    Raises:
        ValueError: if no dimension is that of time.
        KeyError: if an entry that is read is missing.
    """
    along = _replay_backward if _replays_backward(transform) else _replay_forward
    return along(transform, tensordict)


def _of_moments(transform: GeneratedTransform[Any, Any]) -> GeneratedTransform[Any, Any]:
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


def _replay_forward(transform: GeneratedTransform[Any, Any], tensordict: TensorDictBase) -> TensorDictBase:
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
    transform = _of_moments(transform)
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
        elif key in reset:
            tensordict.set(key, reset[key])  # of no time, in the shape that it has
    if bound._derives_done():
        raised = set(bound._fields(bound._flags))
        flags = [
            normal_key(key) for key in nexts.keys(True, True) if leaf_name(key) in FLAGS or key in raised
        ]
        sets = flag_sets(flags)
        raise_done(tensordict["next"], sets, [level.read(before_step) for level in sets])
    return tensordict


def _replay_backward(transform: GeneratedTransform[Any, Any], tensordict: TensorDictBase) -> TensorDictBase:
    """Reset a transform at the end of each episode of recorded data, and step it from there to the beginning.

    What a step reads as the value before it is that of the moment behind. Only the root is read and written, and what
    stands under ``"next"`` where a key says so in full.

    Args:
        transform: has `_reset` and `_step`; in no environment or in any.
        tensordict: moments with a dimension of time (`time_dimension`). Their episodes end where `done` under
            ``"next"`` says so, each row where nothing does.

    Returns:
        `tensordict`, with the transform's outputs.

    Raises:
        ValueError: if no dimension is that of time.
        KeyError: if an entry that is read is missing.
    """
    time = time_dimension(type(transform).__name__, tensordict)
    bound = transform._bound_to(tensordict)
    outputs = list(dict.fromkeys([*bound.out_keys, *bound._fields(bound._carries)]))
    data = tensordict.select(*bound._read_keys(), strict=False)
    # Moments are alike to a reset: one call for all of them.
    reset = _entries(bound._reset(data, data.copy()), outputs)
    nexts = tensordict.get("next", None)
    nexts = tensordict.empty() if nexts is None else nexts
    flag = _named_flag(transform, nexts)
    last = {key: _ends(nexts, flag, without_next(key), value).unbind(time) for key, value in reset.items()}
    fresh = {key: value.unbind(time) for key, value in reset.items()}
    behind: TensorDictBase | None = None
    made: list[dict[NestedKey, Tensor]] = []
    for moment, here in reversed(list(enumerate(data.unbind(time)))):
        found = {key: values[moment] for key, values in fresh.items()}
        if behind is not None:
            stepped = transform._bound_to(here)._step(behind, here.copy())
            found = {key: torch.where(last[key][moment], value, stepped[key]) for key, value in found.items()}
        behind = here.copy()
        for key, value in found.items():
            behind.set(key, value)
        made.append(found)
    for key, value in reset.items():
        if not is_private(key):
            found_of_each = [found[key] for found in reversed(made)]
            tensordict.set(key, torch.stack(found_of_each, time) if made else value)
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
    done = _ends(nexts, flag, key, like)
    if not done.shape[time]:
        return done
    start = torch.full_like(done.narrow(time, 0, 1), first)
    return torch.cat([start, done.narrow(time, 0, done.shape[time] - 1)], time)


def _ends(nexts: TensorDictBase, flag: Tensor | None, key: NestedKey, like: Tensor) -> Tensor:
    """Where the episode of an entry ends, with the number of dimensions of `like`: by ``done``, or `flag`."""
    done = _done(nexts, key) if flag is None else flag
    if done is None:
        done = torch.zeros((*nexts.shape, 1), dtype=torch.bool, device=like.device)
    while done.ndim > like.ndim:
        done = done.squeeze(-1)
    while done.ndim < like.ndim:
        done = done.unsqueeze(-1)
    return done


def _done(nexts: TensorDictBase, key: NestedKey) -> Tensor | None:
    """The root-most `done` on the path of `key`."""
    path = as_tuple(key)
    for depth in range(len(path)):
        flag: Tensor | None = nexts.get((*path[:depth], "done"), None)
        if flag is not None:
            return flag
    return None
