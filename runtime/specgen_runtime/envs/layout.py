"""`Layout`: what an environment reads and gives, derived once from its specs; stepping is functions over it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from specgen_runtime.envs.done import done_sets, rootmost_sets
from specgen_runtime.envs.mdp import step_plan
from specgen_runtime.envs.spec_groups import (
    INPUT_GROUPS,
    OUTPUT_GROUPS,
    SPEC_GROUPS,
    check_group,
    check_meanings,
    group_keys,
)
from specgen_runtime.envs.spec_leaves import Leaf, leaves_of
from specgen_runtime.specs import Composite
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.spec_properties import SpecProperties

__all__ = ["Entry", "Group", "Layout", "TensorKeys"]


class Entry(NamedTuple):
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


class Group(NamedTuple):
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


class Layout:
    """The specs of an environment at one time, checked, and all that follows from them; it never changes.

    Args:
        env: an environment; its specs are locked, unless they are to stay open.

    Attributes:
        env: the name of the environment's class, for messages.
        batch_size: of the environment.
        batch_locked: whether tensordicts must have that batch size.
        device: None if it is left open.
        specs: the five composites by the names of their attributes, such as `full_action_spec`.
        action: what `step` reads as actions.
        state: what `step` reads besides.
        observation: what `reset` and `step` give, the state included.
        reward: what `step` gives as rewards.
        done: all done flags.
        done_sets: the flags that end together, the root-most first.
        root_sets: those that stand under no other one.
        root_tensors: the tensors of a root, but for its actions.
        reward_tensors: the tensors of the rewards.
        step_plan: what `step_mdp` leaves out.

    Raises:
        RuntimeError: a reward or a flag has no dimension behind the batch, or a key has two meanings.
        ValueError: the done flags cannot work together.
    """

    def __init__(self, env: SpecProperties[Any]) -> None:
        self.env = type(env).__name__
        self.batch_size, self.batch_locked, self.device = env._batch_size, env._batch_locked, env._device
        self.specs: dict[str, Composite] = {name: env._group(name) for name in SPEC_GROUPS}
        self._locked = env._spec_locked
        unlocked = {name: spec for name, spec in sorted(self.specs.items()) if not spec.is_locked}
        for name, spec in unlocked.items():
            check_group(name, spec, self.batch_size, self.device)
        keys = {name: group_keys(spec) for name, spec in self.specs.items()}
        for name in unlocked:
            check_meanings(name, keys[name], keys)
        for spec in unlocked.values() if self._locked else ():
            spec.lock_()
        groups = {
            name: Group(spec, keys[name], tuple(self._entries(name)), name in env._unstated)
            for name, spec in self.specs.items()
        }
        self.action, self.state = groups["full_action_spec"], groups["full_state_spec"]
        self.observation, self.reward = groups["full_observation_spec"], groups["full_reward_spec"]
        self.done = groups["full_done_spec"]
        self.done_sets = done_sets(self.done.spec, len(self.batch_size))
        self.root_sets = rootmost_sets(self.done_sets)
        root = self.observation.entries + self.done.entries + self.state.entries
        self.root_tensors, self.reward_tensors = _tensor_keys(root), _tensor_keys(self.reward.entries)
        self.step_plan = step_plan(self.reward.keys, self.done.keys)

    def _entries(self, name: str) -> Iterator[Entry]:
        for leaf in leaves_of(self.specs[name]):
            spec = leaf.spec
            shape = tuple(spec.shape[len(leaf.batch_of(self.batch_size)) :])
            single = not leaf.items and spec.dtype is not None and -1 not in shape
            yield Entry(
                leaf,
                shape,
                spec.dtype,
                device=spec.device if self.device is not None else None,
                source=name.removeprefix("full_"),
                whole=torch.Size((*self.batch_size, *shape)) if single else None,
            )

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
        return whole.lock_() if self._locked else whole


def _tensor_keys(entries: Iterable[Entry]) -> TensorKeys:
    # an observed state stands once
    leaves = {(e.leaf.key, e.leaf.items): e.leaf for e in entries if e.dtype is not None}
    keys: list[Any] = [leaf.key for leaf in leaves.values() if not leaf.items]
    stacked = [leaf for leaf in leaves.values() if leaf.items]
    flat = not stacked and all(isinstance(key, str) for key in keys)
    return TensorKeys(keys if flat else None, keys, stacked)
