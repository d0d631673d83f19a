"""Exploration by noise that drifts: an Ornstein-Uhlenbeck process on continuous actions."""

from __future__ import annotations

import math

import numpy as np
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
    episodes_begin,
    explores,
    fall,
)
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

NOISE_KEY = "_ou_prev_noise"
STEPS_KEY = "_ou_steps"


class OrnsteinUhlenbeckProcessModule(ExplorationNumbers, TensorDictModuleBase):  # type: ignore[misc]
    """Adds noise to actions that follows an Ornstein-Uhlenbeck process within each episode ("Continuous control with
    deep reinforcement learning", Lillicrap et al. 2016).

    The noise of a step is `noise + theta (mu - noise) dt + sigma sqrt(dt) N(0, 1)` of that of the step before, which
    begins as `x0` in each episode; epsilon times it is added. Sigma falls from `sigma` to `sigma_min` within
    `n_steps_annealing` steps of an episode. Epsilon falls from `eps_init` to `eps_end` by `step`, which the training
    loop must call; or the loop sets it, as `module.eps = 0.3`.

    Explores when the exploration type is `RANDOM` or not set. The noise and the number of steps of each episode are
    kept beside the action, as `"_ou_prev_noise"` (the shape of the action, less `x0`) and `"_ou_steps"` (int64, the
    shape of the batch); `is_init`, which `InitTracker` writes, says where they begin anew. One normal number is drawn
    for each element of the action.

    Args:
        spec: of the action, with or without batch dimensions, or a composite that holds it.
        eps_init: epsilon at first.
        eps_end: epsilon at last, at most `eps_init`.
        annealing_num_steps: steps from the first to the last.
        theta: how fast the noise returns to `mu`.
        mu: what it returns to.
        sigma: of the normal numbers, at the start of an episode.
        dt: time of a step.
        x0: the noise before the first step of an episode. Defaults to 0.
        sigma_min: sigma at last. None: it stays.
        n_steps_annealing: steps of an episode in which it falls.
        action_key: what is read and written.
        is_init_key: bool, `(*batch, 1)` or `(*batch,)`: whether a step is the first of its episode.
        safe: project actions into the spec, whether anything is explored or not.
        device: of epsilon.
        generator: what it draws from, on the device of the actions. Defaults to torch's. Set `generator` to another after
            a move to another device; the state dict lacks it.

    Raises:
        TypeError: `spec` is not a spec, or `generator` no generator.
        ValueError: `eps_end` is greater than `eps_init`, or a number of steps is not positive.
        KeyError: a composite spec does not hold `action_key`.
    """

    eps_init: Tensor
    eps_end: Tensor
    eps: Tensor
    x0: Tensor

    def __init__(
        self,
        spec: TensorSpec,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        theta: float = 0.15,
        mu: float = 0.0,
        sigma: float = 0.2,
        dt: float = 1e-2,
        x0: Tensor | np.ndarray[tuple[int, ...], np.dtype[np.floating]] | float | None = None,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        *,
        action_key: NestedKey = "action",
        is_init_key: NestedKey = "is_init",
        safe: bool = True,
        device: DEVICE_TYPING | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        spec = own_spec(spec)
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"spec must be the spec of the action, got {type(spec).__name__}")
        if eps_end > eps_init:
            raise ValueError(f"epsilon must fall: got eps_init={eps_init}, eps_end={eps_end}")
        if annealing_num_steps < 1 or n_steps_annealing < 1:
            raise ValueError(
                f"numbers of steps must be positive, got annealing_num_steps={annealing_num_steps},"
                f" n_steps_annealing={n_steps_annealing}"
            )
        self.action_key = action_key
        self.is_init_key = is_init_key
        self.in_keys = [action_key]
        # those of groups of agents stand with their actions
        group = action_key[:-1] if isinstance(action_key, tuple) else ()
        self._noise_key: NestedKey = (*group, NOISE_KEY) if group else NOISE_KEY
        self._steps_key: NestedKey = (*group, STEPS_KEY) if group else STEPS_KEY
        self.out_keys = [action_key, self._noise_key, self._steps_key]
        self.annealing_num_steps = annealing_num_steps
        self.theta, self.mu, self.sigma, self.dt = theta, mu, sigma, dt
        self.sigma_min = sigma if sigma_min is None else sigma_min
        self.n_steps_annealing = n_steps_annealing
        self.safe = safe
        for name, number in (("eps_init", eps_init), ("eps_end", eps_end), ("eps", eps_init)):
            self.register_buffer(name, torch.tensor(float(number), device=device))
        self.register_buffer(
            "x0", torch.as_tensor(0.0 if x0 is None else x0, device=device), persistent=False
        )
        self.generator = generator
        self._spec = spec
        self._leaf = action_leaf(spec, action_key)

    @property
    def spec(self) -> TensorSpec:
        """The spec, as it was given."""
        return self._spec

    def step(self, frames: int = 1) -> None:
        """Lower epsilon by `frames` steps of the annealing; at the end of it, nothing changes any more.

        Raises:
            ValueError: `frames` is negative.
        """
        fall(self.eps, self.eps_init, self.eps_end, self.annealing_num_steps, frames)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Go one step of the process, and add it to the actions, in place.

        Raises:
            KeyError: the action is missing.
            ValueError: the shape of the action does not end with that of the spec, or `is_init` that of the batch.
            RuntimeError: the generator is on another device than the action.
        """
        explored = explores()
        if not (explored or self.safe):
            return tensordict
        action = entry(tensordict, self.action_key, owner="OrnsteinUhlenbeckProcessModule", role="the action")
        if explored:
            before, steps = self._before(tensordict, action)
            sigma = (self.sigma - (self.sigma - self.sigma_min) / self.n_steps_annealing * steps).clamp_min(
                self.sigma_min
            )
            with draws_for(self.generator, action.device, "OrnsteinUhlenbeckProcessModule"):
                drawn = torch.randn_like(before)
            noise = (
                before
                + self.theta * (self.mu - before) * self.dt
                + expand_as_right(sigma, before) * math.sqrt(self.dt) * drawn
            )
            tensordict.set(self._noise_key, (noise - self.x0).to(action.dtype))
            tensordict.set(self._steps_key, steps + 1)
            action = (action + self.eps * noise).to(action.dtype)
        if self.safe:
            action = self._leaf.project(action)
        tensordict.set(self.action_key, action)
        return tensordict

    def _before(self, tensordict: TensorDictBase, action: Tensor) -> tuple[Tensor, Tensor]:
        """The noise of the step before, with the shape of the action, and the steps of each episode so far."""
        batch = action_batch(tensordict, self.action_key)
        steps = tensordict.get(self._steps_key, None)
        if steps is None:
            noise = torch.zeros_like(action)
            steps = torch.zeros(batch, dtype=torch.int64, device=action.device)
        else:
            noise = entry(
                tensordict, self._noise_key, owner="OrnsteinUhlenbeckProcessModule", role="the noise before"
            )
        begins = episodes_begin(tensordict, self.is_init_key, batch, "OrnsteinUhlenbeckProcessModule")
        if begins is not None:
            noise = noise.masked_fill(expand_as_right(begins, noise), 0.0)
            steps = steps.masked_fill(begins, 0)
        return noise + self.x0, steps
