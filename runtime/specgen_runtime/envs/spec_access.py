"""The specs of an environment, under the names that TorchRL gives them."""

from __future__ import annotations

from typing import Any

from specgen_runtime.envs.spec_groups import INPUT_GROUPS, OUTPUT_GROUPS, SpecGroups
from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["SpecAccess"]


class SpecAccess(SpecGroups):
    """The part of an environment through which its specs are seen and set.

    `action_spec`, `reward_spec` and `done_spec` return the leaf where there is just one. A leaf that is set as a whole
    group gets its default name: `action`, `observation`, `reward` or `done`.
    """

    @property
    def full_action_spec(self) -> Composite:
        """The specs of all actions."""
        return self._group("full_action_spec")

    @full_action_spec.setter
    def full_action_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_action_spec", spec, "action")

    @property
    def full_state_spec(self) -> Composite:
        """The specs of all inputs that are not actions."""
        return self._group("full_state_spec")

    @full_state_spec.setter
    def full_state_spec(self, spec: Composite | None) -> None:
        self._set_group("full_state_spec", spec, None)

    @property
    def full_reward_spec(self) -> Composite:
        """The specs of all rewards."""
        return self._group("full_reward_spec")

    @full_reward_spec.setter
    def full_reward_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_reward_spec", spec, "reward")

    @property
    def full_done_spec(self) -> Composite:
        """The specs of all done flags; every set has `done` and `terminated`."""
        return self._group("full_done_spec")

    @full_done_spec.setter
    def full_done_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_done_spec", spec, "done")

    @property
    def full_observation_spec(self) -> Composite:
        """The specs of everything that `reset` and `step` give besides rewards and done flags."""
        return self._group("full_observation_spec")

    @full_observation_spec.setter
    def full_observation_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_observation_spec", spec, "observation")

    # leaf or composite

    @property
    def action_spec(self) -> TensorSpec:
        """The action's spec; a Composite if there are several actions. Setting a leaf names it `action`."""
        return _single(self.full_action_spec)

    @action_spec.setter
    def action_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_action_spec", spec, "action")

    @property
    def reward_spec(self) -> TensorSpec:
        """The reward's spec; a Composite if there are several rewards. Setting a leaf names it `reward`."""
        return _single(self.full_reward_spec)

    @reward_spec.setter
    def reward_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_reward_spec", spec, "reward")

    @property
    def done_spec(self) -> TensorSpec:
        """The done flags' spec. Setting a leaf names it `done`; `terminated` is added beside it."""
        return _single(self.full_done_spec)

    @done_spec.setter
    def done_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_done_spec", spec, "done")

    @property
    def observation_spec(self) -> Composite:
        """The specs of everything observed, state included. Setting a leaf names it `observation`."""
        return self.full_observation_spec

    @observation_spec.setter
    def observation_spec(self, spec: TensorSpec) -> None:
        self._set_group("full_observation_spec", spec, "observation")

    @property
    def state_spec(self) -> Composite:
        """The specs of the inputs of `step` that are not actions; empty if there are none."""
        return self.full_state_spec

    @state_spec.setter
    def state_spec(self, spec: Composite | None) -> None:
        self._set_group("full_state_spec", spec, None)

    # without batch dimensions

    @property
    def full_action_spec_unbatched(self) -> Composite:
        """`full_action_spec` of one environment; setting it adds the batch size."""
        return self._unbatched(self.full_action_spec)

    @full_action_spec_unbatched.setter
    def full_action_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_action_spec = self._batched(spec)

    @property
    def full_state_spec_unbatched(self) -> Composite:
        """`full_state_spec` of one environment; setting it adds the batch size."""
        return self._unbatched(self.full_state_spec)

    @full_state_spec_unbatched.setter
    def full_state_spec_unbatched(self, spec: Composite) -> None:
        self.full_state_spec = self._batched(spec)

    @property
    def full_reward_spec_unbatched(self) -> Composite:
        """`full_reward_spec` of one environment; setting it adds the batch size."""
        return self._unbatched(self.full_reward_spec)

    @full_reward_spec_unbatched.setter
    def full_reward_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_reward_spec = self._batched(spec)

    @property
    def full_done_spec_unbatched(self) -> Composite:
        """`full_done_spec` of one environment; setting it adds the batch size."""
        return self._unbatched(self.full_done_spec)

    @full_done_spec_unbatched.setter
    def full_done_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_done_spec = self._batched(spec)

    @property
    def full_observation_spec_unbatched(self) -> Composite:
        """`full_observation_spec` of one environment; setting it adds the batch size."""
        return self._unbatched(self.full_observation_spec)

    @full_observation_spec_unbatched.setter
    def full_observation_spec_unbatched(self, spec: TensorSpec) -> None:
        self.full_observation_spec = self._batched(spec)

    @property
    def action_spec_unbatched(self) -> TensorSpec:
        """`action_spec` of one environment; setting it adds the batch size."""
        return _single(self.full_action_spec_unbatched)

    @action_spec_unbatched.setter
    def action_spec_unbatched(self, spec: TensorSpec) -> None:
        self.action_spec = self._batched(spec)

    @property
    def reward_spec_unbatched(self) -> TensorSpec:
        """`reward_spec` of one environment; setting it adds the batch size."""
        return _single(self.full_reward_spec_unbatched)

    @reward_spec_unbatched.setter
    def reward_spec_unbatched(self, spec: TensorSpec) -> None:
        self.reward_spec = self._batched(spec)

    @property
    def done_spec_unbatched(self) -> TensorSpec:
        """`done_spec` of one environment; setting it adds the batch size."""
        return _single(self.full_done_spec_unbatched)

    @done_spec_unbatched.setter
    def done_spec_unbatched(self, spec: TensorSpec) -> None:
        self.done_spec = self._batched(spec)

    @property
    def observation_spec_unbatched(self) -> Composite:
        """`observation_spec` of one environment; setting it adds the batch size."""
        return self.full_observation_spec_unbatched

    @observation_spec_unbatched.setter
    def observation_spec_unbatched(self, spec: TensorSpec) -> None:
        self.observation_spec = self._batched(spec)

    @property
    def state_spec_unbatched(self) -> Composite:
        """`state_spec` of one environment; setting it adds the batch size."""
        return self.full_state_spec_unbatched

    @state_spec_unbatched.setter
    def state_spec_unbatched(self, spec: Composite) -> None:
        self.state_spec = self._batched(spec)

    def _batched(self, spec: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"a spec is expected, found {type(spec).__name__}")
        return spec.expand(*self._batch_size, *spec.shape) if self._batch_size else spec

    def _unbatched(self, spec: Composite) -> Composite:
        if not self._batch_size:
            return spec
        one: Composite = spec[(0,) * len(self._batch_size)]
        return one

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
        return self._unbatched(self.input_spec)

    @property
    def output_spec_unbatched(self) -> Composite:
        """`output_spec` of one environment. Read-only."""
        return self._unbatched(self.output_spec)

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


def _single(spec: Composite) -> TensorSpec:
    """The only leaf of a composite, or the composite if it has none or several."""
    leaves: list[TensorSpec | None] = list(spec.values(True, True))
    return leaves[0] if len(leaves) == 1 and leaves[0] is not None else spec
