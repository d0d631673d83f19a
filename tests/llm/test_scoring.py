"""Log-probabilities of tokens against the plain model and `log_softmax`, one sequence at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from specgen_runtime.llm.models.body import can_pack, score_tokens
from specgen_runtime.llm.models.chosen import Warp
from specgen_runtime.llm.models.head import HeadScorer, LogitsScorer, find_scorer
from torch import Tensor, nn

from tests.llm.models import FAMILIES, tiny_model

LENGTHS = (7, 1, 23, 12)
"""One sequence is a single token; others are longer than the window of attention of some layers."""


def sequences() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    made = [torch.randint(3, 60, (length,), generator=generator) for length in LENGTHS]
    made[2][-1] = 0  # the pad id, which is a token here
    return made


def batch(side: str = "left") -> tuple[Tensor, Tensor]:
    """The sequences padded to one width, and which tokens are no padding."""
    width = max(LENGTHS) + 2
    ids, attention = torch.zeros(4, width, dtype=torch.long), torch.zeros(4, width, dtype=torch.bool)
    for row, sequence in enumerate(sequences()):
        place = slice(width - len(sequence), width) if side == "left" else slice(0, len(sequence))
        ids[row, place], attention[row, place] = sequence, True
    return ids, attention


def distribution(model: Any, sequence: Tensor, warp: Warp | None = None) -> Tensor:
    """Log-softmax of the plain model before each token but the first."""
    logits = model(input_ids=sequence[None]).logits[0, :-1].float()
    return (logits if warp is None else warp(logits, sequence[1:])).log_softmax(-1)


def plainly(model: Any, attention: Tensor, scored: Tensor, warp: Warp | None = None) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of the sequences, with the plain model, where they are scored."""
    log_probs, entropy = torch.zeros(attention.shape), torch.zeros(attention.shape)
    for row, sequence in enumerate(sequences()):
        log_p = distribution(model, sequence, warp)
        first = torch.zeros(1)
        log_probs[row, attention[row]] = torch.cat([first, log_p.gather(-1, sequence[1:, None])[:, 0]])
        plogp = log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)
        entropy[row, attention[row]] = torch.cat([first, -plogp.sum(-1)])
    return torch.where(scored, log_probs, 0.0), torch.where(scored, entropy, 0.0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("family", "attention"),
    [*((family, "eager") for family in FAMILIES), *((family, "sdpa") for family in FAMILIES[:-1])],
)
def test_log_probs_equal_the_plain_models(family: str, attention: str, side: str) -> None:
    model = tiny_model(family, attention=attention)
    ids, attended = batch(side)
    scorer = find_scorer(model)
    assert isinstance(scorer, HeadScorer)
    with torch.no_grad():
        expected, _ = plainly(model, attended, attended)
        for options in ({}, {"max_tokens": 24}, {"packed": True}, {"packed": True, "max_tokens": 20}):
            found = score_tokens(scorer, ids, attended, attended, **options).log_probs
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, msg=str(options))
            assert not found[~attended].any()
            assert not found[1].any(), "a sequence of one token has nothing to score"
    assert expected.abs().min(dim=1).values[0] == 0
    assert expected[2].abs().max() > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_sequences_keep_apart(family: str) -> None:
    assert can_pack(find_scorer(tiny_model(family)))


def test_padding_in_between_is_no_token() -> None:
    """A sequence is what is attended: prompts padded on the left and answers on the right make one."""
    model = tiny_model("llama")
    ids, attended = batch("left")
    gap = torch.zeros(4, 3)
    wide = torch.cat([ids[:, :-4], gap.long() + 9, ids[:, -4:]], 1)
    mask = torch.cat([attended[:, :-4], gap.bool(), attended[:, -4:]], 1)
    with torch.no_grad():
        whole = score_tokens(find_scorer(model), ids, attended, attended).log_probs
        found = score_tokens(find_scorer(model), wide, mask, mask).log_probs
    torch.testing.assert_close(torch.cat([found[:, :-7], found[:, -4:]], 1), whole)
    assert not found[:, -7:-4].any()


