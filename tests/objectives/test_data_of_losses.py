"""What losses do with data that carry gradients, or have another shape than is declared, beside TorchRL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor

from tests.objectives.every_loss import KEYWORDS, batch, losses, made, networks

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore:.*arget.*updater.*")]


def both(name: str) -> tuple[Any, Any]:
    """A loss of ours and TorchRL's, over equal networks."""
    objectives = pytest.importorskip("torchrl.objectives")
    theirs = getattr(objectives, name)(*networks(losses()[name], 7).values(), **KEYWORDS.get(name, {}))
    theirs.make_value_estimator()
    return made(losses()[name], 7), theirs


@pytest.mark.parametrize("name", ["A2CLoss", "PPOLoss", "ClipPPOLoss", "ReinforceLoss"])
def test_a_flat_advantage_is_that_of_each_sample(name: str) -> None:
    mine, theirs = both(name)
    term = "loss_actor" if name == "ReinforceLoss" else "loss_objective"
    column = batch(name, 6)
    column["advantage"] = torch.randn(6, 1)
    flat = column.clone()
    flat["advantage"] = flat["advantage"].squeeze(-1)
    wanted = theirs(column.clone())[term]
    torch.testing.assert_close(mine(column.clone())[term], wanted)
    torch.testing.assert_close(mine(flat.clone())[term], wanted)
    if name == "A2CLoss":  # pairs each advantage with each action
        outer = -(flat["advantage"].mean() * _log_prob(mine, flat).mean())
        torch.testing.assert_close(theirs(flat.clone())[term], outer)
    elif name != "ReinforceLoss":
        with pytest.raises(ValueError, match="outer product"):
            theirs(flat.clone())


@pytest.mark.parametrize("shape", [(4, 1), (1, 1), (4, 3)])
@pytest.mark.parametrize("name", ["A2CLoss", "PPOLoss", "ClipPPOLoss", "KLPENPPOLoss", "ReinforceLoss"])
def test_flat_numbers_of_trajectories_are_those_of_each_sample(name: str, shape: tuple[int, int]) -> None:
    """In a batch of trajectories of one step, [n, 1], flat numbers look like columns of [n]."""
    loss = made(losses()[name], 7)
    column = batch(name, *shape)
    column["advantage"], column["value_target"] = torch.randn(*shape, 1), torch.randn(*shape, 1)
    flat = column.clone()
    for key in ("advantage", "value_target"):
        flat[key] = flat[key].squeeze(-1)
    assert_terms(loss(flat), loss(column))


def assert_terms(got: TensorDict, wanted: TensorDict) -> None:
    """All terms are equal."""
    torch.testing.assert_close(dict(got.items()), dict(wanted.items()), rtol=0, atol=0)


def _log_prob(loss: Any, data: TensorDict) -> Tensor:
    policy = loss.functional_network("actor_network").dist("live", data)
    found: Tensor = policy.log_prob(data["action"]).detach()
    return found


def test_gradients_reach_what_the_networks_read_and_not_the_target() -> None:
    reached = []
    for loss in both("DDPGLoss"):
        data, leaves = batch("DDPGLoss", 6), {}
        for key in ("observation", "action", ("next", "observation"), ("next", "reward")):
            leaves[key] = data[key].clone().requires_grad_()
            data[key] = leaves[key]
        total = loss(data)["loss_value"]
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        reached.append({key for key, one in zip(leaves, found, strict=True) if one is not None})
    assert reached[0] == {"observation", "action"}
    assert reached[1] == {("next", "observation"), ("next", "reward")}  # through the target alone


def test_crossq_lists_what_it_returns() -> None:
    mine, theirs = both("CrossQLoss")
    returned = set(theirs(batch("CrossQLoss", 6)).keys())
    assert set(mine.out_keys) == set(mine(batch("CrossQLoss", 6)).keys()) == returned
    assert returned - set(theirs.out_keys) == {"log_prob", "td_error"}
