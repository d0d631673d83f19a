"""Draws scored where they were drawn, and what stands for a distribution."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import distributions as ours
from specgen_runtime.modules.distributions import (
    deterministic_sample,
    rsample_and_log_prob,
    sample_and_log_prob,
)
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution, set_composite_lp_aggregate
from torch import distributions as D

N = D.Normal
LOC = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)
SCALE = torch.tensor([0.5, 1.5], dtype=torch.float64)

DISTRIBUTIONS = {
    "normal": lambda loc: N(loc, SCALE),
    "independent": lambda loc: D.Independent(N(loc, SCALE), 1),
    "tanh": lambda loc: ours.TanhNormal(loc, SCALE, low=-2.0, high=1.0),
    "transformed": lambda loc: D.TransformedDistribution(
        D.Independent(N(loc, SCALE), 1), [D.TanhTransform(), D.AffineTransform(1.0, 3.0)]
    ),
    "each transformed": lambda loc: D.Independent(
        D.TransformedDistribution(N(loc, SCALE), D.ExpTransform()), 1
    ),
    "event of two": lambda loc: D.TransformedDistribution(N(loc, SCALE), D.StickBreakingTransform()),
    "truncated": lambda loc: ours.TruncatedNormal(loc, SCALE),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_draw_and_its_log_prob(name: str, shape: tuple[int, ...]) -> None:
    """The same as drawing and scoring apart, where inverting loses no digits; so are the gradients."""
    loc = LOC.clone().requires_grad_()
    d = DISTRIBUTIONS[name](loc)
    torch.manual_seed(0)
    drawn, log_prob = rsample_and_log_prob(d, shape)
    torch.manual_seed(0)
    again = d.rsample(shape)
    assert torch.equal(drawn, again)
    expected = d.log_prob(again.clone())
    assert log_prob.shape == expected.shape == shape + d.batch_shape
    torch.testing.assert_close(log_prob, expected, rtol=1e-8, atol=1e-8)
    weights = torch.linspace(0.3, 1.0, log_prob.numel(), dtype=torch.float64).view(log_prob.shape)
    gradients = [
        torch.autograd.grad((weights * x).sum(), loc, retain_graph=True)[0] for x in (log_prob, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_without_gradients_through_the_draw(name: str) -> None:
    loc = LOC.clone().requires_grad_()
    d = DISTRIBUTIONS[name](loc)
    torch.manual_seed(0)
    drawn, log_prob = sample_and_log_prob(d, (3,))
    assert not drawn.requires_grad
    gradient = torch.autograd.grad(log_prob.sum(), loc, retain_graph=True)[0]
    expected = torch.autograd.grad(d.log_prob(drawn.clone()).sum(), loc)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-7, atol=1e-7)
    torch.manual_seed(0)
    assert sample_and_log_prob(d, (3,), reparameterize=True)[0].requires_grad


def test_what_is_saturated_is_scored_where_it_was_drawn() -> None:
    """One draw from a normal distribution far out, squashed by tanh: the latent number scores it."""
    base = N(torch.tensor([25.0]), 0.1)
    torch.manual_seed(0)
    drawn, log_prob = rsample_and_log_prob(D.TransformedDistribution(base, D.TanhTransform()))
    torch.manual_seed(0)
    latent = base.rsample()
    change = 2 * (torch.log(torch.tensor(2.0)) - latent - torch.nn.functional.softplus(-2 * latent))
    torch.testing.assert_close(log_prob, base.log_prob(latent) - change)
    assert drawn.item() == 1.0
    assert not torch.isfinite(D.TransformedDistribution(base, D.TanhTransform()).log_prob(drawn)).all()


def composite() -> CompositeDistribution:
    parameters = TensorDict(
        {
            "move": {"loc": LOC, "scale": SCALE.expand(2, 2)},
            "turn": {"logits": LOC},
            ("deep", "at"): {"loc": LOC},
        },
        [2],
    )
    kinds = {"move": ours.TanhNormal, "turn": ours.OneHotCategorical, ("deep", "at"): N}
    return CompositeDistribution(parameters, kinds, extra_kwargs={("deep", "at"): {"scale": 1.0}})


def test_composites() -> None:
    d = composite()
    torch.manual_seed(0)
    drawn, log_probs = sample_and_log_prob(d, (3,))
    torch.manual_seed(0)
    assert (drawn == d.sample(torch.Size([3]))).all()
    assert drawn.batch_size == log_probs.batch_size == (3, 2)
    assert set(log_probs.keys(True, True)) == {"move_log_prob", "turn_log_prob", ("deep", "at_log_prob")}
    scores = {"move": (3, 2), "turn": (3, 2), ("deep", "at"): (3, 2, 2)}
    for name, shape in scores.items():
        key = f"{name}_log_prob" if isinstance(name, str) else (*name[:-1], f"{name[-1]}_log_prob")
        assert log_probs[key].shape == shape
        torch.testing.assert_close(log_probs[key], d.dists[name].log_prob(drawn[name].clone()))
    torch.manual_seed(0)
    with set_composite_lp_aggregate(True):
        drawn, total = sample_and_log_prob(d, (3,))
        torch.testing.assert_close(total, d.log_prob(drawn.clone()))
    parts = [log_probs["move_log_prob"], log_probs["turn_log_prob"], log_probs["deep", "at_log_prob"].sum(-1)]
    torch.testing.assert_close(total, sum(parts))


def test_what_stands_for_a_distribution() -> None:
    scaled = D.AffineTransform(1.0, 3.0)
    assert torch.equal(deterministic_sample(DISTRIBUTIONS["tanh"](LOC)), 1.5 * LOC.tanh() - 0.5)
    assert torch.equal(deterministic_sample(D.Independent(N(LOC, SCALE), 1)), LOC)
    assert torch.equal(deterministic_sample(D.TransformedDistribution(N(LOC, SCALE), scaled)), 1 + 3 * LOC)
    assert torch.equal(deterministic_sample(D.Categorical(logits=LOC)), LOC.argmax(-1))
    both = deterministic_sample(composite())
    assert torch.equal(both["move"], LOC.tanh())
    assert torch.equal(both["turn"], ours.OneHotCategorical(LOC).mode)
    assert torch.equal(both["deep", "at"], LOC)
