"""Several optimizers as one, and parameters that are held out of a graph."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from specgen_runtime.objectives import group_optimizers, hold_out_params
from specgen_std.losses import SACLoss
from tensordict import TensorDict
from torch import Tensor, nn

from tests.objectives.every_loss import batch, made, total

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:No target network updater")


def optimizers(loss: SACLoss) -> Iterator[torch.optim.Optimizer]:
    for rate, term in ((1e-2, "loss_actor"), (1e-3, "loss_qvalue"), (0.1, "loss_alpha")):
        yield torch.optim.Adam(loss.parameters_of(term), lr=rate)


def trained(loss: SACLoss, steps: int, used: list[torch.optim.Optimizer]) -> None:
    for step in range(steps):
        torch.manual_seed(step)
        loss.zero_grad()
        total(loss(batch("SACLoss", 6))).backward()
        for one in used:
            one.step()


def test_one_does_what_several_do() -> None:
    apart, grouped = made(SACLoss), made(SACLoss)
    several = list(optimizers(apart))
    trained(apart, 4, several)
    used = list(optimizers(grouped))
    trained(grouped, 2, used)
    one = group_optimizers(None, *used)  # with the moments that they have by now
    assert [group["lr"] for group in one.param_groups] == [1e-2, 1e-3, 0.1]
    torch.manual_seed(2)
    for step in (2, 3):
        torch.manual_seed(step)
        grouped.zero_grad()
        total(grouped(batch("SACLoss", 6))).backward()
        one.step()
    for (name, got), wanted in zip(grouped.named_parameters(), apart.parameters(), strict=True):
        torch.testing.assert_close(got, wanted, msg=name)


def test_optimizers_of_several_classes() -> None:
    layer = nn.Linear(1, 1)
    with pytest.raises(ValueError, match="optimizers of one class can be grouped, got Adam, SGD"):
        group_optimizers(torch.optim.Adam(layer.parameters()), torch.optim.SGD(layer.parameters()))
    with pytest.raises(ValueError, match="got none"):
        group_optimizers(None)


def test_parameters_are_held_out() -> None:
    layer, x = nn.Linear(2, 1), torch.randn(3, 2, requires_grad=True)
    with hold_out_params(TensorDict.from_module(layer)) as held, held.to_module(layer):
        layer(x).sum().backward()
    assert x.grad is not None
    assert layer.weight.grad is None
    assert layer.weight.requires_grad
    with hold_out_params(layer.parameters()) as (weight, bias):
        out: Tensor = nn.functional.linear(x, weight, bias)
    assert out.requires_grad
    assert not weight.requires_grad
