"""Losses against the formulas of their papers, written plainly over linear networks; others have theirs in their own files."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from specgen_runtime.modules import DistributionalQValueActor, ProbabilisticActor, QValueActor
from specgen_std.losses import (
    A2CLoss,
    ClipPPOLoss,
    CrossQLoss,
    DDPGLoss,
    DistributionalDQNLoss,
    DQNLoss,
    GAILLoss,
    IPPOLoss,
    IQLLoss,
    MAPPOLoss,
    PPOLoss,
    REDQLoss,
    ReinforceLoss,
    TD3BCLoss,
)
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

from tests.objectives.every_loss import losses

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

IN_THEIR_FILES = {
    "BCLoss": "test_behavior_cloning.test_the_formulas",
    "CISPOLoss": "test_grpo.test_formulas",
    "CQLLoss": "test_cql.test_the_formula",
    "DAPO": "test_grpo.test_formulas",
    "DTLoss": "test_decision_transformer.test_the_formula",
    "DiscreteCQLLoss": "test_discrete.test_the_formula_of_cql",
    "DiscreteIQLLoss": "test_discrete.test_the_formula_of_iql",
    "DiscreteSACLoss": "test_discrete_sac.test_the_formula",
    "GRPOLoss": "test_grpo.test_formulas",
    "KLPENPPOLoss": "test_klpen.test_equals_the_paper",
    "OnlineDTLoss": "test_online_dt.test_the_formula",
    "RNDLoss": "test_rnd.test_the_formula",
    "SACLoss": "test_sac.test_the_formula",
    "SFTLoss": "test_sft.test_sft_masks_what_it_reads",
    "TD3Loss": "test_td3.test_the_formula",
}
"""Losses whose formula another file tests."""

HERE: dict[str, Callable[[], None]] = {}
"""The tests below, by the losses that they are of."""

N, N_OBS, N_ACT, GAMMA = 7, 3, 2, 0.9


def of(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def note(test: Callable[[], None]) -> Callable[[], None]:
        HERE.update(dict.fromkeys(names, test))
        return test

    return note


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, dtype=torch.float64)
    layer.weight.data, layer.bias.data = normal(outputs, inputs, seed=seed), normal(outputs, seed=seed + 1)
    return layer


def at(params: Any, x: Tensor) -> Tensor:
    """What a linear network gives with these parameters of a loss."""
    (weight,), (bias,) = (
        [
            value
            for key, value in params.items(True, True)
            if name in (key if isinstance(key, tuple) else [key])
        ]
        for name in ("weight", "bias")
    )
    return x @ weight.mT + bias


def moved(params: Any) -> Any:
    """Targets that are no copies any more."""
    for place, value in enumerate(params.values(True, True)):
        value.data += 0.3 * normal(*value.shape, seed=50 + place)
    return params


class Joined(nn.Module):
    def __init__(self, outputs: int, seed: int) -> None:
        super().__init__()
        self.layer = linear(N_OBS + N_ACT, outputs, seed)

    def forward(self, observation: Tensor, action: Tensor) -> Tensor:
        return self.layer(torch.cat([observation, action], -1))


class Gauss(nn.Module):
    """A mean that is linear in the observation, and a deviation that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = linear(N_OBS, N_ACT, 10)
        self.log_scale = nn.Parameter(torch.tensor([-0.3, 0.2], dtype=torch.float64))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        mean = self.layer(observation)
        return mean, self.log_scale.exp().expand_as(mean)


class Independent(torch.distributions.Independent):
    def __init__(self, loc: Tensor, scale: Tensor) -> None:
        super().__init__(torch.distributions.Normal(loc, scale), 1)


