"""The generated `QRDQNLoss`: against the formulas of its paper, and its contract."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor, QuantileQValueActor, QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.specs import MultiOneHot
from specgen_std.losses.dqn import DistributionalDQNLoss, QRDQNLoss
from tensordict import TensorDict
from torch import Tensor, nn

from tests.objectives.linear_networks import GAMMA, N_ACT, N_OBS, N, at, check, facts, linear, moved, steps

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

QUANTILES = 5


def network(space: Any = "categorical", n_actions: int = N_ACT) -> QuantileQValueActor:
    layers = nn.Sequential(linear(N_OBS, QUANTILES * n_actions, 20), nn.Unflatten(-1, (QUANTILES, n_actions)))
    return QuantileQValueActor(layers, in_keys=["observation"], action_space=space)


def batch(*shape: int, one_hot: bool = False) -> TensorDict:
    data = steps(*shape)
    action = (torch.arange(data.numel()) % N_ACT).reshape(shape)
    data["action"] = nn.functional.one_hot(action, N_ACT) if one_hot else action
    return data


def quantile_loss(error: Tensor, probability: float, kappa: float) -> Tensor:
    """Dabney et al. 2018, eq. 8 for `kappa` 0, else eq. 9 and 10."""
    size = error.abs()
    huber = size
    if kappa > 0:
        huber = 0.5 * error**2 if size <= kappa else kappa * (size - 0.5 * kappa)
    return abs(probability - float(error < 0)) * huber


@pytest.mark.parametrize("kappa", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("double", [False, True])
def test_the_formula(kappa: float, double: bool) -> None:
    """Dabney et al. 2018, algorithm 1, one pair of quantiles after another; van Hasselt et al. 2016 with `double_dqn`."""
    data = batch(N)
    loss = QRDQNLoss(network(), gamma=GAMMA, kappa=kappa, double_dqn=double)
    moved(loss.target_value_network_params)
    found = loss(data)
    state, action, reward, alive, after = facts(data)

    def quantiles(params: Any, x: Tensor) -> Tensor:
        return at(params, x).unflatten(-1, (QUANTILES, N_ACT))

    live, target = loss.value_network_params, loss.target_value_network_params
    rows, total = torch.zeros(N, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for row in range(N):
        best = int(quantiles(live if double else target, after[row]).mean(0).argmax())
        goals = reward[row] + GAMMA * alive[row] * quantiles(target, after[row])[:, best]
        now = quantiles(live, state[row])[:, int(action[row])]
        for i in range(QUANTILES):
            probability = (i + 0.5) / QUANTILES
            for j in range(QUANTILES):
                error = goals[j].detach() - now[i]
                one = quantile_loss(error, probability, kappa) / QUANTILES
                total, rows[row] = total + one, rows[row] + one.detach()
    check(loss, found, loss=total / N)
    torch.testing.assert_close(data["td_error"], rows[:, None], rtol=1e-6, atol=1e-6)


def test_quantiles_of_a_return_are_found() -> None:
    """The quantiles that minimise the loss are those of what is drawn: of a number between 0 and 1, the probabilities."""
    net = nn.Sequential(nn.Linear(1, 10), nn.Unflatten(-1, (10, 1)))
    loss = QRDQNLoss(QuantileQValueActor(net, action_space="categorical"), kappa=0.0)
    generator = torch.Generator().manual_seed(0)
    reward = torch.rand(4096, 1, generator=generator)
    zeros, ends = torch.zeros(4096, 1), torch.ones(4096, 1, dtype=torch.bool)
    data = TensorDict(
        {
            "observation": zeros,
            "action": torch.zeros(4096, dtype=torch.int64),
            "next": {"observation": zeros, "reward": reward, "done": ends, "terminated": ends},
        },
        [4096],
    )
    optimizer = torch.optim.Adam(loss.parameters(), lr=0.02)
    for step in range(300):
        optimizer.param_groups[0]["lr"] = 0.02 * (1 - step / 300)
        optimizer.zero_grad()
        loss(data)["loss"].backward()
        optimizer.step()
    found = net(torch.zeros(1)).flatten()
    torch.testing.assert_close(found, (torch.arange(10) + 0.5) / 10, rtol=0, atol=0.03)


def test_reductions_weights_and_priorities() -> None:
    data = batch(N, one_hot=True)
    rows = QRDQNLoss(network("one-hot"), reduction="none")(data)["loss"]
    assert rows.shape == (N,)
    torch.testing.assert_close(data["td_error"], rows.detach()[:, None])
    torch.testing.assert_close(QRDQNLoss(network("one-hot"), reduction="sum")(data)["loss"], rows.sum())
    weights = torch.linspace(0.5, 2.0, N, dtype=torch.float64)
    data["priority_weight"] = weights
    weighed = QRDQNLoss(network("one-hot"))(data)["loss"]
    torch.testing.assert_close(weighed, (weights * rows).sum() / weights.sum())


def test_any_batch_and_any_way_of_a_step() -> None:
    loss = QRDQNLoss(network(), reduction="none", gamma=0.9)
    data = batch(4, 3)
    out = loss(data)["loss"]
    torch.testing.assert_close(loss(data.reshape(12))["loss"], out.flatten())
    torch.testing.assert_close(loss(data[1, 2].clone())["loss"], out[1, 2])
    data["steps_to_next_obs"] = torch.full((4, 3, 1), 2)
    slower = QRDQNLoss(network(), reduction="none", gamma=0.9**2)
    torch.testing.assert_close(loss(data)["loss"], slower(data.exclude("steps_to_next_obs"))["loss"])
    data["next", "terminated"][:] = True
    before = loss(data)["loss"]
    data["next", "observation"] = -data["next", "observation"]
    torch.testing.assert_close(loss(data)["loss"], before)


def test_targets_follow_and_are_not_trained() -> None:
    loss = QRDQNLoss(network())
    moved(loss.target_value_network_params)
    updater = SoftUpdate(loss, tau=0.25)
    before = loss.target_value_network_params.data.clone()
    loss(batch(N))["loss"].backward()
    assert all(value.grad is None for value in loss.target_value_network_params.values(True, True))
    assert all(value.grad is not None for value in loss.value_network_params.values(True, True))
    updater.step()
    expected = before * 0.75 + loss.value_network_params.data * 0.25
    for key, value in expected.items(True, True):
        torch.testing.assert_close(loss.target_value_network_params.data[key], value)
    with pytest.raises(ValueError, match="double_dqn=True needs delay_value=True"):
        QRDQNLoss(network(), double_dqn=True, delay_value=False)


def test_squares_wherever_kappa_is_infinite() -> None:
    data = batch(N)
    losses = [QRDQNLoss(network(), kappa=kappa, gamma=GAMMA) for kappa in (1e6, float("inf"))]
    found = [loss(data)["loss"] for loss in losses]
    torch.testing.assert_close(found[1], found[0])
    found[1].backward()
    assert all(value.grad.isfinite().all() for value in losses[1].value_network_params.values(True, True))


@pytest.mark.parametrize("double", [False, True])
def test_forbidden_actions_are_not_the_next_ones(double: bool) -> None:
    """The loss is as if there were no others than those that a mask allows; that of distributions, too."""
    allowed = torch.tensor([True, False, *[True] * (N_ACT - 2)])
    data = batch(N)
    data["action"] = torch.where(data["action"] == 1, 0, data["action"])
    masks = allowed.expand(N, N_ACT)
    data["mask"], data["next", "mask"] = masks, masks

    def taken(actor: Any, **words: Any) -> Tensor:
        loss: Any = (QRDQNLoss if isinstance(actor, QuantileQValueActor) else DistributionalDQNLoss)(
            actor, reduction="none", **words
        )
        return loss(data)["loss"].detach()

    class Great(nn.Module):
        """Gives the second action another value than it has."""

        def __init__(self, by: float) -> None:
            super().__init__()
            self.net = nn.Sequential(
                linear(N_OBS, QUANTILES * N_ACT, 20), nn.Unflatten(-1, (QUANTILES, N_ACT))
            )
            self.by = by

        def forward(self, observation: Tensor) -> Tensor:
            other = torch.linspace(-1, 1, QUANTILES)[:, None] * (torch.arange(N_ACT) == 1)
            moved = other if self.atoms else (torch.arange(N_ACT) == 1)
            return self.net(observation) + self.by * moved

        atoms = False

    def actors(by: float, mask: str | None) -> list[Any]:
        net, scores = Great(by), Great(by)
        scores.atoms = True
        words: Any = {"in_keys": ["observation"], "action_space": "categorical", "action_mask_key": mask}
        support = torch.linspace(-3, -1, QUANTILES)
        return [
            QuantileQValueActor(net, **words),
            DistributionalQValueActor(scores, support=support, **words),
        ]

    for great, least, open_to_all in zip(
        actors(50.0, "mask"), actors(-50.0, None), actors(50.0, None), strict=True
    ):
        words = {"double_dqn": True} if double and isinstance(great, QuantileQValueActor) else {}
        torch.testing.assert_close(taken(great, **words), taken(least, **words))
        assert not torch.allclose(taken(great, **words), taken(open_to_all, **words))


def test_several_choices_at_once() -> None:
    """Quantiles of joint actions are sums of those of their choices, so that the greatest mean is where each choice's is."""
    nums = [2, 3]
    layers = nn.Sequential(linear(N_OBS, QUANTILES * 5, 20), nn.Unflatten(-1, (QUANTILES, 5)))
    actor = QuantileQValueActor(layers, spec=MultiOneHot(nums))
    data = batch(N)
    data["action"] = MultiOneHot(nums).expand(N, 5).rand()
    parts = actor(data.select("observation"))["action_value"].split(nums, -1)
    chosen = [part.argmax(-1) for part in data["action"].long().split(nums, -1)]
    now = sum(part[torch.arange(N), :, index] for part, index in zip(parts, chosen, strict=True))
    after = actor(data["next"].select("observation"))["action_value"].split(nums, -1)
    best = [part.mean(-2).argmax(-1) for part in after]
    following = sum(part[torch.arange(N), :, index] for part, index in zip(after, best, strict=True))
    goal = data["next", "reward"] + 0.99 * ~data["next", "terminated"] * following
    error = (goal[:, None, :] - now[:, :, None]).detach()
    share = (torch.arange(QUANTILES) + 0.5) / QUANTILES
    huber = nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")
    expected = ((share[:, None] - (error < 0).double()).abs() * huber).mean(-1).sum(-1).mean()
    torch.testing.assert_close(
        QRDQNLoss(actor)(data)["loss"].detach(), expected, rtol=1e-6, atol=1e-6, check_dtype=False
    )


def test_a_network_without_quantiles_is_named() -> None:
    """One value for each action lacks a dimension, also where a batch has as many samples as there are actions."""
    for size in (6, N_ACT):
        with pytest.raises(
            RuntimeError,
            match=rf"'action_value', the action_value, is \[{size}, quantiles, n_actions\] of a batch",
        ):
            QRDQNLoss(QValueActor(linear(N_OBS, N_ACT, 20), action_space="categorical"))(batch(size))
