"""Dueling networks: the value of a state and the advantages of its actions, from the same features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from specgen_runtime.modules.choices import split_choices
from specgen_runtime.modules.networks.convnet import ConvNet
from specgen_runtime.modules.networks.mlp import MLP
from specgen_runtime.typing import DEVICE_TYPING

_HEADS: dict[str, Any] = {"depth": 1, "activation_class": nn.ELU, "num_cells": 512, "bias_last_layer": True}


class DuelingMlpDQNet(nn.Module):
    """Action values from vectors, as `value + advantage - mean(advantage)` ("Dueling Network Architectures for Deep
    Reinforcement Learning", Wang et al. 2016, equation 9).

    The biases of layers whose input size is known begin at zero.

    Args:
        out_features: number of actions; a shape, of which actions are the last dimension.
        out_features_value: size of the value, which is broadcast over the actions.
        mlp_kwargs_feature: for the `MLP` of the features, in place of `num_cells=[256, 256]`, `out_features=256`,
            `activation_class=nn.ELU`, `activate_last_layer=True`.
        mlp_kwargs_output: for the two `MLP` behind it, in place of `depth=1`, `num_cells=512`,
            `activation_class=nn.ELU`.
        device: of the parameters.
    """

    def __init__(
        self,
        out_features: int | Sequence[int],
        out_features_value: int = 1,
        mlp_kwargs_feature: Mapping[str, Any] | None = None,
        mlp_kwargs_output: Mapping[str, Any] | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        of_features: dict[str, Any] = {
            "num_cells": [256, 256],
            "out_features": 256,
            "activation_class": nn.ELU,
            "activate_last_layer": True,
            **(mlp_kwargs_feature or {}),
        }
        of_heads = {**_HEADS, **(mlp_kwargs_output or {})}
        self.out_features = out_features
        self.out_features_value = out_features_value
        self.features = MLP(device=device, **of_features)
        self.advantage = MLP(out_features=out_features, device=device, **of_heads)
        self.value = MLP(out_features=out_features_value, device=device, **of_heads)
        _zero_biases(self)

    def forward(self, x: Tensor) -> Tensor:
        """Action values of vectors of shape `(*batch, features)`: `(*batch, n_actions)`, or `(*batch, *out_features)`."""
        return _dueling(self.features(x), self.advantage, self.value)


class DuelingCnnDQNet(nn.Module):
    """Action values from images, as `DuelingMlpDQNet` from vectors.

    Args:
        out_features: number of actions; a shape, of which actions are the last dimension.
        out_features_value: size of the value, which is broadcast over the actions.
        cnn_kwargs: for the `ConvNet` of the features, in place of `num_cells=[32, 64, 64]`, `strides=[4, 2, 1]`,
            `kernel_sizes=[8, 4, 3]`.
        mlp_kwargs: for the two `MLP` behind it, in place of `depth=1`, `num_cells=512`, `activation_class=nn.ELU`.
        device: of the parameters.
    """

    def __init__(
        self,
        out_features: int | Sequence[int],
        out_features_value: int = 1,
        cnn_kwargs: Mapping[str, Any] | None = None,
        mlp_kwargs: Mapping[str, Any] | None = None,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        super().__init__()
        of_features: dict[str, Any] = {
            "num_cells": [32, 64, 64],
            "strides": [4, 2, 1],
            "kernel_sizes": [8, 4, 3],
            **(cnn_kwargs or {}),
        }
        of_heads = {**_HEADS, **(mlp_kwargs or {})}
        self.out_features = out_features
        self.out_features_value = out_features_value
        self.features = ConvNet(device=device, **of_features)
        self.advantage = MLP(out_features=out_features, device=device, **of_heads)
        self.value = MLP(out_features=out_features_value, device=device, **of_heads)
        _zero_biases(self)

    def forward(self, x: Tensor) -> Tensor:
        """Action values of images of shape `(*batch, channels, height, width)`: `(*batch, n_actions)`."""
        return _dueling(self.features(x), self.advantage, self.value)


class DuelingValues(nn.Module):
    """Action values of the value of the state and of the advantages of actions, which one last layer gives side by side.

    They are `value + advantage - mean(advantage)` (Wang et al. 2016, equation 9), with the mean over the advantages of each choice
    where an action makes several, which share the value of the state (Tavakoli et al. 2018, equation 1).

    Args:
        var_nums: how many values each of several choices has. Defaults to None: there is one choice.

    Raises:
        ValueError: a choice has no value.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 1 + 2 + 4), DuelingValues([2, 4]))
        >>> net(torch.zeros(8, 3)).shape
        torch.Size([8, 6])
    """

    def __init__(self, var_nums: Sequence[int] | None = None) -> None:
        super().__init__()
        if var_nums is not None and (not var_nums or min(var_nums) < 1):
            raise ValueError(f"var_nums must be positive, one of each choice, got {list(var_nums)}")
        self.var_nums = None if var_nums is None else tuple(var_nums)

    def forward(self, x: Tensor) -> Tensor:
        """Action values, shape `(*, n_actions)`, of choices side by side.

        Args:
            x: the value of the state first, then the advantages, shape `(*, 1 + n_actions)`.

        Raises:
            ValueError: choices have other numbers of values.
        """
        of_state, of_actions = x[..., :1], x[..., 1:]
        if self.var_nums is None:
            return of_state + of_actions - of_actions.mean(-1, keepdim=True)
        centred = [one - one.mean(-1, keepdim=True) for one in split_choices(of_actions, self.var_nums)]
        return of_state + torch.cat(centred, -1)

    def extra_repr(self) -> str:
        """The choices."""
        return "" if self.var_nums is None else f"var_nums={list(self.var_nums)}"


def _dueling(features: Tensor, advantage: MLP, value: MLP) -> Tensor:
    of_actions: Tensor = advantage(features)
    of_state: Tensor = value(features)
    # Shapes of actions have more dimensions than the value: they stand between the batch and its last dimension.
    missing = of_actions.ndim - of_state.ndim
    if missing > 0:
        of_state = of_state.reshape(*of_state.shape[:-1], *[1] * missing, of_state.shape[-1])
    return of_state + of_actions - of_actions.mean(-1, keepdim=True)


def _zero_biases(module: nn.Module) -> None:
    with torch.no_grad():
        for layer in module.modules():
            bias = layer.bias if isinstance(layer, nn.Conv2d | nn.Linear) else None
            if bias is not None and not is_lazy(bias):
                bias.zero_()
