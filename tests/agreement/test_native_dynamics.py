"""Native dynamics equal Gymnasium's, step by step from the reference's own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_std import chains
from tensordict import TensorDict

STEPS = 1000
BATCHES: list[tuple[int, ...]] = [(), (1,), (3,), (7,), (4, 3)]
"""A batch size that equals a feature size hides wrong broadcasting, so both kinds are here."""


@dataclass(frozen=True)
class Case:
    """A native chain, its reference, and which state keys hold the reference's state vector."""

    chain: Callable[..., Any]
    id: str
    state: Sequence[str]


CASES = [
    Case(chains.CartPoleTrain, "CartPole-v1", ("x", "x_dot", "theta", "theta_dot")),
    Case(chains.PendulumTrain, "Pendulum-v1", ("th", "thdot")),
    Case(chains.MountainCarTrain, "MountainCar-v0", ("position", "velocity")),
    Case(chains.MountainCarContinuousTrain, "MountainCarContinuous-v0", ("position", "velocity")),
    Case(chains.AcrobotTrain, "Acrobot-v1", ("theta1", "theta2", "dtheta1", "dtheta2")),
]


@dataclass
class Trace:
    """What the reference did: per step its state before, the action, and everything it returned."""

    state: np.ndarray
    action: np.ndarray
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    elapsed: np.ndarray


def record(id: str, seed: int = 0) -> Trace:
    env = gymnasium.make(id)
    env.action_space.seed(seed)
    env.reset(seed=seed)
    rows: list[tuple[Any, ...]] = []
    elapsed = 0
    for _ in range(STEPS):
        state = np.array(env.unwrapped.state, dtype=np.float64)  # type: ignore[attr-defined]
        action = env.action_space.sample()
        observation, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, action, observation, reward, terminated, truncated, elapsed))
        elapsed += 1
        if terminated or truncated:
            env.reset()
            elapsed = 0
    return Trace(*(np.stack([np.asarray(row[i]) for row in rows]) for i in range(7)))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.id)
def case_and_trace(request: pytest.FixtureRequest) -> tuple[Case, Trace]:
    return request.param, record(request.param.id)


def rows(values: np.ndarray, start: int, batch: tuple[int, ...]) -> torch.Tensor:
    """The values of as many consecutive steps as the batch has rows."""
    count = int(np.prod(batch))
    picked = values[(start + np.arange(count)) % STEPS]
    return torch.as_tensor(picked).reshape((*batch, *values.shape[1:]))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_one_step_from_the_reference_state(
    case_and_trace: tuple[Case, Trace], batch: tuple[int, ...]
) -> None:
    case, trace = case_and_trace
    env = case.chain(batch_size=batch)
    fresh = env.reset()
    found: dict[str, list[torch.Tensor]] = {}
    wanted: dict[str, list[torch.Tensor]] = {}
    # all states in the larger batches; one in seven of them where there is one at a time
    for start in range(0, STEPS, max(7, int(np.prod(batch)))):
        data: TensorDict = fresh.clone()
        state = rows(trace.state, start, batch)
        for index, key in enumerate(case.state):
            data[key] = state[..., index].to(torch.float32)
        data["step_count"] = rows(trace.elapsed, start, batch).unsqueeze(-1)
        action = rows(trace.action, start, batch)
        data["action"] = action.to(torch.float32) if action.is_floating_point() else action
        after = env.step(data)["next"]
        for key in ("observation", "reward", "terminated", "truncated"):
            expected = rows(getattr(trace, key), start, batch)
            if key != "observation":
                expected = expected.unsqueeze(-1)
            assert after[key].shape == expected.shape, key
            found.setdefault(key, []).append(after[key])
            wanted.setdefault(key, []).append(expected)
    for key, values in found.items():
        torch.testing.assert_close(
            torch.stack(values).double(),
            torch.stack(wanted[key]).double(),
            rtol=1e-5,
            atol=1e-5,
            msg=lambda m, k=key: f"{k}: {m}",
        )
