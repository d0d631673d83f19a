"""Layers and arguments that the networks share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from specgen_runtime.typing import DEVICE_TYPING

Layer: TypeAlias = type[nn.Module] | Callable[..., Any]
LayerKwargs: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


class Sequential(nn.Sequential):
    """`nn.Sequential` whose first module may read several inputs, as an `MLP` does.

    Args:
        *modules: one after the other; those behind the first read what the one before them gives.
    """

    def forward(self, *inputs: Tensor) -> Any:
        """What the last module gives."""
        first, *others = self
        value = first(*inputs)
        for module in others:
            value = module(value)
        return value


class SquashDims(nn.Module):
    """Flattens the last dimensions into one.

    Args:
        ndims_in: how many. Defaults to 3.
    """

    def __init__(self, ndims_in: int = 3) -> None:
        super().__init__()
        self.ndims_in = ndims_in

    def forward(self, value: Tensor) -> Tensor:
        """A tensor of shape `(*batch, *dims)` as `(*batch, prod(dims))`."""
        return value.flatten(-self.ndims_in, -1)


class OneHot(nn.Module):
    """Turns indices into vectors of zeros with a one, which layers can read.

    Args:
        num_classes: how many indices there are.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        if num_classes < 1:
            raise ValueError(f"num_classes must be at least 1, got {num_classes}")
        self.num_classes = num_classes

    def forward(self, index: Tensor) -> Tensor:
        """Indices of shape `batch`, integers in [0, num_classes), as float32 of shape `(*batch, num_classes)`.

        Raises:
            TypeError: what is given is no integer.
            RuntimeError: an index is out of range.
        """
        if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
            raise TypeError(f"OneHot takes integers, got {index.dtype}")
        made = torch.zeros((*index.shape, self.num_classes), device=index.device)
        return made.scatter(-1, index.long().unsqueeze(-1), 1.0)

    def extra_repr(self) -> str:
        """The number of classes."""
        return str(self.num_classes)


class SqueezeLayer(nn.Module):
    """Removes dimensions, which must have size 1.

    Args:
        dims: which, counted from the end.

    Raises:
        ValueError: a dimension that is not negative.
    """

    def __init__(self, dims: Sequence[int] = (-1,)) -> None:
        super().__init__()
        if any(dim >= 0 for dim in dims):
            raise ValueError(f"dims are counted from the end, so they are negative, got {tuple(dims)}")
        self.dims = tuple(dims)

    def forward(self, value: Tensor) -> Tensor:
        """The tensor without these dimensions.

        Raises:
            ValueError: one of them has another size than 1.
        """
        if any(value.shape[dim] != 1 for dim in self.dims):
            raise ValueError(
                f"the dimensions {self.dims} must have size 1 to be removed, got shape {tuple(value.shape)}"
            )
        return value.squeeze(self.dims)


class Squeeze2dLayer(SqueezeLayer):
    """Removes the last two dimensions, which must have size 1: those of an image that became one point."""

    def __init__(self) -> None:
        super().__init__((-2, -1))


class SharedBias(nn.Module):
    """Adds one learned number, zero at first, to all elements."""

    def __init__(self, device: DEVICE_TYPING | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set the number to zero."""
        nn.init.zeros_(self.bias)

    def forward(self, value: Tensor) -> Tensor:
        """The tensor with the number added."""
        return value + self.bias


class FunctionLayer(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        """What the function returns."""
        return self.function(*args)

    def extra_repr(self) -> str:
        """Names the function."""
        return repr(self.function)


def make_layer(layer: Layer, device: DEVICE_TYPING | None, *args: Any, **kwargs: Any) -> nn.Module:
    """A layer on a device: made there if its class takes a `device`, and moved there else.

    Args:
        layer: a class of modules, or a function that returns a module or a function of tensors.
        device: None for torch's default.
        args: for `layer`.
        kwargs: for `layer`.
    """
    try:
        takes_device = "device" in inspect.signature(layer).parameters
    except ValueError:  # a builtin without a signature
        takes_device = False
    if takes_device:
        made = layer(*args, device=device, **kwargs)
    else:
        made = layer(*args, **kwargs)
        if device is not None and isinstance(made, nn.Module):
            made = made.to(device)
    return made if isinstance(made, nn.Module) else FunctionLayer(made)


def kwargs_of_each(kwargs: LayerKwargs, n: int, name: str) -> list[dict[str, Any]]:
    """Keywords of each of `n` layers: the same for all, or one mapping for each.

    Raises:
        ValueError: a list of another length.
    """
    if kwargs is None:
        return [{} for _ in range(n)]
    if isinstance(kwargs, Mapping):
        return [dict(kwargs) for _ in range(n)]
    if len(kwargs) != n:
        raise ValueError(f"{name} has {len(kwargs)} mappings, for {n} layers")
    return [dict(each) for each in kwargs]


def values_of_each(depth: int | None, **values: Any) -> tuple[int, dict[str, list[Any]]]:
    """The number of layers, and of each argument a value for each of them.

    Args:
        depth: None if the length of a sequence tells.
        values: sequences, or one value for all layers.

    Raises:
        ValueError: neither `depth` nor a sequence is given, or lengths differ.
    """
    lengths = {name: len(value) for name, value in values.items() if isinstance(value, Sequence)}
    if depth is not None:
        lengths = {"depth": depth, **lengths}
    if not lengths:
        raise ValueError(f"depth must be given if none of {', '.join(values)} is a sequence")
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{length} by {name}" for name, length in lengths.items())
        raise ValueError(f"the number of layers is ambiguous: {found}")
    n = next(iter(lengths.values()))
    return n, {
        name: list(value) if isinstance(value, Sequence) else [value] * n for name, value in values.items()
    }
