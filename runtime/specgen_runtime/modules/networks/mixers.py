"""`VDNMixer` and `QMixer`: the value of a team from the values of its agents' actions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from specgen_runtime.params import int_param
from specgen_runtime.typing import DEVICE_TYPING


class Mixer(nn.Module):
    """A function of the values of the actions that agents have chosen, and perhaps of the state of all.

    Args:
        n_agents: how many agents there are.
        needs_state: whether it reads a state.
        state_shape: the shape of that, without batch dimensions.
        device: of the parameters.
    """

    def __init__(
        self,
        n_agents: int,
        needs_state: bool,
        state_shape: Sequence[int] | torch.Size,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        self.n_agents = int_param("n_agents", n_agents, at_least=1)
        self.needs_state = needs_state
        self.state_shape = torch.Size([int_param("state_shape", size, at_least=1) for size in state_shape])
        self.device = device

    def forward(self, *inputs: Tensor) -> Tensor:
        """The value of the team, ``[*batch, 1]``.

        Args:
            *inputs: the values of the agents, ``[*batch, n_agents, 1]``, and if it needs one the state,
                ``[*batch, *state_shape]``.

        Raises:
            TypeError: for what is no tensor.
            ValueError: for another number of inputs, or other shapes.
        """
        name = type(self).__name__
        if len(inputs) != 1 + self.needs_state:
            raise ValueError(
                f"{name} reads the values of the agents{' and a state' * self.needs_state}, got {len(inputs)} inputs"
            )
        for each in inputs:
            if not isinstance(each, Tensor):
                raise TypeError(f"{name} reads tensors, got {each!r}")
        values, state = inputs[0], inputs[1] if self.needs_state else None
        if values.shape[-2:] != (self.n_agents, 1):
            raise ValueError(
                f"{name} reads values of shape [*batch, {self.n_agents}, 1], got {list(values.shape)}"
            )
        batch = values.shape[:-2]
        if state is not None and state.shape != (*batch, *self.state_shape):
            raise ValueError(
                f"{name} reads a state of shape {[*batch, *self.state_shape]}, got {list(state.shape)}"
            )
        mixed = self.mix(values, state)
        if mixed.shape != (*batch, 1):
            raise ValueError(f"{name}.mix gives {[*batch, 1]} of these values, got {list(mixed.shape)}")
        return mixed

    def mix(self, chosen_action_value: Tensor, state: Tensor | None) -> Tensor:
        """The value of the team; a subclass says how.

        Args:
            chosen_action_value: ``[*batch, n_agents, 1]``.
            state: ``[*batch, *state_shape]``; None where it needs none.

        Returns:
            ``[*batch, 1]``.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define mix")


class VDNMixer(Mixer):
    """The sum of the values (Sunehag et al. 2017, arXiv:1706.05296).

    Args:
        n_agents: how many agents there are.
        device: without effect, since it has no parameters.
    """

    def __init__(self, n_agents: int, device: DEVICE_TYPING | None = None) -> None:
        super().__init__(n_agents, False, (), device)

    def mix(self, chosen_action_value: Tensor, state: Tensor | None) -> Tensor:
        """The sum over the agents."""
        return chosen_action_value.sum(-2)


class QMixer(Mixer):
    """A network that grows with the value of each agent, whose weights the state gives (Rashid et al. 2018, arXiv:1803.11485).

    Args:
        state_shape: the shape of the state, without batch dimensions.
        mixing_embed_dim: how many hidden numbers it has.
        n_agents: how many agents there are.
        device: of the parameters.
    """

    def __init__(
        self,
        state_shape: Sequence[int] | torch.Size,
        mixing_embed_dim: int,
        n_agents: int,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__(n_agents, True, state_shape, device)
        self.embed_dim = int_param("mixing_embed_dim", mixing_embed_dim, at_least=1)
        self.state_dim = math.prod(self.state_shape)
        self.hyper_w_1 = nn.Linear(self.state_dim, mixing_embed_dim * n_agents, device=device)
        self.hyper_w_final = nn.Linear(self.state_dim, mixing_embed_dim, device=device)
        self.hyper_b_1 = nn.Linear(self.state_dim, mixing_embed_dim, device=device)
        self.V = nn.Sequential(
            nn.Linear(self.state_dim, mixing_embed_dim, device=device),
            nn.ReLU(),
            nn.Linear(mixing_embed_dim, 1, device=device),
        )

    def mix(self, chosen_action_value: Tensor, state: Tensor | None) -> Tensor:
        """Two layers whose weights are not negative, so that what is better for an agent is not worse for the team."""
        assert state is not None
        state = state.flatten(state.ndim - len(self.state_shape)) if self.state_shape else state.unsqueeze(-1)
        first = self.hyper_w_1(state).abs().unflatten(-1, (self.n_agents, self.embed_dim))
        hidden = functional.elu(
            (chosen_action_value.transpose(-1, -2) @ first).squeeze(-2) + self.hyper_b_1(state)
        )
        last: Tensor = (hidden * self.hyper_w_final(state).abs()).sum(-1, keepdim=True)
        of_state: Tensor = self.V(state)
        return last + of_state
