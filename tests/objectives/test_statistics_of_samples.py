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
        expected = (x - sample_mean(x, keep=keep)) / deviation if x.numel() > 1 else x
        torch.testing.assert_close(sample_standardized(x, keep=keep), expected)
        everything = torch.ones(shape, dtype=torch.bool)
        torch.testing.assert_close(sample_standardized(x, everything, keep), expected)
        found = sample_standardized(torch.where(mask, x, torch.nan), mask, keep)[mask]
        kept = (x - sample_mean(x, mask, keep)) / sample_std(x, mask, keep).clamp(min=1e-6)
        torch.testing.assert_close(found, (kept if mask.sum() > 1 else x)[mask])


def test_the_effective_fraction_is_nearer_to_the_exact_number_than_by_logarithms() -> None:
    weights = 0.3 * torch.randn(4096, generator=torch.Generator().manual_seed(0))
    exact = sample_effective_fraction(weights.double())
    by_logarithms = (2 * weights.logsumexp(0) - (2 * weights).logsumexp(0)).exp() / 4096
    assert (sample_effective_fraction(weights) - exact).abs() <= (by_logarithms - exact).abs()
    torch.testing.assert_close(sample_effective_fraction(weights + 300), sample_effective_fraction(weights))
