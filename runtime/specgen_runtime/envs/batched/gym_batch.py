"""`GymBatch`: several Gymnasium environments of this process, stepped side by side.

The observations of all go into the rows of one array, which becomes one tensor; no environment makes tensors or
tensordicts of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.gym.fast_path import GymFastPath, no_flags
from specgen_runtime.envs.gym.values import rewards_tensor
from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.envs.packing import entries_of, fast_td, overlay

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.batched.rows import LastOutputs

__all__ = ["GymBatch", "fast_paths"]


def fast_paths(envs: Sequence[EnvBase[Any]]) -> list[GymFastPath] | None:
    """The fast path of each of some environments, or None if one of them has none at the moment."""
    found: list[GymFastPath] = []
    for env in envs:
        path = env._fast_path() if isinstance(env, GymWrapper) and not env._closed else None
        if path is None:
            return None
        found.append(path)
    return found


class GymBatch(BatchFastPath):
    """Steps several Gymnasium environments with the same spaces.

    Args:
        paths: the fast path of each.
        device: of the batch.
        last: told what they give.

    Attributes:
        paths: as given.
        action_fits: shape and dtype of the batch's actions.
    """

    def __init__(self, paths: Sequence[GymFastPath], device: torch.device | None, last: LastOutputs) -> None:
        self.paths, self._last = paths, last
        self._device, self._size = device, torch.Size((len(paths),))
        self._form, self._key = paths[0].form, paths[0].key
        shape, dtype = paths[0].action_fits
        self.action_fits = torch.Size((len(paths), *shape)), dtype

    @classmethod
    def of(
        cls, paths: Sequence[GymFastPath], device: torch.device | None, last: LastOutputs
    ) -> GymBatch | None:
        """The batch, or None if the environments differ in their spaces or devices."""
        first = paths[0]
        for path in paths:
            if (
                path.device != device
                or (path.fits, path.action_fits) != (first.fits, first.action_fits)
                or path.spaces != first.spaces
            ):
                return None
        return cls(paths, device, last)

    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root has an action that fits, and nothing that the general way has to look at."""
        held = entries_of(tensordict)
        action = held.get("action")
        return (
            type(action) is Tensor
            and "next" not in held
            and tensordict.device == self._device
            and (action.shape, action.dtype) == self.action_fits
        )

    def reset(self) -> TensorDict:
        """Start new episodes in all environments: the root."""
        rows = self._form.room(len(self.paths))
        for place, path in enumerate(self.paths):
            rows[place] = path.reset_row()
        entries = {self._key: self._form.finish(rows), **no_flags(*self._size)}
        self.keep(entries)
        return self._packed(entries)

    def step(self, tensordict: TensorDict) -> TensorDict:
        """Take a step: `"next"`."""
        _, entries, _ = self._advance(tensordict, resets=False)
        self.keep(entries)
        return self._packed(entries)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDict, TensorDict]:
        """Take a step, reset what is done: `"next"` and the root."""
        rows, entries, firsts = self._advance(tensordict, resets=True)
        new = {name: entries[name] for name in (self._key, *FLAGS)}
        if firsts:
            rows = rows.copy()
            for place, row in firsts.items():
                rows[place] = row
            new = {self._key: self._form.finish(rows), **no_flags(*self._size)}
        self.keep(new)
        root = overlay(tensordict, new)
        root.pop("reward", None)
        return self._packed(entries), self._packed(root)

    def _advance(
        self, tensordict: TensorDict, *, resets: bool
    ) -> tuple[Any, dict[str, Tensor], dict[int, Any]]:
        """Step each environment, and reset it at once if that ended its episode and `resets` says so.

        Returns:
            The observations as rows, the entries of `"next"`, and the first observations of the new episodes by place.
        """
        form, count = self._form, len(self.paths)
        rows = form.room(count)
        ended, cut = np.zeros((count, 1), dtype=np.bool_), np.zeros((count, 1), dtype=np.bool_)
        rewards: list[Any] = []
        firsts: dict[int, Any] = {}
        over = False
        place = 0
        try:
            for place, action in enumerate(entries_of(tensordict)["action"].unbind(0)):
                path = self.paths[place]
                observation, reward, terminated, truncated, _info = path.source.stepper()(path.decode(action))
                rows[place] = form.row(observation)
                rewards.append(reward)
                if terminated or truncated:
                    ended[place], cut[place] = bool(terminated), bool(truncated)
                    over = True
                    if resets:
                        firsts[place] = path.reset_row()
        except Exception as error:
            error.add_note(f"in environment {place} of {count}")
            raise
        new = torch.from_numpy
        entries = {
            self._key: form.finish(rows),
            "reward": rewards_tensor(rewards),
            "done": new(ended | cut if over else np.zeros_like(ended)),
            "terminated": new(ended),
            "truncated": new(cut),
        }
        return rows, entries, firsts

    def keep(self, entries: dict[str, Tensor]) -> None:
        """Take note of what the environments gave: observations and done flags, at least."""
        self._last.take(batch=self._packed(dict(entries)))

    def _packed(self, entries: dict[str, Any]) -> TensorDict:
        return fast_td(entries, self._size, self._device)
