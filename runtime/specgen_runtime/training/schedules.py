"""Numbers that change during a training, as functions of a counter: there is nothing to save, nothing to step."""

from __future__ import annotations

import math

__all__ = ["cosine", "exponential", "linear", "piecewise"]


def linear(count: float, start: float, end: float, over: float) -> float:
    """From `start` to `end` in a straight line, then `end`.

    Args:
        count: where the training is, in frames or updates.
        start: the value at 0.
        end: the value at `over` and after it.
        over: how many frames or updates it takes (> 0).

    Raises:
        ValueError: `over` is not positive.
    """
    fraction = _fraction("linear", count, over)
    return end if fraction == 1 else start + fraction * (end - start)


def cosine(count: float, start: float, end: float, over: float) -> float:
    """From `start` to `end` along half a cosine, flat at both ends, then `end` (Loshchilov and Hutter 2017, one period).

    Args:
        count: where the training is, in frames or updates.
        start: the value at 0.
        end: the value at `over` and after it.
        over: how many frames or updates it takes (> 0).

    Raises:
        ValueError: `over` is not positive.
    """
    fraction = _fraction("cosine", count, over)
    return end if fraction == 1 else end + (start - end) * (1 + math.cos(math.pi * fraction)) / 2


def exponential(count: float, start: float, end: float, over: float) -> float:
    """From `start` to `end` by the same factor at every count, then `end`.

    Args:
        count: where the training is, in frames or updates.
        start: the value at 0 (not 0).
        end: the value at `over` and after it, of the same sign.
        over: how many frames or updates it takes (> 0).

    Raises:
        ValueError: `over` is not positive, one of the values is 0, or their signs differ.
    """
    if not start * end > 0:
        raise ValueError(f"exponential: start and end must be of one sign and not 0, found {start} and {end}")
    fraction = _fraction("exponential", count, over)
    return end if fraction == 1 else start * (end / start) ** fraction


def piecewise(count: float, *points: tuple[float, float]) -> float:
    """Straight lines between points `(count, value)`, the first and the last value outside.

    Two points of one count are a jump: the second value holds from there on.

    Args:
        count: where the training is, in frames or updates.
        points: at least one, in the order of their counts.

    Raises:
        ValueError: there are no points, or they are not in order.
    """
    if not points:
        raise ValueError("piecewise: give at least one point (count, value)")
    counts = [at for at, _ in points]
    if counts != sorted(counts):
        raise ValueError(f"piecewise: points must be in the order of their counts, found {counts}")
    after = next((place for place, at in enumerate(counts) if at > count), None)
    if after is None or after == 0:
        return points[-1][1] if after is None else points[0][1]
    (at, value), (next_at, next_value) = points[after - 1], points[after]
    return value + (count - at) / (next_at - at) * (next_value - value)


def _fraction(name: str, count: float, over: float) -> float:
    """How much of the way is behind, in [0, 1]."""
    if not over > 0:
        raise ValueError(f"{name}: over must be > 0, found {over}")
    return min(max(count / over, 0.0), 1.0)
