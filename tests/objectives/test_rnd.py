"""The generated `RNDLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import RunningMeanStd
from specgen_std.losses import RNDLoss
from tensordict import TensorDict
from torch import nn

from tests.objectives.peers import N_OBS, batch, gradients

FEATURES = 3


def network(dtype: torch.dtype = torch.float32, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N_OBS, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, FEATURES, dtype=dtype))


def data(*shape: int, dtype: torch.dtype = torch.float32) -> TensorDict:
    made: TensorDict = batch(*shape, dtype=dtype).select(("next", "observation"))
    return made


def statistics(dtype: torch.dtype) -> RunningMeanStd:
    made = RunningMeanStd((N_OBS,))
    made.update(3 + 2 * data(64)["next", "observation"])
    return made.to(dtype)


@pytest.mark.peers
@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.7, 1.0])
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
def test_equals_torchrl(fraction: float, normalized: bool, reduction: str, shape: tuple[int, ...]) -> None:
    objectives = pytest.importorskip("torchrl.objectives.rnd")
    given: dict[str, Any] = {"update_fraction": fraction, "reduction": reduction}
    if normalized:
        given |= {"obs_rms": statistics(torch.float32), "obs_clip": 0.8}
    found = []
    for cls in (RNDLoss, objectives.RNDLoss):
        loss = cls(network(), network(seed=1), **given)
        torch.manual_seed(11)
        value = loss(data(*shape))["loss_predictor"]
        if value.requires_grad:
            found.append((value.detach(), gradients(loss, value.sum())))
        else:
            found.append((value, {}))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=1e-5, atol=1e-5)
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(gradient, found[1][1][name], rtol=1e-5, atol=1e-5)


@pytest.mark.peers
def test_states_and_keys_equal_torchrl() -> None:
    objectives = pytest.importorskip("torchrl.objectives.rnd")
    mine = RNDLoss(network(), network(seed=1), obs_rms=statistics(torch.float32))
    theirs = objectives.RNDLoss(network(seed=2), network(seed=3), obs_rms=RunningMeanStd((N_OBS,)))
    assert mine.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(mine.state_dict())
    made = data(8)
    made["seen"] = made["next", "observation"]
    values = []
    for loss in (mine, theirs):
        loss.set_keys(observation="seen")
        torch.manual_seed(0)
        values.append(loss(made.select("seen"))["loss_predictor"])
    torch.testing.assert_close(*values)


@pytest.mark.peers
def test_numbers_in_double_precision() -> None:
    """TorchRL makes observations float32; ours are what the data hold."""
    objectives = pytest.importorskip("torchrl.objectives.rnd")
    made = data(16, dtype=torch.float64)
    mine = RNDLoss(network(torch.float64), network(torch.float64, 1), update_fraction=1.0)
    wanted = (mine.predictor_network(made["next", "observation"]) - mine.target_network(
        made["next", "observation"]
    )).square().mean()  # fmt: skip
    torch.testing.assert_close(mine(made)["loss_predictor"], wanted, rtol=1e-10, atol=1e-10)
    theirs = objectives.RNDLoss(network(torch.float64), network(torch.float64, 1), update_fraction=1.0)
    with pytest.raises(RuntimeError, match="same dtype"):
        theirs(made)


def test_the_formula() -> None:
    """Burda et al. 2018, section 2.2: the mean squared error of the features, of a share of the samples (2.4)."""
    predictor, target = network(), network(seed=1)
    loss, made = RNDLoss(predictor, target, update_fraction=0.5), data(16)
    loss.generator = torch.Generator().manual_seed(3)
    out = loss(made)["loss_predictor"]
    kept = torch.rand(16, generator=torch.Generator().manual_seed(3)) < 0.5
    seen = made["next", "observation"]
    error = (predictor(seen) - target(seen)).square().mean(-1)
    torch.testing.assert_close(out, error[kept].mean())
    out.backward()
    assert all(parameter.grad is None for parameter in target.parameters())
    assert not any(parameter.requires_grad for parameter in target.parameters())
    assert loss.parameters_of("loss_predictor") == list(predictor.parameters())
    assert loss.predictor_network is predictor


def test_its_arguments() -> None:
    with pytest.raises(ValueError, match="update_fraction must be <= 1"):
        RNDLoss(network(), network(), update_fraction=1.5)
    with pytest.raises(
        TypeError, match="`obs_rms` is a Normalizer; Linear has no method 'normalize', 'update'"
    ):
        RNDLoss(network(), network(), obs_rms=nn.Linear(1, 1))  # type: ignore[arg-type]
