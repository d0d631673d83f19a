"""`ResetStepsTransform`: transforms that step the environment before them after a reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.around import AroundTransform, refuse_rows
from specgen_runtime.transforms.bound import InverseRow, Row

if TYPE_CHECKING:
    from specgen_runtime.transforms.parts import InnerEnv

__all__ = ["ResetStepsTransform"]


class ResetStepsTransform(AroundTransform[Row, InverseRow]):
    """Takes steps after a reset, each row a number of its own; a row that ends is reset, and goes on with its count.

    Environments whose state is in the tensordict compute as many steps and resets as there may be, so that random
    numbers don't depend on what happens; others step and reset the rows that still count. Rewards are dropped.

    A subclass writes `_counts` and `_at_most`, and `_act` unless actions are random.
    """

    _steps_inner_env = True

    @property
    def _acts_in_resets(self) -> bool:
        return type(self)._act is ResetStepsTransform._act

    def _at_most(self) -> int:
        """How many steps there may be."""
        raise NotImplementedError(f"{type(self).__name__} does not say how often it steps at most")

    def _counts(self, tensordict_reset: TensorDictBase) -> Iterator[Tensor | int]:
        """How many steps each row takes, for each record of keys; the largest of them counts."""
        raise NotImplementedError(f"{type(self).__name__} does not say how often it steps: write `_counts`")

    def _act(self, root: TensorDictBase, nth: int, inner: InnerEnv) -> TensorDictBase:
        """Write the actions of a step into its root; random ones of the environment if a subclass gives none."""
        return inner.env.rand_action(root)

    def _around_reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase, inner: InnerEnv
    ) -> TensorDictBase:
        fresh = tensordict_reset
        size = fresh.batch_size
        counts = torch.zeros(size, dtype=torch.int64, device=fresh.device)
        for count in self._counts(fresh):
            rows = count.reshape(*size, -1).amax(-1) if isinstance(count, Tensor) else count
            counts = torch.clamp(counts, min=rows)
        chosen = _reset_rows(tensordict, inner, fresh)
        for nth in range(self._at_most()):
            rows = chosen & (counts > nth)
            if not inner.fused_alike and not bool(rows.any()):
                break
            root = self._act(fresh.copy(), nth, inner)
            if not inner.computes and not bool(rows.all()):
                refuse_rows(self, inner, rows)
                root.set("_step", rows)
            after = inner.next_root(root, inner.step(root)).select(*fresh.keys(True, True), strict=False)
            over = rows & inner.done_rows(after)
            inner.write_rows(fresh, after, rows)
            if inner.fused_alike or bool(over.any()):
                again = fresh.copy()
                for s in inner.layout.root_sets:
                    again.set(s.reset, over.reshape(*size, *(1,) * len(s.shape)).expand(*size, *s.shape))
                inner.write_rows(fresh, inner.reset(again, again.copy()), over)
        return fresh


def _reset_rows(tensordict: TensorDictBase, inner: InnerEnv, fresh: TensorDictBase) -> Tensor:
    """Which rows are being reset: all, if there is no mask."""
    masks = [mask for s in inner.layout.root_sets if (mask := tensordict.get(s.reset, None)) is not None]
    if not masks:
        return torch.ones(fresh.batch_size, dtype=torch.bool, device=fresh.device)
    return torch.stack([mask.reshape(*fresh.batch_size, -1).any(-1) for mask in masks]).any(0)
