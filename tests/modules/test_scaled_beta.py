"""The Beta distribution on an interval: torch's, stretched."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from specgen_runtime.modules import BetaParamExtractor, ScaledBeta
from specgen_runtime.modules.distributions import has_analytic_kl, kl_divergence, rsample_and_log_prob
from torch import Tensor
from torch.distributions import AffineTransform, Beta, Independent, TransformedDistribution

BOUNDS = [(0.0, 1.0), (-2, 3), (torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([1.0, 3.0, 0.5]))]


def weights(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return 1 + 3 * torch.rand(5, 3, dtype=dtype), 1 + 3 * torch.rand(3, dtype=dtype)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_it_is_the_beta_distribution_of_torch_stretched(bounds: tuple[Any, Any]) -> None:
    concentration1, concentration0 = weights()
    low, high = (torch.as_tensor(bound, dtype=torch.float64) for bound in bounds)
    d = ScaledBeta(concentration1, concentration0, low=bounds[0], high=bounds[1])
    torchs = Beta(concentration1, concentration0.expand(5, 3))
    stretched = TransformedDistribution(torchs, [AffineTransform(low, high - low)])
    assert (d.batch_shape, d.event_shape) == ((5,), (3,))
    torch.manual_seed(0)
    drawn = d.sample((2,))
    torch.manual_seed(0)
    torch.testing.assert_close(drawn, stretched.sample((2,)))
    torch.testing.assert_close(d.log_prob(drawn), stretched.log_prob(drawn).sum(-1))
    torch.testing.assert_close(d.entropy(), (torchs.entropy() + (high - low).log()).sum(-1))
    torch.testing.assert_close(d.mean, low + (high - low) * torchs.mean)
    torch.testing.assert_close(d.mode, low + (high - low) * torchs.mode)
    torch.testing.assert_close(d.variance, (high - low) ** 2 * torchs.variance)
    assert torch.equal(d.deterministic_sample, d.mean)
    assert d.support.check(drawn).all()
    assert torch.equal(d.min.expand(3), low.expand(3))
    assert torch.equal(d.max.expand(3), high.expand(3))
    assert torch.equal(d.expand((7, 5)).mean, d.mean.expand(7, 5, 3))


def test_gradients() -> None:
    """Those of draws follow from how much of the distribution is below them, so their mean is the gradient of the mean."""
    parameters = tuple(x.requires_grad_() for x in weights())

    def scored(concentration1: Tensor, concentration0: Tensor) -> tuple[Tensor, ...]:
        d = ScaledBeta(concentration1, concentration0, low=-1.0, high=2.0)
        at = torch.tensor([0.1, -0.9, 1.9], dtype=torch.float64)
        return d.log_prob(at), d.entropy(), d.mean, d.variance, d.mode

    assert torch.autograd.gradcheck(scored, parameters)
    d = ScaledBeta(*parameters, low=-1.0, high=2.0)
    torch.manual_seed(0)
    of_draws = torch.autograd.grad(d.rsample((20_000,)).mean(0).sum(), parameters)
    of_mean = torch.autograd.grad(d.mean.sum(), parameters)
    for a, b in zip(of_draws, of_mean, strict=True):
        torch.testing.assert_close(a, b, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_what_is_drawn_at_the_bounds_is_scored(dtype: torch.dtype) -> None:
    """Of weights that are nearly all at the ends, in every precision; outside there is none of it."""
    concentration = torch.full((2_000, 1), 0.01, dtype=dtype, requires_grad=True)
    d = ScaledBeta(concentration, concentration, low=-2.0, high=1.0)
    torch.manual_seed(0)
    action, log_prob = rsample_and_log_prob(d)
    assert isinstance(action, Tensor)
    assert action.dtype == dtype
    assert d.support.check(action).all()
    (gradient,) = torch.autograd.grad(action.sum() + log_prob.sum(), concentration)
    assert gradient.isfinite().all()
    assert d.log_prob(d.min.expand(2_000, 1)).isfinite().all()
    assert d.log_prob(d.max.expand(2_000, 1)).isfinite().all()
    for outside in (-2.5, 1.5):
        assert (d.log_prob(torch.full((2_000, 1), outside, dtype=dtype)) == -math.inf).all()


@pytest.mark.parametrize(
    ("concentration1", "concentration0", "mode"),
    [(2.0, 4.0, -1.0), (1.0, 1.0, 0.0), (0.5, 2.0, -2.0), (2.0, 1.0, 2.0), (0.5, 0.2, 2.0), (0.5, 0.5, 0.0)],
)
def test_mode(concentration1: float, concentration0: float, mode: float) -> None:
    d = ScaledBeta(torch.tensor([concentration1]), torch.tensor([concentration0]), low=-2.0, high=2.0)
    assert float(d.mode) == mode


def test_divergences_are_closed_forms_of_one_interval() -> None:
    concentration1, concentration0 = weights()
    p = ScaledBeta(concentration1, concentration0, low=-2.0, high=3.0)
    q = ScaledBeta(concentration1 + 1, concentration0, low=-2.0, high=3.0)
    assert has_analytic_kl(p, q)
    torch.manual_seed(0)
    draws = p.sample((50_000,))
    torch.testing.assert_close(
        kl_divergence(p, q), (p.log_prob(draws) - q.log_prob(draws)).mean(0), rtol=0.05, atol=0.01
    )
    elsewhere = ScaledBeta(concentration1, concentration0, low=-2.0, high=4.0)
    with pytest.raises(
        ValueError, match=r"distributions on two intervals, from -2\.0 to 3\.0 and from -2\.0 to 4\.0"
    ):
        kl_divergence(p, elsewhere)


def test_what_it_is_made_of() -> None:
    with pytest.raises(ValueError, match="high must be strictly greater than low, got low=1"):
        ScaledBeta(torch.ones(3), torch.ones(3), low=1.0, high=1.0)
    with pytest.raises(ValueError, match="concentration1 must have a dimension for the numbers of an action"):
        ScaledBeta(torch.tensor(2.0), torch.tensor(2.0))
    first, second, other = BetaParamExtractor()(torch.tensor([[-50.0, 0.0, 1.0, 50.0]]), torch.ones(2))
    torch.testing.assert_close(first, torch.tensor([[1.0, 1 + math.log(2)]]))
    torch.testing.assert_close(second, torch.tensor([[1 + math.log(1 + math.e), 51.0]]))
    assert torch.equal(other, torch.ones(2))
    compound = Independent(Beta(first, second), 1)
    unit = torch.tensor([[0.3, 0.6]])
    torch.testing.assert_close(ScaledBeta(first, second).log_prob(unit), compound.log_prob(unit))
