"""`ConvNet` and `Conv3dNet`: convolutions over the last two or three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from specgen_runtime.modules.networks.layers import (
    Layer,
    LayerKwargs,
    SquashDims,
    SqueezeLayer,
    kwargs_of_each,
    make_layer,
    values_of_each,
)
from specgen_runtime.modules.networks.mlp import MLP
from specgen_runtime.typing import DEVICE_TYPING


class ConvNet(nn.Sequential):
    """Convolutions over images, each followed by an activation and a normalization; the last output is flattened.

    Args:
        in_features: channels of the input. None: those of the first call.
        depth: number of convolutions. None: the length of the arguments that are sequences.
        num_cells: channels of each convolution, or one number for all. Defaults to 32, in 3 convolutions if nothing
            else tells how many.
        kernel_sizes: of each convolution, or one for all; a number or one for each dimension.
        strides: of each convolution, or one for all.
        paddings: of each convolution, or one for all.
        activation_class: a class of modules, or a function that returns one.
        activation_kwargs: for the activations: one mapping, or one for each.
        norm_class: normalization behind each activation. None: no normalization.
        norm_kwargs: for the normalizations: one mapping, or one for each.
        bias_last_layer: whether the last convolution has a bias.
        aggregator_class: what follows the last one. Defaults to flattening channels and space; None: nothing.
        aggregator_kwargs: for `aggregator_class`.
        squeeze_output: remove the dimensions of space at the end, which must have size 1.
        device: of the parameters.

    Raises:
        ValueError: arguments whose lengths differ, `depth=0`, lists of keywords of the wrong length.

    Example:
        >>> ConvNet(in_features=3, num_cells=[8, 16], strides=2)(torch.zeros(5, 3, 15, 15)).shape
        torch.Size([5, 144])
    """

    _space: ClassVar[int] = 2
    _conv: ClassVar[type[nn.Module]] = nn.Conv2d
    _lazy_conv: ClassVar[type[nn.Module]] = nn.LazyConv2d

    def __init__(
        self,
        in_features: int | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sequence[int | Sequence[int]] | int = 3,
        strides: Sequence[int | Sequence[int]] | int = 1,
        paddings: Sequence[int | Sequence[int]] | int = 0,
        activation_class: Layer = nn.ELU,
        activation_kwargs: LayerKwargs = None,
        norm_class: Layer | None = None,
        norm_kwargs: LayerKwargs = None,
        bias_last_layer: bool = True,
        aggregator_class: Layer | None = SquashDims,
        aggregator_kwargs: dict[str, Any] | None = None,
        squeeze_output: bool = False,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if num_cells is None:
            told = depth is not None or any(
                isinstance(v, Sequence) for v in (kernel_sizes, strides, paddings)
            )
            num_cells = 32 if told else [32, 32, 32]
        depth, of_each = values_of_each(
            depth, num_cells=num_cells, kernel_sizes=kernel_sizes, strides=strides, paddings=paddings
        )
        if depth == 0:
            raise ValueError(f"{type(self).__name__} has at least one convolution, got depth 0")
        channels: list[int] = of_each["num_cells"]
        of_activation = kwargs_of_each(activation_kwargs, depth, "activation_kwargs")
        of_norm = kwargs_of_each(norm_kwargs, depth, "norm_kwargs")
        layers: list[nn.Module] = []
        for i in range(depth):
            size_in = in_features if i == 0 else channels[i - 1]
            options: dict[str, Any] = {
                "kernel_size": of_each["kernel_sizes"][i],
                "stride": of_each["strides"][i],
                "padding": of_each["paddings"][i],
                "bias": i < depth - 1 or bias_last_layer,
                "device": device,
            }
            if size_in is None:
                layers.append(self._lazy_conv(channels[i], **options))
            else:
                layers.append(self._conv(size_in, channels[i], **options))
            layers.append(make_layer(activation_class, device, **of_activation[i]))
            if norm_class is not None:
                layers.append(make_layer(norm_class, device, **of_norm[i]))
        if aggregator_class is not None:
            if aggregator_kwargs is None:
                aggregator_kwargs = {"ndims_in": self._space + 1} if aggregator_class is SquashDims else {}
            layers.append(make_layer(aggregator_class, device, **aggregator_kwargs))
        if squeeze_output:
            layers.append(SqueezeLayer(tuple(range(-self._space, 0))))
        super().__init__(*layers)
        self.in_features = in_features
        self.out_features = channels[-1]
        self.depth = depth
        self.num_cells = channels

    def forward(self, inputs: Tensor) -> Tensor:
        """The output for inputs of shape `(*batch, channels, *space)`.

        Returns:
            Shape `(*batch, features)`, where the output is flattened.

        Raises:
            ValueError: the input lacks dimensions.
        """
        batch = tuple(inputs.shape[: -self._space - 1])
        if inputs.ndim <= self._space:
            raise ValueError(
                f"{type(self).__name__} reads channels and {self._space} dimensions of space, got shape"
                f" {tuple(inputs.shape)}"
            )
        if len(batch) < 2:
            return self._layers(inputs)
        out = self._layers(inputs.flatten(0, len(batch) - 1))
        return out.reshape(*batch, *out.shape[1:])

    def _layers(self, images: Tensor) -> Tensor:
        out = images
        for layer in self:
            out = layer(out)
        return out

    @classmethod
    def default_atari_dqn(cls, num_actions: int) -> nn.Sequential:
        """The network of "Human-level control through deep reinforcement learning" (Mnih et al. 2015).

        Args:
            num_actions: size of its output.
        """
        images = cls(
            activation_class=nn.ReLU, num_cells=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1]
        )
        return nn.Sequential(images, MLP(activation_class=nn.ReLU, out_features=num_actions, num_cells=[512]))


class Conv3dNet(ConvNet):
    """Convolutions over volumes: as `ConvNet`, with three dimensions of space.

    Example:
        >>> Conv3dNet(in_features=3, num_cells=[8, 16])(torch.zeros(5, 3, 6, 6, 6)).shape
        torch.Size([5, 128])
    """

    _space = 3
    _conv = nn.Conv3d
    _lazy_conv = nn.LazyConv3d
