"""Transforms of samples of a replay buffer: `NextStateReconstructor`, `NextObservationDelta`, `PolicyAgeFilter`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.dtypes import dtype_name
from specgen_runtime.envs.keys import TRAJECTORY_KEY, next_key, show_key
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import as_tuple, normal_key, normal_keys, remove
from specgen_runtime.transforms.replay import ReplayTransform
from specgen_runtime.typing import NestedKey

__all__ = ["NextObservationDelta", "NextStateReconstructor", "PolicyAgeFilter"]


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
        traj_key: NestedKey | None = TRAJECTORY_KEY,
        done_key: NestedKey | None = ("next", "done"),
        step_count_key: NestedKey | None = None,
        fill_value: float = math.nan,
        strict: bool = True,
    ) -> None:
        listed = normal_keys(list(keys))
        super().__init__(listed, [next_key(key) for key in listed])
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
                    f"NextStateReconstructor: {show_key(in_key)} is {dtype_name(value.dtype)}, which has no"
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


class NextObservationDelta(ReplayTransform):
    """Stores what changed from the root to ``"next"`` in fewer digits, in place of the entries under ``"next"``.

    When data come into a replay buffer, ``("next", "delta", key)`` takes the place of ``("next", key)``; when they are
    sampled, the entry is the root's and the change, but for the digits that `delta_dtype` lacks. Unlike what
    `NextStateReconstructor` finds again, this holds for each sample by itself, ends of episodes too.

    Args:
        in_keys: entries of the root and of ``"next"``, of a float dtype. None: all of those that the data have in both, of one
            shape.
        delta_dtype: the dtype that is stored.
        restore_dtype: the dtype of what is sampled; ``"root"``: that of the root's entry.
        drop_delta: whether changes are left out of samples.
        excluded_dtypes: without `in_keys`, entries of these dtypes are left as they are; integers always are.

    Raises:
        TypeError: a dtype is none of floats; at a call: an entry has no float dtype.
        KeyError: at a call: an entry is missing.
        ValueError: at a call: a change is larger than `delta_dtype` holds, or an entry has two shapes.
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        *,
        delta_dtype: torch.dtype = torch.float16,
        restore_dtype: torch.dtype | Literal["root"] = "root",
        drop_delta: bool = True,
        excluded_dtypes: Collection[torch.dtype] = (),
    ) -> None:
        for name, dtype in (("delta_dtype", delta_dtype), ("restore_dtype", restore_dtype)):
            if dtype != "root" and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
                raise TypeError(f"{name} is a dtype of floats, got {dtype!r}")
        listed = None if in_keys is None else normal_keys(list(in_keys))
        super().__init__(listed, None if listed is None else [next_key(key) for key in listed])
        self.delta_dtype = delta_dtype
        self.restore_dtype = restore_dtype
        self.drop_delta = drop_delta
        self.excluded_dtypes = tuple(excluded_dtypes)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        keys = self._in_keys if self._in_keys is not None else self._changing(tensordict)
        found = {key: self._change(tensordict, key) for key in keys}
        if any(change is not None for change in found.values()):
            tensordict.set("next", tensordict["next"].copy())  # what was passed keeps its entries
        for key, change in found.items():
            if change is not None:
                remove(tensordict, next_key(key))
                tensordict.set(_delta_key(key), change)
        return tensordict

    def _changing(self, tensordict: TensorDictBase) -> list[NestedKey]:
        """The entries of floats that data have at the root and under ``"next"``, but for excluded ones.

        Raises:
            KeyError: nothing stands under ``"next"``.
        """
        following: TensorDictBase | None = tensordict.get("next", None)
        if following is None:
            raise KeyError(
                f"{type(self).__name__} stores what changes up to 'next', which is not in the tensordict"
            )
        root = tensordict.exclude("next")
        return [
            normal_key(key)
            for key, value in root.items(True, True)
            if value.is_floating_point()
            and value.dtype not in self.excluded_dtypes
            and isinstance(later := following.get(key, None), Tensor)
            and later.shape == value.shape
        ]

    def _change(self, tensordict: TensorDictBase, in_key: NestedKey) -> Tensor | None:
        """The change of an entry; None where it may be missing, and is."""
        root, following = (
            self._read(tensordict, key, self._missing_tolerance) for key in (in_key, next_key(in_key))
        )
        if root is None or following is None:
            return None
        if not root.is_floating_point():
            dtype = dtype_name(root.dtype)
            raise TypeError(
                f"NextObservationDelta: {show_key(in_key)} is {dtype}; only floats have changes in few digits"
            )
        if root.shape != following.shape:
            raise ValueError(
                f"NextObservationDelta: {show_key(in_key)} is {list(root.shape)} at the root, and"
                f" {list(following.shape)} under 'next'"
            )
        change = following - root
        stored = change.to(self.delta_dtype)
        if bool((stored.isinf() & change.isfinite()).any()):
            raise ValueError(
                f"NextObservationDelta: {show_key(in_key)} changes by {change.abs().max():g}, which is more than "
                f"{dtype_name(self.delta_dtype)} holds"
            )
        return stored

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        for in_key in self._in_keys if self._in_keys is not None else _changed(tensordict):
            root, change = (
                self._read(tensordict, key, self._missing_tolerance) for key in (in_key, _delta_key(in_key))
            )
            if root is None or change is None:
                continue
            dtype = root.dtype if isinstance(self.restore_dtype, str) else self.restore_dtype
            tensordict.set(next_key(in_key), root.to(dtype) + change.to(dtype))
            if self.drop_delta:
                remove(tensordict, _delta_key(in_key))
        return tensordict


def _changed(tensordict: TensorDictBase) -> list[NestedKey]:
    """The entries whose changes data hold."""
    changes: TensorDictBase | None = tensordict.get(("next", "delta"), None)
    return [] if changes is None else [normal_key(key) for key in changes.keys(True, True)]


def _delta_key(key: NestedKey) -> NestedKey:
    return ("next", "delta", *as_tuple(key))


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
