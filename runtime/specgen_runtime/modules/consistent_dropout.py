"""Dropout whose masks stand in the data, so that losses compute with those that the actions were chosen with."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn
from torch.nn.functional import dropout

from specgen_runtime.modules.action_space import entry
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms.primer import TensorDictPrimer
from specgen_runtime.typing import NestedKey


class ConsistentDropout(nn.Module):
    """Dropout that returns its mask, and takes one (Hausknecht and Wagener 2022, arXiv:2202.11818).

    Args:
        p: the probability that a number becomes 0; the others are divided by 1 - p.

    Raises:
        ValueError: ``p`` is not in [0, 1].
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p is a probability, in [0, 1], got {p}")
        self.p = p

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """What is left of ``x``, any shape, and the mask; in evaluation mode ``x`` alone, as it is.

        Args:
            x: floating point.
            mask: the factor of each number, of the shape of ``x``; None draws one.

        Raises:
            ValueError: the mask has another shape, and would be one for several numbers.
        """
        if not self.training:
            return x
        if mask is None:
            mask = self.make_mask(input=x)
        elif mask.shape != x.shape:
            raise ValueError(
                f"the mask of a dropout has the shape of its input, {list(x.shape)}, got {list(mask.shape)}"
            )
        return x * mask, mask

    def make_mask(self, *, input: Tensor | None = None, shape: Sequence[int] | None = None) -> Tensor:
        """A mask: 0, or 1 / (1 - p), at each place; 1 in evaluation mode.

        Args:
            input: it has the shape, the dtype and the device of this one.
            shape: or this shape.

        Raises:
            RuntimeError: neither is given.
        """
        if input is None and shape is None:
            raise RuntimeError("make_mask needs an input, or a shape")
        ones = torch.ones_like(input) if input is not None else torch.ones(tuple(shape or ()))
        return dropout(ones, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


class ConsistentDropoutModule(TensorDictModuleBase):  # type: ignore[misc]  # tensordict is untyped for mypy
    """`ConsistentDropout` of an entry: the mask stands beside it, and is drawn where there is none.

    Within a policy the mask of an episode is drawn at its reset by the primer (`make_tensordict_primer`); without one,
    anew in each step.

    Args:
        p: the probability that a number becomes 0, in [0, 1).
        in_keys: the entry, and that of the mask; of one key, the mask is that name with ``_mask``. Modules that read one
            entry need keys of their own.
        out_keys: likewise, where they are written; None: in their places.
        input_shape: the shape of the entry, batch dimensions included, for the primer.
        input_dtype: its dtype; None: the default one.

    Raises:
        ValueError: ``p`` is out of range, or there is another number of keys than two.
    """

    def __init__(
        self,
        p: float,
        in_keys: NestedKey | Sequence[NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        input_shape: Sequence[int] | None = None,
        input_dtype: torch.dtype | None = None,
    ) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"p must be in [0, 1), got {p}")
        self.in_keys = _with_mask(in_keys)
        self.out_keys = list(self.in_keys) if out_keys is None else _with_mask(out_keys)
        super().__init__()
        self.optional_in_keys = self.in_keys[1:]
        self.input_shape = input_shape
        self.input_dtype = input_dtype
        self.consistent_dropout = ConsistentDropout(p)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write what is left of the entry, and the mask; in evaluation mode the entry alone, as it is.

        Raises:
            KeyError: if the entry is missing.
            ValueError: if the mask has another shape.
        """
        x = entry(tensordict, self.in_keys[0], owner=type(self).__name__, role="the input")
        mask = tensordict.get(self.in_keys[1], None)
        if self.training and mask is not None and mask.shape != x.shape:
            raise ValueError(
                f"{type(self).__name__}: the mask {self.in_keys[1]!r} has the shape of {self.in_keys[0]!r},"
                f" {list(x.shape)}, got {list(mask.shape)}"
            )
        left = self.consistent_dropout(x, mask)
        for key, value in zip(self.out_keys, left if isinstance(left, tuple) else (left,), strict=False):
            tensordict.set(key, value)
        return tensordict

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """A transform that draws the mask at each reset.

        Raises:
            RuntimeError: without an ``input_shape``.
        """
        if self.input_shape is None:
            raise RuntimeError("ConsistentDropoutModule makes a primer where it is given the input_shape")
        shape = torch.Size(self.input_shape)
        dtype = torch.get_default_dtype() if self.input_dtype is None else self.input_dtype
        return TensorDictPrimer(
            primers=Composite({self.in_keys[1]: Unbounded(shape=shape, dtype=dtype)}),
            default_value=functools.partial(self.consistent_dropout.make_mask, shape=shape),
            expand_specs=False,
        )


def _with_mask(keys: NestedKey | Sequence[NestedKey]) -> list[NestedKey]:
    """The key of an entry and that of its mask."""
    if isinstance(keys, str):
        return [keys, f"{keys}_mask"]
    if len(keys) != 2:
        raise ValueError(f"the keys are that of the entry and that of its mask, got {list(keys)}")
    return list(keys)
