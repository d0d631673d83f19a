"""Losses that learn policies against the formulas of their papers, written plainly; a list of where those of all losses are."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from specgen_std.losses import (
    A2CLoss,
    ClipPPOLoss,
    GAILLoss,
    IPPOLoss,
    MAPPOLoss,
    PPOLoss,
    ReinforceLoss,
)
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import Tensor, nn

from tests.objectives.every_loss import losses
from tests.objectives.linear_networks import (
    N_ACT,
    N_OBS,
    Joined,
    N,
    at,
    check,
    gauss,
    gauss_entropy,
    log_density,
    normal,
    state_value,
    steps,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*arget.*updater.*")

FORMULAS = {
    "A2CLoss": "test_papers_of_policies.test_a2c",
    "BCLoss": "test_behavior_cloning.test_the_formulas",
    "BranchingDQNLoss": "test_branching_dqn.test_the_formula",
    "CISPOLoss": "test_grpo.test_formulas",
    "CQLLoss": "test_cql.test_the_formula",
    "ClipPPOLoss": "test_papers_of_policies.test_ppo",
    "CrossQLoss": "test_papers_of_values.test_crossq",
    "DAPO": "test_grpo.test_formulas",
    "DDPGLoss": "test_papers_of_values.test_ddpg",
    "DQNLoss": "test_papers_of_values.test_dqn",
    "DTLoss": "test_decision_transformer.test_the_formula",
    "DiscreteCQLLoss": "test_discrete.test_the_formula_of_cql",
    "DiscreteIQLLoss": "test_discrete.test_the_formula_of_iql",
    "DiscreteSACLoss": "test_discrete_sac.test_the_formula",
    "DistributionalDQNLoss": "test_papers_of_values.test_c51",
    "GAILLoss": "test_papers_of_policies.test_gail",
    "GRPOLoss": "test_grpo.test_formulas",
    "IPPOLoss": "test_papers_of_policies.test_ppo_of_agents",
    "IQLLoss": "test_papers_of_values.test_iql",
    "KLPENPPOLoss": "test_klpen.test_equals_the_paper",
    "MAPPOLoss": "test_papers_of_policies.test_ppo_of_agents",
    "OnlineDTLoss": "test_online_dt.test_the_formula",
    "PPOLoss": "test_papers_of_policies.test_ppo",
    "QRDQNLoss": "test_qr_dqn.test_the_formula",
    "REDQLoss": "test_papers_of_values.test_redq",
    "RNDLoss": "test_rnd.test_the_formula",
    "ReinforceLoss": "test_papers_of_policies.test_reinforce",
    "SACLoss": "test_sac.test_the_formula",
    "DistillationLoss": "test_distillation.test_what_does_not_count_may_be_nan",
    "QMixerLoss": "test_qmixer.test_the_formula_of_the_paper",
    "SFTLoss": "test_sft.test_sft_masks_what_it_reads",
    "TQCLoss": "test_tqc.test_the_formula",
    "TD3BCLoss": "test_papers_of_values.test_td3_bc",
    "TD3Loss": "test_td3.test_the_formula",
}
"""The test of each loss that writes its formula down."""


def test_every_loss_has_one() -> None:
    assert losses().keys() == FORMULAS.keys()
    for place in FORMULAS.values():
        module, _, name = place.partition(".")
        assert hasattr(importlib.import_module(f"tests.objectives.{module}"), name)


def policy_facts(loss: Any, data: TensorDict) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probabilities now and then, advantages, the critic's error, and the policy's entropy."""
    params = loss.actor_network_params
    log_scale = params["module", "0", "module", "log_scale"]
    log_p = log_density(data["action"], at(params, data["observation"]), log_scale)
    value = at(loss.critic_network_params, data["observation"])
    error = ((value - data["value_target"]) ** 2).squeeze(-1)
    return log_p, data["action_log_prob"], data["advantage"].squeeze(-1), error, gauss_entropy(log_scale)


def test_reinforce() -> None:
    """Williams 1992, section 4: the gradient of log-probabilities, times what is beyond the baseline."""
    data, loss = steps(N), ReinforceLoss(gauss(), state_value(), loss_critic_type="l2")
    log_p, _, advantage, error, _ = policy_facts(loss, data)
    check(loss, loss(data), loss_actor=-(log_p * advantage).mean(), loss_value=error.mean())


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
