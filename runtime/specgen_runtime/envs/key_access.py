"""The keys of an environment, read off its specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

import torch

from specgen_runtime.envs.done import DoneSet, done_sets
from specgen_runtime.envs.keys import MissingKeyError, as_tuple, join_key
from specgen_runtime.envs.leaves import Leaf, leaves_of
from specgen_runtime.envs.spec_access import SpecAccess
from specgen_runtime.envs.spec_types import ActionKey, DoneKey, KeyTypes, RewardKey, Some
from specgen_runtime.typing import NestedKey

__all__ = ["Expected", "KeyAccess"]


@dataclass(frozen=True, slots=True)
class Expected:
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


class KeyAccess(SpecAccess[Some], Generic[Some]):
    """The part of an environment that names its keys. All lists follow the order of the specs."""

    def _keys(self, group: str) -> list[NestedKey]:
        name = f"keys:{group}"
        found: list[NestedKey] | None = self._cache.get(name)
        if found is None:
            found = [join_key(as_tuple(key)) for key in self._settled(group).keys(True, True)]
            self._cache[name] = found
        return found

    def _only_key(self, group: str, what: str) -> Any:
        keys = self._keys(group)
        if len(keys) != 1:
            raise MissingKeyError(
                f"{what}_key needs exactly one {what}, the environment has {keys}; use {what}_keys"
            )
        return keys[0]

    @property
    def action_keys(self) -> list[NestedKey]:
        """The keys of all actions."""
        return list(self._keys("full_action_spec"))

    @property
    def action_key(self: KeyAccess[KeyTypes[ActionKey, Any, Any]]) -> ActionKey:
        """The key of the action. Raises KeyError if there are several."""
        key: ActionKey = self._only_key("full_action_spec", "action")
        return key

    @property
    def reward_keys(self) -> list[NestedKey]:
        """The keys of all rewards."""
        return list(self._keys("full_reward_spec"))

    @property
    def reward_key(self: KeyAccess[KeyTypes[Any, RewardKey, Any]]) -> RewardKey:
        """The key of the reward. Raises KeyError if there are several."""
        key: RewardKey = self._only_key("full_reward_spec", "reward")
        return key

    @property
    def done_keys(self) -> list[NestedKey]:
        """The keys of all done flags: `done`, `terminated` and `truncated` of every done set."""
        return list(self._keys("full_done_spec"))

    @property
    def done_key(self: KeyAccess[KeyTypes[Any, Any, DoneKey]]) -> DoneKey:
        """The key of the `done` flag. Raises KeyError if there are several done sets."""
        sets = self._done_sets
        if len(sets) != 1:
            found = [s.done for s in sets]
            raise MissingKeyError(
                f"done_key needs exactly one done set, the environment has {found}; use done_keys"
            )
        key: Any = sets[0].done
        done: DoneKey = key
        return done

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the reset masks, one for each done set; the root-most on a path decides."""
        return [s.reset for s in self._done_sets]

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """The keys of the flags of each done set, in the order of `reset_keys`."""
        return [[key for key in self.done_keys if as_tuple(key)[:-1] == s.prefix] for s in self._done_sets]

    @property
    def observation_keys(self) -> list[NestedKey]:
        """The keys of everything observed."""
        return list(self._keys("full_observation_spec"))

    @property
    def state_keys(self) -> list[NestedKey]:
        """The keys of the inputs of `step` that are not actions."""
        return list(self._keys("full_state_spec"))

    @property
    def _done_sets(self) -> tuple[DoneSet, ...]:
        found: tuple[DoneSet, ...] | None = self._cache.get("done_sets")
        if found is None:
            found = done_sets(self._settled("full_done_spec"), len(self._batch_size))
            self._cache["done_sets"] = found
        return found

    def _expected(self, *groups: str) -> tuple[Expected, ...]:
        """What the entries of some groups must look like."""
        found: tuple[Expected, ...] | None = self._cache.get(groups)
        if found is None:
            found = tuple(
                self._expect(leaf, group) for group in groups for leaf in leaves_of(self._settled(group))
            )
            self._cache[groups] = found
        return found

    def _expect(self, leaf: Leaf, group: str) -> Expected:
        spec, size = leaf.spec, self._batch_size
        shape = tuple(spec.shape[len(leaf.batch_of(size)) :])
        single = not leaf.items and spec.dtype is not None and -1 not in shape
        return Expected(
            leaf=leaf,
            shape=shape,
            dtype=spec.dtype,
            device=spec.device if self._device is not None else None,
            source=group.removeprefix("full_"),
            whole=torch.Size((*size, *shape)) if single else None,
        )
