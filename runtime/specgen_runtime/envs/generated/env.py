"""`GeneratedEnv`: the base class of generated environments, around the pure functions that are printed for each.

A generated environment consists of pure functions and five thin hooks; packing, merging, seeding and the lifted
rollout are here. The hooks speak two records, both named tuples of tensors (the same type at every call):

- *Root*: what the next step reads, and what cannot be derived from it.
- *Next*: what one step computes. Every field of Root is a field of Next, under the same name.

What a hook derives from them (observations, rewards) is computed when a tensordict is made; in a rollout, once
for all steps on tensors of shape `(*batch_size, T, ...)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Unpack, cast

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.base import D, EnvBase, S
from specgen_runtime.envs.data_checks import check_entries
from specgen_runtime.envs.done import refuse_meta
from specgen_runtime.envs.generated.draws import DrawsNumbers
from specgen_runtime.envs.generated.parameters import HoldsParams, ReadParam, moved_params, per_env_param
from specgen_runtime.envs.generated.policy_states import kept_states, left_states
from specgen_runtime.envs.generated.records import carried, merged
from specgen_runtime.envs.generated.rollout_steps import RecordBlocks, RecordSteps
from specgen_runtime.envs.generated.root_entries import check_root_entries, needed_entries
from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.envs.generated.tracing import refuse_mapped, traced_reset, traced_restart, traced_step
from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.envs.overrides import STEP_METHODS, class_overrides
from specgen_runtime.envs.packing import entries_of, fast_td, overlay, peek, put
from specgen_runtime.envs.policy import check_action_values
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.envs.rollout_steps import RolloutSteps
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.params import Limits, bool_param, float_param, int_param
from specgen_runtime.typing import DEVICE_TYPING, ArrayLike, Entries, NestedKey

__all__ = ["GeneratedEnv"]


class GeneratedEnv(HoldsParams, DrawsNumbers, EnvBase[D, S]):
    """Base of generated environments.

    The constructor of a subclass calls `super().__init__(batch_size=..., device=...)`, sets its parameters and
    calls `self._build()`.

    Random numbers (of `_fresh`, and of `_advance` if it draws) come from a generator of the environment's own,
    seeded from torch's global generator at construction, and by `set_seed`. Random actions come from torch's
    global generator, and so do all random numbers in code that `torch.compile` compiles.

    `step` is a function of its tensordict and of the parameters: with the state in it, nothing of what the
    environment did before has a part in the result, but for its generator where the step draws. It is
    differentiable, and can be mapped by `torch.vmap` and compiled by `torch.compile(fullgraph=True)`; so can
    `reset`, `step_and_maybe_reset`, and `rollout` with `break_when_any_done=False`.

    Args:
        batch_size: the shape of the batch of environments.
        device: the device of all data; None leaves it open (tensors are on torch's default device).
    """

    _root_record: ClassVar[type[Any]]
    """The Root record, for the `_read` of this class."""
    _root_keys: ClassVar[tuple[NestedKey, ...]]
    """The keys of its fields, in order; where a subclass names none, their own names."""

    _env_class: ClassVar[type[GeneratedEnv[Any, Any]] | None] = None
    """The environment that transforms are fused around, where specs of its own tell what is behind it."""
    _supports_partial_steps = True

    _record_steps: ClassVar[type[RecordSteps]] = RecordSteps
    _keeps_state: ClassVar[bool] = False
    """Whether there is state outside the tensordict: that of a simulation elsewhere."""

    _rewritten = False
    """Whether a subclass writes anew what the fast paths would go past, or somebody has set it on the object."""

    _stacking = False
    """True while a rollout only stacks what `_advance` returns: shared constants are safe then."""

    def __init__(self, *, batch_size: Sequence[int] | int = (), device: DEVICE_TYPING | None = None) -> None:
        super().__init__(
            batch_size=batch_size if isinstance(batch_size, int) else tuple(batch_size), device=device
        )
        # how the constructor read each parameter, and the range of it
        self._read_params: dict[str, tuple[Any, Mapping[str, Any]]] = {}
        self._begin_draws(int(torch.randint(2**62, ()).item()), self._device)

    _action_masks: ClassVar[tuple[tuple[NestedKey, NestedKey], ...]] = ()
    """Actions whose allowed values an observation tells, with the key of that observation."""

    _columns: ClassVar[frozenset[NestedKey]] = frozenset()
    """Observations that are stored with a trailing 1 which is no dimension of theirs: made of rewards and done flags."""

    _policy_states: ClassVar[tuple[NestedKey, ...]] = ()
    """States of a policy: `_advance` is given them behind the actions, as the policy left them."""

    _recalled: ClassVar[Mapping[NestedKey, str]] = {}
    """Observations that a step reads as they were before it, though no state says so, with the transform that does."""

    group_map: ClassVar[dict[str, list[str]]] = {}
    """The groups of agents, by name: the agents of each, in the order of the first dimension of its entries."""

    _agents: Mapping[str, int] | None = None
    """How many agents each group has, if there are groups: their tensordicts have a batch dimension for them."""

    # the hooks

    @abstractmethod
    def _specs(self) -> EnvSpecs:
        """The specs without batch dimensions, on `self.device`. Called by `_build` and by `to`."""

    def _read(self, tensordict: Entries) -> Any:
        """The Root record in a root tensordict.

        A field that no entry holds as it was (an observation that a transform has overwritten) may be read as
        that entry: such fields are read by `_root_entries` only, which is not called on what `_read` gives,
        except for rows whose entries are then taken from the tensordict itself.

        Args:
            tensordict: what holds the entries; where all keys are flat it may be a dict of them.
        """
        return self._root_record(*[tensordict.get(key) for key in self._root_keys])

    def _env_specs(self) -> EnvSpecs | None:
        """The specs of the environment that transforms are fused around; None where there are none: those of `_specs`."""
        return None if self._env_class is None else self._env_class._specs(self)

    @abstractmethod
    def _fresh(self) -> Any:
        """The Root record of new episodes in all environments; draws from `_uniform`, `_normal`, `_randint`."""

    @abstractmethod
    def _advance(self, root: Any, actions: tuple[Tensor, ...]) -> Any:
        """One step: the Next record. `actions` are in the order of `action_keys`, then of `_policy_states`."""

    def _root_entries(self, root: Any) -> dict[str, Any]:
        """All observations and done flags of a Root record, for any leading dimensions; here its fields."""
        return cast("dict[str, Any]", root._asdict())

    def _next_entries(self, root: Any, actions: tuple[Tensor, ...], next_: Any) -> dict[str, Any]:
        """All entries of `"next"`, for any leading dimensions, nested keys as dicts; here `_root_entries` of Next."""
        return self._root_entries(next_)

    # what a generated class is written with: parameters

    _float = ReadParam(float_param)
    _int = ReadParam(int_param)
    _bool = ReadParam(bool_param)

    def _per_env(
        self, name: str, value: ArrayLike, dims: Sequence[int], dtype: torch.dtype, **limits: Unpack[Limits]
    ) -> Tensor:
        """A parameter that differs between environments, `(*batch_size, *dims)`; see `per_env_param`."""
        self._read_params[name] = (per_env_param, limits)
        return per_env_param(name, value, (*self._batch_size, *dims), dtype, self._device, **limits)

    # specs and seeds

    def _build(self) -> None:
        """Set the specs of `_specs`; see `_declare`."""
        self._declare(self._specs())

    def _declare(self, specs: EnvSpecs) -> None:
        """Set the specs, with the batch size in front.

        Raises:
            ValueError: there is no action, no done set of shape [1] at the root, or a state key is not observed.
        """
        specs.check(type(self).__name__)
        self._agents = {name: len(agents) for name, agents in self.group_map.items()} or None
        self._groups = {}
        self._known_layout = None
        self.full_action_spec = self._batched(specs.action)
        self.full_observation_spec = self._batched(specs.observation)
        self.full_reward_spec = self._batched(specs.reward)
        self.full_done_spec = self._batched(specs.done)
        self.full_state_spec = self._batched(specs.state)
        self._action_paths: tuple[NestedKey, ...] = tuple(self.action_keys)
        self._action_leaves: tuple[Any, ...] = tuple(self.full_action_spec.items(True, True))
        self._action_fits = tuple((leaf.shape, leaf.dtype) for _, leaf in self._action_leaves)
        needed = {
            e.leaf.key: (torch.Size((*self._batch_size, *e.shape)), e.dtype) for e in needed_entries(self)
        }
        self._root_fits: tuple[tuple[torch.Size, torch.dtype] | None, ...] = tuple(self._read(needed))
        self._reward_paths = {as_tuple(key) for key in self.reward_keys}
        self._flat = all(
            isinstance(key, str)
            for key in self.action_keys + self.observation_keys + self.done_keys + self.reward_keys
        )
        self._one_action = self._flat and len(self._action_leaves) == 1

    def _move_specs(self, device: torch.device) -> None:
        seed = torch.randint(2**62, (), generator=self._generator, device=self._generator.device)
        self._begin_draws(int(seed.item()), device)
        if self.params is not None:
            self.params = moved_params(self.params, device)
        self._build()

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._generator.manual_seed(seed)

    # the general machinery of EnvBase, on top of the hooks

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDictBase:
        if kwargs:
            raise TypeError(f"{type(self).__name__}.reset takes no keyword arguments, found {sorted(kwargs)}")
        return fast_td(self._root_entries(self._fresh()), self._batch_size, self._device, agents=self._agents)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        root, actions = self._read(tensordict), self._actions(tensordict)
        if self._recalled:  # `EnvBase` has checked all else
            self._check_root(root, tensordict, "step")
        check_action_values(self._env_layout, self._action_leaves, actions)
        actions = (*actions, *left_states(self, tensordict))
        entries = self._next_entries(root, actions, self._advance(root, actions))
        return fast_td(entries, self._batch_size, self._device, agents=self._agents)

    def _complete_dones(self, tensordict: TensorDictBase) -> None:
        # All flags of what is generated are right, also `truncated` of what goes on (`update_done: false`).
        if self._rewritten or any(tensordict.get(key, None) is None for key in self.done_keys):
            super()._complete_dones(tensordict)

    def _actions(self, tensordict: Any) -> tuple[Tensor, ...]:
        """The actions in a tensordict, in the order of `action_keys`."""
        return tuple([tensordict.get(key) for key in self._action_paths])

    # the fast paths

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_root_record" in cls.__dict__ and "_root_keys" not in cls.__dict__:
            cls._root_keys = cls._root_record._fields
        cls._rewritten = class_overrides(cls)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in STEP_METHODS:
            self.__dict__["_rewritten"] = True

    def reset(self, tensordict: D | None = None, **kwargs: Any) -> D:
        """Start new episodes; see `EnvBase.reset`."""
        if self._rewritten:
            return super().reset(tensordict, **kwargs)
        if tensordict is None and not kwargs and not self._closed and not self._check_finite:
            root: D = fast_td(
                self._root_entries(self._fresh()), self._batch_size, self._device, agents=self._agents
            )
            if self._keeps_state:
                self.__dict__["_begun"] = True
            return root
        if not kwargs and not self._closed and is_traced():
            refuse_mapped(self)
            if tensordict is not None:
                started: D = traced_reset(self, tensordict)
                return started
        return super().reset(tensordict, **kwargs)

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        if self._takes_fast_path(tensordict):
            self._write_next(tensordict)
            return tensordict
        if is_traced() and not self._rewritten:
            refuse_mapped(self)
            if peek(tensordict, "_step") is not None:
                stepped: D = traced_step(self, tensordict)
                return stepped
        return super().step(tensordict)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done; see `EnvBase`."""
        if not self._takes_fast_path(tensordict):
            if is_traced() and not self._rewritten:
                return tensordict, traced_restart(self, self.step_mdp(self.step(tensordict)))
            return super().step_and_maybe_reset(tensordict)
        refuse_meta(self, self._device)
        root, next_, entries = self._write_next(tensordict)
        done = next_.done
        if is_traced() or (done.any() if self._batch_size else done):
            entries = self._root_entries(self._following(root, next_))
        following = overlay(tensordict, entries, self._reward_paths)
        return tensordict, fast_td(following, self._batch_size, self._device, agents=self._agents)

    def _takes_fast_path(self, tensordict: Any) -> bool:
        """Whether an argument needs none of `EnvBase`'s special cases or errors."""
        if type(tensordict) is not TensorDict or tensordict.batch_size != self._batch_size:
            return False
        held = entries_of(tensordict)
        if "next" in held or "_step" in held:
            return False
        return not (self._closed or self._check_finite or self._rewritten)

    def _write_next(self, tensordict: TensorDictBase) -> tuple[Any, Any, dict[str, Any]]:
        """Compute one step, write `"next"`, and return the two records and the entries of `"next"`."""
        held: Any = entries_of(tensordict) if self._flat else tensordict
        for action, fit in zip(self._actions(held), self._action_fits, strict=True):
            if action is None or action.shape != fit[0] or action.dtype is not fit[1]:
                check_entries(self._env_layout, tensordict, self._env_layout.action.entries, "step")
        actions = self._actions(held)
        check_action_values(self._env_layout, self._action_leaves, actions)
        root = self._read(held)
        self._check_root(root, tensordict, "step")
        actions = (*actions, *kept_states(self, root))
        next_ = self._advance(root, actions)
        entries = self._next_entries(root, actions, next_)
        put(tensordict, "next", fast_td(entries, self._batch_size, self._device, agents=self._agents))
        return root, next_, entries

    def _check_root(self, root: Any, tensordict: TensorDictBase, method: str) -> None:
        """Refuse a Root record without what a step needs, or of other shapes or dtypes.

        Raises:
            KeyError: a state, a flag, or an observation that a transform reads, is missing.
            RuntimeError: it has another shape, or dtype (a TypeError, too).
        """
        for value, fit in zip(root, self._root_fits, strict=True):
            if fit is None or (value is None and not self._recalled and self._goes_on()):
                continue
            if value is None or value.shape != fit[0] or value.dtype is not fit[1]:
                check_root_entries(self, tensordict, method)

    def _following(self, root: Any, next_: Any) -> Any:
        """The Root record after a step: what Next carries on, with new episodes where it is done."""
        done = next_.done
        if is_traced():
            return merged(done, self._fresh(), carried(root, next_), len(self._batch_size))
        if self._batch_size:
            if not bool(done.any()):
                return carried(root, next_)
            return merged(done, self._fresh(), carried(root, next_), len(self._batch_size))
        return self._fresh() if bool(done) else carried(root, next_)

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions, allowed ones where the environment has masks; see `EnvBase.rand_action`."""
        if self._action_masks:
            root = self.reset() if tensordict is None else tensordict
            allowed: D = draw_masked_actions(self._env_layout, root, self._action_masks)
            return allowed
        if tensordict is not None and self._flat and self._takes_fast_path(tensordict):
            for entry in self._env_layout.action.entries:
                put(tensordict, entry.leaf.key, entry.leaf.spec.rand())
            return tensordict
        return super().rand_action(tensordict)

    def _goes_on(self) -> bool:
        return self._keeps_state and not self._env_layout.state.keys

    def _present_root(self) -> D | None:
        return None if self._begun and self._goes_on() else self.reset()

    def maybe_reset(self, tensordict: D) -> D:
        """Reset the environments that `tensordict` says are done, in place."""
        if is_traced() and not self._rewritten:
            root: D = traced_restart(self, tensordict)
            return root
        return super().maybe_reset(tensordict)

    def _rollout_steps(self, options: RolloutOptions) -> RolloutSteps:
        if is_traced():
            refuse_mapped(self, stops=bool(options.any_stops or options.all_stops))
        if self._rewritten or not options.whole_only:
            return super()._rollout_steps(options)
        return self._record_steps(self, options)

    def _record_blocks(
        self, record: Any, root: TensorDictBase | None, options: RolloutOptions
    ) -> RecordBlocks:
        """What takes given actions in a rollout; see `RecordBlocks`."""
        return RecordBlocks(self, record, root, options)
