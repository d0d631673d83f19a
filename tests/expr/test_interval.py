"""Intervals: outward rounding, NaN, and what each operation makes of them."""

from __future__ import annotations

import math

import pytest

from specgen.expr import ANYTHING, NUMBERS, Interval, Type, full, point
from specgen.expr.interval import store
from tests.expr.scopes import binding, bound
from tests.expr.texts import typed

INF = math.inf
TENTH_BELOW, TENTH_ABOVE = 0.09999999403953552, 0.10000000149011612


def test_ends_are_rounded_outward() -> None:
    assert store(Interval(0.1, 0.1), "float32") == Interval(TENTH_BELOW, TENTH_ABOVE)
    assert store(Interval(-0.1, 0.5), "float32") == Interval(-TENTH_ABOVE, 0.5)
    assert store(Interval(0.1, 0.1), "float64") == Interval(0.1, 0.1)
    assert store(Interval(-1e39, 1e39), "float32").high == INF
    assert store(Interval(-1, 3), "uint8") == full("uint8")
    assert store(Interval(1e-50, 1e-50), "float32") == Interval(0.0, 1.401298464324817e-45)


SCOPE = {
    "x": bound("x", "float32", values=Interval(-2, 3)),
    "p": bound("p", "float32", values=Interval(1, 4)),
    "any": bound("any", "float32"),
    "i": bound("i", "int64", values=Interval(-2, 5)),
    "j": bound("j", "int64", values=Interval(1, 3)),
    "u": bound("u", "uint8", values=Interval(0, 9)),
    "v": bound("v", "float32", 3, values=Interval(-1, 2)),
    "k": bound("k", "int64", 4, values=Interval(0, 2)),
    "anys": bound("anys", "float32", 3),
    "free": binding("free", Type("float32"), NUMBERS),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + p", Interval(-1, 7)),
        ("x - x", Interval(0, 0)),
        ("x - (x + 0)", Interval(-5, 5)),
        ("x * p", Interval(-8, 12)),
        ("x / p", Interval(-2, 3)),
        ("p / x", ANYTHING),
        ("-x", Interval(-3, 2)),
        ("abs(x)", Interval(0, 3)),
        ("abs(-p)", Interval(1, 4)),
        ("sign(x)", Interval(-1, 1)),
        ("square(x)", Interval(0, 9)),
        ("i ** 2", Interval(0, 25)),
        ("i ** 3", Interval(-8, 125)),
        ("i // j", Interval(-2, 5)),
        ("i % 3", Interval(0, 2)),
        ("j % 5", Interval(1, 3)),
        ("i % -3", Interval(-2, 0)),
        ("x % p", Interval(0, 4)),
        ("u + 250", Interval(0, 255)),
        ("u + 1", Interval(1, 10)),
        ("clip(any, -2, 2)", Interval(-2, 2, True)),
        ("clip(free, -2, 2)", Interval(-2, 2)),
        ("min(x, p)", Interval(-2, 3)),
        ("max(x, 0)", Interval(0, 3)),
        ("where(x > 0, x, 7)", Interval(-2, 7)),
        ("sin(x)", Interval(-1, 1)),
        ("sin(any)", Interval(-1, 1, True)),
        ("free - free", Interval(0, 0, True)),
        ("free - any", ANYTHING),
        ("free * 0", Interval(0, 0, True)),
        ("floor(x / 2)", Interval(-1, 1)),
        ("int64(x)", Interval(-2, 3)),
        ("int64(any)", full("int64")),
        ("sum(k)", Interval(0, 8)),
        ("argmax(v)", Interval(0, 2)),
        ("cumsum(k)", Interval(0, 8)),
        ("cumsum(k - 1)", Interval(-4, 4)),
        ("cumsum(k + 1)", Interval(1, 12)),
        ("cumsum(k > 1)", Interval(0, 4)),
        ("cumprod(k)", Interval(0, 16)),
        ("cumprod(k - 2)", Interval(-8, 16)),
        ("cumprod(k - 1)", Interval(-1, 1)),
        ("prod(k + 1)", Interval(1, 81)),
        ("prod(k - 3)", Interval(1, 81)),
        ("sort(v)", Interval(-1, 2)),
        ("argsort(v)", Interval(0, 2)),
        ("softmax(v)", Interval(0, 1)),
        ("softmax(anys)", Interval(0, 1, True)),
        ("log_softmax(anys)", Interval(-math.inf, 0, True)),
        ("softplus(any)", Interval(0, math.inf, True)),
        ("sigmoid(any)", Interval(0, 1, True)),
        ("expm1(any)", Interval(-1, INF, True)),
        ("log_sigmoid(any)", Interval(-math.inf, 0, True)),
        ("var(zeros(3))", Interval(0, 0)),
        ("outer(v, v)", Interval(-2, 4)),
        ("flip(v)", Interval(-1, 2)),
        ("roll(v, 1)", Interval(-1, 2)),
        ("reshape(k, (2, 2))", Interval(0, 2)),
        ("exponential(p)", Interval(0, INF)),
        ("exponential(0)", Interval(0, 0)),
        ("categorical(k)", Interval(0, 3)),
        ("permutation(5)", Interval(0, 4)),
        ("poisson(p)", Interval(0, 2**53)),
        ("poisson(0)", Interval(0, 0)),
        ("k[permutation(4)]", Interval(0, 2)),
        ("outer(v, k)[:, argsort(k)]", Interval(-2, 4)),
        ("max(v)", Interval(-1, 2)),
        ("stack(x, p)", Interval(-2, 4)),
        ("arange(4)", Interval(0, 3)),
        ("one_hot(k, 3)", Interval(0, 1)),
        ("zeros(3)", Interval(0, 0)),
        ("randint(2, 6)", Interval(2, 5)),
        ("randint(0, j)", Interval(0, 2)),
        ("x > 0", Interval(0, 1)),
        ("2 * pi", point(2 * math.pi)),
    ],
)
def test_operations(text: str, expected: Interval) -> None:
    assert typed(text, SCOPE).interval == expected


@pytest.mark.parametrize("text", ["sqrt(x)", "log(x)", "asin(x)", "acos(x)"])
def test_outside_of_their_domain_functions_may_give_nan(text: str) -> None:
    assert typed(text, SCOPE).interval.nan


def test_ends_of_rounded_functions_are_close() -> None:
    for text, low, high in (
        ("logsumexp(v)", -1 + math.log(3), 2 + math.log(3)),
        ("log_sigmoid(x)", -math.log1p(math.exp(2)), -math.log1p(math.exp(-3))),
        ("softplus(x)", math.log1p(math.exp(-2)), math.log1p(math.exp(3))),
        ("log_softmax(v)", -3 - math.log(3), 0),
        ("sigmoid(x)", 1 / (1 + math.exp(2)), 1 / (1 + math.exp(-3))),
        ("var(v)", 0, 2.25),
        ("var(v, correction=1)", 0, 2.25 * 1.5),
        ("std(v)", 0, 1.5),
        ("cumsum(v)", -3, 6),
        ("cumprod(v)", -4, 8),
    ):
        found = typed(text, SCOPE).interval
        assert not found.nan, text
        assert low - 1e-4 < found.low <= low, (text, found)
        assert high <= found.high < high + 1e-4, (text, found)


def test_a_proof_goes_through_a_chain_of_operations() -> None:
    node = typed("k[clip(int64(floor((clip(any, -1, 1) + 1) * 1.5)), 0, 3)]", SCOPE)
    assert node.type == Type("int64", ())
