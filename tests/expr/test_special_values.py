"""NaN, infinities and the ends of dtypes: torch and the reference agree on them too."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from specgen_runtime.functional import categorical_quantile, expit, poisson_quantile

from specgen.expr import Interval, Type, full
from specgen.expr.interpret import interpret
from tests.expr.printing import to_torch
from tests.expr.scopes import binding, bound
from tests.expr.texts import typed

SPECIAL = np.array([math.nan, math.inf, -math.inf, -0.0, 1e-45, 3.4e38, -1e-9, 2.5, -3.5], dtype=np.float32)
SCOPE = {"x": bound("x", "float32"), "v": bound("v", "float32", 2), "u": bound("u", "uint8")}


@pytest.mark.parametrize(
    "text",
    [
        "clip(x, -2, 2)", "min(x, 1)", "max(x, 1)", "max(x, 0) + min(x, 0)", "abs(x)", "floor(x)", "round(x)",
        "isnan(x)", "isfinite(x)", "x > 0", "x == x", "x * 0", "x + inf", "x % (2 * pi)", "x // 2", "-x",
        "where(isnan(x), 0, x)", "2 / x", "3 / x", "square(x)", "sigmoid(x) > 0.5", "isnan(sigmoid(x))",
        "log_sigmoid(x) > -1", "isnan(softplus(x))", "softplus(x) < 1", "isnan(log_sigmoid(x))",
    ],
)  # fmt: skip
def test_special_floats(text: str) -> None:
    node = typed(text, SCOPE)
    got = eval(
        to_torch(node), {"torch": torch, "math": math, "expit": expit, "x": torch.from_numpy(SPECIAL)}
    ).numpy()
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


HARD = (
    [math.nan, 1.0, 2.0], [math.inf, 1.0, -2.0], [-math.inf, 1.0, 2.0], [math.inf, -math.inf, 0.0],
    [-math.inf, -math.inf, -math.inf], [3e38, 3e38, -3e38], [-0.0, 0.0, -0.0], [1e-45, -1e-45, 0.0], [5.0, 5.0, 5.0],
    [1e4, -1e4, 88.0],
)  # fmt: skip


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "cumsum(w)", "cumprod(w)", "sort(w)", "argsort(w)", "softmax(w)", "log_softmax(w)", "logsumexp(w)", "var(w)", "std(w)",
        "flip(w)", "roll(w, 1)", "outer(w, w)", "sigmoid(w)", "sum(w)", "prod(w)", "reshape(w, (3, 1))",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_special_vectors(text: str, bounded: bool) -> None:
    """Where torch and NumPy agree on what is NaN, and what comes out lies in the interval of what goes in."""
    for row in HARD:
        value = np.array(row, dtype=np.float32)
        numbers = [float(one) for one in value if not math.isnan(one)]
        given = Interval(min(numbers), max(numbers), len(numbers) < 3) if bounded else full("float32")
        node = typed(text, {"w": binding("w", Type("float32", (3,)), given)})
        env = {"torch": torch, "expit": expit, "w": torch.from_numpy(value)}
        got = eval(to_torch(node), env).numpy()
        expected = np.asarray(interpret(node, {"w": value}))
        # where partial results overflow, torch computes in double precision and NumPy does not
        if text not in ("cumsum(w)", "var(w)", "std(w)") or abs(value).max() < 1e38:
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=f"{row}")
        for found in (got, expected):
            finite = found[~np.isnan(found)] if found.dtype.kind == "f" else found
            assert np.all((node.interval.low <= finite) & (finite <= node.interval.high)), (
                row,
                node.interval,
            )
            assert node.interval.nan or finite.size == found.size, (row, found)


@pytest.mark.parametrize("count", [3, 40, 1000])
@pytest.mark.parametrize("text", ["cumsum(w)", "sum(w)", "cumprod(w)", "prod(w)", "var(w)", "std(w, correction=1)", "logsumexp(w)"])  # fmt: skip
def test_rounding_stays_in_the_interval(text: str, count: int) -> None:
    """Values at the very ends, in each order and alternating: nothing computed leaves the interval."""
    rng = np.random.default_rng(count)
    for low, high in (
        (0.1, 0.1),
        (-1.0, 1.0),
        (0.1, 0.3),
        (-0.9, -0.7),
        (1e7, 1e7 + 1),
        (-1.001, 0.999),
        (0.0, 1e-30),
    ):
        given = Interval(*(float(np.float32(end)) for end in (low, high)))
        node = typed(text, {"w": binding("w", Type("float32", (count,)), given)})
        ends = np.array([given.low, given.high], dtype=np.float32)
        rows = [
            ends[np.arange(count) % 2],
            np.full(count, ends[0]),
            np.full(count, ends[1]),
            np.sort(ends[rng.integers(0, 2, count)]),
        ]
        for row in rows:
            found = eval(to_torch(node), {"torch": torch, "w": torch.from_numpy(row)}).double().numpy()
            assert not np.isnan(found).any()
            assert node.interval.low <= found.min(), (low, high, node.interval)
            assert found.max() <= node.interval.high, (low, high, node.interval)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sigmoid_has_the_same_bits_in_every_shape(dtype: torch.dtype) -> None:
    x = 9 * torch.randn(40, 3, 5, dtype=dtype, generator=torch.Generator().manual_seed(0))
    rows = torch.stack([expit(row) for row in x])
    assert torch.equal(expit(x), rows)
    torch.testing.assert_close(rows, torch.sigmoid(x))


def test_a_sigmoid_has_gradients_everywhere() -> None:
    x = torch.tensor([-1e4, -100.0, -30.0, 0.0, 2.0, 1e4], requires_grad=True)
    (gradient,) = torch.autograd.grad(expit(x).sum(), x)
    expected = torch.sigmoid(x.detach()) * torch.sigmoid(-x.detach())
    torch.testing.assert_close(gradient, expected)


def test_equal_elements_are_sorted_as_they_stand() -> None:
    node = typed("argsort(w)", {"w": bound("w", "int64", 6)})
    value = torch.tensor([[2, 1, 2, 1, 2, 1]] * 2)
    assert eval(to_torch(node), {"w": value}).tolist() == [[1, 3, 5, 0, 2, 4]] * 2


def test_a_class_without_weight_is_never_drawn() -> None:
    scope = {"p": bound("p", "float32", 4, values=Interval(0, 1))}
    printed = to_torch(typed("categorical(p)", scope))
    ends = torch.tensor([0.0, 2.0**-24, 0.5 - 2.0**-25, 0.5, 1 - 2.0**-24])
    env = {"torch": torch, "draw": ends, "categorical_quantile": categorical_quantile}
    for weights, expected in (
        ((0.0, 0.3, 0.0, 0.3), {1, 3}),
        ((0.5, 0.0, 0.5, 0.0), {0, 2}),
        ((0.0, 0.0, 0.0, 1e-30), {3}),
        ((0.1, 0.7, 0.0, 0.0), {0, 1}),
    ):
        drawn = eval(printed, env | {"p": torch.tensor(weights).expand(5, 4)})
        assert drawn.dtype == torch.int64
        assert set(drawn.tolist()) == expected


def test_counts_are_quantiles_of_the_distribution() -> None:
    """At every rate the count is the least whose probability to stay at or below it exceeds the draw."""
    draws = torch.cat(
        (
            torch.tensor([2.0**-54, 1e-12, 0.5, 1 - 1e-10], dtype=torch.float64),
            torch.rand(200, dtype=torch.float64),
        )
    )
    for exponent in np.arange(-12, 6, 0.25):
        rate = torch.full_like(draws, 10.0**exponent)
        count = poisson_quantile(rate, draws)
        assert (torch.special.gammaincc(count + 1.0, rate) > draws).all(), exponent
        below = torch.special.gammaincc(count.clamp(min=1).double(), rate)
        assert ((below <= draws) | (count == 0)).all(), exponent
    assert poisson_quantile(torch.zeros(3, dtype=torch.float64), draws[:3]).tolist() == [0, 0, 0]
    wild = torch.tensor([math.nan, math.inf, -1.0], dtype=torch.float64)
    assert poisson_quantile(wild, draws[:3]).min() >= 0


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
