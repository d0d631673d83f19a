"""The policies of collectors: where they are called, and what gives them new weights."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import torch
from tensordict import TensorDict, TensorDictBase
from torch import nn

from specgen_runtime.collectors.state import load_random_states, random_states
from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.rollout import RolloutOptions, policy_function

__all__ = ["Weights", "compiled_policy", "load_weights", "placed_policy", "policy_outputs", "weights_of"]

Weights: TypeAlias = TensorDictBase | nn.Module | Mapping[str, torch.Tensor]
"""New weights of a policy: a tensordict of its parameters and buffers, a module like it, or a state dict."""


def placed_policy(policy: Any, device: torch.device | None) -> Any:
    """The policy on a device: itself where it is there, or has no parameters; else a copy."""
    if device is None or not isinstance(policy, nn.Module):
        return policy
    if all(each.device == device for each in itertools.chain(policy.parameters(), policy.buffers())):
        return policy
    return copy.deepcopy(policy).to(device)


def compiled_policy(policy: Any, options: bool | Mapping[str, Any] | None) -> Any:
    """The policy run through `torch.compile`, whose keywords a dict of options has; itself where there are none."""
    if not options or policy is None:
        return policy
    return torch.compile(policy, **({} if options is True else dict(options)))


def weights_of(policy: Any) -> TensorDict:
    """The parameters and buffers of a policy, detached; empty for what is no module."""
    if not isinstance(policy, nn.Module):
        return TensorDict()
    weights: TensorDict = TensorDict.from_module(policy).data
    return weights


def load_weights(policy: Callable[..., Any] | None, weights: Weights) -> None:
    """Write weights into a policy, in place.

    Args:
        policy: a module.
        weights: of any device, with the keys and shapes of the policy's.

    Raises:
        TypeError: the policy is no module, or the weights are none.
        KeyError: they have other names than the policy's.
        RuntimeError: they have other shapes.
    """
    if not isinstance(policy, nn.Module):
        raise TypeError(
            f"only a policy that is an nn.Module has weights, this one is a {type(policy).__name__}"
        )
    own = weights_of(policy)
    given: Any = weights_of(weights) if isinstance(weights, nn.Module) else weights
    if not isinstance(given, TensorDictBase):
        if isinstance(given, Mapping):
            policy.load_state_dict(dict(given))
            return
        raise TypeError(f"weights are a tensordict, a module or a state dict, found {type(given).__name__}")
    given = given.data
    ours, theirs = set(own.keys(True, True)), set(given.keys(True, True))
    if ours != theirs:
        odd = sorted(map(str, ours ^ theirs))
        raise KeyError(f"the weights and those of the policy differ in their names: {', '.join(odd)}")
    for key in ours:
        if own.get(key).shape != given.get(key).shape:
            raise RuntimeError(
                f"weight {key!r} has shape {list(given.get(key).shape)}, that of the policy {list(own.get(key).shape)}"
            )
    own.update_(given)


def policy_outputs(
    env: EnvBase[Any], options: RolloutOptions, root: TensorDictBase, known: Collection[Any]
) -> dict[Any, torch.Tensor]:
    """Zeros like what a policy writes, by key, but for known keys; found by calling it.

    Args:
        env: the environment.
        options: say how the policy is called; random numbers are as if it was not.
        root: what it is called with.
        known: the keys that are left out.
    """
    states = random_states(env, options.policy_device, env.device)
    written = policy_function(env, options)(root.clone())
    load_random_states(env, states)
    return {key: torch.zeros_like(value) for key, value in written.items(True, True) if key not in known}
