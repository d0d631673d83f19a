"""Losses with value estimators other than their default."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.objectives import (
    GAE,
    LossModule,
    MultiAgentGAE,
    SoftUpdate,
    TD0Estimator,
    TD1Estimator,
    TDLambdaEstimator,
    ValueEstimators,
    VTrace,
)
from specgen_std.losses import A2CLoss, ReinforceLoss
from tensordict import TensorDict

from tests.objectives.nets import critic, policy, steps
from tests.objectives.test_dqn import CONFIGURATIONS, batch, pair

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

HYPERPARAMS: dict[str, dict[str, float]] = {
    "TD0": {"gamma": 0.9},
    "TD1": {"gamma": 0.95},
    "TDLambda": {"gamma": 0.95, "lmbda": 0.7},
}


def data_of(*shape: int) -> TensorDict:
    data = batch(*shape)
    data["next", "done"] |= data["next", "terminated"]
    return data


@pytest.mark.peers
@pytest.mark.parametrize(
    "configuration", [one for one in CONFIGURATIONS if one["action_space"] == "categorical"]
)
@pytest.mark.parametrize("name", HYPERPARAMS)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("shape", [(16,), (3, 20)])
def test_dqn_equals_torchrl(
    configuration: dict[str, Any], name: str, given: bool, shape: tuple[int, ...]
) -> None:
    peers = pytest.importorskip("torchrl.objectives")
    mine, theirs = pair(configuration)
    hyperparams = HYPERPARAMS[name] if given else {}
    mine.make_value_estimator(ValueEstimators[name], **hyperparams)
    theirs.make_value_estimator(peers.ValueEstimators[name], **hyperparams)
    assert mine.value_type is ValueEstimators[name]
    losses = []
    for loss in (mine, theirs):
        data = data_of(*shape)
        value = loss(data)["loss"]
        value.backward()
        losses.append((value, data["td_error"], *(parameter.grad for parameter in loss.parameters())))
    assert len(losses[0]) == 6
    for one, other in zip(*losses, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6)


@pytest.mark.peers
@pytest.mark.parametrize("name", HYPERPARAMS)
def test_estimators_of_dqn_have_its_network(name: str) -> None:
    """TorchRL's holds a module without parameters: it must be told them at each call."""
    mine, theirs = pair(CONFIGURATIONS[1])
    for loss in (mine, theirs):
        loss.make_value_estimator(name.lower() if loss is mine else getattr(peer_estimators(), name))
    one = mine.value_estimator(data_of(3, 20))
    other = theirs.value_estimator(data_of(3, 20), params=theirs.value_network_params)
    for key in ("advantage", "value_target", "chosen_action_value", ("next", "chosen_action_value")):
        torch.testing.assert_close(one[key], other[key], rtol=0, atol=2e-5)
    assert not one["value_target"].requires_grad
    assert {key for key in mine.state_dict() if "estimator" in key} <= {
        "_value_estimator.gamma",
        "_value_estimator.lmbda",
    }
    assert len(list(mine.parameters())) == 4


def peer_estimators() -> Any:
    return pytest.importorskip("torchrl.objectives").ValueEstimators


@pytest.mark.parametrize("kind", ["GAE", "MAGAE", "VTrace"])
def test_dqn_needs_estimators_that_need_only_next_values(kind: str) -> None:
    loss, _ = pair(CONFIGURATIONS[1])
    with pytest.raises(NotImplementedError, match=f"does not support {kind}; it supports TD0, TD1, TDLambda"):
        loss.make_value_estimator(ValueEstimators[kind])


