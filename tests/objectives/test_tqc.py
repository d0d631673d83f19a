"""`TQCLoss`: against the formulas of its paper, written number by number, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules.distributions import rsample_and_log_prob
from specgen_std.losses import TQCLoss
from tensordict import TensorDict
from torch import Tensor

from tests.objectives.every_loss import N_ACT, batch, networks

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

M, CRITICS, GAMMA, ALPHA = 5, 3, 0.9, 0.7


def made(drop: int = 2, **given: Any) -> tuple[TQCLoss, Any]:
    """A loss whose target critics differ from the others, and its policy."""
    nets = networks(TQCLoss)
    loss = TQCLoss(
        nets["actor_network"],
        nets["qvalue_network"],
        num_qvalue_nets=CRITICS,
        top_quantiles_to_drop_per_net=drop,
        alpha_init=ALPHA,
        target_entropy=-float(N_ACT),
        **given,
    )
    loss.make_value_estimator(gamma=GAMMA)
    for target in loss.target_qvalue_network_params.values(True, True):
        target.data.add_(0.3 * torch.randn(target.shape, generator=torch.Generator().manual_seed(3)))
    return loss, nets["actor_network"]


def quantiles(loss: TQCLoss, params: Any, record: TensorDict, action: Tensor) -> Tensor:
    """``[critic, sample, quantile]``"""
    found = []
    for member in range(CRITICS):
        with params[member].to_module(loss.qvalue_network):
            seen = TensorDict({"observation": record["observation"], "action": action}, record.batch_size)
            found.append(loss.qvalue_network(seen)["state_action_value"])
    return torch.stack(found)


@pytest.mark.parametrize("drop", [0, 2, 4])
@pytest.mark.parametrize("steps", [1, 3])
def test_the_formula(drop: int, steps: int) -> None:
    loss, policy = made(drop, reduction="none")
    data = batch("TQCLoss", 6)
    if steps > 1:
        data["steps_to_next_obs"] = torch.full((6, 1), steps)
    torch.manual_seed(5)
    got = loss(data)
    torch.manual_seed(5)
    draws = {
        name: rsample_and_log_prob(policy.get_dist(record.select("observation")))
        for name, record in (("next", data["next"]), ("now", data))
    }
    order = ("next", "now")
    action, log_p = draws[order[0]]
    after = quantiles(loss, loss.target_qvalue_network_params, data["next"], action).detach()
    now = quantiles(loss, loss.qvalue_network_params, data, data["action"])
    kept = CRITICS * (M - drop)
    expected, priorities = [], []
    for sample in range(6):
        pooled = sorted(after[:, sample].flatten().tolist())[:kept]
        alive = 0.0 if data["next", "terminated"][sample] else GAMMA**steps
        y = [
            float(data["next", "reward"][sample]) + alive * (z - ALPHA * float(log_p[sample].detach()))
            for z in pooled
        ]
        each, apart = [], []
        for critic in range(CRITICS):
            total, distance = torch.zeros(()), torch.zeros(())
            for i in range(M):
                p = (i + 0.5) / M
                for goal in y:
                    u = goal - now[critic, sample, i]
                    huber = 0.5 * u**2 if abs(u) <= 1 else abs(u) - 0.5
                    distance = distance + abs(u.detach())
                    total = total + abs(p - float(u < 0)) * huber
            each.append(total / (M * kept))
            apart.append(distance / (M * kept))
        expected.append(sum(each))
        priorities.append(max(apart))
    wanted = torch.stack(expected)  # type: ignore[arg-type]
    torch.testing.assert_close(got["loss_qvalue"], wanted)
    torch.testing.assert_close(data["td_error"].squeeze(-1), torch.stack(priorities))
    new, score = draws["now"]
    worth = quantiles(loss, loss.qvalue_network_params, data, new)
    torch.testing.assert_close(got["loss_actor"], ALPHA * score - worth.mean((0, 2)))
    log_alpha = torch.tensor(ALPHA).log()
    torch.testing.assert_close(got["loss_alpha"], -log_alpha * (score.detach() - N_ACT))
    got["loss_qvalue"].sum().backward()  # type: ignore[no-untyped-call]
    gradients = {key: value.grad.clone() for key, value in loss.qvalue_network_params.items(True, True)}
    loss.zero_grad()
    wanted.sum().backward()  # type: ignore[no-untyped-call]
    for key, value in loss.qvalue_network_params.items(True, True):
        torch.testing.assert_close(gradients[key], value.grad)


def test_the_greatest_of_all_critics_are_left_out() -> None:
    """However far one critic overestimates, once its quantiles are among those that are dropped."""
    loss, _ = made(drop=4)
    data = batch("TQCLoss", 6)
    found = []
    for more in (100.0, 1e6):
        for key, value in loss.target_qvalue_network_params.items(True, True):
            if "bias" in key and value.shape[-1] == M:
                value.data[0] = more
        torch.manual_seed(5)
        found.append(loss(data.clone())["loss_qvalue"])
    torch.testing.assert_close(*found)


def test_one_quantile_of_each_critic_stays() -> None:
    data = batch("TQCLoss", 6)
    found = []
    for drop in (M - 1, M + 7):
        loss, _ = made(drop)
        torch.manual_seed(5)
        found.append(loss(data.clone())["loss_qvalue"])
    torch.testing.assert_close(*found)
    with pytest.raises(ValueError, match="top_quantiles_to_drop_per_net must be >= 0, got -1"):
        made(-1)


@pytest.mark.peers
@pytest.mark.parametrize("drop", [0, 2])
@pytest.mark.parametrize("shape", [(6,), (3, 4)])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_equals_torchrl(drop: int, shape: tuple[int, ...], reduction: str) -> None:
    objectives = pytest.importorskip("torchrl.objectives")
    mine, _ = made(drop, reduction=reduction)
    nets = networks(TQCLoss)
    theirs = objectives.TQCLoss(
        nets["actor_network"],
        nets["qvalue_network"],
        num_qvalue_nets=CRITICS,
        top_quantiles_to_drop_per_net=drop,
        alpha_init=ALPHA,
        target_entropy=-float(N_ACT),
        reduction=reduction,
    )
    theirs.make_value_estimator(gamma=GAMMA)
    theirs.load_state_dict(mine.state_dict())
    found = []
    for loss in (mine, theirs):
        data = batch("TQCLoss", *shape)
        data["steps_to_next_obs"] = torch.full((*shape, 1), 2)
        torch.manual_seed(5)
        out = loss(data)
        (out["loss_actor"] + out["loss_qvalue"] + out["loss_alpha"]).sum().backward()
        gradients = {name: p.grad for name, p in loss.named_parameters() if p.grad is not None}
        found.append((out, gradients, data))
    (one, own, data), (other, expected, seen) = found
    for key in ("loss_actor", "loss_qvalue", "loss_alpha"):
        torch.testing.assert_close(one[key], other[key], msg=key)
    torch.testing.assert_close(data["td_error"].squeeze(-1), seen["td_error"])
    assert own.keys() == expected.keys()
    for name, gradient in own.items():
        torch.testing.assert_close(gradient, expected[name], msg=name)


def test_only_the_one_step_return_is_of_quantiles() -> None:
    loss, _ = made()
    with pytest.raises(NotImplementedError, match="TQCLoss does not support TD1; it supports TD0"):
        loss.make_value_estimator("td1")
