"""`PrioritizedSampler`: draws elements in proportion to their priorities (Schaul et al., 2015, arXiv:1511.05952)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from specgen_runtime.data.parts import positive
from specgen_runtime.data.samplers import Drawn, Sampler, refuse_empty
from specgen_runtime.data.segment_tree import SegmentTree
from specgen_runtime.data.storage import Storage

__all__ = ["PrioritizedSampler", "reduce_priority"]

_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda values: values.amax(-1),
    "min": lambda values: values.amin(-1),
    "mean": lambda values: values.mean(-1),
    "median": lambda values: values.median(-1).values,
    "sum": lambda values: values.sum(-1),
}


def reduce_priority(priority: Tensor, reduction: str) -> Tensor:
    """One priority for each row of `[n, k]`: the `"max"`, `"min"`, `"mean"`, `"median"` or `"sum"` of the row."""
    return _REDUCTIONS[reduction](priority)


class PrioritizedSampler(Sampler):
    r"""Draws element i with probability :math:`(p_i + \epsilon)^\alpha / \sum_k (p_k + \epsilon)^\alpha`.

    Samples come with `"priority_weight"`: :math:`((p_i + \epsilon) / \min_k (p_k + \epsilon))^{-\alpha \beta}`, with which a
    loss corrects what is drawn too often. New elements have the largest priority so far, 1 at least.

    Args:
        max_capacity: how many elements; more if the storage has them.
        alpha: how much priorities count; 0: not at all. Can be changed at any time.
        beta: how much is corrected; 1: all of it. Can be changed at any time.
        eps: added to each priority.
        dtype: of priorities and their sums.
        reduction: how several priorities of one element become one: `"max"`, `"min"`, `"mean"`, `"median"`, `"sum"`.
            Where an element is several times in an update, it is given the least for `"min"`, the mean for `"mean"`, else
            the largest.
        max_priority_within_buffer: whether the largest priority is that of elements that are in the buffer, not of all
            that were.

    Raises:
        ValueError: `alpha`, `beta` or `eps` is negative; another `reduction`.
    """

    def __init__(
        self,
        max_capacity: int,
        alpha: float,
        beta: float,
        eps: float = 1e-8,
        dtype: torch.dtype = torch.float32,
        reduction: str = "max",
        max_priority_within_buffer: bool = False,
    ) -> None:
        for name, value in (("alpha", alpha), ("beta", beta), ("eps", eps)):
            if not value >= 0:
                raise ValueError(f"{name} is 0 or larger, got {value}")
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction is one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
        self.max_capacity = positive("max_capacity", max_capacity)
        self.beta = beta
        self.eps = eps
        self.dtype = dtype
        self.reduction = reduction
        self.max_priority_within_buffer = max_priority_within_buffer
        self._alpha = alpha
        self._largest = 1.0
        self._trees: _Trees | None = None

    @property
    def alpha(self) -> float:
        """How much priorities count."""
        return self._alpha

    @alpha.setter
    def alpha(self, value: float) -> None:
        if not value >= 0:
            raise ValueError(f"alpha is 0 or larger, got {value}")
        self._alpha = value
        if self._trees is not None:
            self._trees.weigh_all(lambda priority: self._weight(priority))

    @property
    def default_priority(self) -> float:
        """The priority of new elements: the largest so far, 1 at least; within the buffer, the largest that is there."""
        if self.max_priority_within_buffer and self._trees is not None:
            largest = float(self._trees.largest.total())
            return largest if largest >= 0 else 1.0
        return self._largest

    def sample(self, storage: Storage, batch_size: int) -> tuple[Drawn, dict[Any, Any]]:
        """Draw elements; see `Sampler.sample`.

        Raises:
            RuntimeError: the storage is empty, or all priorities are 0, and `eps` as well.
        """
        return self._sample_but(None, storage, batch_size)

    def _sample_but(
        self, left_out: Tensor | None, storage: Storage, batch_size: int
    ) -> tuple[Drawn, dict[Any, Any]]:
        """Draw elements, but for those that are left out, by their numbers; see `sample`."""
        shape = refuse_empty(storage)
        if self._trees is None:  # the storage was filled before this sampler came
            every = torch.arange(shape.numel(), device=storage.device)
            index = every if storage.ndim == 1 else torch.stack(torch.unravel_index(every, shape), -1)
            self.mark_update(index, storage=storage)
        trees = self._trees_for(storage)
        uniform = torch.rand(batch_size, dtype=self.dtype, device=trees.device, generator=self._rng)
        index = trees.draw(uniform, left_out)
        weights = trees.sums[index]
        info = {"priority_weight": (weights / trees.least.total()) ** -self.beta}
        return index if storage.ndim == 1 else torch.unravel_index(index, shape), info

    def mark_update(self, index: Tensor, *, storage: Storage) -> None:
        """Give elements the priority of new ones."""
        trees = self._trees_for(storage)
        flat = element_numbers(index, storage).to(trees.device)
        if self.max_priority_within_buffer:
            trees.forget(flat)
        priority = torch.full((), self.default_priority, dtype=self.dtype, device=trees.device)
        trees.set(flat, priority.expand(len(flat)), self._weight(priority).expand(len(flat)))

    @torch.no_grad()
    def update_priority(
        self, index: Tensor, priority: Tensor | float, *, storage: Storage | None = None
    ) -> None:
        """Change the priority of elements.

        Args:
            index: which, `[n]`, or `[n, ndim]` where several dimensions of the storage count elements.
            priority: one for all, or `[n]`.
            storage: where they are; needed for `[n, ndim]`.

        Raises:
            IndexError: there is no such element.
            TypeError: the index holds no integers.
            ValueError: a priority is negative or not finite, or there are more or fewer than elements.
        """
        trees = self._trees_for(storage)
        index = torch.as_tensor(index)
        _check_elements(index, torch.Size([len(trees.priorities)]) if storage is None else storage.shape)
        flat = element_numbers(index, storage).to(trees.device)
        values = torch.as_tensor(priority, device=trees.device).to(self.dtype).reshape(-1)
        if len(values) != len(flat):
            if len(values) != 1:
                raise ValueError(f"{len(values)} priorities for {len(flat)} elements")
            values = values.expand(len(flat))
        if not len(flat):
            return
        low, high = (float(bound) for bound in torch.aminmax(values))
        if not (low >= 0 and high < float("inf")):
            raise ValueError(
                f"priorities are finite and not negative, got values from {low} to {high}: "
                "give absolute errors"
            )
        self._largest = max(high, self._largest)
        values = trees.one_each(flat, values, {"min": "amin", "mean": "mean"}.get(self.reduction, "amax"))
        trees.set(flat, values, self._weight(values))

    def _weight(self, priority: Tensor) -> Tensor:
        return (priority + self.eps) ** self._alpha

    def _trees_for(self, storage: Storage | None) -> _Trees:
        """The trees of the elements of a storage; None: of the one that they were of, or that is to come."""
        trees = self._trees
        if storage is None and trees is not None:
            return trees
        capacity = self.max_capacity if storage is None else max(self.max_capacity, storage.max_size)
        device = (None if storage is None else storage.device) or torch.device("cpu")
        if trees is None or len(trees.priorities) < capacity:
            with torch.inference_mode(False):
                self._trees = _Trees(capacity, self.dtype, device, self.max_priority_within_buffer)
            if trees is not None:  # priorities were given before the storage came
                self._trees.take_over(trees, self._weight)
        elif trees.device != device:  # they were saved on another
            self._trees = self._loaded(trees.state(), device)
        assert self._trees is not None
        return self._trees

    def _empty(self) -> None:
        self._trees = None
        self._largest = 1.0

    def state_dict(self) -> dict[str, Any]:
        """The exponents, and the priorities of all elements."""
        return {
            "_alpha": self._alpha,
            "_beta": self.beta,
            "_eps": self.eps,
            "_max_priority": self._largest,
            "_priorities": None if self._trees is None else self._trees.state(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the exponents and priorities of another sampler."""
        self._alpha = state_dict["_alpha"]
        self.beta = state_dict["_beta"]
        self.eps = state_dict["_eps"]
        self._largest = state_dict["_max_priority"]
        saved = state_dict["_priorities"]
        self._trees = None
        if saved is not None:
            self._trees = self._loaded(saved, saved["priorities"].device)

    def _loaded(self, saved: dict[str, Any], device: torch.device) -> _Trees:
        """The trees of their `state`."""
        priorities = saved["priorities"]
        trees = _Trees(len(priorities), priorities.dtype, device, self.max_priority_within_buffer)
        trees.load(saved)
        return trees

    def __repr__(self) -> str:
        return f"{type(self).__name__}(alpha={self._alpha}, beta={self.beta}, eps={self.eps}, reduction={self.reduction!r})"


