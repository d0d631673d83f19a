"""Gymnasium-backed environments give exactly what `gymnasium.make` gives, for the same seed and actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymSpaceMismatch
from specgen_std import chains, envs

from specgen.source.spaces import Record, Space
from tests.support import generate, imported, library_records

STEPS = 1100
"""More than one episode of each, time limits included."""


@dataclass(frozen=True)
class Case:
    """A generated environment and its id in Gymnasium."""

    env: Callable[..., Any]
    id: str


CASES = [
    Case(envs.CartPoleGym, "CartPole-v1"),
    Case(envs.PendulumGym, "Pendulum-v1"),
    Case(envs.MountainCarGym, "MountainCar-v0"),
    Case(envs.MountainCarContinuousGym, "MountainCarContinuous-v0"),
    Case(envs.AcrobotGym, "Acrobot-v1"),
]


@dataclass
class Step:
    """What Gymnasium gave: the observation before, and all that followed the action."""

    before: np.ndarray
    action: Any
    after: np.ndarray
    reward: float
    terminated: bool
    truncated: bool


def play(id: str, seed: int, actions: list[Any]) -> list[Step]:
    """What Gymnasium itself does; an episode that is over is followed by the next, without a new seed."""
    env = gymnasium.make(id)
    before, _ = env.reset(seed=seed)
    steps = []
    for action in actions:
        after, reward, terminated, truncated, _ = env.step(action)
        steps.append(Step(before, action, after, float(reward), terminated, truncated))
        before = env.reset()[0] if terminated or truncated else after
    env.close()
    return steps


def actions_of(id: str, count: int) -> list[Any]:
    space = gymnasium.make(id).action_space
    space.seed(5)
    return [space.sample() for _ in range(count)]


def check_entry(found: torch.Tensor, expected: Any, dtype: torch.dtype) -> None:
    """Compare with what Gymnasium gave, cast to the dtype of the spec as TorchRL casts it."""
    wanted = torch.from_numpy(np.array(expected)).to(dtype)
    assert found.dtype is dtype
    assert torch.equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_same_seed_same_actions(case: Case) -> None:
    expected = play(case.id, 7, actions_of(case.id, STEPS))
    env = case.env()
    env.set_seed(7)
    root = env.reset()
    for step in expected:
        check_entry(root["observation"], step.before, torch.float32)
        root["action"] = env.action_spec.encode(step.action)
        transition, root = env.step_and_maybe_reset(root)
        after = transition["next"]
        check_entry(after["observation"], step.after, torch.float32)
        check_entry(after["reward"], [step.reward], torch.float32)
        check_entry(after["terminated"], [step.terminated], torch.bool)
        check_entry(after["truncated"], [step.truncated], torch.bool)
        check_entry(after["done"], [step.terminated or step.truncated], torch.bool)
    assert any(step.terminated or step.truncated for step in expected)
    env.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rollouts(case: Case) -> None:
    env = case.env()
    env.set_seed(3)
    torch.manual_seed(3)
    data = env.rollout(STEPS, break_when_any_done=False)
    taken = [
        action.numpy() if action.is_floating_point() else int(action) for action in data["action"].unbind(0)
    ]
    for t, step in enumerate(play(case.id, 3, taken)):
        check_entry(data["observation"][t], step.before, torch.float32)
        check_entry(data["next", "observation"][t], step.after, torch.float32)
        check_entry(data["next", "reward"][t], [step.reward], torch.float32)
        check_entry(data["next", "done"][t], [step.terminated or step.truncated], torch.bool)
    env.close()


def test_a_chain_computes_on_what_gymnasium_gives() -> None:
    expected = play("CartPole-v1", 11, actions_of("CartPole-v1", 200))
    env = chains.CartPoleGymTrain()
    env.set_seed(11)
    root = env.reset()
    scale = torch.tensor([0.5, 0.5, 2.5, 0.5])
    count, total = 0, torch.zeros(1)
    for step in expected:
        assert torch.equal(root["observation"], torch.from_numpy(step.before) * scale + 0.0)
        assert bool(root["is_init"]) is (count == 0)
        root["action"] = env.action_spec.encode(step.action)
        transition, root = env.step_and_maybe_reset(root)
        after = transition["next"]
        count, total = count + 1, total + step.reward
        assert torch.equal(after["observation"], torch.from_numpy(step.after) * scale + 0.0)
        assert torch.equal(after["reward"], torch.tensor([step.reward]) * 0.1 + 0.0)
        assert torch.equal(after["episode_reward"], total)
        assert int(after["step_count"]) == count
        if step.terminated or step.truncated:
            count, total = 0, torch.zeros(1)
    env.close()


SCHEMA = """\
specgen: 1
envs:
  Car:
    gymnasium: {id: MountainCarContinuous-v0}
  Cart:
    gymnasium: {id: CartPole-v1}
"""


def wrong_bounds(record: Record) -> Record:
    assert isinstance(record.observation, Space)
    return replace(record, observation=replace(record.observation, high=[0.7, 0.07]))


def wrong_shape(record: Record) -> Record:
    assert isinstance(record.observation, Space)
    return replace(record, observation=replace(record.observation, shape=(3,), low=-1.0, high=1.0))


def wrong_dtype(record: Record) -> Record:
    assert isinstance(record.observation, Space)
    return replace(record, observation=replace(record.observation, dtype="float64"))


def wrong_key(record: Record) -> Record:
    assert isinstance(record.observation, Space)
    return replace(record, observation={"position": record.observation, "velocity": record.observation})


def wrong_action(record: Record) -> Record:
    return replace(record, action=replace(record.action, low=-2.0, high=2.0))


def wrong_limit(record: Record) -> Record:
    return replace(record, max_episode_steps=500)


@pytest.mark.parametrize(
    ("change", "key", "declared", "found"),
    [
        (wrong_bounds, "observation", "0.69999", "0.60000"),
        (wrong_shape, "observation", "3", "2"),
        (wrong_dtype, "observation", "float64", "float32"),
        (wrong_key, "observation", "position", "one space"),
        (wrong_action, "action", "2", "1"),
        (wrong_limit, "max_episode_steps", "500", "999"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_other_spaces_than_the_committed_ones_are_refused(
    change: Callable[[Record], Record], key: str, declared: str, found: str, tmp_path: Path
) -> None:
    records = library_records()
    id = "MountainCarContinuous-v0"
    files = generate({"other.yaml": SCHEMA}, "other_package", {**records, id: change(records[id])})
    with imported(files, "other_package", tmp_path) as package:
        with pytest.raises(GymSpaceMismatch) as caught:
            package.Car()
        assert caught.value.key == key
        assert declared in str(caught.value.declared)
        assert found in str(caught.value.found)
        for part in (id, key, declared, found):
            assert part in str(caught.value)
        package.Cart().close()


def test_one_hot_or_index(tmp_path: Path) -> None:
    both = SCHEMA.replace("{id: CartPole-v1}", "{id: CartPole-v1, categorical_action_encoding: true}")
    records = library_records()
    with imported(generate({"one.yaml": SCHEMA}, "one_package", records), "one_package", tmp_path) as package:
        hot = package.Cart()
    with imported(generate({"two.yaml": both}, "two_package", records), "two_package", tmp_path) as package:
        index = package.Cart()
    assert hot.action_spec.shape == (2,)
    assert index.action_spec.shape == ()
    hot.set_seed(1)
    index.set_seed(1)
    left, right = hot.reset(), index.reset()
    left["action"], right["action"] = torch.tensor([0, 1]), torch.tensor(1)
    assert torch.equal(hot.step(left)["next", "observation"], index.step(right)["next", "observation"])
