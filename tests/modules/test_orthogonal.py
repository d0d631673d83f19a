"""First weights that are orthogonal."""

from __future__ import annotations

import math

import pytest
import torch
from specgen_runtime.modules import MLP, ConvNet, MultiAgentMLP, OneHot, orthogonal
from torch import nn


def test_columns_or_rows_of_each_layer_are_orthogonal() -> None:
    network = MLP(in_features=4, out_features=2, num_cells=[8, 6])
    assert orthogonal(network, gain=2.0, head_gain=0.1) is network
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for layer, gain in zip(layers, (2.0, 2.0, 0.1), strict=True):
        weight = layer.weight.detach()
        short = weight.T if weight.shape[0] > weight.shape[1] else weight
        torch.testing.assert_close(short @ short.T, gain**2 * torch.eye(short.shape[0]), atol=1e-5, rtol=1e-5)
        assert not layer.bias.any()


def test_the_weights_are_those_of_torch() -> None:
    layer, expected = nn.Linear(3, 5), torch.empty(5, 3)
    torch.manual_seed(0)
    orthogonal(layer, head_gain=math.sqrt(2))
    torch.manual_seed(0)
    nn.init.orthogonal_(expected, math.sqrt(2))
    assert torch.equal(layer.weight, expected)


def test_convolutions_and_agents_with_layers_of_their_own() -> None:
    images = orthogonal(ConvNet(in_features=2, num_cells=[3, 4]), gain=2.0, head_gain=1.0)
    agents = orthogonal(
        MultiAgentMLP(3, 2, 4, centralized=False, share_params=False, num_cells=[8]), gain=2.0
    )
    layers = [module for module in (*images, *agents.modules()) if isinstance(module, nn.Conv2d | nn.Linear)]
    for layer, gain in zip(layers, (2.0, 1.0, 2.0, 1.0), strict=True):
        weights = layer.weight.detach()
        each = [weights.flatten(1)] if weights.ndim == 4 else list(weights)
        assert len(each) == (1 if weights.ndim == 4 else 4)
        for weight in each:
            short = weight.T if weight.shape[0] > weight.shape[1] else weight
            torch.testing.assert_close(short @ short.T, gain**2 * torch.eye(len(short)), atol=1e-5, rtol=1e-5)
        assert not layer.bias.any()


@pytest.mark.parametrize("given", [{"gain": 0.0}, {"head_gain": -1.0}, {"gain": math.nan}])
def test_gains_are_positive(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(given))} must be positive"):
        orthogonal(nn.Linear(2, 2), **given)


def test_there_are_layers() -> None:
    with pytest.raises(ValueError, match="Tanh has no linear layer"):
        orthogonal(nn.Tanh())


def test_indices_one_hot() -> None:
    index = torch.tensor([[0, 2], [1, 1]])
    assert torch.equal(OneHot(3)(index), nn.functional.one_hot(index, 3).float())
    assert torch.equal(torch.vmap(OneHot(3))(index), OneHot(3)(index))
    with pytest.raises(TypeError, match=r"OneHot takes integers, got torch.float32"):
        OneHot(3)(torch.zeros(2))
    with pytest.raises(RuntimeError):
        OneHot(3)(torch.tensor([3]))
    with pytest.raises(ValueError, match="at least 1"):
        OneHot(0)
