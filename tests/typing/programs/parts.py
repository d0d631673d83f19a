"""Classes that extend the parts of a pipeline, and put others in their places."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from specgen_runtime.collectors import BaseCollector, Collector
from specgen_runtime.envs import EnvBase
from specgen_runtime.modules import SafeSequential
from specgen_runtime.objectives import HardUpdate
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains import CartPoleTrain, CartPoleTrainData
from specgen_std.pipelines.dqn_cartpole import DQNCartPole, DQNCartPoleConfig, update
from specgen_std.pipelines.ppo_pendulum import PPOPendulum
from specgen_std.transforms import StepCounter
from torch import Tensor


class Other(DQNCartPole):
    """Each part that may be another one is."""

    def __init__(self, config: DQNCartPoleConfig) -> None:
        super().__init__(config)
        self.env = TransformedEnv(CartPoleTrain(batch_size=[4]), StepCounter(step_count_key="steps"))
        self.env.set_seed(0)
        self.eval_env = CartPoleTrain(length=0.25)
        self.policy = SafeSequential(self.value_network)
        self.updater = HardUpdate(self.loss, value_network_update_interval=10)
        self.optimizer = torch.optim.SGD(self.loss.parameters(), lr=config.lr)

    @cached_property
    def collector(self) -> BaseCollector[CartPoleTrainData]:
        return Collector(self.env, self.policy, frames_per_batch=64, total_frames=-1)


def loop(parts: Other) -> None:
    """The printed update over them; batches have the keys of the environment."""
    for batch in parts.collector:
        reward: Tensor = batch["next", "reward"]
        print(reward, batch["next", "step_count"], update(parts, batch).loss)
    length: Tensor = parts.eval_env.rollout(200)["next", "step_count"]
    print(length)


def longer(parts: PPOPendulum, env: EnvBase[Any]) -> None:
    parts.env = env
    parts.collector = Collector(env, parts.policy, frames_per_batch=64, total_frames=-1)
    parts.env.params = parts.env.params._replace(g=9.81)


def wrong(parts: Other) -> None:
    parts.optimizer = parts.updater  # E
    parts.updater = parts.loss  # E
    parts.env = 3  # E
    parts.env.rollout(3)["next", "rewrad"]  # E
    parts.eval_env.reset()["observations"]  # E
    parts.collecter.shutdown()  # E
