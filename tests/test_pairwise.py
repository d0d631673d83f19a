"""Which combinations of parameters are run."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.pairwise import pairwise


@pytest.mark.parametrize(
    "sizes", [(2, 3), (2, 2, 2), (2, 3, 12, 2), (3, 11, 2, 2), (2, 3, 2, 3, 5), (1, 4, 1)]
)
def test_every_pair_of_values_is_there(sizes: tuple[int, ...]) -> None:
    rows = [tuple(map(str, row)) for row in product(*map(range, sizes))]
    kept = [rows[number] for number in pairwise(rows)]
    for first, second in combinations(range(len(sizes)), 2):
        assert {(row[first], row[second]) for row in kept} == {(row[first], row[second]) for row in rows}
    largest, next_largest = sorted(sizes)[:-3:-1]
    assert largest * next_largest <= len(kept) <= 1.7 * largest * next_largest


def test_pairs_that_no_row_holds_are_not_missed() -> None:
    rows = [("a", "x", "1"), ("a", "y", "1"), ("b", "y", "2")]
    assert pairwise(rows) == [0, 1, 2]
    assert pairwise([*rows, ("b", "x", "2"), ("a", "y", "2")]) == [0, 1, 2, 3, 4]
    assert pairwise([]) == []
