"""Losses that learn the values of actions against the formulas of their papers, written plainly over linear networks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor, QValueActor
from specgen_std.losses import (
    CrossQLoss,
    DDPGLoss,
    DistributionalDQNLoss,
    DQNLoss,
    IQLLoss,
    REDQLoss,
    TD3BCLoss,
)
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import Tensor, nn

from tests.objectives.linear_networks import (
    GAMMA,
    N_ACT,
    N_OBS,
    N,
    action_value,
    at,
    certain,
    check,
    facts,
    gauss,
    linear,
    log_density,
    moved,
    state_value,
    steps,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")


def test_dqn() -> None:
    """Mnih et al. 2015, algorithm 1: the target of the greedy next action; van Hasselt et al. 2016, eq. 4."""
    for double in (False, True):
        data = steps(N)
        chosen = torch.arange(N) % N_ACT
        data["action"] = nn.functional.one_hot(chosen, N_ACT)
        network = QValueActor(linear(N_OBS, N_ACT, 20), in_keys=["observation"], action_space="one-hot")
        loss = DQNLoss(network, action_space="one-hot", loss_function="l2", double_dqn=double)
        loss.make_value_estimator("TD0", gamma=GAMMA)
        moved(loss.target_value_network_params)
        state, _, reward, alive, after = facts(data)
        found = loss(data)
        live, target = loss.value_network_params, loss.target_value_network_params
        best = at(live if double else target, after).argmax(-1)
        following = at(target, after)[torch.arange(N), best]
        goal = (reward + GAMMA * alive * following).detach()
        value = at(live, state)[torch.arange(N), chosen]
        check(loss, found, loss=((goal - value) ** 2).mean())


def test_c51() -> None:
    """Bellemare et al. 2017, algorithm 1, one atom after another; the next action is the trained network's."""
    atoms, low, high = 5, -1.0, 1.0
    step = (high - low) / (atoms - 1)
    support = torch.linspace(low, high, atoms, dtype=torch.float64)
    data = steps(N)
    chosen = torch.arange(N) % N_ACT
    data["action"] = nn.functional.one_hot(chosen, N_ACT)
    data["next", "reward"] *= 0.3
    network = DistributionalQValueActor(
        nn.Sequential(linear(N_OBS, atoms * N_ACT, 20), nn.Unflatten(-1, (atoms, N_ACT))),
        support,
        action_space="one-hot",
    )
    loss = DistributionalDQNLoss(network, gamma=GAMMA)
    moved(
        loss.target_value_network_params.select(
            *[k for k in loss.target_value_network_params.keys(True, True) if k[-1] != "support"]
        )
    )
    found = loss(data)
    state, _, reward, alive, after = facts(data)

    def log_masses(params: Any, x: Tensor) -> Tensor:
        return at(params, x).unflatten(-1, (atoms, N_ACT)).log_softmax(-2)

    live, target = loss.value_network_params, loss.target_value_network_params
    total = torch.zeros((), dtype=torch.float64)
    for row in range(N):
        best = int((log_masses(live, after[row]).exp() * support[:, None]).sum(0).argmax())
        masses = log_masses(target, after[row]).exp()[:, best]
        projected = torch.zeros(atoms, dtype=torch.float64)
        for place in range(atoms):
            moved_to = float((reward[row] + GAMMA * alive[row] * support[place]).clamp(low, high))
            where = (moved_to - low) / step
            below, above = math.floor(where), math.ceil(where)
            if below == above:
                projected[below] += masses[place].detach()
            else:
                projected[below] += masses[place].detach() * (above - where)
                projected[above] += masses[place].detach() * (where - below)
        total = total - (projected * log_masses(live, state[row])[:, chosen[row]]).sum()
    check(loss, found, loss=total / N)


