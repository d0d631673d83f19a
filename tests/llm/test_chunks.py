"""Logits in tiles and chunks: the same values and gradients, in little memory."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from specgen_runtime.llm.models.body import score_tokens
from specgen_runtime.llm.models.head import find_scorer
from specgen_runtime.llm.models.linear_head import linear_log_probs
from torch import Tensor, nn

from tests.llm.models import tiny_model
from tests.llm.test_scoring import LENGTHS, Adapted, batch


@pytest.mark.parametrize("place", ["linear_head.TILE_BYTES", "chosen.CHUNK_BYTES"])
def test_chunks_change_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether tiles of a linear head, or tokens at a time of one that has an adapter."""
    model: Any = copy.deepcopy(tiny_model("llama"))
    weight = model.lm_head.weight
    if place.startswith("chosen"):
        model.lm_head = Adapted(model.lm_head)
    ids, attended = batch()

    def found() -> tuple[Tensor, ...]:
        chosen = score_tokens(find_scorer(model), ids, attended, attended, entropy=True)
        assert chosen.entropy is not None
        (gradient,) = torch.autograd.grad((chosen.log_probs + chosen.entropy).sum(), [weight])
        return chosen.log_probs, chosen.entropy, gradient

    whole = found()
    for size in (1, 4 * 7 * 5):
        monkeypatch.setattr(f"specgen_runtime.llm.models.{place}", size)
        torch.testing.assert_close(found(), whole)


@pytest.mark.parametrize("entropy", [False, True])
def test_tokens_that_the_head_never_gives(entropy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bias of -inf, of so many tokens that whole tiles have no other."""
    generator = torch.Generator().manual_seed(4)
    hidden, weight = torch.randn(9, 6, generator=generator), torch.randn(40, 6, generator=generator)
    bias = torch.randn(40, generator=generator).masked_fill(torch.arange(40) >= 20, -torch.inf)
    targets = torch.randint(0, 20, (9,), generator=generator)
    monkeypatch.setattr("specgen_runtime.llm.models.linear_head.TILE_BYTES", 4 * 25)
    leaves = [value.requires_grad_() for value in (hidden, weight, bias)]
    found = linear_log_probs(hidden, weight, bias, targets, entropy=entropy)
    kept = (hidden @ weight[:20].T + bias[:20]).log_softmax(-1)
    expected = kept.gather(-1, targets[:, None])[:, 0], -(kept.exp() * kept).sum(-1)
    for one, other in zip(found, expected, strict=True):
        if one is not None:
            torch.testing.assert_close(one, other)
            gradients = torch.autograd.grad(one.sum(), leaves, retain_graph=True)
            torch.testing.assert_close(gradients, torch.autograd.grad(other.sum(), leaves, retain_graph=True))


@pytest.mark.parametrize(("place", "wrong"), [(0, 40), (2, -1)])
def test_targets_outside_the_vocabulary(place: int, wrong: int) -> None:
    hidden, weight = torch.randn(3, 6), torch.randn(40, 6)
    targets = torch.tensor([0, 39, 7]).index_fill(0, torch.tensor(place), wrong)
    with pytest.raises(
        ValueError, match=f"target {place} is token {wrong}, but the vocabulary has 40 tokens"
    ):
        linear_log_probs(hidden, weight, None, targets)
    with pytest.raises(ValueError, match=r"\[3, 6\] states need as many targets, got \[2\]"):
        linear_log_probs(hidden, weight, None, targets[1:])


@pytest.mark.parametrize("entropy", [False, True])
def test_of_no_tokens_there_is_nothing_and_no_gradient(entropy: bool) -> None:
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((0, 6), (40, 6), (40,))]
    hidden, weight, bias = leaves
    found = linear_log_probs(hidden, weight, bias, torch.zeros(0, dtype=torch.int64), entropy=entropy)
    for one in found:
        if one is not None:
            assert one.shape == (0,)
            for leaf, gradient in zip(
                leaves, torch.autograd.grad(one.sum(), leaves, retain_graph=True), strict=True
            ):
                assert torch.equal(gradient, torch.zeros_like(leaf))


def test_second_derivatives_are_refused_where_they_are_asked_for() -> None:
    hidden, weight = torch.randn(3, 6, requires_grad=True), torch.randn(40, 6, requires_grad=True)
    log_probs, _ = linear_log_probs(hidden, weight, None, torch.tensor([0, 39, 7]))
    (once,) = torch.autograd.grad(log_probs.sum(), hidden, create_graph=True)
    plain = nn.functional.linear(hidden, weight).log_softmax(-1)[torch.arange(3), torch.tensor([0, 39, 7])]
    torch.testing.assert_close(once, torch.autograd.grad(plain.sum(), hidden)[0])
    with pytest.raises(NotImplementedError, match="linear_log_probs has no second derivatives"):
        once.square().sum().backward()


@pytest.mark.parametrize("place", ["linear_head.TILE_BYTES", "chosen.CHUNK_BYTES"])
def test_memory_stays_small(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no more logits at once than a tile, or the tokens of a chunk, have; with gradients or without."""
    model: Any = copy.deepcopy(tiny_model("llama", vocab_size=3000))
    weight = model.lm_head.weight
    if place.startswith("chosen"):
        model.lm_head = Adapted(model.lm_head)
    seen: list[int] = []
    linear = nn.functional.linear

    def spy(hidden: Tensor, given: Tensor, *rest: Any) -> Tensor:
        made = linear(hidden, given, *rest)
        if given.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr():
            seen.append(made.numel())
        return made

    scorer = find_scorer(model)
    monkeypatch.setattr(f"specgen_runtime.llm.models.{place}", 4 * 3000 * 17)
    monkeypatch.setattr(nn.functional, "linear", spy)
    ids, attended = batch()
    score_tokens(scorer, ids, attended, attended).log_probs.sum().backward()
    with torch.no_grad():
        score_tokens(scorer, ids, attended, attended)
    assert 3000 * 16 < max(seen) <= 3000 * 17
    assert sum(seen) == 3 * 3000 * sum(length - 1 for length in LENGTHS)
