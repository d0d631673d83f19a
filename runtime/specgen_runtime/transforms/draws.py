"""Random numbers of transforms: from the environment's generator, or for recorded data from one that is passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.transforms.bound import BoundTransform, InverseRow, Row

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["DrawingTransform", "generator_inside"]


def generator_inside(env: EnvBase) -> torch.Generator | None:
    """The generator of the base environment that all transforms stand around; None where that has none."""
    inner: Any = env
    while isinstance(getattr(inner, "base_env", None), nn.Module):
        inner = inner.base_env
    return inner._source() if isinstance(inner, GeneratedEnv) else getattr(inner, "_generator", None)


class DrawingTransform(BoundTransform[Row, InverseRow]):
    """A transform that draws for all rows, at a reset, at a step and for what the policy wrote.

    In an environment the numbers come from the generator of the base environment, or from torch's global one where
    that has none (simulators, batches of environments); for recorded data from the one that `forward` and `inv` are given.
    """

    _generator: torch.Generator | None = None  # that `forward` or `inv` is given
    _draws_zeros: bool = False  # while specs are found
    _in_front: torch.Size = (
        torch.Size()
    )  # what rows have in front of the batch size of an environment that takes any

    def _uniform(self, shape: Tensor | Sequence[int], dtype: torch.dtype, when: bool = True) -> Tensor:
        """Uniform numbers in [0, 1).

        Args:
            shape: the dimensions of one row, or a tensor of the same shape.
            dtype: a floating-point dtype.
            when: whether anything reads them; otherwise nothing is drawn, and they are 0.
        """
        sizes, place = self._drawn_shape(shape)
        if self._draws_zeros or not when:
            return torch.zeros(sizes, dtype=dtype, device=place)
        return torch.rand(sizes, dtype=dtype, device=place, generator=self._source())

    def _normal(self, shape: Tensor | Sequence[int], dtype: torch.dtype, when: bool = True) -> Tensor:
        """Standard normal numbers; arguments as for `_uniform`."""
        sizes, place = self._drawn_shape(shape)
        if self._draws_zeros or not when:
            return torch.zeros(sizes, dtype=dtype, device=place)
        return torch.randn(sizes, dtype=dtype, device=place, generator=self._source())

    def _randint(
        self, low: int, high: int, shape: Tensor | Sequence[int], dtype: torch.dtype, when: bool = True
    ) -> Tensor:
        """Integers from `low` to `high - 1`; other arguments as for `_uniform`."""
        sizes, place = self._drawn_shape(shape)
        if self._draws_zeros or not when:
            return torch.full(sizes, low, dtype=dtype, device=place)
        return torch.randint(low, high, sizes, dtype=dtype, device=place, generator=self._source())

    def _drawn_shape(self, shape: Tensor | Sequence[int]) -> tuple[tuple[int, ...], torch.device | None]:
        """The whole shape of a draw, and its device."""
        if isinstance(shape, Tensor):
            return tuple(shape.shape), shape.device
        rows, place = self._rows()
        return (*rows, *shape), place

    def _rows(self) -> tuple[torch.Size, torch.device | None]:
        """The batch size and the device of what is transformed.

        Raises:
            RuntimeError: if there are neither an environment nor data to tell them from.
        """
        env = self.parent
        if env is not None:
            return torch.Size([*self._in_front, *env.batch_size]), env.device
        for known in (self._data, self._given):
            if known is not None:
                return known.shape, known.device
        raise RuntimeError(
            f"{type(self).__name__} is part of no environment that could tell how many rows there are"
        )

    def _source(self) -> torch.Generator | None:
        env = self.parent
        return self._generator if env is None else generator_inside(env)

    @contextmanager
    def _drawing_zeros(self) -> Iterator[None]:
        """Draw nothing in the block: what is drawn is 0, or the least integer."""
        self.__dict__["_draws_zeros"] = True
        try:
            yield
        finally:
            self.__dict__["_draws_zeros"] = False
