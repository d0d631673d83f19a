"""What a rollout may call a policy, and what it checks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor
from torch import nn

from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.leaves import leaves_of
from specgen_runtime.specs.non_tensors.data import data_text, plain

if TYPE_CHECKING:
    from specgen_runtime.envs.key_access import KeyAccess

__all__ = ["as_policy", "check_actions", "on_policy_device", "shown"]


def as_policy(env: KeyAccess, policy: Callable[..., Any]) -> Callable[[Any], Any]:
    """Make any accepted policy a function from the root tensordict to the root with actions.

    Args:
        env: says which observation feeds a plain module, and where its result goes.
        policy: a callable on tensordicts, or an `nn.Module` without `in_keys`: from the only observation to
            the only action.

    Raises:
        TypeError: it is not callable, or it is a plain module and the environment has several observations
            or actions.
    """
    if not callable(policy):
        raise TypeError(f"a policy must be callable, found {type(policy).__name__}")
    if isinstance(policy, nn.Module) and not hasattr(policy, "in_keys"):
        return _from_module(env, policy)

    def act(tensordict: Any) -> Any:
        result = policy(tensordict)
        if result is tensordict:
            return tensordict
        if not isinstance(result, TensorDictBase):
            raise TypeError(
                f"a policy must return the tensordict with {_names(env.action_keys)} in it,"
                f" found {type(result).__name__}"
            )
        return tensordict.update(result)

    return act


def _from_module(env: KeyAccess, module: nn.Module) -> Callable[[Any], Any]:
    observations, actions = env.observation_keys, env.action_keys
    if len(observations) != 1 or len(actions) != 1:
        raise TypeError(
            f"{type(module).__name__} has no in_keys, and the environment has observations"
            f" {_names(observations)} and actions {_names(actions)}; wrap it in a TensorDictModule"
        )

    def act(tensordict: Any) -> Any:
        return tensordict.set(actions[0], module(tensordict.get(observations[0])))

    return act


def on_policy_device(
    act: Callable[[Any], Any], policy: Callable[..., Any], env_device: torch.device | None
) -> Callable[[Any], Any]:
    """Run a policy on the device of its parameters, and bring the result back."""
    parameter = next(policy.parameters(), None) if isinstance(policy, nn.Module) else None
    if parameter is None or parameter.device == env_device:
        return act
    device = parameter.device

    def moved(tensordict: Any) -> Any:
        result = act(tensordict.to(device))
        back = result.to(env_device if env_device is not None else "cpu")
        return back if env_device is not None else back.clear_device_()

    return moved


def check_actions(env: KeyAccess, rollout: TensorDictBase) -> None:
    """Refuse actions outside their spec, for all steps of a rollout `[*batch, T]` at once.

    Floating-point actions may miss the domain by rounding (1e-5 relative, 1e-6 absolute).

    Raises:
        ValueError: naming the key, the step and the value.
    """
    time = rollout.batch_dims - 1
    lazy = isinstance(rollout, LazyStackedTensorDict)  # sizes may differ from step to step
    for leaf in leaves_of(env.full_action_spec):
        spec = leaf.spec
        actions = None if lazy or leaf.items else rollout.get(leaf.key)
        if isinstance(actions, torch.Tensor) and _allowed(spec, actions.movedim(time, 0)):
            continue
        for t, step in enumerate(rollout.unbind(time)):
            value = leaf.find(step)
            if not _allowed(spec, value):
                raise ValueError(
                    f"the policy's {leaf} at step {t} is not in its spec {spec}: found {shown(value)}"
                )


def _allowed(spec: Any, action: Any) -> bool:
    if spec.is_in(action) or getattr(spec, "mask", None) is not None:
        return True  # the mask is that of the last step only
    if not isinstance(action, torch.Tensor) or action.is_nested or not action.is_floating_point():
        return False
    return torch.allclose(action, spec.project(action.clone()), rtol=1e-5, atol=1e-6)


def shown(value: Any) -> str:
    """A value as messages print it: a tensor by its dtype, shape and range."""
    if not isinstance(value, torch.Tensor) or value.is_nested:
        return data_text(plain(value, 0) if is_non_tensor(value) else value)
    return f"{value.dtype} {list(value.shape)} in [{value.min()}, {value.max()}]"


def _names(keys: list[Any]) -> str:
    return ", ".join(show_key(key) for key in keys) or "none"
