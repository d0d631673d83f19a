"""Policies as functions of tensors: what a rollout calls where nobody has to see a tensordict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from tensordict.nn import TensorDictModule
from tensordict.nn.utils import skip_existing
from torch import nn
from torch.nn import functional

from specgen_runtime.envs.layout import Layout
from specgen_runtime.envs.policy import observation_policy, takes_tensordict
from specgen_runtime.plain_calls import is_plain, passes_tensors

__all__ = ["FlatPolicy", "flat_policy"]

_PLAIN = (
    nn.ELU, nn.GELU, nn.Hardtanh, nn.Identity, nn.LayerNorm, nn.LeakyReLU, nn.ReLU, nn.SiLU, nn.Sigmoid, nn.Softmax,
    nn.Softplus, nn.Tanh,
)  # fmt: skip
"""Modules whose `forward` can be called by itself."""


@dataclass(frozen=True, slots=True)
class FlatPolicy:
    """A policy that reads some entries of the root, and gives the actions and nothing else.

    Attributes:
        in_keys: what it reads.
        call: from these entries to the actions, a tuple in the order of the action keys.
    """

    in_keys: tuple[str, ...]
    call: Callable[..., tuple[Any, ...]]


def flat_policy(layout: Layout, policy: Any, trust_policy: bool) -> FlatPolicy | None:
    """The policy as a function of tensors; None where it has to be given the tensordict.

    Args:
        layout: of an environment with one action, whose keys are flat.
        policy: as `rollout` takes it.
        trust_policy: whether it takes a tensordict, whatever it looks like.
    """
    (action,) = layout.action.keys
    if type(policy) is TensorDictModule:
        if (
            policy.out_keys != [action]
            or not is_plain(policy)
            or not passes_tensors(policy)
            or skip_existing()
        ):
            return None
        return _composed(policy.in_keys, _flat_call(policy.module), lambda result: _one_of(result, action))
    if trust_policy or not isinstance(policy, nn.Module) or takes_tensordict(policy):
        return None
    observations, values_of = observation_policy(layout, policy)
    return _composed(observations, _flat_call(policy), values_of)


def _composed(
    in_keys: Iterable[Any], call: Callable[..., Any], values_of: Callable[[Any], tuple[Any, ...]]
) -> FlatPolicy:
    return FlatPolicy(tuple(in_keys), lambda *values: values_of(call(*values)))


def _one_of(result: Any, key: Any) -> tuple[Any, ...]:
    """What a module gives for one key."""
    if isinstance(result, dict) and key in result:
        return (result[key],)
    return result if isinstance(result, tuple) else (result,)


def _flat_call(module: Any) -> Callable[..., Any]:
    """The function that a module computes, past what `nn.Module` does around `forward`, where that is nothing."""
    if not isinstance(module, nn.Module) or not is_plain(module):
        called: Callable[..., Any] = module
        return called
    parts = list(_parts(module))
    if not parts:
        return module
    first, *further = parts
    if not further:
        return first

    def call(*values: Any) -> Any:
        result = first(*values)
        for part in further:
            result = part(result)
        return result

    return call


def _parts(module: nn.Module) -> Iterable[Callable[..., Any]]:
    """The functions that a module calls one after the other."""
    if not is_plain(module):
        yield module
    elif type(module) is nn.Sequential:
        for part in module:
            yield from _parts(part)
    elif type(module) is nn.Linear:
        yield _linear(module.weight, module.bias)
    elif type(module) in _PLAIN:
        yield module.forward
    else:
        yield module


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: functional.linear(x, weight, bias)
