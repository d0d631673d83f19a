"""What generated environments call besides torch: integrators, draws, checked indices, a norm with types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import interpolate

__all__ = [
    "broadcast_tensors",
    "categorical_quantile",
    "class_indices",
    "euler",
    "expit",
    "index_in_range",
    "poisson_quantile",
    "resize_image",
    "rk4",
    "vector_norm",
]

if TYPE_CHECKING:

    def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors, each expanded to the shape that they have together."""

    def vector_norm(x: Tensor, *, dim: int | tuple[int, ...], keepdim: bool = False) -> Tensor:
        """The Euclidean norm over some dimensions."""

else:  # the functions themselves, which have no types
    broadcast_tensors = torch.broadcast_tensors
    vector_norm = torch.linalg.vector_norm


def expit(x: Tensor) -> Tensor:
    """The sigmoid function `1 / (1 + exp(-x))` of float32 or float64 numbers of any shape.

    The same number gives the same bits in a tensor of any shape, which `torch.sigmoid` does not promise; its
    gradient is finite everywhere.
    """
    smallest = -709.0 if x.dtype is torch.float64 else -88.0  # its exponential is finite
    return (1 + torch.exp(-x.clamp(min=smallest))).reciprocal()


def euler(f: Callable[..., Tensor], y: Tensor, dt: float | Tensor, *args: Tensor) -> Tensor:
    """One step of Euler's method: `y + dt * f(y, *args)`.

    Args:
        f: The derivative of the state; it gets `y` and `args` and returns a tensor like `y`.
        y: The state, of any shape.
        dt: The length of the step, a number or a tensor that broadcasts against `y`.
        *args: What else `f` reads; held during the step.

    Returns:
        The state after the step, of the shape and dtype of `y`.

    """
    return y + dt * f(y, *args)


def index_in_range(index: Tensor, size: int) -> Tensor:
    """`index`, where all of it is in `[0, size)`: negative ones raise too, instead of counting from the end.

    Generated code calls it for an index that the checker could not prove to be in range. It stands where several
    indices make one position, and where a table is indexed; there is no branch in it, so it can be compiled and
    mapped over.

    Args:
        index: int64, of any shape.
        size: The size of the dimension.

    Returns:
        `index`, of its own shape.

    Raises:
        RuntimeError: On the CPU, by `torch.gather`: `index 5 is out of bounds for dimension 0 with size 5`. On CUDA
            the device stops, as for any index out of range.

    """
    return torch.arange(size, device=index.device).gather(0, index.reshape(-1)).view(index.shape)


def resize_image(image: Tensor, rows: int, columns: int, interpolation: str = "bilinear") -> Tensor:
    """An image of another size, as torchvision resizes tensors with antialiasing.

    Every pixel is computed in the image's own float dtype; whole numbers in float32, those of more than 16 bits in
    float64, rounded at the end. Each image gives the same bits in a batch of any size.

    Args:
        image: Numbers `[..., height, width]`.
        rows: The height of the result.
        columns: Its width.
        interpolation: `"nearest"`, `"bilinear"` or `"bicubic"`. The last can leave the range of a float image's values;
            whole numbers are kept in that of their dtype.

    Returns:
        `[..., rows, columns]` of the image's dtype.

    Raises:
        ValueError: If `interpolation` is none of these.

    """
    if interpolation not in ("nearest", "bilinear", "bicubic"):
        raise ValueError(f"interpolation must be 'nearest', 'bilinear' or 'bicubic', got {interpolation!r}")
    *front, height, width = image.shape
    whole = not image.is_floating_point()
    dtype = image.dtype if not whole else torch.float64 if image.element_size() > 2 else torch.float32
    planes = image.to(dtype).reshape(math.prod(front), 1, height, width)
    made = interpolate(planes, (rows, columns), mode=interpolation, antialias=interpolation != "nearest")
    if whole:
        limits = torch.iinfo(image.dtype)
        made = made.round().clamp(limits.min, limits.max)
        if image.dtype == torch.int64:
            # 2**63 - 1 is 2**63 in float64, which no int64 holds.
            made = made.to(torch.int64).masked_fill(made >= limits.max, limits.max)
    return made.to(image.dtype).reshape(*front, rows, columns)


