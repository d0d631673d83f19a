"""The networks of DDPG: same seeds give TorchRL's parameters, outputs and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import specgen_runtime.modules as ours
import torch
from specgen_runtime.modules import DdpgMlpActor, DdpgMlpQNet, Squeeze2dLayer
from torch import Tensor, nn

from tests.modules.test_networks import pair

IMAGES = torch.randn(3, 2, 40, 40)
CASES: list[tuple[str, dict[str, Any], tuple[Tensor, ...]]] = [
    ("DdpgMlpActor", {"action_dim": 2}, (torch.randn(5, 3),)),
    ("DdpgMlpActor", {"action_dim": 2, "mlp_net_kwargs": {"num_cells": [7, 8]}}, (torch.randn(5, 3),)),
    ("DdpgMlpQNet", {}, (torch.randn(5, 3), torch.randn(5, 2))),
    (
        "DdpgMlpQNet",
        {"mlp_net_kwargs_net1": {"out_features": 9}, "mlp_net_kwargs_net2": {"num_cells": [5]}},
        (torch.randn(5, 3), torch.randn(5, 2)),
    ),
    ("DdpgCnnActor", {"action_dim": 2}, (IMAGES,)),
    ("DdpgCnnActor", {"action_dim": 2, "use_avg_pooling": True}, (IMAGES,)),
    ("DdpgCnnQNet", {}, (IMAGES, torch.randn(3, 2))),
    (
        "DdpgCnnQNet",
        {"use_avg_pooling": False, "mlp_net_kwargs": {"num_cells": 9}},
        (IMAGES, torch.randn(3, 2)),
    ),
]


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "options", "inputs"), CASES, ids=lambda one: one if isinstance(one, str) else ""
)
def test_is_torchrls(name: str, options: dict[str, Any], inputs: tuple[Tensor, ...]) -> None:
    mine, peer = pair(name, getattr(ours, name), **options)
    outputs = []
    for network in (mine, peer):
        torch.manual_seed(2)  # layers whose sizes the first call tells
        outputs.append(network(*inputs))
    if isinstance(outputs[0], tuple):
        for one, other in zip(*outputs, strict=True):
            torch.testing.assert_close(one, other)
        outputs = [output[0] for output in outputs]
    torch.testing.assert_close(*outputs)
    for output in outputs:
        (output**2).sum().backward()
    parameters, expected = dict(mine.named_parameters()), dict(peer.named_parameters())
    assert parameters.keys() == expected.keys()
    for key, parameter in parameters.items():
        torch.testing.assert_close(parameter, expected[key])
        torch.testing.assert_close(parameter.grad, expected[key].grad)


def test_the_last_layer_begins_near_zero() -> None:
    actor, critic = DdpgMlpActor(2), DdpgMlpQNet()
    assert actor(torch.randn(9, 3)).abs().max() < 0.5
    assert max(float(p.detach().abs().max()) for p in (actor.mlp[-1].weight, critic.mlp2[-1].weight)) <= 3e-3
    with pytest.raises(ValueError, match="no linear layer"):
        DdpgMlpActor(2, {"in_features": 3, "layer_class": lambda *sizes, **_: nn.Identity()})
    with pytest.raises(ValueError, match="needs in_features"):
        DdpgMlpActor(2, {"depth": 0, "num_cells": []})
    assert DdpgMlpActor(2, {"depth": 0, "num_cells": [], "in_features": 3})(torch.zeros(4, 3)).shape == (4, 2)


def test_a_point_of_an_image() -> None:
    assert Squeeze2dLayer()(torch.zeros(4, 3, 1, 1)).shape == (4, 3)
    with pytest.raises(ValueError, match="must have size 1"):
        Squeeze2dLayer()(torch.zeros(4, 3, 2, 1))
