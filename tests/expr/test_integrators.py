"""Integrators of declared functions, run."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from specgen_runtime.functional import euler, rk4

from specgen.expr import ANYTHING, Binding, Function, Type
from tests.expr.printing import to_torch
from tests.expr.scopes import bound, param
from tests.expr.texts import typed

VECTOR = Type("float32", (2,))
SCALAR = Type("float32")
PARAMS = SimpleNamespace(g=9.5)
SCOPE: dict[str, Binding] = {"g": param("g"), "dt": param("dt")}


SLOPE = Function(
    "slope", "pendulum_slope", (("s", VECTOR), ("push", SCALAR)), VECTOR, ANYTHING, prefix=("params",)
)


def _slope(params: SimpleNamespace, s: torch.Tensor, push: torch.Tensor) -> torch.Tensor:
    pull = -params.g * torch.sin(s[..., 0])
    return torch.stack((s[..., 1], pull + push / (2 * params.g)), dim=-1)


@pytest.mark.parametrize("batch", [(), (1,), (2,), (7,), (4, 3)])
@pytest.mark.parametrize("integrator", ["rk4", "euler"])
def test_integrators_take_functions_by_name(integrator: str, batch: tuple[int, ...]) -> None:
    scope = {
        "th": bound("th", "float32"),
        "thdot": bound("thdot", "float32"),
        "push": bound("push", "float32", col=True),
    }
    text = to_torch(typed(f"{integrator}(slope, stack(th, thdot), 0.05, push)", scope, {"slope": SLOPE}))
    th, thdot, push = torch.randn(3, *batch)
    env = {
        "torch": torch, "partial": partial, "rk4": rk4, "euler": euler, "params": PARAMS,
        "pendulum_slope": _slope, "th": th, "thdot": thdot, "push": push[..., None],
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
