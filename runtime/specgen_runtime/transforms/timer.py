"""`Timer`: how long steps, resets and the policy take."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase

from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.typing import NestedKey

__all__ = ["Timer"]


class Timer(Transform):
    """Measures, in seconds, the steps and resets of the environment before it, and what lies between them.

    The three entries are numbers of the batch size, the same in all rows. A reset writes its own time, and 0 for the step
    and the policy; a step writes its own, that of the policy since the step or reset before, and 0 for the reset.

    Args:
        out_keys: the entries of a step, of the policy and of a reset. None: ``time_step``, ``time_policy``,
            ``time_reset``.
        time_key: in place of ``time`` in these names.

    Raises:
        ValueError: there are not three keys.
    """

    def __init__(self, out_keys: Sequence[NestedKey] | None = None, time_key: str = "time") -> None:
        if out_keys is None:
            out_keys = [f"{time_key}_step", f"{time_key}_policy", f"{time_key}_reset"]
        super().__init__([], out_keys)
        if len(self.out_keys) != 3:
            raise ValueError(f"Timer writes three entries, got the keys {self.out_keys}")
        self.time_step_key, self.time_policy_key, self.time_reset_key = self.out_keys
        self._asked = self._answered = time.perf_counter()
        self._policy = 0.0

    def _reset_env_preprocess(self, tensordict: TensorDictBase | None) -> TensorDictBase | None:
        self._asked = time.perf_counter()
        return tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._answered = time.perf_counter()
        return self._write(tensordict_reset, 0.0, 0.0, self._answered - self._asked)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        self._asked = time.perf_counter()
        self._policy = self._asked - self._answered
        return tensordict

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._answered = time.perf_counter()
        return self._write(next_tensordict, self._answered - self._asked, self._policy, 0.0)

    def _write(self, tensordict: TensorDictBase, step: float, policy: float, reset: float) -> TensorDictBase:
        for key, seconds in zip(self.out_keys, (step, policy, reset), strict=True):
            tensordict.set(key, torch.full(tensordict.batch_size, seconds, device=tensordict.device))
        return tensordict

    def _derives_done(self) -> bool:
        return False

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        raise NotImplementedError("Timer measures an environment: recorded data took no time")

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the three entries."""
        for key in self.out_keys:
            observation_spec[key] = Unbounded(observation_spec.shape, device=observation_spec.device)
        return observation_spec
