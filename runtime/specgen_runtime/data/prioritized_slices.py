"""`PrioritizedSliceSampler`: parts of trajectories, which begin with rows drawn in proportion to their priorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.prioritized import PrioritizedSampler, element_numbers
from specgen_runtime.data.samplers import Drawn, refuse_empty
from specgen_runtime.data.slices import SliceSampler, rows_of_parts, slice_reach, span_pair
from specgen_runtime.data.storage import Storage
from specgen_runtime.data.trajectories import Trajectories

__all__ = ["PrioritizedSliceSampler"]


class PrioritizedSliceSampler(SliceSampler, PrioritizedSampler):
    r"""Draws parts of trajectories: each begins with a row that is drawn in proportion to its priority.

    Those rows are drawn from which on there is a part. All rows of a part have the `"priority_weight"` of its first one; each
    row has a priority of its own, which is updated by what was sampled.

    Args:
        max_capacity: as of `PrioritizedSampler`.
        alpha, beta, eps, dtype, reduction, max_priority_within_buffer: the same.
        span: whether parts may end behind their trajectory, and are cut off there: `(False, True)`, or `(False, 3)` for as
            many rows at most. They begin where they were drawn.
        options: other keywords of `SliceSampler`.

    Raises:
        TypeError: not exactly one of `num_slices` and `slice_len`.
        ValueError: `alpha`, `beta` or `eps` is negative; another `reduction`; a `span` before trajectories.
        RuntimeError: at a sample: all trajectories are shorter than a part, or all priorities are 0, and `eps` as well.
    """

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        *,
        max_priority_within_buffer: bool = False,
        span: bool | int | Sequence[bool | int] = False,
        **options: Any,
    ) -> None:
        if span_pair(span)[0]:
            raise ValueError(
                f"parts begin with the row that is drawn, and can't reach before their trajectory: got span={span}, "
                "give (False, True), or (False, number)"
            )
        SliceSampler.__init__(self, span=span, **options)
        PrioritizedSampler.__init__(
            self, max_capacity, alpha, beta, eps, dtype, reduction, max_priority_within_buffer
        )
        self._left_out: tuple[Trajectories, Tensor] | None = None

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw parts; see `Sampler.sample`."""
        refuse_empty(storage)
        length, count = self._sizes(batch_size)
        first, info = self._sample_but(self._no_starts(storage, length), storage, count)
        numbers = torch.stack(first, -1) if isinstance(first, tuple) else first.unsqueeze(-1)
        begin, whole = self._ends.of(storage).piece_of(numbers)
        lengths = (whole - (numbers[:, 0] - begin) % refuse_empty(storage)[0]).clamp_max(length)
        index, marks = self._rows(storage, numbers, lengths, length)
        part, _, _ = rows_of_parts(lengths, length if self.pad_output else None)
        return index, marks | {key: value[part] for key, value in info.items()}

    def _no_starts(self, storage: Storage, length: int) -> Tensor:
        """The elements that begin no part: the last ones of trajectories, and all of those that are too short."""
        allowed = self._trajectories(storage, length)
        if self._left_out is None or self._left_out[0] is not allowed:
            every = self._ends.of(storage).pieces()
            wanted = allowed.length.clamp_max(length)
            last = every.length.clone()  # so many rows at the end of each
            last[every.length >= (length if self.strict_length else 0)] = (
                wanted - slice_reach(self.span[1], wanted) - 1
            )
            piece, offset, _ = rows_of_parts(last, None)
            element = every.start[piece]
            element[:, 0] += (every.length - last)[piece] + offset
            element[:, 0] %= refuse_empty(storage)[0]
            self._left_out = (allowed, element_numbers(element, storage))
        return self._left_out[1]

    def _empty(self) -> None:
        SliceSampler._empty(self)
        PrioritizedSampler._empty(self)
        self._left_out = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_left_out": None}

    def __repr__(self) -> str:
        size = f"num_slices={self.num_slices}" if self.num_slices else f"slice_len={self.slice_len}"
        return f"{type(self).__name__}({size}, alpha={self._alpha}, beta={self.beta}, eps={self.eps})"
