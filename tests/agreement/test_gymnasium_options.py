"""The options of GymEnv and GymWrapper against TorchRL's: the same seeds and actions, the same data bit by bit.

See `test_gymnasium_ids` for where an episode begins in either library.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest
import torch
from specgen_runtime.envs import GymEnv, GymWrapper
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std import transforms as own

from tests.agreement.test_gymnasium_ids import IDS, begin_as_torchrl, compare, each_encoding, steps_of

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")


@each_encoding
@pytest.mark.parametrize("skip", [2, 3, 7])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4"])
def test_frame_skip(name: str, skip: int, categorical: bool) -> None:
    """Episodes that don't end with a whole number of skips included."""
    arguments: dict[str, Any] = {"frame_skip": skip, "categorical_action_encoding": categorical, **IDS[name]}
    mine, other = GymEnv(name, **arguments), theirs.GymEnv(name, **arguments)
    compare(mine, other, name, categorical, steps=steps_of(name) // skip)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_frame_skip_of_a_wrapped_instance(name: str) -> None:
    mine, other = (lib(gymnasium.make(name), frame_skip=2) for lib in (GymWrapper, theirs.GymWrapper))
    compare(mine, other, name, categorical=False, steps=steps_of(name) // 2)


def test_frame_skip_under_transforms() -> None:
    mine = TransformedEnv(
        GymEnv("Pendulum-v1", frame_skip=4), Compose(own.StepCounter(max_steps=20), own.RewardSum())
    )
    other = theirs.TransformedEnv(
        theirs.GymEnv("Pendulum-v1", frame_skip=4),
        theirs.Compose(theirs.StepCounter(max_steps=20), theirs.RewardSum()),
    )
    compare(mine, other, "Pendulum-v1", categorical=False, steps=steps_of("Pendulum-v1") // 4)


@each_encoding
@pytest.mark.parametrize("alone", [True, False], ids=["pixels_only", "with_observation"])
def test_pixels(alone: bool, categorical: bool) -> None:
    arguments: dict[str, Any] = {
        "from_pixels": True,
        "pixels_only": alone,
        "categorical_action_encoding": categorical,
        "max_episode_steps": 40,
    }
    compare(
        GymEnv("CartPole-v1", **arguments),
        theirs.GymEnv("CartPole-v1", **arguments),
        "CartPole-v1",
        categorical,
        steps=60,
    )


def test_pixels_of_a_wrapped_instance() -> None:
    def made() -> Any:
        return gymnasium.make("CartPole-v1", render_mode="rgb_array")

    mine, other = (lib(made(), from_pixels=True) for lib in (GymWrapper, theirs.GymWrapper))
    assert {"pixels", "observation"} <= set(mine.observation_keys)
    compare(mine, other, "CartPole-v1", categorical=False, steps=60)


def test_pixels_with_frames_skipped() -> None:
    arguments: dict[str, Any] = {"from_pixels": True, "pixels_only": False, "frame_skip": 3}
    mine, other = GymEnv("CartPole-v1", **arguments), theirs.GymEnv("CartPole-v1", **arguments)
    compare(mine, other, "CartPole-v1", categorical=False, steps=40)


def compare_batches(mine: Any, other: Any) -> None:
    torch.manual_seed(0)
    actions = [mine.action_spec.rand() for _ in range(60)]
    other.set_seed(7)
    left, right = begin_as_torchrl(mine, 7), other.reset()
    ends = 0
    for step, action in enumerate(actions):
        found, left = mine.step_and_maybe_reset(left.set("action", action.clone()))
        expected, right = other.step_and_maybe_reset(right.set("action", action.clone()))
        assert_identical(found, expected.select(*found.keys(True, True)), f"step {step}")
        # what is left of the last action is zero in TorchRL's rows that were reset
        assert_identical(
            left.exclude("action"),
            right.select(*left.keys(True, True)).exclude("action"),
            f"the root after step {step}",
        )
        ends += int(found["next", "done"].sum())
    assert ends >= 3
    mine.close()
    other.close()


@each_encoding
@pytest.mark.parametrize("mode", ["DISABLED", "SAME_STEP"])
def test_vectors(mode: str, categorical: bool) -> None:
    def vector() -> Any:
        return gymnasium.vector.SyncVectorEnv(
            [lambda: gymnasium.make("CartPole-v1")] * 2,
            autoreset_mode=gymnasium.vector.AutoresetMode[mode],
        )

    compare_batches(
        GymWrapper(vector(), categorical_action_encoding=categorical),
        theirs.GymWrapper(vector(), categorical_action_encoding=categorical),
    )


@pytest.mark.slow
@pytest.mark.usefixtures("forked_processes")
def test_num_envs() -> None:
    """The same until an episode ends; there TorchRL mistakes the last observation for the first of the next one."""
    mine, other = GymEnv("CartPole-v1", num_envs=2), theirs.GymEnv("CartPole-v1", num_envs=2)
    other.set_seed(7)
    left, right = begin_as_torchrl(mine, 7), other.reset()
    torch.manual_seed(0)
    for _ in range(60):
        action = mine.action_spec.rand()
        found, left = mine.step_and_maybe_reset(left.set("action", action.clone()))
        expected, right = other.step_and_maybe_reset(right.set("action", action.clone()))
        ended = found["next", "done"].squeeze(-1)
        if ended.any():
            break
        assert_identical(found, expected.select(*found.keys(True, True)), "before the first end")
    assert ended.sum() == 1
    assert torch.equal(expected["next", "done"], found["next", "done"])
    last = found["next", "observation"][ended]
    assert not expected["next", "observation"][ended].any()
    assert torch.equal(right["observation"][ended], last)
    assert (left["observation"][ended].abs() <= 0.05).all()  # where episodes begin
    mine.close()
    other.close()
