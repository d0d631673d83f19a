"""The generated `DiscreteSACLoss`: against TorchRL's, by its formula, and what is its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules.distributions import MaskedOneHotCategorical
from specgen_std.losses import DiscreteSACLoss
from tensordict import TensorDict
from tensordict.nn import (
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
)

from tests.objectives.peers import assert_equal, batch, with_equal_parameters
from tests.objectives.test_discrete import ACTIONS, layers, policy, steps

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

OUTPUTS = ("loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"alpha_init": 0.25, "target_entropy_weight": 0.5},
    {"target_entropy": 0.7},
    {"fixed_alpha": True},
    {"alpha_init": 3.0, "min_alpha": 0.5, "max_alpha": 1.0},
    {"loss_function": "l1", "delay_qvalue": False},
    {"loss_function": "l2", "num_qvalue_nets": 3},
    {"num_qvalue_nets": 1, "separate_losses": True},
    {"reduction": "sum"},
]


def values(dtype: torch.dtype = torch.float32) -> TensorDictModule:
    """One value for each action, `action_value`."""
    return TensorDictModule(layers(dtype), in_keys=["observation"], out_keys=["action_value"])


def pair(space: str, dtype: torch.dtype, **given: Any) -> tuple[DiscreteSACLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"action_space": space, "num_actions": ACTIONS, **given}
    mine, theirs = (
        cls(policy(space, dtype), values(dtype), **given)
        for cls in (DiscreteSACLoss, objectives.DiscreteSACLoss)
    )
    with_equal_parameters(mine, theirs)
    return mine, theirs


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("space", ["one-hot", "categorical"])
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any], space: str, shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = pair(space, dtype, **options)
    # the peer keeps its entropy in float32
    mine.target_entropy = float(theirs.target_entropy)
    terms = [term for term in OUTPUTS[:3] if term != "loss_alpha" or not options.get("fixed_alpha")]

    def data() -> TensorDict:
        return steps(space, *shape, dtype=dtype)

    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=terms, tolerance=tolerance)


@pytest.mark.peers
def test_weights_and_nested_keys_equal_torchrl() -> None:
    mine, theirs = pair("one-hot", torch.float32)
    for loss in (mine, theirs):
        loss.set_keys(action=("agent", "act"), reward=("agent", "reward"), priority_weight="weight")

    def data() -> TensorDict:
        made = steps("one-hot", 16)
        made["agent", "act"] = made.pop("action")
        made["next", "agent", "reward"] = made["next"].pop("reward")
        made["weight"] = batch(16)["priority_weight"]
        return made

    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=OUTPUTS[:3], tolerance=1e-5)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["TD0", "TD1", "TDLambda"])
def test_estimators_equal_torchrl(name: str) -> None:
    mine, theirs = pair("categorical", torch.float64)
    objectives = pytest.importorskip("torchrl.objectives")
    mine.make_value_estimator(name, gamma=0.9)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), gamma=0.9)

    def data() -> TensorDict:
        made = steps("categorical", 4, 6, dtype=torch.float64)
        made.names = [None, "time"]
        return made

    # the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=OUTPUTS[:3], tolerance=1e-6)


def test_the_formula() -> None:
    """Christodoulou 2019, eq. 10 (value), 11 (temperature) and 12 (policy), with the minimum of two critics."""
    given: dict[str, Any] = {"action_space": "categorical", "target_entropy": 0.9, "alpha_init": 0.3}
    loss, data = DiscreteSACLoss(policy("categorical"), values(), **given), steps("categorical", 9)
    loss.make_value_estimator("TD0", gamma=0.9)
    out = loss(data)
    actor = loss.get_stateful_net("actor_network")

    def least(params: Any, record: TensorDict) -> tuple[torch.Tensor, torch.Tensor]:
        found, network = [], values()
        for member in range(2):
            with params[member].to_module(network):
                found.append(network(record.select("observation"))["action_value"])
        return torch.stack(found), torch.stack(found).amin(0)

    def probabilities(record: TensorDict) -> torch.Tensor:
        p: torch.Tensor = actor.get_dist(record).probs
        return p

    p, after = probabilities(data), probabilities(data["next"])
    _, target = least(loss.target_qvalue_network_params, data["next"])
    q, q_least = least(loss.qvalue_network_params, data)
    alive = ~data["next", "terminated"].squeeze(-1)
    soft = (after * (target - 0.3 * after.log())).sum(-1)
    goal = (data["next", "reward"].squeeze(-1) + 0.9 * alive * soft).detach()
    chosen = q[:, torch.arange(9), data["action"]]
    error = torch.nn.functional.smooth_l1_loss(chosen, goal.expand(2, -1), reduction="none")
    torch.testing.assert_close(out["loss_qvalue"], error.sum(0).mean())
    torch.testing.assert_close(out["loss_actor"], (p * (0.3 * p.log() - q_least)).sum(-1).mean())
    entropy = -(p * p.log()).sum(-1).detach()
    torch.testing.assert_close(out["entropy"], entropy.mean())
    torch.testing.assert_close(out["loss_alpha"], (-loss.log_alpha * (0.9 - entropy)).mean())


def test_the_entropy_that_is_wanted() -> None:
    with pytest.raises(ValueError, match=r'^target_entropy="auto" needs num_actions$'):
        DiscreteSACLoss(policy("one-hot"), values(), action_space="one-hot")
    loss = DiscreteSACLoss(
        policy("one-hot"), values(), action_space="one-hot", num_actions=5, target_entropy_weight=0.5
    )
    torch.testing.assert_close(loss.state_dict()["target_entropy"], 0.5 * torch.tensor(5.0).log())
    loss.target_entropy = 0.25
    assert loss.state_dict()["target_entropy"].item() == loss.target_entropy.item() == 0.25
    assert not hasattr(loss, "_target_entropy")
    with pytest.raises(TypeError, match="action_spec"):
        DiscreteSACLoss(policy("one-hot"), values(), action_spec=None)  # type: ignore[call-arg]


def test_actions_that_are_not_allowed() -> None:
    """Of what has the probability 0 there is nothing, though its logarithm is infinite."""
    actor = ProbabilisticTensorDictSequential(
        TensorDictModule(layers(torch.float32), in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits", "mask"], out_keys=["action"], distribution_class=MaskedOneHotCategorical
        ),
    )
    loss = DiscreteSACLoss(actor, values(), action_space="one-hot", num_actions=ACTIONS)
    data = steps("one-hot", 8)
    data["mask"] = torch.ones(8, ACTIONS, dtype=torch.bool)
    data["mask"][:, 3:] = False
    data["next", "mask"] = data["mask"]
    out = loss(data)
    logits = loss.get_stateful_net("actor_network")[0](data.select("observation"))["logits"]
    p = logits[:, :3].softmax(-1)
    torch.testing.assert_close(out["entropy"], -(p * p.log()).sum(-1).mean().detach())
    out["loss_actor"].backward()
    found = [parameter.grad for parameter in loss.parameters_of("loss_actor")]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in found)
