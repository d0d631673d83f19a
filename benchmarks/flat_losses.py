"""Losses as a person writes them for one program: plain functions over plain modules, without tensordicts.

Each returns what the loss of that name does, terms and what is logged beside them, and writes the same priorities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from tensordict import TensorDict
from torch import Tensor, nn
from torch.nn import functional

GAMMA = 0.99

Outputs: TypeAlias = dict[str, Tensor]
"""Terms, whose names begin with ``loss``, and what is logged."""


@dataclass(frozen=True)
class Flat:
    """Networks as plain modules.

    Attributes:
        actor: from observations to mean and deviation of the policy, or to actions.
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


def _write_priority(data: TensorDict, values: Tensor, goal: Tensor) -> Tensor:
    """The squared errors, the largest of an ensemble, as priorities of the samples."""
    with torch.no_grad():
        error = (values - goal) ** 2
        priority = error if error.ndim == 1 else error.amax(0)
        data["td_error"] = priority.unsqueeze(-1)
    return priority


def _squashed(loc: Tensor, scale: Tensor, *draws: int) -> tuple[Tensor, Tensor]:
    """Draws of a normal policy squashed by tanh, and their log-probabilities."""
    latent = loc + scale * torch.randn(*draws, *loc.shape)
    return latent.tanh(), _log_prob(loc, scale, latent)


def _log_prob(loc: Tensor, scale: Tensor, latent: Tensor) -> Tensor:
    """The log-probability of an action before it was squashed."""
    normal = -0.5 * ((latent - loc) / scale) ** 2 - scale.log() - 0.9189385332
    return (normal - 2 * (0.6931471806 - latent - functional.softplus(-2 * latent))).sum(-1)


def dqn(nets: Flat, data: TensorDict) -> Outputs:
    """Mnih et al. (2015)."""
    with torch.no_grad():
        goal = _bootstrap(data, nets.target_critics[0](data["next", "observation"]).max(-1).values)
    chosen = nets.critics[0](data["observation"]).gather(-1, data["action"].unsqueeze(-1)).squeeze(-1)
    _write_priority(data, chosen, goal)
    return {"loss": functional.mse_loss(chosen, goal)}


def ddpg(nets: Flat, data: TensorDict) -> Outputs:
    """Lillicrap et al. (2015)."""
    observation, after = data["observation"], data["next", "observation"]
    with torch.no_grad():
        goal = _bootstrap(data, _values(nets.target_critics, after, nets.target_actor(after))[0])
    value = _values(nets.critics, observation, data["action"])[0]
    return {
        "loss_value": functional.mse_loss(value, goal),
        "loss_actor": -_frozen_values(nets.critics, observation, nets.actor(observation)).mean(),
        "td_error": _write_priority(data, value, goal),
        "pred_value": value.detach(),
        "pred_value_max": value.detach().max(),
        "target_value": goal,
        "target_value_max": goal.max(),
    }


def td3(nets: Flat, data: TensorDict) -> Outputs:
    """Fujimoto et al. (2018)."""
    observation, after = data["observation"], data["next", "observation"]
    with torch.no_grad():
        action = nets.target_actor(after)
        noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
        action = (action + noise).clamp(-1, 1)
        next_value = _values(nets.target_critics, after, action).amin(0)
        goal = _bootstrap(data, next_value)
    values = _values(nets.critics, observation, data["action"])
    _write_priority(data, values, goal)
    new_values = _frozen_values(nets.critics, observation, nets.actor(observation))
    return {
        "loss_qvalue": _critic_loss(values, goal),
        "loss_actor": -new_values[0].mean(),
        "state_action_value_actor": new_values.detach(),
        "pred_value": values.detach(),
        "next_state_value": next_value,
        "target_value": goal,
    }


def _critic_loss(values: Tensor, goal: Tensor) -> Tensor:
    """The distances of the members of an ensemble, summed."""
    return functional.smooth_l1_loss(values, goal.expand_as(values), reduction="none").sum(0).mean()


def sac(nets: Flat, data: TensorDict) -> Outputs:
    """Haarnoja et al. (2018)."""
    observation, after = data["observation"], data["next", "observation"]
    alpha = nets.log_alpha.exp().detach()
    with torch.no_grad():
        action, log_prob = _squashed(*nets.actor(after))
        value = _values(nets.target_critics, after, action).amin(0) - alpha * log_prob
        goal = _bootstrap(data, value)
    values = _values(nets.critics, observation, data["action"])
    _write_priority(data, values, goal)
    action, log_prob = _squashed(*nets.actor(observation))
    new_value = _frozen_values(nets.critics, observation, action).amin(0)
    return {
        "loss_qvalue": _critic_loss(values, goal),
        "loss_actor": (alpha * log_prob - new_value).mean(),
        "loss_alpha": -nets.log_alpha * (log_prob.detach() - action.shape[-1]).mean(),
        "alpha": alpha,
        "entropy": -log_prob.detach().mean(),
    }


