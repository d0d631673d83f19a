"""`LeanRows`: the short ways of several Gymnasium environments in one process, side by side.

Each environment has a `LeanPath`. Here the observations of all go into the rows of one array, which becomes one
tensor; no environment makes tensors or tensordicts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.shortcut import Shortcut
from specgen_runtime.envs.gym.lean import LeanPath
from specgen_runtime.envs.gym.values import rewards_tensor
from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.envs.packing import entries_of, fast_td, overlay

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.batched.crew import Given

__all__ = ["FLAGS", "LeanRows", "short_ways"]

FLAGS = ("done", "terminated", "truncated")


def short_ways(envs: Sequence[EnvBase[Any]]) -> list[LeanPath] | None:
    """The short way of each of some environments, or None if one of them has none at the moment."""
    found: list[LeanPath] = []
    for env in envs:
        lean = env._short() if isinstance(env, GymWrapper) and not env._closed else None
        if lean is None:
            return None
        found.append(lean)
    return found


class LeanRows(Shortcut):
    """The short ways of several environments with the same spaces.

    Args:
        envs: the environments.
        ways: the short way of each.
        device: of the batch.
        given: told what they give.

    Attributes:
        ways: as given.
        sources: what the short ways step.
        plan: how observations are kept.
        key: the key of the observation.
        fits: shape and dtype of what one environment's root has to hold, by key.
        decode_all: from actions `(T, ...)` to the list of Gymnasium's.
    """

    def __init__(
        self,
        envs: Sequence[EnvBase[Any]],
        ways: Sequence[LeanPath],
        device: torch.device | None,
        given: Given,
    ) -> None:
        first = ways[0]
        self.ways = ways
        self.sources = [way._source for way in ways]
        self.plan, self.key = first._plan, first._key
        self.count, self.device = len(ways), device
        self.size = torch.Size((self.count,))
        self.fits = first._fits
        self.decode_all = first._decode_all
        self._envs, self._given = envs, given
        self._shape, self._dtype = torch.Size((self.count, *first._shape)), first._dtype

    @classmethod
    def of(
        cls,
        envs: Sequence[EnvBase[Any]],
        ways: Sequence[LeanPath],
        device: torch.device | None,
        given: Given,
    ) -> LeanRows | None:
        """The short ways side by side, or None if the environments differ in their spaces or devices."""
        first = ways[0]
        for way in ways:
            same = (
                way._device == device
                and way._fits == first._fits
                and (way._shape, way._dtype) == (first._shape, first._dtype)
                and _spaces(way) == _spaces(first)
            )
            if not same:
                return None
        return cls(envs, ways, device, given)

    # commands

    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root has an action that fits, and nothing that the long way has to look at."""
        held = entries_of(tensordict)
        action = held.get("action")
        return (
            type(action) is Tensor
            and "next" not in held
            and tensordict.device == self.device
            and self.fits_action(action)
        )

    def fits_action(self, action: Any) -> bool:
        """Whether actions, or their spec, have the shape and the dtype that the environments read."""
        return action.shape == self._shape and action.dtype is self._dtype

    def reset(self) -> TensorDict:
        """Start new episodes in all environments: the root."""
        rows = np.empty((self.count, *self.plan.shape), dtype=self.plan.dtype)
        for place in range(self.count):
            rows[place] = self.begin(place)
            self._envs[place].__dict__["_begun"] = True
        entries = {self.key: self.plan.finish(rows), **self._no_flags()}
        self.keep(entries)
        return fast_td(entries, self.size, self.device)

    def step(self, tensordict: TensorDict) -> TensorDict:
        """Take a step: `"next"`."""
        _, entries, _ = self._advance(tensordict, resets=False)
        self.keep(entries)
        return fast_td(entries, self.size, self.device)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDict, TensorDict]:
        """Take a step, reset what is done: `"next"` and the root."""
        rows, entries, firsts = self._advance(tensordict, resets=True)
        new = {self.key: entries[self.key], **{flag: entries[flag] for flag in FLAGS}}
        if firsts:
            rows = rows.copy()
            for place, row in firsts.items():
                rows[place] = row
            new = {self.key: self.plan.finish(rows), **self._no_flags()}
        self.keep(new)
        root = overlay(tensordict, new)
        root.pop("reward", None)
        return fast_td(entries, self.size, self.device), fast_td(root, self.size, self.device)

    def _advance(
        self, tensordict: TensorDict, *, resets: bool
    ) -> tuple[Any, dict[str, Tensor], dict[int, Any]]:
        """Step each environment, and reset it at once if that ended its episode and `resets` says so.

        Returns:
            The observations as the plan keeps them, the entries of `"next"`, and the first observations of the new
            episodes by place.
        """
        plan, count = self.plan, self.count
        rows = np.empty((count, *plan.shape), dtype=plan.dtype)
        ended, cut = np.zeros((count, 1), dtype=np.bool_), np.zeros((count, 1), dtype=np.bool_)
        rewards: list[Any] = []
        firsts: dict[int, Any] = {}
        over = False
        place = 0
        try:
            for place, action in enumerate(entries_of(tensordict)["action"].unbind(0)):
                choice = self.ways[place]._decode(action)
                observation, reward, terminated, truncated, _info = self.sources[place].stepper()(choice)
                rows[place] = self.row(observation)
                rewards.append(reward)
                if terminated or truncated:
                    ended[place], cut[place] = bool(terminated), bool(truncated)
                    over = True
                    if resets:
                        firsts[place] = self.begin(place)
        except Exception as error:
            error.add_note(f"in environment {place} of {count}")
            raise
        new = torch.from_numpy
        entries = {
            self.key: plan.finish(rows),
            "reward": rewards_tensor(rewards),
            "done": new(ended | cut if over else np.zeros_like(ended)),
            "terminated": new(ended),
            "truncated": new(cut),
        }
        return rows, entries, firsts

    def begin(self, place: int) -> Any:
        """Start an episode in one environment: its first observation as the plan keeps it."""
        return self.row(self.sources[place].reset({})[0])

    def row(self, observation: Any) -> Any:
        """An observation as the plan keeps it; not a copy."""
        plan = self.plan
        if (
            type(observation) is np.ndarray
            and observation.dtype is plan.fits
            and observation.shape == plan.shape
        ):
            return observation
        return plan.admit(observation)

    def keep(self, entries: dict[str, Tensor]) -> None:
        """Take note of what the environments gave: observations and done flags, at least."""
        self._given.take(batch=fast_td(dict(entries), self.size, self.device))

    def _no_flags(self) -> dict[str, Tensor]:
        return {flag: torch.from_numpy(np.zeros((self.count, 1), dtype=np.bool_)) for flag in FLAGS}


def _spaces(way: LeanPath) -> tuple[Any, Any]:
    env = way._source.env
    return env.observation_space, env.action_space
