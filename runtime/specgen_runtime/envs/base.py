"""`EnvBase`: what every environment is, and what its subclasses write."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.checked import check_tensordict
from specgen_runtime.envs.collector import Collector
from specgen_runtime.envs.entries import put
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.replay import replay_policy
from specgen_runtime.envs.rollout import RolloutOptions, run_rollout
from specgen_runtime.envs.seeds import as_seed
from specgen_runtime.envs.spec_inference import infer_specs
from specgen_runtime.envs.stepping import D, S, Stepping
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms import Transform, TransformedEnv

__all__ = ["D", "EnvBase", "S"]

Policy = Callable[..., Any]
Callback = Callable[..., Any]


if TYPE_CHECKING:  # they would take the arguments of `__call__` for those of every constructor
    from abc import ABCMeta as _EnvMeta
else:

    class _EnvMeta(ABCMeta):
        """Takes keywords that every environment can be made with, whether or not its constructor passes them on."""

        def __call__(cls, *args, **kwargs):
            auto_reset, replace = kwargs.pop("auto_reset", False), kwargs.pop("auto_reset_replace", True)
            locked, compiled = kwargs.pop("spec_locked", None), kwargs.pop("compile", False)
            if not isinstance(compiled, (bool, dict, type(None))):
                raise TypeError(f"compile must be a bool, or a dict of arguments for it, found {compiled!r}")
            env = super().__call__(*args, **kwargs)
            if locked is not None:
                env.set_spec_lock_(locked)
            if auto_reset:
                from specgen_runtime.envs.auto_reset import AutoResetEnv

                env = AutoResetEnv(env, replace=replace)
            if isinstance(compiled, dict):
                return env.compile(**compiled)
            return env.compile() if compiled else env


class EnvBase(Stepping[D, S], Generic[D, S], metaclass=_EnvMeta):
    """An environment, or a batch of them, that reads and writes tensordicts.

    A subclass sets its specs in its constructor (`action_spec`, `observation_spec`, `reward_spec`,
    `state_spec`, `done_spec`) and writes `_reset`, `_step` and `_set_seed`. Everything else is here.

    Data: `reset` gives the observations and the done flags of shape `(*batch_size, 1)`; `step` reads the
    action (and the state) and writes `"next"` with observations, reward and done flags. What `_reset` and
    `_step` return is compared with the specs: shape, dtype and, if the environment has one, device.

    Args:
        device: the device of all data; None leaves it open and adds no device to tensordicts.
        batch_size: the shape of the batch of environments; `()` for one.
        batch_locked: whether inputs must have exactly the environment's batch size (the default).
            Also accepted as `_batch_locked`, here and by `__new__`.
        run_type_checks: accepted; types are always compared.
        allow_done_after_reset: whether a freshly reset environment may be done.
        spec_locked: whether specs are locked once they are used; see `set_spec_lock_`. Every subclass can be called
            with it, whether or not its constructor takes it.
        check_finite: refuse NaN and infinity in observations and rewards.
        auto_reset: for the call that makes the environment, below; a constructor passes on False.
        auto_reset_replace: what `AutoResetEnv` calls `replace`.

    Any subclass can also be called with `compile=True`, or a dict of arguments of `compile`; and with
    `auto_reset=True`, if its `_step` gives the first observation of the next episode where it is done: the result is
    an `AutoResetEnv` around it.

    Raises:
        TypeError: at construction, if the subclass leaves one of the three methods out, or its constructor asks for
            `auto_reset`.
    """

    _draws_torch: bool | None = None
    """Whether it was seen to draw from torch's global generator, as random actions do; None before it was looked at."""

    _parts_refuse_casts: ClassVar[bool] = False
    """Whether all that could be cast is in an environment inside, which refuses it, or in transforms, which may be."""

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
        size = result.batch_size if not self.batch_locked and not self.batch_size else ()
        drawn = self._settled("full_action_spec")
        if not size and all(isinstance(key, str) for key in self._keys("full_action_spec")):
            for key, spec in drawn.items():
                if spec is not None:
                    value = spec.rand()
                    if isinstance(value, torch.Tensor) and result.device in (None, value.device):
                        put(result, key, value)
                    else:
                        result.set(key, value)
        else:
            result.update(drawn.rand(size))
        return result

    def rand_step(self, tensordict: D | None = None) -> D:
        """Take a step with random actions.

        Args:
            tensordict: the root. If None, an environment that was reset and has no state spec goes on from where it
                is; any other is reset first.

        Returns:
            `tensordict`, or a new one: the action and `"next"`, and the root's entries if there was a reset.
        """
        return self.step(self.rand_action(self._present_root() if tensordict is None else tensordict))

    def _present_root(self) -> D | None:
        """What a random step begins with where no root is given; None goes on from where the environment is."""
        return None if self._begun and not self._keys("full_state_spec") else self.reset()

    def all_actions(self, tensordict: D | None = None) -> TensorDictBase:
        """All actions there are, stacked in a new first dimension; for discrete actions.

        Args:
            tensordict: the environment is reset with it first; masks of actions may follow.

        Raises:
            NotImplementedError: an action is continuous.
        """
        if tensordict is not None:
            self.reset(tensordict, set_state=True if self._supports_set_state else None)
        return self.full_action_spec.enumerate(use_mask=True)

    def cardinality(self, tensordict: D | None = None) -> int | float:
        """How many different actions there are; infinite for continuous ones.

        Args:
            tensordict: what the number may depend on in a subclass.
        """
        del tensordict
        return self.full_action_spec.cardinality()

    def rollout(
        self,
        max_steps: int,
        policy: Policy | None = None,
        callback: Callback | None = None,
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
                actions, if it has `in_keys`, or its first parameter is called `tensordict` or `td` or annotated as
                a tensordict. Any other function or module is called with the top-level entries of the observation
                spec, in their order, and returns the action (a tuple of them if there are several).
            callback: called as `callback(env, tensordict)` after each step but the last, with the transition
                (`"next"` included).
            actions: what to do, in place of a policy: a tensordict whose last dimension is `"time"` (a rollout, to
                play it again), a tensor `[T, *batch, ...]`, or anything that gives one step's action (or tensordict
                of actions) after the other. If its length is known, there are no more steps than that.
            auto_reset: reset first. Otherwise start from `tensordict`, resetting only what is done in it.
            auto_cast_to_device: move the data to the policy's device before it, and back after it.
            break_when_any_done: stop as soon as one environment is done (the default). If False, environments
                that are done are reset and go on.
            break_when_all_done: stop when all are done; those that are done earlier repeat their last row.
            return_contiguous: stack the steps. If False, return a lazy stack of them. By default they are stacked
                unless an entry differs in its size from step to step.
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
                `return_contiguous=True` where sizes differ from step to step, or, at the step where it happens, an
                action of the wrong shape, dtype or device, or an entry of an earlier step that `_step` or `_reset`
                changed in place.
            NotFiniteError: an observation or reward is NaN or infinite, and `check_finite` is set.
        """
        if actions is not None:
            policy, max_steps = replay_policy(self, actions, policy, max_steps)
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
            storing_device=None if storing_device is None else as_device(storing_device),
            set_state=set_state,
        )
        result: D = run_rollout(self, options)
        return result

    def _collector(self, options: RolloutOptions) -> Collector:
        """What steps this environment in a rollout, and keeps the rows."""
        return Collector(self, options)

    # the rest

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment's own random numbers (random actions use torch's).

        Args:
            seed: the seed; None changes nothing.
            static_seed: whether several environments share the seed; no difference for a single one.

        Returns:
            The seed for the next environment: the input, since this is a single one.

        Raises:
            TypeError: the seed is no integer.
        """
        del static_seed
        seed = as_seed(seed)
        self._set_seed(seed)
        return seed

    def set_state(self, *args: Any, **kwargs: Any) -> Any:
        """For subclasses whose state can be set. Raises NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} has no set_state")

    def check_env_specs(self, *args: Any, **kwargs: Any) -> None:
        """`check_env_specs` of this environment, with the same arguments."""
        from specgen_runtime.envs.checks import check_env_specs

        check_env_specs(self, *args, **kwargs)

    def auto_specs_(
        self,
        policy: Policy,
        *,
        tensordict: D | None = None,
        action_key: NestedKey | list[NestedKey] = "action",
        done_key: NestedKey | list[NestedKey] | None = None,
        observation_key: NestedKey | list[NestedKey] = "observation",
        reward_key: NestedKey | list[NestedKey] = "reward",
    ) -> Self:
        """Set the specs from what two steps with a policy read and give: all unbounded, boolean ones as flags.

        Args:
            policy: takes and returns a tensordict.
            tensordict: where to begin; a reset if None.
            action_key: the actions that the policy writes.
            done_key: the done flags; if None, `done`, `terminated` and `truncated` where they are given.
            observation_key: what is observed.
            reward_key: the rewards. Specs of keys that are not in the data stay as they are.

        Returns:
            The environment.

        Raises:
            RuntimeError: `_step` gives more than these keys say.
        """
        infer_specs(self, policy, tensordict, action_key, done_key, observation_key, reward_key)
        return self

    def add_truncated_keys(self) -> Self:
        """Declare `truncated` in every done set that has it not; returns the environment."""
        spec = self.full_done_spec.clone()
        for s in self._done_sets:
            if s.truncated is None:
                spec.set((*s.prefix, "truncated"), spec[as_tuple(s.done)].clone())
        self.full_done_spec = spec
        return self

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

        Takes what `torch.nn.Module.to` takes. Nothing is cast: the dtypes of an environment's data are those of its
        specs, which say nothing of how they follow from parameters. A dtype is accepted where it changes nothing.

        Raises:
            TypeError: a dtype would cast a parameter or a buffer; nothing is changed then.
        """
        parse: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue]
        device, *_ = parse(*args, **kwargs)
        super().to(*args, **kwargs)
        if device is not None and as_device(device) != self._device:
            self._device = as_device(device)
            self._move_specs(self._device)
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """What `to`, `double` and `half` do, also those of a module that holds the environment; refuses casts."""
        own = () if self._parts_refuse_casts else (*self.named_parameters(), *self.named_buffers())
        for name, tensor in own:
            cast = fn(torch.empty(0, dtype=tensor.dtype, device=tensor.device)).dtype
            if cast is not tensor.dtype:
                raise TypeError(
                    f"{type(self).__name__} cannot be cast: {name!r} would be {cast}, and its specs would stay as they"
                    f" are. Set them when you make the environment, or cast a part of it that its data do not show"
                    f" (env.{name.split('.')[0]}.to(...))"
                )
        moved: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return moved

    def _move_specs(self, device: torch.device) -> None:
        self._groups = {
            name: spec.to(device).lock_() if spec.is_locked else spec.to(device)
            for name, spec in self._groups.items()
        }
        self._cache.clear()

    def compile(self, *, warmup: int | None = None, **kwargs: Any) -> Self:  # type: ignore[override]
        """Compile `step_and_maybe_reset` with `torch.compile`; rollouts that go step by step call it, too.

        Args:
            warmup: so many calls run as they are written first, so that what follows a reset is not compiled alone.
            **kwargs: of `torch.compile`, such as `fullgraph` or `mode`.

        Returns:
            The environment.
        """
        self.eager()
        written = self.step_and_maybe_reset
        compiled = torch.compile(written, **kwargs)
        calls = chain(repeat(written, warmup or 0), repeat(compiled))
        self.__dict__["step_and_maybe_reset"] = (lambda td: next(calls)(td)) if warmup else compiled
        return self

    def eager(self) -> Self:
        """Undo `compile`; returns the environment."""
        self.__dict__.pop("step_and_maybe_reset", None)
        return self

    def append_transform(
        self, transform: Transform | Callable[[TensorDictBase], TensorDictBase]
    ) -> TransformedEnv:
        """Return this environment with a transform after it."""
        from specgen_runtime.transforms import TransformedEnv

        return TransformedEnv(self, transform)

    def forward(self, tensordict: D) -> D:
        """An environment is not a function: use `step`. Raises NotImplementedError."""
        raise NotImplementedError(f"call {type(self).__name__}.step or .reset, not the environment itself")

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(batch_size={list(self.batch_size)}, device={self.device},"
            f" actions={self.action_keys}, observations={self.observation_keys})"
        )
