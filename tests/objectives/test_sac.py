"""The generated `SACLoss`: against TorchRL's on the same draws, by its formula, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.specs import Bounded, Composite
from specgen_std.losses.sac import SACLoss

from tests.objectives.peers import N_ACT, action_value, assert_equal, batch, policy, with_equal_parameters

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

OUTPUTS = ("loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy")
TERMS = OUTPUTS[:3]
SPEC = Bounded(-1.0, 1.0, (N_ACT,))


def pair(dtype: torch.dtype, **given: Any) -> tuple[SACLoss, Any]:
    objectives = pytest.importorskip("torchrl.objectives")
    given = {"target_entropy": -1.5, **given}
    mine = SACLoss(policy(dtype), action_value(dtype), **given)
    theirs = objectives.SACLoss(policy(dtype), action_value(dtype), **given)
    with_equal_parameters(mine, theirs)
    return mine, theirs


OPTIONS: list[dict[str, Any]] = [
    {},
    {"alpha_init": 0.25},
    {"alpha_init": 0.5, "fixed_alpha": True},
    {"alpha_init": 0.05, "min_alpha": 0.2},
    {"alpha_init": 3.0, "max_alpha": 2.0},
    {"alpha_init": 3.0, "min_alpha": 0.5, "max_alpha": 1.0},
    {"loss_function": "l2"},
    {"loss_function": "l1", "delay_qvalue": False},
    {"num_qvalue_nets": 1},
    {"num_qvalue_nets": 3},
    {"separate_losses": True},
    {"delay_actor": True},
    {"reduction": "sum"},
]


def names(one: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" for name, value in one.items()) or "default"


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS, ids=names)
@pytest.mark.parametrize("shape", [(32,), (4, 3), (1,)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    mine, theirs = pair(dtype, **options)

    def data() -> Any:
        torch.manual_seed(3)  # both draw the next action first, then the new one
        return batch(*shape, dtype=dtype).exclude("priority_weight")

    terms = [term for term in TERMS if term != "loss_alpha" or not options.get("fixed_alpha")]
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=terms, tolerance=tolerance)


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "given"), [("TD0", {"gamma": 0.9}), ("TD1", {"gamma": 0.9}), ("TDLambda", {"lmbda": 0.7})]
)
def test_estimators_equal_torchrl(name: str, given: dict[str, float]) -> None:
    mine, theirs = pair(torch.float64)
    objectives = pytest.importorskip("torchrl.objectives")
    mine.make_value_estimator(name, **given)
    theirs.make_value_estimator(getattr(objectives.ValueEstimators, name), **given)

    def data() -> Any:
        torch.manual_seed(3)
        made = batch(4, 6, dtype=torch.float64)
        made.names = [None, "time"]
        return made

    # the peer computes its targets with float32 discounts
    assert_equal(mine, theirs, data, outputs=OUTPUTS, terms=TERMS, tolerance=1e-6)


@pytest.mark.peers
@pytest.mark.parametrize(
    "options", [{}, {"fixed_alpha": True}, {"min_alpha": 0.5, "max_alpha": 2.0}], ids=names
)
def test_a_state_of_torchrl_s_loads(options: dict[str, Any]) -> None:
    mine, theirs = pair(torch.float32, target_entropy="auto", action_spec=SPEC, **options)
    theirs.make_value_estimator()  # the peer makes it at first use, and its state has a key more then
    state = theirs.state_dict()
    state["alpha_init"] = torch.tensor(7.0)
    mine.load_state_dict(state)
    assert mine.alpha_init.item() == 7.0
    torch.testing.assert_close(mine.log_alpha, theirs.log_alpha)
    assert mine.target_entropy.item() == theirs.target_entropy.item() == -N_ACT


def test_the_entropy_that_is_wanted() -> None:
    given = {"action_spec": Composite(action=SPEC.expand(5, N_ACT), shape=(5,))}
    assert SACLoss(policy(), action_value(), **given).target_entropy.item() == -N_ACT
    network = policy()
    network.spec = Composite(action=SPEC)
    assert SACLoss(network, action_value()).target_entropy.item() == -N_ACT
    loss = SACLoss(policy(), action_value())
    with pytest.raises(RuntimeError, match="nobody says how many numbers 'action'"):
        loss(batch(3))


@pytest.mark.peers
def test_a_fixed_temperature_needs_no_entropy_that_is_wanted() -> None:
    """Its term trains nothing: it is 0 here, and in the peer a number that needs the size of the action."""
    objectives = pytest.importorskip("torchrl.objectives")
    given: dict[str, Any] = {"fixed_alpha": True, "alpha_init": 0.5}
    mine = SACLoss(policy(), action_value(), **given)
    assert mine(batch(3))["loss_alpha"].item() == 0.0
    with pytest.raises(RuntimeError, match="Cannot infer the dimensionality of the action"):
        objectives.SACLoss(policy(), action_value(), **given)(batch(3))
    theirs = objectives.SACLoss(policy(), action_value(), target_entropy=-1.5, **given)
    assert theirs(batch(3))["loss_alpha"].item() != 0.0
    assert not theirs(batch(3))["loss_alpha"].requires_grad


def test_the_formula() -> None:
    """Haarnoja et al. 2018: eq. 5 and 6 with the minimum of two critics, eq. 7 with the policy's own draws, eq. 18."""
    loss, data = SACLoss(policy(), action_value(), target_entropy=-1.5, alpha_init=0.3), batch(9)
    data = data.exclude("priority_weight")
    loss.make_value_estimator("TD0", gamma=0.9)
    torch.manual_seed(5)
    out = loss(data)
    torch.manual_seed(5)
    actor, q = loss.get_stateful_net("actor_network"), loss.qvalue_network_params
    target = loss.target_qvalue_network_params
    following = actor.get_dist(data["next"])
    next_action = following.rsample()
    own = actor.get_dist(data)
    action = own.rsample()
    critic = action_value()

    def value(params: Any, record: Any, action: torch.Tensor) -> torch.Tensor:
        found = []
        for member in range(2):
            with params[member].to_module(critic):
                found.append(critic.module(record["observation"], action).squeeze(-1))
        return torch.stack(found)

    soft = value(target, data["next"], next_action).amin(0) - 0.3 * following.log_prob(next_action)
    alive = (~data["next", "terminated"]).squeeze(-1)
    goal = (data["next", "reward"].squeeze(-1) + 0.9 * alive * soft).detach()
    q_loss = torch.nn.functional.smooth_l1_loss(
        value(q, data, data["action"]), goal.expand(2, -1), reduction="none"
    )
    log_p = own.log_prob(action)
    torch.testing.assert_close(out["loss_qvalue"], q_loss.sum(0).mean())
    torch.testing.assert_close(out["loss_actor"], (0.3 * log_p - value(q, data, action).amin(0)).mean())
    torch.testing.assert_close(out["loss_alpha"], (-loss.log_alpha * (log_p.detach() - 1.5)).mean())
    torch.testing.assert_close(out["entropy"], -log_p.detach().mean())
