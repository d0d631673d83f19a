"""A training as generated ones are: DQN on the generated CartPole, with its loss, a replay buffer and `Run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from specgen_runtime.data import LazyTensorStorage, TensorDictReplayBuffer
from specgen_runtime.envs import env_state, load_env_state
from specgen_runtime.modules import QValueActor
from specgen_runtime.objectives import SoftUpdate
from specgen_runtime.training import Run, evaluate, linear, stream
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.losses.dqn import DQNLoss
from tensordict import TensorDictBase
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    seed: int = 0
    total_frames: int = 1_600
    num_envs: int = 8
    warm_up_frames: int = 200
    capacity: int = 1_000
    batch_size: int = 32
    hidden: int = 32
    lr: float = 1e-3
    eps_frames: int = 1_000
    evaluate_every: int = 400
    checkpoint_every: int = 160


class Parts:
    def __init__(self, config: Config) -> None:
        torch.manual_seed(stream(config.seed, "networks"))
        self.env = CartPoleTrain(batch_size=[config.num_envs])
        self.env.set_seed(stream(config.seed, "env"))
        self.eval_env = CartPoleTrain(batch_size=[5])
        self.network = nn.Sequential(nn.Linear(4, config.hidden), nn.ReLU(), nn.Linear(config.hidden, 2))
        self.actor = QValueActor(self.network, in_keys=["observation"], spec=self.env.action_spec)
        self.loss = DQNLoss(self.actor, loss_function="l2", delay_value=True, double_dqn=True)
        self.loss.make_value_estimator(gamma=0.99)
        self.updater = SoftUpdate(self.loss, tau=0.01)
        self.optimizer = torch.optim.Adam(self.loss.parameters(), lr=config.lr, fused=True)
        self.explorer = torch.Generator().manual_seed(stream(config.seed, "exploration"))
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(config.capacity),
            batch_size=config.batch_size,
            generator=torch.Generator().manual_seed(stream(config.seed, "buffer")),
        )
        self.root = self.env.reset()

    def act(self, root: TensorDictBase, epsilon: float) -> TensorDictBase:
        greedy = self.network(root["observation"]).argmax(dim=-1)
        explore = torch.rand(greedy.shape, generator=self.explorer) < epsilon
        random = torch.randint(2, greedy.shape, generator=self.explorer)
        return root.set("action", torch.where(explore, random, greedy))

    def state_dict(self) -> dict[str, Any]:
        return {
            "loss": self.loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "updater": self.updater.state_dict(),
            "env": env_state(self.env, self.root),
            "explorer": self.explorer.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loss.load_state_dict(state["loss"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updater.load_state_dict(state["updater"])
        self.root = load_env_state(self.env, state["env"])
        self.explorer.set_state(state["explorer"])


class Metrics(NamedTuple):
    loss: Tensor
    grad_norm: Tensor


def update(parts: Parts, batch: TensorDictBase) -> Metrics:
    loss = parts.loss(batch)["loss"]
    parts.optimizer.zero_grad()
    loss.backward()
    grad_norm = nn.utils.clip_grad_norm_(parts.network.parameters(), 10.0)
    parts.optimizer.step()
    parts.updater.step()
    return Metrics(loss=loss.detach(), grad_norm=grad_norm)


def train(config: Config, folder: Path, *, resume: bool = False, **options: Any) -> Run:
    parts = Parts(config)
    may_change = ("lr", "evaluate_every", "checkpoint_every")
    with Run(
        folder,
        config,
        parts,
        total_frames=config.total_frames,
        resume=resume,
        buffers={"buffer": parts.buffer},
        may_change=may_change,
        **options,
    ) as run:
        for group in parts.optimizer.param_groups:
            group["lr"] = config.lr
        while run.frames < config.total_frames:
            epsilon = linear(run.frames, 1.0, 0.05, config.eps_frames)
            with torch.no_grad():
                step, parts.root = parts.env.step_and_maybe_reset(parts.act(parts.root, epsilon))
            parts.buffer.extend(step)
            run.count(step)
            if run.frames >= config.warm_up_frames:
                run.add(update(parts, parts.buffer.sample()))

            if run.due("evaluate", config.evaluate_every):
                seed = stream(config.seed, f"evaluate/{run.frames}")
                evaluation = evaluate(parts.eval_env, parts.actor, seed=seed)
                run.best = max(run.best, evaluation)
                run.log(evaluation=evaluation, epsilon=epsilon)
            if run.due("checkpoint", config.checkpoint_every):
                run.save()
        run.save()
    return run
