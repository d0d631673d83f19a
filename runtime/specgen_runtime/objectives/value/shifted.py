"""`Slots`: roots and next states in one sequence, so that one call of the value network gives the values of both.

The next state of a step is the root of the following one, but behind a truncation and at the end of the data. Those
are put between the roots, where the sequence has room for them; what is pushed beyond its end is not valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from tensordict import TensorDictBase
from tensordict.utils import expand_as_right
from torch import Tensor

from specgen_runtime.envs.keys import next_key
from specgen_runtime.typing import NestedKey


@dataclass(frozen=True)
class Slots:
    """Where each step's states stand in the sequence.

    Attributes:
        roots: int64 ``[*batch]``: where the root of each step stands.
        length: of the sequence.
        axis: the batch dimension of time.
        valid: bool ``[*batch]``: whether root and next state both have a place.
        last: bool ``[*batch]``: steps after which the others of the row have none.
        inserted: bool ``[*batch]``: steps whose next state stands between the roots.
    """

    roots: Tensor
    length: int
    axis: int
    valid: Tensor
    last: Tensor
    inserted: Tensor

    def sequence(self, data: TensorDictBase, keys: Iterable[NestedKey]) -> TensorDictBase:
        """The entries of roots and next states in their places; zeros where nothing stands.

        Args:
            data: a batch of steps.
            keys: what of them is used; an entry that the next state lacks is the root's, one that both lack is left out.
        """
        shape = list(data.batch_size)
        shape[self.axis] = self.length
        sequence = data.empty()
        sequence.batch_size = shape
        for key in keys:
            root = data.get(key, None)
            after = data.get(next_key(key), root)
            if isinstance(root, Tensor) and isinstance(after, Tensor):
                if key == "is_init":
                    after = after | root
                sequence.set(key, self._placed(root, after))
        return sequence

    def values(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The values of the roots and of the next states, from those of the sequence; any where not valid."""
        return self._gathered(values, self.roots), self._gathered(values, self.roots + 1)

    def _placed(self, root: Tensor, after: Tensor) -> Tensor:
        # One more slot takes what has no place.
        shape = list(root.shape)
        shape[self.axis] = self.length + 1
        placed = root.new_zeros(shape)
        for index, source in (
            (self.roots, root),
            (torch.where(self.inserted, self.roots + 1, self.length), after),
        ):
            placed = placed.scatter(self.axis, expand_as_right(index.clamp_max(self.length), source), source)
        return placed.narrow(self.axis, 0, self.length)

    def _gathered(self, values: Tensor, index: Tensor) -> Tensor:
        steps = values.narrow(self.axis, 0, 1).expand(
            *values.shape[: self.axis], index.shape[self.axis], *values.shape[self.axis + 1 :]
        )
        return values.gather(self.axis, expand_as_right(index.clamp_max(self.length - 1), steps))


def slots(done: Tensor, terminated: Tensor, axis: int, budget: int) -> Slots:
    """The places of steps in a sequence that has ``budget`` more than there are steps.

    Args:
        done: bool ``[*batch]``: the trajectory ends here.
        terminated: bool ``[*batch]``: so that nobody asks for the value of the next state.
        axis: the dimension of time.
        budget: the end of the data takes one, each truncation within one more.
    """
    length = done.shape[axis]
    step = torch.arange(length, device=done.device).view(-1, *(1,) * (done.ndim - axis - 1))
    truncated = done & ~terminated & (step < length - 1)
    before = truncated.long().cumsum(axis) - truncated.long()
    roots = step + before
    valid = roots + 1 < length + budget
    last = valid & ~torch.where(step == length - 1, True, valid.roll(-1, axis))
    inserted = valid & (truncated | last | (step == length - 1))
    return Slots(roots, length + budget, axis, valid, last, inserted)
