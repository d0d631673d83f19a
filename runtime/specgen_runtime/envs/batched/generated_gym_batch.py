"""`GeneratedGymBatch`: several generated Gymnasium environments of this process, stepped side by side.

Each computes its step with NumPy's arrays; what all of them give becomes one tensor for each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.batched.fast_path import BatchFastPath
from specgen_runtime.envs.gym.generated import GeneratedGymEnv
from specgen_runtime.envs.gym.rows import GymRowSteps
from specgen_runtime.envs.packing import entries_of, fast_td, overlay
from specgen_runtime.envs.traced import is_traced

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.batched.rows import LastOutputs

__all__ = ["GeneratedGymBatch", "row_steps_of"]


def row_steps_of(envs: Sequence[EnvBase[Any]]) -> list[GymRowSteps] | None:
    """What takes the steps of each of some environments of one class; None if one needs the general way at the moment."""
    found: list[GymRowSteps] = []
    kind = type(envs[0])
    for env in envs:
        if type(env) is not kind or not isinstance(env, GeneratedGymEnv):
            return None
        general = env._closed or env._check_finite or env._rewritten or not env._one_action
        steps = None if general else env._row_steps()
        if steps is None:
            return None
        found.append(steps)
    return found


class GeneratedGymBatch(BatchFastPath):
    """Steps several environments of one class.

    Args:
        envs: the environments, whose data are on the CPU.
        steps: takes the steps of each.
        device: of the batch: the CPU, or None.
        last: told what they give.
    """

    def __init__(
        self,
        envs: Sequence[GeneratedGymEnv[Any, Any]],
        steps: Sequence[GymRowSteps],
        device: torch.device | None,
        last: LastOutputs,
    ) -> None:
        self._envs, self._steps, self._device, self._last = envs, steps, device, last
        self._size = torch.Size((len(envs),))
        layout = envs[0]._env_layout
        ((action, spec),) = envs[0]._action_leaves
        self._action: Any = action
        self._action_spec = spec.expand(*self._size, *spec.shape)
        self._read: list[tuple[Any, torch.Size, torch.dtype | None]] = [
            (entry.leaf.key, torch.Size((*self._size, *entry.shape)), entry.dtype)
            for entry in (*layout.state.entries, *layout.done.entries)
        ]
        self._rewards = frozenset(layout.reward.keys)

    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root has what a step reads, an action that is in its spec, and nothing that the general way looks at."""
        held = entries_of(tensordict)
        if "next" in held or tensordict.device != self._device or is_traced():
            return False
        spec = self._action_spec
        for key, shape, dtype in ((self._action, spec.shape, spec.dtype), *self._read):
            value = held.get(key)
            if (
                type(value) is not Tensor
                or value.shape != shape
                or value.dtype is not dtype
                or value.requires_grad
            ):
                return False
        return bool(spec.is_in(held[self._action]))

    def reset(self) -> TensorDict:
        """Start new episodes in all environments: the root."""
        for env in self._envs:
            env.__dict__["_begun"] = True
        entries = self._stacked([steps.first() for steps in self._steps])
        self._keep(entries)
        return self._packed(entries)

    def step(self, tensordict: TensorDict) -> TensorDict:
        """Take a step: `"next"`."""
        following = self._stacked(self._advance(tensordict))
        self._keep(self._without_rewards(following))
        return self._packed(following)

    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDict, TensorDict]:
        """Take a step, reset what is done: `"next"` and the root."""
        firsts: dict[int, dict[str, Any]] = {}
        following = self._stacked(self._advance(tensordict, firsts))
        new = self._without_rewards(following)
        if firsts:
            for key, column in new.items():
                values = column.numpy().copy()
                for place, first in firsts.items():
                    values[place] = first[key]
                new[key] = torch.from_numpy(values)
        self._keep(new)
        root = overlay(tensordict, dict(new))
        for reward in self._rewards:
            root.pop(str(reward), None)  # keys are flat
        return self._packed(following), self._packed(root)

    def _advance(
        self, tensordict: TensorDict, firsts: dict[int, dict[str, Any]] | None = None
    ) -> list[dict[str, Any]]:
        """Step each environment: the values of what `"next"` of each holds.

        Args:
            tensordict: the root.
            firsts: where each that is done starts a new episode, before others step, which may learn together with it:
                the values of the roots, by place; None for no new episodes.
        """
        held = entries_of(tensordict)
        arrays = {key: held[key].numpy() for key in self._envs[0]._gym_row_reads}
        rows: list[dict[str, Any]] = []
        try:
            for place, action in enumerate(held[self._action].unbind(0)):
                steps = self._steps[place]
                own = steps.values_of({key: array[place] for key, array in arrays.items()})
                row = steps.take(list(own.values()), steps.decode((action,)))
                if firsts is not None and row["done"]:
                    firsts[place] = steps.first()
                rows.append(row)
        except Exception as error:
            error.add_note(f"in environment {len(rows)} of {len(self._steps)}")
            raise
        return rows

    def _stacked(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The entries of all rows of values, each with a first dimension of rows."""
        column = self._steps[0].column
        return {key: torch.from_numpy(column(key, [row[key] for row in rows])) for key in rows[0]}

    def _without_rewards(self, entries: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {key: value for key, value in entries.items() if key not in self._rewards}

    def _keep(self, entries: Mapping[str, Tensor]) -> None:
        """Take note of what the environments gave."""
        self._last.take(batch=self._packed(dict(entries)))

    def _packed(self, entries: dict[str, Any]) -> TensorDict:
        return fast_td(entries, self._size, self._device)
