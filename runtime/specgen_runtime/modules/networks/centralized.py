"""Networks of agents that see more than each agent observes: all agents of several groups, and what is of no group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from specgen_runtime.modules.networks.multi_agent import MultiAgentNetBase

AgentInput = Literal["each", "all", "root"]
"""How agents see an entry; see `CentralizedNet`."""


class CentralizedNet(nn.Module):
    """A network with an output for each of several agents, from entries that they see in different ways.

    Args:
        net: from the joined inputs of an agent to its output: layers that all agents share, such as an `MLP`, or a network with
            parameters for each, a `MultiAgentMLP` that is not centralized.
        n_agents: number of agents that have an output.
        inputs: of each input, `"each"`: each agent sees its own row of `(*batch, n_agents, size)`; `"all"`: every agent sees all
            rows of `(*batch, rows, size)`, which may be those of another group; `"root"`: every agent sees `(*batch, size)`.

    Where no input is of each agent, and all share the layers, these run once, and all agents have the same output.

    Raises:
        ValueError: there is no input, or one is of no such kind.

    Example:
        >>> net = CentralizedNet(nn.Linear(2 * 4 + 3, 1), n_agents=2, inputs=["all", "root"])
        >>> net(torch.zeros(8, 2, 4), torch.zeros(8, 3)).shape
        torch.Size([8, 2, 1])
    """

    def __init__(self, net: nn.Module, *, n_agents: int, inputs: Sequence[AgentInput]) -> None:
        super().__init__()
        wrong = [kind for kind in inputs if kind not in ("each", "all", "root")]
        if wrong or not inputs:
            raise ValueError(f"inputs must be of 'each', 'all' and 'root', got {list(inputs)}")
        self.net = net
        self.n_agents = n_agents
        self.inputs = tuple(inputs)
        apart = any(isinstance(part, MultiAgentNetBase) for part in net.modules())
        self._alike = "each" not in self.inputs and not apart

    def forward(self, *inputs: Tensor) -> Tensor:
        """The outputs of all agents, `(*batch, n_agents, *size)`.

        Raises:
            ValueError: there are more or fewer inputs than were said, or one has another number of agents.
        """
        if len(inputs) != len(self.inputs):
            raise ValueError(f"CentralizedNet reads {len(self.inputs)} inputs, got {len(inputs)}")
        parts = [
            value.flatten(-2) if kind == "all" else value
            for kind, value in zip(self.inputs, inputs, strict=True)
        ]
        if self._alike:
            joined = torch.cat(parts, -1)
            return self._of_all(self.net(joined), joined.ndim - 1)
        for kind, value in zip(self.inputs, inputs, strict=True):
            if kind == "each" and (value.ndim < 2 or value.shape[-2] != self.n_agents):
                raise ValueError(
                    f"CentralizedNet has {self.n_agents} agents in dimension -2, got shape {tuple(value.shape)}"
                )
        rows = [
            value if kind == "each" else self._of_all(value, value.ndim - 1)
            for kind, value in zip(self.inputs, parts, strict=True)
        ]
        out: Tensor = self.net(torch.cat(rows, -1))
        return out

    def _of_all(self, value: Tensor, batch_dims: int) -> Tensor:
        """`(*batch, *size)` as `(*batch, n_agents, *size)`, the same for each agent."""
        batch, size = value.shape[:batch_dims], value.shape[batch_dims:]
        return value.unsqueeze(batch_dims).expand(*batch, self.n_agents, *size)

    def extra_repr(self) -> str:
        """The agents, and how they see the inputs."""
        return f"n_agents={self.n_agents}, inputs={list(self.inputs)}"
