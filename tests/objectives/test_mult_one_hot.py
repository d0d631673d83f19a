"""Losses of actions that make several choices, stored as one-hot vectors side by side."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor, QValueActor, as_qvalue_ensemble
from specgen_runtime.objectives import project
from specgen_runtime.specs import Composite, MultiOneHot
from specgen_std.losses import DiscreteCQLLoss, DistributionalDQNLoss, DQNLoss
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*", "ignore:.*No target network updater.*")

NUMS = [2, 3]
JOINT = list(itertools.product(range(2), range(3)))
SUPPORT = torch.linspace(-2, 2, 5)


def network(*out: int) -> nn.Sequential:
    torch.manual_seed(0)
    size = int(torch.tensor(out).prod())
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, size), nn.Unflatten(-1, out))


def batch(*shape: int, dtype: torch.dtype = torch.int64) -> TensorDict:
    torch.manual_seed(1)
    return TensorDict(
        {
            "observation": torch.randn(*shape, 4),
            "action": MultiOneHot(NUMS).rand(shape).to(dtype),
            "next": {
                "observation": torch.randn(*shape, 4),
                "reward": torch.randn(*shape, 1),
                "done": torch.rand(*shape, 1) < 0.5,
                "terminated": torch.rand(*shape, 1) < 0.3,
            },
        },
        shape,
    )


def chosen(data: TensorDict) -> list[tuple[int, int]]:
    """The two choices of each sample."""
    first, second = data["action"].long().split(NUMS, -1)
    return list(zip(first.argmax(-1).tolist(), second.argmax(-1).tolist(), strict=True))


@pytest.mark.peers
@pytest.mark.parametrize("double_dqn", [True, False])
@pytest.mark.parametrize("shape", [(16,), (3, 4)])
def test_values_of_choices_are_summed_as_torchrl_does(double_dqn: bool, shape: tuple[int, ...]) -> None:
    objectives, modules = pytest.importorskip("torchrl.objectives"), pytest.importorskip("torchrl.modules")
    mine = DQNLoss(QValueActor(network(5), action_space="mult-one-hot", var_nums=NUMS), double_dqn=double_dqn)
    policy = TensorDictSequential(
        TensorDictModule(network(5), in_keys=["observation"], out_keys=["action_value"]),
        modules.QValueModule("mult_one_hot", var_nums=NUMS),
    )
    theirs = objectives.DQNLoss(policy, action_space="mult_one_hot", double_dqn=double_dqn)
    data = batch(*shape)
    other = data.clone()
    own, expected = mine(data)["loss"], theirs(other)["loss"]
    torch.testing.assert_close(own, expected)
    torch.testing.assert_close(data["td_error"], other["td_error"])
    own.backward()
    expected.backward()
    gradients = [parameter.grad for parameter in theirs.parameters()]
    assert len(gradients) == 4
    for parameter, gradient in zip(mine.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.peers
def test_a_network_of_torchrl_says_how_many_values_its_choices_have() -> None:
    modules = pytest.importorskip("torchrl.modules")
    policy = TensorDictSequential(
        TensorDictModule(network(5), in_keys=["observation"], out_keys=["action_value"]),
        modules.QValueModule("mult_one_hot", var_nums=NUMS),
    )
    loss = DQNLoss(policy, action_space="mult_one_hot")
    assert (loss.action_space, loss.var_nums) == ("mult_one_hot", (2, 3))
    own = DQNLoss(QValueActor(network(5), spec=MultiOneHot(NUMS)))
    data = batch(8)
    torch.testing.assert_close(loss(data.clone())["loss"], own(data)["loss"])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_a_plain_network_with_a_spec(dtype: torch.dtype) -> None:
    loss, data = DQNLoss(network(5), action_space=MultiOneHot(NUMS), delay_value=False), batch(8, dtype=dtype)
    values = network(5)(data["observation"])
    expected = torch.stack([values[i, a] + values[i, 2 + b] for i, (a, b) in enumerate(chosen(data))])
    following = network(5)(data["next", "observation"])
    greatest = following[:, :2].amax(-1) + following[:, 2:].amax(-1)
    live = (~data["next", "terminated"]).float().squeeze(-1)
    target = data["next", "reward"].squeeze(-1) + 0.99 * live * greatest
    torch.testing.assert_close(loss(data)["loss"], ((expected - target) ** 2).mean())


def test_conservative_loss_is_over_joint_actions() -> None:
    loss, data = DiscreteCQLLoss(QValueActor(network(5), spec=MultiOneHot(NUMS))), batch(8)
    values = network(5)(data["observation"])
    joint = torch.stack([values[:, a] + values[:, 2 + b] for a, b in JOINT], -1)
    picked = torch.stack([joint[i, JOINT.index(pair)] for i, pair in enumerate(chosen(data))])
    torch.testing.assert_close(loss(data)["loss_cql"], (joint.logsumexp(-1) - picked).mean())


def test_distributions_of_choices_are_mixed_in_equal_parts() -> None:
    actor = DistributionalQValueActor(network(5, 5), SUPPORT, spec=MultiOneHot(NUMS))
    loss, data = DistributionalDQNLoss(actor, gamma=0.9), batch(8)
    p = network(5, 5)(data["observation"]).softmax(-2)
    following = network(5, 5)(data["next", "observation"]).softmax(-2)
    means = (following * SUPPORT[:, None]).sum(-2)
    expected = []
    for i, (a, b) in enumerate(chosen(data)):
        best = (following[i, :, means[i, :2].argmax()] + following[i, :, 2 + means[i, 2:].argmax()]) / 2
        places = data["next", "reward"][i] + 0.9 * (~data["next", "terminated"][i]).float() * SUPPORT
        goal = project(best[None], places[None], SUPPORT)[0]
        expected.append(-(goal * ((p[i, :, a] + p[i, :, 2 + b]) / 2).log()).sum())
    out = loss(data)["loss"]
    torch.testing.assert_close(out, torch.stack(expected).mean())
    out.backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in loss.parameters())
    assert loss.value_network_params["support"].shape == (5,)


@pytest.mark.peers
def test_torchrl_refuses_actions_of_two_choices_over_atoms() -> None:
    objectives, modules = pytest.importorskip("torchrl.objectives"), pytest.importorskip("torchrl.modules")
    actor = modules.DistributionalQValueActor(
        network(5, 5), SUPPORT, in_keys=["observation"], action_space="mult_one_hot", var_nums=NUMS
    )
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        objectives.DistributionalDQNLoss(actor, gamma=0.9)(batch(8))
    assert DistributionalDQNLoss(actor, gamma=0.9)(batch(8))["loss"].isfinite()


def test_what_the_policy_chooses_is_the_greatest_joint_action() -> None:
    loss, data = DQNLoss(QValueActor(network(5), spec=MultiOneHot(NUMS))), batch(8)
    with loss.value_network_params.to_module(loss.value_network):
        out = loss.value_network(data.select("observation"))
    assert out["action_value"].shape == (8, 6)
    assert [JOINT[i] for i in out["action_value"].argmax(-1).tolist()] == chosen(out)
    torch.testing.assert_close(out["chosen_action_value"].squeeze(-1), out["action_value"].amax(-1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DQNLoss(network(5), action_space="mult-one-hot"), "needs var_nums"),
        (
            lambda: DQNLoss(QValueActor(network(5), action_space="mult-one-hot", var_nums=[2] * 20)),
            "make 1048576 joint actions, a loss computes the values of 65536 at most",
        ),
        (
            lambda: DQNLoss(
                QValueActor(network(5), action_space="mult-one-hot", var_nums=[3, 2]),
                action_space=MultiOneHot(NUMS),
            ),
            r"var_nums are \[3, 2\], but the choices of the spec have \[2, 3\] values",
        ),
        (
            lambda: as_qvalue_ensemble([QValueActor(network(5), spec=MultiOneHot(NUMS))]),
            "members of an ensemble choose 'one-hot' or 'categorical' actions",
        ),
    ],
)
def test_refused_where_the_loss_is_made(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_an_action_of_another_shape_is_refused() -> None:
    loss, data = DQNLoss(QValueActor(network(5), spec=Composite(action=MultiOneHot(NUMS)))), batch(8)
    with pytest.raises(
        ValueError, match=r"choices of \[2, 3\] values must have shape \(8, 5\), got \(8, 4\)"
    ):
        loss(data.set("action", torch.zeros(8, 4)))
