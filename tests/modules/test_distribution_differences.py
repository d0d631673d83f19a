"""Where our distributions and actors mean to differ from TorchRL's: both are run, and who is right is computed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime import modules as ours
from specgen_runtime.modules.distributions import ReparamGradientStrategy
from specgen_runtime.specs import Bounded
from tensordict import TensorDict
from torch import nn

peer = pytest.importorskip("torchrl.modules")
specs = pytest.importorskip("torchrl.data")
pytestmark = pytest.mark.peers

LOC = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)


def test_the_mean_of_an_independent_normal_is_squashed_from_the_start() -> None:
    expected = 2 * (LOC / 2).tanh()
    mine, theirs = (m.IndependentNormal(LOC, 1.0, upscale=2.0, tanh_loc=True) for m in (ours, peer))
    torch.testing.assert_close(mine.mean, expected)
    torch.testing.assert_close(theirs.mean, LOC)
    theirs.update(LOC, 1.0)
    torch.testing.assert_close(theirs.mean, expected)


def test_bounds_do_not_move_what_is_before_tanh() -> None:
    """Half way between 0 and 4 is 2, where tanh is 0."""
    zero = torch.zeros(3, dtype=torch.float64)
    certain = [m.distributions.TanhDelta(zero, low=0.0, high=4.0).deterministic_sample for m in (ours, peer)]
    torch.testing.assert_close(certain[0], zero + 2)
    torch.testing.assert_close(certain[1], 2 + 2 * (zero + 2).tanh())
    normal = [m.TanhNormal(zero, 1.0, low=0.0, high=4.0, tanh_loc=True).loc for m in (ours, peer)]
    torch.testing.assert_close(normal[0], zero)
    torch.testing.assert_close(normal[1], zero + 2)


def test_bounds_that_are_numbers_have_the_digits_of_the_data() -> None:
    """0.1 is not a number of float32."""
    mine, theirs = (m.TanhNormal(LOC, 1.0, low=-0.1, high=0.1) for m in (ours, peer))
    action = torch.full((3,), 0.05, dtype=torch.float64)
    half = torch.tensor(0.1, dtype=torch.float64)
    x = (action / half).atanh()
    expected = (torch.distributions.Normal(LOC, 1.0).log_prob(x) - (half * (1 - x.tanh() ** 2)).log()).sum()
    torch.testing.assert_close(mine.log_prob(action), expected, rtol=1e-13, atol=1e-13)
    assert 1e-9 < abs(float(theirs.log_prob(action) - expected)) < 1e-7


def test_a_draw_of_a_tanh_normal_is_scored_where_it_was_drawn() -> None:
    scores = []
    for module in (ours, peer):
        d = module.TanhNormal(torch.tensor([30.0]), 0.1)
        torch.manual_seed(0)
        apart = d.log_prob(d.sample())
        torch.manual_seed(0)
        scores.append((float(apart), float(d.sample_and_log_prob()[1])))
    assert scores[0][0] == scores[0][1] == pytest.approx(scores[1][1], abs=1e-4)
    assert scores[1][0] < -1000


def test_the_mode_of_a_tanh_normal() -> None:
    """The density of one number has its maximum where x = loc + 2 scale^2 tanh(x); theirs is near it."""
    mine, theirs = (m.TanhNormal(LOC, 0.8, event_dims=0) for m in (ours, peer))
    x = mine.get_mode().atanh()
    torch.testing.assert_close(x, LOC + 2 * 0.8**2 * x.tanh(), rtol=1e-6, atol=1e-6)
    torch.manual_seed(0)
    assert (theirs.get_mode() - mine.get_mode()).abs().max() > 1e-3


def test_bounds_have_their_names() -> None:
    d = ours.TanhNormal(LOC, 1.0, low=-2.0)
    assert (d.min, d.max) == (torch.tensor(-2.0), torch.tensor(1.0))
    with pytest.raises(AttributeError):
        _ = peer.TanhNormal(LOC, 1.0, low=-2.0).min


def test_masses_of_a_truncated_normal() -> None:
    """Of an interval 8 to 12 scales from the mean: the integral of the density is 1."""
    loc = torch.tensor([5.0], dtype=torch.float64)
    middles = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 100_000 - 1
    integrals = []
    for module in (ours, peer):
        d = module.TruncatedNormal(loc, torch.full_like(loc, 0.5))
        integrals.append(float(d.log_prob(middles.unsqueeze(-1)).exp().sum() * 1e-5))
    assert integrals[0] == pytest.approx(1.0, abs=1e-6)
    assert integrals[1] < 1e-6


def test_one_hot_mode_is_one_choice() -> None:
    logits = torch.tensor([1.0, 2.0, 2.0])
    assert ours.OneHotCategorical(logits=logits).mode.tolist() == [0, 1, 0]
    assert peer.OneHotCategorical(logits=logits).mode.tolist() == [0, 1, 1]


def test_batches_of_one_choice() -> None:
    """Logits of shape [4, 1] are four distributions of one choice, not one of four."""
    mine, theirs = (m.OneHotCategorical(logits=torch.zeros(4, 1)) for m in (ours, peer))
    assert mine.sample().shape == (4, 1)
    assert theirs.sample().shape == (4,)


def test_the_event_of_a_one_hot_distribution_is_the_vector() -> None:
    mine, theirs = (m.OneHotCategorical(logits=torch.zeros(4, 3)) for m in (ours, peer))
    assert mine.sample().shape == mine.batch_shape + mine.event_shape
    assert theirs.sample().shape != theirs.batch_shape + theirs.event_shape


def gradient_of_a_relaxed_draw(module: Any) -> torch.Tensor:
    logits = torch.tensor([0.3, -0.2, 0.8], dtype=torch.float64, requires_grad=True)
    method = module.ReparamGradientStrategy.RelaxedOneHot
    torch.manual_seed(0)
    drawn = module.OneHotCategorical(logits=logits, grad_method=method).rsample()
    (drawn * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert logits.grad is not None
    return logits.grad


def test_gradients_of_relaxed_draws() -> None:
    """Those of the softmax of logits and Gumbel noise, by finite differences."""
    method = ReparamGradientStrategy.RelaxedOneHot
    logits, step = torch.tensor([0.3, -0.2, 0.8], dtype=torch.float64), 1e-6

    def relaxed(logits: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        d = torch.distributions.RelaxedOneHotCategorical(
            torch.tensor(1.0, dtype=torch.float64), logits=logits
        )
        return (d.rsample() * torch.tensor([1.0, 2.0, 4.0])).sum()

    expected = torch.stack(
        [
            (relaxed(logits + e) - relaxed(logits - e)) / (2 * step)
            for e in step * torch.eye(3, dtype=torch.float64)
        ]
    )
    assert ours.OneHotCategorical(logits=logits, grad_method=method).rsample().sum() == 1
    torch.testing.assert_close(gradient_of_a_relaxed_draw(ours), expected, rtol=1e-6, atol=1e-8)
    assert (gradient_of_a_relaxed_draw(peer) - expected).abs().max() > 0.1


def test_gradients_of_masked_probabilities() -> None:
    gradients = []
    for module in (ours.MaskedCategorical, peer.MaskedCategorical):
        probs = torch.tensor([0.1, 0.2, 0.7], requires_grad=True)
        module(probs=probs, indices=torch.tensor([0, 2])).log_prob(torch.tensor(0)).backward()
        assert probs.grad is not None
        gradients.append(probs.grad)
    torch.testing.assert_close(gradients[0], torch.tensor([10.0 - 1 / 0.8, 0.0, -1 / 0.8]))
    assert gradients[1].isnan().any()


def test_several_draws_of_a_masked_batch_are_scored() -> None:
    mask = torch.tensor([True, True, False])
    mine, theirs = (m.MaskedCategorical(logits=torch.zeros(4, 3), mask=mask) for m in (ours, peer))
    torch.testing.assert_close(mine.log_prob(mine.sample((6,))), torch.full((6, 4), -0.6931472))
    with pytest.raises(ValueError, match="batch_size"):
        theirs.log_prob(theirs.sample((6,)))


def test_random_outputs_are_of_their_own_spec() -> None:
    mine = ours.Actor(nn.Linear(4, 2), spec=Bounded(-1.0, 1.0, (2,)))
    theirs = peer.Actor(nn.Linear(4, 2), spec=specs.Bounded(-1.0, 1.0, (2,)))
    data = [module.random(TensorDict(batch_size=[3]))["action"] for module in (mine, theirs)]
    assert isinstance(data[0], torch.Tensor)
    assert isinstance(data[1], TensorDict)