def gauss() -> ProbabilisticActor:
    return ProbabilisticActor(
        TensorDictModule(Gauss(), in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=Independent,
        return_log_prob=True,
    )


def certain() -> TensorDictModule:
    return TensorDictModule(linear(N_OBS, N_ACT, 10), in_keys=["observation"], out_keys=["action"])


def action_value(seed: int = 20) -> TensorDictModule:
    return TensorDictModule(
        Joined(1, seed), in_keys=["observation", "action"], out_keys=["state_action_value"]
    )


def state_value() -> TensorDictModule:
    return TensorDictModule(linear(N_OBS, 1, 30), in_keys=["observation"], out_keys=["state_value"])


def steps(*shape: int) -> TensorDict:
    ended = normal(*shape, 1, seed=5) > 0.4
    return TensorDict(
        {
            "observation": normal(*shape, N_OBS, seed=1),
            "action": normal(*shape, N_ACT, seed=2),
            "action_log_prob": -2 + 0.4 * normal(*shape, seed=6),
            "advantage": normal(*shape, 1, seed=7),
            "value_target": normal(*shape, 1, seed=8),
            "next": {
                "observation": normal(*shape, N_OBS, seed=3),
                "reward": normal(*shape, 1, seed=4),
                "done": ended | (normal(*shape, 1, seed=9) > 0.8),
                "terminated": ended,
            },
        },
        shape,
    )


def facts(data: TensorDict) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Observations, actions, rewards, whether the episode goes on, and next observations, as plain tensors."""
    after = data["next"]
    alive = (~after["terminated"]).squeeze(-1).double()
    return data["observation"], data["action"], after["reward"].squeeze(-1), alive, after["observation"]


def log_density(x: Tensor, mean: Tensor, log_scale: Tensor) -> Tensor:
    """Of a normal distribution with independent entries."""
    return (-0.5 * ((x - mean) / log_scale.exp()) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)).sum(-1)


def gauss_entropy(log_scale: Tensor) -> Tensor:
    return (log_scale + 0.5 * math.log(2 * math.pi * math.e)).sum()


def check(loss: Any, found: TensorDict, /, **expected: Tensor) -> None:
    """Each term, and its gradients to what it trains. Coefficients are float32, networks and data float64."""
    parameters = [p for p in loss.parameters() if p.requires_grad]
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6, msg=name)
        if not name.startswith("loss"):
            continue
        trained = [
            p
            for term in loss.parameters_of(name)
            for p in ([term] if isinstance(term, Tensor) else term.parameters())
        ]
        assert trained
        got, wanted = (
            torch.autograd.grad(one, parameters, retain_graph=True, allow_unused=True)
            for one in (found[name], value)
        )
        for parameter, a, b in zip(parameters, got, wanted, strict=True):
            if any(parameter is one for one in trained):
                torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, msg=name)


def test_every_loss_has_one() -> None:
    assert losses().keys() == {*IN_THEIR_FILES, *HERE}
    for place in IN_THEIR_FILES.values():
        module, _, name = place.partition(".")
        assert hasattr(importlib.import_module(f"tests.objectives.{module}"), name)
    assert not IN_THEIR_FILES.keys() & HERE.keys()


@of("DQNLoss")
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


@of("DistributionalDQNLoss")
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


@of("DDPGLoss")
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


@of("TD3BCLoss")
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


@of("REDQLoss")
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


@of("CrossQLoss")
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


@of("IQLLoss")
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


def policy_facts(loss: Any, data: TensorDict) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities now and then, advantages, the critic's error, and the policy's entropy."""
    params = loss.actor_network_params
    log_scale = params["module", "0", "module", "log_scale"]
    log_p = log_density(data["action"], at(params, data["observation"]), log_scale)
    value = at(loss.critic_network_params, data["observation"])
    error = ((value - data["value_target"]) ** 2).squeeze(-1)
    return log_p, data["action_log_prob"], data["advantage"].squeeze(-1), error, gauss_entropy(log_scale)


@of("ReinforceLoss")
def test_reinforce() -> None:
    """Williams 1992, section 4: the gradient of log-probabilities, times what is beyond the baseline."""
    data, loss = steps(N), ReinforceLoss(gauss(), state_value(), loss_critic_type="l2")
    log_p, _, advantage, error, _ = policy_facts(loss, data)
    check(loss, loss(data), loss_actor=-(log_p * advantage).mean(), loss_value=error.mean())


@of("A2CLoss")
def test_a2c() -> None:
    """Mnih et al. 2016, section 4: the policy gradient with an entropy bonus, and the critic's squared error."""
    data = steps(N)
    loss = A2CLoss(gauss(), state_value(), loss_critic_type="l2", entropy_coeff=0.03, critic_coeff=0.5)
    log_p, _, advantage, error, entropy = policy_facts(loss, data)
    check(
        loss,
        loss(data),
        loss_objective=-(log_p * advantage).mean(),
        loss_critic=0.5 * error.mean(),
        loss_entropy=-0.03 * entropy,
    )


@of("PPOLoss", "ClipPPOLoss")
def test_ppo() -> None:
    """Schulman et al. 2017, eq. 6, 7 and 9."""
    data = steps(N)
    for kind, given in ((PPOLoss, {}), (ClipPPOLoss, {"clip_epsilon": 0.15})):
        loss = kind(
            gauss(), state_value(), loss_critic_type="l2", entropy_coeff=0.03, critic_coeff=0.5, **given
        )
        log_p, before, advantage, error, entropy = policy_facts(loss, data)
        ratio = (log_p - before).exp()
        objective = ratio * advantage
        if given:
            objective = torch.minimum(objective, ratio.clamp(1 - 0.15, 1 + 0.15) * advantage)
            assert ((ratio - 1).abs() > 0.15).any()
        check(
            loss,
            loss(data),
            loss_objective=-objective.mean(),
            loss_critic=0.5 * error.mean(),
            loss_entropy=-0.03 * entropy,
        )


@of("MAPPOLoss", "IPPOLoss")
def test_ppo_of_agents() -> None:
    """Yu et al. 2022, appendix A: eq. 7 of PPO over all agents, advantages standardised; a critic of all or of one."""
    agents = 3
    for kind in (MAPPOLoss, IPPOLoss):
        data = steps(N, agents)
        data.batch_size = data["next"].batch_size = torch.Size([N])
        loss = kind(gauss(), state_value(), loss_critic_type="l2", entropy_coeff=0.03, clip_epsilon=0.15)
        log_p, before, advantage, error, entropy = policy_facts(loss, data)
        total = torch.zeros((), dtype=torch.float64)
        for agent in range(agents):
            own = advantage[:, agent]
            standard = (own - own.mean()) / own.std()
            ratio = (log_p - before)[:, agent].exp()
            total = total + torch.minimum(ratio * standard, ratio.clamp(0.85, 1.15) * standard).sum()
        check(
            loss,
            loss(data),
            loss_objective=-total / (N * agents),
            loss_critic=error.mean(),
            loss_entropy=-0.03 * entropy,
        )


@of("GAILLoss")
def test_gail() -> None:
    """Ho & Ermon 2016, algorithm 1, with the penalty of Gulrajani et al. 2017, eq. 3."""
    data = steps(N)
    data["collector_observation"], data["collector_action"] = (
        normal(N, N_OBS, seed=11),
        normal(N, N_ACT, seed=12),
    )
    network = TensorDictSequential(
        TensorDictModule(Joined(1, 20), in_keys=["observation", "action"], out_keys=["d_logits"]),
        TensorDictModule(nn.Sigmoid(), in_keys=["d_logits"], out_keys=["d_logits"]),
    )
    loss = GAILLoss(network, use_grad_penalty=True, gp_lambda=4.0)
    torch.manual_seed(3)
    found = loss(data)
    torch.manual_seed(3)
    params = loss.discriminator_network_params
    expert = torch.cat([data["observation"], data["action"]], -1)
    collected = torch.cat([data["collector_observation"], data["collector_action"]], -1)
    share = torch.cat([torch.rand(N, size, dtype=torch.float64) for size in (N_OBS, N_ACT)], -1)
    mixed = share * collected + (1 - share) * expert
    certain_of = at(params, mixed).sigmoid()
    weight = next(value for key, value in params.items(True, True) if key[-1] == "weight")
    slope = certain_of * (1 - certain_of) * weight  # the derivative of a sigmoid of a linear function
    penalty = 4.0 * (slope.norm(dim=-1) - 1) ** 2
    told = -at(params, expert).sigmoid().log() - (1 - at(params, collected).sigmoid()).log()
    check(loss, found, loss=told.mean() + penalty.mean(), gp_loss=penalty.mean())
