"""Environments go on from a checkpoint; those that can't say so."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv, ParallelEnv, SerialEnv, env_state, load_env_state
from specgen_runtime.training.state import plain_state, restored_state
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.chains.cartpole import CartPoleGymTrain, CartPoleTrain
from specgen_std.envs.frozen_lake import FrozenLake
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms.init_tracker import InitTracker
from specgen_std.transforms.step_counter import StepCounter
from specgen_std.transforms.vec_norm import VecNorm
from tensordict import TensorDict


def normalised() -> EnvBase[Any, Any]:
    return Pendulum(batch_size=[3]).append_transform(Compose(InitTracker(), VecNorm(in_keys=["observation"])))


def one_inside(env: EnvBase[Any, Any]) -> EnvBase[Any, Any]:
    inside: EnvBase[Any, Any] = TransformedEnv(env, VecNorm(in_keys=["observation"]))
    around: EnvBase[Any, Any] = TransformedEnv(inside, StepCounter(max_steps=9), auto_unwrap=False)
    return around


NATIVE: dict[str, Callable[[], EnvBase[Any, Any]]] = {
    "drawing at resets": lambda: CartPoleTrain(batch_size=[3]),
    "drawing at steps": lambda: FrozenLake(batch_size=[3]),
    "one": lambda: CartPoleTrain(batch_size=[]),
    "transformed": normalised,
    "transformed twice": lambda: one_inside(Pendulum(batch_size=[3])),
    "a batch of transformed ones": lambda: SerialEnv(2, lambda: one_inside(Pendulum())),
    "a batch": lambda: SerialEnv(2, CartPoleTrain),
    "processes": lambda: ParallelEnv(2, CartPoleTrain),
}


def steps(env: EnvBase[Any, Any], root: Any, count: int) -> tuple[list[TensorDict], Any]:
    """Transitions, with actions by torch's generator, and the root behind them."""
    torch.manual_seed(7)
    found = []
    for _ in range(count):
        step, root = env.step_and_maybe_reset(env.rand_action(root))
        found.append(step.clone())
    return found, root


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(plain_state(state), file)
    file.seek(0)
    restored: dict[str, Any] = restored_state(torch.load(file, weights_only=True))
    return restored


@pytest.mark.parametrize("make", NATIVE.values(), ids=NATIVE)
def test_goes_on_bit_by_bit(make: Callable[[], EnvBase[Any, Any]]) -> None:
    env, other = make(), make()
    env.set_seed(1)
    other.set_seed(2)
    _, root = steps(env, env.reset(), 40)
    saved = through_a_file(env_state(env, root))
    expected, _ = steps(env, root, 60)
    steps(other, other.reset(), 10)
    found, _ = steps(other, load_env_state(other, saved), 60)
    assert any(step["next", "done"].any() for step in expected) or make is normalised
    for ours, theirs in zip(found, expected, strict=True):
        assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs.keys(True, True))
    env.close(raise_if_closed=False)
    other.close(raise_if_closed=False)


def test_the_state_does_not_change_with_the_environment() -> None:
    env = normalised()
    env.set_seed(0)
    _, root = steps(env, env.reset(), 3)
    state = env_state(env, root)
    before = through_a_file(state)
    steps(env, root, 20)
    assert (state["root"] == before["root"]).all()
    for name, value in before["statistics"].items():
        same = torch.equal(value, state["statistics"][name]) if isinstance(value, torch.Tensor) else True
        assert same, name
    assert torch.equal(state["generators"]["_generator"], before["generators"]["_generator"])


SIMULATED: dict[str, Callable[[], EnvBase[Any, Any]]] = {
    "generated": CartPoleGymTrain,
    "wrapped": lambda: GymEnv("CartPole-v1"),
    "transformed": lambda: GymEnv("CartPole-v1").append_transform(InitTracker()),
    "a batch": lambda: SerialEnv(2, lambda: GymEnv("CartPole-v1")),
}


@pytest.mark.parametrize("make", SIMULATED.values(), ids=SIMULATED)
def test_a_simulator_begins_new_episodes(make: Callable[[], EnvBase[Any, Any]]) -> None:
    env = make()
    env.set_seed(1)
    _, root = steps(env, env.reset(), 5)
    saved = through_a_file(env_state(env, root))
    found = []
    for seed in (2, 3):
        other = make()
        other.set_seed(seed)
        with pytest.warns(UserWarning, match="has state outside its tensordict, which no checkpoint holds"):
            begun = load_env_state(other, saved)
        assert not begun["done"].any()
        assert not torch.equal(begun["observation"], root["observation"])
        found.append(steps(other, begun, 30)[0])
        other.close(raise_if_closed=False)
    for ours, theirs in zip(*found, strict=True):  # what begins follows from the state
        assert torch.equal(ours["next", "observation"], theirs["next", "observation"])
    env.close(raise_if_closed=False)
