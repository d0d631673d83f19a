"""What the pure functions of generated environments call besides torch: integrators, checked indices, a typed norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

__all__ = ["euler", "index_in_range", "rk4", "vector_norm"]

if TYPE_CHECKING:

    def vector_norm(x: Tensor, *, dim: int | tuple[int, ...]) -> Tensor:
        """The Euclidean norm over some dimensions."""

else:
    vector_norm = torch.linalg.vector_norm  # itself, which has no types


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
