"""Keys that the value estimator fills where the data lack them, and those for which a number stands."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torchrl.objectives.value as peer
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.nets import batch, policy, steps
from tests.support import generate, imported

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

PACKAGE = "losses_with_estimates"
SCHEMA = Path(__file__).parents[1] / "cases/good/loss_with_estimates/schema.yaml"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"estimates.yaml": SCHEMA.read_text(encoding="utf-8")}, PACKAGE)
    with imported(files, PACKAGE, tmp_path_factory.mktemp("made")):
        yield importlib.import_module(f"{PACKAGE}.estimates")


def networks(dtype: torch.dtype = torch.float64) -> tuple[TensorDictModule, TensorDictModule]:
    torch.manual_seed(0)
    actor, critic = (
        TensorDictModule(nn.Linear(4, 1, dtype=dtype), in_keys=["observation"], out_keys=[key])
        for key in ("log_prob", "state_value")
    )
    return actor, critic


ESTIMATORS = {
    "TD0": (peer.TD0Estimator, {"gamma": 0.875}),
    "TD1": (peer.TD1Estimator, {"gamma": 0.875}),
    "TDLambda": (peer.TDLambdaEstimator, {"gamma": 0.875, "lmbda": 0.75}),
    "GAE": (peer.GAE, {"gamma": 0.875, "lmbda": 0.75}),
    "VTrace": (peer.VTrace, {"gamma": 0.875}),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("delay", [False, True])
def test_the_estimator_fills_what_is_missing(generated: ModuleType, name: str, delay: bool) -> None:
    actor, critic = networks()
    loss = generated.CriticLoss(actor, critic, delay_value=delay)
    kind, given = ESTIMATORS[name]
    data = steps(3, 6, dtype=torch.float64)
    before = set(data.keys(True, True))
    further = {}
    if name == "VTrace":
        further = {"actor_network": policy(torch.float64)}
    loss.make_value_estimator(name, **given, **further)
    if delay:
        loss.target_critic_network_params.data.mul_(0.5)
    estimator = kind(value_network=critic, differentiable=True, **given, **further)
    if name == "VTrace":
        estimator.set_keys(sample_log_prob="action_log_prob")
    target = loss.target_critic_network_params.data
    expected = estimator(data.clone(), params=TensorDict.from_module(critic).data, target_params=target)
    outputs = loss(data)
    assert set(data.keys(True, True)) == {*before, "td_error"}
    log_p, value = (net(data.clone())[net.out_keys[0]] for net in (actor, critic))
    objective = (-log_p * expected["advantage"].detach()).mean()
    error = (value - expected["value_target"].detach()).square().mean()
    torch.testing.assert_close(outputs["loss_actor"], objective, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(outputs["loss_critic"], error, rtol=1e-10, atol=1e-10)
    (outputs["loss_actor"] + outputs["loss_critic"]).backward()
    for params, net, term in (
        (loss.actor_network_params, actor, objective),
        (loss.critic_network_params, critic, error),
    ):
        for mine, one in zip(
            params.parameters(), torch.autograd.grad(term, list(net.parameters())), strict=True
        ):
            assert mine.grad is not None
            torch.testing.assert_close(mine.grad, one, rtol=1e-10, atol=1e-10)
            mine.grad = None


def test_what_is_there_is_read(generated: ModuleType) -> None:
    loss = generated.CriticLoss(*networks(torch.float32))
    data = batch(4, 5)
    loss.value_estimator(data)
    whole = loss(data)
    torch.testing.assert_close(loss(data.exclude("advantage"))["loss_actor"], whole["loss_actor"])
    data["advantage"] = torch.ones(4, 5, 1)
    data["value_target"] = torch.zeros(4, 5, 1)
    value = loss.get_stateful_net("critic_network")(data.clone())["state_value"]
    torch.testing.assert_close(loss(data)["loss_critic"], value.square().mean())
    # one of the two alone: the other is estimated, and this one kept
    kept = loss(data.exclude("advantage"))
    torch.testing.assert_close(kept["loss_critic"], value.square().mean())
    torch.testing.assert_close(kept["loss_actor"], whole["loss_actor"])


def test_targets_are_not_estimated_for_nothing(generated: ModuleType) -> None:
    loss = generated.CriticLoss(*networks(torch.float32), critic_coeff=0.0)
    data = batch(4, 5)
    data["advantage"] = torch.ones(4, 5, 1)
    assert list(loss(data.exclude("next")).keys()) == ["loss_actor"]


def test_a_number_stands_for_a_weight(generated: ModuleType) -> None:
    loss = generated.CriticLoss(*networks(torch.float32), reduction="none")
    data = batch(4, 5)
    data["advantage"], data["value_target"] = torch.randn(2, 4, 5, 1).unbind()
    plain = loss(data)["loss_actor"]
    data["weight"] = torch.rand(4, 5, 1)
    torch.testing.assert_close(loss(data)["loss_actor"], plain * data["weight"].squeeze(-1))


def test_tensors_by_keyword(generated: ModuleType) -> None:
    """What may be missing is no input that must be given, and may be."""
    loss = generated.CriticLoss(*networks(torch.float32))
    data = batch(4, 5)
    assert not {"advantage", "value_target", "weight"} & set(loss.in_keys)
    given = {
        "observation": data["observation"],
        **{f"next_{key}": data["next", key] for key in ("observation", "reward", "done", "terminated")},
    }
    torch.testing.assert_close(loss(**given), tuple(loss(data)[key] for key in loss.out_keys))
    further = {"advantage": torch.ones(4, 5, 1), "value_target": torch.zeros(4, 5, 1)}
    for key, value in further.items():
        data[key] = value
    torch.testing.assert_close(loss(**given, **further), tuple(loss(data)[key] for key in loss.out_keys))
