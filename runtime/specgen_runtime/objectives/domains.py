"""What losses know of actions from their specs: bounds, and how many numbers an action has."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.objectives.parameters import device_of
from specgen_runtime.specs import Bounded, Composite, TensorSpec
from specgen_runtime.typing import NestedKey


class UnknownDomainError(RuntimeError):
    """Nobody said what an action is like."""


def add_bounds(
    loss: nn.Module,
    role: str,
    key: NestedKey,
    *,
    action_spec: TensorSpec | None = None,
    bounds: tuple[float | Tensor, float | Tensor] | None = None,
) -> None:
    """Register the bounds of a role as the buffers ``min_<role>`` and ``max_<role>``, where the parameters are.

    Args:
        loss: the loss, with its networks.
        role: the role.
        key: where a composite spec has it.
        action_spec: its spec, or a composite that holds it; its batch dimensions are left out.
        bounds: the lowest and the highest value instead, numbers or tensors of the shape of an action.

    Raises:
        ValueError: unless exactly one of both is given, if the spec has no bounds, or a lower one is above its upper one.
    """
    owner = type(loss).__name__
    if (action_spec is None) == (bounds is None):
        raise ValueError(
            f"{owner} takes one of action_spec and bounds, but not both or none, got action_spec={action_spec} and bounds={bounds}"
        )
    if action_spec is not None:
        leaf, batch = _leaf(action_spec, key, owner)
        if not isinstance(leaf, Bounded):
            raise ValueError(f"{owner}: the spec of {role!r} has no bounds, it is {leaf}")
        low, high = leaf.low[(0,) * batch], leaf.high[(0,) * batch]
    else:
        assert bounds is not None
        low = torch.as_tensor(bounds[0])
        high = torch.as_tensor(bounds[1], device=low.device, dtype=low.dtype)
    if bool((low > high).any()):
        raise ValueError(f"{owner}: a lower bound of {role!r} is above its upper bound: {low} and {high}")
    device = device_of(loss.parameters())
    loss.register_buffer(f"max_{role}", high.to(device))
    loss.register_buffer(f"min_{role}", low.to(device))


def action_size(
    loss: nn.Module, role: str, key: NestedKey, action_spec: TensorSpec | None, network: nn.Module | None
) -> int:
    """How many numbers an action has, the batch dimensions of its spec left out.

    Args:
        loss: the loss, for messages.
        role: the role.
        key: where a composite spec has it.
        action_spec: its spec, or a composite that holds it.
        network: a policy whose own ``spec`` says it, if ``action_spec`` is None.

    Raises:
        UnknownDomainError: if neither says it.
    """
    owner = type(loss).__name__
    spec = action_spec if action_spec is not None else getattr(network, "spec", None)
    try:
        if spec is None:
            raise KeyError(key)
        leaf, batch = _leaf(spec, key, owner)
    except KeyError:
        raise UnknownDomainError(
            f"{owner}: nobody says how many numbers {role!r} ({key!r}) has: give a spec of it, by action_spec or a policy "
            "that has one, or the number that is computed from it"
        ) from None
    if isinstance(leaf, Composite):
        return sum(one.shape[batch:].numel() for one in leaf.values(True, True))
    return leaf.shape[batch:].numel()


def _leaf(spec: TensorSpec, key: NestedKey, owner: str) -> tuple[TensorSpec, int]:
    """The spec of an action, and how many batch dimensions a composite around it has.

    Raises:
        KeyError: if a composite has none.
    """
    spec = own_spec(spec)
    if not isinstance(spec, Composite):
        return spec, 0
    path = as_tuple(key)
    for part in path[:-1]:
        inner = spec.get(part, None)
        if not isinstance(inner, Composite):
            raise KeyError(f"{owner}: the spec has no entry {key!r}")
        spec = inner
    leaf = spec.get(path[-1], None)
    if leaf is None:
        raise KeyError(f"{owner}: the spec has no entry {key!r}")
    return leaf, len(spec.shape)
