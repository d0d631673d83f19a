"""What intervals decide: warnings where the outcome is certain, and silence where it is not."""

from __future__ import annotations

import pytest

from specgen.diagnostics import Sink
from specgen.expr import Binding, Interval, Type, infer, parse
from specgen.expr.types import Level
from tests.expr.scopes import binding
from tests.expr.texts import Text


def bound(
    name: str, dtype: str, low: float, high: float, nan: bool = False, level: Level = "batch"
) -> Binding:
    return binding(name, Type(dtype, (), level), Interval(low, high, nan))


SCOPE = {
    "x": bound("x", "float32", -10, 10),
    "y": bound("y", "float32", 10, 20),
    "maybe": bound("maybe", "float32", -10, 10, nan=True),
    "k": bound("k", "int64", 0, 3),
    "dt": bound("params.dt", "float32", -2, -1, level="ctor"),
    "n": Binding(Type("int64", (), "lit"), Interval(3, 3), static=3),
}

FOUND = {
    "x > 20": "SG815 `x > 20` is never true: `x` is between -10 and 10",
    "20 < x": "SG815 `20 < x` is never true: `x` is between -10 and 10",
    "x >= 10.5": "SG815 `x >= 10.5` is never true: `x` is between -10 and 10",
    "x > y": "SG815 `x > y` is never true: `x` is between -10 and 10 and `y` is between 10 and 20",
    "k == 4": "SG815 `k == 4` is never true: `k` is between 0 and 3",
    "k != 1 * 1 or 2 != 2": "SG815 `2 != 2` is never true",
    "1 > 2": "SG815 `1 > 2` is never true",
    "maybe > 20": "SG815 `maybe > 20` is never true: `maybe` is between -10 and 10",
    "log(x - 20)": "SG814 this is always NaN: `x - 20` is between -30 and -10, where `log` is not defined",
    "sqrt(-y)": "SG814 this is always NaN: `-y` is between -20 and -10, where `sqrt` is not defined",
    "acos(x + 20)": "SG814 this is always NaN: `x + 20` is between 10 and 30, where `acos` is not defined",
    "sqrt(dt)": "SG805 `dt` is between -2 and -1, where `sqrt` is not defined",
}


@pytest.mark.parametrize("text", FOUND)
def test_what_is_certain_is_said(text: str) -> None:
    assert said(text) == [FOUND[text]]


@pytest.mark.parametrize(
    "text",
    [
        "x > 9",
        "x >= 10",
        "x < y",
        "x == y",
        "maybe <= 10",
        "maybe != 11",
        "x <= 10",
        "k != 4",
        "k >= 0",
        "k == 3",
        "n > 5",
        "ones((2, 3)) > 0",
        "zeros_like(x) == 0",
        "sqrt(x)",
        "log(x + 10)",
        "asin(x)",
        "uniform(x, y)",
        "uniform(k, k)",
        "normal(x, x)",
        "1 / (x - y)",
        "1 / (uniform(0, 1) - uniform(0, 1))",
    ],
)
def test_what_depends_on_the_values_is_let_pass(text: str) -> None:
    assert said(text) == []


def said(text: str) -> list[str]:
    sink, source = Sink(), Text(text)
    expr = parse(source, sink)
    assert expr is not None
    assert infer(expr, SCOPE, source, sink) is not None
    return [f"{item.code} {item.message}" for item in sink.items]
