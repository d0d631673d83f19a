"""`BranchingDQNLoss`: values of each choice of an action that makes several."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor, QValueActor, as_choice_network
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.specs import Categorical, MultiCategorical, MultiOneHot, OneHot
from specgen_std.losses import BranchingDQNLoss, DQNLoss
from tensordict import TensorDict
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:No target network updater")

NUMS = (2, 4, 3)
N_OBS = 4
SPECS: dict[str, Any] = {"multi-categorical": MultiCategorical(NUMS), "mult-one-hot": MultiOneHot(NUMS)}


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(N_OBS, 16), nn.Tanh(), nn.Linear(16, sum(NUMS)))


def batch(*shape: int, space: str = "multi-categorical") -> TensorDict:
    torch.manual_seed(1)
    return TensorDict(
        {
            "observation": torch.randn(*shape, N_OBS),
            "action": SPECS[space].rand(shape),
            "next": {
                "observation": torch.randn(*shape, N_OBS),
                "reward": torch.randn(*shape, 1),
                "done": torch.rand(*shape, 1) < 0.5,
                "terminated": torch.rand(*shape, 1) < 0.3,
            },
        },
        shape,
    )


def indices(data: TensorDict) -> Tensor:
    """The class of each choice, ``[*batch, choices]``."""
    action = data["action"]
    if action.shape[-1] == len(NUMS):
        index: Tensor = action.long()
        return index
    return torch.stack([one.long().argmax(-1) for one in action.split(NUMS, -1)], -1)


def made(space: str = "multi-categorical", **given: Any) -> tuple[BranchingDQNLoss, nn.Module, nn.Module]:
    """A loss, its network, and another one whose parameters are the target's."""
    loss = BranchingDQNLoss(QValueActor(network(), spec=SPECS[space]), **given)
    other = network(seed=5)
    if loss.delay_value:
        for target, value in zip(
            loss.target_value_network_params.values(True, True), other.parameters(), strict=True
        ):
            target.data.copy_(value.data)
    return loss, network(), other if loss.delay_value else network()


@pytest.mark.parametrize("space", SPECS)
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("shape", [(7,), (2, 3)])
def test_the_formula(space: str, double: bool, shape: tuple[int, ...]) -> None:
    """y = r + gamma mean_d Q'_d(s', argmax Q_d(s')), and mean_d (y - Q_d(s, a_d))**2, choice by choice."""
    loss, net, target_net = made(space, double_dqn=double)
    data = batch(*shape, space=space)
    chosen, live, after = indices(data), net(data["observation"]), data["next", "observation"]
    choosing = (net if double else target_net)(after)
    values = target_net(after)
    total, now, first = torch.zeros(shape), [], 0
    for d, n in enumerate(NUMS):
        part = slice(first, first + n)
        best = choosing[..., part].argmax(-1, keepdim=True)
        total = total + values[..., part].gather(-1, best).squeeze(-1)
        now.append(live[..., part].gather(-1, chosen[..., d : d + 1]).squeeze(-1))
        first += n
    alive = (~data["next", "terminated"]).squeeze(-1)
    y = (data["next", "reward"].squeeze(-1) + 0.99 * alive * total / len(NUMS)).detach()
    expected = sum((y - q) ** 2 for q in now) / len(NUMS)
    got = loss(data)["loss"]
    torch.testing.assert_close(got, expected.mean())
    torch.testing.assert_close(data["td_error"].squeeze(-1), sum((y - q).abs() for q in now).detach())
    got.backward()  # type: ignore[no-untyped-call]
    expected.mean().backward()
    for parameter, wanted in zip(loss.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, wanted.grad)


def test_one_choice_is_deep_q_learning() -> None:
    net = nn.Linear(N_OBS, 3)
    data = batch(6).exclude("action")
    index = torch.randint(3, (6,))
    one = DQNLoss(QValueActor(net, action_space="categorical"), double_dqn=True)
    several = BranchingDQNLoss(QValueActor(net, action_space="multi-categorical", var_nums=[3]))
    expected = one(data.clone().set("action", index))["loss"]
    torch.testing.assert_close(several(data.set("action", index.unsqueeze(-1)))["loss"], expected)


def test_both_ways_of_storing_are_one() -> None:
    index = batch(9)
    hot = index.clone().set("action", SPECS["mult-one-hot"].encode(_one_hot(index["action"])))
    losses = [
        made(space)[0](data)["loss"] for space, data in (("multi-categorical", index), ("mult-one-hot", hot))
    ]
    torch.testing.assert_close(*losses)


def _one_hot(action: Tensor) -> Tensor:
    return torch.cat([nn.functional.one_hot(action[..., d], n) for d, n in enumerate(NUMS)], -1)


@pytest.mark.parametrize("estimator", ["td1", "tdlambda"])
def test_estimators_along_time(estimator: str) -> None:
    loss, _, _ = made()
    loss.make_value_estimator(estimator, gamma=0.9)
    out = loss(batch(2, 5))
    assert out["loss"].isfinite()


def test_joint_actions_of_classes_are_those_of_one_hot_vectors() -> None:
    """`DQNLoss` takes both, too: the value of a joint action is the sum of those of its choices."""
    index = batch(9)
    hot = index.clone().set("action", _one_hot(index["action"]))
    one, other = (DQNLoss(QValueActor(network(), spec=SPECS[space])) for space in SPECS)
    torch.testing.assert_close(one(index)["loss"], other(hot)["loss"])


