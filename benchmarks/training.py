"""Proximal policy optimization on CartPole: the printed training against the same algorithm written with TorchRL.

Hyper-parameters, networks and the optimizers are the same; a loop of TorchRL's collects with its `Collector`, from
Gymnasium's CartPole in a `SerialEnv` or from our environment, keeps the batch in its `ReplayBuffer`, and learns with its
`GAE` and `ClipPPOLoss`.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from specgen_runtime.interop import to_torchrl
from specgen_runtime.training import Run, evaluate, linear, minibatches, stream
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.pipelines.ppo_cartpole import PPOCartPole, PPOCartPoleConfig, update
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymEnv, RewardSum, SerialEnv, TransformedEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from benchmarks.flat_training import FlatUpdate
from benchmarks.harness import THOROUGH, Budget, Row, Work, paired

SEEDS = (0, 1, 2)
GYM = "TorchRL on its GymEnv"
NATIVE = "TorchRL on our environment"
LIMITS = {GYM: 5.0, NATIVE: 3.0}


class Loop(Protocol):
    """A training that is gone through iteration by iteration."""

    policy: Any
    frames: int

    def iteration(self) -> None:
        """Collect a batch, and learn from it."""


class Printed:
    """What the loop of the printed `train` does in an iteration."""

    def __init__(self, config: PPOCartPoleConfig, folder: Path) -> None:
        self.parts = PPOCartPole(config)
        self.policy = self.parts.policy
        self.run = Run(folder, config, self.parts, total_frames=config.total_frames, progress=False)
        self.run.__enter__()

    @property
    def frames(self) -> int:
        """How many were collected."""
        return self.run.frames

    def iteration(self) -> None:
        """Collect a batch, and learn from it."""
        parts, run = self.parts, self.run
        config = parts.config
        parts.actor_optimizer.param_groups[0]["lr"] = linear(
            run.frames, config.actor_lr, config.actor_lr_end, config.total_frames
        )
        batch = parts.collector.next()
        run.count(batch)
        with torch.no_grad():
            parts.estimator(batch)
        size, epochs, read = config.minibatch_size, config.epochs, batch.select(*parts.stored)
        for minibatch in minibatches(read, size, generator=parts.shuffling, epochs=epochs):
            run.add(update(parts, minibatch))


class TorchRL:
    """The same with TorchRL's classes, as its examples are written."""

    def __init__(self, config: PPOCartPoleConfig, env: Any) -> None:
        torch.manual_seed(stream(config.seed, "networks"))
        self.config, self.frames = config, 0
        self.policy = ProbabilisticActor(
            TensorDictModule(_network(2), in_keys=["observation"], out_keys=["logits"]),
            in_keys=["logits"],
            distribution_class=Categorical,
            return_log_prob=True,
        )
        critic = ValueOperator(_network(1), in_keys=["observation"])
        rows = config.num_envs * config.num_steps
        self.collector = Collector(env, self.policy, frames_per_batch=rows, total_frames=-1)
        self.collector.set_seed(config.seed)
        self.batches = iter(self.collector)
        self.buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(rows),
            sampler=SamplerWithoutReplacement(),
            batch_size=config.minibatch_size,
        )
        self.advantage = GAE(gamma=config.gamma, lmbda=config.lmbda, value_network=critic)
        self.loss = ClipPPOLoss(
            self.policy,
            critic,
            clip_epsilon=config.clip_epsilon,
            critic_coeff=config.critic_coeff,
            entropy_bonus=False,
            normalize_advantage=True,
        )
        self.actor = torch.optim.Adam(self.policy.parameters(), lr=config.actor_lr, fused=True)
        self.critic = torch.optim.Adam(critic.parameters(), lr=config.critic_lr, fused=True)

    def iteration(self) -> None:
        """Collect a batch, and learn from it."""
        config = self.config
        self.actor.param_groups[0]["lr"] = linear(
            self.frames, config.actor_lr, config.actor_lr_end, config.total_frames
        )
        data = next(self.batches)
        self.frames += data.numel()
        with torch.no_grad():
            self.advantage(data)
        self.buffer.extend(data.reshape(-1))
        for _ in range(config.epochs):
            for _ in range(data.numel() // config.minibatch_size):
                losses = self.loss(self.buffer.sample())
                self.actor.zero_grad()
                self.critic.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(self.actor.param_groups[0]["params"], config.actor_max_grad_norm)
                self.actor.step()
                self.critic.step()


def _network(outputs: int) -> nn.Module:
    return MLP(in_features=4, out_features=outputs, num_cells=[64, 64], activation_class=nn.Tanh)


def _gym(config: PPOCartPoleConfig) -> Any:
    def make() -> Any:
        return TransformedEnv(GymEnv("CartPole-v1", categorical_action_encoding=True), RewardSum())

    return SerialEnv(config.num_envs, make)


def _native(config: PPOCartPoleConfig) -> Any:
    return to_torchrl(CartPoleTrain(batch_size=[config.num_envs]))


PEERS: dict[str, Callable[[PPOCartPoleConfig], Any]] = {GYM: _gym, NATIVE: _native}


def rows(budget: Budget) -> Iterator[Row]:
    """Milliseconds of an iteration; with time enough also the seconds until a mean return is reached."""
    with tempfile.TemporaryDirectory() as place:
        config = PPOCartPoleConfig()
        for compiled, (name, make) in itertools.product((False, True), PEERS.items()):
            ours = Printed(replace(config, compile=compiled), Path(place) / f"{name} {compiled}")
            peer = TorchRL(config, make(config))
            label = f"PPO on CartPole, an iteration{', compiled' if compiled else ''}"
            yield paired(
                label,
                Work(ours.iteration, clock=time.process_time),
                Work(peer.iteration, clock=time.process_time),
                budget,
                peer_name=name,
                limit=None if compiled else LIMITS[name],
            )
        yield from _an_update(config, budget)
        if budget == THOROUGH:
            yield from _to_threshold(Path(place))


def _an_update(config: PPOCartPoleConfig, budget: Budget) -> Iterator[Row]:
    """Milliseconds of an update of a minibatch, without what collects and estimates, and what it has at least."""
    parts = PPOCartPole(config)
    minibatch = first_minibatch(parts)
    by_hand = FlatUpdate(parts, minibatch)
    ours = Work(lambda: update(parts, minibatch), clock=time.process_time)
    label = "PPO on CartPole, an update"
    flat = Work(by_hand, clock=time.process_time)
    yield paired(label, ours, flat, budget, peer_name="by hand", limit=1 / 1.15)
    networks = Work(by_hand.networks, clock=time.process_time)
    yield paired(label, ours, networks, budget, peer_name="its networks alone")


def first_minibatch(parts: PPOCartPole) -> TensorDictBase:
    """A minibatch of a batch that was collected with the first policy, with the estimates of its advantages."""
    batch: TensorDictBase = parts.collector.next()
    with torch.no_grad():
        parts.estimator(batch)
    read = batch.select(*parts.stored)
    return next(minibatches(read, parts.config.minibatch_size, generator=parts.shuffling))


def _to_threshold(place: Path) -> Iterator[Row]:
    """Seconds of this process until 50 greedy episodes have a mean return of 475, without those of the evaluations."""
    seconds: dict[str, list[float]] = {"ours": [], **{name: [] for name in PEERS}}
    for seed in SEEDS:
        config = PPOCartPoleConfig(seed=seed)
        loops: dict[str, Loop] = {"ours": Printed(config, place / f"to {config.stop_return} {seed}")}
        loops |= {name: TorchRL(config, make(config)) for name, make in PEERS.items()}
        for name, taken in _race(loops, config).items():
            seconds[name].append(taken)
    ours = seconds.pop("ours")
    for name, theirs in seconds.items():
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        ends = (min(ratios), max(ratios))
        middle = statistics.median(ours), statistics.median(theirs)
        label = f"PPO on CartPole to a return of 475, {len(SEEDS)} seeds"
        yield Row(label, *middle, middle[1] / middle[0], ends, name, None, rate=False)


def _race(loops: dict[str, Loop], config: PPOCartPoleConfig) -> dict[str, float]:
    """The time that each loop needs, where they take turns, so that a drifting machine hits all; infinite without end."""
    taken, running = dict.fromkeys(loops, 0.0), dict(loops)
    env = CartPoleTrain(batch_size=[config.evaluate_episodes])
    while running:
        for name, loop in list(running.items()):
            start, before = time.process_time(), loop.frames
            loop.iteration()
            taken[name] += time.process_time() - start
            if loop.frames // config.evaluate_every == before // config.evaluate_every:
                continue
            seed = stream(config.seed, f"evaluate/{loop.frames}")
            if evaluate(env, loop.policy, seed=seed) >= config.stop_return:
                del running[name]
            elif loop.frames >= config.total_frames:
                del running[name]
                taken[name] = float("inf")
    return taken
