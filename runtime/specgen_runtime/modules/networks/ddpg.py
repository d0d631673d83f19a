"""The networks of deep deterministic policy gradients (Lillicrap et al., 2016, arXiv:1509.02971)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from specgen_runtime.modules.networks.convnet import ConvNet
from specgen_runtime.modules.networks.layers import SquashDims
from specgen_runtime.modules.networks.mlp import MLP
from specgen_runtime.typing import DEVICE_TYPING

_HEAD: dict[str, Any] = {"activation_class": nn.ELU, "bias_last_layer": True}


class DdpgMlpActor(nn.Module):
    """Actions from vectors. The last layer begins near 0.

    Args:
        action_dim: how many numbers an action has.
        mlp_net_kwargs: for the `MLP`, in place of `num_cells=[400, 300]`, `depth=2`, `activation_class=nn.ELU`.
        device: of the parameters.
    """

    def __init__(
        self,
        action_dim: int,
        mlp_net_kwargs: Mapping[str, Any] | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        options = {"out_features": action_dim, "depth": 2, "num_cells": [400, 300], **_HEAD}
        self.mlp = MLP(device=device, **{**options, **(mlp_net_kwargs or {})})
        _begin_near_zero(self.mlp, 6e-3)

    def forward(self, observation: Tensor) -> Tensor:
        """The action, `[…, action_dim]`, of an observation `[…, features]`."""
        action: Tensor = self.mlp(observation)
        return action


class DdpgMlpQNet(nn.Module):
    """Values of actions from vectors; the action comes in behind the first layer. The last layer begins near 0.

    Args:
        mlp_net_kwargs_net1: for the `MLP` of the observation, in place of `out_features=400`, `depth=0`,
            `activation_class=nn.ELU`, `activate_last_layer=True`.
        mlp_net_kwargs_net2: for that of what it gives and of the action, in place of `num_cells=[300]`,
            `activation_class=nn.ELU`.
        device: of the parameters.
    """

    def __init__(
        self,
        mlp_net_kwargs_net1: Mapping[str, Any] | None = None,
        mlp_net_kwargs_net2: Mapping[str, Any] | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        first = {"out_features": 400, "depth": 0, "num_cells": [], "activate_last_layer": True, **_HEAD}
        self.mlp1 = MLP(device=device, **{**first, **(mlp_net_kwargs_net1 or {})})
        second = {"out_features": 1, "num_cells": [300], **_HEAD}
        self.mlp2 = MLP(device=device, **{**second, **(mlp_net_kwargs_net2 or {})})
        _begin_near_zero(self.mlp2, 6e-3)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """The value `[…, 1]` of an action `[…, action_dim]` after an observation `[…, features]`."""
        value: Tensor = self.mlp2(torch.cat([self.mlp1(observation), action], -1))
        return value


class DdpgCnnActor(nn.Module):
    """Actions from images. The last layer begins near 0.

    Args:
        action_dim: how many numbers an action has.
        conv_net_kwargs: for the `ConvNet`, in place of `num_cells=[32, 64, 64]`, `kernel_sizes=[8, 4, 3]`,
            `strides=[4, 2, 1]`, `paddings=[0, 0, 1]`, `activation_class=nn.ELU`.
        mlp_net_kwargs: for the `MLP` behind it, in place of `num_cells=200`, `depth=2`, `activation_class=nn.ELU`.
        use_avg_pooling: whether features are means over the image, else all of them.
        device: of the parameters.
    """

    def __init__(
        self,
        action_dim: int,
        conv_net_kwargs: Mapping[str, Any] | None = None,
        mlp_net_kwargs: Mapping[str, Any] | None = None,
        use_avg_pooling: bool = False,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        self.convnet = _convolutions([32, 64, 64], use_avg_pooling, conv_net_kwargs, device)
        options = {"out_features": action_dim, "depth": 2, "num_cells": 200, **_HEAD}
        self.mlp = MLP(device=device, **{**options, **(mlp_net_kwargs or {})})
        _begin_near_zero(self.mlp, 6e-4)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """The action `[…, action_dim]` of an image `[…, channels, height, width]`, and the features `[…, n]` in between."""
        features = self.convnet(observation)
        return self.mlp(features), features


class DdpgCnnQNet(nn.Module):
    """Values of actions from images; the action comes in beside the features. The last layer begins near 0.

    Args:
        conv_net_kwargs: for the `ConvNet`, in place of `num_cells=[32, 64, 128]`, `kernel_sizes=[8, 4, 3]`,
            `strides=[4, 2, 1]`, `paddings=[0, 0, 1]`, `activation_class=nn.ELU`.
        mlp_net_kwargs: for the `MLP` behind it, in place of `num_cells=200`, `depth=2`, `activation_class=nn.ELU`.
        use_avg_pooling: whether features are means over the image, else all of them.
        device: of the parameters.
    """

    def __init__(
        self,
        conv_net_kwargs: Mapping[str, Any] | None = None,
        mlp_net_kwargs: Mapping[str, Any] | None = None,
        use_avg_pooling: bool = True,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        self.convnet = _convolutions([32, 64, 128], use_avg_pooling, conv_net_kwargs, device)
        options = {"out_features": 1, "depth": 2, "num_cells": 200, **_HEAD}
        self.mlp = MLP(device=device, **{**options, **(mlp_net_kwargs or {})})
        _begin_near_zero(self.mlp, 6e-4)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        """The value `[…, 1]` of an action `[…, action_dim]` after an image `[…, channels, height, width]`."""
        value: Tensor = self.mlp(torch.cat([self.convnet(observation), action], -1))
        return value


def _convolutions(
    channels: list[int], pooled: bool, options: Mapping[str, Any] | None, device: DEVICE_TYPING | None
) -> ConvNet:
    aggregator: dict[str, Any] = {"aggregator_class": SquashDims, "aggregator_kwargs": {"ndims_in": 3}}
    if pooled:
        aggregator = {
            "aggregator_class": nn.AdaptiveAvgPool2d,
            "aggregator_kwargs": {"output_size": (1, 1)},
            "squeeze_output": True,
        }
    usual = {
        "num_cells": channels,
        "kernel_sizes": [8, 4, 3],
        "strides": [4, 2, 1],
        "paddings": [0, 0, 1],
        "activation_class": nn.ELU,
    }
    return ConvNet(device=device, **{**usual, **aggregator, **(options or {})})


def _begin_near_zero(network: nn.Sequential, width: float) -> None:
    """Draw the parameters of the last linear layer uniformly from an interval of this width around 0.

    Raises:
        ValueError: the network has no linear layer, or one whose inputs are not counted yet.
    """
    layer = next((one for one in reversed(network) if isinstance(one, nn.Linear)), None)
    if layer is None:
        raise ValueError("the network has no linear layer, which would begin near 0")
    if isinstance(layer.weight, nn.UninitializedParameter):
        raise ValueError("the last layer, which begins near 0, needs in_features where it is the only one")
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            if parameter is not None:
                parameter.copy_(torch.rand_like(parameter) * width - width / 2)
