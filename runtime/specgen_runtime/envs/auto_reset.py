"""`AutoResetEnv`: environments that begin the next episode by themselves."""

from __future__ import annotations

from typing import Any, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.finite import refuse_not_finite
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.packing import peek
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.spec_groups import SPEC_GROUPS
from specgen_runtime.envs.stepping import complete_step
from specgen_runtime.envs.wrapping import WrappingEnv

__all__ = ["AutoResetEnv"]


class AutoResetEnv(WrappingEnv[D]):
    """Makes an ordinary environment of one whose `_step` resets by itself what is done.

    Such a `_step` gives reward and flags of the step that ended the episode, but the first observation of the next
    one. Here `"next"` keeps the reward and the flags, and the observation waits: the reset that follows the end
    (`maybe_reset`, `step_and_maybe_reset`, a rollout that goes on) hands it out without calling `_reset`. The last
    observation of an episode is lost; what stands in its place is filled in, so that nothing learns from it.

    Made by calling any environment with `auto_reset=True`.

    Args:
        base_env: the environment.
        replace: fill in; if False, `"next"` shows the observation of the next episode where it is done.
        fill_float: in place of floating-point numbers.
        fill_int: in place of integers; unsigned ones are 0.
        fill_bool: in place of booleans.

    Attributes:
        base_env: the environment that resets itself.

    Raises:
        TypeError: `base_env` is no environment.
        RuntimeError: from `reset`, if a `_reset` mask selects environments that did not end at the last step: they
            cannot be reset one by one. Without a mask all are, by `_reset`.
    """

    _resets_itself = True

    def __init__(
        self,
        base_env: EnvBase[Any],
        *,
        replace: bool = True,
        fill_float: float = float("nan"),
        fill_int: int = -1,
        fill_bool: bool = False,
    ) -> None:
        if not isinstance(base_env, EnvBase):
            raise TypeError(f"AutoResetEnv needs an environment, found {type(base_env).__name__}")
        super().__init__(
            device=base_env.device,
            batch_size=base_env.batch_size,
            batch_locked=base_env.batch_locked,
            allow_done_after_reset=base_env._allow_done_after_reset,
        )
        self.base_env = base_env
        self._fills = (float(fill_float), int(fill_int), bool(fill_bool)) if replace else None
        self._waiting: TensorDictBase | None = None
        self._ended: dict[DoneSet, Tensor] = {}
        self._supports_set_state = base_env._supports_set_state
        self._acts_in_resets = base_env._acts_in_resets
        self._action_masks = getattr(base_env, "_action_masks", ())
        self._take_specs()

    def _take_specs(self) -> None:
        for name in SPEC_GROUPS:
            self._set_group(name, self.base_env._env_layout.specs[name])

    @property
    def check_finite(self) -> bool:
        """Whether NaN and infinity are refused, in what the environment itself gives."""
        return self.base_env.check_finite

    @check_finite.setter
    def check_finite(self, value: bool) -> None:
        self.base_env.check_finite = value

    def _step(self, tensordict: D) -> TensorDictBase:
        mask: Tensor | None = peek(tensordict, "_step")
        before, ended_before = self._waiting, self._ended
        self._waiting = None
        following: TensorDictBase = self.base_env._step(tensordict)
        complete_step(self.base_env, following)
        if self.base_env.check_finite:
            layout, seen = self.base_env._env_layout, following
            if mask is not None:  # what the others hold means nothing
                seen = torch.where(mask, following, following.apply(torch.zeros_like))
            refuse_not_finite(layout, seen, layout.observation.entries + layout.reward.entries, "_step")
        ended: dict[DoneSet, Tensor] = {s: following.get(s.done) for s in self._env_layout.root_sets}
        kept: dict[DoneSet, Tensor] = {}
        if mask is not None:
            for s, flag in ended.items():
                rows = mask.reshape(*mask.shape, *(1,) * len(s.shape))
                if before is not None:
                    kept[s] = ended_before[s] & ~rows
                ended[s] = flag & rows | kept.get(s, torch.zeros_like(flag))
        if any(bool(flag.any()) for flag in ended.values()):
            self._waiting = following.select(*self.observation_keys, strict=False)
            self._ended = {s: flag.clone() for s, flag in ended.items()}
            if before is not None and kept:  # still waiting
                merge_reset(self._waiting, before, kept)
            if self._fills is not None:
                merge_reset(following, self._waiting.apply(self._filled), self._ended)
        return following

    def _filled(self, value: Tensor) -> Tensor:
        assert self._fills is not None
        of_float, of_int, of_bool = self._fills
        if value.is_floating_point():
            return torch.full_like(value, of_float)
        if value.dtype is torch.bool:
            return torch.full_like(value, of_bool)
        return torch.full_like(value, of_int if value.dtype.is_signed else 0)

    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        masks = {} if tensordict is None else {s: tensordict.get(s.reset, None) for s in self._done_sets}
        given = {s: mask for s, mask in masks.items() if mask is not None}
        if not given:
            self._waiting = None
            fresh: TensorDictBase = self.base_env._reset(tensordict, **kwargs)
            self.base_env.__dict__["_begun"] = True
            self.base_env._complete_dones(fresh)
            if self.base_env.check_finite:
                layout = self.base_env._env_layout
                refuse_not_finite(layout, fresh, layout.observation.entries, "_reset")
            return fresh
        for s, mask in given.items():
            ended = self._ended.get(s)
            if self._waiting is None or (ended is not None and bool((mask & ~ended).any())):
                raise RuntimeError(
                    f"{type(self.base_env).__name__} resets itself: {show_key(s.reset)} can select only what ended at"
                    " the last step; reset without a mask to begin anew"
                )
        assert self._waiting is not None
        return self._waiting.copy()

    def rand_action(self, tensordict: D | None = None) -> D:
        """Random actions of the environment itself."""
        drawn: D = self.base_env.rand_action(tensordict)
        return drawn

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the environment itself too; in place, returns this environment."""
        self.base_env.to(*args, **kwargs)
        self._device = self.base_env.device
        self._waiting = None
        self._take_specs()
        return self
