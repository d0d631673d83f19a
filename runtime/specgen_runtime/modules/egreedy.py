"""Epsilon-greedy exploration."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from tensordict.utils import expand_as_right
from torch import Tensor

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.action_space import action_leaf, entry
from specgen_runtime.modules.exploration import (
    ExplorationNumbers,
    action_batch,
    draws_for,
    explores,
    fall,
)
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey


class EGreedyModule(ExplorationNumbers, TensorDictModuleBase):  # type: ignore[misc]
    """Replaces each action by a random one of its spec with probability epsilon.

    Explores when the exploration type is ``RANDOM`` or not set; otherwise actions pass through. Epsilon falls
    linearly from ``eps_init`` to ``eps_end``, by `step`, which the training loop must call; or the loop sets it, as
    ``module.eps = 0.3``, within [0, 1].

    One uniform number is drawn per element of the tensordict's batch, then a random action for all of them.

    Args:
        spec: of the action, with or without batch dimensions, or a composite that holds it.
        eps_init: epsilon at first, in [0, 1].
        eps_end: epsilon at last, in [0, ``eps_init``].
        annealing_num_steps: steps from the first to the last.
        action_key: what is read and written.
        action_mask_key: bool, True where an action is allowed; random actions keep to it. Defaults to None.
        device: of epsilon.
        generator: what it draws from, on the device of the actions. Defaults to torch's. Set ``generator`` to another after
            a move to another device; the state dict lacks it.

    Raises:
        TypeError: if ``spec`` is not a spec, or ``generator`` no generator.
        ValueError: if an epsilon is outside its range, or the number of steps is not positive.
        KeyError: if a composite spec does not hold ``action_key``.
    """

    eps_init: Tensor
    eps_end: Tensor
    eps: Tensor
    _fractions = frozenset({"eps_init", "eps_end", "eps"})

    def __init__(
        self,
        spec: TensorSpec,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        *,
        action_key: NestedKey = "action",
        action_mask_key: NestedKey | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        spec = own_spec(spec)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"spec must be the spec of the action, got {type(spec).__name__}")
        if not 0.0 <= eps_end <= eps_init <= 1.0:
            raise ValueError(f"epsilon must fall within [0, 1]: got eps_init={eps_init}, eps_end={eps_end}")
        if annealing_num_steps < 1:
            raise ValueError(f"annealing_num_steps must be positive, got {annealing_num_steps}")
        self.action_key = action_key
        self.action_mask_key = action_mask_key
        self.in_keys = [action_key] if action_mask_key is None else [action_key, action_mask_key]
        self.out_keys = [action_key]
        self.annealing_num_steps = annealing_num_steps
        self.register_buffer("eps_init", torch.tensor(float(eps_init), device=device))
        self.register_buffer("eps_end", torch.tensor(float(eps_end), device=device))
        self.register_buffer("eps", torch.tensor(float(eps_init), device=device))
        self.generator = generator
        self._spec = spec
        self._leaf = action_leaf(spec, action_key)

    @property
    def spec(self) -> TensorSpec:
        """The spec, as it was given."""
        return self._spec

    def step(self, frames: int = 1) -> None:
        """Lower epsilon by ``frames`` steps of the annealing; at the end of it, nothing changes any more.

        Raises:
            ValueError: if ``frames`` is negative.
        """
        fall(self.eps, self.eps_init, self.eps_end, self.annealing_num_steps, frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Replace actions, in place.

        Raises:
            KeyError: if the action or the mask is missing.
            ValueError: if the action does not have the shape of the spec.
            RuntimeError: if the action is on another device than epsilon, or than the generator.
        """
        if not explores():
            return tensordict
        action = entry(tensordict, self.action_key, owner="EGreedyModule", role="the action")
        eps, device = self.eps, action.device
        if device != eps.device:
            raise RuntimeError(f"the action is on {device}, EGreedyModule on {eps.device}; use .to()")
        with draws_for(self.generator, device, "EGreedyModule"):
            explored = torch.rand(action_batch(tensordict, self.action_key), device=device) < eps
            drawn = self._drawn(action, tensordict).to(device, action.dtype)
        if explored.ndim < action.ndim:
            explored = expand_as_right(explored, action)
        tensordict.set(self.action_key, torch.where(explored, drawn, action))
        return tensordict

    def _drawn(self, action: Tensor, tensordict: TensorDictBase) -> Tensor:
        """Random actions in the shape of the action, those that its mask allows."""
        spec = self._leaf
        shape, own = action.shape, spec.shape
        batch = len(shape) - len(own)
        if batch < 0 or shape[batch:] != own:
            raise ValueError(f"the action has shape {tuple(shape)}, its spec {tuple(own)}")
        if self.action_mask_key is None:
            drawn: Tensor = spec.rand(shape[:batch])
            return drawn
        mask = entry(tensordict, self.action_mask_key, owner="EGreedyModule", role="the action mask")
        spec = spec.expand(shape).clone()
        spec.update_mask(mask)  # type: ignore[attr-defined]
        masked: Tensor = spec.rand()
        return masked
