"""Statistics over the samples of a batch, against torch's functions of those that a mask lets count."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.objectives.samples import (
    sample_count,
    sample_effective_fraction,
    sample_logsumexp,
    sample_max,
    sample_mean,
    sample_standardized,
    sample_std,
    sample_sum,
    sample_var,
)

STATISTICS = {
    sample_mean: lambda x: x.mean(),
    sample_sum: lambda x: x.sum(),
    sample_max: lambda x: x.max(),
    sample_var: lambda x: x.var(correction=0),
    sample_std: lambda x: x.std() if x.numel() > 1 else x.new_zeros(()),
    sample_logsumexp: lambda x: x.logsumexp(0),
    sample_count: lambda x: torch.tensor(x.numel()),
    sample_effective_fraction: lambda x: x.exp().sum() ** 2 / x.exp().square().sum() / x.numel(),
}


@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("shape", [(1,), (7,), (4, 3), (2, 3, 5)])
def test_statistics_of_the_samples(statistic: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    plain = STATISTICS[statistic]
    torch.testing.assert_close(statistic(x), plain(x.flatten()), check_dtype=False)
    mask = torch.arange(x.numel()).reshape(shape) % 3 != 1
    poisoned = torch.where(mask, x, torch.nan)
    torch.testing.assert_close(statistic(poisoned, mask), plain(x[mask]), check_dtype=False)
    torch.testing.assert_close(statistic(x, torch.ones(shape[0], dtype=torch.bool)), statistic(x))
    if len(shape) > 1:
        kept = statistic(x, keep=(-2,))
        assert kept.shape == x.shape
        for agent in range(shape[-1]):
            expected = plain(x[..., agent].flatten())
            torch.testing.assert_close(kept[..., agent], expected.expand(shape[:-1]), check_dtype=False)
            if mask[..., agent].any():
                expected = plain(x[..., agent][mask[..., agent]])
                masked = statistic(poisoned, mask, keep=(-2,))[..., agent]
                torch.testing.assert_close(masked, expected.expand(shape[:-1]), check_dtype=False)
    with pytest.raises(ValueError, match="does not fit samples"):
        statistic(x, torch.ones(*shape, 2, dtype=torch.bool))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (256,), (4, 3), (5, 1), (2, 3, 5)])
def test_standardized_samples_are_as_their_mean_and_deviation_make_them(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """Up to the last bits: without a mask both are computed in one pass."""
    x = 3 + 2 * torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    mask = torch.arange(x.numel()).reshape(shape) % 3 != 1
    for keep in ((), (-2,)) if len(shape) > 1 else ((),):
        deviation = sample_std(x, keep=keep).clamp(min=1e-6)
        alone = x.numel() == 1 or (bool(keep) and x.shape[0] == x.numel() // x.shape[-1] == 1)
        expected = x if alone else (x - sample_mean(x, keep=keep)) / deviation
        torch.testing.assert_close(sample_standardized(x, keep=keep), expected)
        everything = torch.ones(shape, dtype=torch.bool)
        torch.testing.assert_close(sample_standardized(x, everything, keep), expected)
        found = sample_standardized(torch.where(mask, x, torch.nan), mask, keep)[mask]
        kept = (x - sample_mean(x, mask, keep)) / sample_std(x, mask, keep).clamp(min=1e-6)
        several = sample_count(x, mask, keep) > 1
        torch.testing.assert_close(found, torch.where(several, kept, x)[mask])


@pytest.mark.parametrize("statistic", [*STATISTICS, sample_standardized], ids=lambda one: one.__name__)
def test_what_a_mask_leaves_out_has_no_gradient(statistic: Any) -> None:
    if statistic is sample_count:
        return
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    mask = torch.arange(12).reshape(4, 3) % 3 != 1
    weight = torch.randn(4, 3, dtype=torch.float64, generator=generator) * mask
    for keep in ((), (-2,)):
        gradients = []
        for stands in (0.5, torch.nan):
            poisoned = x.masked_fill(~mask, stands).requires_grad_()
            found = statistic(poisoned, mask, keep)
            (found.masked_fill(~mask, 0.0) * weight if found.ndim else found).sum().backward()
            gradients.append(poisoned.grad)
        torch.testing.assert_close(gradients[0], gradients[1])
        assert gradients[0][~mask].count_nonzero() == 0


@pytest.mark.parametrize("keep", [(), (-2,)])
@pytest.mark.parametrize("masked", [False, True])
def test_samples_that_are_all_alike_have_gradients_that_are_numbers(
    masked: bool, keep: tuple[int, ...]
) -> None:
    x = torch.full((4, 3), 2.0, requires_grad=True)
    mask = torch.arange(12).reshape(4, 3) > 2 if masked else None
    (gradient,) = torch.autograd.grad(sample_std(x, mask, keep).sum(), x)
    assert gradient.count_nonzero() == 0
    (gradient,) = torch.autograd.grad(sample_standardized(x, mask, keep)[1, 1], x)
    assert gradient.isfinite().all()
    assert gradient[1, 1] > 0
    assert torch.func.grad(lambda x: sample_std(x, mask, keep).sum())(x.detach()).count_nonzero() == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("statistic", "expected"),
    [
        (sample_mean, 0.0),
        (sample_sum, 0.0),
        (sample_var, 0.0),
        (sample_std, 0.0),
        (sample_max, -torch.inf),
        (sample_logsumexp, -torch.inf),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_no_samples_are_as_samples_none_of_which_counts(
    statistic: Any, expected: float, masked: bool
) -> None:
    mask = torch.zeros(0, dtype=torch.bool) if masked else None
    x = torch.zeros(0, dtype=torch.float64, requires_grad=True)
    found = statistic(x, mask)
    assert found.dtype == torch.float64
    assert found.item() == expected == statistic(torch.ones(3), torch.zeros(3, dtype=torch.bool)).item()
    found.backward()
    assert x.grad is not None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("statistic", STATISTICS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("masked", [False, True])
def test_no_samples_of_several_agents(statistic: Any, masked: bool) -> None:
    mask = torch.ones(0, 3, 1, dtype=torch.bool) if masked else None
    assert statistic(torch.zeros(0, 3, 1), mask, keep=(-2,)).shape == (0, 3, 1)


def test_one_sample_of_each_agent_is_itself() -> None:
    x = torch.tensor([[2.0, -3.0]])
    torch.testing.assert_close(sample_standardized(x, keep=(-2,)), x)
    x, mask = torch.tensor([[2.0, -3.0], [4.0, 5.0]]), torch.tensor([[True, True], [False, True]])
    found = sample_standardized(x, mask, keep=(-2,))
    torch.testing.assert_close(found[0], torch.tensor([2.0, -(0.5**0.5)]))


def test_the_effective_fraction_is_nearer_to_the_exact_number_than_by_logarithms() -> None:
    weights = 0.3 * torch.randn(4096, generator=torch.Generator().manual_seed(0))
    exact = sample_effective_fraction(weights.double())
    by_logarithms = (2 * weights.logsumexp(0) - (2 * weights).logsumexp(0)).exp() / 4096
    assert (sample_effective_fraction(weights) - exact).abs() <= (by_logarithms - exact).abs()
    torch.testing.assert_close(sample_effective_fraction(weights + 300), sample_effective_fraction(weights))
