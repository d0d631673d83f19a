"""`DeviceCastTransform`, `PinMemoryTransform`: where the data of an environment are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys, subspec
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["DeviceCastTransform", "PinMemoryTransform"]


class DeviceCastTransform(Transform):
    """Moves data to a device, and what the policy wrote back to that of the environment.

    Without keys all data are moved, and the device of the environment is the new one. With keys only those are, and
    the environment has no device any more. Copies to the CPU are waited for; others need no synchronisation.

    Args:
        device: outside of the environment.
        orig_device: inside of it. None: the environment's; offline nothing is moved back then.
        in_keys: what is moved; an entry with an out key of its own stays as well.
        out_keys: the names of what was moved. None: `in_keys`.
        in_keys_inv: what is moved back, as the environment calls it.
        out_keys_inv: the same, as the policy calls it. None: `in_keys_inv`.
    """

    invertible = True

    def __init__(
        self,
        device: DEVICE_TYPING,
        orig_device: DEVICE_TYPING | None = None,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(
            in_keys,
            in_keys if out_keys is None else out_keys,
            in_keys_inv,
            in_keys_inv if out_keys_inv is None else out_keys_inv,
        )
        self.device = torch.device(device)
        self._orig_device = None if orig_device is None else torch.device(orig_device)
        self._whole = not self.in_keys and not self.in_keys_inv

    def _apply_transform(self, obs: Tensor) -> Tensor:
        return obs.to(self.device, non_blocking=self.device.type != "cpu")

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._whole:
            return next_tensordict.to(self.device)
        return self._map(next_tensordict.copy().clear_device_(), self._missing_tolerance)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self._whole:
            return tensordict_reset.to(self.device)
        return self._map(tensordict_reset.copy().clear_device_(), tolerant=True)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._whole:
            return tensordict.to(self.device)
        return super()._offline(tensordict.copy().clear_device_())

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        home = self.orig_device
        if home is None:
            return tensordict
        if self._whole:
            return tensordict.to(home)
        moved = tensordict.copy().clear_device_()
        for in_key, out_key in self._pairs_inv():
            value = self._read(tensordict, out_key, self._missing_tolerance)
            if value is not None:
                moved.set(in_key, value.to(home, non_blocking=home.type != "cpu"))
        return moved

    @property
    def orig_device(self) -> torch.device | None:
        """The device inside of the environment: the one that was given, or the environment's."""
        env = self.parent
        return self._orig_device if env is None or self._orig_device is not None else env.device

    def transform_env_device(self, device: torch.device | None) -> torch.device | None:
        """The device of all data; None if only some are moved."""
        return self.device if self._whole else None

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Move the specs of what is moved."""
        if self._whole:
            return output_spec.to(self.device)
        for name in ("full_observation_spec", "full_reward_spec", "full_done_spec"):
            self._move(subspec(output_spec, name), self.in_keys, self.out_keys, drop=False)
        return super().transform_output_spec(_without_device(output_spec))

    def transform_input_spec(self, input_spec: Composite) -> Composite:
        """Move the specs of what is moved back."""
        if self._whole:
            return input_spec.to(self.device)
        for name in ("full_state_spec", "full_action_spec"):
            self._move(subspec(input_spec, name), self.in_keys_inv, self.out_keys_inv, drop=True)
        return _without_device(input_spec)

    def _move(self, specs: Composite, keys: list[NestedKey], names: list[NestedKey], drop: bool) -> None:
        _without_device(specs)
        present = leaf_keys(specs)
        for key, name in zip(keys, names, strict=True):
            if key in present:
                moved = specs[key].to(self.device)
                if drop and key != name:
                    del specs[key]
                specs[name] = moved

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(device={self.device}, keys={self.in_keys or self.in_keys_inv or 'all'})"
        )


class PinMemoryTransform(Transform):
    """Puts data into pinned memory, from which they are copied to a GPU faster; without a GPU it does nothing."""

    def __init__(self) -> None:
        super().__init__(in_keys=[])

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict.pin_memory() if torch.cuda.is_available() else next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict)


def _without_device(specs: Composite) -> Composite:
    specs.clear_device_()
    return specs
