"""Exploration by normal noise on continuous actions."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.action_space import action_leaf, entry
from specgen_runtime.modules.exploration import ExplorationNumbers, draws_for, explores, fall
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import DEVICE_TYPING, NestedKey


class AdditiveGaussianModule(ExplorationNumbers, TensorDictModuleBase):  # type: ignore[misc]
    """Adds normal noise to actions, `sigma * N(mean, std)`, and projects them into their spec.

    Explores when the exploration type is `RANDOM` or not set; otherwise actions pass through. Sigma falls linearly from
    `sigma_init` to `sigma_end`, by `step`, which the training loop must call; or the loop sets it, as `module.sigma = 0.3`.

    One normal number is drawn for each element of the action.

    Args:
        spec: of the action, with or without batch dimensions, or a composite that holds it. None: set later, as
            `module.spec`.
        sigma_init: sigma at first.
        sigma_end: sigma at last, at most `sigma_init`.
        annealing_num_steps: steps from the first to the last.
        mean: of the noise, before it is multiplied by sigma.
        std: of the noise, before it is multiplied by sigma.
        action_key: what is read and written.
        safe: project actions also where nothing is explored.
        device: of sigma.
        generator: what it draws from, on the device of the actions. Defaults to torch's. Set `generator` to another after
            a move to another device; the state dict lacks it.

    Raises:
        TypeError: `spec` is not a spec, or `generator` no generator.
        ValueError: `sigma_end` is greater than `sigma_init`, or the number of steps is not positive.
        KeyError: a composite spec does not hold `action_key`.
    """

    sigma_init: Tensor
    sigma_end: Tensor
    sigma: Tensor
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        spec: TensorSpec | None = None,
        sigma_init: float = 1.0,
        sigma_end: float = 0.1,
        annealing_num_steps: int = 1000,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        action_key: NestedKey = "action",
        safe: bool = False,
        device: DEVICE_TYPING | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if sigma_end > sigma_init:
            raise ValueError(f"sigma must fall: got sigma_init={sigma_init}, sigma_end={sigma_end}")
        if annealing_num_steps < 1:
            raise ValueError(f"annealing_num_steps must be positive, got {annealing_num_steps}")
        self.action_key = action_key
        self.in_keys = [action_key]
        self.out_keys = [action_key]
        self.annealing_num_steps = annealing_num_steps
        self.safe = safe
        numbers = {"sigma_init": sigma_init, "sigma_end": sigma_end, "mean": mean, "std": std}
        for name, number in (*numbers.items(), ("sigma", sigma_init)):
            self.register_buffer(name, torch.tensor(float(number), device=device))
        self.generator = generator
        self._spec: TensorSpec | None = None
        self._leaf: TensorSpec | None = None
        if spec is not None:
            self.spec = spec

    @property
    def spec(self) -> TensorSpec | None:
        """The spec, as it was given; None until then."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec) -> None:
        spec = own_spec(spec)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"spec must be the spec of the action, got {type(spec).__name__}")
        self._leaf = action_leaf(spec, self.action_key)
        self._spec = spec

    def step(self, frames: int = 1) -> None:
        """Lower sigma by `frames` steps of the annealing; at the end of it, nothing changes any more.

        Raises:
            ValueError: `frames` is negative.
        """
        fall(self.sigma, self.sigma_init, self.sigma_end, self.annealing_num_steps, frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add noise to the actions, in place.

        Raises:
            KeyError: the action is missing.
            RuntimeError: the module has no spec yet, or its generator is on another device than the action.
            ValueError: the shape of the action does not end with that of the spec.
        """
        noisy = explores()
        if not (noisy or self.safe):
            return tensordict
        if self._leaf is None:
            raise RuntimeError(
                "AdditiveGaussianModule has no spec: give it when it is made, or set module.spec"
            )
        action = entry(tensordict, self.action_key, owner="AdditiveGaussianModule", role="the action")
        if noisy:
            with draws_for(self.generator, action.device, "AdditiveGaussianModule"):
                drawn = torch.randn_like(action)
            noise = self.mean + self.std * drawn
            noisy_action = action + self.sigma * noise
            action = noisy_action if noisy_action.dtype is action.dtype else noisy_action.to(action.dtype)
        tensordict.set(self.action_key, self._leaf.project(action))
        return tensordict
