"""Feed-forward networks: same seeds give TorchRL's parameters, outputs and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.envs import ExplorationType, set_exploration_type
from specgen_runtime.modules import (
    MLP,
    Conv3dNet,
    ConvNet,
    DuelingCnnDQNet,
    DuelingMlpDQNet,
    NoisyLinear,
    SquashDims,
    reset_noise,
)
from torch import Tensor, nn

MLPS: dict[str, dict[str, Any]] = {
    "one layer": {"in_features": 3, "out_features": 4},
    "depth 0": {"in_features": 3, "out_features": 4, "depth": 0},
    "depth alone": {"in_features": 3, "out_features": 4, "depth": 2},
    "one size": {"in_features": 3, "out_features": 4, "depth": 2, "num_cells": 7},
    "sizes": {"in_features": 3, "out_features": 4, "num_cells": [7, 6]},
    "lazy": {"out_features": 4, "num_cells": [7]},
    "shape": {"in_features": 3, "out_features": (2, 3), "num_cells": [7]},
    "torch.Size": {"in_features": 3, "out_features": torch.Size([2, 3]), "num_cells": (7,)},
    "activation": {
        "in_features": 3,
        "out_features": 4,
        "num_cells": [7],
        "activation_class": nn.ELU,
        "activation_kwargs": {"alpha": 0.3},
    },
    "activations": {
        "in_features": 3,
        "out_features": 4,
        "num_cells": [7, 5],
        "activation_class": nn.ELU,
        "activation_kwargs": [{"alpha": 0.3}, {"alpha": 0.7}],
    },
    "norms": {
        "in_features": 3,
        "out_features": 4,
        "num_cells": [7, 5],
        "norm_class": nn.LayerNorm,
        "norm_kwargs": [{"normalized_shape": 7}, {"normalized_shape": 5}],
    },
    "no last bias": {"in_features": 3, "out_features": 4, "num_cells": [7], "bias_last_layer": False},
    "one last bias": {"in_features": 3, "out_features": 4, "num_cells": [7], "single_bias_last_layer": True},
    "layer kwargs": {"in_features": 3, "out_features": 4, "num_cells": [7], "layer_kwargs": {"bias": False}},
    "each layer's kwargs": {
        "in_features": 3,
        "out_features": 4,
        "num_cells": [7],
        "layer_kwargs": [{"bias": False}, {"bias": True}],
    },
    "activated": {"in_features": 3, "out_features": 4, "num_cells": [7], "activate_last_layer": True},
    "dropout": {"in_features": 3, "out_features": 4, "num_cells": [7], "dropout": 0.4},
    "device": {"in_features": 3, "out_features": 4, "num_cells": [7], "device": "cpu"},
}
CONVS: dict[str, dict[str, Any]] = {
    "default": {"in_features": 2},
    "lazy": {"num_cells": [4, 5]},
    "depth": {"in_features": 2, "depth": 2, "num_cells": 4},
    "kernels": {"in_features": 2, "num_cells": [4, 5], "kernel_sizes": [3, (2, 3)], "strides": [2, 1]},
    "paddings": {"in_features": 2, "num_cells": [4, 5], "paddings": [1, 0], "strides": [1, (2, 1)]},
    "activation": {
        "in_features": 2,
        "num_cells": [4],
        "activation_class": nn.ELU,
        "activation_kwargs": {"alpha": 0.3},
    },
    "norm": {
        "in_features": 2,
        "num_cells": [4, 5],
        "norm_class": nn.BatchNorm2d,
        "norm_kwargs": [{"num_features": 4}, {"num_features": 5}],
    },
    "no aggregator": {"in_features": 2, "num_cells": [4], "aggregator_class": None},
    "aggregator": {
        "in_features": 2,
        "num_cells": [4],
        "aggregator_class": SquashDims,
        "aggregator_kwargs": {"ndims_in": 2},
    },
    "squeezed": {
        "in_features": 2,
        "num_cells": [4],
        "kernel_sizes": 9,
        "aggregator_class": None,
        "squeeze_output": True,
    },
}


def same_results(mine: nn.Module, theirs: nn.Module, *inputs: Tensor, seed: int = 5) -> None:
    """Parameters, outputs and gradients agree; parameters of lazy modules are made by the first call."""
    made = []
    for module in (mine, theirs):
        torch.manual_seed(seed)
        out = module(*inputs)
        out.square().sum().backward()
        made.append(out)
    torch.testing.assert_close(made[0], made[1], rtol=0, atol=0)
    ours, others = dict(mine.named_parameters()), dict(theirs.named_parameters())
    assert list(ours) == list(others)
    for name, value in ours.items():
        torch.testing.assert_close(value, others[name], rtol=0, atol=0)
        torch.testing.assert_close(value.grad, others[name].grad, rtol=0, atol=0)


def pair(name: str, mine: type[nn.Module], **kwargs: Any) -> tuple[nn.Module, nn.Module]:
    """Our module and TorchRL's of the same seed."""
    pytest.importorskip("torchrl")
    from torchrl.modules.models import models

    made = []
    for kind in (mine, getattr(models, name)):
        torch.manual_seed(1)
        made.append(kind(**kwargs))
    return made[0], made[1]