def test_ddpg() -> None:
    """Lillicrap et al. 2015, algorithm 1."""
    data = steps(N)
    loss = DDPGLoss(certain(), action_value(), delay_actor=True)
    loss.make_value_estimator("TD0", gamma=GAMMA)
    moved(loss.target_actor_network_params)
    moved(loss.target_value_network_params)
    found = loss(data)
    state, action, reward, alive, after = facts(data)
    policy, target_policy = loss.actor_network_params, loss.target_actor_network_params
    value, target_value = loss.value_network_params, loss.target_value_network_params
    next_input = torch.cat([after, at(target_policy, after)], -1)
    goal = (reward + GAMMA * alive * at(target_value, next_input).squeeze(-1)).detach()
    error = (goal - at(value, torch.cat([state, action], -1)).squeeze(-1)) ** 2
    gain = at(value, torch.cat([state, at(policy, state)], -1)).squeeze(-1)
    check(loss, found, loss_value=error.mean(), loss_actor=-gain.mean())


def test_td3_bc() -> None:
    """Fujimoto & Gu 2021, eq. 3 and 5: the normalised first value, minus the distance to the action in the data."""
    data = steps(N)
    critics: Any = [action_value(20), action_value(25)]
    loss = TD3BCLoss(certain(), critics, bounds=(-5.0, 5.0), policy_noise=0.0, alpha=1.7, loss_function="l2")
    loss.make_value_estimator("TD0", gamma=GAMMA)
    found = loss(data)
    state, action, reward, alive, after = facts(data)
    own = at(loss.actor_network_params, state)
    value = at(loss.qvalue_network_params[0], torch.cat([state, own], -1)).squeeze(-1)
    weight = 1.7 / value.abs().mean().detach()
    next_action = at(loss.target_actor_network_params, after).clamp(-5.0, 5.0)
    next_values = [
        at(loss.target_qvalue_network_params[k], torch.cat([after, next_action], -1)).squeeze(-1)
        for k in range(2)
    ]
    goal = (reward + GAMMA * alive * torch.minimum(*next_values)).detach()
    errors = [
        (at(loss.qvalue_network_params[k], torch.cat([state, action], -1)).squeeze(-1) - goal) ** 2
        for k in range(2)
    ]
    imitation = ((own - action) ** 2).mean()
    check(
        loss, found, loss_actor=-weight * value.mean() + imitation, loss_qvalue=(errors[0] + errors[1]).mean()
    )