@pytest.mark.parametrize("entropy", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_the_plain_models(family: str, temperature: float, entropy: bool) -> None:
    model = tiny_model(family)
    ids, attended = batch()
    scored = attended & (torch.arange(ids.shape[1]) > 16)
    warp = Warp(temperature)
    weights = torch.randn(2, *ids.shape, generator=torch.Generator().manual_seed(2))

    def gradients(log_probs: Tensor, entropies: Tensor | None) -> list[Tensor]:
        value = (weights[0] * log_probs).sum()
        if entropies is not None:
            value = value + (weights[1] * entropies).sum()
        return list(torch.autograd.grad(value, list(model.parameters())))

    first, second = plainly(model, attended, scored, warp)
    found = score_tokens(find_scorer(model), ids, attended, scored, warp=warp, entropy=entropy)
    torch.testing.assert_close(found.log_probs, first, rtol=1e-5, atol=1e-5)
    if found.entropy is not None:
        torch.testing.assert_close(found.entropy, second, rtol=1e-5, atol=1e-5)
    expected = gradients(first, second if entropy else None)
    scale = max(one.abs().max().item() for one in expected)
    for one, other in zip(gradients(*found), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=3e-6 * scale)


@pytest.mark.parametrize("warp", [Warp(0.8, top_k=5), Warp(1.2, top_p=0.6), Warp(top_k=9, top_p=0.8)])
def test_truncated_distributions(warp: Warp) -> None:
    """Chosen tokens stay in the support; what was cut off has no part in entropies and gradients."""
    model = tiny_model("qwen2")
    ids, attended = batch()
    expected = plainly(model, attended, attended, warp)
    scorer = find_scorer(model)
    with torch.no_grad():
        free = score_tokens(scorer, ids, attended, attended, warp=warp, entropy=True)
    found = score_tokens(scorer, ids, attended, attended, warp=warp, entropy=True)
    for one, other, third in zip(free, found, expected, strict=True):
        assert one is not None
        assert other is not None
        torch.testing.assert_close(one, third, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(other, third, rtol=1e-5, atol=1e-5)
        assert third.isfinite().all()
        wanted = torch.autograd.grad(third.sum(), list(model.parameters()), retain_graph=True)
        scale = max(one.abs().max().item() for one in wanted)
        grads = torch.autograd.grad(other.sum(), list(model.parameters()), retain_graph=True)
        for got, expect in zip(grads, wanted, strict=True):
            torch.testing.assert_close(got, expect, rtol=0, atol=3e-6 * scale)


class Adapted(nn.Module):
    """A head with an adapter beside it."""

    def __init__(self, head: nn.Linear) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.head, self.weight = head, head.weight
        self.down = nn.Parameter(torch.randn(2, head.in_features))
        self.up = nn.Parameter(torch.randn(head.out_features, 2))

    def forward(self, hidden: Tensor) -> Tensor:
        return self.head(hidden) + (hidden @ self.down.T) @ self.up.T  # type: ignore[no-any-return]


def test_adapted_heads_are_called() -> None:
    model: Any = tiny_model("llama")
    ids, attended = batch()
    plain = find_scorer(model)
    model.lm_head = Adapted(model.lm_head)
    assert not plain.is_of(model)
    scorer = find_scorer(model)
    assert isinstance(scorer, HeadScorer)
    assert not scorer.linear
    found = score_tokens(scorer, ids, attended, attended).log_probs
    expected, _ = plainly(model, attended, attended)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(
        torch.autograd.grad(found.sum(), [model.lm_head.up, model.lm_head.down]),
        torch.autograd.grad(expected.sum(), [model.lm_head.up, model.lm_head.down]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_soft_caps_are_found_where_they_hardly_show() -> None:
    """Logits of a new model are small, those of a trained one are not."""
    model: Any = tiny_model("gemma2", final_logit_softcapping=30.0)
    head = model.get_output_embeddings()
    with torch.no_grad():
        head.weight.mul_(1e-3)
        scorer = find_scorer(model)
        head.weight.mul_(3e4)
        ids, attended = batch()
        found = score_tokens(scorer, ids, attended, attended).log_probs
        torch.testing.assert_close(found, plainly(model, attended, attended)[0], rtol=1e-5, atol=1e-4)
        assert model(input_ids=ids).logits.abs().max() > 15


@pytest.mark.parametrize(
    "cut", [lambda logits: logits.clamp(-1.0, 1.0), lambda logits: 300 * torch.tanh(logits / 300)]
)
def test_logits_that_are_cut_off_where_they_are_large(cut: Any) -> None:
    """A model that has none of these when it is probed, and no configuration that tells of it."""

    class Cut(type(tiny_model("llama"))):  # type: ignore[misc]
        def forward(self, *inputs: Any, **keywords: Any) -> Any:
            made = super().forward(*inputs, **keywords)
            made.logits = cut(made.logits)
            return made

    model: Any = tiny_model("llama")
    model.__class__ = Cut
    weight = model.lm_head.weight.data
    large = weight.clone()
    weight.mul_(1e-3)
    with pytest.warns(UserWarning, match="its logits are not what its head gives"):
        scorer = find_scorer(model)
    assert isinstance(scorer, LogitsScorer)
    weight.copy_(large * 50)
    ids, attended = batch()
    found = score_tokens(scorer, ids, attended, attended).log_probs
    torch.testing.assert_close(found, plainly(model, attended, attended)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_probes_in_low_precision(dtype: torch.dtype) -> None:
    for size in (1e-3, 1.0, 1e3):
        model: Any = tiny_model("llama").to(dtype)
        model.lm_head.weight.data.mul_(size)
        assert isinstance(find_scorer(model), HeadScorer)


def undeclared(model: Any) -> Any:
    """The model with a function of its logits that no configuration tells of."""

    class Odd(type(model)):  # type: ignore[misc]
        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            output = super().forward(*arguments, **keywords)
            output.logits = output.logits + torch.sin(output.logits)
            return output

    odd = Odd(model.config).eval()
    odd.load_state_dict(model.state_dict())
    return odd


def hooked(model: Any) -> Any:
    model.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize("change", [undeclared, hooked, lambda model: nn.Sequential(model)])
def test_models_that_are_called_as_a_whole(change: Any) -> None:
    model = change(tiny_model("llama"))
    if isinstance(model, nn.Sequential):
        inner = model[0]
        model.forward = lambda **given: inner(**given)  # type: ignore[method-assign]  # as wrappers of distributed models
    ids, attended = batch()
    with pytest.warns(UserWarning, match="all logits of scored columns"):
        scorer = find_scorer(model)
    assert isinstance(scorer, LogitsScorer)
    expected, _ = plainly(model, attended, attended)
    found = score_tokens(scorer, ids, attended, attended).log_probs
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(score_tokens(scorer, ids, attended, attended).log_probs, expected)
    some = attended & (torch.arange(ids.shape[1]) % 3 == 0)
    torch.testing.assert_close(
        score_tokens(scorer, ids, attended, some).log_probs,
        torch.where(some, expected, 0.0),
        rtol=1e-5,
        atol=1e-5,
    )
    names = [name for name, _ in model.named_parameters()]
    wanted = torch.autograd.grad(expected.sum(), list(model.parameters()))
    for name, one, other in zip(
        names, torch.autograd.grad(found.sum(), list(model.parameters())), wanted, strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4, msg=name)


def test_models_in_train_mode_are_scored_in_evaluation_mode() -> None:
    """Dropout would make the KL of equal weights non-zero. Modes are as before afterwards, part by part."""
    model: Any = tiny_model("gpt2", resid_pdrop=0.5, embd_pdrop=0.5)
    ids, attended = batch()
    scorer = find_scorer(model)
    with torch.no_grad():
        expected = score_tokens(scorer, ids, attended, attended).log_probs
        model.train()
        model.transformer.h[0].eval()
        assert torch.equal(score_tokens(scorer, ids, attended, attended).log_probs, expected)
        with pytest.raises(AssertionError):
            torch.testing.assert_close(plainly(model, attended, attended)[0], expected)
    assert model.training
    assert not model.transformer.h[0].mlp.training
    assert model.transformer.h[1].mlp.training


def test_nothing_scored() -> None:
    model = tiny_model("opt")
    ids, attended = batch()
    for given in (
        (ids, attended, torch.zeros_like(attended)),
        (ids[:, -1:], attended[:, -1:], attended[:, -1:]),
    ):
        found = score_tokens(find_scorer(model), *given)
        assert torch.equal(found.log_probs, torch.zeros(given[0].shape))
        found.log_probs.sum().backward()  # type: ignore[no-untyped-call]
        first = next(model.parameters())
        assert first.grad is not None
        assert not first.grad.any()


def test_half_precision() -> None:
    """The log-softmax is in float32: that of bfloat16 logits kept in bfloat16 is off by hundredths."""
    model = copy.deepcopy(tiny_model("llama")).bfloat16()
    ids, attended = batch("right")
    with torch.no_grad():
        found = score_tokens(find_scorer(model), ids, attended, attended).log_probs
        logits = model(input_ids=ids).logits[:, :-1]
    expected = torch.zeros(ids.shape)
    expected[:, 1:] = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    expected[~attended] = 0.0
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    rough = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].float()
    assert (rough - expected[:, 1:])[attended[:, 1:]].abs().max() > 1e-3