@pytest.mark.peers
@pytest.mark.parametrize("option", MLPS)
def test_mlp_is_torchrls(option: str) -> None:
    kwargs = dict(MLPS[option])
    same_results(*pair("MLP", MLP, **kwargs), torch.randn(6, 5, 3))


@pytest.mark.peers
@pytest.mark.parametrize("option", CONVS)
@pytest.mark.parametrize("batch", [(3,), (2, 3)], ids=str)
def test_convnet_is_torchrls(option: str, batch: tuple[int, ...]) -> None:
    same_results(*pair("ConvNet", ConvNet, **CONVS[option]), torch.randn(*batch, 2, 9, 9))


@pytest.mark.peers
@pytest.mark.parametrize(
    "kwargs",
    [
        {"in_features": 2},
        {"num_cells": [4], "strides": [2]},
        {"in_features": 2, "depth": 2},
        {
            "in_features": 2,
            "num_cells": [3],
            "kernel_sizes": 7,
            "aggregator_class": None,
            "squeeze_output": True,
        },
    ],
    ids=["default", "lazy", "depth", "squeezed"],
)
def test_conv3d_is_torchrls(kwargs: dict[str, Any]) -> None:
    same_results(*pair("Conv3dNet", Conv3dNet, **kwargs), torch.randn(2, 3, 2, 7, 7, 7))


@pytest.mark.peers
@pytest.mark.parametrize(
    "kwargs",
    [
        {"out_features": 4},
        {"out_features": 4, "mlp_kwargs_feature": {"in_features": 3, "num_cells": [5], "out_features": 6}},
        {"out_features": 4, "mlp_kwargs_output": {"num_cells": 5, "activation_class": nn.ReLU}},
    ],
    ids=["default", "features", "heads"],
)
def test_dueling_mlp_is_torchrls(kwargs: dict[str, Any]) -> None:
    same_results(*pair("DuelingMlpDQNet", DuelingMlpDQNet, **kwargs), torch.randn(6, 3))


@pytest.mark.peers
@pytest.mark.parametrize(
    "kwargs",
    [
        {"out_features": 4, "cnn_kwargs": {"in_features": 2}},
        {"out_features": 4, "mlp_kwargs": {"num_cells": 5}},
    ],
    ids=["images", "heads"],
)
def test_dueling_cnn_is_torchrls(kwargs: dict[str, Any]) -> None:
    same_results(*pair("DuelingCnnDQNet", DuelingCnnDQNet, **kwargs), torch.randn(2, 2, 40, 40))


@pytest.mark.peers
def test_dueling_over_several_dimensions_of_actions() -> None:
    mine, theirs = pair("DuelingMlpDQNet", DuelingMlpDQNet, out_features=(3, 2))
    same_results(mine, theirs, torch.randn(1, 5))  # one row is all that TorchRL can do
    x = torch.randn(4, 5)
    rows = torch.cat([mine(row) for row in x.split(1)])
    torch.testing.assert_close(mine(x), rows)
    with pytest.raises(RuntimeError, match="must match the size"):
        theirs(x)


@pytest.mark.peers
def test_the_last_convolution_can_lack_a_bias() -> None:
    mine, theirs = pair("ConvNet", ConvNet, in_features=2, num_cells=[4, 5], bias_last_layer=False)
    assert (mine[2].bias is None, theirs[2].bias is None) == (True, False)  # type: ignore[index]


def test_depth_of_convolutions() -> None:
    assert ConvNet(in_features=2).num_cells == [32, 32, 32]
    assert ConvNet(in_features=2, depth=2).num_cells == [32, 32]
    assert ConvNet(in_features=2, strides=[1, 2]).num_cells == [32, 32]
    assert ConvNet(num_cells=4, kernel_sizes=[3, 2, 1]).depth == 3


