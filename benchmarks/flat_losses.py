"""Losses as a person writes them for one program: plain functions over plain modules, without tensordicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.nn import functional

GAMMA = 0.99


@dataclass(frozen=True)
class Flat:
    """Networks as plain modules.

    Attributes:
        actor: from observations to the parameters of the policy, or to actions.
        critics: from observations, or observations beside actions, to values; an ensemble, or one.
        target_actor: the delayed copy.
        target_critics: the delayed copies.
        log_alpha: of losses with a temperature.
    """

    actor: nn.Module
    critics: Sequence[nn.Module]
    target_actor: nn.Module
    target_critics: Sequence[nn.Module]
    log_alpha: nn.Parameter = field(default_factory=lambda: nn.Parameter(torch.zeros(())))

    def parameters(self) -> list[nn.Parameter]:
        """All that is trained."""
        trained = [*self.actor.parameters(), *(p for critic in self.critics for p in critic.parameters())]
        return [*trained, self.log_alpha]


def _bootstrap(data: TensorDict, next_value: Tensor) -> Tensor:
    """The one-step return, without gradient."""
    after = data["next"]
    going = (~after["terminated"].squeeze(-1)).float()
    return (after["reward"].squeeze(-1) + GAMMA * going * next_value).detach()


def _values(critics: Sequence[nn.Module], observation: Tensor, action: Tensor) -> Tensor:
    joined = torch.cat([observation, action], -1)
    return torch.stack([critic(joined).squeeze(-1) for critic in critics])


def _frozen_values(critics: Sequence[nn.Module], observation: Tensor, action: Tensor) -> Tensor:
    """Values whose gradients reach the action alone."""
    held = [p for critic in critics for p in critic.parameters()]
    for parameter in held:
        parameter.requires_grad_(False)
    value = _values(critics, observation, action)
    for parameter in held:
        parameter.requires_grad_(True)
    return value


def _squashed(actor: nn.Module, observation: Tensor) -> tuple[Tensor, Tensor]:
    """A draw of a normal policy squashed by tanh, and its log-probability."""
    loc, scale = actor(observation).chunk(2, -1)
    scale = functional.softplus(scale) + 1e-4
    latent = loc + scale * torch.randn_like(loc)
    normal = -0.5 * ((latent - loc) / scale) ** 2 - scale.log() - 0.9189385332
    log_prob = normal - 2 * (0.6931471806 - latent - functional.softplus(-2 * latent))
    return latent.tanh(), log_prob.sum(-1)


def dqn(nets: Flat, data: TensorDict) -> Tensor:
    """Mnih et al. (2015)."""
    with torch.no_grad():
        goal = _bootstrap(data, nets.target_critics[0](data["next", "observation"]).max(-1).values)
    chosen = nets.critics[0](data["observation"]).gather(-1, data["action"].unsqueeze(-1)).squeeze(-1)
    return functional.mse_loss(chosen, goal)


def ddpg(nets: Flat, data: TensorDict) -> Tensor:
    """Lillicrap et al. (2015)."""
    observation, after = data["observation"], data["next", "observation"]
    with torch.no_grad():
        goal = _bootstrap(data, _values(nets.target_critics, after, nets.actor(after))[0])
    loss = functional.mse_loss(_values(nets.critics, observation, data["action"])[0], goal)
    return loss - _frozen_values(nets.critics, observation, nets.actor(observation)).mean()


def td3(nets: Flat, data: TensorDict) -> Tensor:
    """Fujimoto et al. (2018)."""
    observation, after = data["observation"], data["next", "observation"]
    with torch.no_grad():
        action = nets.target_actor(after)
        noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
        action = (action + noise).clamp(-1, 1)
        goal = _bootstrap(data, _values(nets.target_critics, after, action).amin(0))
    values = _values(nets.critics, observation, data["action"])
    critic = functional.smooth_l1_loss(values, goal.expand_as(values), reduction="none").sum(0).mean()
    return critic - _frozen_values(nets.critics[:1], observation, nets.actor(observation)).mean()


def sac(nets: Flat, data: TensorDict) -> Tensor:
    """Haarnoja et al. (2018)."""
    observation, after = data["observation"], data["next", "observation"]
    alpha = nets.log_alpha.exp().detach()
    with torch.no_grad():
        action, log_prob = _squashed(nets.actor, after)
        value = _values(nets.target_critics, after, action).amin(0) - alpha * log_prob
        goal = _bootstrap(data, value)
    values = _values(nets.critics, observation, data["action"])
    critic = functional.smooth_l1_loss(values, goal.expand_as(values), reduction="none").sum(0).mean()
    action, log_prob = _squashed(nets.actor, observation)
    actor = (alpha * log_prob - _frozen_values(nets.critics, observation, action).amin(0)).mean()
    entropy = -nets.log_alpha * (log_prob.detach() - action.shape[-1]).mean()
    return critic + actor + entropy


def redq(nets: Flat, data: TensorDict) -> Tensor:
    """Chen et al. (2021)."""
    observation, after = data["observation"], data["next", "observation"]
    alpha = nets.log_alpha.exp().detach()
    with torch.no_grad():
        action, next_log_prob = _squashed(nets.actor, after)
        some = torch.randperm(len(nets.critics))[:2]
        if torch.compiler.is_compiling():  # a graph for each pair of critics takes longer than all of them
            value = _values(nets.target_critics, after, action)[some].amin(0)
        else:
            value = _values([nets.target_critics[i] for i in some.tolist()], after, action).amin(0)
        goal = _bootstrap(data, value - alpha * next_log_prob)
    values = _values(nets.critics, observation, data["action"])
    critic = functional.smooth_l1_loss(values, goal.expand_as(values))
    action, log_prob = _squashed(nets.actor, observation)
    actor = (alpha * log_prob - _frozen_values(nets.critics, observation, action)).mean()
    both = 0.5 * (log_prob.detach() + next_log_prob)
    return critic + actor - (nets.log_alpha.exp() * (both - action.shape[-1])).mean()


def cql(nets: Flat, data: TensorDict) -> Tensor:
    """Kumar et al. (2020), with 10 draws of each kind."""
    observation, after, n = data["observation"], data["next", "observation"], 10
    size = data["action"].shape[-1]
    alpha = nets.log_alpha.exp().detach()
    with torch.no_grad():
        action, _ = _squashed(nets.actor, after)
        goal = _bootstrap(data, _values(nets.target_critics, after, action).amin(0))
    values = _values(nets.critics, observation, data["action"])
    critic = functional.smooth_l1_loss(values, goal.expand_as(values), reduction="none").sum(0).mean()
    wide = observation.expand(n, *observation.shape)
    with torch.no_grad():
        now, now_log_prob = _squashed(nets.actor, wide)
        later, later_log_prob = _squashed(nets.actor, after.expand(n, *after.shape))
        anywhere = 2 * torch.rand_like(now) - 1
    candidates = torch.stack(
        [
            _values(nets.critics, wide, anywhere) + size * 0.6931471806,
            _values(nets.critics, wide, later) - later_log_prob,
            _values(nets.critics, wide, now) - now_log_prob,
        ]
    )
    conservative = (candidates.logsumexp(0).mean(1) - values).sum(0).mean()
    action, log_prob = _squashed(nets.actor, observation)
    actor = (alpha * log_prob - _frozen_values(nets.critics, observation, action).amin(0)).mean()
    return critic + conservative + actor - nets.log_alpha * (log_prob.detach() - size).mean()


def _scored(nets: Flat, data: TensorDict) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of the actions in the data, the entropy, and values."""
    loc, scale = nets.actor(data["observation"]).chunk(2, -1)
    scale = functional.softplus(scale) + 1e-4
    log_prob = -0.5 * ((data["action"] - loc) / scale) ** 2 - scale.log() - 0.9189385332
    return log_prob.sum(-1), (scale.log() + 1.4189385332).sum(-1), nets.critics[0](data["observation"])


def a2c(nets: Flat, data: TensorDict) -> Tensor:
    """Mnih et al. (2016)."""
    log_prob, entropy, value = _scored(nets, data)
    objective = -(log_prob * data["advantage"].squeeze(-1)).mean()
    return objective - 0.01 * entropy.mean() + functional.smooth_l1_loss(value, data["value_target"])


def clip_ppo(nets: Flat, data: TensorDict) -> Tensor:
    """Schulman et al. (2017)."""
    log_prob, entropy, value = _scored(nets, data)
    ratio, advantage = (log_prob - data["action_log_prob"]).exp(), data["advantage"].squeeze(-1)
    objective = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    return objective - 0.01 * entropy.mean() + functional.smooth_l1_loss(value, data["value_target"])
