"""Distributions of continuous actions: TorchRL's numbers where it has any, the formulas where it has none."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from specgen_runtime.modules import distributions as ours
from torch import Tensor
from torch import distributions as D

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


def test_gradients_of_the_score_of_a_draw() -> None:
    """Through the draw as far as it carries gradients, and to the parameters of the moment."""
    loc = torch.tensor([0.3, -1.0], dtype=torch.float64, requires_grad=True)
    d = ours.TanhNormal(loc, 0.5)
    with torch.no_grad():
        drawn = d.rsample()
    expected = torch.autograd.grad(d.log_prob(drawn.clone()), loc)[0]
    torch.testing.assert_close(torch.autograd.grad(d.log_prob(drawn), loc)[0], expected)
    drawn = d.rsample()
    assert not torch.allclose(torch.autograd.grad(d.log_prob(drawn), loc, retain_graph=True)[0], expected)
    d.update(loc + 1, 0.7)
    torch.testing.assert_close(d.log_prob(drawn), ours.TanhNormal(loc + 1, 0.7).log_prob(drawn))


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
    with pytest.raises(ValueError, match=r"high must be strictly greater than low, got low=1\.0, high=1\.0"):
        ours.TanhNormal(loc, 1.0, low=1, high=1)
    with pytest.raises(ValueError, match="high must be strictly greater than low"):
        ours.TanhNormal(loc, 1.0, low=torch.tensor([0.0, 0.0, 2.0]), high=1)
    with pytest.raises(ValueError, match=r"loc of shape \(4, 3\) has not 3 dimensions"):
        ours.TanhNormal(loc, 1.0, event_dims=3)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
def test_independent_normal_is_torchrls(dtype: torch.dtype) -> None:
    theirs = pytest.importorskip("torchrl.modules.distributions")
    results = []
    for module in (ours, theirs):
        loc, scale = (x.requires_grad_() for x in parameters(dtype, 5, 4))
        d = module.IndependentNormal(loc, scale)
        torch.manual_seed(0)
        parts = [d.rsample((2,)), d.log_prob(d.sample((3,))), d.entropy()]
        gradients = torch.autograd.grad(sum(part.sum() for part in parts), (loc, scale))
        d.tanh_loc = True
        d.update(loc, torch.ones_like)
        results.append([*parts, *gradients, d.mode, d.deterministic_sample, d.mean, d.stddev])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    wide = ours.IndependentNormal(torch.zeros(4, 3, 2), 1.0, event_dim=2)
    assert (wide.batch_shape, wide.event_shape) == ((4,), (3, 2))


@pytest.mark.parametrize("event_dim", [0, 1, 2])
def test_independent_normal_is_torchs(event_dim: int) -> None:
    loc, scale = (x.requires_grad_() for x in parameters(torch.float64, 4, 2))
    own = ours.IndependentNormal(loc, scale, event_dim=event_dim)
    plain = D.Independent(D.Normal(loc, scale), event_dim)
    value = torch.randn(5, *loc.shape, dtype=torch.float64)
    with torch.no_grad():  # what is computed here is no part of a graph later
        torch.testing.assert_close(own.entropy(), plain.entropy())
    for made in ((own.log_prob(value), own.entropy()), (own.entropy(), own.log_prob(value))):
        total = sum(part.sum() for part in made)
        expected = plain.log_prob(value).sum() + plain.entropy().sum()
        torch.testing.assert_close(total, expected)
        for got, wanted in zip(
            torch.autograd.grad(total, (loc, scale), retain_graph=True),
            torch.autograd.grad(expected, (loc, scale)),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted)


@pytest.mark.peers
def test_truncated_normal_is_torchrls() -> None:
    """TorchRL cuts masses off at 1e-6, see test_distribution_differences.py: equal to that precision."""
    theirs = pytest.importorskip("torchrl.modules.distributions")
    results = []
    for module in (ours, theirs):
        loc, scale = (x.requires_grad_() for x in parameters(torch.float64, 5, 4))
        low, high = (
            torch.tensor(-1.0, dtype=torch.float64),
            torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),
        )
        d = module.TruncatedNormal(loc, 1.0 + scale, low=low, high=high)
        torch.manual_seed(0)
        parts = [d.rsample((2,)), d.log_prob(d.sample((3,)).detach()), d.entropy(), d.mean]
        gradients = torch.autograd.grad(sum(part.sum() for part in parts), (loc, scale))
        squashed = module.TruncatedNormal(loc, scale, upscale=2.0, tanh_loc=True)
        results.append([*parts, d.variance, *gradients, d.deterministic_sample, d.mode, squashed.loc])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("loc", "scale"), [(0.2, 0.3), (0.0, 0.01), (3.0, 0.5), (-5.0, 0.5), (0.0, 1000.0)])
def test_truncated_normal_is_a_density(loc: float, scale: float) -> None:
    d = ours.TruncatedNormal(torch.tensor([loc], dtype=torch.float64), scale, low=-1.0, high=2.0)
    middles = torch.linspace(-1, 2, 600_001, dtype=torch.float64)
    middles = ((middles[1:] + middles[:-1]) / 2).unsqueeze(-1)
    weights = d.log_prob(middles).exp() * 5e-6
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
    mean = (weights * middles[:, 0]).sum()
    torch.testing.assert_close(d.mean[0], mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        d.variance[0], (weights * (middles[:, 0] - mean) ** 2).sum(), rtol=1e-4, atol=1e-9
    )
    torch.testing.assert_close(d.entropy(), -(weights * d.log_prob(middles)).sum(), rtol=1e-5, atol=1e-5)
    torch.manual_seed(0)
    drawn = d.sample((200_000,))
    assert d.support.check(drawn).all()
    assert float(drawn.mean()) == pytest.approx(float(mean), abs=5 * float(d.variance.sqrt()) / 400)
    assert float(d.log_prob(torch.tensor([2.1], dtype=torch.float64))) == -math.inf


def test_gradients_of_a_truncated_normal() -> None:
    loc = torch.tensor([0.3, -4.0, 4.0], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.5, 0.9, 0.7], dtype=torch.float64, requires_grad=True)

    def everything_of(loc: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
        d = ours.TruncatedNormal(loc, scale, low=-1.0, high=1.0)
        torch.manual_seed(0)
        drawn = d.rsample()
        return drawn, d.log_prob(torch.tensor([0.1, -0.9, 0.9])), d.entropy(), d.mean, d.variance

    assert torch.autograd.gradcheck(everything_of, (loc, scale))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["TanhNormal", "TruncatedNormal"])
def test_half_precision(dtype: torch.dtype, name: str) -> None:
    """As in single precision, to the digits that there are."""
    loc, scale = parameters(torch.float32, 200)
    loc = loc.to(dtype).requires_grad_()
    d = getattr(ours, name)(loc, scale.to(dtype), low=-2.0, high=1.0)
    single = getattr(ours, name)(loc.detach().float(), scale.to(dtype).float(), low=-2.0, high=1.0)
    action, log_prob = ours.rsample_and_log_prob(d)
    assert action.dtype == dtype
    assert d.support.check(action).all()
    gradient = torch.autograd.grad(action.float().sum() + log_prob.sum(), loc)[0]
    assert gradient.isfinite().all()
    inside = (action.float() / 3).detach()
    assert (
        d.log_prob(inside.to(dtype)).float() - single.log_prob(inside.to(dtype).float())
    ).abs().mean() < 0.1
    assert (d.deterministic_sample.float() - single.deterministic_sample).abs().max() < 0.05


@pytest.mark.peers
@pytest.mark.parametrize("dtype", DTYPES)
def test_deltas_are_torchrls(dtype: torch.dtype) -> None:
    theirs = pytest.importorskip("torchrl.modules.distributions")
    param = parameters(dtype, 5)[0]
    for make in (
        lambda module: module.Delta(param),
        lambda module: module.Delta(param, batch_shape=(), event_shape=(5, 3)),
        lambda module: module.TanhDelta(param, low=-2.0, high=2.0, atol=1e-4, rtol=1e-4),
    ):
        mine, other = make(ours), make(theirs)
        assert (mine.batch_shape, mine.event_shape) == (other.batch_shape, other.event_shape)
        for shape in ((), (2,)):
            torch.testing.assert_close(mine.sample(shape), other.sample(shape))
        values = torch.stack([other.mode, other.mode + 0.1])
        torch.testing.assert_close(mine.log_prob(values), other.log_prob(values))
        assert mine.log_prob(mine.mode.expand(4, 5, 3)).isposinf().all()
        torch.testing.assert_close(mine.deterministic_sample, other.deterministic_sample)


def test_deltas() -> None:
    param = torch.randn(4, 3, requires_grad=True)
    d = ours.TanhDelta(param, low=0.0, high=torch.tensor([1.0, 2.0, 4.0]))
    expected = ours.TanhNormal(param, 1.0, low=0.0, high=torch.tensor([1.0, 2.0, 4.0])).deterministic_sample
    torch.testing.assert_close(d.rsample((2,)), expected.expand(2, 4, 3))
    assert d.rsample().requires_grad
    assert not d.sample().requires_grad
    assert d.expand((7, 4)).mode.shape == (7, 4, 3)
    assert ours.Delta(param).expand((7, 4)).mode.shape == (7, 4, 3)
    d.update(torch.zeros(4, 3))
    assert torch.equal(d.mode[0], torch.tensor([0.5, 1.0, 2.0]))
    assert torch.equal(torch.stack([d.min.expand(3), d.max]), torch.tensor([[0.0] * 3, [1.0, 2.0, 4.0]]))
    with pytest.raises(
        ValueError, match=r"param has shape \(4, 3\), batch_shape and event_shape make \(4, 2\)"
    ):
        ours.Delta(param, batch_shape=(4,), event_shape=(2,))
    with pytest.raises(ValueError, match="high must be strictly greater than low"):
        ours.TanhDelta(param, low=1.0, high=1.0)


def score(loc: Tensor, scale: Tensor) -> Tensor:
    """Of all kinds of distributions, what losses ask of them."""
    tanh = ours.TanhNormal(loc, scale, low=-2.0, high=1.0)
    action, log_prob = tanh.rsample_and_log_prob()
    choice = ours.OneHotCategorical(logits=loc)
    masked = ours.MaskedCategorical(logits=loc, mask=torch.tensor([True, True, False]))
    normal = ours.IndependentNormal(loc, scale)
    cut = ours.TruncatedNormal(loc, scale)
    return (
        action.sum(-1) + log_prob + tanh.log_prob(action.detach() / 2) + choice.log_prob(choice.sample())
        + choice.entropy() + masked.log_prob(masked.mode) + masked.entropy() + normal.log_prob(normal.sample())
        + normal.entropy() + cut.log_prob(cut.rsample()) + cut.entropy() + ours.Delta(loc).mode.sum(-1)
    )  # fmt: skip


@pytest.mark.slow
def test_compiled() -> None:
    loc, scale = torch.randn(6, 3), torch.rand(3) + 0.5
    torch.manual_seed(0)
    expected = score(loc, scale)
    torch.manual_seed(0)
    compiled = torch.compile(score, fullgraph=True, backend="aot_eager")(loc, scale)
    torch.testing.assert_close(compiled, expected)


def test_mapped_over_a_leading_axis() -> None:
    locs, scale = torch.randn(4, 6, 3), torch.rand(3) + 0.5

    def of_one(loc: Tensor) -> Tensor:
        d = ours.TanhNormal(loc, scale, low=-2.0, high=1.0)
        return d.log_prob(d.deterministic_sample) + ours.TruncatedNormal(loc, scale).entropy()

    torch.testing.assert_close(torch.vmap(of_one)(locs), torch.stack([of_one(loc) for loc in locs]))
