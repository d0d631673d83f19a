"""The templates of the standard library, with TorchRL's loss and Stable-Baselines3's algorithm where they have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import torchrl.objectives as peer
from specgen_std.pipelines import (
    bc_pendulum,
    branching_dqn_reacher,
    c51_cartpole,
    cql_pendulum,
    ddpg_pendulum,
    ddpg_pendulum_recorded,
    discrete_sac_frozen_lake,
    dqn_bit_flip,
    dqn_cartpole,
    dqn_cartpole_gru,
    iql_pendulum,
    mappo_tag,
    ppo_cartpole,
    ppo_cartpole_gym,
    ppo_pendulum,
    ppo_pendulum_gru,
    ppo_rnd_mountain_car,
    ppo_taxi,
    qrdqn_cartpole,
    redq_pendulum,
    sac_mountain_car,
    td3_bc_pendulum,
    td3_pendulum,
    tqc_pendulum,
)
from torch import nn
from torchrl.objectives import ValueEstimators

from benchmarks import learning_stable_baselines3 as sb3


@dataclass(frozen=True)
class Template:
    """A printed training and its peers.

    Attributes:
        module: what is printed of it.
        torchrl: TorchRL's loss over the networks of the parts, and of a group's where there are several; None if it lacks it.
        stable_baselines3: from the configuration to a model; None if it lacks the algorithm.
        column: of the log, that is compared with the threshold.
        over: what the log counts.
    """

    module: ModuleType
    torchrl: Callable[..., peer.LossModule] | None = None
    stable_baselines3: Callable[[Any], Any] | None = None
    column: str = "evaluation"
    over: str = "frames"

    @property
    def name(self) -> str:
        """Of the class of the parts."""
        return str(self.module.__all__[0])

    @property
    def parts(self) -> Any:
        """The class of the parts."""
        return getattr(self.module, self.name)

    @property
    def config(self) -> Any:
        """The class of the hyper-parameters."""
        return getattr(self.module, f"{self.name}Config")

    def evaluation_env(self, config: Any) -> Any:
        """An environment as the printed training evaluates in."""
        return self.parts(config).eval_env


def _td0(loss: peer.LossModule, parts: Any) -> peer.LossModule:
    return loss.make_value_estimator(ValueEstimators.TD0, gamma=parts.config.gamma) or loss


def _dqn(parts: Any) -> peer.LossModule:
    network = parts.value_network
    return _td0(
        peer.DQNLoss(
            network, loss_function="smooth_l1", double_dqn=True, delay_value=True, action_space="categorical"
        ),
        parts,
    )


class _DistributionalDQNLoss(peer.DistributionalDQNLoss):
    """TorchRL's loss on transitions over several steps.

    It raises gamma to `steps_to_next_obs`, and multiplies that with the values of the support, `[atoms]`, so that it needs a
    column. `MultiStepTransform`, TorchRL's as ours, writes `[batch]`, which fails there.
    """

    def forward(self, tensordict: Any) -> Any:
        """As TorchRL's."""
        steps = tensordict.get("steps_to_next_obs", None)
        if steps is None:
            return super().forward(tensordict)
        tensordict.set("steps_to_next_obs", steps.unsqueeze(-1))
        losses = super().forward(tensordict)
        tensordict.set("steps_to_next_obs", steps)
        return losses


def _c51(parts: Any) -> peer.LossModule:
    return _DistributionalDQNLoss(parts.value_network, gamma=parts.config.gamma, delay_value=True)


def _ppo(parts: Any) -> peer.LossModule:
    config = parts.config
    entropy = getattr(config, "entropy_coeff", None)
    loss = peer.ClipPPOLoss(
        parts.actor_network,
        parts.critic_network,
        clip_epsilon=config.clip_epsilon,
        critic_coeff=config.critic_coeff,
        entropy_bonus=entropy is not None,
        entropy_coeff=entropy,
        normalize_advantage=True,
    )
    loss.make_value_estimator(ValueEstimators.GAE, gamma=config.gamma, lmbda=config.lmbda)
    return loss


def _sac(parts: Any) -> peer.LossModule:
    return _td0(peer.SACLoss(parts.actor_network, parts.qvalue_network, target_entropy=-1.0), parts)


def _discrete_sac(parts: Any) -> peer.LossModule:
    config = parts.config
    loss = peer.DiscreteSACLoss(
        parts.actor_network,
        parts.qvalue_network,
        action_space="categorical",
        num_actions=4,
        alpha_init=config.alpha_init,
        target_entropy_weight=config.target_entropy_weight,
    )
    return _td0(loss, parts)


