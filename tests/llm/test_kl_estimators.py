"""Estimates of the KL divergence, against enumeration of all sequences of a small vocabulary."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import pytest
import torch
from specgen_runtime.llm.kl.generated.kl_estimators import kl_full, log_ratio
from specgen_runtime.llm.kl.generated.penalties import clipped_fraction
from specgen_runtime.llm.kl_estimators import k3_kl_token_estimate, kl_estimate
from torch import Tensor

WORDS, TIME = 3, 3
SEQUENCES = list(product(range(WORDS), repeat=TIME))


def tables(seed: int, scale: float = 1.0) -> list[Tensor]:
    """Logits of each token given those before it."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(WORDS,) * (time + 1) for time in range(TIME)]
    return [scale * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def log_probs_of(logits: list[Tensor]) -> Tensor:
    """Of the tokens of all sequences: ``[sequences, time]``."""
    rows = [[logits[k].log_softmax(-1)[words[: k + 1]] for k in range(TIME)] for words in SEQUENCES]
    return torch.stack([torch.stack(row) for row in rows])


class World(NamedTuple):
    """A policy, a reference, and another policy that draws."""

    theta: list[Tensor]
    policy: Tensor
    reference: Tensor
    drawn: Tensor
    full: Tensor

    def gradient(self, value: Tensor) -> Tensor:
        found = torch.autograd.grad(value, self.theta, retain_graph=True, allow_unused=True)
        return torch.cat(
            [
                torch.zeros_like(t).flatten() if g is None else g.flatten()
                for g, t in zip(found, self.theta, strict=True)
            ]
        )

    @property
    def kl(self) -> Tensor:
        """Of sequences: with gradients through states and all."""
        return (self.policy.sum(1).exp() * (self.policy - self.reference).sum(1)).sum()

    def mean(self, estimate: Tensor) -> Tensor:
        """Over sequences that the policy draws, of the sum over tokens; the draw has no gradient."""
        return (self.policy.sum(1).exp().detach() * estimate.sum(1)).sum()


@pytest.fixture(scope="module")
def world() -> World:
    reference = tables(1)
    theta = [(a + 0.5 * b).requires_grad_() for a, b in zip(reference, tables(2), strict=True)]
    drawn = [a.detach() + 0.3 * b for a, b in zip(theta, tables(7), strict=True)]
    pairs = [(a.log_softmax(-1), b.log_softmax(-1)) for a, b in zip(theta, reference, strict=True)]
    full = torch.stack(
        [
            torch.stack([kl_full(*(each[words[:k]] for each in pairs[k])) for k in range(TIME)])
            for words in SEQUENCES
        ]
    )
    return World(theta, log_probs_of(theta), log_probs_of(reference), log_probs_of(drawn), full)


def estimate(world: World, kind: Any, **options: Any) -> Tensor:
    ratio = world.policy - world.reference
    if kind == "full":
        return world.full
    return kl_estimate(ratio, kind, bound=50.0, log_probs=world.policy, **options)


@pytest.mark.parametrize("kind", ["k1", "k3", "k3+", "k3_is", "full"])
def test_values_without_bias(world: World, kind: str) -> None:
    torch.testing.assert_close(world.mean(estimate(world, kind)), world.kl, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["abs", "k2"])
def test_values_with_bias(world: World, kind: str) -> None:
    bias = float((world.mean(estimate(world, kind)) - world.kl).detach())
    assert (bias > 0.1) if kind == "abs" else (1e-4 < abs(bias) < 0.1)


def test_variances(world: World) -> None:
    """In the order of the table."""
    weights = world.policy.sum(1).exp().detach()

    def variance(kind: str) -> float:
        total = estimate(world, kind).sum(1).detach()
        return float((weights * (total - (weights * total).sum()).square()).sum())

    assert variance("full") < variance("k3") == variance("k3+") < variance("k1") / 4


@pytest.mark.parametrize("kind", ["k2", "k3+", "k3_is", "full"])
def test_losses_whose_gradient_is_right(world: World, kind: str) -> None:
    of_tokens = world.gradient(world.mean(world.full))
    torch.testing.assert_close(
        world.gradient(world.mean(estimate(world, kind))), of_tokens, rtol=1e-10, atol=1e-12
    )


def test_losses_whose_gradient_is_not(world: World) -> None:
    of_tokens = world.gradient(world.mean(world.full))
    assert world.gradient(world.mean(estimate(world, "k1"))).abs().max() < 1e-12  # none at all
    for kind in ("k3", "abs"):
        assert (
            world.gradient(world.mean(estimate(world, kind))) - of_tokens
        ).norm() > 0.05 * of_tokens.norm()


def test_the_gradient_of_k3_is_that_of_the_forward_kl() -> None:
    logits = torch.randn(
        5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    log_q = torch.linspace(0, 1, 5, dtype=torch.float64).log_softmax(-1)
    log_p = logits.log_softmax(-1)
    value = (log_p.exp().detach() * kl_estimate(log_p - log_q, "k3", bound=50.0)).sum()
    forward = (log_q.exp() * (log_q - log_p)).sum()
    (found,) = torch.autograd.grad(value, logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(forward, logits)
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "abs"])
@pytest.mark.parametrize("to_go", [False, True])
def test_penalties_in_the_reward(world: World, kind: str, to_go: bool) -> None:
    penalty = estimate(world, kind).detach()
    returns = penalty.flip(1).cumsum(1).flip(1) if to_go else penalty.sum(1, keepdim=True)
    found, wanted = world.gradient(world.mean(returns * world.policy)), world.gradient(world.kl)
    error = float((found - wanted).norm() / wanted.norm())
    assert (error < 1e-12) if kind == "k1" else (error > 0.1)


def test_tokens_that_another_policy_drew(world: World) -> None:
    weights = world.drawn.sum(1).exp()

    def bias(ratios: Any) -> float:
        found = estimate(world, "k3_is", sampled_log_probs=world.drawn, weights=ratios)
        return abs(float(((weights * found.sum(1)).sum() - world.kl).detach()))

    assert bias("prefix") < 1e-12
    assert bias("token") > 1e-4
    capped = estimate(world, "k3_is", sampled_log_probs=world.drawn, max_weight=0.5)
    torch.testing.assert_close(
        capped.detach(), (estimate(world, "k3") * (world.policy - world.drawn).exp().clamp(max=0.5)).detach()
    )


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "k3+", "abs"])
def test_far_ratios_are_finite_and_gradients_keep_their_sign(kind: Any) -> None:
    ratio = torch.tensor([-200.0, -30.0, -1.0, 1.0, 30.0, 200.0], requires_grad=True)
    value = kl_estimate(ratio, kind)
    assert value.isfinite().all()
    (gradient,) = torch.autograd.grad(value.sum(), ratio)
    assert gradient.isfinite().all()
    if kind != "k1":
        assert torch.equal(gradient.sign(), ratio.sign())
    if kind in ("k3", "k3+"):
        assert value.max() <= torch.tensor(10.0).exp()
        assert clipped_fraction(ratio[None], torch.ones(1, 6, dtype=torch.bool), bound=10.0) == torch.tensor(
            4 / 6
        )


