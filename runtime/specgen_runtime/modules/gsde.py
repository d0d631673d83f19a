"""Exploration by noise that depends on the state (gSDE)."""

from __future__ import annotations

import math
from typing import Any

import torch
from tensordict.nn import inv_softplus
from torch import Tensor, nn
from torch.distributions import Transform
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from specgen_runtime.modules.exploration import ExplorationNumbers, draws_for, explores
from specgen_runtime.typing import DEVICE_TYPING


class gSDEModule(ExplorationNumbers):  # noqa: N801
    """Adds noise that is linear in the state to the mean of an action ("Smooth Exploration for Robotic Reinforcement
    Learning", Raffin et al. 2021): within an episode, equal states give equal actions.

    The noise is `(sigma * epsilon) @ state`, with a matrix epsilon of normal numbers, shape `(*batch, action_dim,
    state_dim)`, which the transform `GSDENoise` draws at each reset. In a `TensorDictModule` the module reads the mean,
    the state and epsilon, and writes the mean, the standard deviation of the noise, the action and epsilon, so that the
    next step has the same.

    Args:
        action_dim: size of the action.
        state_dim: size of the state.
        sigma_init: sigma at first. Defaults to `sqrt((1 - scale_min) / state_dim)`.
        scale_min: least sigma.
        scale_max: greatest sigma.
        learn_sigma: sigma is the softplus of a parameter, `log_sigma`; False: it stays what it is at first.
        transform: of the noisy action, such as a tanh. None: none.
        device: of sigma.
        generator: what epsilon is drawn from, where the module draws it; on its device. Defaults to torch's. Set `generator`
            to another after a move to another device; the state dict lacks it.
    """

    sigma_init: Tensor
    log_sigma: Tensor
    _sigma: Tensor

    def __init__(
        self,
        action_dim: int,
        state_dim: int,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: Transform | None = None,
        device: DEVICE_TYPING | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.action_dim = action_dim
        self.state_dim = state_dim
        self.scale_min = scale_min
        self.scale_max = scale_max
        self.learn_sigma = learn_sigma
        self.transform = transform
        self.generator = generator
        if sigma_init is None:
            sigma_init = math.sqrt((1.0 - scale_min) / max(state_dim, 1))
        sigma = torch.full((action_dim, state_dim), float(sigma_init), device=device)
        self.register_buffer("sigma_init", torch.tensor(float(sigma_init), device=device))
        if learn_sigma:
            self.log_sigma = nn.Parameter(inv_softplus(sigma))
        else:
            self.register_buffer("_sigma", sigma)

    @property
    def sigma(self) -> Tensor:
        """The factors of the noise, `(action_dim, state_dim)`, at least `scale_min`."""
        sigma = nn.functional.softplus(self.log_sigma) if self.learn_sigma else self._sigma
        return sigma.clamp_min(self.scale_min)

    def noise(self, state: Tensor, epsilon: Tensor) -> Tensor:
        """The noise `(*batch, action_dim)` of epsilon, `(*batch, action_dim, state_dim)`, in states `(*batch, state_dim)`."""
        sigma = self.sigma.clamp_max(self.scale_max)
        return ((sigma * epsilon) @ state.unsqueeze(-1)).squeeze(-1)

    def deviation(self, state: Tensor) -> Tensor:
        """The standard deviation of the noise over all epsilon, `(*batch, action_dim)`, in states `(*batch, state_dim)`."""
        sigma = self.sigma.clamp_max(self.scale_max)
        return (state.square() @ sigma.square().mT).clamp_min(1e-5).sqrt()

    def forward(
        self,
        mu: Tensor,
        state: Tensor,
        _eps_gSDE: Tensor | None = None,  # noqa: N803
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The mean, the standard deviation of the noise, the action, and epsilon.

        Explores when the exploration type is `RANDOM` or not set; otherwise the action is the mean.

        Args:
            mu: the mean of the action, `(*batch, action_dim)`.
            state: `(*batch, state_dim)`.
            _eps_gSDE: epsilon, `(*batch, action_dim, state_dim)`. None, or zeros with one element for each of the batch:
                it is drawn, where the module explores.

        Returns:
            The mean and the standard deviation, `(*batch, action_dim)`; the action, the same shape; epsilon.

        Raises:
            ValueError: the batches of the three differ.
            RuntimeError: the generator is on another device than sigma.
        """
        batch = state.shape[:-1]
        if mu.shape[:-1] != batch:
            raise ValueError(
                f"mean and state must have the same batch, got {tuple(mu.shape)}, {tuple(state.shape)}"
            )
        if _eps_gSDE is not None and _eps_gSDE.shape[: len(batch)] != batch:
            raise ValueError(
                f"noise and state must have the same batch, got {tuple(_eps_gSDE.shape)}, {tuple(state.shape)}"
            )
        sigma = self.sigma
        epsilon = _eps_gSDE
        if epsilon is None or (epsilon.numel() == batch.numel() and not bool(epsilon.any())):
            # The noise of an episode is drawn even if its first step does not explore: later ones may.
            draw = torch.randn if explores() or epsilon is not None else torch.zeros
            with draws_for(self.generator, sigma.device, type(self).__name__):
                epsilon = draw((*batch, *sigma.shape), device=sigma.device, dtype=sigma.dtype)
        action = mu
        if explores():
            action = mu + self.noise(state, epsilon)
        scale = self.deviation(state)
        if self.transform is not None:
            action = self.transform(action)
        return mu, scale, action, epsilon


class LazygSDEModule(LazyModuleMixin, gSDEModule):
    """A `gSDEModule` whose sizes are those of its first call, and whose sigma is scaled to its states.

    Sigma is such that the noise for the states of the first call has the standard deviation `sigma_init`, or 1: each
    of its columns is divided by the root of the mean square of that element of the states.

    Args:
        sigma_init: the standard deviation of the noise at first. Defaults to 1.
        scale_min: least sigma.
        scale_max: greatest sigma.
        learn_sigma: sigma is the softplus of a parameter, `log_sigma`; False: it stays what it is at first.
        transform: of the noisy action, such as a tanh. None: none.
        device: of sigma.
        generator: what epsilon is drawn from, where the module draws it; on its device. Defaults to torch's. Set `generator`
            to another after a move to another device; the state dict lacks it.
    """

    cls_to_become = gSDEModule

    def __init__(
        self,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: Transform | None = None,
        device: DEVICE_TYPING | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(0, 0, 0.0, scale_min, scale_max, learn_sigma, transform, device, generator=generator)
        self._deviation = sigma_init
        like: dict[str, Any] = {"device": device, "dtype": torch.get_default_dtype()}
        self.sigma_init = UninitializedBuffer(**like)
        if learn_sigma:
            self.log_sigma = UninitializedParameter(**like)
        else:
            self._sigma = UninitializedBuffer(**like)

    def initialize_parameters(self, mu: Tensor, state: Tensor, _eps_gSDE: Tensor | None = None) -> None:  # noqa: N803
        """Make sigma for means and states of these shapes."""
        if not self.has_uninitialized_params():
            return
        self.action_dim, self.state_dim = mu.shape[-1], state.shape[-1]
        with torch.no_grad():
            if state.ndim == 1:
                inverse = state.new_ones(1)
            else:
                inverse = state.reshape(-1, self.state_dim).square().mean(0).reciprocal()
            if self.learn_sigma and self._deviation is None:
                inverse = inverse.clamp_min(self.scale_min)
            sigma = (inverse / self.state_dim).sqrt() * (1.0 if self._deviation is None else self._deviation)
            made: Any = self.sigma_init
            made.materialize(sigma.shape)
            made.copy_(sigma)
            made = self.log_sigma if self.learn_sigma else self._sigma
            made.materialize((self.action_dim, self.state_dim))
            made.copy_(inv_softplus(sigma) if self.learn_sigma else sigma)
