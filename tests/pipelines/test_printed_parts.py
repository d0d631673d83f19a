"""The parts of a pipeline as they are printed: a line for each, which names it and its class."""

from __future__ import annotations

import torch
from specgen_std.pipelines.dqn_cartpole import DQNCartPole
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleConfig


def test_parts_are_named_with_their_classes() -> None:
    parts = PPOCartPole(PPOCartPoleConfig(num_envs=16, evaluate_episodes=3, actor_lr=0.25, critic_lr=0.5))
    assert repr(parts).splitlines() == [
        "PPOCartPole(",
        f"    device: {torch.device(parts.device)}",
        "    env: CartPoleTrain [16]",
        "    eval_env: CartPoleTrain [3]",
        "    actor_network: ProbabilisticActor",
        "    critic_network: ValueOperator",
        "    policy: actor_network",
        "    collector: Collector",
        "    loss: ClipPPOLoss",
        "    estimator: GAE",
        "    actor_optimizer: Adam, lr=0.25",
        "    critic_optimizer: Adam, lr=0.5",
        ")",
    ]


def test_no_part_is_told_by_its_address() -> None:
    said = repr(DQNCartPole())
    assert said.startswith("DQNCartPole(\n")
    assert "    buffer: TensorDictReplayBuffer\n" in said
    assert " at 0x" not in said
