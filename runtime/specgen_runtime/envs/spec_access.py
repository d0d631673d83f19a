"""The specs of an environment: five composites, kept locked, with the views on them that TorchRL names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from specgen_runtime.envs.done import check_done_spec
from specgen_runtime.envs.keys import as_tuple, join_key, show_key
from specgen_runtime.specs import Categorical, Composite, TensorSpec, Unbounded
from specgen_runtime.specs.arguments import as_device
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["SpecAccess"]

_INPUT = ("full_action_spec", "full_state_spec")
_OUTPUT = ("full_reward_spec", "full_done_spec", "full_observation_spec")


class SpecAccess(nn.Module):
    """The part of an environment that holds its specs, batch size and device.

    Specs are stored with the environment's batch dimensions in front and locked; they change through the
    setters only. `action_spec`, `reward_spec` and `done_spec` return the leaf where there is just one.
    """

    if TYPE_CHECKING:
        # nn.Module answers any attribute; without that, a misspelt one is an error in type checkers.
        __getattr__: None  # type: ignore[misc, assignment]

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | int | None = None,
    ) -> None:
        super().__init__()
        self._device = None if device is None else as_device(device)
        if batch_size is None:
            batch_size = ()
        self._batch_size = torch.Size((batch_size,) if isinstance(batch_size, int) else tuple(batch_size))
        self._groups: dict[str, Composite] = {}
        self._cache: dict[str, Any] = {}

    # batch size and device

    @property
    def batch_size(self) -> torch.Size:
        """How many environments run at once, as a shape."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: torch.Size | tuple[int, ...] | list[int]) -> None:
        size = torch.Size(tuple(value))
        for name, spec in self._groups.items():
            if spec.shape != size:
                raise RuntimeError(
                    f"batch_size {list(size)} does not fit {name}, whose batch shape is {list(spec.shape)}"
                )
        self._batch_size = size
        self._cache.clear()

    @property
    def shape(self) -> torch.Size:
        """Another name of `batch_size`."""
        return self.batch_size

    @property
    def ndim(self) -> int:
        """The number of batch dimensions."""
        return len(self.batch_size)

    def ndimension(self) -> int:
        """The number of batch dimensions."""
        return self.ndim

    def numel(self) -> int:
        """How many environments run at once."""
        return self.batch_size.numel()

    @property
    def device(self) -> torch.device | None:
        """The device of the data, or None if the environment leaves it open."""
        return self._device

    @device.setter
    def device(self, value: DEVICE_TYPING | None) -> None:
        raise RuntimeError(
            "the device of an environment is set at construction; use env.to(device) to move it"
        )

    # the five composites

    def _group(self, name: str) -> Composite:
        found = self._groups.get(name)
        if found is None:
            found = self._default_group(name)
            self._groups[name] = found
        return found

    def _default_group(self, name: str) -> Composite:
        leaves: dict[str, TensorSpec]
        if name == "full_reward_spec":
            leaves = {"reward": Unbounded(shape=(*self._batch_size, 1), device=self._device)}
        elif name == "full_done_spec":
            leaves = {key: self._flag_spec((*self._batch_size, 1)) for key in ("done", "terminated")}
        else:
            leaves = {}
        return Composite(leaves, shape=self._batch_size, device=self._device).lock_()

    def _flag_spec(self, shape: tuple[int, ...] | torch.Size) -> TensorSpec:
        return Categorical(2, shape=shape, dtype=torch.bool, device=self._device)

    def _set_group(self, name: str, spec: TensorSpec | Composite | None, default_key: str | None) -> None:
        """Check and store one of the five composites; on an error nothing has changed."""
        short = name.removeprefix("full_")
        if spec is None:
            spec = Composite(shape=self._batch_size, device=self._device)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"{short} must be a TensorSpec, found {type(spec).__name__}")
        n = len(self._batch_size)
        if spec.shape[:n] != self._batch_size:
            raise ValueError(
                f"{short} must start with the batch size {list(self._batch_size)}, found shape {list(spec.shape)};"
                f" env.{short}_unbatched = ... adds the batch size for you"
            )
        if not isinstance(spec, Composite):
            if default_key is None:
                raise TypeError(f"{short} must be a Composite, found {type(spec).__name__}")
            spec = Composite({default_key: spec}, shape=self._batch_size, device=self._device)
        else:
            spec = spec.clone()
        if self._device is not None:
            spec = spec.to(self._device)
        if name in ("full_reward_spec", "full_done_spec"):
            for key, leaf in spec.items(True, True):
                if leaf.ndim <= n:
                    raise RuntimeError(
                        f"{short}: {show_key(key)} has shape {list(leaf.shape)}; it needs a dimension after the"
                        f" batch size {list(self._batch_size)}, such as {[*self._batch_size, 1]}"
                    )
        if name == "full_done_spec":
            spec = self._completed_done_spec(spec)
        self._check_collisions(name, spec)
        self._groups[name] = spec.lock_()
        self._cache.clear()

    def _completed_done_spec(self, spec: Composite) -> Composite:
        if not list(spec.keys(True, True)):
            return self._default_group("full_done_spec")
        check_done_spec(spec)
        present = {join_key(as_tuple(key)): leaf for key, leaf in spec.items(True, True)}
        for key, leaf in list(present.items()):
            prefix = as_tuple(key)[:-1]
            for flag in ("done", "terminated"):
                wanted = join_key((*prefix, flag))
                if wanted not in present:
                    present[wanted] = self._flag_spec(leaf.shape)
                    spec.set(wanted, present[wanted])
        return spec

    def _check_collisions(self, name: str, spec: Composite) -> None:
        """No key may have two meanings, whichever was set first."""
        rivals = {
            "full_action_spec": ("full_state_spec",),
            "full_state_spec": ("full_action_spec",),
        }.get(name, tuple(other for other in _OUTPUT if other != name))
        mine = {join_key(as_tuple(key)) for key in spec.keys(True, True)}
        for other in rivals:
            if other not in self._groups:
                continue
            theirs = {join_key(as_tuple(key)) for key in self._groups[other].keys(True, True)}
            for key in mine & theirs:
                raise RuntimeError(
                    f"key {show_key(key)} is in {name.removeprefix('full_')} and in"
                    f" {other.removeprefix('full_')}; one key has one meaning"
                )

    @property
    def full_action_spec(self) -> Composite:
        """The specs of all actions."""
        return self._group("full_action_spec")

    @full_action_spec.setter
    def full_action_spec(self, spec: Composite) -> None:
        self._set_group("full_action_spec", spec, None)

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
    def full_reward_spec(self, spec: Composite) -> None:
        self._set_group("full_reward_spec", spec, None)

    @property
    def full_done_spec(self) -> Composite:
        """The specs of all done flags; every set has `done` and `terminated`."""
        return self._group("full_done_spec")

    @full_done_spec.setter
    def full_done_spec(self, spec: Composite) -> None:
        self._set_group("full_done_spec", spec, None)

    @property
    def full_observation_spec(self) -> Composite:
        """The specs of everything that `reset` and `step` give besides rewards and done flags."""
        return self._group("full_observation_spec")

    @full_observation_spec.setter
    def full_observation_spec(self, spec: Composite) -> None:
        self._set_group("full_observation_spec", spec, None)

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
        """`full_action_spec` of one environment."""
        return self._unbatched(self.full_action_spec)

    @property
    def full_state_spec_unbatched(self) -> Composite:
        """`full_state_spec` of one environment."""
        return self._unbatched(self.full_state_spec)

    @property
    def full_reward_spec_unbatched(self) -> Composite:
        """`full_reward_spec` of one environment."""
        return self._unbatched(self.full_reward_spec)

    @property
    def full_done_spec_unbatched(self) -> Composite:
        """`full_done_spec` of one environment."""
        return self._unbatched(self.full_done_spec)

    @property
    def full_observation_spec_unbatched(self) -> Composite:
        """`full_observation_spec` of one environment."""
        return self._unbatched(self.full_observation_spec)

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
        return self._joined("input_spec", _INPUT)

    @input_spec.setter
    def input_spec(self, spec: Composite) -> None:
        raise RuntimeError("input_spec is read-only; set action_spec or state_spec")

    @property
    def output_spec(self) -> Composite:
        """`full_reward_spec`, `full_done_spec` and `full_observation_spec`, locked. Use the setters."""
        return self._joined("output_spec", _OUTPUT)

    @output_spec.setter
    def output_spec(self, spec: Composite) -> None:
        raise RuntimeError("output_spec is read-only; set reward_spec, done_spec or observation_spec")

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
                {group: self._group(group) for group in groups}, shape=self._batch_size, device=self._device
            ).lock_()
            self._cache[name] = found
        return found


def _single(spec: Composite) -> TensorSpec:
    """The only leaf of a composite, or the composite if it has none or several."""
    leaves = list(spec.values(True, True))
    return leaves[0] if len(leaves) == 1 else spec
