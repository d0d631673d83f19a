"""Several choices at once, and bits: the sums that Stable-Baselines3 has, by hand of torch's distributions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import (
    Categorical,
    IndependentBernoulli,
    MaskedCategorical,
    MultiCategorical,
    MultiOneHotCategorical,
)
from specgen_runtime.modules.distributions import (
    deterministic_sample,
    entropy,
    has_analytic_entropy,
    has_analytic_kl,
    kl_divergence,
)
from torch import Tensor
from torch.distributions import Bernoulli
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import kl_divergence as torch_kl

SIZES = [(3, 2, 4), (3, 3), (1, 2), (5,)]


def logits_of(nvec: tuple[int, ...], *shape: int) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(*shape, sum(nvec), dtype=torch.float64, requires_grad=True)


def by_hand(logits: Tensor, nvec: tuple[int, ...]) -> list[TorchCategorical]:
    """What `MultiCategoricalDistribution` of Stable-Baselines3 holds."""
    return [TorchCategorical(logits=part) for part in torch.split(logits, nvec, dim=-1)]


@pytest.mark.parametrize("nvec", SIZES)
def test_choices_are_independent(nvec: tuple[int, ...]) -> None:
    logits = logits_of(nvec, 2, 6)
    d, each = MultiCategorical(logits, nvec=nvec), by_hand(logits, nvec)
    assert (d.batch_shape, d.event_shape) == ((2, 6), (len(nvec),))
    drawn = d.sample((4,))
    assert drawn.dtype == torch.int64
    assert drawn.shape == (4, 2, 6, len(nvec))
    scores = sum(one.log_prob(value) for one, value in zip(each, drawn.unbind(-1), strict=True))
    entropies = sum(one.entropy() for one in each)
    torch.testing.assert_close(d.log_prob(drawn), scores)
    torch.testing.assert_close(d.entropy(), entropies)
    ours = torch.autograd.grad(d.log_prob(drawn).sum() + d.entropy().sum(), logits)
    theirs = torch.autograd.grad(scores.sum() + entropies.sum(), logits)
    torch.testing.assert_close(ours, theirs)
    likeliest = torch.stack([part.argmax(-1) for part in logits.split(nvec, -1)], -1)
    assert torch.equal(deterministic_sample(d), likeliest)
    assert d.support.check(drawn).all()
    assert not d.support.check(drawn + max(nvec)).any()
    assert has_analytic_entropy(d)
    torch.testing.assert_close(entropy(d), entropies)
    wide = d.expand((7, 2, 6))
    torch.testing.assert_close(wide.log_prob(drawn[:1]), scores[:1].expand(7, 2, 6))


@pytest.mark.parametrize("nvec", SIZES)
def test_draws_come_as_often_as_they_should(nvec: tuple[int, ...]) -> None:
    logits = logits_of(nvec)
    torch.manual_seed(0)
    drawn = MultiCategorical(logits, nvec=nvec).sample((20_000,))
    for one, value in zip(by_hand(logits, nvec), drawn.unbind(-1), strict=True):
        found = torch.bincount(value, minlength=one.probs.shape[-1]) / 20_000
        torch.testing.assert_close(found, one.probs.detach().float(), atol=0.015, rtol=0)


@pytest.mark.parametrize("nvec", SIZES)
def test_the_divergence_is_the_sum(nvec: tuple[int, ...]) -> None:
    p, q = logits_of(nvec, 5), logits_of(nvec, 5).flip(0)
    ours = MultiCategorical(p, nvec=nvec), MultiCategorical(q, nvec=nvec)
    assert has_analytic_kl(*ours)
    wanted = sum(torch_kl(a, b) for a, b in zip(by_hand(p, nvec), by_hand(q, nvec), strict=True))
    torch.testing.assert_close(kl_divergence(*ours), wanted)
    (gradient,) = torch.autograd.grad(kl_divergence(*ours).sum(), p)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(("nvec", "stacked"), [((3, 2, 4), False), ((3, 3), False), ((3, 3), True)])
def test_one_hot_choices_are_the_same(nvec: tuple[int, ...], stacked: bool) -> None:
    logits = logits_of(nvec, 6)
    d, index = MultiOneHotCategorical(logits, nvec=nvec, stacked=stacked), MultiCategorical(logits, nvec=nvec)
    torch.manual_seed(0)
    drawn = d.sample((4,))
    torch.manual_seed(0)
    chosen = index.sample((4,))
    assert d.event_shape == drawn.shape[2:]
    rows = drawn.flatten(-2) if stacked else drawn
    wanted = [torch.nn.functional.one_hot(chosen[..., at], n) for at, n in enumerate(nvec)]
    assert torch.equal(rows, torch.cat(wanted, -1))
    torch.testing.assert_close(d.log_prob(drawn.bool()), index.log_prob(chosen))
    torch.testing.assert_close(d.entropy(), index.entropy())
    torch.testing.assert_close(d.log_prob(d.mode), index.log_prob(index.mode))
    chances = torch.cat([one.probs for one in by_hand(logits, nvec)], -1)
    torch.testing.assert_close(d.mean.flatten(-2) if stacked else d.mean, chances)
    with pytest.raises(ValueError, match=r"MultiCategorical has no mean.*InteractionType\.MODE"):
        _ = index.mean
    assert d.support.check(drawn).all()


@pytest.mark.parametrize("kind", [MultiCategorical, MultiOneHotCategorical])
@pytest.mark.parametrize(("nvec", "stacked"), [((3, 2, 4), False), ((3, 3), True)])
def test_what_is_not_allowed_is_not_drawn(kind: Any, nvec: tuple[int, ...], stacked: bool) -> None:
    """A flat mask, as MaskablePPO of sb3-contrib has it, or a row for each choice."""
    logits = logits_of(nvec, 6)
    flat = torch.rand(6, sum(nvec)) < 0.5
    starts = torch.tensor([0, *nvec[:-1]]).cumsum(0)
    flat[:, starts] = True
    mask = flat.unflatten(-1, (len(nvec), -1)) if stacked else flat
    d = kind(logits, nvec=nvec, mask=mask, stacked=stacked)
    parts = zip(logits.split(nvec, -1), flat.split(nvec, -1), strict=True)
    each = [MaskedCategorical(logits=part, mask=allowed) for part, allowed in parts]
    index = d._read(d.sample((50,)))
    for at, one in enumerate(each):
        assert one.mask.expand(50, 6, -1).gather(-1, index[..., at : at + 1]).all()
    wanted = sum(one.log_prob(index[..., at]) for at, one in enumerate(each))
    torch.testing.assert_close(d.log_prob(d._written(index)), wanted)
    torch.testing.assert_close(d.entropy(), sum(one.entropy() for one in each))
    (gradient,) = torch.autograd.grad(d.entropy().sum() + d.log_prob(d.mode).sum(), logits)
    assert gradient.isfinite().all()
    torch.testing.assert_close(kl_divergence(d, d), torch.zeros(6, dtype=torch.float64))


def test_a_vmap_has_draws_of_its_own() -> None:
    logits = logits_of((3, 2), 4, 6).detach()

    def drawn(x: Tensor) -> tuple[Tensor, Tensor]:
        d = MultiCategorical(x, nvec=(3, 2))
        value = d.sample()
        return value, d.log_prob(value)

    values, scores = torch.vmap(drawn, randomness="different")(logits)
    torch.testing.assert_close(scores, MultiCategorical(logits, nvec=(3, 2)).log_prob(values))


def test_bits_are_independent() -> None:
    logits = logits_of((4,), 5)
    d, each = IndependentBernoulli(logits), Bernoulli(logits=logits)
    assert (d.batch_shape, d.event_shape) == ((5,), (4,))
    drawn = d.sample((3,))
    assert drawn.dtype == torch.int64
    assert drawn.shape == (3, 5, 4)
    torch.testing.assert_close(d.log_prob(drawn), each.log_prob(drawn.double()).sum(-1))
    torch.testing.assert_close(d.log_prob(drawn.bool()), d.log_prob(drawn.to(torch.int8)))
    torch.testing.assert_close(entropy(d), each.entropy().sum(-1))
    assert torch.equal(deterministic_sample(d), (logits > 0).long())
    other = IndependentBernoulli(logits.flip(0))
    assert has_analytic_kl(d, other)
    torch.testing.assert_close(
        kl_divergence(d, other), torch_kl(each, Bernoulli(logits=logits.flip(0))).sum(-1)
    )
    torch.testing.assert_close(d.expand((2, 5)).log_prob(drawn[:1]), d.log_prob(drawn[:1]).expand(2, 5))
    torch.testing.assert_close(IndependentBernoulli(probs=each.probs).entropy(), d.entropy())
    torch.manual_seed(0)
    mean = d.sample((20_000,)).double().mean(0)
    torch.testing.assert_close(mean, each.probs.detach(), atol=0.015, rtol=0)


@pytest.mark.parametrize(
    ("shape", "words", "said"),
    [
        ((4, 5), {"nvec": [3, 3]}, r"last dimension of 6, for nvec=\[3, 3\], got shape \(4, 5\)"),
        ((4, 5), {"nvec": []}, "a class at least"),
        ((4, 5), {"nvec": [5, 0]}, "a class at least"),
        ((4, 5), {"nvec": [3, 2], "stacked": True}, "rows of one size"),
    ],
)
def test_what_does_not_fit_is_refused(shape: tuple[int, ...], words: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MultiCategorical(torch.zeros(shape), **words)


def test_a_graph_holds_them() -> None:
    """`torch.compile` finds nothing in them that breaks its graph."""

    @torch.compile(fullgraph=True, backend="eager")
    def scored(logits: Tensor, value: Tensor) -> Tensor:
        d = MultiCategorical(logits, nvec=(3, 2))
        return d.log_prob(value) + d.entropy()

    logits = logits_of((3, 2), 4).detach()
    d = MultiCategorical(logits, nvec=(3, 2))
    value = d.sample()
    torch.testing.assert_close(scored(logits, value), d.log_prob(value) + d.entropy())
    assert isinstance(d.choices, Categorical)


@pytest.mark.parametrize("drawn", [0.0, 1.0])
def test_the_ends_of_what_is_drawn_are_choices(drawn: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """No class that is not allowed, or that there is not, where a random number is 0, or rounded to 1."""
    monkeypatch.setattr(torch, "rand", lambda shape, **words: torch.full(shape, drawn, **words))
    mask = torch.tensor([False, True, True, False, True, True])
    d = MultiCategorical(torch.randn(50, 6), nvec=(4, 2), mask=mask)
    assert d.sample((2,)).unique(dim=1).tolist() == [[[1, 0]] if drawn == 0 else [[2, 1]]] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rare_choices_are_drawn_in_each_dtype(dtype: torch.dtype) -> None:
    logits = torch.tensor([0.0, -6.0, 0.0, 0.0], dtype=dtype)
    torch.manual_seed(0)
    drawn = MultiCategorical(logits, nvec=(2, 2)).sample((200_000,))
    rare = drawn[:, 0].double().mean().item()
    assert rare == pytest.approx(torch.sigmoid(torch.tensor(-6.0)).item(), rel=0.15)
    assert drawn[:, 1].double().mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_choice_of_nothing_is_an_error(compiled: bool) -> None:
    def draw(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return MultiCategorical(logits, nvec=[2, 3], mask=mask).sample((4,))

    sample = torch.compile(draw, fullgraph=True, backend="eager") if compiled else draw
    logits, all_allowed = torch.randn(2, 5), torch.ones(2, 5, dtype=torch.bool)
    assert sample(logits, all_allowed).shape == (4, 2, 2)
    only_first, spoilt = all_allowed.clone(), logits.clone()
    only_first[1, 2:] = False
    spoilt[0, 0] = torch.nan
    for wrong in ((logits, only_first), (spoilt, all_allowed)):
        with pytest.raises(RuntimeError, match="a choice has no class that is allowed, or logits that are N"):
            sample(*wrong)


def test_choices_are_drawn_for_each_row_of_vmap() -> None:
    logits = torch.tensor([[9.0, -99.0, -99.0, 9.0, -99.0], [-99.0, 9.0, -99.0, -99.0, 9.0]])
    draw = torch.vmap(lambda row: MultiCategorical(row, nvec=[2, 3]).sample(), randomness="different")
    assert draw(logits).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("stacked", [False, True])
def test_a_mask_of_another_size_or_dtype_is_told(stacked: bool) -> None:
    wanted = "2, 3" if stacked else "6"
    size = (2, 3) if stacked else (6,)
    for mask in (torch.ones(5, 5, dtype=torch.bool), torch.ones(5, *size, dtype=torch.int64)):
        said = rf"bool with {wanted} as its last dimensions, .*got {mask.dtype} of shape \({mask.shape[0]}, "
        with pytest.raises(ValueError, match=said):
            MultiCategorical(torch.randn(5, 6), nvec=[3, 3], mask=mask, stacked=stacked)
