"""Usual layers in the copies of networks that losses call: run without what `nn.Module.__call__` does around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict.nn import NormalParamExtractor, biased_softplus
from torch import Tensor, nn
from torch.nn import functional as F

from specgen_runtime.modules.networks.mlp import MLP


def without_call_overhead(module: nn.Module) -> None:
    """Make layers of torch and of tensordict, and each `MLP`, cost no more than their functions, where they have no hooks.

    `nn.Module.__call__` looks for hooks, and `nn.Module.__getattr__` for parameters, at each call: for layers of the
    usual size that takes as long as a tenth of their forward and backward pass. Their class is exchanged; what a
    module computes, its parameters and its names stay. A layer on which a hook is registered later has its own class
    again; hooks of all modules (`torch.nn.modules.module.register_module_forward_hook`) do not see these layers.
    """
    for layer in module.modules():
        kind = _DIRECT.get(type(layer))
        if kind is not None and runs_forward_alone(layer) and not _lacks_parameters(layer):
            layer.__class__ = kind


def with_call_overhead(module: nn.Module) -> None:
    """Give the layers of ``module`` back the classes that `without_call_overhead` took."""
    for layer in module.modules():
        if type(layer) in _ORDINARY:
            layer.__class__ = _ORDINARY[type(layer)]


def runs_forward_alone(module: nn.Module) -> bool:
    """Whether calling a module runs the `forward` of its class and no hooks."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return "forward" not in vars(module) and not any(getattr(module, name) for name in hooks)


def _lacks_parameters(layer: nn.Module) -> bool:
    """Whether a linear layer computes its weight, or holds it elsewhere."""
    return isinstance(layer, nn.Linear) and not {"weight", "bias"} <= layer._parameters.keys()


def _hooked(name: str) -> Callable[..., Any]:
    """A method that registers a hook, on a layer that is ordinary from then on."""

    def register(self: nn.Module, *args: Any, **keywords: Any) -> Any:
        self.__class__ = _ORDINARY.get(type(self), type(self))
        return getattr(nn.Module, name)(self, *args, **keywords)

    return register


class _Direct(nn.Module):
    """What layers that are called directly have in common: none has hooks."""

    register_forward_hook = _hooked("register_forward_hook")
    register_forward_pre_hook = _hooked("register_forward_pre_hook")
    register_full_backward_hook = _hooked("register_full_backward_hook")
    register_full_backward_pre_hook = _hooked("register_full_backward_pre_hook")


class _Linear(_Direct, nn.Linear):
    def __call__(self, input: Tensor) -> Tensor:
        own = self._parameters
        if "weight" not in own or "bias" not in own:
            return self.forward(input)  # `TensorDict.to_module` put tensors there that are no parameters
        return F.linear(input, own["weight"], own["bias"])  # type: ignore[arg-type]


class _Sequential(_Direct, nn.Sequential):
    def __call__(self, input: Tensor) -> Tensor:
        for layer in self._modules.values():
            input = layer(input)
        return input


class _MLP(_Direct, MLP):
    __call__ = MLP.forward


class _ReLU(_Direct, nn.ReLU):
    def __call__(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=True) if self.inplace else torch.relu(input)


class _Tanh(_Direct, nn.Tanh):
    def __call__(self, input: Tensor) -> Tensor:
        return torch.tanh(input)


class _Sigmoid(_Direct, nn.Sigmoid):
    def __call__(self, input: Tensor) -> Tensor:
        return torch.sigmoid(input)


class _SiLU(_Direct, nn.SiLU):
    __call__ = nn.SiLU.forward


class _GELU(_Direct, nn.GELU):
    __call__ = nn.GELU.forward


class _ELU(_Direct, nn.ELU):
    __call__ = nn.ELU.forward


class _NormalParamExtractor(_Direct, NormalParamExtractor):  # type: ignore[misc]
    __call__ = NormalParamExtractor.forward


class _BiasedSoftplus(_Direct, biased_softplus):  # type: ignore[misc]
    __call__ = biased_softplus.forward


class _LayerNorm(_Direct, nn.LayerNorm):
    __call__ = nn.LayerNorm.forward


_DIRECT: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: _Linear,
    nn.Sequential: _Sequential,
    MLP: _MLP,
    nn.ReLU: _ReLU,
    nn.Tanh: _Tanh,
    nn.Sigmoid: _Sigmoid,
    nn.SiLU: _SiLU,
    nn.GELU: _GELU,
    nn.ELU: _ELU,
    nn.LayerNorm: _LayerNorm,
    NormalParamExtractor: _NormalParamExtractor,
    biased_softplus: _BiasedSoftplus,
}
_ORDINARY = {direct: ordinary for ordinary, direct in _DIRECT.items()}
