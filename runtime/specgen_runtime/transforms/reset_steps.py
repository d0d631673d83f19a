"""`ResetStepsTransform`: transforms that step the environment before them after a reset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

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

    def _at_most(self) -> int:
        """How many steps there may be."""
        raise NotImplementedError(f"{type(self).__name__} does not say how often it steps at most")

    def _counts(self, tensordict_reset: TensorDictBase) -> Iterator[Tensor | int]:
        """How many steps each row takes, for each record of keys; the largest of them counts."""
        raise NotImplementedError(f"{type(self).__name__} does not say how often it steps: write `_counts`")

    def _uniform(self, dims: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Uniform numbers in [0, 1) of shape `(*batch_size, *dims)`."""
        source, shape, device = self._draws(dims)
        return torch.rand(shape, dtype=dtype, device=device, generator=source)

    def _normal(self, dims: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Standard normal numbers of shape `(*batch_size, *dims)`."""
        source, shape, device = self._draws(dims)
        return torch.randn(shape, dtype=dtype, device=device, generator=source)

    def _randint(self, low: int, high: int, dims: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Integers from `low` to `high - 1` of shape `(*batch_size, *dims)`."""
        source, shape, device = self._draws(dims)
        return torch.randint(low, high, shape, dtype=dtype, device=device, generator=source)

    def _draws(self, dims: Sequence[int]) -> tuple[Any, tuple[int, ...], torch.device | None]:
        """The generator of the base environment, where it has one of its own, with shape and device of a draw."""
        env = self.parent
        assert env is not None  # who resets is part of an environment
        base: Any = env
        while isinstance(getattr(base, "base_env", None), nn.Module):
            base = base.base_env
        return getattr(base, "_generator", None), (*env.batch_size, *dims), env.device

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
            if not inner.computes and not bool(rows.any()):
                break
            root = self._act(fresh.copy(), nth, inner)
            if not inner.computes and not bool(rows.all()):
                refuse_rows(self, inner, rows)
                root.set("_step", rows)
            after = inner.next_root(root, inner.step(root)).select(*fresh.keys(True, True), strict=False)
            over = rows & inner.done_rows(after)
            inner.write_rows(fresh, after, rows)
            if inner.computes or bool(over.any()):
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
