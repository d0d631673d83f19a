"""Vectorised Gymnasium environments: the same transitions in each autoreset mode as those of single environments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from specgen_runtime.envs import GymEnv, GymWrapper, check_env_specs
from specgen_runtime.testing import assert_identical

MODES = list(AutoresetMode)
each_mode = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


def cartpoles(mode: AutoresetMode, kind: Any = SyncVectorEnv, **kwargs: Any) -> Any:
    return kind([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode, **kwargs)


def replayed(actions: Any, seeds: list[int]) -> Any:
    """What single environments give for the actions `[n, T]`, each reset where it ends."""
    rows = []
    for row, seed in zip(actions, seeds, strict=True):
        env = GymEnv("CartPole-v1", categorical_action_encoding=True)
        env.set_seed(seed)
        td, records = env.reset(), []
        for action in row:
            record, td = env.step_and_maybe_reset(td.set("action", action.clone()))
            records.append(record)
        rows.append(torch.stack(records))
    return torch.stack(rows)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@each_mode
def test_transitions_are_those_of_single_environments(mode: AutoresetMode, kind: Any) -> None:
    env = GymWrapper(cartpoles(mode, kind), categorical_action_encoding=True)
    assert env.batch_size == (3,)
    check_env_specs(env)
    torch.manual_seed(0)
    assert env.set_seed(5) == 8
    data = env.rollout(70, break_when_any_done=False)
    assert data["next", "done"].sum() >= 6
    assert_identical(data, replayed(data["action"], [5, 6, 7]))
    env.close()


@each_mode
def test_what_is_done_waits(mode: AutoresetMode) -> None:
    env = GymWrapper(cartpoles(mode), categorical_action_encoding=True)
    torch.manual_seed(0)
    env.set_seed(5)
    data = env.rollout(100, break_when_all_done=True)
    ends = data["next", "done"].int().argmax(1).flatten().tolist()
    assert len(set(ends)) > 1
    for row, end in zip(data, ends, strict=True):
        assert row["next", "done"][end:].all()
        assert (row["next", "observation"][end:] == row["next", "observation"][end]).all()
    # stepped by hand, an environment that is over stays, and gets no reward
    td = env.reset(seed=5)
    for t in range(100):
        last, td = td, env.step_mdp(env.step(td.set("action", torch.tensor([0, 1, t % 2]))))
        if last["done"].any():
            break
    over = last["done"].flatten()
    assert over.any()
    assert not over.all()
    assert torch.equal(td["observation"][over], last["observation"][over])
    assert not torch.equal(td["observation"][~over], last["observation"][~over])
    assert td["done"].flatten()[over].all()
    record = env.step(td)
    assert (record["next", "reward"].flatten() == (~over).float()).all()
    # and starts anew when it is told to
    fresh = env.reset(td.set("_reset", over.reshape(3, 1)))
    assert (fresh["observation"][over].abs() <= 0.05).all()
    assert not fresh["done"][over].any()


@each_mode
def test_any_row_can_be_reset(mode: AutoresetMode) -> None:
    env = GymWrapper(cartpoles(mode))
    env.set_seed(0)
    td = env.step_mdp(env.rand_step())
    mask = torch.tensor([[False], [True], [False]])
    fresh = env.reset(td.clone().set("_reset", mask))
    assert torch.equal(fresh["observation"][[0, 2]], td["observation"][[0, 2]])
    assert not torch.equal(fresh["observation"][1], td["observation"][1])
    record = env.rand_step(fresh)
    assert record["next", "observation"].shape == (3, 4)


def test_seeds() -> None:
    env = GymWrapper(cartpoles(AutoresetMode.DISABLED))
    reference = cartpoles(AutoresetMode.DISABLED)
    assert env.set_seed(3) == 6
    assert np.array_equal(env.reset()["observation"].numpy(), reference.reset(seed=[3, 4, 5])[0])
    assert np.array_equal(env.reset()["observation"].numpy(), reference.reset()[0])
    assert env.set_seed(3, static_seed=True) == 3
    assert (env.reset()["observation"] == env.reset(seed=3)["observation"][0]).all()
    assert env.set_seed(None) is None


@pytest.mark.usefixtures("spawned_processes")
def test_by_name() -> None:
    env = GymEnv("CartPole-v1", num_envs=2, max_episode_steps=4, frame_skip=2)
    assert env.batch_size == (2,)
    data = env.rollout(5, break_when_any_done=False)
    assert data["next", "reward"][0].flatten().tolist() == [2, 2, 2, 2, 2]
    assert data["next", "truncated"][:, :, 0].tolist() == [[False, True, False, True, False]] * 2
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()
    with pytest.raises(ValueError, match="num_envs must be 0 or more, found -1"):
        GymEnv("CartPole-v1", num_envs=-1)


class Several(gymnasium.Env):
    """Observations and actions of many kinds; ends after its number of steps, with info."""

    observation_space = spaces.Dict(
        place=spaces.Box(-1.0, 1.0, (3,), np.float32),
        level=spaces.Discrete(9, start=1),
        pair=spaces.Tuple([spaces.Box(-1.0, 1.0, (2,), np.float32)] * 2),
        sizes=spaces.MultiDiscrete([2, 3]),
    )

    def __init__(self, length: int, action_space: Any) -> None:
        self.length = length
        self.action_space = action_space
        self.resets = 0

    def observe(self) -> Any:
        number = np.float32(self.steps / 10)
        pair = (np.full(2, number), np.full(2, -number))
        sizes = np.array([self.steps % 2, self.steps % 3])
        return {"place": np.full(3, number), "level": 1 + self.steps, "pair": pair, "sizes": sizes}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps, self.resets = 0, self.resets + 1
        return self.observe(), {"count": self.resets, "told": 0}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.steps += 1
        return self.observe(), 1.0, self.steps == self.length, False, {"told": self.steps}


ACTIONS: dict[str, Any] = {
    "Discrete": spaces.Discrete(3, start=-1),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "Dict": spaces.Dict(x=spaces.Discrete(2), y=spaces.Box(-1.0, 1.0, (2,), np.float32)),
    "Tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]),
}


@pytest.mark.parametrize("action", ACTIONS)
@each_mode
def test_every_kind_of_space(mode: AutoresetMode, action: str) -> None:
    space = ACTIONS[action]
    inner = SyncVectorEnv([partial(Several, length, space) for length in (2, 3)], autoreset_mode=mode)
    env = GymWrapper(inner, categorical_action_encoding=True)
    env.auto_register_info_dict()
    data = env.rollout(6, break_when_any_done=False)
    following = data["next"]
    assert following["level"].tolist() == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3]]
    assert data["level"].tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert following["sizes"].tolist() == [[[1, 1], [0, 2]] * 3, [[1, 1], [0, 2], [1, 0]] * 2]
    assert torch.equal(following["pair"][:, :, 0], following["place"][..., :2])
    assert following["done"][:, :, 0].tolist() == [[False, True] * 3, [False, False, True] * 2]
    assert following["told"].tolist() == [[1, 2, 1, 2, 1, 2], [1, 2, 3, 1, 2, 3]]
    assert data["told"].tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]]
    assert (data["count"] > 0).sum() == 5  # told by resets only


class Native(gymnasium.vector.VectorEnv):
    """A vector environment of its own kind, which resets by itself."""

    def __init__(self, mode: AutoresetMode) -> None:
        self.num_envs = 2
        self.metadata = {"autoreset_mode": mode}
        self.single_observation_space = spaces.Box(-9.0, 9.0, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = spaces.Box(-9.0, 9.0, (2, 1), np.float32)
        self.action_space = spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.at = np.zeros((2, 1), np.float32)
        return self.at.copy(), {}

    def step(self, actions: Any) -> Any:
        self.at += 1
        ended = np.array([bool(self.at[0] == 2), False])
        self.at[ended] = 0
        return self.at.copy(), np.ones(2), ended, np.zeros(2, bool), {}


def test_what_is_not_told_is_marked() -> None:
    data = GymWrapper(Native(AutoresetMode.SAME_STEP)).rollout(3, break_when_any_done=False)
    assert data["next", "observation"][0, 1].isnan().all()
    assert data["next", "observation"][1, :, 0].tolist() == [1, 2, 3]
    assert data["observation"][0, :, 0].tolist() == [0, 1, 0]
    env = GymWrapper(Native(AutoresetMode.SAME_STEP), missing_obs_value=-5.0)
    assert env.rollout(3)["next", "observation"][0, 1] == -5


def test_what_cannot_be_reset_says_so() -> None:
    env = GymWrapper(Native(AutoresetMode.NEXT_STEP))
    assert env.rollout(5).shape == (2, 2)  # stops where one is done
    with pytest.raises(RuntimeError, match=r"cannot reset \[0\] alone.* autoreset mode is NEXT_STEP"):
        env.rollout(5, break_when_any_done=False)
    with pytest.raises(RuntimeError, match="AsyncVectorEnv without shared memory resets twice"):
        GymWrapper(cartpoles(AutoresetMode.NEXT_STEP, AsyncVectorEnv, shared_memory=False))


@pytest.fixture
def vector() -> Iterator[Any]:
    env = cartpoles(AutoresetMode.DISABLED)
    yield env
    env.close()


def test_arguments(vector: Any) -> None:
    for options in ({"frame_skip": 2}, {"from_pixels": True}):
        with pytest.raises(ValueError, match="not a vector environment"):
            GymWrapper(vector, **options)
    with pytest.raises(ValueError, match=r"batch_size is \[2\], that of the environment is \[3\]"):
        GymWrapper(vector, batch_size=[2])
    env = GymWrapper(vector, batch_size=[3])
    with pytest.raises(ValueError, match="one-hot vector of 2 classes"):
        env.step(env.reset().set("action", torch.tensor([[0, 1], [1, 1], [1, 0]])))