def test_several_inputs_are_concatenated() -> None:
    net = MLP(in_features=5, out_features=1, num_cells=[4])
    state, action = torch.randn(6, 3), torch.randn(6, 2)
    assert torch.equal(net(state, action), net(torch.cat([state, action], -1)))


def test_functions_as_layers() -> None:
    net = MLP(in_features=3, out_features=2, num_cells=[4], activation_class=lambda: torch.sin)
    x = torch.randn(5, 3)
    assert torch.equal(net(x), net[2](net[0](x).sin()))
    assert "sin" in repr(net)


def test_atari_network() -> None:
    pytest.importorskip("torchrl")
    from torchrl.modules import ConvNet as Theirs

    torch.manual_seed(0)
    mine = ConvNet.default_atari_dqn(4)
    torch.manual_seed(0)
    theirs = Theirs.default_atari_dqn(4)
    same_results(mine, theirs, torch.randn(2, 3, 84, 84))


def test_images_without_batch() -> None:
    net = ConvNet(in_features=2, num_cells=[4])
    x = torch.randn(2, 5, 5)
    torch.testing.assert_close(net(x), net(x.unsqueeze(0))[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(in_features=3), "needs out_features"),
        (lambda: MLP(3, 2, num_cells=4), "depth must be given if none of num_cells is a sequence"),
        (lambda: MLP(3, 2, depth=3, num_cells=[4]), "ambiguous: 3 by depth, 1 by num_cells"),
        (
            lambda: MLP(3, 2, num_cells=[4, 4], activation_kwargs=[{}]),
            "activation_kwargs has 1 mappings, for 2 layers",
        ),
        (
            lambda: MLP(3, 2, single_bias_last_layer=True, layer_class=NoisyLinear),
            "single_bias_last_layer=False",
        ),
        (lambda: ConvNet(depth=0, num_cells=[]), "at least one convolution"),
        (lambda: ConvNet(num_cells=[4, 5], strides=[1]), "2 by num_cells, 1 by strides"),
        (lambda: ConvNet(num_cells=[4])(torch.zeros(5, 5)), r"got shape \(5, 5\)"),
        (lambda: SquashDims(2)(torch.zeros(3)), None),
    ],
)
def test_refuses(make: Any, message: str | None) -> None:
    with pytest.raises((ValueError, IndexError), match=message):
        make()
    with pytest.raises(TypeError, match="no lazy variant"):
        MLP(out_features=2, layer_class=nn.Bilinear)


def test_a_dimension_that_can_not_be_squeezed() -> None:
    net = ConvNet(in_features=2, num_cells=[4], aggregator_class=None, squeeze_output=True)
    with pytest.raises(ValueError, match=r"must have size 1 to be removed, got shape \(3, 4, 3, 3\)"):
        net(torch.zeros(3, 2, 5, 5))


@pytest.mark.peers
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lazy", [True, False])
@pytest.mark.parametrize("noisy", [True, False])
def test_noisy_layers_are_torchrls(bias: bool, lazy: bool, noisy: bool) -> None:
    modules = pytest.importorskip("torchrl.modules")
    x = torch.randn(6, 3)
    nets = []
    for kind, layer in ((MLP, NoisyLinear), (modules.MLP, modules.NoisyLinear)):
        torch.manual_seed(1)
        options = {"bias": bias, "std_init": 0.3}
        size = None if lazy else 3
        net = kind(size, 2, num_cells=[4], layer_class=layer, layer_kwargs=options)
        net(x)
        net.apply(reset_noise if kind is MLP else modules.reset_noise)
        nets.append(net)
    mode = ExplorationType.RANDOM if noisy else ExplorationType.MEAN
    with set_exploration_type(mode):
        same_results(*nets, x)
    assert set(nets[0].state_dict()) == set(nets[1].state_dict())


def test_noise_follows_the_exploration_type_or_training() -> None:
    layer, x = NoisyLinear(3, 2), torch.randn(4, 3)
    plain = nn.functional.linear(x, layer.weight_mu, layer.bias_mu)
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        assert torch.equal(layer(x), plain)
    with set_exploration_type(ExplorationType.RANDOM):
        noisy = layer(x)
        assert not torch.allclose(noisy, plain)
        assert torch.equal(layer(x), noisy)
        layer.reset_noise()
        assert not torch.allclose(layer(x), noisy)
    by_training = NoisyLinear(3, 2, use_exploration_type=False)
    assert not torch.equal(by_training(x), by_training.eval()(x))
