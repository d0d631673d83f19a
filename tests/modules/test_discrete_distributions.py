"""Distributions of one of n choices: TorchRL's numbers, and what masks and gradients must do."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from specgen_runtime.modules import distributions as ours
from specgen_runtime.modules.distributions import ReparamGradientStrategy
from torch import Tensor

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}
METHODS = ["PassThrough", "RelaxedOneHot"]


def logits_of(dtype: torch.dtype, *shape: int) -> Tensor:
    torch.manual_seed(3)
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def compare(make: Any, logits: Tensor, *, reparameterized: bool) -> None:
    """Draws, scores, entropy, mode and gradients of the same distribution of both libraries."""
    theirs = pytest.importorskip("torchrl.modules.distributions")
    results = []
    for module in (ours, theirs):
        d = make(module)
        torch.manual_seed(0)
        drawn = d.sample((6,))
        parts = [d.log_prob(drawn), d.entropy()]
        if reparameterized:
            chosen = d.rsample((2,)) @ torch.arange(5, dtype=logits.dtype)
            relaxed = d.grad_method.name == "RelaxedOneHot"  # test_distribution_differences.py
            parts.append(chosen.detach() if relaxed else chosen)
        gradients = torch.autograd.grad(sum(part.sum() for part in parts), logits)
        results.append([drawn, d.mode, *parts, *gradients])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[logits.dtype], atol=TOLERANCE[logits.dtype])


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", ["logits", "probs"])
def test_one_hot_is_torchrls(dtype: torch.dtype, method: str, given: str) -> None:
    logits = logits_of(dtype, 4, 3, 5)

    def make(module: Any) -> Any:
        parameters = {given: logits if given == "logits" else logits.softmax(-1)}
        return module.OneHotCategorical(
            **parameters, grad_method=getattr(module.ReparamGradientStrategy, method)
        )

    compare(make, logits, reparameterized=True)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["Ordinal", "OneHotOrdinal"])
def test_ordinal_is_torchrls(dtype: torch.dtype, name: str) -> None:
    scores = logits_of(dtype, 4, 3, 5)
    compare(lambda module: getattr(module, name)(scores), scores, reparameterized=name == "OneHotOrdinal")


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("neg_inf", [float("-inf"), -10.0])
def test_masked_is_torchrls(dtype: torch.dtype, method: str, one_hot: bool, neg_inf: float) -> None:
    logits = logits_of(dtype, 4, 5)
    mask = torch.tensor([[True, False, True, True, False]]).expand(4, 5)

    def make(module: Any) -> Any:
        if one_hot:
            strategy = getattr(module.ReparamGradientStrategy, method)
            made = module.MaskedOneHotCategorical(logits, mask=mask, neg_inf=neg_inf, grad_method=strategy)
        else:
            made = module.MaskedCategorical(logits, mask=mask, neg_inf=neg_inf)
        made.use_cross_entropy = False  # with it, TorchRL can't score several draws of a batch
        return made

    compare(make, logits, reparameterized=one_hot)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", ["logits", "probs"])
def test_indices_are_torchrls(dtype: torch.dtype, given: str) -> None:
    theirs = pytest.importorskip("torchrl.modules.distributions")
    logits = logits_of(dtype, 5)
    indices = torch.tensor([4, 0, 2])
    parameters = {given: logits if given == "logits" else logits.softmax(-1)}
    results = []
    for module in (ours, theirs):
        d = module.MaskedCategorical(**parameters, indices=indices)
        torch.manual_seed(0)
        drawn = d.sample((20,))
        log_prob = d.log_prob(drawn)
        gradient = torch.autograd.grad(log_prob.sum(), logits, retain_graph=True)
        results.append([drawn, log_prob, d.entropy(), d.mode, d.log_prob(torch.tensor([1, 3]))])
        if given == "logits":  # test_distribution_differences.py
            results[-1].extend(gradient)
    assert set(results[0][0].tolist()) == {0, 2, 4}
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("given", ["logits", "probs"])
def test_masked_is_the_categorical_of_what_is_allowed(sparse: bool, given: str) -> None:
    logits = logits_of(torch.float64, 4, 5)
    rows = torch.tensor([[0, 1], [1, 4], [2, 3], [0, 4]])
    mask = torch.zeros(4, 5, dtype=torch.bool).scatter(-1, rows, True)
    allowed = {"indices": rows} if sparse else {"mask": mask}
    d = ours.MaskedCategorical(**{given: logits if given == "logits" else logits.softmax(-1)}, **allowed)
    plain = torch.distributions.Categorical(logits=logits.gather(-1, rows))
    assert torch.equal(d.mask, mask)
    for place in (0, 1):
        expected = plain.log_prob(torch.full((4,), place))
        torch.testing.assert_close(d.log_prob(rows[:, place]), expected)
        torch.testing.assert_close(d.expand((3, 4)).log_prob(rows[:, place]), expected.expand(3, 4))
    torch.testing.assert_close(d.entropy(), plain.entropy())
    assert torch.equal(d.mode, rows.gather(-1, plain.mode.unsqueeze(-1)).squeeze(-1))
    forbidden = torch.tensor([2, 0, 0, 1])
    assert (d.log_prob(forbidden) == -torch.inf).all()
    gradient = torch.autograd.grad(d.log_prob(rows[:, 0]).sum() + d.entropy().sum(), logits)[0]
    reference = torch.autograd.grad(plain.log_prob(torch.zeros(4)).sum() + plain.entropy().sum(), logits)[0]
    torch.testing.assert_close(gradient, reference)


def test_padding_is_no_choice() -> None:
    """0 is a choice of the first row, and padding in the second."""
    indices = torch.tensor([[1, 3, 4], [2, -1, -1]])
    d = ours.MaskedOneHotCategorical(logits=torch.zeros(2, 5), indices=indices, padding_value=-1)
    assert d.mask.tolist() == [[False, True, False, True, True], [False, False, True, False, False]]
    torch.manual_seed(0)
    drawn = d.sample((50,))
    assert (d.mask | (drawn == 0)).all()
    assert d.log_prob(drawn).unique().tolist() == pytest.approx([-1.0986123, 0.0], abs=1e-6)
    relaxed = ours.MaskedOneHotCategorical(
        logits=torch.zeros(2, 5),
        indices=indices,
        padding_value=-1,
        grad_method=ReparamGradientStrategy.RelaxedOneHot,
    )
    assert (d.mask | (relaxed.rsample((50,)) == 0)).all()
    assert d.expand((3, 2)).mode.shape == (3, 2, 5)


def test_what_masks_must_be_given() -> None:
    logits = torch.zeros(4)
    for kind in (ours.MaskedCategorical, ours.MaskedOneHotCategorical):
        with pytest.raises(ValueError, match="must be provided"):
            kind(logits)
        with pytest.raises(ValueError, match="must be provided"):
            kind(logits, mask=logits > 0, indices=torch.tensor([1]))
        with pytest.raises(ValueError, match="Either `probs` or `logits` must be specified"):
            kind(logits, logits, mask=logits > 0)


def test_one_hot_parameters() -> None:
    d = ours.OneHotCategorical(probs=torch.tensor([0.2, 0.5, 0.3]))
    assert d.mode.tolist() == [0, 1, 0]
    assert d.mode.dtype == torch.int64
    assert d.num_samples == 3
    assert torch.allclose(d.entropy(), torch.distributions.Categorical(probs=d.probs).entropy())
    assert d.expand((2,)).sample((4,)).shape == (4, 2, 3)
    d.update(logits=torch.zeros(2, 4))
    assert (d.batch_shape, d.num_samples) == ((2,), 4)


@pytest.mark.parametrize("level", ["position", "token"])
def test_tokens(level: str) -> None:
    torch.manual_seed(0)
    logits = torch.randn(2, 3, 5, requires_grad=True)
    mask = (
        torch.ones(2, 3, dtype=torch.bool) if level == "position" else torch.ones(2, 3, 5, dtype=torch.bool)
    )
    mask[0, 1] = False
    d = ours.LLMMaskedCategorical(logits, mask)
    tokens = torch.randint(5, (2, 3))
    tokens[0, 1] = -100
    log_prob = d.log_prob(tokens)
    expected = logits.log_softmax(-1).gather(-1, tokens.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    expected = torch.where(tokens < 0, 0.0, expected)
    torch.testing.assert_close(log_prob, expected)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    entropy[0, 1] = 0
    torch.testing.assert_close(d.entropy(), entropy)
    assert d.sample((4,)).shape == (4, 2, 3)
    assert torch.equal(d.mode[1], logits[1].argmax(-1))
    assert torch.equal(d.probs, logits.softmax(-1))
    with pytest.raises(ValueError, match=r"tokens must have shape \(2, 3\), got \(3,\)"):
        d.log_prob(tokens[0])
    with pytest.raises(ValueError, match="the mask must have the shape of the logits"):
        ours.LLMMaskedCategorical(logits, mask[:1])


def test_forbidden_tokens_are_not_drawn() -> None:
    mask = torch.tensor([[True, False, True], [False, True, False]])
    d = ours.LLMMaskedCategorical(torch.zeros(2, 3), mask)
    drawn = d.sample((200,))
    assert set(drawn[:, 0].tolist()) == {0, 2}
    assert set(drawn[:, 1].tolist()) == {1}
    assert d.log_prob(torch.tensor([1, 1])).tolist() == [torch.finfo(torch.float32).min, 0.0]
    d.clear_cache()
    assert torch.equal(d.mode, torch.tensor([0, 1]))


def test_probabilities_of_all_choices() -> None:
    logits = torch.tensor([[0.0, 1.0, -200.0]])
    for kind in (
        torch.distributions.Categorical,
        torch.distributions.OneHotCategorical,
        ours.OneHotCategorical,
    ):
        d = kind(logits=logits)
        torch.testing.assert_close(ours.log_probs(d), logits.log_softmax(-1))
        torch.testing.assert_close(ours.probs(d), logits.softmax(-1))
    for kind in (ours.MaskedCategorical, ours.MaskedOneHotCategorical):
        for allowed in ({"indices": torch.tensor([1, 0])}, {"mask": torch.tensor([True, True, False])}):
            d = kind(logits, **allowed)
            expected = torch.tensor([[0.0, 1.0, -torch.inf]]).log_softmax(-1)
            torch.testing.assert_close(ours.log_probs(d), expected)
    with pytest.raises(TypeError, match="a Normal is not a distribution of n choices"):
        ours.probs(torch.distributions.Normal(0.0, 1.0))


@pytest.mark.parametrize("kind", [ours.Categorical, ours.OneHotCategorical, ours.Ordinal, ours.OneHotOrdinal])
def test_what_is_no_number_is_not_drawn(kind: Any) -> None:
    parameters = torch.tensor([[0.0, 1.0], [torch.nan, 0.0]])
    made = kind(scores=parameters) if "Ordinal" in kind.__name__ else kind(logits=parameters)
    with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan`"):
        made.sample()


@pytest.mark.parametrize("given", ["logits", "probs"])
@pytest.mark.parametrize("batch", [(), (4,), (4, 3)])
def test_categorical_is_torchs(given: str, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    logits = torch.randn(*batch, 5, dtype=torch.float64, requires_grad=True)
    results = []
    for kind in (ours.Categorical, torch.distributions.Categorical):
        d: Any = kind(**{given: logits if given == "logits" else logits.softmax(-1)})
        torch.manual_seed(1)
        drawn, several = d.sample(), d.sample((6, 2))
        scores = d.log_prob(several)
        again = d.sample()
        wider = d.expand((2, *batch))
        (gradient,) = torch.autograd.grad(scores.sum() + d.entropy().sum(), logits)
        results.append(
            [drawn, several, scores, again, d.mode, d.probs, d.logits, wider.sample(), wider.probs, gradient]
        )
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert torch.equal(ours.Categorical(logits=logits).deterministic_sample, logits.argmax(-1))


def test_categorical_refuses() -> None:
    for keywords in ({}, {"logits": torch.zeros(3), "probs": torch.ones(3)}):
        with pytest.raises(ValueError, match="either `probs` or `logits` must be given"):
            ours.Categorical(**keywords)
    with pytest.raises(ValueError, match="must have a dimension for the choices"):
        ours.Categorical(logits=torch.zeros(()))


@pytest.mark.parametrize("kind", ["OneHotCategorical", "OneHotOrdinal", "MaskedOneHotCategorical"])
def test_one_hot_actions_of_truth_values_are_scored(kind: str) -> None:
    """As a spec of one-hot vectors has them."""
    logits = torch.randn(4, 3)
    given = {"mask": torch.ones(4, 3, dtype=torch.bool)} if kind.startswith("Masked") else {}
    d = getattr(ours, kind)(logits, **given)
    action = d.sample()
    assert torch.equal(d.log_prob(action.bool()), d.log_prob(action))


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_that_allows_nothing(one_hot: bool, sparse: bool) -> None:
    kind: Any = ours.MaskedOneHotCategorical if one_hot else ours.MaskedCategorical
    allowed = {"mask": torch.tensor([[True, False], [False, False]])}
    if sparse:
        allowed = {"indices": torch.tensor([[0, 1], [-1, -1]])}
    d = kind(logits=torch.zeros(2, 2), **allowed, **({"padding_value": -1} if sparse else {}))
    with pytest.raises(RuntimeError, match="cannot draw: the mask of a row allows no choice"):
        d.sample()
    broken = kind(logits=torch.full((1, 2), math.nan), mask=torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(RuntimeError, match="probability tensor contains"):
        broken.sample()
