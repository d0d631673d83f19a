"""`MCAdvantageSelector`: which of too many trajectories make a group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Literal

from tensordict import TensorDictBase

from specgen_runtime.typing import NestedKey

__all__ = ["MCAdvantageSelector"]


class MCAdvantageSelector:
    """Chooses as many candidates as a group has, whose average return is within bounds.

    Args:
        strategy: ``"first"``: those that came first; ``"uniform"``: evenly spread over the returns in their order;
            ``"balanced"``: those with the average nearest to the middle of the bounds, of several the ones that are
            furthest apart (without bounds as ``"uniform"``). With no more candidates than a group has all are one.
        max_combinations: up to how many choices are compared by ``"balanced"``; of more, it begins with evenly spread
            ones and exchanges one candidate after the other.
        in_keys: what `select` reads of the candidates: the return, or, in a subclass, whatever it chooses by, such as
            ``"trajectories"``. None: ``["return"]``.

    Raises:
        ValueError: an argument is none of these.
    """

    def __init__(
        self,
        strategy: Literal["first", "uniform", "balanced"] = "balanced",
        *,
        max_combinations: int = 100_000,
        in_keys: list[NestedKey] | None = None,
    ) -> None:
        if strategy not in ("first", "uniform", "balanced"):
            raise ValueError(f"strategy must be one of 'first', 'uniform' and 'balanced', got {strategy!r}")
        if max_combinations < 1 or in_keys == []:
            raise ValueError(
                f"max_combinations and in_keys are not empty, got {max_combinations} and {in_keys}"
            )
        self.strategy = strategy
        self.max_combinations = max_combinations
        self.in_keys: list[NestedKey] = ["return"] if in_keys is None else list(in_keys)

    def select(
        self,
        candidates: TensorDictBase,
        *,
        group_size: int,
        keep_return_bounds: tuple[float, float] | None = None,
    ) -> list[int] | None:
        """Choose candidates.

        Args:
            candidates: of batch size ``[candidates]``, with the entries of `in_keys`.
            group_size: how many to choose.
            keep_return_bounds: the average of their returns is between these; None: any is good.

        Returns:
            Their indices, or None if no choice is within the bounds.

        Raises:
            ValueError: there are too few.
        """
        returns = [float(value) for value in candidates.get(self.in_keys[0]).reshape(candidates.numel())]
        if len(returns) < group_size:
            raise ValueError(f"a group of {group_size} can't be chosen from {len(returns)} candidates")
        if len(returns) == group_size or self.strategy == "first":
            chosen = list(range(group_size))
        elif self.strategy == "uniform" or keep_return_bounds is None:
            chosen = _spread(returns, group_size)
        else:
            chosen = self._balanced(returns, group_size, sum(keep_return_bounds) / 2)
        if keep_return_bounds is None:
            return chosen
        low, high = keep_return_bounds
        return chosen if low < _mean(returns, chosen) < high else None

    def _balanced(self, returns: Sequence[float], size: int, target: float) -> list[int]:
        def badness(chosen: Sequence[int]) -> tuple[float, float]:
            values = [returns[index] for index in chosen]
            return abs(_mean(returns, chosen) - target), min(values) - max(values)

        if comb(len(returns), size) <= self.max_combinations:
            nearest: tuple[int, ...] = min(combinations(range(len(returns)), size), key=badness)
            return list(nearest)
        chosen = _spread(returns, size)
        while True:
            others = [index for index in range(len(returns)) if index not in chosen]
            exchanged = [[*chosen[:k], new, *chosen[k + 1 :]] for k in range(size) for new in others]
            best = min(exchanged, key=badness)
            if badness(best) >= badness(chosen):
                return chosen
            chosen = best


def _mean(returns: Sequence[float], chosen: Sequence[int]) -> float:
    return sum(returns[index] for index in chosen) / len(chosen)


def _spread(returns: Sequence[float], size: int) -> list[int]:
    """Indices evenly spread over the returns in their order, both ends included."""
    ordered = sorted(range(len(returns)), key=returns.__getitem__)
    return [ordered[round(place * (len(ordered) - 1) / (size - 1))] for place in range(size)]
