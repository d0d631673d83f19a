"""Of tests that are crossed in several parameters, those that hold every pair of values, or every value where that is enough.

A fault that two values bring out together is found by pairs: that is for tests crossed in three parameters or more. A
test marked `sweep` holds each value once, beside others in turn: what its parameters stand for (say, an environment and
a batch size) doesn't meet in code of its own. `SPECGEN_THOROUGH=1` runs every combination.
"""

from __future__ import annotations

from collections import Counter, defaultdict
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


def each_value(rows: Sequence[Sequence[str]]) -> list[int]:
    """The numbers of rows, in order, that hold each value of each column, the values of a column equally often.

    As many as the column with most values has.
    """
    used: Counter[tuple[int, str]] = Counter()
    values = [[*dict.fromkeys(column)] for column in zip(*rows, strict=True)]
    order = sorted(enumerate(values), key=lambda column: -len(column[1]))
    kept: list[int] = []
    for wanted in ((number, value) for number, column in order for value in column):
        if not used[wanted]:
            holding = [number for number, row in enumerate(rows) if wanted in enumerate(row)]
            kept.append(min(holding, key=lambda number: [used[cell] for cell in enumerate(rows[number])]))
            used.update(enumerate(rows[kept[-1]]))
    return sorted(kept)


def thinned(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests without combinations of parameters that other tests hold, pair by pair or value by value."""
    crossed: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if len(values_of(item)) > (1 if is_sweep(item) else 2):
            crossed[item.nodeid.split("[")[0]].append(item)
    left_out = {
        id(item)
        for tests in crossed.values()
        for item in without_some(
            tests, (each_value if is_sweep(tests[0]) else pairwise)([values_of(item) for item in tests])
        )
    }
    return [item for item in items if id(item) not in left_out]


def is_sweep(item: pytest.Item) -> bool:
    """Whether each value of a test's parameters is enough."""
    return item.get_closest_marker("sweep") is not None


def without_some(items: Sequence[pytest.Item], kept: Sequence[int]) -> list[pytest.Item]:
    numbers = {*kept}
    return [item for number, item in enumerate(items) if number not in numbers]


def values_of(item: pytest.Item) -> Sequence[str]:
    """The names of a test's values, one for each parametrisation of it."""
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else callspec._idlist