def _redq(parts: Any) -> peer.LossModule:
    config = parts.config
    loss = peer.REDQLoss(
        parts.actor_network,
        parts.qvalue_network,
        num_qvalue_nets=config.num_qvalue_nets,
        sub_sample_len=config.sub_sample_len,
        target_entropy=-1.0,
    )
    return _td0(loss, parts)


def _tqc(parts: Any) -> peer.LossModule:
    config = parts.config
    loss = peer.TQCLoss(
        parts.actor_network,
        parts.qvalue_network,
        num_qvalue_nets=config.num_qvalue_nets,
        top_quantiles_to_drop_per_net=config.top_quantiles_to_drop_per_net,
        target_entropy=-1.0,
    )
    return _td0(loss, parts)


def _cql(parts: Any) -> peer.LossModule:
    loss = peer.CQLLoss(
        parts.actor_network, parts.qvalue_network, min_q_weight=parts.config.min_q_weight, target_entropy=-1.0
    )
    return _td0(loss, parts)


def _td3(parts: Any) -> peer.LossModule:
    config = parts.config
    loss = peer.TD3Loss(
        parts.actor_network,
        parts.qvalue_network,
        bounds=(-2.0, 2.0),
        policy_noise=config.policy_noise,
        noise_clip=config.noise_clip,
    )
    return _td0(loss, parts)


def _td3_bc(parts: Any) -> peer.LossModule:
    loss = peer.TD3BCLoss(
        parts.actor_network, parts.qvalue_network, bounds=(-2.0, 2.0), alpha=parts.config.alpha
    )
    return _td0(loss, parts)


def _ddpg(parts: Any) -> peer.LossModule:
    return _td0(peer.DDPGLoss(parts.actor_network, parts.value_network, delay_actor=True), parts)


def _iql(parts: Any) -> peer.LossModule:
    config = parts.config
    loss = peer.IQLLoss(
        parts.actor_network,
        parts.qvalue_network,
        parts.value_network,
        expectile=config.expectile,
        temperature=config.temperature,
    )
    return _td0(loss, parts)


def _bc(parts: Any) -> peer.LossModule:
    return peer.BCLoss(parts.actor_network)


def _mappo(parts: Any, group: str) -> peer.LossModule:
    config = parts.config
    loss = peer.MAPPOLoss(
        getattr(parts, f"{group}_actor_network"),
        getattr(parts, f"{group}_critic_network"),
        entropy_coeff=getattr(config, f"{group}_entropy_coeff"),
        loss_critic_type="l2",
    )
    entries = {"advantage", "value_target", "reward", "done", "terminated", "action"}
    loss.set_keys(
        value=(group, "state_value"),
        sample_log_prob=(group, "action_log_prob"),
        **{entry: (group, entry) for entry in entries},
    )
    loss.make_value_estimator(ValueEstimators.MAGAE, gamma=config.gamma, lmbda=config.lmbda)
    return loss


PENDULUM, CARTPOLE = "Pendulum-v1", "CartPole-v1"

TEMPLATES = {
    template.name: template
    for template in (
        Template(dqn_cartpole, _dqn, partial(sb3.dqn, CARTPOLE, [128, 128])),
        Template(ppo_cartpole, _ppo, partial(sb3.ppo, CARTPOLE, [64, 64], activation=nn.Tanh)),
        Template(ppo_pendulum, _ppo, partial(sb3.ppo, PENDULUM, [64, 64], activation=nn.Tanh)),
        Template(sac_mountain_car, _sac, partial(sb3.sac, "MountainCarContinuous-v0", [64, 64], 8)),
        Template(td3_pendulum, _td3, partial(sb3.td3, PENDULUM, [64, 64])),
        Template(mappo_tag, _mappo, column="adversary_evaluation"),
        Template(discrete_sac_frozen_lake, _discrete_sac),
        Template(iql_pendulum, _iql, over="updates"),
        Template(ddpg_pendulum, _ddpg, partial(sb3.ddpg, PENDULUM, [64, 64])),
        Template(c51_cartpole, _c51),
        Template(redq_pendulum, _redq),
        Template(cql_pendulum, _cql),
        Template(bc_pendulum, _bc, over="updates"),
        Template(td3_bc_pendulum, _td3_bc, over="updates"),
        Template(ppo_taxi, _ppo),
        Template(tqc_pendulum, _tqc),
        Template(branching_dqn_reacher),
        Template(qrdqn_cartpole),
        Template(dqn_cartpole_gru),
        Template(dqn_bit_flip),
        Template(ppo_rnd_mountain_car),
        Template(ppo_pendulum_gru),
        Template(ppo_cartpole_gym),
        Template(ddpg_pendulum_recorded),
    )
}
