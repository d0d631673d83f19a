"""A hand-written `GeneratedEnv`: what the generator prints for Pendulum with native dynamics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from specgen_runtime.envs import EnvSpecs, GeneratedEnv
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from torch import Tensor


class PendulumParams(NamedTuple):
    g: float = 10.0
    m: float = 1.0
    l: float = 1.0  # noqa: E741
    dt: float = 0.05
    max_steps: int = 200


class PendulumRoot(NamedTuple):
    th: Tensor
    thdot: Tensor
    step_count: Tensor
    done: Tensor
    terminated: Tensor
    truncated: Tensor


class PendulumNext(NamedTuple):
    th: Tensor
    thdot: Tensor
    step_count: Tensor
    done: Tensor
    terminated: Tensor
    truncated: Tensor


def pendulum_advance(
    params: PendulumParams, th: Tensor, thdot: Tensor, step_count: Tensor, action: Tensor
) -> PendulumNext:
    u = action[..., 0].clamp(-2.0, 2.0)
    accelerated = (
        thdot + (3 * params.g / (2 * params.l) * torch.sin(th) + 3 / (params.m * params.l**2) * u) * params.dt
    )
    next_thdot = accelerated.clamp(-8.0, 8.0)
    next_count = step_count + 1
    terminated = torch.zeros_like(next_count, dtype=torch.bool)
    truncated = next_count >= params.max_steps
    return PendulumNext(
        th=th + next_thdot * params.dt,
        thdot=next_thdot,
        step_count=next_count,
        done=terminated | truncated,
        terminated=terminated,
        truncated=truncated,
    )


def pendulum_reward(params: PendulumParams, th: Tensor, thdot: Tensor, action: Tensor) -> Tensor:
    u = action[..., 0].clamp(-2.0, 2.0)
    angle = (th + math.pi) % (2 * math.pi) - math.pi
    return -(angle**2 + 0.1 * thdot**2 + 0.001 * u**2).unsqueeze(-1)


def pendulum_observe(th: Tensor, thdot: Tensor) -> Tensor:
    return torch.stack((torch.cos(th), torch.sin(th), thdot), -1)


class Pendulum(GeneratedEnv):
    params: PendulumParams

    def __init__(
        self,
        *,
        max_steps: int = 200,
        batch_size: Sequence[int] = (),
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        self.params = PendulumParams(max_steps=max_steps)
        self._build()

    def _specs(self) -> EnvSpecs:
        device = self.device
        flag = {
            name: Categorical(2, shape=(1,), dtype=torch.bool, device=device)
            for name in ("done", "terminated", "truncated")
        }
        state = {
            "th": Unbounded(shape=(), device=device),
            "thdot": Bounded(-8.0, 8.0, shape=(), device=device),
            "step_count": Unbounded(shape=(1,), dtype=torch.int64, device=device),
        }
        limits = torch.tensor([1.0, 1.0, 8.0], device=device)
        return EnvSpecs(
            action=Composite(action=Bounded(-2.0, 2.0, shape=(1,), device=device), device=device),
            observation=Composite(
                {**state, "observation": Bounded(-limits, limits, device=device)}, device=device
            ),
            state=Composite(state, device=device),
            reward=Composite(reward=Unbounded(shape=(1,), device=device), device=device),
            done=Composite(flag, device=device),
        )

    def _read(self, tensordict: Any) -> PendulumRoot:
        return PendulumRoot(*(tensordict.get(name) for name in PendulumRoot._fields))

    def _fresh(self) -> PendulumRoot:
        th = self._uniform() * (2 * math.pi) - math.pi
        thdot = self._uniform() * 2.0 - 1.0
        count = torch.zeros((*self._batch_size, 1), dtype=torch.int64, device=th.device)
        done = torch.zeros_like(count, dtype=torch.bool)
        return PendulumRoot(th, thdot, count, done, done.clone(), done.clone())

    def _advance(self, root: PendulumRoot, actions: tuple[Tensor, ...]) -> PendulumNext:
        return pendulum_advance(self.params, root.th, root.thdot, root.step_count, actions[0])

    def _root_entries(self, root: PendulumRoot) -> dict[str, Any]:
        return {"observation": pendulum_observe(root.th, root.thdot), **root._asdict()}

    def _next_entries(
        self, root: PendulumRoot, actions: tuple[Tensor, ...], next_: PendulumNext
    ) -> dict[str, Any]:
        return {
            "observation": pendulum_observe(next_.th, next_.thdot),
            "reward": pendulum_reward(self.params, root.th, root.thdot, actions[0]),
            **next_._asdict(),
        }
