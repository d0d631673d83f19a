"""`DuelingValues`: against the equations of Wang et al. 2016 and of Tavakoli et al. 2018, written number by number."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.modules import DuelingValues
from torch import nn


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 3, 7)])
def test_of_one_choice(shape: tuple[int, ...]) -> None:
    """Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a')."""
    x = torch.randn(*shape, 1 + 4, dtype=torch.float64)
    found = DuelingValues()(x)
    assert found.shape == (*shape, 4)
    for given, got in zip(x.reshape(-1, 5).tolist(), found.reshape(-1, 4).tolist(), strict=True):
        value, advantages = given[0], given[1:]
        assert got == pytest.approx([value + one - sum(advantages) / 4 for one in advantages])


def test_of_several_choices() -> None:
    """Q_d(s, a) = V(s) + A_d(s, a) - mean over a' of A_d(s, a'): one value of the state for all choices."""
    nums = (2, 4, 3)
    x = torch.randn(6, 1 + sum(nums), dtype=torch.float64, requires_grad=True)
    found = DuelingValues(nums)(x)
    for given, got in zip(x.tolist(), found.tolist(), strict=True):
        expected, first = list[float](), 1
        for n in nums:
            advantages = given[first : first + n]
            expected += [given[0] + one - sum(advantages) / n for one in advantages]
            first += n
        assert got == pytest.approx(expected)
    assert torch.autograd.gradcheck(DuelingValues(nums), x)


def test_a_common_advantage_changes_nothing() -> None:
    """What is added to all advantages of a choice is none: the mean of its values is that of the state."""
    x = torch.randn(6, 1 + 5)
    values = DuelingValues([2, 3])(x)
    torch.testing.assert_close(values[:, :2].mean(-1), x[:, 0])
    torch.testing.assert_close(values[:, 2:].mean(-1), x[:, 0])
    x[:, 3:] += 7.0
    torch.testing.assert_close(DuelingValues([2, 3])(x), values, atol=1e-5, rtol=1e-5)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"var_nums must be positive, one of each choice, got \[2, 0\]"):
        DuelingValues([2, 0])
    with pytest.raises(
        ValueError, match=r"choices of \[2, 4\] values have 6 entries in all, got shape \(8, 5\)"
    ):
        nn.Sequential(nn.Linear(3, 6), DuelingValues([2, 4]))(torch.zeros(8, 3))


@pytest.mark.parametrize("nums", [None, (2, 3)])
def test_compiled(nums: tuple[int, ...] | None) -> None:
    net = DuelingValues(nums)
    x = torch.randn(6, 6)
    torch.testing.assert_close(torch.compile(net, fullgraph=True, backend="eager")(x), net(x))
    assert str(net) == ("DuelingValues()" if nums is None else "DuelingValues(var_nums=[2, 3])")
