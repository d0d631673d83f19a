"""Random numbers of generated environments: from a generator of their own, or from torch's in compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Draws", "DrawsNumbers"]


class DrawsNumbers:
    """What draws random numbers for a batch of environments, on one device."""

    _batch_size: torch.Size

    def _begin_draws(self, seed: int, device: torch.device | None) -> None:
        """Make the environment's own generator, for numbers on a device."""
        self._draws_on = device if device is not None else torch.get_default_device()
        # the meta device has no generator, and needs none
        place = torch.device("cpu") if self._draws_on.type == "meta" else self._draws_on
        self._generator = torch.Generator(device=place).manual_seed(seed)

    def _source(self) -> torch.Generator | None:
        """The generator to draw from; compiled code draws from torch's, as `torch.compile` knows no other."""
        return None if torch.compiler.is_compiling() else self._generator

    def _uniform(self, dims: Sequence[int] = (), dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform numbers in [0, 1) of shape `(*batch_size, *dims)`."""
        shape = (*self._batch_size, *dims)
        return torch.rand(shape, dtype=dtype, device=self._draws_on, generator=self._source())

    def _normal(self, dims: Sequence[int] = (), dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers of shape `(*batch_size, *dims)`."""
        shape = (*self._batch_size, *dims)
        return torch.randn(shape, dtype=dtype, device=self._draws_on, generator=self._source())

    def _randint(
        self, low: int, high: int, dims: Sequence[int] = (), dtype: torch.dtype = torch.int64
    ) -> Tensor:
        """Integers from `low` to `high - 1` of shape `(*batch_size, *dims)`."""
        shape = (*self._batch_size, *dims)
        return torch.randint(low, high, shape, dtype=dtype, device=self._draws_on, generator=self._source())

    @property
    def draws(self) -> Draws:
        """What draws for functions in which it depends on what happens how often something is drawn."""
        return Draws(self)


class Draws:
    """Random numbers for all rows of a batch of environments, one draw after another.

    Args:
        env: the environment.
    """

    def __init__(self, env: DrawsNumbers) -> None:
        self._env = env

    def uniform(self, dims: Sequence[int] = (), dtype: torch.dtype = torch.float32) -> Tensor:
        """Uniform numbers in [0, 1) of shape `(*batch_size, *dims)`."""
        return self._env._uniform(dims, dtype)

    def normal(self, dims: Sequence[int] = (), dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers of shape `(*batch_size, *dims)`."""
        return self._env._normal(dims, dtype)

    def randint(
        self, low: int, high: int, dims: Sequence[int] = (), dtype: torch.dtype = torch.int64
    ) -> Tensor:
        """Integers from `low` to `high - 1` of shape `(*batch_size, *dims)`."""
        return self._env._randint(low, high, dims, dtype)