def redq(nets: Flat, data: TensorDict) -> Outputs:
    """Chen et al. (2021)."""
    observation, after = data["observation"], data["next", "observation"]
    alpha = nets.log_alpha.exp().detach()
    with torch.no_grad():
        action, next_log_prob = _squashed(*nets.actor(after))
        some = torch.randperm(len(nets.critics))[:2]
        if torch.compiler.is_compiling():  # a graph for each pair of critics takes longer than all of them
            value = _values(nets.target_critics, after, action)[some].amin(0)
        else:
            value = _values([nets.target_critics[i] for i in some.tolist()], after, action).amin(0)
        next_value = value - alpha * next_log_prob
        goal = _bootstrap(data, next_value)
    values = _values(nets.critics, observation, data["action"])
    _write_priority(data, values, goal)
    action, log_prob = _squashed(*nets.actor(observation))
    new_values = _frozen_values(nets.critics, observation, action)
    both = 0.5 * (log_prob.detach() + next_log_prob)
    return {
        "loss_qvalue": functional.smooth_l1_loss(values, goal.expand_as(values)),
        "loss_actor": (alpha * log_prob - new_values).mean(),
        "loss_alpha": -(nets.log_alpha.exp() * (both - action.shape[-1])).mean(),
        "alpha": alpha,
        "entropy": -both.mean(),
        "state_action_value_actor": new_values.detach(),
        "action_log_prob_actor": log_prob.detach(),
        "next_state_value": next_value,
        "target_value": goal,
    }


def cql(nets: Flat, data: TensorDict) -> Outputs:
    """Kumar et al. (2020), with 10 draws of each kind."""
    observation, after, n = data["observation"], data["next", "observation"], 10
    size = data["action"].shape[-1]
    alpha = nets.log_alpha.exp().detach()
    policy = nets.actor(observation)
    with torch.no_grad():
        next_policy = nets.actor(after)
        action, _ = _squashed(*next_policy)
        goal = _bootstrap(data, _values(nets.target_critics, after, action).amin(0))
        now, now_log_prob = _squashed(*policy, n)
        later, later_log_prob = _squashed(*next_policy, n)
        anywhere = 2 * torch.rand_like(now) - 1
    values = _values(nets.critics, observation, data["action"])
    _write_priority(data, values, goal)
    wide, wide_after = observation.expand(n, *observation.shape), after.expand(n, *after.shape)
    candidates = torch.stack(
        [
            _values(nets.critics, wide, anywhere) + size * 0.6931471806,
            _values(nets.critics, wide_after, later) - later_log_prob,
            _values(nets.critics, wide, now) - now_log_prob,
        ]
    )
    action, log_prob = _squashed(*policy)
    new_value = _frozen_values(nets.critics, observation, action).amin(0)
    _, imitation_log_prob = _squashed(*policy)
    data_log_prob = _log_prob(*policy, data["action"].clamp(-0.999999, 0.999999).atanh())
    return {
        "loss_qvalue": _critic_loss(values, goal),
        "loss_cql": (candidates.logsumexp(0).mean(1) - values).sum(0).mean(),
        "loss_actor": (alpha * log_prob - new_value).mean(),
        "loss_actor_bc": (alpha * imitation_log_prob - data_log_prob).mean(),
        "loss_alpha": -nets.log_alpha * (log_prob.detach() - size).mean(),
        "alpha": alpha,
        "entropy": -log_prob.detach().mean(),
    }


def _scored(nets: Flat, data: TensorDict) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of the actions in the data, the entropy, and values."""
    loc, scale = nets.actor(data["observation"])
    log_prob = -0.5 * ((data["action"] - loc) / scale) ** 2 - scale.log() - 0.9189385332
    return log_prob.sum(-1), (scale.log() + 1.4189385332).sum(-1), nets.critics[0](data["observation"])


def a2c(nets: Flat, data: TensorDict) -> Outputs:
    """Mnih et al. (2016)."""
    log_prob, entropy, value = _scored(nets, data)
    return {
        "loss_objective": -(log_prob * data["advantage"].squeeze(-1)).mean(),
        "loss_critic": functional.smooth_l1_loss(value, data["value_target"]),
        "loss_entropy": -0.01 * entropy.mean(),
        "entropy": entropy.detach().mean(),
    }


def clip_ppo(nets: Flat, data: TensorDict) -> Outputs:
    """Schulman et al. (2017)."""
    log_prob, entropy, value = _scored(nets, data)
    step, advantage, target = (
        log_prob - data["action_log_prob"],
        data["advantage"].squeeze(-1),
        data["value_target"],
    )
    ratio = step.exp()
    clipped = ratio.clamp(0.8, 1.2)
    with torch.no_grad():
        variance = target.var(correction=0) + torch.finfo(target.dtype).eps
        logged = {
            "kl_approx": -step.mean(),
            "entropy": entropy.mean(),
            "explained_variance": 1 - (target - value).var(correction=0) / variance,
            "clip_fraction": (clipped != ratio).float().mean(),
            "ESS": (2 * step.logsumexp(0) - (2 * step).logsumexp(0)).exp() / len(step),
            "max_ratio": ratio.max(),
            "mean_ratio": ratio.mean(),
        }
    return {
        "loss_objective": -torch.minimum(ratio * advantage, clipped * advantage).mean(),
        "loss_entropy": -0.01 * entropy.mean(),
        "loss_critic": functional.smooth_l1_loss(value, target),
        **logged,
    }
