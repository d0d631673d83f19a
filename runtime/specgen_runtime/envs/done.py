"""The rules of ending: which flags make a done set, how missing ones follow, which rows a reset touches.

**Sets.** The flags that stand side by side in the done spec, at the root or under a prefix such as `"agents"`, are one
*done set*. Flags are boolean and of one shape, `(*batch, 1)` at the root. Every set has `done` and `terminated`: what
the spec leaves out is added. `truncated` is there if it is declared (`add_truncated_keys` does so). Flags of any other
name (`"game_over"`) are further ways to end.

**Values.** Always `done = terminated | truncated | others`. What `_step` or `_reset` leaves out follows from what it
gives, in each set by itself:

- nothing given: all are False (an environment that declares no flags goes on forever);
- `terminated`, `truncated` or both: `done` follows; a missing `truncated` is False, a missing `terminated` too;
- only `done`: it is a termination;
- `done` and `terminated`: a declared `truncated` is what is left;
- flags of other names: missing ones are False; without `done` and `terminated`, they are terminations;
- `done` and `truncated` without `terminated`: refused, it could be either; so are flags that contradict the rule.

**Several sets.** Sets don't follow from each other: a joint flag at the root is what `_step` says, not what the agents'
flags add up to. Where a set stands above another (the root is above all), the root-most one on the path of an entry
decides when the rows of that entry are reset, and only root-most sets end a rollout: with a root set, agents may be
done while their episode goes on; without one, any agent that is done ends the rollout, and agents are reset one by one.

**Time limits.** `rollout(set_truncated=True)` declares the last step of every set that has `truncated` to be `truncated`
and `done`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.envs.packing import peek, put
from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

__all__ = [
    "FLAGS",
    "DoneSet",
    "any_done",
    "check_done_spec",
    "complete_dones",
    "done_sets",
    "governing_set",
    "item_mask",
    "mark_truncated",
    "pop_reset_masks",
    "refuse_meta",
    "rootmost_sets",
    "rows_mask",
    "terminated_or_truncated",
]

FLAGS = ("done", "terminated", "truncated")
"""The usual names of the done flags of a done set."""


@dataclass(frozen=True, slots=True)
class DoneSet:
    """The flags that end together: their keys, the key of their reset mask, and their shape.

    Attributes:
        prefix: where the set stands; `()` is the root.
        truncated: None if the environment declares no time limit.
        shape: the shape of each flag without the environment's batch dimensions.
        others: flags of other names, each a further way to end.
    """

    prefix: tuple[str, ...]
    done: NestedKey
    terminated: NestedKey
    truncated: NestedKey | None
    reset: NestedKey
    shape: torch.Size
    others: tuple[NestedKey, ...] = ()


def check_done_spec(spec: Composite) -> None:
    """Refuse a done spec whose flags cannot work together.

    Raises:
        ValueError: a flag is not boolean, is named as a reset mask, or has another shape than the flags beside it.
    """
    shapes: dict[tuple[str, ...], tuple[NestedKey, torch.Size]] = {}
    for key, leaf in spec.items(True, True):
        *prefix, name = as_tuple(key)
        if name == "_reset":
            raise ValueError(f"done spec: {show_key(key)} is the name of reset masks, not of a done flag")
        if leaf is None or leaf.dtype is not torch.bool:
            found = None if leaf is None else leaf.dtype
            raise ValueError(f"done spec: {show_key(key)} must be torch.bool, found {found}")
        other, shape = shapes.setdefault(tuple(prefix), (key, leaf.shape))
        if shape != leaf.shape:
            raise ValueError(
                f"done spec: {show_key(key)} has shape {list(leaf.shape)} but {show_key(other)}"
                f" beside it has {list(shape)}; flags of one done set share one shape"
            )


def done_sets(spec: Composite, batch_ndim: int) -> tuple[DoneSet, ...]:
    """Group the leaves of a (completed) done spec into done sets, the root-most first."""
    found: dict[tuple[str, ...], dict[str, torch.Size]] = {}
    for key, leaf in spec.items(True, True):
        *prefix, name = as_tuple(key)
        found.setdefault(tuple(prefix), {})[name] = leaf.shape
    return tuple(
        DoneSet(
            prefix=prefix,
            done=join_key((*prefix, "done")),
            terminated=join_key((*prefix, "terminated")),
            truncated=join_key((*prefix, "truncated")) if "truncated" in names else None,
            reset=join_key((*prefix, "_reset")),
            shape=torch.Size(next(iter(names.values()))[batch_ndim:]),
            others=tuple(join_key((*prefix, name)) for name in names if name not in FLAGS),
        )
        for prefix, names in sorted(found.items(), key=lambda item: len(item[0]))
    )


def rootmost_sets(sets: Sequence[DoneSet]) -> tuple[DoneSet, ...]:
    """The sets that stand under no other set."""
    return tuple(
        s for s in sets if not any(o is not s and s.prefix[: len(o.prefix)] == o.prefix for o in sets)
    )


def governing_set(key: NestedKey, sets: Sequence[DoneSet]) -> DoneSet | None:
    """The root-most done set on the path of `key`, or None if no set stands above it."""
    path = as_tuple(key)
    above = [s for s in sets if path[: len(s.prefix)] == s.prefix]
    # sorted, as torch.compile knows no min with a key
    return sorted(above, key=lambda s: len(s.prefix))[0] if above else None


def refuse_meta(env: object, device: torch.device | None) -> None:
    """Refuse to ask which episodes ended where tensors have no values."""
    if device is not None and device.type == "meta":
        raise RuntimeError(
            f"{type(env).__name__} is on the meta device, whose tensors have shapes and no values: nobody knows which "
            "episodes end. There are its specs, fake_tensordict, reset, rand_action and step; rollouts need env.to('cpu')"
        )


def any_done(tensordict: TensorDictBase, sets: Sequence[DoneSet]) -> bool:
    """Whether any row of a root-most done set is done; a flag that is not there says no."""
    roots = sets if len(sets) == 1 else rootmost_sets(sets)
    flags = [peek(tensordict, s.done) for s in roots]
    # a flag of one environment is an answer already, and asking `any` takes longer than asking it
    return any(flag is not None and bool(flag if flag.numel() == 1 else flag.any()) for flag in flags)


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: str | None = "_reset",
    write_full_false: bool = False,
) -> bool:
    """Write, beside the done flags at each level of `data`, whether any of them is set: the masks of a reset.

    Args:
        data: what `step` gave under `"next"`, or a root; written to.
        full_done_spec: which entries are done flags; a flag that is missing in `data` is False. If None, those called
            `done`, `terminated` and `truncated`, at every level.
        key: the name of what is written, bool of the flags' shape. What was there under this name is replaced, or
            removed where nothing is written. None leaves `data` as it is.
        write_full_false: write even if no flag is set anywhere.

    Returns:
        Whether any flag is set anywhere.
    """
    found = {
        prefix: reduce(torch.logical_or, flags) for prefix, flags in _flags_by_level(data, full_done_spec)
    }
    ended = any(bool(mask.any()) for mask in found.values())
    if key is not None:
        for prefix, mask in found.items():
            if ended or write_full_false:
                data.set((*prefix, key), mask)
            else:
                data.exclude((*prefix, key), inplace=True)
    return ended


def _flags_by_level(
    data: TensorDictBase, spec: Composite | None, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], list[Tensor]]]:
    """The done flags that stand side by side, for each level that has any, the root first."""
    if spec is None:
        nested = [name for name, value in data.items() if isinstance(value, TensorDictBase)]
        flags = [data.get(name) for name in FLAGS if name in data and name not in nested]
    else:
        nested = [name for name, leaf in spec.items() if isinstance(leaf, Composite)]
        unset = torch.zeros((*data.batch_size, 1), dtype=torch.bool, device=data.device)
        flags = [data.get(name, unset) for name in spec.keys() if name not in nested]  # noqa: SIM118
    if flags:
        yield prefix, flags
    for name in nested:
        yield from _flags_by_level(data.get(name), None if spec is None else spec[name], (*prefix, name))


def complete_dones(tensordict: TensorDictBase, sets: Sequence[DoneSet], device: torch.device | None) -> None:
    """Write the flags that the environment left out of `tensordict`, in place; the module says by what rules.

    Raises:
        RuntimeError: `done` and `truncated` without `terminated` (whether the truncated rows terminated too
            is anybody's guess), or flags that contradict `done = terminated | truncated | others`.
    """
    for s in sets:
        done = peek(tensordict, s.done)
        terminated = peek(tensordict, s.terminated)
        truncated_key = s.truncated or join_key((*s.prefix, "truncated"))
        truncated = peek(tensordict, truncated_key)
        other = _others(tensordict, s, device) if s.others else None
        if done is not None and terminated is not None and (truncated is not None or s.truncated is None):
            _check_consistent(s, done, terminated, truncated, other)
            continue
        if done is None:
            if terminated is None:
                terminated = _default_termination(tensordict, s, truncated, other, device)
                put(tensordict, s.terminated, terminated)
            done = terminated
            for flag in (truncated, other):
                done = done if flag is None else done | flag
            put(tensordict, s.done, done.clone() if done is terminated else done)
        elif terminated is None:
            if truncated is not None:
                raise RuntimeError(
                    f"{show_key(s.done)} and {show_key(truncated_key)} are given without"
                    f" {show_key(s.terminated)}; write {show_key(s.terminated)} too"
                )
            _check_consistent(s, done, done, None, other)
            put(tensordict, s.terminated, done.clone())
            terminated = done
        else:
            _check_consistent(s, done, terminated, None, other)
        if s.truncated is not None and truncated is None:
            left = done & ~terminated
            put(tensordict, s.truncated, left if other is None else left & ~other)


def _default_termination(
    tensordict: TensorDictBase,
    s: DoneSet,
    truncated: Tensor | None,
    other: Tensor | None,
    device: torch.device | None,
) -> Tensor:
    """`terminated` where neither it nor `done` is given."""
    if other is not None:
        return other.clone()
    if truncated is not None:
        return torch.zeros_like(truncated)
    return _unset(tensordict, s, device)


def _unset(tensordict: TensorDictBase, s: DoneSet, device: torch.device | None) -> Tensor:
    """A flag of a set that is False everywhere."""
    place = tensordict.device if device is None else device
    return torch.zeros((*tensordict.batch_size, *s.shape), dtype=torch.bool, device=place)


def _others(tensordict: TensorDictBase, s: DoneSet, device: torch.device | None) -> Tensor | None:
    """Whether any flag of another name is set, or None if none of them is given; missing ones are written."""
    given = {key: peek(tensordict, key) for key in s.others}
    found = [flag for flag in given.values() if flag is not None]
    for key, flag in given.items():
        if flag is None:
            put(tensordict, key, _unset(tensordict, s, device))
    if not found or any(flag.shape != found[0].shape for flag in found):
        return None
    return torch.stack(found).any(0) if len(found) > 1 else found[0]


def _check_consistent(
    s: DoneSet, done: Tensor, terminated: Tensor, truncated: Tensor | None, other: Tensor | None
) -> None:
    """Refuse flags that contradict each other; shapes are compared elsewhere, with the spec."""
    if done.is_meta or any(
        flag is not None and flag.shape != done.shape for flag in (terminated, truncated, other)
    ):
        return  # what is on the meta device has no values that could contradict each other
    parts = [show_key(s.terminated)]
    reasons = terminated
    if truncated is not None:
        parts.append(show_key(s.truncated or "truncated"))
        reasons = reasons | truncated
    if other is not None:
        parts += [show_key(key) for key in s.others]
        reasons = reasons | other
    if truncated is None:  # what is left was cut off
        wrong = reasons is not done and bool((reasons & ~done).any())
    else:
        wrong = not torch.equal(done, reasons)
    if not wrong:
        return
    if truncated is None and other is None:
        rule = f"{parts[0]} is True where {show_key(s.done)} is False"
    else:
        rule = f"{show_key(s.done)} is not {' | '.join(parts)}"
    raise RuntimeError(f"the environment's done flags contradict each other: {rule}")


def pop_reset_masks(
    tensordict: TensorDictBase, sets: Sequence[DoneSet], device: torch.device | None
) -> dict[DoneSet, Tensor]:
    """Take the `_reset` masks out of `tensordict`: one for each root-most done set that has one.

    Returns:
        Masks of the sets' shapes. A root-most set without a mask, where another has one, is not reset.
        Empty if there is no mask at all: everything is reset.

    Raises:
        RuntimeError: a mask has another shape or dtype than its done flag, or stands only below a done set
            that has none.
    """
    roots = rootmost_sets(sets)
    given = {s: tensordict.pop(s.reset) for s in sets if tensordict.get(s.reset, None) is not None}
    for s, mask in given.items():
        expected = torch.Size((*tensordict.batch_size, *s.shape))
        if mask.dtype is not torch.bool or mask.shape != expected:
            raise RuntimeError(
                f"{show_key(s.reset)} must be torch.bool of shape {list(expected)} like {show_key(s.done)},"
                f" found {mask.dtype} of shape {list(mask.shape)}"
            )
        root = governing_set(s.done, roots)
        if root is not None and root not in given:
            raise RuntimeError(
                f"{show_key(s.reset)} is given without {show_key(root.reset)}, which decides what is reset"
            )
    if not given:
        return {}
    return {
        s: given[s]
        if s in given
        else torch.zeros((*tensordict.batch_size, *s.shape), dtype=torch.bool, device=device)
        for s in roots
    }


def rows_mask(mask: Tensor, value: Tensor, batch_ndim: int) -> Tensor:
    """Reshape the mask of a done set so that it selects the rows of `value`.

    Args:
        mask: `(*batch, 1)`, or with further dimensions for a nested set.
        value: starts with the batch dimensions; dimensions that it shares with the mask keep their own flag,
            others count as reset if any of them is.
        batch_ndim: how many batch dimensions there are.
    """
    rows = mask.squeeze(-1) if mask.ndim > batch_ndim and mask.shape[-1] == 1 else mask
    while rows.ndim > batch_ndim and rows.shape != value.shape[: rows.ndim]:
        rows = rows.any(-1)
    return rows.reshape(rows.shape + (1,) * (value.ndim - rows.ndim))


def item_mask(mask: Tensor, batch_size: torch.Size, dim: int, place: int) -> Tensor:
    """The part of a done set's mask that is about one item of a stack.

    Args:
        mask: `(*batch, 1)`, or with further dimensions for a nested set.
        batch_size: the batch dimensions of the stack.
        dim: the stack dimension. If the mask does not reach it, it is about all items.
        place: which item.
    """
    reaches = mask.ndim > dim + 1 and mask.shape[: dim + 1] == batch_size[: dim + 1]
    return mask.select(dim, place) if reaches else mask


def masks_for_key(masks: Mapping[DoneSet, Tensor], key: NestedKey, batch_ndim: int) -> Tensor:
    """The mask that decides for `key`; rows of a key under no set are reset if any set resets them."""
    s = governing_set(key, tuple(masks))
    if s is not None:
        return masks[s]
    rows = [mask.flatten(batch_ndim).any(-1, keepdim=True) for mask in masks.values()]
    return torch.stack(rows).any(0)


def mark_truncated(rollout: TensorDictBase, sets: Sequence[DoneSet]) -> None:
    """Declare the last step of a rollout `[*batch, T]` truncated, in place.

    Raises:
        RuntimeError: no done set declares `truncated`.
    """
    limited = [s for s in sets if s.truncated is not None]
    if not limited:
        raise RuntimeError("set_truncated=True needs a 'truncated' flag, and the done spec has none")
    last = rollout.batch_dims - 1
    for s in limited:
        for key in (s.truncated, s.done):
            flag = rollout.get(("next", *as_tuple(key))).clone()  # type: ignore[arg-type]
            flag.select(last, -1).fill_(True)
            rollout.set(("next", *as_tuple(key)), flag)  # type: ignore[arg-type]
