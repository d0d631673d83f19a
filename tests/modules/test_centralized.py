"""Networks of agents that see other groups: the numbers of the networks inside, and what is refused."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import MLP, CentralizedNet, MultiAgentMLP
from torch import nn


def test_of_one_group_it_is_a_centralized_network() -> None:
    whole = MultiAgentMLP(3, 2, 4, centralized=True, share_params=False, num_cells=[5])
    apart = MultiAgentMLP(12, 2, 4, centralized=False, share_params=False, num_cells=[5])
    apart.load_state_dict(whole.state_dict())
    net = CentralizedNet(apart, n_agents=4, inputs=["all"])
    x = torch.randn(7, 6, 4, 3)
    torch.testing.assert_close(net(x), whole(x))


def test_each_agent_sees_itself_and_all_the_rest() -> None:
    layers = MLP(2 + 3 * 4 + 5, 1, num_cells=[8])
    net = CentralizedNet(layers, n_agents=2, inputs=["each", "all", "root"])
    own, others, state = torch.randn(6, 2, 2), torch.randn(6, 3, 4), torch.randn(6, 5)
    found = net(own, others, state)
    assert found.shape == (6, 2, 1)
    for agent in range(2):
        one = layers(torch.cat([own[:, agent], others.flatten(-2), state], -1))
        torch.testing.assert_close(found[:, agent], one)


def test_layers_of_all_agents_run_once_where_they_see_the_same() -> None:
    class Counted(nn.Linear):
        rows = 0

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            self.rows += input.shape[:-1].numel()
            return super().forward(input)

    layers = Counted(7, 2)
    found = CentralizedNet(layers, n_agents=3, inputs=["all", "root"])(
        torch.randn(6, 2, 3), torch.randn(6, 1)
    )
    assert layers.rows == 6
    assert found.shape == (6, 3, 2)
    assert torch.equal(found[:, 0], found[:, 2])


def test_outputs_of_several_dimensions_stand_behind_the_agents() -> None:
    """Such as quantiles of the value of each action."""
    layers = MLP(7, (5, 4), num_cells=[8])
    all_observe, state = torch.randn(6, 2, 3), torch.randn(6, 1)
    found = CentralizedNet(layers, n_agents=3, inputs=["all", "root"])(all_observe, state)
    assert found.shape == (6, 3, 5, 4)
    for agent in range(3):
        torch.testing.assert_close(found[:, agent], layers(torch.cat([all_observe.flatten(-2), state], -1)))


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="'each', 'all' and 'root', got"):
        CentralizedNet(nn.Linear(1, 1), n_agents=2, inputs=["every"])  # type: ignore[list-item]
    net = CentralizedNet(nn.Linear(3, 1), n_agents=2, inputs=["each", "root"])
    with pytest.raises(ValueError, match="reads 2 inputs, got 1"):
        net(torch.zeros(2, 1))
    with pytest.raises(ValueError, match=r"2 agents in dimension -2, got shape \(5, 3, 2\)"):
        net(torch.zeros(5, 3, 2), torch.zeros(5, 1))
