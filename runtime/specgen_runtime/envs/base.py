"""`EnvBase`: what every environment is, and what its subclasses write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self

import torch
from tensordict import TensorDict, TensorDictBase
from typing_extensions import TypeVar

from specgen_runtime.envs.checked import check_entries, check_tensordict
from specgen_runtime.envs.done import any_done, complete_dones, pop_reset_masks, rootmost_sets
from specgen_runtime.envs.key_access import KeyAccess
from specgen_runtime.envs.mdp import step_mdp
from specgen_runtime.envs.partial import merge_reset, refuse_done_after_reset
from specgen_runtime.envs.rollout import run_rollout
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING

if TYPE_CHECKING:
    from specgen_runtime.transforms import Transform, TransformedEnv

__all__ = ["D", "EnvBase"]

D = TypeVar("D", bound=TensorDictBase, default=Any)

Policy = Callable[..., Any]
Callback = Callable[..., Any]


class EnvBase(KeyAccess, ABC, Generic[D]):
    """An environment, or a batch of them, that reads and writes tensordicts.

    A subclass sets its specs in its constructor (`action_spec`, `observation_spec`, `reward_spec`,
    `state_spec`, `done_spec`) and writes `_reset`, `_step` and `_set_seed`. Everything else is here.

    Data: `reset` gives the observations and the done flags of shape `(*batch_size, 1)`; `step` reads the
    action (and the state) and writes `"next"` with observations, reward and done flags. What `_reset` and
    `_step` return is compared with the specs: shape, dtype and, if the environment has one, device.

    Args:
        device: the device of all data; None leaves it open and adds no device to tensordicts.
        batch_size: the shape of the batch of environments; `()` for one.
        batch_locked: whether inputs must have exactly the environment's batch size.
        allow_done_after_reset: whether a freshly reset environment may be done.

    Raises:
        TypeError: at construction, if the subclass leaves one of the three methods out.
    """

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | int | None = None,
        batch_locked: bool = True,
        allow_done_after_reset: bool = False,
    ) -> None:
        super().__init__(device=device, batch_size=batch_size)
        self._batch_locked = bool(batch_locked)
        self._allow_done_after_reset = bool(allow_done_after_reset)
        self._closed = False

    # what a subclass writes

    @abstractmethod
    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        """Start new episodes.

        Args:
            tensordict: what the caller passed. Where it holds `_reset` masks, only the rows they select need
                be reset; other rows of the result are ignored. An environment whose state is outside the
                tensordict must leave those rows alone and return what it last observed.
            **kwargs: from `reset`.

        Returns:
            A new tensordict with the observations; done flags may be left out where they are False.
        """

    @abstractmethod
    def _step(self, tensordict: D) -> TensorDictBase:
        """Advance by one step.

        Args:
            tensordict: the root: actions, state, observations, done flags.

        Returns:
            A new tensordict with observations, rewards and done flags (it becomes `"next"`).
        """

    @abstractmethod
    def _set_seed(self, seed: int | None) -> None:
        """Seed the environment's own random numbers; None leaves them as they are."""

    # reset and step

    @property
    def batch_locked(self) -> bool:
        """Whether inputs must have exactly the environment's batch size. Read-only."""
        return self._batch_locked

    @batch_locked.setter
    def batch_locked(self, value: bool) -> None:
        raise RuntimeError("batch_locked is set at construction")

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def reset(self, tensordict: D | None = None, **kwargs: Any) -> D:
        """Start new episodes, in all environments or in those that `_reset` masks select.

        Args:
            tensordict: updated in place. For each done set it may hold a boolean `_reset` mask of the shape
                of its `done`: rows outside the mask keep every entry. The masks are removed.
            **kwargs: passed to `_reset`.

        Returns:
            `tensordict`, or a new one: observations and done flags.

        Raises:
            TypeError: the argument or what `_reset` returned is not a tensordict.
            KeyError: an observation is missing.
            RuntimeError: wrong batch size, mask, shape, dtype or device, or done right after the reset.
        """
        self._refuse_if_closed()
        if tensordict is None:
            return self._finish_reset(None, self._reset(None, **kwargs), {})
        check_tensordict(self, tensordict, "reset")
        request = tensordict.copy()
        masks = pop_reset_masks(tensordict, self._done_sets, self._device)
        if masks and not any(bool(mask.any()) for mask in masks.values()):
            return tensordict
        fresh = self._reset(request, **kwargs)
        if fresh is request:
            raise RuntimeError(f"{type(self).__name__}._reset returned its input; return a new tensordict")
        return self._finish_reset(tensordict, fresh, masks)

    def _finish_reset(self, tensordict: D | None, fresh: TensorDictBase, masks: dict[Any, torch.Tensor]) -> D:
        if not isinstance(fresh, TensorDictBase):
            raise TypeError(f"{type(self).__name__}._reset returned {type(fresh).__name__}, not a tensordict")
        self._complete_dones(fresh)
        check_entries(self, fresh, self._expected("full_observation_spec", "full_done_spec"), "_reset")
        if not self._allow_done_after_reset:
            refuse_done_after_reset(fresh, masks, rootmost_sets(self._done_sets))
        if tensordict is None:
            started: D = fresh
            return started
        if masks and not all(bool(mask.all()) for mask in masks.values()):
            merge_reset(tensordict, fresh, masks)
        else:
            tensordict.update(fresh)
        return tensordict

    def step(self, tensordict: D) -> D:
        """Advance by one step.

        Args:
            tensordict: holds the actions (and the state). Values that its `"next"` entry already holds
                prevail over the computed ones.

        Returns:
            The same tensordict, with `"next"`: observations, rewards and done flags.

        Raises:
            TypeError: the argument or what `_step` returned is not a tensordict.
            KeyError: an action, or an entry of `"next"`, is missing.
            RuntimeError: wrong batch size, shape, dtype or device, or contradicting done flags.
        """
        self._refuse_if_closed()
        check_tensordict(self, tensordict, "step")
        check_entries(self, tensordict, self._expected("full_action_spec"), "step")
        preset = tensordict.get("next", None)
        following = self._step(tensordict)
        if not isinstance(following, TensorDictBase):
            raise TypeError(
                f"{type(self).__name__}._step returned {type(following).__name__}, not a tensordict"
            )
        if following is tensordict:
            raise RuntimeError(f"{type(self).__name__}._step returned its input; return a new tensordict")
        if preset is not None:
            following.update(preset)
        self._complete_dones(following)
        expected = self._expected("full_observation_spec", "full_reward_spec", "full_done_spec")
        check_entries(self, following, expected, "_step")
        tensordict.set("next", following)
        return tensordict

    def _complete_dones(self, tensordict: TensorDictBase) -> None:
        """Write the done flags that `_reset` or `_step` left out, and refuse contradicting ones."""
        complete_dones(tensordict, self._done_sets, self._device)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done.

        Returns:
            The transition (the same tensordict, with `"next"`), and the root to continue from.
        """
        tensordict = self.step(tensordict)
        return tensordict, self.maybe_reset(self.step_mdp(tensordict))

    def maybe_reset(self, tensordict: D) -> D:
        """Reset the environments that `tensordict` says are done, in place."""
        sets = self._done_sets
        if not any_done(tensordict, sets):
            return tensordict
        for s in rootmost_sets(sets):
            tensordict.set(s.reset, tensordict.get(s.done).clone())
        return self.reset(tensordict)

    def step_mdp(self, next_tensordict: D) -> D:
        """The root that follows a transition; unlike the function `step_mdp` it keeps the action."""
        root: D = step_mdp(
            next_tensordict,
            exclude_action=False,
            reward_keys=self.reward_keys,
            done_keys=self.done_keys,
            action_keys=self.action_keys,
        )
        return root

    # random actions and rollouts

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions, drawn from the action spec with torch's global generator.

        Args:
            tensordict: written to; a new one if None.
        """
        if tensordict is None:
            result: D = TensorDict({}, batch_size=self.batch_size, device=self.device)
        else:
            check_tensordict(self, tensordict, "rand_action")
            result = tensordict
        size = result.batch_size if not self._batch_locked and not self.batch_size else ()
        result.update(self.full_action_spec.rand(size))
        return result

    def rand_step(self, tensordict: D | None = None) -> D:
        """Take a step with random actions; resets first if no tensordict is given.

        Returns:
            `tensordict`, or a new one: the action and `"next"`.
        """
        if tensordict is None:
            tensordict = self.reset()
        return self.step(self.rand_action(tensordict))

    def rollout(
        self,
        max_steps: int,
        policy: Policy | None = None,
        callback: Callback | None = None,
        *,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool = False,
        return_contiguous: bool = True,
        tensordict: D | None = None,
        set_truncated: bool = False,
    ) -> D:
        """Run the environment for up to `max_steps` steps.

        Args:
            max_steps: the most steps to take, at least 1.
            policy: called with the root tensordict, returns it with the actions; or a plain `nn.Module` from
                the only observation to the only action. None draws random actions.
            callback: called as `callback(env, tensordict)` after each step but the last, with the transition
                (`"next"` included).
            auto_reset: reset first. Otherwise start from `tensordict`, resetting only what is done in it.
            auto_cast_to_device: move the data to the policy's device before it, and back after it.
            break_when_any_done: stop as soon as one environment is done (the default). If False, environments
                that are done are reset and go on.
            break_when_all_done: stop when all are done; those that are done earlier repeat their last row.
            return_contiguous: stack the steps. If False, return a lazy stack of them.
            tensordict: passed to the first reset, or where to start from.
            set_truncated: mark the last step as truncated.

        Returns:
            A tensordict of batch size `(*batch_size, T)` whose last dimension is named `"time"`.

        Raises:
            ValueError: `max_steps` is less than 1, or the policy's actions are outside the action spec.
            TypeError: both ways to stop are asked for, or the policy returns no tensordict.
            RuntimeError: `auto_reset=False` without a tensordict, or `set_truncated=True` without the flag.
        """
        if break_when_any_done is None:
            break_when_any_done = not break_when_all_done
        result: D = run_rollout(
            self,
            max_steps,
            policy,
            callback,
            auto_reset=auto_reset,
            auto_cast_to_device=auto_cast_to_device,
            break_when_any_done=break_when_any_done,
            break_when_all_done=break_when_all_done,
            return_contiguous=return_contiguous,
            tensordict=tensordict,
            set_truncated=set_truncated,
        )
        return result

    # the rest

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment's own random numbers (random actions use torch's).

        Args:
            seed: the seed; None changes nothing.
            static_seed: whether several environments share the seed; no difference for a single one.

        Returns:
            The seed for the next environment: the input, since this is a single one.
        """
        del static_seed
        self._set_seed(seed)
        return seed

    def fake_tensordict(self) -> D:
        """One transition of zeros, with the keys, shapes, dtypes and device of the specs."""
        root: D = TensorDict({}, batch_size=self.batch_size, device=self.device)
        following = root.empty()
        for name in ("full_state_spec", "full_observation_spec", "full_done_spec", "full_action_spec"):
            root.update(self._settled(name).zero())
        for name in ("full_observation_spec", "full_reward_spec", "full_done_spec"):
            following.update(self._settled(name).zero())
        root.set("next", following)
        return root

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the environment, its specs, parameters and buffers; in place, returns self.

        Takes what `torch.nn.Module.to` takes; a dtype casts parameters and buffers, not the specs.
        """
        parse: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue]
        device, *_ = parse(*args, **kwargs)
        super().to(*args, **kwargs)
        if device is not None and as_device(device) != self._device:
            self._device = as_device(device)
            self._move_specs(self._device)
        return self

    def _move_specs(self, device: torch.device) -> None:
        self._groups = {
            name: spec.to(device).lock_() if spec.is_locked else spec.to(device)
            for name, spec in self._groups.items()
        }
        self._cache.clear()

    def append_transform(
        self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]
    ) -> TransformedEnv:
        """Return this environment with a transform after it."""
        from specgen_runtime.transforms import TransformedEnv

        return TransformedEnv(self, transform)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Release what the environment holds.

        Raises:
            RuntimeError: it is closed already, and `raise_if_closed`.
        """
        if self._closed and raise_if_closed:
            raise RuntimeError(f"{type(self).__name__} is closed already")
        self._closed = True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")

    def forward(self, tensordict: D) -> D:
        """An environment is not a function: use `step`. Raises NotImplementedError."""
        raise NotImplementedError(f"call {type(self).__name__}.step or .reset, not the environment itself")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_size={list(self.batch_size)}, device={self.device},"
            f" actions={self.action_keys}, observations={self.observation_keys})"
        )
