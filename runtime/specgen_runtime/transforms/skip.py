"""`ConditionalSkip`: steps are left out where a function says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.around import SkipTransform

__all__ = ["ConditionalSkip"]


class ConditionalSkip(SkipTransform[Any]):
    """Leaves out the step of rows of which a function says so: they keep every entry, with a reward of 0.

    What other transforms of the environment count or sum stays as it is in those rows, too. A condition on entries
    that stand still holds for ever.

    Args:
        cond: called with the root of each step, a copy of its containers; returns where the step is left out, bool
            of the batch size, or of that and a last 1.

    Raises:
        TypeError: if `cond` can't be called; at a step, if it returns something else.

    Example:
        >>> env = TransformedEnv(CartPole(), ConditionalSkip(lambda td: td["x"] > 2))
    """

    def __init__(self, cond: Callable[[TensorDictBase], Tensor]) -> None:
        super().__init__()
        if not callable(cond):
            raise TypeError(f"cond is called with the root of a step, got {cond!r}")
        self.cond = cond

    def _skips(self, tensordict: TensorDictBase) -> Iterator[Tensor]:
        flag: Any = self.cond(tensordict.copy())
        size = tensordict.batch_size
        fits = isinstance(flag, Tensor) and flag.dtype is torch.bool and flag.shape in (size, (*size, 1))
        if not fits:
            found = f"{flag.dtype} {list(flag.shape)}" if isinstance(flag, Tensor) else type(flag).__name__
            raise TypeError(
                f"the condition of {type(self).__name__} needs a bool for each row, {list(size)} or"
                f" {[*size, 1]}, got {found}"
            )
        yield flag
