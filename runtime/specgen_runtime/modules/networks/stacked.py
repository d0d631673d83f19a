"""Networks of one structure with different parameters, computed together."""

from __future__ import annotations

import copy
import math
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from specgen_runtime.modules.networks.mlp import MLP

_ELEMENTWISE = (
    nn.CELU,
    nn.ELU,
    nn.GELU,
    nn.Hardswish,
    nn.Hardtanh,
    nn.Identity,
    nn.LeakyReLU,
    nn.Mish,
    nn.ReLU,
    nn.ReLU6,
    nn.SELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Softplus,
    nn.Softsign,
    nn.Tanh,
)


def stack_networks(networks: list[nn.Module], known: dict[str, nn.Parameter] | None = None) -> nn.Module:
    """A network whose parameters and buffers are those of several, stacked along a new first dimension.

    Args:
        networks: at least one, all of one structure. Lazy parameters stay lazy.
        known: parameters by name, which are given the values and used in place of new ones.
    """
    known = known or {}
    stacked = copy.deepcopy(networks[0])
    others = [dict(network.named_modules()) for network in networks]
    for path, module in stacked.named_modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is None or is_lazy(parameter):
                continue
            values = torch.stack([getattr(other[path], name).detach() for other in others])
            kept: Any = known.get(f"{path}.{name}".removeprefix("."))
            if kept is None:
                kept = nn.Parameter(values, parameter.requires_grad)
            elif is_lazy(kept):
                kept.materialize(values.shape, values.device, values.dtype)
                kept.data.copy_(values)
            module._parameters[name] = kept
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and not is_lazy(buffer):
                module._buffers[name] = torch.stack([getattr(other[path], name) for other in others])
    return stacked


def unstack_networks(stacked: nn.Module, n: int) -> list[nn.Module]:
    """The networks that were stacked; what is assigned to their parameters in place goes to the stack."""
    networks = []
    for i in range(n):
        memo: dict[int, object] = {
            id(p): nn.Parameter(p.detach()[i], p.requires_grad) for p in stacked.parameters()
        }
        memo |= {id(b): b[i] for b in stacked.buffers()}
        networks.append(copy.deepcopy(stacked, memo))
    return networks


def run_stacked(stacked: nn.Module, inputs: Tensor, randomness: str = "different") -> Tensor:
    """What each of several networks computes of its input.

    Linear layers with elementwise activations between them are products of batches of matrices; all else is mapped.

    Args:
        stacked: as `stack_networks` makes it.
        inputs: shape `(n_networks, ...)`.
        randomness: whether networks draw different numbers: `"different"`, `"same"`, or `"error"` if they draw any.

    Returns:
        Shape `(n_networks, ...)`.
    """
    if type(stacked) in (nn.Sequential, MLP):
        layers = list(cast("nn.Sequential", stacked))
        if all(type(layer) is nn.Linear or type(layer) in _ELEMENTWISE for layer in layers):
            value = inputs.reshape(inputs.shape[0], math.prod(inputs.shape[1:-1]), inputs.shape[-1])
            for layer in layers:
                value = _products(layer, value) if isinstance(layer, nn.Linear) else layer(value)
            shape = getattr(stacked, "out_shape", None) or value.shape[-1:]
            return value.reshape(*inputs.shape[:-1], *shape)
    return _mapped(stacked, inputs, randomness)


def _products(layer: nn.Linear, value: Tensor) -> Tensor:
    """Stacked linear layers, of inputs of shape `(n_networks, n, features)`."""
    weights = layer.weight.mT
    return value @ weights if layer.bias is None else torch.baddbmm(layer.bias.unsqueeze(1), value, weights)


def _mapped(stacked: nn.Module, inputs: Tensor, randomness: str) -> Tensor:
    tensors = {**dict(stacked.named_parameters()), **dict(stacked.named_buffers())}

    def run(of_one: dict[str, Tensor], value: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(stacked, of_one, (value,))
        return out

    out: Tensor = torch.vmap(run, randomness=randomness)(tensors, inputs)
    return out
