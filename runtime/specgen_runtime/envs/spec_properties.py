"""`SpecProperties`: the specs of an environment, its keys, its batch size and its device."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

import torch
from torch import nn

from specgen_runtime.envs.descriptors import (
    ActionSpec,
    DoneSpec,
    FullActionSpec,
    FullDoneSpec,
    FullRewardSpec,
    GroupKeys,
    JoinedSpec,
    ObservationSpec,
    RewardSpec,
    StateSpec,
)
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.keys import as_tuple, only_key
from specgen_runtime.envs.layout import Layout
from specgen_runtime.envs.module_methods import device_of, refuse_casts
from specgen_runtime.envs.spec_groups import (
    RIVALS,
    as_group,
    check_group,
    check_meanings,
    default_group,
    group_keys,
)
from specgen_runtime.envs.spec_inference import infer_specs, with_truncated
from specgen_runtime.envs.spec_types import ActionKey, DoneKey, KeyTypes, RewardKey, Some
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["SpecProperties"]

_INPUTS = "env.action_spec or env.state_spec"
_OUTPUTS = "env.observation_spec, env.reward_spec or env.done_spec"


class SpecProperties(nn.Module, Generic[Some]):
    """The base of `EnvBase`: specs that can be read and set, and what follows from them.

    Specs are stored with the environment's batch dimensions in front. They change through the attributes; in place
    only until the environment is first used (steps, keys, `input_spec`), when all are checked and locked.

    They may be set before `super().__init__()` is called, and `__new__` may leave them on the class, as
    `_input_spec` and `_output_spec`: the instance takes them from there.
    """

    if TYPE_CHECKING:
        # nn.Module answers any attribute; without that, a misspelt one is an error in type checkers.
        __getattr__: None  # type: ignore[misc, assignment]

    _parts_refuse_casts: ClassVar[bool] = False
    """Whether all that could be cast is in a wrapped environment, which refuses it, or in transforms, which may be."""

    _device: torch.device | None
    _batch_size: torch.Size
    _batch_locked: bool
    _spec_locked: bool
    _groups: dict[str, Composite]
    _unstated: set[str]
    """The groups that nobody has set: their default stands for them."""
    _known_layout: Layout | None
    """What follows from the specs; forgotten when they change."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the places of the specs. Takes TorchRL's `_batch_locked`; `_inplace_update` changes nothing."""
        env: Any = super().__new__(cls)
        # Constructors may set specs before they call that of the base.
        env.__dict__.update(
            _device=None,
            _batch_size=torch.Size(()),
            _batch_locked=bool(kwargs.pop("_batch_locked", True)),
            _spec_locked=True,
            _groups={},
            _unstated=set(),
            _known_layout=None,
        )
        for name in ("_input_spec", "_output_spec"):
            declared = getattr(cls, name)
            if isinstance(declared, Composite):
                env.__dict__["_groups"].update(declared.clone().items())
                if name in cls.__dict__:
                    delattr(cls, name)
        made: Self = env
        return made

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: Sequence[int] | int | None = None,
        batch_locked: bool | None = None,
        spec_locked: bool = True,
    ) -> None:
        super().__init__()
        if batch_locked is not None:
            self._batch_locked = bool(batch_locked)
        early = self._groups
        if batch_size is None:
            batch_size = next(iter(early.values())).shape if early else ()
        self._device = None if device is None else as_device(device)
        self._batch_size = torch.Size((batch_size,) if isinstance(batch_size, int) else tuple(batch_size))
        self._groups, self._unstated = {}, set()
        for name, given in early.items():  # set before the batch size and the device were known
            spec = given.clone()
            if isinstance(spec, Composite) and spec.shape != self._batch_size:
                spec.shape = self._batch_size
            self._set_group(name, spec)
        self._spec_locked = True
        self.set_spec_lock_(spec_locked)

    # batch size and device

    @property
    def batch_size(self) -> torch.Size:
        """How many environments run at once, as a shape."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: Sequence[int]) -> None:
        size = torch.Size(tuple(value))
        for name, spec in self._groups.items():
            if spec.shape != size:
                raise RuntimeError(
                    f"batch_size {list(size)} does not fit {name}, whose batch shape is {list(spec.shape)}"
                )
        self._batch_size = size
        self._known_layout = None

    @property
    def shape(self) -> torch.Size:
        """Another name of `batch_size`."""
        return self.batch_size

    @property
    def ndim(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return self.ndim

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return self.ndim

    def numel(self) -> int:
        """How many environments run at once."""
        return self.batch_size.numel()

    @property
    def batch_locked(self) -> bool:
        """Whether inputs must have exactly the environment's batch size. Read-only."""
        return self._batch_locked

    @batch_locked.setter
    def batch_locked(self, value: bool) -> None:
        raise RuntimeError("batch_locked is a read-only property: it is set at construction")

    @property
    def device(self) -> torch.device | None:
        """The device of the data, or None if the environment leaves it open."""
        return self._device

    @device.setter
    def device(self, value: DEVICE_TYPING | None) -> None:
        raise RuntimeError(
            "the device of an environment is set at construction; use env.to(device) to move it"
        )

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the environment, its specs, parameters and buffers; in place, returns self.

        Takes what `torch.nn.Module.to` takes. Nothing is cast: the dtypes of an environment's data are those of its
        specs, which say nothing of how they follow from parameters. A dtype is accepted where it changes nothing.

        Raises:
            TypeError: a dtype would cast a parameter or a buffer; nothing is changed then.
        """
        super().to(*args, **kwargs)
        device = device_of(*args, **kwargs)
        if device is not None and device != self._device:
            self._device = device
            self._move_specs(device)
        return self

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """What `to`, `double` and `half` do, also those of a module that holds the environment; refuses casts."""
        if not self._parts_refuse_casts:
            refuse_casts(self, fn)
        moved: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return moved

    def _move_specs(self, device: torch.device) -> None:
        """Move the specs; subclasses move what `nn.Module.to` does not know of besides."""
        moved = {name: spec.to(device) for name, spec in self._groups.items()}
        self._groups = {n: s.lock_() if self._groups[n].is_locked else s for n, s in moved.items()}
        self._known_layout = None

    # specs: a leaf that is set as a whole group gets its default name

    full_action_spec: FullActionSpec = FullActionSpec("All actions.")
    full_state_spec: StateSpec = StateSpec("All inputs of `step` that are not actions.")
    full_reward_spec: FullRewardSpec = FullRewardSpec("All rewards.")
    full_done_spec: FullDoneSpec = FullDoneSpec("All done flags; every set has `done` and `terminated`.")
    full_observation_spec: ObservationSpec = ObservationSpec("All that `reset` and `step` give besides.")

    action_spec: ActionSpec = ActionSpec("The only action, or all. Setting a leaf names it `action`.")
    state_spec: StateSpec = StateSpec("All inputs of `step` that are not actions; empty if there are none.")
    reward_spec: RewardSpec = RewardSpec("The only reward, or all. Setting a leaf names it `reward`.")
    done_spec: DoneSpec = DoneSpec("The done flags. Setting a leaf names it `done`; `terminated` is added.")
    observation_spec: ObservationSpec = ObservationSpec("All. Setting a leaf names it `observation`.")

    # the same of one environment; setting them adds the batch size

    full_action_spec_unbatched: FullActionSpec = FullActionSpec()
    full_state_spec_unbatched: StateSpec = StateSpec()
    full_reward_spec_unbatched: FullRewardSpec = FullRewardSpec()
    full_done_spec_unbatched: FullDoneSpec = FullDoneSpec()
    full_observation_spec_unbatched: ObservationSpec = ObservationSpec()
    action_spec_unbatched: ActionSpec = ActionSpec()
    state_spec_unbatched: StateSpec = StateSpec()
    reward_spec_unbatched: RewardSpec = RewardSpec()
    done_spec_unbatched: DoneSpec = DoneSpec()
    observation_spec_unbatched: ObservationSpec = ObservationSpec()

    def _group(self, name: str) -> Any:
        """One of the five composites, for its attribute."""
        found = self._groups.get(name)
        if found is None:
            found = self._groups[name] = default_group(name, self._batch_size, self._device)
            self._unstated.add(name)
        return found

    def _set_group(self, name: str, spec: TensorSpec | None) -> None:
        """Check and store one of the five composites; on an error nothing has changed."""
        group = as_group(name, spec, self._batch_size, self._device)
        check_group(name, group, self._batch_size, self._device)
        stated = RIVALS[name] & (self._groups.keys() - self._unstated)
        check_meanings(name, group_keys(group), {other: group_keys(self._groups[other]) for other in stated})
        self._groups[name] = group
        self._unstated.discard(name)
        self._known_layout = None

    def _batched(self, spec: TensorSpec) -> TensorSpec:
        """The spec of one environment, with the batch size in front."""
        return spec.expand(*self._batch_size, *spec.shape) if self._batch_size else spec

    # what follows from the specs

    @property
    def _env_layout(self) -> Layout:
        """The specs and all that follows from them, checked, and locked unless they are to stay open."""
        layout = self._known_layout
        if layout is None:
            layout = Layout(self)
            if self._spec_locked:
                self._known_layout = layout
        return layout

    input_spec: JoinedSpec = JoinedSpec("The specs of actions and of the state.", _INPUTS)
    output_spec: JoinedSpec = JoinedSpec("The specs of rewards, done flags and observations.", _OUTPUTS)
    input_spec_unbatched: JoinedSpec = JoinedSpec("`input_spec` of one environment.", _INPUTS)
    output_spec_unbatched: JoinedSpec = JoinedSpec("`output_spec` of one environment.", _OUTPUTS)
    _input_spec: JoinedSpec = JoinedSpec("TorchRL's name of `input_spec`.", _INPUTS)
    _output_spec: JoinedSpec = JoinedSpec("TorchRL's name of `output_spec`.", _OUTPUTS)

    @property
    def specs(self) -> Composite:
        """All specs of the environment in one container: `input_spec` and `output_spec`."""
        parts = {"input_spec": self.input_spec, "output_spec": self.output_spec}
        return Composite(parts, shape=self._batch_size, device=self._device).lock_()

    # locks

    @property
    def is_spec_locked(self) -> bool:
        """Whether specs are locked once they are used; can be set."""
        return self._spec_locked

    @is_spec_locked.setter
    def is_spec_locked(self, value: bool) -> None:
        self.set_spec_lock_(value)

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock the specs, or open them to changes in place: until they are locked again, all is looked up anew.

        Returns:
            The environment.
        """
        if mode != self._spec_locked:
            self._spec_locked = mode
            self._known_layout = None
            if not mode:  # what is locked may be part of a locked `input_spec` that somebody holds
                self._groups = {name: spec.clone() for name, spec in self._groups.items()}
        return self

    def empty_cache(self) -> None:
        """Forget everything that was derived from the specs."""
        self._known_layout = None

    # keys, in the order of the specs

    action_keys: GroupKeys = GroupKeys("The keys of all actions.")
    state_keys: GroupKeys = GroupKeys("The keys of the inputs of `step` that are not actions.")
    observation_keys: GroupKeys = GroupKeys("The keys of everything observed.")
    reward_keys: GroupKeys = GroupKeys("The keys of all rewards.")
    done_keys: GroupKeys = GroupKeys("The keys of all done flags of every done set.")

    @property
    def _kept_at_reset(self) -> Collection[NestedKey]:
        """The observations that `_reset` leaves alone in rows outside its mask, if this keeps its state itself."""
        return self.observation_keys

    @property
    def action_key(self: SpecProperties[KeyTypes[ActionKey, Any, Any]]) -> ActionKey:
        """The key of the action. Raises KeyError if there are several."""
        key: ActionKey = only_key(self._env_layout.action.keys, "action")
        return key

    @property
    def reward_key(self: SpecProperties[KeyTypes[Any, RewardKey, Any]]) -> RewardKey:
        """The key of the reward. Raises KeyError if there are several."""
        key: RewardKey = only_key(self._env_layout.reward.keys, "reward")
        return key

    @property
    def done_key(self: SpecProperties[KeyTypes[Any, Any, DoneKey]]) -> DoneKey:
        """The key of the `done` flag. Raises KeyError if there are several done sets."""
        key: DoneKey = only_key([s.done for s in self._done_sets], "done", "done set")
        return key

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The keys of the reset masks, one for each done set; the root-most on a path decides."""
        return [s.reset for s in self._done_sets]

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """The keys of the flags of each done set, in the order of `reset_keys`."""
        return [[key for key in self.done_keys if as_tuple(key)[:-1] == s.prefix] for s in self._done_sets]

    @property
    def _has_dynamic_specs(self) -> bool:
        """Whether an entry has a dimension of any size, -1: TorchRL's functions that take environments ask."""
        return any(
            -1 in spec.shape
            for group in (self.input_spec, self.output_spec)
            for spec in group.values(True, True)
        )

    @property
    def _done_sets(self) -> tuple[DoneSet, ...]:
        return self._env_layout.done_sets

    # specs from data, and data from specs

    def auto_specs_(
        self,
        policy: Callable[..., Any],
        *,
        tensordict: Any = None,
        action_key: NestedKey | list[NestedKey] = "action",
        done_key: NestedKey | list[NestedKey] | None = None,
        observation_key: NestedKey | list[NestedKey] = "observation",
        reward_key: NestedKey | list[NestedKey] = "reward",
    ) -> Self:
        """Set the specs from what two steps with a policy read and give: all unbounded, boolean ones as flags.

        Args:
            policy: takes a tensordict, and returns it with the actions.
            tensordict: where to begin; a reset if None.
            action_key: the actions.
            done_key: the done flags; if None, `done`, `terminated` and `truncated` where they are given.
            observation_key: what is observed.
            reward_key: the rewards. Specs of keys that are not in the data stay as they are.

        Raises:
            RuntimeError: `_step` gives more than these keys say.
        """
        infer_specs(self, policy, tensordict, action_key, done_key, observation_key, reward_key)
        return self

    def add_truncated_keys(self) -> Self:
        """Declare `truncated` in every done set that has it not; returns the environment."""
        self.full_done_spec = with_truncated(self._env_layout)
        return self
