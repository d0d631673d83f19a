"""Finds the name that was most likely meant by a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

# Comparing is quadratic in length; names longer than this are compared by their beginnings.
_LONGEST = 80
# As many names of one kind are not written by hand, and each is compared with each that is misspelt.
_MOST = 500


@lru_cache(maxsize=2**15)
def edit_distance(a: str, b: str, limit: int) -> int:
    """How many letters to insert, delete, replace or swap to make `b` from `a`.

    The optimal string alignment distance (a swap of neighbours counts one). Counting stops above
    `limit`; the result is then `limit + 1`.
    """
    a, b = a[:_LONGEST], b[:_LONGEST]
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            cost = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
        before, previous = previous, current
    return min(previous[-1], limit + 1)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that was most likely meant by `name`, or None when none is near.

    Near means at most a third of the letters away. Case, `_` and `-` weigh less than letters, so
    `thetadot` finds `theta_dot` and `rewardsum` finds `RewardSum`. Equal matches are settled by
    alphabet, so the answer never depends on the order of `candidates`.
    """
    candidates = set(candidates)
    if len(candidates) > _MOST:
        return None
    limit = max(1, min(len(name), _LONGEST) // 3)
    best: tuple[int, int, str] | None = None
    for candidate in sorted(candidates):
        if candidate == name:
            continue
        if _plain(candidate) == _plain(name) and _plain(name):
            rank = (0, edit_distance(name, candidate, len(name) + len(candidate)), candidate)
        else:
            distance = edit_distance(name.lower(), candidate.lower(), limit)
            if distance > limit or distance >= max(len(name), len(candidate)):
                continue
            rank = (distance, edit_distance(name, candidate, limit), candidate)
        best = rank if best is None else min(best, rank)
    return None if best is None else best[2]


def suggestion(name: str, candidates: Iterable[str]) -> str | None:
    """`did you mean 'x'?` for the help of a diagnostic, or None when no candidate is near."""
    best = did_you_mean(name, candidates)
    return None if best is None else as_question(best)


def as_question(best: str, what: str = "") -> str:
    """`did you mean 'x'?`; `what` is said before the name: `did you mean parameter 'x'?`."""
    return f"did you mean {what} '{best}'?" if what else f"did you mean '{best}'?"
