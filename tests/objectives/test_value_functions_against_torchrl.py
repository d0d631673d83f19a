"""The value estimates as pure functions give TorchRL's numbers, under its names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from specgen_runtime.objectives.value import functional as F

from tests.objectives.steps import random_discounts, random_steps

peer = pytest.importorskip("torchrl.objectives.value.functional")
pytestmark = pytest.mark.peers

SHAPES = [
    ((3, 17, 1), -2),
    ((17, 2), -2),
    ((4, 3, 33, 2), -2),
    ((5, 40, 3, 1), -3),
    ((6, 9), -1),
    ((50, 4, 1), 0),
    ((2, 600, 1), 1),
    ((8, 1, 1), -2),
]
DTYPES = {torch.float64: 1e-10, torch.float32: 2e-5}


def cases() -> Iterator[tuple[str, str, tuple[int, ...], int]]:
    """What TorchRL takes: `reward2go` one discount and small batches; only lambda returns need not roll."""
    for name in peer.__all__:
        for kind in ("scalar", "each step", "not rolling"):
            for shape, time_dim in SHAPES:
                if name == "reward2go":
                    fits = kind == "scalar" and len(shape) <= 3 and shape[time_dim] > 1
                else:
                    fits = kind != "not rolling" or ("td_lambda" in name and shape[time_dim] < 100)
                if fits:
                    yield name, kind, shape, time_dim


def test_every_name_is_here() -> None:
    assert set(peer.__all__) <= set(F.__all__)


@pytest.mark.parametrize(("name", "kind", "shape", "time_dim"), list(cases()))
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_torchrl(
    name: str, kind: str, shape: tuple[int, ...], time_dim: int, dtype: torch.dtype
) -> None:
    arguments, options = arguments_of(name, shape, time_dim, dtype, kind)
    expected = outputs(getattr(peer, peer_of(name, kind))(*arguments, **options))
    ours = outputs(getattr(F, name)(*arguments, **options))
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=DTYPES[dtype])


def peer_of(name: str, kind: str) -> str:
    """TorchRL's vectorised functions do not take a discount for each step, or build ``[time, time]`` for it."""
    return name if kind == "scalar" else name.removeprefix("vec_")


def arguments_of(
    name: str, shape: tuple[int, ...], time_dim: int, dtype: torch.dtype, kind: str
) -> tuple[list[Any], dict[str, Any]]:
    steps = random_steps(*shape, dtype=dtype)
    discounts = [tensor.to(dtype) for tensor in random_discounts(*shape)]
    if kind == "scalar":
        discounts = [torch.tensor(0.97, dtype=dtype), torch.tensor(0.9, dtype=dtype)]
    gamma, lmbda = discounts
    options: dict[str, Any] = {"time_dim": time_dim}
    if kind == "not rolling":
        options["rolling_gamma"] = False
    if "td0" in name:
        options = {}
    if name == "reward2go":
        return [steps.reward, steps.done, 0.97], options
    if name == "vtrace_advantage_estimate":
        log_pi, log_mu = (0.3 * tensor for tensor in random_steps(*shape, seed=5, dtype=dtype)[:2])
        thresholds = [torch.tensor(one, dtype=dtype) for one in (1.2, 0.8)]
        return [gamma, log_pi, log_mu, *steps, *thresholds], options
    first = [gamma] if "td0" in name or "td1" in name else [gamma, lmbda]
    if name == "td0_return_estimate":
        return [gamma, steps.next_value, steps.reward, steps.terminated], options
    return [*first, *(steps if "advantage" in name else steps[1:])], options


def outputs(made: Any) -> tuple[torch.Tensor, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_float64_with_numbers_as_discounts_is_float64() -> None:
    """TorchRL multiplies the number with an integer flag, in float32."""
    steps = random_steps(3, 50, 1)
    exact = peer.generalized_advantage_estimate(
        torch.tensor(0.97, dtype=torch.float64), torch.tensor(0.9, dtype=torch.float64), *steps
    )[0]
    ours = F.generalized_advantage_estimate(0.97, 0.9, *steps)[0]
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-12)
    theirs = peer.generalized_advantage_estimate(0.97, 0.9, *steps)[0]
    assert (theirs - exact).abs().max() > 1e-8


def test_a_discount_for_each_step_works_in_the_vectorised_functions() -> None:
    steps = random_steps(3, 20, 1)
    gamma, lmbda = random_discounts(3, 20, 1)
    expected = peer.td_lambda_return_estimate(gamma, lmbda, *steps[1:])
    torch.testing.assert_close(F.vec_td_lambda_return_estimate(gamma, lmbda, *steps[1:]), expected)
    with pytest.raises(RuntimeError, match="size"):
        peer.vec_td_lambda_return_estimate(gamma, lmbda, *steps[1:])
