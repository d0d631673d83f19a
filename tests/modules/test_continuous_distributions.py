"""Distributions of continuous actions: TorchRL's numbers where it has any, the formulas where it has none."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from specgen_runtime.modules import distributions as ours
from torch import Tensor

DTYPES = [torch.float32, torch.float64]
BOUNDS = [(-1.0, 1.0), (-2, 3), (torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([1.0, 3.0, 0.5]))]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def parameters(dtype: torch.dtype, *batch: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.randn(*batch, 3, dtype=dtype), torch.rand(3, dtype=dtype) + 0.1


def everything(module: Any, dtype: torch.dtype, bounds: tuple[Any, Any], event_dims: int) -> list[Tensor]:
    """Draws, scores and gradients of a TanhNormal."""
    loc, scale = (x.requires_grad_() for x in parameters(dtype, 5, 4))
    low, high = (torch.as_tensor(bound, dtype=dtype) for bound in bounds)
    d = module.TanhNormal(loc, scale, low=low, high=high, event_dims=event_dims)
    torch.manual_seed(0)
    action = d.rsample((2,))
    log_prob = d.log_prob(action.detach())
    drawn, scored = d.rsample_and_log_prob()
    sampled, sampled_score = d.sample_and_log_prob((3,))
    total = log_prob.sum() + scored.sum() + action.sin().sum() + drawn.cos().sum() + sampled_score.sum()
    gradients = torch.autograd.grad(total, (loc, scale))
    corner = d.log_prob(torch.as_tensor(high).expand(5, 4, 3))
    shape = torch.tensor([*d.batch_shape, -1, *d.event_shape])
    return [action, log_prob, drawn, scored, sampled, sampled_score, *gradients, corner, d.sample(), shape]


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("event_dims", [0, 1, 2])
def test_tanh_normal_is_torchrls(dtype: torch.dtype, bounds: tuple[Any, Any], event_dims: int) -> None:
    theirs = pytest.importorskip("torchrl.modules.distributions")
    for a, b in zip(
        everything(ours, dtype, bounds, event_dims),
        everything(theirs, dtype, bounds, event_dims),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_tanh_normal_is_a_density(dtype: torch.dtype) -> None:
    """Of one number: it integrates to 1, and to the share of the draws over a part of the interval."""
    d = ours.TanhNormal(torch.tensor(0.4, dtype=dtype), 0.8, low=-1, high=3)
    edges = torch.linspace(-1, 3, 400_001, dtype=torch.float64)
    density = d.log_prob(((edges[1:] + edges[:-1]) / 2).to(dtype)).double().exp()
    assert float(density.sum() * 1e-5) == pytest.approx(1.0, abs=1e-4)
    torch.manual_seed(0)
    below = float((d.sample((100_000,)) < 1.5).double().mean())
    assert float(density[:250_000].sum() * 1e-5) == pytest.approx(below, abs=5e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_draws_of_a_saturated_tanh_normal_are_scored_where_they_were_drawn(dtype: torch.dtype) -> None:
    """Where tanh is 1 in floating point, atanh can't say what was drawn; the score of the draw knows it."""
    loc = torch.tensor([30.0, -30.0], dtype=dtype)
    d = ours.TanhNormal(loc, 0.1)
    torch.manual_seed(0)
    action, log_prob = d.rsample_and_log_prob((1000,))
    torch.manual_seed(0)
    x = torch.distributions.Normal(loc.double(), 0.1).rsample((1000,)) if dtype == torch.float64 else None
    if x is not None:
        slope = 2 * (math.log(2.0) - x - torch.nn.functional.softplus(-2 * x))
        expected = (torch.distributions.Normal(loc.double(), 0.1).log_prob(x) - slope).sum(-1)
        torch.testing.assert_close(log_prob, expected, rtol=1e-10, atol=1e-10)
    assert torch.equal(log_prob, d.log_prob(action))
    assert (log_prob - d.log_prob(action.clone())).abs().min() > 50
    assert (action.abs() < 1).all()


def test_mode_of_a_tanh_normal_is_where_its_density_is_greatest() -> None:
    d = ours.TanhNormal(
        torch.tensor([-2.0, -0.01, 0.3, 0.6]), torch.tensor([0.3, 1.5, 0.9, 0.1]), event_dims=0
    )
    grid = torch.linspace(-1, 1, 200_001)[1:-1, None]
    assert torch.allclose(d.get_mode(), grid[d.log_prob(grid).argmax(0), 0], atol=1e-4)
    with pytest.raises(NotImplementedError, match="get_mode"):
        _ = d.mode
    with pytest.raises(NotImplementedError, match="no mean in closed form"):
        _ = d.mean


def test_parameters_of_a_tanh_normal() -> None:
    loc = torch.randn(4, 3)
    d = ours.TanhNormal(loc, torch.ones_like, low=-2.0, high=2.0)
    assert torch.equal(d.scale, torch.ones(4, 3))
    assert torch.allclose(d.deterministic_sample, 2 * loc.tanh())
    assert (d.min, d.max) == (torch.tensor(-2.0), torch.tensor(2.0))
    d.update(loc[:2], 0.5)
    assert (d.batch_shape, d.event_shape) == ((2,), (3,))
    assert d.expand((7, 2)).log_prob(torch.zeros(3)).shape == (7, 2)
    squashed = ours.TanhNormal(100 * loc, 1.0, upscale=2.0, tanh_loc=True)
    assert torch.allclose(squashed.loc, 2 * (50 * loc).tanh())
    with pytest.raises(ValueError, match="high must be strictly greater than low, got low=1, high=1"):
        ours.TanhNormal(loc, 1.0, low=1, high=1)
    with pytest.raises(ValueError, match="high must be strictly greater than low"):
        ours.TanhNormal(loc, 1.0, low=torch.tensor([0.0, 0.0, 2.0]), high=1)
    with pytest.raises(ValueError, match=r"loc of shape \(4, 3\) has not 3 dimensions"):
        ours.TanhNormal(loc, 1.0, event_dims=3)
