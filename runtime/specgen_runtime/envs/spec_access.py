"""The specs of an environment, under the names that TorchRL gives them."""

from __future__ import annotations

from typing import Any, Generic

from specgen_runtime.envs.spec_groups import INPUT_GROUPS, OUTPUT_GROUPS, SpecGroups
from specgen_runtime.envs.spec_types import (
    Group,
    HasAction,
    HasDone,
    HasFullAction,
    HasFullDone,
    HasFullReward,
    HasObservation,
    HasReward,
    HasState,
    Leaf,
    Some,
)
from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["SpecAccess"]


class SpecAccess(SpecGroups, Generic[Some]):
    """The part of an environment through which its specs are seen and set.

    `action_spec`, `reward_spec` and `done_spec` return the leaf where there is just one. A leaf that is set as a whole
    group gets its default name: `action`, `observation`, `reward` or `done`.
    """

    @property
    def full_action_spec(self: SpecAccess[HasFullAction[Group]]) -> Group:
        """The specs of all actions."""
        spec: Group = self._group("full_action_spec")
        return spec

    @full_action_spec.setter
    def full_action_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_action_spec", spec, "action")

    @property
    def full_state_spec(self: SpecAccess[HasState[Group]]) -> Group:
        """The specs of all inputs that are not actions."""
        spec: Group = self._group("full_state_spec")
        return spec

    @full_state_spec.setter
    def full_state_spec(self, spec: Composite | None) -> None:
        self._set_group("full_state_spec", spec, None)

    @property
    def full_reward_spec(self: SpecAccess[HasFullReward[Group]]) -> Group:
        """The specs of all rewards."""
        spec: Group = self._group("full_reward_spec")
        return spec

    @full_reward_spec.setter
    def full_reward_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_reward_spec", spec, "reward")

    @property
    def full_done_spec(self: SpecAccess[HasFullDone[Group]]) -> Group:
        """The specs of all done flags; every set has `done` and `terminated`."""
        spec: Group = self._group("full_done_spec")
        return spec

    @full_done_spec.setter
    def full_done_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_done_spec", spec, "done")

    @property
    def full_observation_spec(self: SpecAccess[HasObservation[Group]]) -> Group:
        """The specs of everything that `reset` and `step` give besides rewards and done flags."""
        spec: Group = self._group("full_observation_spec")
        return spec

    @full_observation_spec.setter
    def full_observation_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_observation_spec", spec, "observation")

    # leaf or composite

    @property
    def action_spec(self: SpecAccess[HasAction[Leaf]]) -> Leaf:
        """The action's spec; a Composite if there are several actions. Setting a leaf names it `action`."""
        spec: Leaf = _single(self._whole("full_action_spec"))
        return spec

    @action_spec.setter
    def action_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_action_spec", spec, "action")

    @property
    def reward_spec(self: SpecAccess[HasReward[Leaf]]) -> Leaf:
        """The reward's spec; a Composite if there are several rewards. Setting a leaf names it `reward`."""
        spec: Leaf = _single(self._whole("full_reward_spec"))
        return spec

    @reward_spec.setter
    def reward_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_reward_spec", spec, "reward")

    @property
    def done_spec(self: SpecAccess[HasDone[Leaf]]) -> Leaf:
        """The done flags' spec. Setting a leaf names it `done`; `terminated` is added beside it."""
        spec: Leaf = _single(self._whole("full_done_spec"))
        return spec

    @done_spec.setter
    def done_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_done_spec", spec, "done")

    @property
    def observation_spec(self: SpecAccess[HasObservation[Group]]) -> Group:
        """The specs of everything observed, state included. Setting a leaf names it `observation`."""
        spec: Group = self._whole("full_observation_spec")
        return spec

    @observation_spec.setter
    def observation_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_observation_spec", spec, "observation")

    @property
    def state_spec(self: SpecAccess[HasState[Group]]) -> Group:
        """The specs of the inputs of `step` that are not actions; empty if there are none."""
        spec: Group = self._whole("full_state_spec")
        return spec

    @state_spec.setter
    def state_spec(self, spec: Composite | None) -> None:
        self._set_group("full_state_spec", spec, None)

    # without batch dimensions

    @property
    def full_action_spec_unbatched(self: SpecAccess[HasFullAction[Group]]) -> Group:
        """`full_action_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._unbatched(self._whole("full_action_spec"))
        return spec

    @full_action_spec_unbatched.setter
    def full_action_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_action_spec = self._batched(spec)

    @property
    def full_state_spec_unbatched(self: SpecAccess[HasState[Group]]) -> Group:
        """`full_state_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._unbatched(self._whole("full_state_spec"))
        return spec

    @full_state_spec_unbatched.setter
    def full_state_spec_unbatched(self, spec: Composite) -> None:
        self.full_state_spec = self._batched(spec)

    @property
    def full_reward_spec_unbatched(self: SpecAccess[HasFullReward[Group]]) -> Group:
        """`full_reward_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._unbatched(self._whole("full_reward_spec"))
        return spec

    @full_reward_spec_unbatched.setter
    def full_reward_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_reward_spec = self._batched(spec)

    @property
    def full_done_spec_unbatched(self: SpecAccess[HasFullDone[Group]]) -> Group:
        """`full_done_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._unbatched(self._whole("full_done_spec"))
        return spec

    @full_done_spec_unbatched.setter
    def full_done_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_done_spec = self._batched(spec)

    @property
    def full_observation_spec_unbatched(self: SpecAccess[HasObservation[Group]]) -> Group:
        """`full_observation_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._unbatched(self._whole("full_observation_spec"))
        return spec

    @full_observation_spec_unbatched.setter
    def full_observation_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_observation_spec = self._batched(spec)

    @property
    def action_spec_unbatched(self: SpecAccess[HasAction[Leaf]]) -> Leaf:
        """`action_spec` of one environment; setting it adds the batch size."""
        spec: Leaf = _single(self._whole("full_action_spec_unbatched"))
        return spec

    @action_spec_unbatched.setter
    def action_spec_unbatched(self, spec: TensorSpec) -> None:
        self.action_spec = self._batched(spec)

    @property
    def reward_spec_unbatched(self: SpecAccess[HasReward[Leaf]]) -> Leaf:
        """`reward_spec` of one environment; setting it adds the batch size."""
        spec: Leaf = _single(self._whole("full_reward_spec_unbatched"))
        return spec

    @reward_spec_unbatched.setter
    def reward_spec_unbatched(self, spec: TensorSpec) -> None:
        self.reward_spec = self._batched(spec)

    @property
    def done_spec_unbatched(self: SpecAccess[HasDone[Leaf]]) -> Leaf:
        """`done_spec` of one environment; setting it adds the batch size."""
        spec: Leaf = _single(self._whole("full_done_spec_unbatched"))
        return spec

    @done_spec_unbatched.setter
    def done_spec_unbatched(self, spec: TensorSpec) -> None:
        self.done_spec = self._batched(spec)

    @property
    def observation_spec_unbatched(self: SpecAccess[HasObservation[Group]]) -> Group:
        """`observation_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._whole("full_observation_spec_unbatched")
        return spec

    @observation_spec_unbatched.setter
    def observation_spec_unbatched(self, spec: TensorSpec) -> None:
        self.observation_spec = self._batched(spec)

    @property
    def state_spec_unbatched(self: SpecAccess[HasState[Group]]) -> Group:
        """`state_spec` of one environment; setting it adds the batch size."""
        spec: Group = self._whole("full_state_spec_unbatched")
        return spec

    @state_spec_unbatched.setter
    def state_spec_unbatched(self, spec: Composite) -> None:
        self.state_spec = self._batched(spec)

    def _batched(self, spec: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"a spec is expected, found {type(spec).__name__}")
        return spec.expand(*self._batch_size, *spec.shape) if self._batch_size else spec

    def _whole(self, name: str) -> Any:
        """A group by the name of its property, which a subclass may have written anew."""
        return getattr(self, name)

    def _unbatched(self, spec: Composite) -> Any:
        return spec[(0,) * len(self._batch_size)] if self._batch_size else spec

    # all together

    @property
    def input_spec(self) -> Composite:
        """`full_action_spec` and `full_state_spec`, locked. Use the setters to change them."""
        return self._joined("input_spec", INPUT_GROUPS)

    @input_spec.setter
    def input_spec(self, spec: Composite) -> None:
        raise RuntimeError("input_spec is read-only; set action_spec or state_spec")

    @property
    def output_spec(self) -> Composite:
        """`full_reward_spec`, `full_done_spec` and `full_observation_spec`, locked. Use the setters."""
        return self._joined("output_spec", OUTPUT_GROUPS)

    @output_spec.setter
    def output_spec(self, spec: Composite) -> None:
        raise RuntimeError("output_spec is read-only; set reward_spec, done_spec or observation_spec")

    @property
    def input_spec_unbatched(self) -> Composite:
        """`input_spec` of one environment. Read-only."""
        spec: Composite = self._unbatched(self.input_spec)
        return spec

    @property
    def output_spec_unbatched(self) -> Composite:
        """`output_spec` of one environment. Read-only."""
        spec: Composite = self._unbatched(self.output_spec)
        return spec

    @property
    def specs(self) -> Composite:
        """All specs of the environment in one container: `input_spec` and `output_spec`."""
        inputs, outputs = self.input_spec, self.output_spec
        return Composite(
            input_spec=inputs, output_spec=outputs, shape=self._batch_size, device=self._device
        ).lock_()

    def _joined(self, name: str, groups: tuple[str, ...]) -> Composite:
        found: Composite | None = self._cache.get(name)
        if found is None:
            found = Composite(
                {group: self._settled(group) for group in groups}, shape=self._batch_size, device=self._device
            )
            if self._spec_locked:
                found.lock_()
            self._cache[name] = found
        return found


def _single(spec: Composite) -> Any:
    """The only leaf of a composite, or the composite if it has none or several."""
    leaves: list[TensorSpec | None] = list(spec.values(True, True))
    return leaves[0] if len(leaves) == 1 and leaves[0] is not None else spec
