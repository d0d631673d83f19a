"""Bare `GymEnv` against TorchRL's, and against a loop over Gymnasium without tensordicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from specgen_runtime.envs import GymEnv
from torchrl.envs import GymEnv as TorchRLGymEnv

from benchmarks.harness import Budget, Row, Work, paired

STEPS = 200


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds a step: `step`, `step_and_maybe_reset`, `rollout` with and without a stop at the end.

    Pendulum has no limit against TorchRL: a step of Gymnasium's alone takes more than a fortieth of a step there.
    """
    for name in ("CartPole-v1", "Pendulum-v1"):
        ours, theirs = GymEnv(name), TorchRLGymEnv(name)
        for env in (ours, theirs):
            env.set_seed(0)
        limits = (10, 40) if name == "CartPole-v1" else (None, None)
        for label, work in (("step", _Steps), ("step_and_maybe_reset", _StepsAndResets)):
            mine, peer = (Work(work(env), STEPS) for env in (ours, theirs))
            limit = limits[0] if work is _Steps else None
            yield paired(f"GymEnv {name}, {label}", mine, peer, budget, limit=limit)
        raw = Work(_RawLoop(name), STEPS)
        for stops, label in ((False, f"rollout({STEPS})"), (True, "rollouts to the end of the episode")):
            mine, peer = (Work(_Rollouts(env, stops), STEPS) for env in (ours, theirs))
            limit = None if stops else limits[1]
            yield paired(f"GymEnv {name}, {label}", mine, peer, budget, limit=limit)
            yield paired(
                f"GymEnv {name}, {label}",
                mine,
                raw,
                budget,
                peer_name="raw Gymnasium loop",
                limit=None if stops else 1 / 1.5,
            )


class _Steps:
    """`step` alone: the roots are there already, and the Gymnasium environment is reset before it can end."""

    def __init__(self, env: Any) -> None:
        self.env = env
        first = env.reset()
        actions = [env.action_spec.rand() for _ in range(STEPS)]
        self.roots = [first.copy().set("action", action) for action in actions]

    def __call__(self) -> None:
        env = self.env
        for at, root in enumerate(self.roots):
            if at % 8 == 0:
                env._env.reset()
            env.step(root)
            root._tensordict.pop("next")  # what the public way costs is not the environment's


class _StepsAndResets:
    """Given actions that go on from call to call, resetting where an episode ends."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.current = env.reset()
        self.actions = [env.action_spec.rand() for _ in range(STEPS)]

    def __call__(self) -> None:
        env, current = self.env, self.current
        for action in self.actions:
            _, current = env.step_and_maybe_reset(current.set("action", action))
        self.current = current


class _Rollouts:
    """Random rollouts of 200 steps in all: one, or as many as there are episodes in them."""

    def __init__(self, env: Any, stops: bool) -> None:
        self.env, self.stops = env, stops

    def __call__(self) -> None:
        left = STEPS
        while left:
            left -= self.env.rollout(left, break_when_any_done=self.stops).shape[0]


class _RawLoop:
    """What a script without tensordicts does: sample, step, reset when over."""

    def __init__(self, name: str) -> None:
        self.env = gymnasium.make(name)
        self.env.reset(seed=0)
        self.env.action_space.seed(0)

    def __call__(self) -> None:
        env = self.env
        for _ in range(STEPS):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
