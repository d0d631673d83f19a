"""Layers of torch in the copies of networks that losses call: run without what `nn.Module.__call__` does around them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def without_call_overhead(module: nn.Module) -> None:
    """Make the layers of ``module`` that are torch's own, and have no hooks, cost no more than their functions.

    `nn.Module.__call__` looks for hooks, and `nn.Module.__getattr__` for parameters, at each call: for layers of the
    usual size that takes as long as a tenth of their forward and backward pass. Their class is exchanged; what a
    module computes, its parameters and its names stay.
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
    """Whether calling a module runs its `forward` and no hooks."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return not any(getattr(module, name) for name in hooks)


def _lacks_parameters(layer: nn.Module) -> bool:
    """Whether a linear layer computes its weight, or holds it elsewhere."""
    return isinstance(layer, nn.Linear) and not {"weight", "bias"} <= layer._parameters.keys()


class _Linear(nn.Linear):
    def __call__(self, x: Tensor) -> Tensor:
        own = self._parameters
        if "weight" not in own or "bias" not in own:
            return self.forward(x)  # `TensorDict.to_module` put tensors there that are no parameters
        return F.linear(x, own["weight"], own["bias"])  # type: ignore[arg-type]


class _Sequential(nn.Sequential):
    def __call__(self, x: Tensor) -> Tensor:
        for layer in self._modules.values():
            x = layer(x)
        return x


class _ReLU(nn.ReLU):
    def __call__(self, x: Tensor) -> Tensor:
        return F.relu(x, inplace=True) if self.inplace else torch.relu(x)


class _Tanh(nn.Tanh):
    def __call__(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


class _Sigmoid(nn.Sigmoid):
    def __call__(self, x: Tensor) -> Tensor:
        return torch.sigmoid(x)


class _SiLU(nn.SiLU):
    __call__ = nn.SiLU.forward


class _GELU(nn.GELU):
    __call__ = nn.GELU.forward


class _ELU(nn.ELU):
    __call__ = nn.ELU.forward


class _LayerNorm(nn.LayerNorm):
    __call__ = nn.LayerNorm.forward


_DIRECT: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: _Linear,
    nn.Sequential: _Sequential,
    nn.ReLU: _ReLU,
    nn.Tanh: _Tanh,
    nn.Sigmoid: _Sigmoid,
    nn.SiLU: _SiLU,
    nn.GELU: _GELU,
    nn.ELU: _ELU,
    nn.LayerNorm: _LayerNorm,
}
_ORDINARY = {direct: ordinary for ordinary, direct in _DIRECT.items()}
