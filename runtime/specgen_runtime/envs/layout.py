"""`Layout`: what an environment reads and gives, derived once from its specs; stepping is functions over it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch

from specgen_runtime.envs.done import DoneSet, done_sets, rootmost_sets
from specgen_runtime.envs.mdp import StepPlan, step_plan
from specgen_runtime.envs.spec_groups import (
    INPUT_GROUPS,
    OUTPUT_GROUPS,
    check_group,
    check_meanings,
    group_keys,
)
from specgen_runtime.envs.spec_leaves import Leaf, leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

__all__ = ["Entry", "Group", "Layout", "TensorKeys", "make_layout"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a spec says about an entry before its values are looked at.

    Attributes:
        leaf: where the entry is.
        shape: without the environment's batch dimensions; -1 stands for any size.
        dtype: None for data that are not tensors.
        device: None if the spec leaves it open.
        source: which of the environment's specs says so.
        whole: the shape with the environment's batch size, or None where there is not just one.
    """

    leaf: Leaf
    shape: tuple[int, ...]
    dtype: torch.dtype | None
    device: torch.device | None
    source: str
    whole: torch.Size | None = None

    def fits(self, shape: torch.Size, batch_size: torch.Size) -> bool:
        """Whether an entry of that shape has this feature shape behind `batch_size`."""
        n = len(batch_size)
        if len(shape) != n + len(self.shape) or shape[:n] != batch_size:
            return False
        return all(want in (-1, found) for want, found in zip(self.shape, shape[n:], strict=True))


@dataclass(frozen=True, slots=True)
class Group:
    """One of the five groups of specs.

    Attributes:
        spec: with the batch dimensions in front; checked, and locked unless the specs are to stay open.
        keys: of its leaves, in its order.
        entries: its leaves; the items of stacks have leaves of their own, under the same keys.
        is_default: whether nobody has set it.
    """

    spec: Composite
    keys: tuple[NestedKey, ...]
    entries: tuple[Entry, ...]
    is_default: bool


class TensorKeys(NamedTuple):
    """Where the tensors of some entries are in a tensordict.

    Attributes:
        names: the keys, if all of them are names at the root; else None.
        keys: all keys but those in stacks.
        stacked: the leaves in items of stacks.
    """

    names: list[str] | None
    keys: list[NestedKey]
    stacked: list[Leaf]


@dataclass(frozen=True, eq=False)
class Layout:
    """The specs of an environment at one time, and all that follows from them.

    Attributes:
        env: the name of the environment's class, for messages.
        batch_size: of the environment.
        batch_locked: whether tensordicts must have that batch size.
        device: None if it is left open.
        action: what `step` reads as actions.
        state: what `step` reads besides.
        observation: what `reset` and `step` give, the state included.
        reward: what `step` gives as rewards.
        done: all done flags.
        specs: the five composites by the names of their attributes, such as `full_action_spec`.
        locked: whether `input_spec` and `output_spec` are locked.
        done_sets: the flags that end together, the root-most first.
        root_sets: those that stand under no other one.
        root_tensors: the tensors of a root, but for its actions.
        reward_tensors: the tensors of the rewards.
        step_plan: what `step_mdp` leaves out.
    """

    env: str
    batch_size: torch.Size
    batch_locked: bool
    device: torch.device | None
    action: Group
    state: Group
    observation: Group
    reward: Group
    done: Group
    specs: Mapping[str, Composite]
    locked: bool
    done_sets: tuple[DoneSet, ...]
    root_sets: tuple[DoneSet, ...]
    root_tensors: TensorKeys
    reward_tensors: TensorKeys
    step_plan: StepPlan

    @cached_property
    def input_spec(self) -> Composite:
        """The composite of `full_action_spec` and `full_state_spec`."""
        return self._joined(INPUT_GROUPS)

    @cached_property
    def output_spec(self) -> Composite:
        """The composite of `full_reward_spec`, `full_done_spec` and `full_observation_spec`."""
        return self._joined(OUTPUT_GROUPS)

    def _joined(self, names: tuple[str, ...]) -> Composite:
        parts = {name: self.specs[name] for name in names}
        whole = Composite(parts, shape=self.batch_size, device=self.device)
        return whole.lock_() if self.locked else whole


def make_layout(
    env: str,
    groups: Mapping[str, Composite],
    defaults: Collection[str],
    *,
    batch_size: torch.Size,
    batch_locked: bool,
    device: torch.device | None,
    locked: bool,
) -> Layout:
    """Check the five groups of specs, lock them if they are to be, and derive the layout.

    Args:
        env: the name of the environment's class.
        groups: the five composites, by the names of their attributes.
        defaults: the names of those that nobody has set.
        batch_size: of the environment.
        batch_locked: whether tensordicts must have that batch size.
        device: of the environment's data; None if it is left open.
        locked: whether specs are locked from now on.

    Raises:
        RuntimeError: a reward or a flag has no dimension behind the batch, or a key has two meanings.
        ValueError: the done flags cannot work together.
    """
    unlocked = {name: spec for name, spec in sorted(groups.items()) if not spec.is_locked}
    for name, spec in unlocked.items():
        check_group(name, spec, batch_size, device)
    keys = {name: group_keys(spec) for name, spec in groups.items()}
    for name in unlocked:
        check_meanings(name, keys[name], keys)
    if locked:
        for spec in unlocked.values():
            spec.lock_()
    action, state, observation, reward, done = (
        Group(
            groups[name],
            keys[name],
            tuple(
                _entry(leaf, name.removeprefix("full_"), batch_size, device)
                for leaf in leaves_of(groups[name])
            ),
            name in defaults,
        )
        for name in (
            "full_action_spec",
            "full_state_spec",
            "full_observation_spec",
            "full_reward_spec",
            "full_done_spec",
        )
    )
    sets = done_sets(done.spec, len(batch_size))
    return Layout(
        env=env,
        batch_size=batch_size,
        batch_locked=batch_locked,
        device=device,
        action=action,
        state=state,
        observation=observation,
        reward=reward,
        done=done,
        specs=groups,
        locked=locked,
        done_sets=sets,
        root_sets=rootmost_sets(sets),
        root_tensors=_tensor_keys((*observation.entries, *done.entries, *state.entries)),
        reward_tensors=_tensor_keys(reward.entries),
        step_plan=step_plan(reward.keys, done.keys),
    )


def _entry(leaf: Leaf, source: str, batch_size: torch.Size, device: torch.device | None) -> Entry:
    spec = leaf.spec
    shape = tuple(spec.shape[len(leaf.batch_of(batch_size)) :])
    single = not leaf.items and spec.dtype is not None and -1 not in shape
    return Entry(
        leaf=leaf,
        shape=shape,
        dtype=spec.dtype,
        device=spec.device if device is not None else None,
        source=source,
        whole=torch.Size((*batch_size, *shape)) if single else None,
    )


def _tensor_keys(entries: Iterable[Entry]) -> TensorKeys:
    # an observed state stands once
    leaves = {(e.leaf.key, e.leaf.items): e.leaf for e in entries if e.dtype is not None}
    keys: list[Any] = [leaf.key for leaf in leaves.values() if not leaf.items]
    stacked = [leaf for leaf in leaves.values() if leaf.items]
    flat = not stacked and all(isinstance(key, str) for key in keys)
    return TensorKeys(keys if flat else None, keys, stacked)
