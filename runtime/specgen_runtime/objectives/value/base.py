"""`ValueEstimatorBase`: what all value estimators share: keys, hyper-parameters as buffers, reading rewards and flags."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import NestedKey as TensorDictKey
from torch import Tensor, nn

from specgen_runtime.objectives.keys import checked_updates, next_key, required
from specgen_runtime.typing import NestedKey


class ValueEstimatorBase(nn.Module, ABC):
    """Targets for a value network, from rewards and the values of the next states.

    Args:
        value_network: writes ``tensor_keys.value`` from an observation. Without one the values are read from the
            tensordict (``value`` and ``("next", value)``) or given as ``next_value``.
        differentiable: whether `forward` lets gradients through.
        device: of the hyper-parameters.
    """

    @dataclass
    class _AcceptedKeys:
        advantage: TensorDictKey = "advantage"
        value_target: TensorDictKey = "value_target"
        value: TensorDictKey = "state_value"
        reward: TensorDictKey = "reward"
        done: TensorDictKey = "done"
        terminated: TensorDictKey = "terminated"
        steps_to_next_obs: TensorDictKey = "steps_to_next_obs"

    default_keys = _AcceptedKeys

    if TYPE_CHECKING:
        __getattr__: None  # type: ignore[misc,assignment]

    def __init__(
        self,
        *,
        value_network: TensorDictModuleBase | None = None,
        differentiable: bool = False,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.value_network = value_network
        self.differentiable = differentiable
        self._tensor_keys = self._AcceptedKeys()
        self._device = None if device is None else torch.device(device)

    @property
    def tensor_keys(self) -> Any:
        """The keys in use, by role."""
        return self._tensor_keys

    def set_keys(self, **keys: NestedKey | None) -> None:
        """Rename keys by role; ``None`` restores the default. All or nothing.

        Raises:
            ValueError: for a role that is not accepted, or a key that is not one.
        """
        for name, value in checked_updates(self._AcceptedKeys, keys, owner=type(self).__name__).items():
            setattr(self._tensor_keys, name, value)

    @property
    def in_keys(self) -> list[NestedKey]:
        """What `forward` reads."""
        signals = [next_key(self._tensor_keys.reward), next_key(self._tensor_keys.terminated)]
        if self.value_network is None:
            value = self._tensor_keys.value
            return [value, next_key(value), *signals]
        observations = list(self.value_network.in_keys)
        return [*observations, *map(next_key, observations), *signals]

    @property
    def out_keys(self) -> list[NestedKey]:
        """What `forward` writes."""
        return [self._tensor_keys.advantage, self._tensor_keys.value_target]

    @abstractmethod
    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
    ) -> Tensor:
        """The target of the value of each step of ``tensordict``, shape ``(*batch, 1)``.

        Args:
            tensordict: holds the signals under ``"next"``.
            target_params: parameters for the value network, if it computes the next value.
            next_value: the value of the next state, shape ``(*batch, 1)``; else it is read or computed.

        Raises:
            KeyError: if a signal is missing.
            RuntimeError: if the shapes of the signals differ.
        """

    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
    ) -> TensorDictBase:
        """Write ``advantage`` (target minus value) and ``value_target`` into ``tensordict``, and return it.

        Gradients never reach the parameters of the value network from here.

        Raises:
            RuntimeError: if ``tensordict`` has no batch dimension.
        """
        if tensordict.batch_dims < 1:
            raise RuntimeError(f"{type(self).__name__} needs a tensordict with at least one batch dimension")
        with nullcontext() if self.differentiable else torch.no_grad():
            value = self._value(tensordict, params).detach()
            target = self.value_estimate(
                tensordict, target_params=params if target_params is None else target_params
            )
            tensordict.set(self._tensor_keys.advantage, target - value)
            tensordict.set(self._tensor_keys.value_target, target)
        return tensordict

    def _value(self, tensordict: TensorDictBase, params: TensorDictBase | None) -> Tensor:
        key = self._tensor_keys.value
        if self.value_network is None:
            return required(tensordict, key, owner=type(self).__name__, role="the value")
        record = tensordict.select(*self.value_network.in_keys)
        with _with_parameters(params, self.value_network):
            self.value_network(record)
        return required(record, key, owner=type(self).__name__, role="the value")

    def _next_value(self, tensordict: TensorDictBase, params: TensorDictBase | None) -> Tensor:
        if self.value_network is None:
            key = next_key(self._tensor_keys.value)
            return required(tensordict, key, owner=type(self).__name__, role="the value of the next state")
        return self._value(tensordict.get("next"), params).detach()

    def _signal(self, tensordict: TensorDictBase, role: str, *, why: str = "") -> Tensor:
        key = next_key(getattr(self._tensor_keys, role))
        return required(tensordict, key, owner=type(self).__name__, role=f"{role}{why}")


def _with_parameters(params: TensorDictBase | None, network: nn.Module) -> AbstractContextManager[Any]:
    if params is None:
        return nullcontext()
    swap: Callable[..., AbstractContextManager[Any]] = params.detach().to_module
    return swap(network, preserve_module_state=False)


def checked_discount(name: str, value: float | Tensor) -> Tensor:
    """A discount as a float32 scalar tensor.

    Raises:
        TypeError: if it is not a number.
        ValueError: if it is not one number in [0, 1].
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Tensor)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    tensor = torch.as_tensor(value, dtype=torch.float32)
    if tensor.numel() != 1:
        raise ValueError(f"{name} must be one number, got a tensor of shape {tuple(tensor.shape)}")
    if not 0.0 <= tensor.item() <= 1.0:
        raise ValueError(f"{name} must be in [0, 1], got {value}")
    return tensor.detach().reshape(()).clone()
