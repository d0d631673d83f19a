"""Bare `GymEnv` against TorchRL's, and against what bounds it: Gymnasium alone, and the same written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import torch
from specgen_runtime.envs import GymEnv
from tensordict import TensorDict
from torchrl.envs import GymEnv as TorchRLGymEnv

from benchmarks.harness import Budget, Row, Work, paired

STEPS = 200


def rows(budget: Budget) -> Iterator[Row]:
    """Microseconds a step: `step`, `step_and_maybe_reset`, `rollout` with and without a stop at the end.

    Pendulum has no limit against TorchRL: a step of Gymnasium's alone takes more than a fortieth of a step there.
    The rows of Gymnasium alone say how many times faster than TorchRL `GymEnv` would be if it cost nothing.
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
        yield paired(
            f"GymEnv {name}, step",
            Work(_Steps(ours), STEPS),
            Work(_Steps(_ByHand(name)), STEPS),
            budget,
            peer_name="written by hand",
            limit=1,
        )
        alone = Work(GivenActions(name), STEPS)
        yield paired(f"Gymnasium {name} alone, step", alone, Work(_Steps(theirs), STEPS), budget)
        yield paired(
            f"Gymnasium {name} alone, rollout({STEPS})", alone, Work(_Rollouts(theirs, False), STEPS), budget
        )
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


class _ByHand:
    """What a script with tensordicts does that trusts Gymnasium and its own actions: no check, no spec."""

    def __init__(self, name: str) -> None:
        self._env = gymnasium.make(name)
        self.action_spec = GymEnv(name).action_spec

    def reset(self) -> TensorDict:
        observation, _ = self._env.reset(seed=0)
        return TensorDict({"observation": torch.from_numpy(observation)})

    def step(self, root: TensorDict) -> None:
        action = root["action"]
        chosen = int(action.argmax()) if action.dtype is torch.int64 else action.numpy()
        observation, reward, terminated, truncated, _ = self._env.step(chosen)
        entries = {
            "observation": torch.from_numpy(observation),
            "reward": torch.tensor([reward], dtype=torch.float32),
            "done": torch.tensor([terminated or truncated]),
            "terminated": torch.tensor([terminated]),
            "truncated": torch.tensor([truncated]),
        }
        root["next"] = TensorDict(entries)


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


class GivenActions:
    """Gymnasium alone: actions that are there already, and nothing kept."""

    def __init__(self, name: str) -> None:
        self.env = gymnasium.make(name)
        self.env.reset(seed=0)
        self.env.action_space.seed(0)
        self.actions = [self.env.action_space.sample() for _ in range(STEPS)]

    def __call__(self) -> None:
        env = self.env
        for action in self.actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
