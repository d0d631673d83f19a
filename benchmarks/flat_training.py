"""An update of PPO on CartPole as a person writes it for one program: plain modules, torch's Adam, no tensordict."""

from __future__ import annotations

import copy

import torch
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleMetrics
from tensordict import TensorDictBase
from torch import Tensor, nn
from torch.nn import functional


class FlatUpdate:
    """What the printed `update` does, over copies of the networks of its parts.

    Args:
        parts: of the printed training; they stay as they are.
        batch: what the loss reads.
    """

    def __init__(self, parts: PPOCartPole, batch: TensorDictBase) -> None:
        config = self.config = parts.config
        self.actor, self.critic = (
            copy.deepcopy(next(part for part in network.modules() if isinstance(part, nn.Sequential)))
            for network in (parts.actor_network, parts.critic_network)
        )
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=config.actor_lr, fused=True)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=config.critic_lr, fused=True)
        self.observation: Tensor = batch["observation"]
        self.action: Tensor = batch["action"]
        self.advantage: Tensor = batch["advantage"]
        self.value_target: Tensor = batch["value_target"]
        self.log_prob: Tensor = batch["action_log_prob"]

    def networks(self) -> None:
        """Their forward and backward pass alone."""
        for parameter in (*self.actor.parameters(), *self.critic.parameters()):
            parameter.grad = None
        torch.autograd.backward(self.actor(self.observation).sum() + self.critic(self.observation).sum())

    def __call__(self) -> PPOCartPoleMetrics:
        """Take a step of the optimizers."""
        config, target = self.config, self.value_target
        low, high = 1 - config.clip_epsilon, 1 + config.clip_epsilon
        logits, value = self.actor(self.observation), self.critic(self.observation)
        log_prob = logits.log_softmax(-1).gather(-1, self.action.unsqueeze(-1)).squeeze(-1)
        advantage = self.advantage.squeeze(-1)
        advantage = (advantage - advantage.mean()) / advantage.std().clamp(min=1e-6)
        step = log_prob - self.log_prob
        ratio = step.exp()
        clipped = ratio.clamp(low, high)
        objective = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        critic = config.critic_coeff * functional.smooth_l1_loss(value, target)
        self.actor_optimizer.zero_grad()
        self.critic_optimizer.zero_grad()
        torch.autograd.backward(objective + critic)
        norm = nn.utils.clip_grad_norm_(self.actor.parameters(), config.actor_max_grad_norm)
        self.actor_optimizer.step()
        self.critic_optimizer.step()
        with torch.no_grad():
            unexplained = (target - value).var(correction=0)
            return PPOCartPoleMetrics(
                loss_objective=objective.detach(),
                loss_critic=critic.detach(),
                kl_approx=-step.mean(),
                explained_variance=1
                - unexplained / (target.var(correction=0) + torch.finfo(target.dtype).eps),
                clip_fraction=(clipped != ratio).float().mean(),
                ESS=(2 * step.logsumexp(0) - (2 * step).logsumexp(0)).exp() / len(step),
                max_ratio=ratio.max(),
                mean_ratio=ratio.mean(),
                actor_grad_norm=norm,
            )
