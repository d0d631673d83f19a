"""Transforms of samples of a replay buffer: `NextStateReconstructor`, `PolicyAgeFilter`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import show_key
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key, normal_keys
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.typing import NestedKey

__all__ = ["NextStateReconstructor", "PolicyAgeFilter"]


class NextStateReconstructor(ReplayTransform):
    """Writes entries under ``"next"`` that were left out of storage, from the sample that follows in a flat batch.

    A sample follows another one if it is of the same trajectory, the other one is not done, and, where counters are
    named, its counter is one higher. What has none gets `fill_value`.

    Args:
        keys: entries of the root.
        traj_key: the numbers of trajectories. None: all samples are of one.
        done_key: the flag after which nothing follows. None: nothing ends.
        step_count_key: a counter of steps. None: not looked at.
        fill_value: for samples that nothing follows. Integers have no NaN: give a number.
        strict: refuse data without one of these entries. False: do not look at what is missing.

    Raises:
        ValueError: at a call: the batch is not flat.
        KeyError: at a call: an entry is missing.
        TypeError: at a call: NaN is to be written into integers.
    """

    def __init__(
        self,
        keys: Sequence[NestedKey] = ("observation",),
        *,
        traj_key: NestedKey | None = ("collector", "traj_ids"),
        done_key: NestedKey | None = ("next", "done"),
        step_count_key: NestedKey | None = None,
        fill_value: float = math.nan,
        strict: bool = True,
    ) -> None:
        listed = normal_keys(list(keys))
        super().__init__(listed, [("next", *as_tuple(key)) for key in listed])
        self.traj_key = traj_key
        self.done_key = done_key
        self.step_count_key = step_count_key
        self.fill_value = fill_value
        self.strict = strict

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if tensordict.batch_dims != 1:
            raise ValueError(
                f"NextStateReconstructor needs a flat batch of samples, got the batch size {list(tensordict.batch_size)}"
            )
        if not len(tensordict):
            return tensordict
        follows = self._followed(tensordict)
        for in_key, out_key in self._pairs():
            value = self._read(tensordict, in_key, self._missing_tolerance)
            if value is None:
                continue
            if math.isnan(self.fill_value) and not value.is_floating_point():
                raise TypeError(
                    f"NextStateReconstructor: {show_key(in_key)} is {str(value.dtype).removeprefix('torch.')}, which has no"
                    " NaN: give a fill_value"
                )
            mask = follows.reshape(-1, *(1,) * (value.ndim - 1))
            filled = torch.full((), self.fill_value, dtype=value.dtype, device=value.device)
            tensordict.set(out_key, torch.where(mask, value.roll(-1, 0), filled))
        return tensordict

    def _followed(self, tensordict: TensorDictBase) -> Tensor:
        """Which samples the next one follows, `[batch]`."""
        found = torch.ones(tensordict.batch_size, dtype=torch.bool, device=tensordict.device)
        found[-1:] = False
        if (numbers := self._marker(tensordict, self.traj_key)) is not None:
            found &= numbers.roll(-1) == numbers
        if (done := self._marker(tensordict, self.done_key)) is not None:
            found &= ~done.bool()
        if (steps := self._marker(tensordict, self.step_count_key)) is not None:
            found &= steps.roll(-1) == steps + 1
        return found

    def _marker(self, tensordict: TensorDictBase, key: NestedKey | None) -> Tensor | None:
        if key is None:
            return None
        value = self._read(tensordict, normal_key(key), tolerant=not self.strict)
        return None if value is None else value.reshape(len(value), -1)[:, 0]


class PolicyAgeFilter(Transform):
    """Drops data of policies that are too old, when they come into a replay buffer and when they are sampled.

    In an environment it does nothing: the policy there is the newest one. Batches become shorter.

    Args:
        current_version: the number of the newest policy, or a function that tells it.
        max_policy_lag: how many numbers behind it data may be.
        policy_version_key: the numbers of the policies that made the data; of several in a row the lowest counts.
        strict: refuse data without numbers. False: they pass.

    Raises:
        ValueError: `max_policy_lag` is negative.
        KeyError: at a call: there are no numbers.
    """

    def __init__(
        self,
        current_version: int | Callable[[], int],
        max_policy_lag: int,
        *,
        policy_version_key: NestedKey = "policy_version",
        strict: bool = False,
    ) -> None:
        if max_policy_lag < 0:
            raise ValueError(f"max_policy_lag is not negative, got {max_policy_lag}")
        super().__init__()
        self.current_version = current_version
        self.max_policy_lag = max_policy_lag
        self.policy_version_key = normal_key(policy_version_key)
        self.strict = strict

    def _filtered(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.container is not None:
            return tensordict
        versions = self._read(tensordict, self.policy_version_key, tolerant=not self.strict)
        if versions is None or not tensordict.batch_dims or not len(tensordict):
            return tensordict
        newest = self.current_version() if callable(self.current_version) else self.current_version
        oldest = versions.reshape(len(versions), -1).amin(-1)
        kept: TensorDictBase = tensordict[newest - oldest <= self.max_policy_lag]
        return kept

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._filtered(tensordict)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        return self._filtered(tensordict)
