"""Sizes with names: sums and products of them, and what is proved whatever numbers they stand for."""

from __future__ import annotations

import random

import pytest

from specgen.expr.sizes import (
    Dim,
    Sym,
    at_most,
    divided,
    limits,
    may_be_at_most,
    names_in,
    quotient,
    replaced,
)

C, H, N = (Sym.named(name) for name in "CHN")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (N + 1, "N + 1"),
        (1 + N, "N + 1"),
        (N - 1, "N - 1"),
        (2 * N - H, "-H + 2 * N"),
        (H * C, "C * H"),
        ((N + 1) * (N - 1), "N * N - 1"),
        (N - N, "0"),
        (N * 0 + 3, "3"),
        (quotient(H - C, 2), "((-C + H) // 2)"),
        (quotient(2 * H, 2), "H"),
    ],
)
def test_sizes_are_printed_by_name(size: Dim, text: str) -> None:
    assert str(size) == text
    assert isinstance(size, Sym) == any(name in text for name in "CHN")


def test_the_same_for_all_numbers_is_equal() -> None:
    assert (N + 1) * C == C + C * N
    assert hash((N + 1) * C) == hash(C + C * N)
    assert N + 1 != N
    assert Sym.named("N", 3, 5) == N


def test_a_size_is_no_number() -> None:
    for size in (N, N + 1):
        with pytest.raises(TypeError):
            int(size)  # type: ignore[call-overload]
        with pytest.raises(TypeError):
            size < 3  # type: ignore[operator]  # noqa: B015


def test_arithmetic_is_that_of_the_numbers() -> None:
    rng = random.Random(3)
    for _ in range(300):
        numbers = {"C": rng.randint(1, 9), "H": rng.randint(1, 9), "N": rng.randint(1, 9)}
        size: Dim = rng.choice([C, H, N])
        value = numbers[str(size)]
        for _ in range(rng.randint(1, 5)):
            other: Dim = rng.choice([C, H, N, 1, 2, 3])
            number = other if isinstance(other, int) else numbers[str(other)]
            match rng.choice("+-*"):
                case "+":
                    size, value = size + other, value + number
                case "-":
                    size, value = size - other, value - number
                case _:
                    size, value = size * other, value * number
        assert replaced(size, numbers) == value
        low, high = limits(size)
        assert low <= value <= high
        if (part := divided(size, other)) is not None:
            assert replaced(part, numbers) * number == value


def test_what_is_proved() -> None:
    assert at_most(N, N + 1)
    assert not at_most(N + 1, N)
    assert not may_be_at_most(N + 1, N)
    assert at_most(1, N)
    assert not at_most(2, N)
    assert may_be_at_most(2, N)
    assert divided(C * H, C) == H
    assert divided(C * H + H, H) == C + 1
    assert divided(C * H, 2) is None
    assert divided(C + 1, C) is None
    assert names_in(C * H + 2) == ("C", "H")
