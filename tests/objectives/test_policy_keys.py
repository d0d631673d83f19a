"""Losses read the action and its log-probability where the policy writes them, as TorchRL's do."""

from __future__ import annotations

from typing import Any

import pytest
import specgen_std.losses
import torch
from specgen_runtime.modules.distributions import TanhNormal
from specgen_runtime.objectives import LossModule
from specgen_runtime.objectives.policy_keys import written_by_policy
from tensordict import TensorDict
from tensordict.nn import (
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)
from torch import nn

from tests.objectives.every_loss import made
from tests.objectives.peers import N_ACT, N_OBS, action_value, batch, state_value

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater", "ignore:.*arget.*updater.*")

ACTION, LOG_PROB = ("agents", "action"), ("agents", "score")


def policy(**keywords: Any) -> ProbabilisticTensorDictSequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(N_OBS, 2 * N_ACT), NormalParamExtractor())
    return ProbabilisticTensorDictSequential(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        ProbabilisticTensorDictModule(
            in_keys=["loc", "scale"],
            out_keys=[ACTION],
            distribution_class=TanhNormal,
            return_log_prob=True,
            **keywords,
        ),
    )


def data() -> TensorDict:
    steps = batch(6).exclude("priority_weight")
    steps[ACTION] = steps.pop("action")
    steps[LOG_PROB] = torch.linspace(-2.0, -1.0, 6)
    steps["advantage"], steps["value_target"] = torch.randn(2, 6, 1).unbind(0)
    with torch.no_grad():
        policy()[0](steps)
    return steps


def values_of_actions() -> TensorDictModule:
    return TensorDictModule(
        action_value().module, in_keys=["observation", ACTION], out_keys=["state_action_value"]
    )


@pytest.mark.peers
@pytest.mark.parametrize("name", ["PPOLoss", "ClipPPOLoss", "KLPENPPOLoss", "A2CLoss", "SACLoss"])
def test_keys_are_the_policys_in_both_libraries(name: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    critic = values_of_actions if name == "SACLoss" else state_value
    keywords = {"target_entropy": -1.0, "num_qvalue_nets": 1} if name == "SACLoss" else {}
    found = []
    for library in (specgen_std.losses, objectives):
        torch.manual_seed(0)
        loss = getattr(library, name)(policy(log_prob_key=LOG_PROB), critic(), **keywords)
        if name == "SACLoss":
            loss.make_value_estimator(gamma=0.9)
            torch.manual_seed(1)
            for key, tensor in sorted(loss.qvalue_network_params.flatten_keys(".").items()):
                tensor.data.copy_(0.1 * torch.arange(tensor.numel()).reshape(tensor.shape))
                loss.target_qvalue_network_params.data.get(tuple(key.split("."))).copy_(tensor.data)
        keys = loss.tensor_keys
        assert (keys.action, keys.log_prob if name == "SACLoss" else keys.sample_log_prob) == (
            ACTION,
            LOG_PROB,
        )
        torch.manual_seed(3)
        steps = data()
        torch.manual_seed(4)
        found.append(loss(steps))
    mine, theirs = found
    for term in [key for key in theirs.sorted_keys if key.startswith("loss")]:
        torch.testing.assert_close(
            mine[term], theirs[term].squeeze(), msg=lambda text, term=term: f"{term}: {text}"
        )


OTHERS = ["ReinforceLoss", "REDQLoss", "CrossQLoss", "CQLLoss", "IQLLoss"]


@pytest.mark.peers
@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_take_them_too_and_not_in_the_peer(name: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    networks = {
        "ReinforceLoss": [state_value()],
        "IQLLoss": [values_of_actions(), state_value()],
    }.get(name, [values_of_actions()])
    keywords = {} if name in ("ReinforceLoss", "IQLLoss") else {"target_entropy": -1.0}
    loss = getattr(specgen_std.losses, name)(policy(log_prob_key=LOG_PROB), *networks, **keywords)
    theirs = getattr(objectives, name)(policy(log_prob_key=LOG_PROB), *networks, **keywords)
    assert (loss.tensor_keys.action, theirs.tensor_keys.action) == (ACTION, "action")
    assert all(value.isfinite().all() for value in loss(data()).values())
    loss.set_keys(action="action")
    with pytest.raises(KeyError, match="action"):
        loss(data())


def test_a_key_that_is_set_wins_and_none_gives_back_that_of_the_policy() -> None:
    loss = specgen_std.losses.ClipPPOLoss(policy(), state_value())
    assert (loss.tensor_keys.action, loss.tensor_keys.sample_log_prob) == (
        ACTION,
        ("agents", "action_log_prob"),
    )
    loss.set_keys(action="done_before", sample_log_prob="score")
    assert (loss.tensor_keys.action, loss.tensor_keys.sample_log_prob) == ("done_before", "score")
    assert {"done_before", "score"} <= set(loss.in_keys)
    loss.set_keys(action=None, sample_log_prob=None)
    assert (loss.tensor_keys.action, loss.tensor_keys.sample_log_prob) == (
        ACTION,
        ("agents", "action_log_prob"),
    )


def test_the_estimator_reads_the_log_probability_there_too() -> None:
    loss = specgen_std.losses.A2CLoss(policy(log_prob_key=LOG_PROB), state_value())
    loss.make_value_estimator("VTrace")
    assert loss.value_estimator.tensor_keys.sample_log_prob == LOG_PROB
    steps = data().exclude("advantage", "value_target")
    assert loss(steps)["loss_objective"].isfinite()


def test_a_part_of_an_action_is_no_action() -> None:
    """Of several parts the key is what holds them; where they have nothing in common it stays."""
    parts = nn.Module()
    parts.dist_sample_keys = [("a", "action", "arm"), ("a", "action", "leg")]
    parts.log_prob_keys = [("a", "action", "arm_log_prob"), ("a", "action", "leg_log_prob")]
    assert written_by_policy(parts) == (("a", "action"), None)
    parts.dist_sample_keys = ["arm", ("leg", "left")]
    assert written_by_policy(parts) == (None, None)
    assert written_by_policy(nn.Linear(1, 1)) == (None, None)


@pytest.mark.parametrize("name", ["GRPOLoss", "BCLoss", "OnlineDTLoss"])
def test_data_of_others_keep_their_keys(name: str) -> None:
    """What the policy would write is not what these read."""
    cls: type[LossModule] = getattr(specgen_std.losses, name)
    assert made(cls).tensor_keys == cls._AcceptedKeys()
