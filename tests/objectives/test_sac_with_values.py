"""`SACLoss` with a value network, the first version of the algorithm: against TorchRL's, and by its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_std.losses import PPOLoss, SACLoss
from tensordict.nn import TensorDictModule
from torch import nn

from tests.objectives.peers import (
    N_ACT,
    action_value,
    batch,
    gradients,
    policy,
    state_value,
    with_equal_parameters,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

TERMS = ("loss_actor", "loss_qvalue", "loss_alpha", "loss_value")


def made(cls: Any, dtype: torch.dtype = torch.float32, **given: Any) -> Any:
    return cls(policy(dtype), action_value(dtype), state_value(dtype), **{"target_entropy": -1.5, **given})


def one_noise(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Every draw of a shape is the same: the peer makes that of the value's term before that of the policy's."""

    randn = torch.randn

    def drawn(shape: Any, *args: Any, **given: Any) -> torch.Tensor:
        if given.get("generator") is not None:
            return randn(shape, *args, **given)
        return randn(shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(dtype)

    monkeypatch.setattr("torch.distributions.normal._standard_normal", drawn)  # the peer's
    monkeypatch.setattr(torch, "randn", drawn)


@pytest.mark.peers
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delay_actor": True},
        {"delay_value": False},
        {"delay_qvalue": False, "loss_function": "l2"},
        {"alpha_init": 0.2, "separate_losses": True},
        {"reduction": "sum"},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(16,), (4, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_equals_torchrl(
    options: dict[str, Any],
    shape: tuple[int, ...],
    dtype: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one critic: of several, each of the peer's sees its own slice of the batch."""
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = (made(cls, dtype, num_qvalue_nets=1, **options) for cls in (SACLoss, objectives.SACLoss))
    with_equal_parameters(mine, theirs)
    one_noise(monkeypatch, dtype)
    for loss in (mine, theirs):
        loss.make_value_estimator(objectives.ValueEstimators.TD0 if loss is theirs else "TD0", gamma=0.5)
    data = [batch(*shape, dtype=dtype).exclude("priority_weight") for _ in range(2)]
    got, wanted = mine(data[0]), theirs(data[1])
    assert set(got.keys()) == set(wanted.keys())
    for name in (*TERMS, "alpha", "entropy"):
        torch.testing.assert_close(got[name], wanted[name], rtol=tolerance, atol=tolerance)
    for term in TERMS:
        found = [
            gradients(one, one(batch(*shape, dtype=dtype).exclude("priority_weight"))[term])
            for one in (mine, theirs)
        ]
        assert found[0].keys() == found[1].keys(), term
        for name, gradient in found[0].items():
            torch.testing.assert_close(gradient, found[1][name], rtol=tolerance, atol=tolerance)
    # the peer's priority is squared here, and not without a value network
    torch.testing.assert_close(
        data[0]["td_error"].flatten() ** 2, data[1]["td_error"].flatten(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.peers
def test_every_critic_sees_the_whole_batch_and_the_peers_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, theirs = (made(cls, num_qvalue_nets=2) for cls in (SACLoss, objectives.SACLoss))
    with_equal_parameters(mine, theirs)
    one_noise(monkeypatch, torch.float32)
    for loss in (mine, theirs):
        loss.make_value_estimator(objectives.ValueEstimators.TD0 if loss is theirs else "TD0", gamma=0.5)
    data = batch(8).exclude("priority_weight")
    outputs = [loss(data.clone())["loss_qvalue"].item() for loss in (mine, theirs)]
    slices = []
    for member in range(2):
        half = data[4 * member : 4 * member + 4]
        goal = (
            half["next", "reward"] + 0.5 * value(mine, "target", half["next"]) * ~half["next", "terminated"]
        )
        with mine.qvalue_network_params[member].to_module(critic := action_value()):
            own = critic(half.clone())["state_action_value"]
        slices.append(torch.nn.functional.smooth_l1_loss(own, goal))
    assert outputs[1] == pytest.approx(torch.stack(slices).mean().item(), abs=1e-5)
    assert outputs[0] != pytest.approx(outputs[1], abs=1e-2)
    with pytest.raises(RuntimeError, match="incompatible"):
        theirs(batch(7).exclude("priority_weight"))
    mine(batch(7))


def value(loss: SACLoss, which: str, record: Any) -> torch.Tensor:
    assert loss.value_network_params is not None
    params = loss.value_network_params if which == "live" else loss.target_value_network_params
    with params.to_module(network := state_value()):
        return network(record.clone())["state_value"]


def test_the_formula() -> None:
    """Haarnoja et al. 2018, "Off-policy maximum entropy deep reinforcement learning": eq. 5, 7 and 8."""
    loss, data = made(SACLoss, alpha_init=0.3), batch(9).exclude("priority_weight")
    with torch.no_grad():
        for parameter in loss.target_value_network_params.values(True, True):
            parameter.add_(0.1)
    loss.make_value_estimator("TD0", gamma=0.9)
    torch.manual_seed(5)
    out = loss(data)
    torch.manual_seed(5)
    own = loss.get_stateful_net("actor_network").get_dist(data)
    actions = [own.rsample(), own.rsample()]  # the policy's draw first, then that of the value's term
    critic = action_value()

    def worth(params: Any, action: torch.Tensor) -> torch.Tensor:
        found = []
        for member in range(2):
            with params[member].to_module(critic):
                found.append(critic.module(data["observation"], action).squeeze(-1))
        return torch.stack(found)

    goal = data["next", "reward"] + 0.9 * value(loss, "target", data["next"]) * ~data["next", "terminated"]
    q = worth(loss.qvalue_network_params, data["action"])
    q_loss = torch.nn.functional.smooth_l1_loss(q, goal.squeeze(-1).expand(2, -1), reduction="none")
    torch.testing.assert_close(out["loss_qvalue"], q_loss.sum(0).mean())
    for term, params, action in (
        ("loss_actor", loss.qvalue_network_params, actions[0]),
        ("loss_value", loss.target_qvalue_network_params, actions[1]),
    ):
        soft = worth(params, action).amin(0) - 0.3 * own.log_prob(action)
        if term == "loss_actor":
            torch.testing.assert_close(out[term], -soft.mean())
        else:
            v = value(loss, "live", data).squeeze(-1)
            torch.testing.assert_close(out[term], torch.nn.functional.smooth_l1_loss(v, soft))


def test_without_a_value_network_there_is_no_such_term() -> None:
    loss = SACLoss(
        policy(), action_value(), None, delay_value=True, skip_done_states=True, target_entropy=0.0
    )
    assert loss.value_network is None
    assert loss.value_network_params is None
    assert loss.target_value_network_params is None
    assert "loss_value" not in loss.out_keys
    assert "loss_value" not in loss(batch(5))


def test_an_optimizer_for_each_term() -> None:
    loss = made(SACLoss)
    assert set(loss.parameters_of("loss_value")) == set(loss.value_network_params.values(True, True))
    values = set(loss.value_network_params.values(True, True))
    for term in ("loss_actor", "loss_qvalue"):
        assert not values & set(loss.parameters_of(term))


def test_what_is_behind_the_end_never_counts() -> None:
    """What `skip_done_states` is for in TorchRL, whatever it is here."""
    for skip in (False, True):
        data = batch(6)
        data["next", "terminated"][:] = True
        data["next", "done"][:] = True
        data["next", "observation"][:] = torch.nan
        loss = SACLoss(policy(), action_value(), skip_done_states=skip, target_entropy=-1.0)
        assert loss(data)["loss_qvalue"].isfinite()


@pytest.mark.peers
def test_a_term_alone_draws_what_it_needs() -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    terms = {}
    for cls in (SACLoss, objectives.SACLoss):
        loss = cls(policy(), action_value(), target_entropy=-1.5)
        torch.manual_seed(3)
        whole = loss(batch(8).exclude("priority_weight"))["loss_actor"]
        torch.manual_seed(3)
        terms[cls] = (
            whole,
            loss.select_out_keys("loss_actor")(batch(8).exclude("priority_weight"))["loss_actor"],
        )
    assert torch.equal(*terms[objectives.SACLoss])
    assert not torch.equal(*terms[SACLoss])


@pytest.mark.peers
def test_networks_read_what_the_data_hold() -> None:
    """The critic of the peer's PPO finds the `loc` that the actor wrote."""
    objectives = pytest.importorskip("torchrl.objectives")
    critic = TensorDictModule(nn.Linear(N_ACT, 1), in_keys=["loc"], out_keys=["state_value"])
    for cls in (PPOLoss, objectives.PPOLoss):
        loss, data = cls(policy(), critic), batch(4, 3).exclude("priority_weight")
        data["action_log_prob"] = torch.zeros(4, 3)
        data["advantage"] = data["value_target"] = data["next", "reward"]
        if cls is PPOLoss:
            with pytest.raises(KeyError, match="critic_network reads 'loc'"):
                loss(data)
        else:
            loss(data)