@pytest.mark.parametrize("kind", ["k1", "k2", "k3", "k3+", "k3_is", "abs"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_masked_has_no_effect(kind: Any, bad: float) -> None:
    log_probs = torch.tensor([[-1.0, bad, -2.0]], requires_grad=True)
    scored = torch.tensor([[True, False, True]])
    ratio = log_ratio(log_probs, torch.tensor([[-2.0, bad, -0.5]]), scored)
    value = kl_estimate(ratio, kind, log_probs=log_probs.where(scored, 0.0))
    assert value[0, 1] == 0.0
    (gradient,) = torch.autograd.grad(value.sum(), log_probs)
    assert gradient.isfinite().all()
    assert gradient[0, 1] == 0.0


def test_an_unknown_estimator() -> None:
    with pytest.raises(ValueError, match="got 'k4'"):
        kl_estimate(torch.zeros(1), "k4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs log_probs"):
        kl_estimate(torch.zeros(1), "k3_is")


def test_k3_near_the_reference() -> None:
    """It is r squared / 2 there; ``exp(-r) - 1`` in float32 would be rounded to 6e-8."""
    ratio = torch.tensor([1e-4, -3e-4, 1e-3, 0.0])
    exact = ratio.double().square() / 2
    torch.testing.assert_close(kl_estimate(ratio, "k3").double(), exact, rtol=2e-2, atol=0)


@pytest.mark.peers
def test_k3_by_torchrls_name() -> None:
    peers = pytest.importorskip("torchrl.objectives.llm")
    generator = torch.Generator().manual_seed(0)
    target, own = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64).mul(20).unbind(0)
    own.requires_grad_()
    found, theirs = (f(target, own) for f in (k3_kl_token_estimate, peers.k3_kl_token_estimate))
    torch.testing.assert_close(found, theirs)
    gradients = [torch.autograd.grad(each.sum(), own)[0] for each in (found, theirs)]
    torch.testing.assert_close(*gradients)
    with pytest.raises(
        ValueError, match=r"target_log_prob \[5\] and log_prob \[5, 7\] must have the same shape"
    ):
        k3_kl_token_estimate(target[:, 0], own)
