"""Of tests that are crossed in three parameters or more, those that hold every pair of values together.

A fault that two values bring out together is found by them; `SPECGEN_THOROUGH=1` runs every combination.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import pytest


def pairwise(rows: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of rows, in order, that hold each pair of values of two columns that any of the rows holds.

    Greedy: first the rows with as many new pairs as a row can have, then those with one less, and so on.
    """
    pairs = [{*combinations(enumerate(row), 2)} for row in rows]
    missing = set().union(*pairs)
    kept: list[int] = []
    for least in range(max(map(len, pairs), default=0), 0, -1):
        for number, own in enumerate(pairs):
            if len(own & missing) >= least:
                kept.append(number)
                missing -= own
    return sorted(kept)


def thinned(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests without combinations of parameters that other tests hold pair by pair."""
    crossed: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if len(values_of(item)) > 2:
            crossed[item.nodeid.split("[")[0]].append(item)
    left_out = {
        id(item)
        for tests in crossed.values()
        for item in without_some(tests, pairwise([values_of(item) for item in tests]))
    }
    return [item for item in items if id(item) not in left_out]


def without_some(items: Sequence[pytest.Item], kept: Sequence[int]) -> list[pytest.Item]:
    numbers = {*kept}
    return [item for number, item in enumerate(items) if number not in numbers]


def values_of(item: pytest.Item) -> Sequence[str]:
    """The names of a test's values, one for each parametrisation of it."""
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else callspec._idlist
