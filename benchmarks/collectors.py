"""Collection, against TorchRL's collector on the same environment, and against a rollout of as many steps."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torchrl.collectors as theirs
from specgen_runtime.collectors import Collector
from specgen_runtime.interop import to_torchrl
from specgen_std.envs.cartpole import CartPole
from tensordict.nn import TensorDictModule
from torch import nn

from benchmarks.harness import Budget, Row, Work, paired


def rows(budget: Budget) -> Iterator[Row]:
    """Small and large batches, with random actions and a policy."""
    for environments, steps in ((1, 200), (8, 1), (8, 32), (64, 64)):
        for name, policy in (("random", None), ("policy", _policy())):
            mine, peer = _ours(environments, steps, policy), _theirs(environments, steps, policy)
            env = CartPole(batch_size=[environments])
            what, units = f"collect {environments} x {steps}, {name}", environments * steps

            def rolled(env: CartPole = env, steps: int = steps, policy: Any = policy) -> None:
                with torch.no_grad():
                    env.rollout(steps, policy, break_when_any_done=False)

            yield paired(what, Work(mine, units), Work(peer, units), budget, rate=True)
            yield paired(
                what, Work(mine, units), Work(rolled, units), budget, peer_name="env.rollout", rate=True
            )


def _policy() -> Any:
    class Left(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 2)

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            return self.net(observation).argmax(-1)

    return TensorDictModule(Left(), ["observation"], ["action"])


def _ours(environments: int, steps: int, policy: Any) -> Any:
    run = iter(Collector(CartPole(batch_size=[environments]), policy, frames_per_batch=environments * steps))
    return lambda: next(run)


def _theirs(environments: int, steps: int, policy: Any) -> Any:
    env = to_torchrl(CartPole(batch_size=[environments]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = iter(theirs.Collector(env, policy, frames_per_batch=environments * steps))
    return lambda: next(run)
