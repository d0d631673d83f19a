"""Batches of four Gymnasium environments, in this process and in others, against TorchRL's and Gymnasium's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import torchrl.envs
from specgen_runtime.envs import GymEnv, ParallelEnv, SerialEnv

from benchmarks.harness import Budget, Row, Work, paired

COUNT = 4
STEPS = 200
ID = "CartPole-v1"


def rows(budget: Budget) -> Iterator[Row]:
    """Steps with resets, and rollouts, of each kind of batch."""
    kinds: dict[str, tuple[Any, Any, Any]] = {
        "SerialEnv": (SerialEnv, torchrl.envs.SerialEnv, gymnasium.vector.SyncVectorEnv),
        "ParallelEnv": (ParallelEnv, torchrl.envs.ParallelEnv, gymnasium.vector.AsyncVectorEnv),
    }
    for name, (kind, peer_kind, vector_kind) in kinds.items():
        env, peer = kind(COUNT, _ours), peer_kind(COUNT, _peer)
        vector = vector_kind([_gymnasium] * COUNT)
        try:
            title = f"{name}({COUNT}) of {ID}"
            steps = Work(_Stepping(env), STEPS * COUNT)
            yield paired(f"{title}, steps", steps, Work(_Stepping(peer), STEPS * COUNT), budget, rate=True)
            yield paired(
                f"{title}, steps",
                steps,
                Work(_VectorStepping(vector), STEPS * COUNT),
                budget,
                peer_name=f"Gymnasium {vector_kind.__name__}",
                rate=True,
            )
            yield paired(f"{title}, rollout", _rollout(env), _rollout(peer), budget, rate=True)
        finally:
            env.close()
            peer.close()
            vector.close()


def _ours() -> Any:
    return GymEnv(ID)


def _peer() -> Any:
    return torchrl.envs.GymEnv(ID)


def _gymnasium() -> Any:
    return gymnasium.make(ID)


def _rollout(env: Any) -> Work:
    call: Callable[[], object] = lambda: env.rollout(STEPS, break_when_any_done=False)  # noqa: E731
    return Work(call, STEPS * COUNT)


class _Stepping:
    """Random steps that go on from call to call."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.current = env.reset()

    def __call__(self) -> None:
        env, current = self.env, self.current
        for _ in range(STEPS):
            _, current = env.step_and_maybe_reset(env.rand_action(current))
        self.current = current


class _VectorStepping:
    """Random steps of a vector environment, which resets by itself."""

    def __init__(self, env: Any) -> None:
        self.env = env
        env.reset(seed=0)

    def __call__(self) -> None:
        env = self.env
        for _ in range(STEPS):
            env.step(env.action_space.sample())
