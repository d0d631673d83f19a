"""NaN, infinities and the ends of dtypes: torch and the reference agree on them too."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from specgen.expr import to_torch
from specgen.expr.interpret import interpret
from tests.expr.scopes import bound
from tests.expr.texts import typed

SPECIAL = np.array([math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4e38, -1e-9, 2.5, -3.5], dtype=np.float32)
SCOPE = {"x": bound("x", "float32"), "v": bound("v", "float32", 2), "u": bound("u", "uint8")}


@pytest.mark.parametrize(
    "text",
    [
        "clip(x, -2, 2)", "min(x, 1)", "max(x, 1)", "max(x, 0) + min(x, 0)", "abs(x)", "floor(x)", "round(x)",
        "isnan(x)", "isfinite(x)", "x > 0", "x == x", "x * 0", "x + inf", "x % (2 * pi)", "x // 2", "-x",
        "where(isnan(x), 0, x)", "2 / x", "3 / x", "square(x)",
    ],
)  # fmt: skip
def test_special_floats(text: str) -> None:
    node = typed(text, SCOPE)
    got = eval(to_torch(node), {"torch": torch, "math": math, "x": torch.from_numpy(SPECIAL)}).numpy()
    expected = np.array([interpret(node, {"x": value}) for value in SPECIAL])
    np.testing.assert_array_equal(got, expected)
    numbers = expected[~np.isnan(expected)].astype(float)
    assert np.all((node.interval.low <= numbers) & (numbers <= node.interval.high))
    assert node.interval.nan or numbers.size == expected.size


@pytest.mark.parametrize("text", ["max(v)", "min(v)", "sum(v)", "argmax(v)"])
def test_nan_survives_reductions(text: str) -> None:
    value = np.array([1.0, math.nan], dtype=np.float32)
    node = typed(text, SCOPE)
    got = eval(to_torch(node), {"torch": torch, "v": torch.from_numpy(value)}).numpy()
    np.testing.assert_array_equal(got, interpret(node, {"v": value}))


@pytest.mark.parametrize("text", ["u + 250", "u - 10", "u * 100", "-u"])
def test_small_integers_wrap(text: str) -> None:
    node = typed(text, SCOPE)
    value = np.array([0, 1, 9, 200, 255], dtype=np.uint8)
    got = eval(to_torch(node), {"torch": torch, "u": torch.from_numpy(value)}).numpy()
    assert got.dtype == np.uint8
    np.testing.assert_array_equal(got, interpret(node, {"u": value}))


def test_a_small_negative_remainder_is_the_divisor() -> None:
    node = typed("x % (2 * pi)", SCOPE)
    got = eval(to_torch(node), {"math": math, "x": torch.tensor(-1e-9)})
    assert got.item() == np.float32(2 * math.pi)
    assert node.interval.high >= got.item()
