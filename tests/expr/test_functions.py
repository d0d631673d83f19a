"""Declared functions and integrators, run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from specgen_runtime.functional import euler, rk4

from specgen.diagnostics import Sink
from specgen.expr import ANYTHING, Binding, Type, infer_function, to_torch
from specgen.expr.functions import FunctionBody
from tests.expr.scopes import bound, param
from tests.expr.texts import Text, typed

VECTOR = Type("float32", (2,))
SCALAR = Type("float32")
PARAMS = SimpleNamespace(g=9.5)
SCOPE: dict[str, Binding] = {"g": param("g"), "dt": param("dt")}


def _pendulum() -> FunctionBody:
    sink = Sink()
    body = infer_function(
        "slope",
        "pendulum_slope",
        [("s", VECTOR, ANYTHING), ("push", SCALAR, ANYTHING)],
        [("th", Text("s[0]")), ("pull", Text("-g * sin(th)")), ("two", Text("2 * g"))],
        Text("stack(s[1], pull + push / two)"),
        SCOPE,
        sink,
        prefix=("params",),
    )
    assert body is not None, [str(item) for item in sink.items]
    return body


def test_body_reads_like_python() -> None:
    body = _pendulum()
    assert body.lines == (
        ("th", "s[..., 0]"),
        ("pull", "-params.g * torch.sin(th)"),
        ("two", "2 * params.g"),
    )
    assert body.result == "torch.stack((s[..., 1], pull + push / two), dim=-1)"
    assert body.function.result == VECTOR
    assert body.function.prefix == ("params",)


def _compiled(body: FunctionBody) -> Callable[..., torch.Tensor]:
    def run(params: object, s: torch.Tensor, push: torch.Tensor) -> torch.Tensor:
        names = {"params": params, "s": s, "push": push, "torch": torch}
        for name, text in body.lines:
            names[name] = eval(text, names)
        result = eval(body.result, names)
        assert isinstance(result, torch.Tensor)
        return result

    return run


@pytest.mark.parametrize("batch", [(), (1,), (2,), (7,), (4, 3)])
@pytest.mark.parametrize("integrator", ["rk4", "euler"])
def test_integrators_take_functions_by_name(integrator: str, batch: tuple[int, ...]) -> None:
    body = _pendulum()
    scope = {
        "th": bound("th", "float32"),
        "thdot": bound("thdot", "float32"),
        "push": bound("push", "float32", col=True),
    }
    text = to_torch(
        typed(f"{integrator}(slope, stack(th, thdot), 0.05, push)", scope, {"slope": body.function})
    )
    th, thdot, push = torch.randn(3, *batch)
    env = {
        "torch": torch, "partial": partial, "rk4": rk4, "euler": euler, "params": PARAMS,
        "pendulum_slope": _compiled(body), "th": th, "thdot": thdot, "push": push[..., None],
    }  # fmt: skip
    result = eval(text, env)
    assert result.shape == (*batch, 2)
    rows = zip(result.reshape(-1, 2), th.reshape(-1), thdot.reshape(-1), push.reshape(-1), strict=True)
    for row, a, b, force in rows:
        expected = _step(integrator, a.item(), b.item(), force.item())
        torch.testing.assert_close(row, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def _step(integrator: str, th: float, thdot: float, push: float) -> tuple[float, float]:
    def slope(a: float, b: float) -> tuple[float, float]:
        return b, -PARAMS.g * math.sin(a) + push / (2 * PARAMS.g)

    dt = 0.05
    k1 = slope(th, thdot)
    if integrator == "euler":
        return th + dt * k1[0], thdot + dt * k1[1]
    k2 = slope(th + dt / 2 * k1[0], thdot + dt / 2 * k1[1])
    k3 = slope(th + dt / 2 * k2[0], thdot + dt / 2 * k2[1])
    k4 = slope(th + dt * k3[0], thdot + dt * k3[1])
    return (
        th + dt / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0]),
        thdot + dt / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1]),
    )


def test_rk4_is_of_the_fourth_order() -> None:
    def decay(y: torch.Tensor) -> torch.Tensor:
        return -y

    one = torch.ones((), dtype=torch.float64)
    errors = [abs(rk4(decay, one, dt).item() - math.exp(-dt)) for dt in (0.2, 0.1)]
    assert errors[0] / errors[1] == pytest.approx(32, rel=0.1)
    assert euler(decay, one, 0.5).item() == 0.5


def test_a_function_draws_nothing() -> None:
    sink = Sink()
    assert (
        infer_function("f", "f", [("x", SCALAR, ANYTHING)], [], Text("x + uniform(0, 1)"), {}, sink) is None
    )
    assert [item.code for item in sink.items] == ["SG805"]


def test_every_mistake_of_a_body_is_reported() -> None:
    sink = Sink()
    lets = [("a", Text("y + 1")), ("b", Text("x and x"))]
    assert infer_function("f", "f", [("x", SCALAR, ANYTHING)], lets, Text("x[0]"), {}, sink) is None
    assert {item.code for item in sink.items} == {"SG803", "SG806", "SG807"}
