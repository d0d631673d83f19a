"""`EnvBase`: what every environment is, and what its subclasses write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from tensordict import TensorDictBase
from typing_extensions import TypeVar

from specgen_runtime.envs import stepping
from specgen_runtime.envs.check_specs import check_env_specs
from specgen_runtime.envs.descriptors import Flag
from specgen_runtime.envs.env_meta import EnvMeta
from specgen_runtime.envs.mdp import following_root
from specgen_runtime.envs.module_methods import compiled
from specgen_runtime.envs.random_actions import draw_actions
from specgen_runtime.envs.replay import replay_policy
from specgen_runtime.envs.rollout import RolloutOptions, run_rollout
from specgen_runtime.envs.rollout_steps import RolloutSteps
from specgen_runtime.envs.seeds import as_seed
from specgen_runtime.envs.spec_inference import zero_transition
from specgen_runtime.envs.spec_properties import SpecProperties
from specgen_runtime.envs.spec_types import S
from specgen_runtime.typing import DEVICE_TYPING

if TYPE_CHECKING:
    from specgen_runtime.transforms.env import TransformedEnv
    from specgen_runtime.transforms.function import TransformLike

__all__ = ["D", "EnvBase", "S"]

D = TypeVar("D", bound=TensorDictBase, default=Any)


class EnvBase(SpecProperties[S], ABC, Generic[D, S], metaclass=EnvMeta):
    """An environment, or a batch of them, that reads and writes tensordicts.

    A subclass sets its specs in its constructor (`action_spec`, `observation_spec`, `reward_spec`, `state_spec`,
    `done_spec`) and writes `_reset`, `_step` and `_set_seed`.

    `reset` gives the observations and the done flags of shape `(*batch_size, 1)`; `step` reads the action (and the
    state) and writes `"next"` with observations, reward and done flags. What `_reset` and `_step` return is compared
    with the specs: shape, dtype and, if the environment has one, device.

    Args:
        device: the device of all data; None leaves it open and adds no device to tensordicts.
        batch_size: the shape of the batch of environments; `()` for one.
        batch_locked: whether inputs must have exactly the batch size (the default); `_batch_locked` is the same.
        run_type_checks: accepted; types are always compared.
        allow_done_after_reset: whether a freshly reset environment may be done.
        spec_locked: whether specs are locked once they are used; see `set_spec_lock_`.
        check_finite: refuse NaN and infinity in observations and rewards, by a NotFiniteError of what gives them.
        auto_reset: for the call that makes the environment, below, like `auto_reset_replace`; else False.

    Any subclass can be called with `spec_locked`, whether or not its constructor takes it; with `compile=True`, or a
    dict of arguments of `compile`; and with `auto_reset=True`, if its `_step` gives the first observation of the next
    episode where it is done: the result is an `AutoResetEnv` around it (`auto_reset_replace` is its `replace`).

    Raises:
        TypeError: the subclass leaves one of the three methods out, or its constructor asks for `auto_reset`.
    """

    _supports_set_state: bool = False
    """Whether `_reset` takes `set_state`: True starts from the state in its tensordict, False from a new one."""

    _supports_partial_steps: bool = False
    """Whether `_step` takes `_step` masks: rows outside are left alone. See `_step`."""

    _resets_itself: bool = False
    """Whether what is done cannot be told to reset, since it has done so already."""

    _draws_torch: bool | None = None
    """Whether it was seen to draw from torch's global generator, as random actions do; None is not known yet."""

    _acts_in_resets: bool = False
    """Whether its resets draw random actions, which are of torch's global generator."""

    _begun: bool = False
    """Whether the environment was ever reset; kept where it decides what a random step without a root is."""

    _check_finite: bool = False
    _closed: bool = False
    params: Any  # of a generated environment, as a record; others have what they call so, or nothing
    _run_type_checks: bool = False

    check_finite: Flag = Flag("_check_finite", "Whether NaN and infinity are refused.")
    is_closed: Flag = Flag("_closed", "Whether `close` was called; subclasses that close themselves set it.")
    run_type_checks: Flag = Flag("_run_type_checks", "As given. A wrong dtype is a TypeError either way.")

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: Sequence[int] | int | None = None,
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
            call = f"{type(self).__name__}(auto_reset=True)"
            raise TypeError(f"auto_reset=True is for the call that makes the environment: {call}")
        locked = batch_locked if _batch_locked is None else _batch_locked
        super().__init__(device=device, batch_size=batch_size, spec_locked=spec_locked, batch_locked=locked)
        self._run_type_checks = bool(run_type_checks)
        self._allow_done_after_reset = bool(allow_done_after_reset)
        self._check_finite = bool(check_finite)

    # what a subclass writes

    @abstractmethod
    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        """Start new episodes.

        Args:
            tensordict: a copy of what `reset` was given, or None. If it holds a `_reset` mask, other rows of the
                result are ignored; without a mask all rows are reset.
            **kwargs: of `reset`.

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

    # what a subclass may override besides

    def _steps_rows(self) -> bool:
        """Whether some rows of the batch can take a step without the others: their state stays as it is."""
        return self._supports_partial_steps or not self.batch_size or bool(self._env_layout.state.keys)

    def _rollout_steps(self, options: RolloutOptions) -> RolloutSteps:
        """What steps this environment in a rollout, and keeps the rows."""
        return RolloutSteps(self, options)

    def _complete_dones(self, tensordict: TensorDictBase) -> None:
        """Write the done flags that `_reset` or `_step` left out, and refuse contradicting ones."""
        stepping.complete_flags(self._env_layout, tensordict)

    def _present_root(self) -> D | None:
        """What a random step begins with where no root is given; None goes on from where the environment is."""
        return None if self._begun and not self._env_layout.state.keys else self.reset()

    def set_state(self, *args: Any, **kwargs: Any) -> Any:
        """For subclasses whose state can be set. Raises NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} has no set_state")

    def forward(self, tensordict: D) -> D:
        """An environment is not a function: use `step`. Raises NotImplementedError."""
        raise NotImplementedError(f"call {type(self).__name__}.step or .reset, not the environment itself")

    # reset and step

    def reset(self, tensordict: D | None = None, *, set_state: bool | None = None, **kwargs: Any) -> D:
        """Start new episodes, in all environments or in those that `_reset` masks select.

        Args:
            tensordict: updated in place. For each done set it may hold a boolean `_reset` mask of the shape of its
                `done`: rows outside the mask keep every entry. The masks are removed. An environment without a state
                spec remembers what it last observed: entries may be left out.
            set_state: for environments that support it: True starts from the state in `tensordict`, False from a new
                one. None is True if there is state in it.
            **kwargs: passed to `_reset`.

        Returns:
            `tensordict`, or a new one: observations and done flags.

        Raises:
            TypeError: the argument or what `_reset` returned is not a tensordict.
            KeyError: an observation is missing, or, with a state spec, an entry whose rows are to be kept.
            NotImplementedError: `set_state=True` in an environment that does not support it.
            RuntimeError: wrong batch size, mask, shape, dtype or device, a reward, done right after the reset, or
                `_reset` changed an entry of `tensordict` in place.
        """
        return stepping.reset(self, tensordict, set_state, kwargs)

    def step(self, tensordict: D) -> D:
        """Advance by one step.

        Args:
            tensordict: holds the actions (and the state). Values that its `"next"` entry already holds prevail over
                the computed ones, unless it holds all of them: then it is what an earlier step wrote, and is replaced.
                A mask `"_step"`, bool of the batch size (or of the shape of `done`), says which environments take the
                step: the others keep the root's observations and done flags, with reward 0. The mask is removed.

        Returns:
            The same tensordict, with `"next"`: observations, rewards and done flags.

        Raises:
            TypeError: the argument, its `"next"` or what `_step` returned is not a tensordict.
            KeyError: an action, an entry of `"next"`, or what environments outside `"_step"` keep, is missing.
            RuntimeError: wrong batch size, mask, shape, dtype (a TypeError, too) or device, contradicting done
                flags, or `_step` changed an entry of the root in place.
            NotImplementedError: `"_step"` selects some environments of a batch that can only step them all.
        """
        return stepping.step(self, tensordict)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset what is done; returns the transition and the root to continue from."""
        return stepping.step_and_maybe_reset(self, tensordict)

    def any_done(self, tensordict: D) -> bool:
        """Whether any environment is done in a root or `"next"`; if so, `_reset` masks are written into it."""
        return stepping.write_reset_masks(self._env_layout, tensordict)

    def maybe_reset(self, tensordict: D) -> D:
        """Reset the environments that `tensordict` says are done, in place."""
        return self.reset(tensordict, select_reset_only=True) if self.any_done(tensordict) else tensordict

    def step_mdp(self, next_tensordict: D) -> D:
        """The root that follows a transition; unlike the function `step_mdp` it keeps the action."""
        return following_root(self._env_layout.step_plan, next_tensordict)

    # random actions and rollouts

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions of the action spec, by torch's global generator, into a root; a new one if None."""
        return draw_actions(self._env_layout, tensordict)

    def all_actions(self, tensordict: D | None = None) -> TensorDictBase:
        """All discrete actions there are, stacked in a new first dimension; others raise NotImplementedError.

        If a tensordict is given, the environment is reset with it first; masks of actions may follow.
        """
        if tensordict is not None:
            self.reset(tensordict, set_state=True if self._supports_set_state else None)
        return self.full_action_spec.enumerate(use_mask=True)

    def cardinality(self, tensordict: D | None = None) -> int | float:
        """How many different actions there are, infinite for continuous ones; in a subclass, in a certain root."""
        return self.full_action_spec.cardinality()

    def rand_step(self, tensordict: D | None = None) -> D:
        """Take a step with random actions.

        Args:
            tensordict: the root, which is returned with the action and `"next"`. If None, a new one is: an environment
                without a state spec that was reset goes on from where it is, any other is reset first.
        """
        return self.step(self.rand_action(self._present_root() if tensordict is None else tensordict))

    def rollout(
        self,
        max_steps: int,
        policy: Callable[..., Any] | None = None,
        callback: Callable[..., Any] | None = None,
        *,
        actions: Iterable[Any] | None = None,
        auto_reset: bool = True,
        auto_cast_to_device: bool = False,
        break_when_any_done: bool | None = None,
        break_when_all_done: bool | None = None,
        return_contiguous: bool | None = None,
        tensordict: D | None = None,
        set_truncated: bool = False,
        out: D | None = None,
        trust_policy: bool = False,
        storing_device: DEVICE_TYPING | None = None,
        set_state: bool | None = None,
    ) -> D:
        """Run the environment for up to `max_steps` steps.

        Args:
            max_steps: the most steps to take, at least 1.
            policy: None draws random actions. Otherwise called with the root tensordict, and returns it with the
                actions, if it has `in_keys`, or its first parameter is called `tensordict` or `td` or annotated as a
                tensordict. Any other function or module is called with the top-level entries of the observation spec,
                in their order, and returns the action (a tuple of them if there are several).
            callback: called as `callback(env, tensordict)` after each step but the last, with the transition.
            actions: what to do, in place of a policy: a tensordict whose last dimension is `"time"` (a rollout, to
                play it again), a tensor `[T, *batch, ...]`, or anything that gives one step's action (or tensordict
                of actions) after the other. If its length is known, there are no more steps than that.
            auto_reset: reset first. Otherwise start from `tensordict`, resetting only what is done in it.
            auto_cast_to_device: move the data to the policy's device before it, and back after it.
            break_when_any_done: stop as soon as one environment is done (the default). If False, environments that
                are done are reset and go on.
            break_when_all_done: stop when all are done; those that are done earlier repeat their last row.
            return_contiguous: stack the steps; False stacks them lazily. None: lazily where an entry's sizes differ.
            tensordict: passed to the first reset, or where to start from.
            set_truncated: mark the last step as truncated.
            out: written to in place and returned; it has the entries and the shape of the result.
            trust_policy: call the policy with the tensordict whatever its parameters are.
            storing_device: where the transitions are kept, if not on the environment's device.
            set_state: passed to the first reset.

        Returns:
            A tensordict of batch size `(*batch_size, T)` whose last dimension is named `"time"`.

        Raises:
            ValueError: `max_steps` is less than 1, `actions` end too soon or stand beside a policy, or actions are
                outside the action spec (all steps are looked at together, at the end).
            TypeError: both ways to stop are asked for, or the policy takes or returns the wrong things.
            KeyError: at the step where the policy writes no action.
            RuntimeError: `auto_reset=False` without a tensordict, `set_truncated=True` without the flag,
                `return_contiguous=True` where sizes differ, or, at the step where it happens, an action of the wrong
                shape, dtype or device, or an entry of an earlier step that `_step` or `_reset` changed in place.
        """
        if actions is not None:
            policy, max_steps = replay_policy(self._env_layout, actions, policy, max_steps)
        options = RolloutOptions(
            max_steps,
            policy,
            callback,
            auto_reset=auto_reset,
            auto_cast_to_device=auto_cast_to_device,
            any_stops=break_when_any_done,
            all_stops=break_when_all_done,
            return_contiguous=return_contiguous,
            tensordict=tensordict,
            set_truncated=set_truncated,
            out=out,
            trust_policy=trust_policy,
            storing_device=storing_device,
            set_state=set_state,
        )
        return cast("D", run_rollout(self, options))

    def fake_tensordict(self) -> D:
        """One transition of zeros, with the keys, shapes, dtypes and device of the specs."""
        return cast("D", zero_transition(self._env_layout))

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """`check_env_specs` of this environment, with the same arguments."""
        check_env_specs(self, *args, **kwargs)

    # seeds and life cycle

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment's own random numbers (random actions use torch's).

        Args:
            seed: an integer, or else TypeError is raised; None changes nothing. It is returned as the seed for a
                next environment; batches return one that is free.
            static_seed: whether several environments share the seed; no difference for a single one.
        """
        del static_seed
        self._set_seed(seed := as_seed(seed))
        return seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Release what the environment holds; may be repeated, but in batches that are told to raise then."""
        del raise_if_closed
        self._closed = True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"{type(self).__name__} is closed")

    def compile(self, *, warmup: int | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """Compile `step_and_maybe_reset`, which rollouts that go step by step call, too; returns the environment.

        Args:
            warmup: so many calls run as they are written first, so that what follows a reset is not compiled alone.
            **kwargs: of `torch.compile`, such as `fullgraph` or `mode`.
        """
        self.eager()
        self.__dict__["step_and_maybe_reset"] = compiled(self.step_and_maybe_reset, warmup or 0, kwargs)
        return self

    def eager(self) -> Self:
        """Undo `compile`; returns the environment."""
        self.__dict__.pop("step_and_maybe_reset", None)
        return self

    def append_transform(self, transform: TransformLike) -> TransformedEnv:
        """Return this environment with a transform after it."""
        from specgen_runtime.transforms.env import TransformedEnv

        return TransformedEnv(self, transform)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_size={list(self.batch_size)}, device={self.device},"
            f" actions={self.action_keys}, observations={self.observation_keys})"
        )