def rk4(f: Callable[..., Tensor], y: Tensor, dt: float | Tensor, *args: Tensor) -> Tensor:
    """One step of the classical Runge-Kutta method of the fourth order.

    The formula is the one of Kutta (1901), as in any textbook of numerical analysis; its local
    error is of the order `dt ** 5`.

    Args:
        f: The derivative of the state; it gets `y` and `args` and returns a tensor like `y`.
        y: The state, of any shape.
        dt: The length of the step, a number or a tensor that broadcasts against `y`.
        *args: What else `f` reads; held during the step.

    Returns:
        The state after the step, of the shape and dtype of `y`.

    """
    k1 = f(y, *args)
    k2 = f(y + dt / 2 * k1, *args)
    k3 = f(y + dt / 2 * k2, *args)
    k4 = f(y + dt * k3, *args)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def categorical_quantile(weights: Tensor, draw: Tensor) -> Tensor:
    """The class of each uniform number: where it falls among the weights laid end to end.

    Args:
        weights: Weights of the classes along the last axis, none negative, not all 0; they need not
            add up to 1. Float of shape `(*shape, n)`, or one that broadcasts to it.
        draw: Uniform numbers in [0, 1), of the dtype of `weights` and of shape `shape`.

    Returns:
        Classes from 0 to `n - 1`, int64 of shape `shape`. A class of weight 0 is not among them.

    """
    bounds = weights.cumsum(dim=-1)
    passed = (draw.unsqueeze(-1) * bounds[..., -1:] >= bounds).sum(dim=-1)
    return passed.clamp(max=weights.shape[-1] - 1)


def class_indices(x: Tensor, counts: Sequence[int]) -> Tensor:
    """The classes of several one-hot vectors that stand one after the other.

    Args:
        x: One-hot vectors, of any dtype and of shape `(*shape, sum(counts))`.
        counts: How many classes each has.

    Returns:
        For each the first place of its largest element, int64 of shape `(*shape, len(counts))`.

    Raises:
        RuntimeError: If the last dimension is not as long as `counts` say.

    """
    numbers = x.to(torch.uint8) if x.dtype is torch.bool else x
    parts = numbers.split_with_sizes(list(counts), dim=-1)
    return torch.stack([part.argmax(dim=-1) for part in parts], dim=-1)


def poisson_quantile(rate: Tensor, draw: Tensor) -> Tensor:
    """The least count that a Poisson variable stays at or below more often than `draw`.

    It starts from the expansion of Cornish and Fisher (1938), which is off by less than 16 for every
    float64 number in [0, 1), and finds the count by bisection. It takes as long for every rate.

    Args:
        rate: The expected counts, float64; none negative. NaN counts as 0.
        draw: Uniform numbers in [0, 1), float64, of a shape to which `rate` broadcasts.

    Returns:
        The counts, int64 of the shape of `draw`, at most `2 ** 53`.

    """
    rate = rate.detach().nan_to_num(0.0).clamp(0.0, 2.0**52)
    draw = draw.clamp(min=2.0**-54)  # the normal variable that it stands for is finite
    deviation = torch.special.ndtri(draw)
    about = rate + rate.sqrt() * deviation + (deviation.square() - 1) / 6
    # The probability of at most `count` is gammaincc(count + 1, rate); before the first count it is 0.
    last_passed: Tensor = (about.floor() - 16).clamp(min=0) - 1
    for stride in (16, 8, 4, 2, 1):
        further = last_passed + stride
        passed = torch.special.gammaincc(further + 1, rate.expand_as(draw)) <= draw
        last_passed = torch.where(passed, further, last_passed)
    counts: Tensor = last_passed + 1
    return counts.to(torch.int64)
