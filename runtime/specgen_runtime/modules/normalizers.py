"""Normalizers that learn mean and deviation of what they see: of observations, and of the values of states."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningMeanStd(nn.Module):
    """Mean and variance of everything that was seen, from batches (Chan et al. 1979, eq. 2.1).

    Args:
        shape: of one sample.
        epsilon: how many samples of mean 0 and variance 1 it begins with.
    """

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...] = (), epsilon: float = 1e-4) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))
        self.register_buffer("count", torch.tensor(epsilon))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Learn from a batch, ``[*batch, *shape]``; one without samples changes nothing."""
        samples = x.to(self.mean.dtype).reshape(-1, *self.mean.shape)
        number = samples.shape[0]
        if not number:
            return
        distance = samples.mean(0) - self.mean
        total = self.count + number
        squares = self.var * self.count + samples.var(0, correction=0) * number
        self.var.copy_((squares + distance.square() * (self.count * number / total)) / total)
        self.mean.add_(distance * (number / total))
        self.count.copy_(total)

    def normalize(self, x: Tensor) -> Tensor:
        """Numbers as multiples of their deviation from their mean, ``[..., *shape]``."""
        return (x.to(self.mean.dtype) - self.mean) / self.var.clamp_min(1e-8).sqrt()


class PopArtValueNorm(nn.Module):
    """Mean and variance of values of which later ones count more (van Hasselt et al. 2016, eq. 6), without their bias.

    Args:
        shape: of one value, as it is stored.
        beta: how much of what it knows stays at each update, between 0 and 1.
        epsilon: the least variance, and the least weight of what was seen.
        device: where its buffers are.
    """

    running_mean: Tensor
    running_mean_sq: Tensor
    debiasing_term: Tensor

    def __init__(
        self,
        *,
        shape: int | tuple[int, ...] = 1,
        beta: float = 0.99999,
        epsilon: float = 1e-5,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.beta, self.epsilon = beta, epsilon
        self.register_buffer("running_mean", torch.zeros(self.shape, device=device))
        self.register_buffer("running_mean_sq", torch.zeros(self.shape, device=device))
        self.register_buffer("debiasing_term", torch.zeros((), device=device))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Learn from a batch, ``[*batch, *shape]``.

        Raises:
            ValueError: if that is not its shape.
        """
        if x.shape[x.ndim - len(self.shape) :] != self.shape:
            raise ValueError(
                f"PopArtValueNorm has values of shape {self.shape}, got a batch of shape {tuple(x.shape)}"
            )
        samples = x.reshape(-1, *self.shape)
        self.running_mean.lerp_(samples.mean(0).to(self.running_mean.dtype), 1 - self.beta)
        self.running_mean_sq.lerp_(samples.square().mean(0).to(self.running_mean.dtype), 1 - self.beta)
        self.debiasing_term.mul_(self.beta).add_(1 - self.beta)

    def normalize(self, x: Tensor) -> Tensor:
        """Values as multiples of their deviation from their mean, ``[..., *shape]``."""
        return (x - self._mean()) / self.scale()

    def denormalize(self, x: Tensor) -> Tensor:
        """The values of which `normalize` made these."""
        return x * self.scale() + self._mean()

    def scale(self) -> Tensor:
        """The deviation, of `shape`."""
        squares = self.running_mean_sq / self._weight()
        return (squares - self._mean().square()).clamp_min(self.epsilon).sqrt()

    def _mean(self) -> Tensor:
        return self.running_mean / self._weight()

    def _weight(self) -> Tensor:
        return self.debiasing_term.clamp_min(self.epsilon)
