"""What the constructor of a generated environment takes for parameters that are one number for all environments."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from specgen_std.envs import CartPole, Pendulum
from torch import nn

from tests.support import generate, imported

SCHEMA = """
specgen: 1
envs:
  Point:
    doc: A point on a line.
    params:
      dt: {default: 0.1, above: 0, max: 1}
      exact: {type: float64, default: 0.1}
      limit: {type: int, default: 3, min: 1}
      windy: false
    state: {x: "float32 in [-10, 10]", n: "int64 in [0, 1000]"}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1]"}
    reset: {x: "uniform(-1, 1)", n: 0}
    step:
      next.x: clip(x + dt * action[0] + float32(where(windy, exact, 0.0)), -10, 10)
      next.n: clip(n + 1, 0, 1000)
      reward: -abs(next.x)
      truncated: next.n >= limit
    observe: {observation: stack(x)}
"""


@pytest.fixture(scope="module")
def point(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with imported(generate({"m.yaml": SCHEMA}, "params_pkg"), "params_pkg", tmp_path_factory.mktemp("p")):
        yield __import__("params_pkg.m", fromlist=["Point"]).Point


@pytest.mark.parametrize(
    "given",
    [
        0.5,
        np.float32(0.5),
        np.float64(0.5),
        np.array(0.5),
        torch.tensor(0.5),
        torch.tensor([0.5]),
        Fraction(1, 2),
    ],
    ids=repr,
)
def test_real_numbers_become_floats(point: Any, given: Any) -> None:
    env = point(dt=given, exact=given)
    assert (type(env.params.dt), env.params.dt, env.params.exact) == (float, 0.5, 0.5)


def test_integers_do_too(point: Any) -> None:
    for given in (1, np.int32(1), torch.tensor(1)):
        dt = point(dt=given).params.dt
        assert (type(dt), dt) == (float, 1.0)


@pytest.mark.parametrize("given", [5, np.int64(5), np.uint8(5), np.array(5), torch.tensor(5)], ids=repr)
def test_integers(point: Any, given: Any) -> None:
    limit = point(limit=given).params.limit
    assert (type(limit), limit) == (int, 5)


@pytest.mark.parametrize("given", [True, np.True_, torch.tensor(True)], ids=repr)
def test_truth_values(point: Any, given: Any) -> None:
    assert point(windy=given).params.windy is True


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"dt": "a"}, TypeError, "^dt must be a real number, got 'a'"),
        ({"dt": None}, TypeError, "^dt must be a real number, got None"),
        ({"dt": True}, TypeError, "^dt must be a real number, got True"),
        ({"dt": np.True_}, TypeError, "^dt must be a real number, got"),
        ({"dt": torch.tensor(True)}, TypeError, "^dt must be a real number, got"),
        ({"dt": 0.5j}, TypeError, "^dt must be a real number, got 0.5j"),
        ({"dt": Decimal("0.5")}, TypeError, "^dt must be a real number, got Decimal"),
        ({"dt": [0.5]}, TypeError, r"^dt must be a real number, got \[0.5\]"),
        ({"dt": torch.ones(2)}, TypeError, r"^dt must be a real number, got Tensor of shape \[2\]"),
        ({"dt": np.ones((1, 1))}, TypeError, r"^dt must be a real number, got ndarray of shape \[1, 1\]"),
        (
            {"dt": nn.Parameter(torch.tensor(0.5))},
            TypeError,
            "^dt is a number without gradients.*per_env: true",
        ),
        ({"exact": "0.1"}, TypeError, "^exact must be a real number, got '0.1'"),
        ({"dt": 0}, ValueError, "^dt must be > 0, got 0$"),
        ({"dt": 1.5}, ValueError, "^dt must be <= 1, got 1.5$"),
        ({"dt": float("nan")}, ValueError, "^dt must be .* 1, got nan$"),
        ({"exact": 10**400}, ValueError, "^exact must be a number that a float holds"),
        ({"limit": 2.5}, TypeError, "^limit must be an integer, got 2.5"),
        ({"limit": 2.0}, TypeError, "^limit must be an integer, got 2.0"),
        ({"limit": True}, TypeError, "^limit must be an integer, got True"),
        ({"limit": torch.tensor(True)}, TypeError, "^limit must be an integer, got"),
        ({"limit": torch.tensor([1, 2])}, TypeError, r"^limit must be an integer, got Tensor of shape \[2\]"),
        ({"limit": "3"}, TypeError, "^limit must be an integer, got '3'"),
        ({"limit": 0}, ValueError, "^limit must be >= 1, got 0$"),
        ({"limit": 2**63}, ValueError, "^limit must be an integer that int64 holds"),
        ({"windy": 1}, TypeError, "^windy must be True or False, got 1"),
        ({"windy": "no"}, TypeError, "^windy must be True or False, got 'no'"),
    ],
)
def test_wrong_values_are_refused(point: Any, given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        point(**given)


def test_of_the_library() -> None:
    with pytest.raises(ValueError, match=r"^masscart must be > 0, got -1$"):
        CartPole(masscart=-1)
    with pytest.raises(TypeError, match=r"^g must be a real number, got Tensor of shape"):
        Pendulum(batch_size=(3,), g=torch.ones(3))  # type: ignore[arg-type]
