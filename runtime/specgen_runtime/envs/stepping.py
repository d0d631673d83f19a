"""`Stepping`: the part of an environment that resets and steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Self

import torch
from tensordict import TensorDict, TensorDictBase
from typing_extensions import TypeVar

from specgen_runtime.envs.checked import check_entries, check_flag_types, check_tensordict, fit_batch
from specgen_runtime.envs.done import any_done, complete_dones, pop_reset_masks, rootmost_sets
from specgen_runtime.envs.entries import peek
from specgen_runtime.envs.finite import refuse_not_finite
from specgen_runtime.envs.in_place import REWARDS, noted_versions, refuse_changes
from specgen_runtime.envs.key_access import KeyAccess
from specgen_runtime.envs.mdp import following_root
from specgen_runtime.envs.partial import merge_reset, refuse_done_after_reset
from specgen_runtime.envs.presets import add_presets
from specgen_runtime.envs.spec_types import S
from specgen_runtime.envs.step_masks import begin_partial, keep_others
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["D", "S", "Stepping"]

D = TypeVar("D", bound=TensorDictBase, default=Any)

_OBSERVED = ("full_observation_spec", "full_done_spec")
_ROOT = ("versions", *_OBSERVED, "full_state_spec")


class Stepping(KeyAccess[S], ABC, Generic[D, S]):
    """What `EnvBase` says of its constructor, of the hooks, and of `reset` and `step`."""

    _supports_set_state: bool = False
    """Whether `_reset` takes `set_state`: True starts from the state in its tensordict, False from a new one."""

    _supports_partial_steps: bool = False
    """Whether `_step` takes `_step` masks: rows outside are left alone. See `_step`."""

    _resets_itself: bool = False
    """Whether what is done cannot be told to reset, since it has done so already."""

    _begun: bool
    """Whether the environment was ever reset; kept where it decides what a random step without a root is."""

    _closed: bool
    _batch_locked: bool
    _inplace_update: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Take the `_batch_locked` and `_inplace_update` of TorchRL's `__new__`; the latter changes nothing."""
        locked, inplace = kwargs.pop("_batch_locked", True), kwargs.pop("_inplace_update", False)
        env = super().__new__(cls, *args, **kwargs)
        env.__dict__.update(
            _batch_locked=bool(locked),
            _inplace_update=bool(inplace),
            _closed=False,
            _begun=False,
        )
        return env

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | int | None = None,
        batch_locked: bool | None = None,
        run_type_checks: bool = False,
        allow_done_after_reset: bool = False,
        spec_locked: bool = True,
        check_finite: bool = False,
        auto_reset: bool = False,
        auto_reset_replace: bool = True,
        _batch_locked: bool | None = None,
        _inplace_update: bool | None = None,
    ) -> None:
        if auto_reset:
            raise TypeError(
                f"auto_reset=True is for the call that makes the environment: {type(self).__name__}(auto_reset=True)"
            )
        super().__init__(device=device, batch_size=batch_size, spec_locked=spec_locked)
        for locked in (batch_locked, _batch_locked):
            if locked is not None:
                self._batch_locked = bool(locked)
        if _inplace_update is not None:
            self._inplace_update = bool(_inplace_update)
        self._run_type_checks = bool(run_type_checks)
        self._allow_done_after_reset = bool(allow_done_after_reset)
        self._check_finite = bool(check_finite)
        self._closed = False

    # what a subclass writes

    @abstractmethod
    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        """Start new episodes.

        Args:
            tensordict: what the caller passed; only the `_reset` masks where `step_and_maybe_reset` or
                `maybe_reset` restart what is done. Where it holds `_reset` masks, only the rows they select need
                be reset; other rows of the result are ignored. An environment whose state is outside the
                tensordict must leave those rows alone and return what it last observed.
            **kwargs: from `reset`.

        Returns:
            A new tensordict with the observations; done flags may be left out where they are False. Its tensors
            are part of the data from then on: what changes later is returned as a clone.
        """

    @abstractmethod
    def _step(self, tensordict: D) -> TensorDictBase:
        """Advance by one step.

        Args:
            tensordict: the root: actions, state, observations, done flags. If only some environments of the batch
                take the step, their mask is `"_step"`, bool of the batch size; other rows of the result are ignored.
                An environment whose state is outside the tensordict must leave those rows alone, and says that it
                does with `_supports_partial_steps`.

        Returns:
            A new tensordict with observations, rewards and done flags (it becomes `"next"`), of new tensors, as
            `_reset`.
        """

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None:
        """Seed the environment's own random numbers; None leaves them as they are."""

    # how it was made

    @property
    def batch_locked(self) -> bool:
        """Whether inputs must have exactly the environment's batch size. Read-only."""
        return self._batch_locked

    @batch_locked.setter
    def batch_locked(self, value: bool) -> None:
        raise RuntimeError("batch_locked is set at construction")

    @property
    def run_type_checks(self) -> bool:
        """As given at construction, or set. Types are compared either way: a wrong dtype is a TypeError."""
        return self._run_type_checks

    @run_type_checks.setter
    def run_type_checks(self, value: bool) -> None:
        self._run_type_checks = bool(value)

    @property
    def check_finite(self) -> bool:
        """Whether NaN and infinity in observations and rewards are refused; can be set."""
        return self._check_finite

    @check_finite.setter
    def check_finite(self, value: bool) -> None:
        self._check_finite = bool(value)

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called; can be set by subclasses that close themselves."""
        return self._closed

    @is_closed.setter
    def is_closed(self, value: bool) -> None:
        self._closed = bool(value)

    # reset and step

    def reset(self, tensordict: D | None = None, *, set_state: bool | None = None, **kwargs: Any) -> D:
        """Start new episodes, in all environments or in those that `_reset` masks select.

        Args:
            tensordict: updated in place. For each done set it may hold a boolean `_reset` mask of the shape
                of its `done`: rows outside the mask keep every entry. The masks are removed. An environment
                without a state spec remembers what it last observed: entries may be left out.
            set_state: for environments that support it: True starts from the state in `tensordict`, False from a
                new one. None is True if there is state in it.
            **kwargs: passed to `_reset`.

        Returns:
            `tensordict`, or a new one: observations and done flags.

        Raises:
            TypeError: the argument or what `_reset` returned is not a tensordict.
            KeyError: an observation is missing, or, in an environment with a state spec, an entry whose rows
                are to be kept.
            NotImplementedError: `set_state=True` in an environment that does not support it.
            RuntimeError: wrong batch size, mask, shape, dtype or device, a reward, done right after the reset, or
                `_reset` changed an entry of `tensordict` in place.
            NotFiniteError: an observation is NaN or infinite, and `check_finite` is set.
        """
        self._refuse_if_closed()
        masks_only = kwargs.pop("select_reset_only", False)
        if set_state is not None or self._supports_set_state:
            self._choose_state(set_state, tensordict, masks_only, kwargs)
        if tensordict is None:
            return self._finish_reset(None, self._reset(None, **kwargs), {})
        check_tensordict(self, tensordict, "reset")
        request = tensordict.select(*self.reset_keys, strict=False) if masks_only else tensordict.copy()
        masks = pop_reset_masks(tensordict, self._done_sets, self._device)
        if masks and not any(bool(mask.any()) for mask in masks.values()):
            return tensordict
        held = noted_versions(self, tensordict, _ROOT)
        fresh = self._reset(request, **kwargs)
        if fresh is request:
            raise RuntimeError(f"{type(self).__name__}._reset returned its input; return a new tensordict")
        refuse_changes(self, held, "_reset")
        return self._finish_reset(tensordict, fresh, masks)

    def _choose_state(
        self, set_state: bool | None, tensordict: D | None, masks_only: bool, kwargs: dict[str, Any]
    ) -> None:
        if not self._supports_set_state:
            if set_state:
                raise NotImplementedError(
                    f"{type(self).__name__} cannot be reset to a given state (set_state=True): it does not"
                    " declare _supports_set_state"
                )
            return
        if set_state is None:
            set_state = tensordict is not None and any(
                tensordict.get(key, None) is not None for key in self.state_keys
            )
        kwargs["set_state"] = bool(set_state) and not masks_only

    def _finish_reset(self, tensordict: D | None, fresh: TensorDictBase, masks: dict[Any, torch.Tensor]) -> D:
        if not isinstance(fresh, TensorDictBase):
            raise TypeError(f"{type(self).__name__}._reset returned {type(fresh).__name__}, not a tensordict")
        size = self._batch_size if tensordict is None else tensordict.batch_size
        if fresh.batch_size != size and (self.batch_locked or tensordict is not None):
            fit_batch(self, fresh, size, "_reset")
        self._complete_dones(fresh)
        check_entries(self, fresh, self._expected(*_OBSERVED), "_reset", own=True)
        for key in self._keys("full_reward_spec"):
            if peek(fresh, key) is not None:
                raise RuntimeError(
                    f"{type(self).__name__}._reset returned the reward {key!r}; only _step gives rewards"
                )
        if not self._allow_done_after_reset:
            refuse_done_after_reset(fresh, masks, rootmost_sets(self._done_sets))
        if self._check_finite:
            refuse_not_finite(self, fresh, ("full_observation_spec",), "_reset")
        self.__dict__["_begun"] = True
        if tensordict is None:
            started: D = fresh
            return started
        if masks and not all(bool(mask.all()) for mask in masks.values()):
            merge_reset(tensordict, fresh, masks, fill=not self._keys("full_state_spec"))
        else:
            tensordict.update(fresh)
        return tensordict

    def step(self, tensordict: D) -> D:
        """Advance by one step.

        Args:
            tensordict: holds the actions (and the state). Values that its `"next"` entry already holds
                prevail over the computed ones, unless it holds all of them: then it is what an earlier step
                wrote, and is replaced. A mask `"_step"`, bool of the batch size (or of the shape of `done`), says
                which environments take the step: the others keep the root's observations and done flags, with
                reward 0. The mask is removed.

        Returns:
            The same tensordict, with `"next"`: observations, rewards and done flags.

        Raises:
            TypeError: the argument, its `"next"` or what `_step` returned is not a tensordict.
            KeyError: an action, an entry of `"next"`, or what environments outside `"_step"` keep, is missing.
            RuntimeError: wrong batch size, mask, shape, dtype (a TypeError, too) or device, contradicting done
                flags, or `_step` changed an entry of the root in place.
            NotImplementedError: `"_step"` selects some environments of a batch that can only step them all.
            NotFiniteError: an observation or reward is NaN or infinite, and `check_finite` is set.
        """
        self._refuse_if_closed()
        check_tensordict(self, tensordict, "step")
        mask = None
        if peek(tensordict, "_step") is not None:
            mask, skip = begin_partial(self, tensordict)
            if skip is not None:
                tensordict.set("next", skip)
                return tensordict
        check_entries(self, tensordict, self._expected("full_action_spec"), "step")
        preset = peek(tensordict, "next")
        held = noted_versions(self, tensordict, _ROOT)
        following = self._step(tensordict)
        if not isinstance(following, TensorDictBase):
            raise TypeError(
                f"{type(self).__name__}._step returned {type(following).__name__}, not a tensordict"
            )
        if following is tensordict:
            raise RuntimeError(f"{type(self).__name__}._step returned its input; return a new tensordict")
        refuse_changes(self, held, "_step")
        if preset is not None:
            add_presets(self, following, preset)
        size = tensordict.batch_size
        if following.batch_size != size:
            fit_batch(self, following, size, "_step")
        self._complete_step(following)
        check_entries(self, following, self._expected("full_observation_spec"), "_step", own=True)
        if mask is not None:
            following = keep_others(self, tensordict, following, mask)
            del tensordict["_step"]
        if self._check_finite:
            refuse_not_finite(self, following, ("full_observation_spec", "full_reward_spec"), "_step")
        if (
            type(tensordict) is TensorDict
            and type(following) is TensorDict
            and following.batch_size == size
            and following.device == tensordict.device
            and tensordict._td_dim_names is None
            and not tensordict.is_locked
        ):
            tensordict._tensordict["next"] = following
        else:
            tensordict.set("next", following)
        return tensordict

    def _steps_rows(self) -> bool:
        """Whether some rows of the batch can take a step without the others: their state stays as it is."""
        return self._supports_partial_steps or not self.batch_size or bool(self._keys("full_state_spec"))

    def _complete_step(self, following: TensorDictBase) -> None:
        """Complete what `_step` returned, and compare its rewards and done flags with the specs.

        An environment that never set a reward spec may give no reward: it is 0.
        """
        rewards = self._expected("full_reward_spec")
        if rewards and "full_reward_spec" in self._unstated and peek(following, "reward") is None:
            place = following.device if self._device is None else self._device
            following.set("reward", torch.zeros((*following.batch_size, 1), device=place))
        check_entries(self, following, rewards, "_step", own=True)
        self._complete_dones(following)
        check_entries(self, following, self._expected("full_done_spec"), "_step", own=True)

    def _complete_dones(self, tensordict: TensorDictBase) -> None:
        """Write the done flags that `_reset` or `_step` left out, and refuse contradicting ones."""
        try:
            complete_dones(tensordict, self._done_sets, self._device)
        except (NotImplementedError, TypeError):  # torch's, of flags that are no booleans
            check_flag_types(self, tensordict)
            raise

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done.

        Returns:
            The transition (the same tensordict, with `"next"`), and the root to continue from.
        """
        tensordict = self.step(tensordict)
        root = self.step_mdp(tensordict)
        if not self.any_done(root):
            return tensordict, root
        held = noted_versions(self, tensordict.get("next"), REWARDS)
        root = self.reset(root, select_reset_only=True)
        refuse_changes(self, held, "_reset")
        return tensordict, root

    def any_done(self, tensordict: D) -> bool:
        """Whether any environment is done; if so, `_reset` masks are written into `tensordict`.

        Args:
            tensordict: a root, or what is under `"next"`.
        """
        sets = self._done_sets
        if not any_done(tensordict, sets):
            return False
        for s in rootmost_sets(sets):
            tensordict.set(s.reset, tensordict.get(s.done).clone())
        return True

    def maybe_reset(self, tensordict: D) -> D:
        """Reset the environments that `tensordict` says are done, in place."""
        return self.reset(tensordict, select_reset_only=True) if self.any_done(tensordict) else tensordict

    def step_mdp(self, next_tensordict: D) -> D:
        """The root that follows a transition; unlike the function `step_mdp` it keeps the action."""
        root: D = following_root(self, next_tensordict)
        return root

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Release what the environment holds; may be repeated.

        Args:
            raise_if_closed: for environments in processes of their own, which refuse to be closed twice.
        """
        del raise_if_closed
        self._closed = True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")