def test_the_policy_chooses_the_greatest_of_each() -> None:
    data = batch(8).select("observation")
    values = network()(data["observation"]).split(NUMS, -1)
    out = QValueActor(network(), spec=SPECS["multi-categorical"])(data.clone())
    assert out["action"].dtype == torch.int64
    assert torch.equal(out["action"], torch.stack([one.argmax(-1) for one in values], -1))
    assert SPECS["multi-categorical"].expand(8, 3).is_in(out["action"])
    hot = QValueActor(network(), spec=SPECS["mult-one-hot"])(data)["action"]
    assert torch.equal(hot, _one_hot(out["action"]))


def test_forbidden_classes_are_not_chosen() -> None:
    """Nor valued behind a step: also where a mask has a row for each choice."""
    net = nn.Linear(N_OBS, 6)
    rows, row = (
        QValueActor(
            net, action_space="multi-categorical", var_nums=[3, 3], action_mask_key="allowed", stacked=stacked
        )
        for stacked in (True, False)
    )
    data = batch(5).set("action", torch.zeros(5, 2, dtype=torch.int64))
    mask = torch.zeros(5, 2, 3, dtype=torch.bool)
    mask[:, 0, 2] = mask[:, 1, 0] = True
    for actor, allowed in ((rows, mask), (row, mask.flatten(-2))):
        seen = data.select("observation").set("allowed", allowed)
        assert actor(seen)["action"].tolist() == [[2, 0]] * 5
    data["allowed"] = torch.ones_like(mask)
    data["next", "allowed"] = mask
    loss = BranchingDQNLoss(rows, reduction="none", loss_function="l1")
    SoftUpdate(loss, tau=0.5)
    after = net(data["next", "observation"])[:, [2, 3]].mean(-1)
    y = data["next", "reward"].squeeze(-1) + 0.99 * (~data["next", "terminated"]).squeeze(-1) * after
    now = net(data["observation"])[:, [0, 3]]
    torch.testing.assert_close(loss(data)["loss"], (y.unsqueeze(-1) - now).abs().mean(-1))


def test_one_hot_rows() -> None:
    """Choices of as many values may have a row each, as an `OneHot` of a shape has them."""
    net, spec = nn.Linear(N_OBS, 6), OneHot(3, shape=(2, 3))
    actor = QValueActor(net, action_space="mult-one-hot", var_nums=[3, 3], stacked=True)
    data = batch(5)
    data["action"] = spec.rand((5,))
    assert actor(data.select("observation"))["action"].shape == (5, 2, 3)
    flat = QValueActor(net, action_space="mult-one-hot", var_nums=[3, 3])
    expected = BranchingDQNLoss(flat)(data.clone().set("action", data["action"].flatten(-2)))["loss"]
    torch.testing.assert_close(BranchingDQNLoss(actor)(data)["loss"], expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BranchingDQNLoss(network(), action_space="multi-categorical"), "needs var_nums"),
        (
            lambda: BranchingDQNLoss(QValueActor(network(), spec=Categorical(9))),
            "action_space is 'categorical', which is one choice; actions of several",
        ),
        (
            lambda: as_choice_network(
                DistributionalQValueActor(
                    nn.Linear(4, 9), torch.linspace(-1, 1, 3), action_space="mult-one-hot", var_nums=NUMS
                )
            ),
            "gives values, not their distributions",
        ),
        (
            lambda: QValueActor(network(), action_space="categorical", var_nums=NUMS),
            "var_nums are of actions of several choices",
        ),
        (
            lambda: QValueActor(network(), action_space="multi-categorical", var_nums=[2, 0]),
            "var_nums must be positive integers",
        ),
        (
            lambda: QValueActor(network(), spec=MultiCategorical([[2, 3], [3, 2]])),
            "other numbers of values in each row",
        ),
        (
            lambda: QValueActor(network(), spec=SPECS["multi-categorical"], stacked=True),
            "rows of one size are of choices that have as many values",
        ),
    ],
)
def test_refused_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_data_that_do_not_fit_are_refused() -> None:
    loss, _, _ = made()
    with pytest.raises(
        ValueError, match=r"shape \(6, 3\), got \(6, 9\); is action_space='mult-one-hot' meant"
    ):
        loss(batch(6, space="mult-one-hot"))
    with pytest.raises(ValueError, match=r"must have shape \(6, 3\), got \(6, 2\)"):
        loss(batch(6).set("action", torch.zeros(6, 2, dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"must be integers, got torch\.float32"):
        loss(batch(6).set("action", torch.zeros(6, 3)))
    few = QValueActor(nn.Linear(N_OBS, 5), action_space="multi-categorical", var_nums=NUMS)
    with pytest.raises(ValueError, match=r"choices of \[2, 4, 3\] values have 9 entries in all, got shape"):
        BranchingDQNLoss(few)(batch(6))


def test_a_plain_network_with_a_spec() -> None:
    loss, data = (
        BranchingDQNLoss(
            network(), action_space=SPECS["multi-categorical"], delay_value=False, double_dqn=False
        ),
        batch(6),
    )
    expected = BranchingDQNLoss(
        QValueActor(network(), spec=SPECS["multi-categorical"]), delay_value=False, double_dqn=False
    )
    torch.testing.assert_close(loss(data.clone())["loss"], expected(data)["loss"])
