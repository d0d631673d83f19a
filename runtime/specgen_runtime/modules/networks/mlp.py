"""`MLP`: perceptrons with one or more layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from specgen_runtime.modules.networks.layers import (
    Layer,
    LayerKwargs,
    SharedBias,
    kwargs_of_each,
    make_layer,
    values_of_each,
)
from specgen_runtime.modules.networks.noisy import NoisyLazyLinear, NoisyLinear
from specgen_runtime.typing import DEVICE_TYPING

_LAZY: dict[Layer, Layer] = {nn.Linear: nn.LazyLinear, NoisyLinear: NoisyLazyLinear}


class MLP(nn.Sequential):
    """A perceptron: linear layers, each but the last followed by dropout, normalization and an activation.

    Several inputs are concatenated along their last dimension, so that `MLP(...)(state, action)` is the value of an
    action in a state.

    Args:
        in_features: size of the input's last dimension, of all inputs together. None: that of the first call.
        out_features: size of the output's last dimension, or a shape, into which the output is reshaped.
        depth: number of hidden layers; 0 for one linear layer. None: the length of `num_cells`.
        num_cells: sizes of the hidden layers, or one for all of them, which needs `depth`. Defaults to 32 for each
            of `depth`.
        activation_class: a class of modules, or a function that returns one.
        activation_kwargs: for the activations: one mapping, or one for each.
        norm_class: normalization before each activation. None: no normalization.
        norm_kwargs: for the normalizations: one mapping, or one for each.
        dropout: probability. None: no dropout.
        bias_last_layer: whether the last layer has a bias.
        single_bias_last_layer: the last layer's bias is one number for all its outputs.
        layer_class: of the linear layers: is called with the two sizes, `bias`, and `layer_kwargs`.
        layer_kwargs: for the linear layers: one mapping, or one for each.
        activate_last_layer: also put dropout, normalization and activation behind the last layer.
        device: of the parameters.

    Raises:
        ValueError: `out_features` is missing; `num_cells` and `depth` contradict each other, or `num_cells` is a number
            and `depth` is missing; lists of keywords of the wrong length; `single_bias_last_layer` with noisy layers.
        TypeError: `in_features` is missing, and `layer_class` has no lazy variant.

    Example:
        >>> MLP(in_features=3, out_features=(2, 4), num_cells=[32, 16])(torch.zeros(5, 3)).shape
        torch.Size([5, 2, 4])
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | Sequence[int] | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Layer = nn.Tanh,
        activation_kwargs: LayerKwargs = None,
        norm_class: Layer | None = None,
        norm_kwargs: LayerKwargs = None,
        dropout: float | None = None,
        bias_last_layer: bool = True,
        single_bias_last_layer: bool = False,
        layer_class: Layer = nn.Linear,
        layer_kwargs: LayerKwargs = None,
        activate_last_layer: bool = False,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if out_features is None:
            raise ValueError("MLP needs out_features")
        if num_cells is None:
            num_cells = 32 if depth else []
        depth, cells = values_of_each(depth, num_cells=num_cells)
        hidden: list[int] = cells["num_cells"]
        outputs = out_features if isinstance(out_features, int) else math.prod(out_features)
        n_activations = depth + int(activate_last_layer)
        of_activation = kwargs_of_each(activation_kwargs, n_activations, "activation_kwargs")
        of_norm = kwargs_of_each(norm_kwargs, n_activations, "norm_kwargs")
        of_layer = kwargs_of_each(layer_kwargs, depth + 1, "layer_kwargs")
        layers: list[nn.Module] = []
        for i, (size_in, size_out) in enumerate(zip([in_features, *hidden], [*hidden, outputs], strict=True)):
            bias = of_layer[i].pop("bias", bias_last_layer if i == depth else True)
            shared = bool(i == depth and single_bias_last_layer and bias)
            if size_in is None:
                if layer_class not in _LAZY:
                    raise TypeError(f"MLP needs in_features: {layer_class!r} has no lazy variant")
                linear = make_layer(
                    _LAZY[layer_class], device, size_out, bias=bias and not shared, **of_layer[i]
                )
            else:
                linear = make_layer(
                    layer_class, device, size_in, size_out, bias=bias and not shared, **of_layer[i]
                )
            layers.append(linear)
            if shared:
                if isinstance(linear, NoisyLinear):
                    raise ValueError("noisy layers have a bias for each output: single_bias_last_layer=False")
                parameter = next(linear.parameters(), torch.empty(0, device=device))
                layers.append(SharedBias(device=parameter.device, dtype=parameter.dtype))
            if i < n_activations:
                if dropout is not None:
                    layers.append(nn.Dropout(p=dropout))
                if norm_class is not None:
                    layers.append(make_layer(norm_class, device, **of_norm[i]))
                layers.append(make_layer(activation_class, device, **of_activation[i]))
        super().__init__(*layers)
        self.in_features = in_features
        self.out_features = out_features
        self.num_cells = hidden
        self.depth = depth
        self.out_shape = (out_features,) if isinstance(out_features, int) else tuple(out_features)

    @property
    def calls_layers_in_order(self) -> bool:
        """Whether it gives what its layers do, one after the other, for one input."""
        return len(self.out_shape) == 1 and type(self).forward is MLP.forward

    def forward(self, *inputs: Tensor) -> Tensor:
        """The output for one input of shape `(*batch, in_features)`, or several that have these features together.

        Returns:
            Shape `(*batch, out_features)`, or `(*batch, *out_features)`.
        """
        value = inputs[0] if len(inputs) == 1 else torch.cat(inputs, -1)
        for layer in self:
            value = layer(value)
        return value.reshape(*value.shape[:-1], *self.out_shape) if len(self.out_shape) != 1 else value
