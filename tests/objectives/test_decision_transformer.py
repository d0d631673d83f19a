"""The generated `DTLoss`: against TorchRL's, and by its formula."""

from __future__ import annotations

import pytest
import torch
from specgen_std.losses.behavior_cloning import BCLoss
from specgen_std.losses.decision_transformer import DTLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.peers import N_ACT, N_OBS, batch


def predictor(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    """A prediction of the action."""
    torch.manual_seed(0)
    return TensorDictModule(
        nn.Linear(N_OBS, N_ACT, dtype=dtype), in_keys=["observation"], out_keys=["action_pred"]
    )


def steps(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    return batch(*shape, dtype=dtype).exclude("priority_weight")


@pytest.mark.peers
@pytest.mark.parametrize("loss_function", ["l2", "l1", "smooth_l1"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    loss_function: str, reduction: str, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    found = []
    for cls in (DTLoss, objectives.DTLoss):
        loss = cls(predictor(dtype), loss_function=loss_function, reduction=reduction)
        loss.set_keys(action_pred="action_pred")
        value = loss(steps(*shape, dtype=dtype))["loss"]
        value.sum().backward()
        found.append([value, *(p.grad for p in loss.actor_network_params.values(True, True))])
    assert len(found[0]) == len(found[1]) == 3
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)


def test_the_formula() -> None:
    """Chen et al. 2021, algorithm 1: the mean squared distance over all entries of all actions."""
    loss, data, network = DTLoss(predictor()), steps(4, 3), predictor()
    loss.set_keys(action_pred="action_pred")
    wanted = ((network(data.clone())["action_pred"] - data["action"]) ** 2).mean()
    torch.testing.assert_close(loss(data)["loss"], wanted)
    assert "action_pred" not in data


@pytest.mark.peers
def test_nothing_of_the_next_record_is_read() -> None:
    """What a loss reads can be selected, or given by keywords: `in_keys` names nothing else."""
    objectives = pytest.importorskip("torchrl.objectives")
    for cls in (DTLoss, BCLoss):
        network = TensorDictModule(nn.Linear(N_OBS, N_ACT), in_keys=["observation"], out_keys=["action"])
        mine, theirs = cls(network), getattr(objectives, cls.__name__)(network)
        assert set(mine.in_keys) == set(theirs.in_keys) == {"observation", "action"}
        data = steps(4, 3).select(*mine.in_keys)
        assert torch.equal(mine(**data), mine(data)[mine.out_keys[0]])
