"""The random numbers of generated environments: a generator of each environment's own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Draws"]


class Draws:
    """What `_fresh` and `_advance` of a generated environment draw with.

    Compiled code draws from torch's global generator, as `torch.compile` knows no other.
    """

    _generator: torch.Generator
    _batch_size: torch.Size
    _draws_on: torch.device

    def _begin_draws(self, seed: int, device: torch.device | None) -> None:
        """Make the generator, for numbers on `device`."""
        self._draws_on = device if device is not None else torch.get_default_device()
        # the meta device has no generator, and needs none
        place = torch.device("cpu") if self._draws_on.type == "meta" else self._draws_on
        self._generator = torch.Generator(device=place).manual_seed(seed)

    def _move_draws(self, device: torch.device | None) -> None:
        """Draw on another device, from a generator that is seeded by the present one."""
        place = self._generator.device
        seed = torch.randint(2**62, (), generator=self._generator, device=place)
        self._begin_draws(int(seed.item()), device)

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._generator.manual_seed(seed)

    def _source(self) -> torch.Generator | None:
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