def soft_facts(loss: Any, data: TensorDict, members: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Next actions, new actions and their log-probabilities, drawn as the loss does; between them it draws members."""
    mean, log_scale = (
        partial(at, loss.actor_network_params),
        loss.actor_network_params["module", "0", "module", "log_scale"],
    )
    drawn = []
    for record in (data["next"], data):
        noise = torch.randn(N, N_ACT, dtype=torch.float64)
        centre = mean(record["observation"])
        action = centre + log_scale.exp() * noise
        drawn += [action, log_density(action, centre, log_scale)]
        torch.randperm(members)
    return drawn[0], drawn[1], drawn[2], drawn[3]


def test_redq() -> None:
    """Chen et al. 2021, algorithm 1, with all members in the set M; the temperature by both draws."""
    data = steps(N)
    members: Any = [action_value(20 + 3 * k) for k in range(3)]
    loss = REDQLoss(
        gauss(),
        members,
        num_qvalue_nets=3,
        sub_sample_len=3,
        alpha_init=0.4,
        target_entropy=-1.5,
        loss_function="l2",
    )
    loss.make_value_estimator("TD0", gamma=GAMMA)
    torch.manual_seed(3)
    found = loss(data)
    torch.manual_seed(3)
    next_action, next_log_p, new_action, log_p = soft_facts(loss, data, members=3)
    state, action, reward, alive, after = facts(data)

    def values(params: Any, state: Tensor, action: Tensor) -> Tensor:
        return torch.stack([at(params[k], torch.cat([state, action], -1)).squeeze(-1) for k in range(3)])

    next_value = values(loss.target_qvalue_network_params, after, next_action).amin(0) - 0.4 * next_log_p
    goal = (reward + GAMMA * alive * next_value).detach()
    errors = (values(loss.qvalue_network_params, state, action) - goal) ** 2
    gain = values(loss.qvalue_network_params, state, new_action).mean(0) - 0.4 * log_p
    surplus = (0.5 * (log_p + next_log_p) - 1.5).detach()
    check(
        loss,
        found,
        loss_qvalue=errors.mean(0).mean(),
        loss_actor=-gain.mean(),
        loss_alpha=-(loss.log_alpha.exp() * surplus).mean(),
    )


def test_crossq() -> None:
    """Bhatt et al. 2024, algorithm 1: no targets, and the values of both records normalised as one batch."""

    class Normalised(nn.Module):
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.normalise = nn.BatchNorm1d(N_OBS + N_ACT, affine=False, dtype=torch.float64)
            self.layer = linear(N_OBS + N_ACT, 1, seed)

        def forward(self, observation: Tensor, action: Tensor) -> Tensor:
            return self.layer(self.normalise(torch.cat([observation, action], -1)))

    data = steps(N)
    members: Any = [
        TensorDictModule(Normalised(seed), in_keys=["observation", "action"], out_keys=["state_action_value"])
        for seed in (20, 25)
    ]
    loss = CrossQLoss(gauss(), members, alpha_init=0.4, target_entropy=-1.5, loss_function="l2")
    loss.make_value_estimator("TD0", gamma=GAMMA)
    torch.manual_seed(3)
    found = loss(data)
    torch.manual_seed(3)
    next_action, next_log_p, new_action, log_p = soft_facts(loss, data)
    state, action, reward, alive, after = facts(data)
    both = torch.cat([torch.cat([state, action], -1), torch.cat([after, next_action.detach()], -1)])
    mean, variance = both.mean(0), both.var(0, unbiased=False)
    normed = (both - mean) / (variance + 1e-5).sqrt()
    running_mean, running_variance = 0.1 * mean, 0.9 + 0.1 * both.var(0)  # after this one batch
    fresh = (torch.cat([state, new_action], -1) - running_mean) / (running_variance + 1e-5).sqrt()

    def values(x: Tensor) -> Tensor:
        params = loss.qvalue_network_params
        return torch.stack([at(params[k].select(("module", "layer")), x).squeeze(-1) for k in range(2)])

    now, following = values(normed).split(N, -1)
    goal = (reward + GAMMA * alive * (following.amin(0) - 0.4 * next_log_p)).detach()
    check(
        loss,
        found,
        loss_qvalue=((now - goal) ** 2).sum(0).mean(),
        loss_actor=(0.4 * log_p - values(fresh).amin(0)).mean(),
        loss_alpha=-(loss.log_alpha * (log_p - 1.5).detach()).mean(),
    )


def test_iql() -> None:
    """Kostrikov et al. 2021, eq. 5 to 7, with the smaller of two target values."""
    data = steps(N)
    members: Any = [action_value(20), action_value(25)]
    loss = IQLLoss(gauss(), members, state_value(), expectile=0.8, temperature=1.5, loss_function="l2")
    loss.make_value_estimator("TD0", gamma=GAMMA)
    moved(loss.target_qvalue_network_params)
    found = loss(data)
    state, action, reward, alive, after = facts(data)
    joined = torch.cat([state, action], -1)
    best = torch.minimum(
        *[at(loss.target_qvalue_network_params[k], joined).squeeze(-1) for k in range(2)]
    ).detach()
    value = at(loss.value_network_params, state).squeeze(-1)
    ahead = best - value
    expectile = torch.where(ahead < 0, 1 - 0.8, 0.8) * ahead**2
    goal = (reward + GAMMA * alive * at(loss.value_network_params, after).squeeze(-1)).detach()
    errors = [(at(loss.qvalue_network_params[k], joined).squeeze(-1) - goal) ** 2 for k in range(2)]
    weight = (1.5 * ahead.detach()).exp().clamp(max=100.0)
    params = loss.actor_network_params
    log_p = log_density(action, at(params, state), params["module", "0", "module", "log_scale"])
    check(
        loss,
        found,
        loss_value=expectile.mean(),
        loss_qvalue=(errors[0] + errors[1]).mean(),
        loss_actor=-(weight * log_p).mean(),
    )
