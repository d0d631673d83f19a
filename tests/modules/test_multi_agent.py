"""Networks of several agents: TorchRL's parameters, outputs and gradients, and each agent's network alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import MLP, MultiAgentConvNet, MultiAgentMLP, MultiAgentNetBase, NoisyLinear
from specgen_runtime.modules.networks.stacked import unstack_networks
from torch import Tensor, nn

BOTH = pytest.mark.parametrize("centralized", [True, False], ids=["centralized", "alone"])
SHARED = pytest.mark.parametrize("share_params", [True, False], ids=["shared", "own"])
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"num_cells": [5, 6]},
    "one layer": {},
    "relu": {"num_cells": [5], "activation_class": nn.ReLU},
    "softmax": {"num_cells": [5], "activation_class": nn.Softmax, "activation_kwargs": {"dim": -1}},
    "norm": {"num_cells": [5], "norm_class": nn.LayerNorm, "norm_kwargs": {"normalized_shape": 5}},
    "no bias": {"num_cells": [5], "bias_last_layer": False},
    "one bias": {"num_cells": [5], "single_bias_last_layer": True},
    "activated": {"num_cells": [5], "activate_last_layer": True},
}


def pair(kind: type[MultiAgentNetBase], *args: Any, **kwargs: Any) -> list[Any]:
    made = []
    for cls in (kind, getattr(pytest.importorskip("torchrl.modules"), kind.__name__)):
        torch.manual_seed(0)
        made.append(cls(*args, **kwargs))
    return made


def same(mine: nn.Module, theirs: nn.Module, x: Tensor) -> None:
    made = []
    for net in (mine, theirs):
        torch.manual_seed(1)
        out = net(x)
        out.square().sum().backward()
        made.append((out, {name: p.grad for name, p in net.named_parameters()}))
    torch.testing.assert_close(made[0][0], made[1][0], rtol=1e-5, atol=1e-6)
    assert set(made[0][1]) == set(made[1][1])
    for name, grad in made[0][1].items():
        torch.testing.assert_close(grad, made[1][1][name], rtol=1e-4, atol=1e-5)


@pytest.mark.peers
@BOTH
@SHARED
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("batch", [(), (7,), (2, 3)], ids=str)
def test_mlp_is_torchrls(centralized: bool, share_params: bool, option: str, batch: tuple[int, ...]) -> None:
    nets = pair(MultiAgentMLP, 3, 2, 4, centralized=centralized, share_params=share_params, **OPTIONS[option])
    same(*nets, torch.randn(*batch, 4, 3))


@pytest.mark.peers
@BOTH
@SHARED
@pytest.mark.parametrize("batch", [(7,), (2, 3)], ids=str)
def test_convnet_is_torchrls(centralized: bool, share_params: bool, batch: tuple[int, ...]) -> None:
    nets = pair(
        MultiAgentConvNet, 3, centralized, share_params, in_features=2, num_cells=[4, 5], kernel_sizes=3
    )
    same(*nets, torch.randn(*batch, 3, 2, 9, 9))


@pytest.mark.peers
@BOTH
@SHARED
def test_lazy_networks_have_the_shapes_of_torchrls(centralized: bool, share_params: bool) -> None:
    for kind, args, x in (
        (MultiAgentMLP, (None, 2, 4), torch.randn(5, 4, 3)),
        (MultiAgentConvNet, (4,), torch.randn(5, 4, 2, 30, 30)),
    ):
        mine, theirs = pair(kind, *args, centralized=centralized, share_params=share_params)
        assert mine(x).shape == theirs(x).shape
        shapes = [{name: p.shape for name, p in net.named_parameters()} for net in (mine, theirs)]
        assert shapes[0] == shapes[1]
        if not share_params:
            first = next(mine.parameters())
            assert not torch.equal(first[0], first[1])


@BOTH
@pytest.mark.parametrize("option", [*OPTIONS, "noisy"])
def test_each_agent_has_its_own_network(centralized: bool, option: str) -> None:
    options = {**OPTIONS, "noisy": {"layer_class": NoisyLinear}}[option]
    net = MultiAgentMLP(3, 2, 4, centralized=centralized, share_params=False, **options)
    x = torch.randn(7, 4, 3)
    alone = unstack_networks(net.params, 4)
    inputs = [x.flatten(1)] * 4 if centralized else list(x.unbind(1))
    wanted = torch.stack([one(value) for one, value in zip(alone, inputs, strict=True)], 1)
    torch.testing.assert_close(net(x), wanted)


@BOTH
@SHARED
def test_outputs_of_any_shape(centralized: bool, share_params: bool) -> None:
    net = MultiAgentMLP(3, (2, 5), 4, centralized=centralized, share_params=share_params, num_cells=[6])
    assert net(torch.randn(7, 4, 3)).shape == (7, 4, 2, 5)
    assert net(torch.randn(0, 4, 3)).shape == (0, 4, 2, 5)
    several = net(torch.ones(7, 4, 1), torch.ones(7, 4, 2))
    torch.testing.assert_close(several, net(torch.ones(7, 4, 3)))


def test_agents_draw_their_own_numbers() -> None:
    options: dict[str, Any] = {"centralized": True, "share_params": False, "dropout": 0.5, "num_cells": [64]}
    x = torch.randn(4, 3)
    for randomness, differ in (("different", True), ("same", False)):
        net = MultiAgentMLP(3, 2, 4, vmap_randomness=randomness, **options)
        for p in net.parameters():
            p.data.copy_(p.data[:1].expand_as(p))
        out = net(x)
        assert torch.equal(out[0], out[1]) != differ


@pytest.mark.peers
@SHARED
def test_state_dicts_of_torchrl_load(share_params: bool) -> None:
    mine, theirs = pair(MultiAgentMLP, 3, 2, 4, centralized=False, share_params=share_params, num_cells=[5])
    for p in theirs.parameters():
        nn.init.normal_(p)
    mine.load_state_dict(theirs.state_dict())
    x = torch.randn(7, 4, 3)
    torch.testing.assert_close(mine(x), theirs(x))


@SHARED
def test_initialization_in_place(share_params: bool) -> None:
    net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=share_params, num_cells=[5])
    x = torch.randn(7, 4, 3)
    before = net(x)
    other = net.get_stateful_net()
    assert other is not net.params
    assert all(a is b for a, b in zip(other.parameters(), net.parameters(), strict=True))
    for p in other.parameters():
        nn.init.ones_(p)
    assert not torch.allclose(net(x), before)
    assert all((p == 1).all() for p in net.parameters())
    assert net.get_stateful_net(copy=False) is net.params
    fresh = MultiAgentMLP(3, 2, 4, centralized=False, share_params=share_params, num_cells=[5])
    net.from_stateful_net(fresh.get_stateful_net())
    torch.testing.assert_close(net(x), fresh(x))
    with pytest.raises(ValueError, match="only in the network that was given"):
        net.from_stateful_net(MLP(3, 2, num_cells=[5, 5]))


@SHARED
def test_parameters_drawn_again(share_params: bool) -> None:
    net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=share_params, num_cells=[500])
    parameters = dict(net.named_parameters())
    torch.manual_seed(5)
    net.reset_parameters()
    assert all(p is parameters[name] for name, p in net.named_parameters())
    weight = parameters["params.0.weight"]
    assert weight.abs().max().item() == pytest.approx(
        3**-0.5, rel=0.02
    )  # as one network, not as a stack of them
    if not share_params:
        assert not torch.equal(weight[0], weight[1])


@BOTH
def test_optimizers_may_have_lazy_parameters(centralized: bool) -> None:
    net = MultiAgentMLP(None, 2, 4, centralized=centralized, share_params=False, num_cells=[5]).double()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x = torch.randn(7, 4, 3, dtype=torch.float64)
    before = net(x).detach()
    net(x).square().sum().backward()
    optimizer.step()
    assert not torch.allclose(net(x), before)
    assert all(a is b for a, b in zip(net.parameters(), optimizer.param_groups[0]["params"], strict=True))
    assert all(p.dtype == torch.float64 and p.grad is not None for p in net.parameters())
    assert len(list(net.parameters())) == 4


class Embedding(MultiAgentNetBase):
    def __init__(self, n_agents: int, **options: Any) -> None:
        super().__init__(n_agents=n_agents, **options)

    def _build_single_net(self, **options: Any) -> nn.Module:
        return nn.Embedding(10, 3)

    def _pre_forward_check(self, inputs: Tensor) -> Tensor:
        return inputs


@SHARED
@pytest.mark.parametrize("agent_dim", [-1, 1])
def test_networks_of_ones_own(share_params: bool, agent_dim: int) -> None:
    net = Embedding(4, centralized=False, share_params=share_params, agent_dim=agent_dim)
    classes = torch.randint(10, (7, 4))
    out = net(classes)
    assert out.shape == (7, 4, 3)
    weight = net.params.weight if not share_params else net.params.weight.expand(4, 10, 3)  # type: ignore[operator]
    wanted = torch.stack([weight[i][classes[:, i]] for i in range(4)], 1)
    torch.testing.assert_close(out, wanted)


@BOTH
@SHARED
def test_compiles_whole(centralized: bool, share_params: bool) -> None:
    net = MultiAgentMLP(3, 2, 4, centralized=centralized, share_params=share_params, num_cells=[5])
    x = torch.randn(7, 4, 3)
    torch.testing.assert_close(torch.compile(net, fullgraph=True, backend="eager")(x), net(x))


def test_refuses() -> None:
    net = MultiAgentMLP(3, 2, 4, centralized=False, share_params=False)
    with pytest.raises(ValueError, match=r"reads 4 agents in dimension -2, got shape \(7, 5, 3\)"):
        net(torch.zeros(7, 5, 3))
    images = MultiAgentConvNet(4, False, False)
    with pytest.raises(ValueError, match=r"reads 4 agents in dimension -4, got shape \(4, 3, 3\)"):
        images(torch.zeros(4, 3, 3))
    with pytest.raises(TypeError, match="share_params"):
        MultiAgentMLP(3, 2, 4, centralized=False)  # type: ignore[call-arg]
