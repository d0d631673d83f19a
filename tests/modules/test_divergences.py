"""Entropies and divergences: closed forms, and what draws say where there are none."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import distributions as ours
from specgen_runtime.modules.distributions import (
    entropy,
    has_analytic_entropy,
    has_analytic_kl,
    kl_divergence,
)
from tensordict import TensorDict
from tensordict.nn import CompositeDistribution
from torch import distributions as D

LOC = torch.tensor([[0.3, -1.0], [2.0, 0.5]], dtype=torch.float64)
NORMAL = D.Independent(D.Normal(LOC, 0.5), 1)


def tanh(loc: torch.Tensor, scale: float = 0.5) -> ours.TanhNormal:
    return ours.TanhNormal(loc, scale, low=-2.0, high=1.0)


def test_which_have_closed_forms() -> None:
    assert has_analytic_entropy(NORMAL)
    assert has_analytic_entropy(ours.TruncatedNormal(LOC, 0.5))
    assert has_analytic_entropy(ours.OneHotCategorical(LOC))
    assert not has_analytic_entropy(tanh(LOC))
    assert not has_analytic_entropy(D.Independent(D.TransformedDistribution(NORMAL.base_dist, []), 1))
    assert has_analytic_kl(NORMAL, NORMAL)
    assert has_analytic_kl(tanh(LOC), tanh(LOC + 1))
    assert not has_analytic_kl(tanh(LOC), ours.TanhNormal(LOC, 0.5))
    assert not has_analytic_kl(NORMAL, D.Independent(D.Normal(LOC, 0.5), 2))
    assert not has_analytic_kl(ours.TruncatedNormal(LOC, 0.5), ours.TruncatedNormal(LOC, 0.5))


@pytest.mark.peers
def test_torchrl_says_so_too() -> None:
    theirs = pytest.importorskip("torchrl.modules.distributions")
    for d in (NORMAL, tanh(LOC), ours.OneHotCategorical(LOC), D.Categorical(logits=LOC), ours.Delta(LOC)):
        assert has_analytic_entropy(d) == theirs.has_analytic_entropy(d)
        assert has_analytic_kl(d, d) == theirs.has_analytic_kl(d, d)


def test_entropies() -> None:
    torch.testing.assert_close(entropy(NORMAL), NORMAL.entropy())
    torch.manual_seed(0)
    loc = LOC.clone().requires_grad_()
    estimate = entropy(tanh(loc), samples=200_000)
    edges = torch.linspace(-2, 1, 300_001, dtype=torch.float64).view(-1, 1, 1)
    middles = (edges[1:] + edges[:-1]) / 2
    log_prob = ours.TanhNormal(LOC, 0.5, low=-2.0, high=1.0, event_dims=0).log_prob(middles)
    expected = -(log_prob.exp() * log_prob).nan_to_num().sum(0).sum(-1) * 1e-5
    torch.testing.assert_close(estimate, expected, atol=0.02, rtol=0)
    # the derivative of E[log det] in loc: -2 tanh, of which the draws are as many
    gradient = torch.autograd.grad(estimate.sum(), loc)[0]
    latent = NORMAL.sample(torch.Size([200_000]))
    torch.testing.assert_close(gradient, -2 * latent.tanh().mean(0), atol=0.02, rtol=0)


def test_an_entropy_that_is_not_finite_is_estimated() -> None:
    class Endless(D.Normal):
        def entropy(self) -> torch.Tensor:
            return super().entropy() + torch.inf

    torch.manual_seed(0)
    estimate = entropy(Endless(LOC, 0.5), samples=100_000)
    torch.testing.assert_close(estimate, D.Normal(LOC, 0.5).entropy(), atol=0.02, rtol=0)


def test_divergences() -> None:
    p, q = tanh(LOC), tanh(LOC + 1, 0.8)
    before_tanh = D.kl_divergence(p.base_dist, q.base_dist)
    torch.testing.assert_close(kl_divergence(p, q), before_tanh)
    torch.manual_seed(0)
    drawn, log_prob = ours.sample_and_log_prob(p, (100_000,))
    torch.testing.assert_close((log_prob - q.log_prob(drawn)).mean(0), before_tanh, atol=0.05, rtol=0)


@pytest.mark.parametrize("one_hot", [False, True])
def test_divergences_of_masked_choices(one_hot: bool) -> None:
    """By mask or by indices in any order; what neither allows counts for nothing."""
    kind = ours.MaskedOneHotCategorical if one_hot else ours.MaskedCategorical
    logits = torch.tensor([[0.3, -1.0, 0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    p = kind(logits, indices=torch.tensor([3, 0]))
    q = kind(-logits, mask=torch.tensor([True, False, True, True]))
    of_p, of_q = logits[0, [0, 3]].log_softmax(-1), (-logits[0, [0, 2, 3]]).log_softmax(-1)[[0, 2]]
    expected = (of_p.exp() * (of_p - of_q)).sum(-1, keepdim=True)
    assert has_analytic_kl(p, q)
    torch.testing.assert_close(kl_divergence(p, q), expected)
    gradients = [torch.autograd.grad(x.sum(), logits)[0] for x in (kl_divergence(p, q), expected)]
    torch.testing.assert_close(*gradients)
    assert kl_divergence(q, p).isposinf().all()


def test_divergences_of_choices_are_torchs() -> None:
    for kind in (D.Categorical, ours.OneHotCategorical):
        p, q = kind(logits=LOC), kind(logits=-LOC)
        torch.testing.assert_close(kl_divergence(p, q), D.kl_divergence(p, q))


def test_a_divergence_from_draws() -> None:
    loc = LOC.clone().requires_grad_()
    p, q = ours.TruncatedNormal(loc, 0.5), ours.TruncatedNormal(LOC + 0.3, 0.6)
    torch.manual_seed(0)
    estimate = kl_divergence(p, q, samples=50_000)
    middles = ((torch.arange(20_000, dtype=torch.float64) + 0.5) / 10_000 - 1).view(-1, 1, 1, 1)
    each = [ours.TruncatedNormal(d.loc.unsqueeze(-1), d.scale.unsqueeze(-1)) for d in (p, q)]
    log_p, log_q = (d.log_prob(middles) for d in each)
    expected = (log_p.exp() * (log_p - log_q)).sum(0).sum(-1) * 1e-4
    assert torch.allclose(estimate, expected, atol=0.02)
    assert torch.autograd.grad(estimate.sum(), loc)[0].isfinite().all()


def composite(loc: torch.Tensor) -> CompositeDistribution:
    parameters = TensorDict(
        {"move": {"loc": loc, "scale": torch.ones_like(loc)}, "turn": {"logits": loc}}, [2]
    )
    return CompositeDistribution(parameters, {"move": D.Normal, "turn": ours.OneHotCategorical})


def test_composites_are_summed() -> None:
    p, q = composite(LOC), composite(LOC + torch.tensor([1.0, 0.0]))
    expected = p["move"].entropy().sum(-1) + p["turn"].entropy()
    torch.testing.assert_close(entropy(p), expected)
    moved = D.kl_divergence(p["move"], q["move"]).sum(-1) + D.kl_divergence(p["turn"], q["turn"])
    torch.testing.assert_close(kl_divergence(p, q), moved)
    other = CompositeDistribution(TensorDict({"move": {"loc": LOC}}, [2]), {"move": ours.IndependentNormal},
                                  extra_kwargs={"move": {"scale": 1.0}})  # fmt: skip
    with pytest.raises(ValueError, match="different parts"):
        kl_divergence(p, other)