class ActorCritic(LossModule):
    """Networks as those of an actor-critic loss; any estimator."""

    default_value_estimator = ValueEstimators.GAE

    def __init__(self) -> None:
        super().__init__()
        self.convert_to_functional(policy(), "actor_network")
        self.convert_to_functional(critic(), "critic_network", create_target_params=True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TD0", TD0Estimator),
        ("TD1", TD1Estimator),
        ("TDLambda", TDLambdaEstimator),
        ("GAE", GAE),
        ("MAGAE", MultiAgentGAE),
        ("VTrace", VTrace),
    ],
)
def test_estimators_have_the_networks_of_the_moment(name: str, kind: type) -> None:
    loss = ActorCritic()
    loss.make_value_estimator(ValueEstimators[name])
    estimator = loss.value_estimator
    assert type(estimator) is kind
    assert estimator.differentiable
    assert estimator.gamma == pytest.approx(0.99)
    data = steps(3, 8)
    before = estimator(data.clone())["value_target"]
    with torch.no_grad():
        for parameter in loss.critic_network_params.values(True, True):
            parameter.mul_(2)
    after = estimator(data.clone())["value_target"]
    assert not torch.allclose(before, after)
    other = copy.deepcopy(estimator)
    other.value_network = loss.get_stateful_net("critic_network")
    torch.testing.assert_close(other(data.clone())["value_target"], after)
    assert not after.requires_grad


def test_copies_of_a_loss_have_estimators_of_their_own() -> None:
    loss = ActorCritic()
    data = steps(3, 8)
    expected = loss.value_estimator(data.clone())["value_target"]
    for copied in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        torch.testing.assert_close(copied.value_estimator(data.clone())["value_target"], expected)
        with torch.no_grad():
            for parameter in copied.critic_network_params.values(True, True):
                parameter.zero_()
        assert not torch.allclose(copied.value_estimator(data.clone())["value_target"], expected)
        torch.testing.assert_close(loss.value_estimator(data.clone())["value_target"], expected)
    moved = copy.deepcopy(loss).to(torch.float64)
    assert moved.value_estimator(steps(3, 8, dtype=torch.float64))["value_target"].dtype == torch.float64


def test_the_network_may_be_given_or_refused() -> None:
    loss = ActorCritic()
    network = critic(seed=4)
    assert loss.make_value_estimator(value_network=network).value_estimator.value_network is network
    assert loss.make_value_estimator(value_network=None).value_estimator.value_network is None
    own = GAE(gamma=0.9, lmbda=0.9)
    assert loss.make_value_estimator(own).value_estimator.value_network is None


def test_a_priority_of_many_steps_after_an_update() -> None:
    loss, _ = pair(CONFIGURATIONS[1])
    SoftUpdate(loss, tau=0.1)
    loss.make_value_estimator("tdlambda", lmbda=0.0)
    one = loss(data_of(3, 20))["loss"]
    loss.make_value_estimator("td0")
    torch.testing.assert_close(one, loss(data_of(3, 20))["loss"])


def test_estimators_find_the_network_of_a_renamed_value() -> None:
    """Also those that were made before the key was renamed."""

    class RenamedLoss(LossModule):
        class _AcceptedKeys:
            value = "state_value"

        default_value_estimator = ValueEstimators.TD0

        def __init__(self) -> None:
            super().__init__()
            network = critic()
            network.out_keys = ["worth"]
            self.convert_to_functional(network, "critic")
            self.make_value_estimator()

    loss = RenamedLoss()
    assert loss.value_estimator.value_network is None
    loss.set_keys(value="worth")
    assert loss.value_estimator.value_network is not None
    assert "worth" in loss.value_estimator(steps(2, 5))


@pytest.mark.parametrize("loss_class", [A2CLoss, ReinforceLoss])
def test_v_trace_reads_the_log_probability_under_the_name_that_the_loss_has(loss_class: Any) -> None:
    loss = loss_class(policy(), critic())
    loss.set_keys(sample_log_prob="collected")
    loss.make_value_estimator("VTrace", gamma=0.9)
    data = steps(2, 6)
    expected = loss(data.clone().rename_key_("action_log_prob", "collected"))
    with pytest.raises(KeyError, match="collected"):
        loss(data)
    loss.set_keys(sample_log_prob=None)
    got = loss(data)
    term = next(iter(loss.out_keys))
    torch.testing.assert_close(got[term], expected[term])