class _Trees:
    """Priorities of elements, the weights that follow from them, their sums and the least of them.

    Attributes:
        priorities: as they were given, `[capacity]`; -1 for elements that there are not.
        sums: of weights.
        least: of weights.
        largest: of priorities, where it is asked for.
    """

    def __init__(self, capacity: int, dtype: torch.dtype, device: torch.device, within_buffer: bool) -> None:
        self.device = device
        self.priorities = torch.full((capacity,), -1.0, dtype=dtype, device=device)
        self.sums = SegmentTree(capacity, "sum", dtype, device)
        self.least = SegmentTree(capacity, "min", dtype, device)
        self.largest = SegmentTree(capacity if within_buffer else 1, "max", dtype, device)
        self._within_buffer = within_buffer

    def set(self, index: Tensor, priority: Tensor, weight: Tensor) -> None:
        """Change elements; those that come twice must be the same."""
        self.priorities[index] = priority
        self.sums.update(index, weight)
        self.least.update(index, weight)
        if self._within_buffer:
            self.largest.update(index, priority)

    def draw(self, uniform: Tensor, left_out: Tensor | None) -> Tensor:
        """Draw elements in proportion to their weights, but for some; see `SegmentTree.draw`.

        Raises:
            RuntimeError: the weights of all others are 0.
        """
        if left_out is None:
            self._refuse_zero()
            return self.sums.draw(uniform)
        left_out = left_out.to(self.device)
        kept = self.sums[left_out]
        self.sums.update(left_out, torch.zeros_like(kept))
        try:
            self._refuse_zero()
            return self.sums.draw(uniform)
        finally:
            self.sums.update(left_out, kept)

    def _refuse_zero(self) -> None:
        if not self.sums.total() > 0:
            raise RuntimeError(
                "all priorities are 0: nothing can be drawn in proportion to them; use an eps above 0"
            )

    def one_each(self, index: Tensor, priority: Tensor, reduction: str) -> Tensor:
        """Change the priorities of elements, and return them: the same where an element comes several times."""
        self.priorities.scatter_reduce_(0, index, priority, reduction, include_self=False)
        return self.priorities[index]

    def forget(self, index: Tensor) -> None:
        """Let elements not count for the largest priority."""
        self.largest.update(index, torch.full_like(index, -1, dtype=self.priorities.dtype))

    def weigh_all(self, weight: Callable[[Tensor], Tensor]) -> None:
        """Compute all weights anew."""
        there = self.priorities >= 0
        weights = weight(self.priorities.clamp_min(0))
        self.sums.fill(torch.where(there, weights, 0))
        self.least.fill(torch.where(there, weights, float("inf")))

    def take_over(self, other: _Trees, weight: Callable[[Tensor], Tensor]) -> None:
        """Give elements the priorities that they have in other trees, of fewer."""
        self.priorities[: len(other.priorities)] = other.priorities.to(self.device)
        self.weigh_all(weight)
        if self._within_buffer:
            self.largest.fill(self.priorities)

    def state(self) -> dict[str, Any]:
        """Copies of everything that can't be computed again to the last bit."""
        return {"priorities": self.priorities.clone(), "sums": [level.clone() for level in self.sums.levels]}

    def load(self, state: dict[str, Any]) -> None:
        """Take over a `state`."""
        self.priorities = state["priorities"].to(self.device, copy=True)
        self.sums.levels = [level.to(self.device, copy=True) for level in state["sums"]]
        there = self.priorities >= 0
        weights = self.sums.levels[0][: len(self.priorities)]
        self.least.fill(torch.where(there, weights, float("inf")))
        if self._within_buffer:
            self.largest.fill(self.priorities)


def _check_elements(index: Tensor, sizes: torch.Size | None) -> None:
    """Refuse an index of elements that are not there, of `[rows, *batch]`; None: nothing is."""
    if index.is_floating_point() or index.dtype == torch.bool:
        raise TypeError(f"an index of elements holds integers, got {index.dtype}")
    if index.numel():
        bounds = torch.tensor(sizes or [0], device=index.device)
        if ((index.reshape(-1, len(bounds)) >= bounds) | (index.reshape(-1, len(bounds)) < 0)).any():
            lowest, highest = (int(bound) for bound in torch.aminmax(index))
            raise IndexError(
                f"the replay buffer holds {bounds.tolist()} elements, got priorities of those from {lowest} to {highest}"
            )


def element_numbers(index: Tensor, storage: Storage | None) -> Tensor:
    """The numbers of elements, `[n]`, where several dimensions count them."""
    if storage is None or storage.ndim == 1:
        return index.reshape(-1)
    shape = storage.shape
    assert shape is not None  # it has elements
    sizes = [1, *reversed(shape[1:])]
    strides = torch.tensor(sizes, device=index.device).cumprod(0).flip(0)
    return (index.reshape(-1, len(shape)) * strides).sum(-1)
