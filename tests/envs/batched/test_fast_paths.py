"""`SerialEnv`'s fast path through Gymnasium environments gives what the general way gives, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymEnv, GymWrapper, SerialEnv
from specgen_runtime.envs.batched.gym_batch import GymBatch
from tensordict import TensorDict

from tests.envs.batched.test_results import same


class RowByRow(SerialEnv[Any]):
    """Hands each environment its row."""

    def _fast_path(self) -> None:
        return None


class Restless(gymnasium.Env[Any, Any]):
    """Draws from generators that it shares with everybody; gives floats, ints and arrays as rewards."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(3, start=1)

    def __init__(self, *, torch_too: bool = False) -> None:
        self.torch_too = torch_too
        self.array = np.zeros(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.array[:] = random.random()
        return self.array, {}

    def step(self, action: Any) -> Any:
        assert action in (1, 2, 3)
        self.steps += 1
        self.array[:] = random.random() + action
        if self.torch_too:
            self.array += torch.rand(2).numpy()
        reward = (1, 0.1, np.ones(1, np.float32))[self.steps % 3]
        chance = random.random()
        return self.array, reward, chance < 0.1, np.bool_(chance > 0.9), {}


class Odd(Restless):
    """Gives its observations as lists of another dtype now and then."""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return (observation if self.steps % 2 else observation.tolist(), *rest)


ENVS: dict[str, Callable[[], Any]] = {
    "classes": partial(GymEnv, "CartPole-v1"),
    "indices": partial(GymEnv, "CartPole-v1", categorical_action_encoding=True),
    "frames": partial(GymEnv, "CartPole-v1", frame_skip=3),
    "time limit": partial(GymEnv, "Pendulum-v1", max_episode_steps=7),
    "classes seen": partial(GymEnv, "FrozenLake-v1"),
    "device": partial(GymEnv, "CartPole-v1", device="cpu"),
    "shared generators": lambda: GymWrapper(Restless()),
    "own time limit": lambda: GymWrapper(gymnasium.wrappers.TimeLimit(Restless(), 5)),
    "other arrays": lambda: GymWrapper(Odd()),
}


@pytest.fixture(params=ENVS)
def pair(request: pytest.FixtureRequest) -> Any:
    """The same batch twice: by the fast path and row by row."""
    envs: tuple[Any, ...] = tuple(kind(3, ENVS[request.param]) for kind in (SerialEnv, RowByRow))
    assert isinstance(envs[0]._fast_path(), GymBatch)
    return envs


def both(pair: Any, call: Callable[[Any], Any]) -> Any:
    """Do something to both, with all generators in the same state; the results and the generators' states agree."""
    found = []
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    for env in pair:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        result = call(env)
        found.append((result, torch.get_rng_state(), random.random()))
    (left, torch_left, python_left), (right, torch_right, python_right) = found
    assert python_left == python_right
    assert torch.equal(torch_left, torch_right)
    for one, other in zip(left, right, strict=True):
        same(one, other)
        assert one.batch_size == other.batch_size
        assert one.device == other.device
        assert one.names == other.names
        assert list(one.keys()) == list(other.keys())
    return left


def start(pair: Any) -> None:
    torch.manual_seed(0)
    random.seed(0)
    for env in pair:
        env.set_seed(5)


def test_steps(pair: Any) -> None:
    start(pair)

    def walk(env: Any) -> list[Any]:
        root = env.reset().set("hidden", TensorDict({"h": torch.ones(3, 2)}, batch_size=[3]))
        found = [root.clone()]
        for t in range(40):
            if t % 3 == 2:
                record = env.step(env.rand_action(root))
                root = env.maybe_reset(env.step_mdp(record))
            else:
                record, root = env.step_and_maybe_reset(env.rand_action(root))
            found += [record, root.clone()]
        return found

    found = both(pair, walk)
    assert any(bool(record["next", "done"].any()) for record in found[1::2])
    assert any(not bool(record["next", "done"].all()) for record in found[1::2])


@pytest.mark.parametrize("stop", [True, False])
def test_rollouts(pair: Any, stop: bool) -> None:
    start(pair)
    kwargs: dict[str, Any] = {"break_when_any_done": stop}

    def rolls(env: Any) -> list[Any]:
        first = env.rollout(90, **kwargs)
        root = env.step_mdp(first[:, -1].exclude("action"))
        second = env.rollout(30, auto_reset=False, tensordict=root, set_truncated=True, **kwargs)
        third = env.rollout(3, tensordict=TensorDict({"more": torch.ones(3)}, batch_size=[3]), **kwargs)
        return [first, second, third, env.rollout(1, **kwargs), env.reset()]

    for data in both(pair, rolls)[:4]:
        for key in data.keys(True, True):
            assert data.get(key).is_contiguous()


def test_partial_resets(pair: Any) -> None:
    start(pair)
    mask = torch.tensor([[True], [False], [True]])

    def resets(env: Any) -> list[Any]:
        env.step(env.rand_action(env.reset()))
        found = [env.reset(TensorDict({"_reset": mask}, batch_size=[3], device=env.device))]
        env.rollout(1)
        found.append(env.reset(TensorDict({"_reset": mask}, batch_size=[3], device=env.device)))
        return [*found, env.rand_step()]

    found = both(pair, resets)
    assert bool(found[1]["observation"][1].any()) or found[1]["observation"].dtype is torch.int64


def test_environments_that_draw_as_actions_do() -> None:
    pair = [kind(2, lambda: GymWrapper(Restless(torch_too=True))) for kind in (SerialEnv, RowByRow)]
    for env in pair:
        env.rollout(5, break_when_any_done=False)  # where it is found out
    start(pair)
    both(pair, lambda env: [env.rollout(20, break_when_any_done=False)])


def test_results_are_fresh() -> None:
    env = SerialEnv(2, ENVS["classes"])
    record, root = env.step_and_maybe_reset(env.rand_action(env.reset()))
    kept = record.clone(), root.clone()
    for _ in range(30):
        _, root_now = env.step_and_maybe_reset(env.rand_action(root.clone()))
        root_now["observation"].fill_(3)
    same(record, kept[0])
    same(root, kept[1])
    root["done"].fill_(True)
    assert not bool(env.reset()["done"].any())


class TestTheRowByRowIsTaken:
    def test_where_spaces_differ(self) -> None:
        wide = gymnasium.spaces.Discrete(3, start=5)

        def other() -> Any:
            inner = Restless()
            inner.action_space = wide
            inner.step = lambda action: (inner.array, float(action), False, False, {})  # type: ignore[method-assign]
            return GymWrapper(inner)

        env = SerialEnv(2, [lambda: GymWrapper(Restless()), other])
        assert env._fast_path() is None
        root = env.reset().set("action", torch.eye(3, dtype=torch.int64)[:2])
        assert env.step(root)["next", "reward"][1].item() == 6

    def test_where_an_environment_is_changed(self) -> None:
        env = SerialEnv(2, ENVS["classes"])
        env.reset()
        seen: list[Any] = []
        env.envs[1].read_reward = lambda reward: seen.append(reward) or torch.full((1,), 9.0)
        data = env.rollout(3)
        assert data["next", "reward"].flatten().tolist() == [1, 1, 1, 9, 9, 9]
        assert seen == [1, 1, 1]

    def test_where_a_subclass_steps(self) -> None:
        env = Counted(2, ENVS["classes"])
        env.rollout(4)
        assert env.calls == 4

    def test_where_an_environment_is_closed(self) -> None:
        env = SerialEnv(2, ENVS["classes"])
        root = env.rand_action(env.reset())
        env.envs[1].close()
        with pytest.raises(RuntimeError, match="GymEnv is closed"):
            env.step(root)


class Counted(SerialEnv[Any]):
    calls = 0

    def step(self, tensordict: Any) -> Any:
        self.calls += 1
        return super().step(tensordict)


def test_errors_name_the_environment() -> None:
    env = SerialEnv(2, ENVS["classes"])
    root = env.reset().set("action", torch.tensor([[0, 1], [1, 1]]))
    with pytest.raises(ValueError, match="one-hot vector") as caught:
        env.step(root)
    assert caught.value.__notes__ == ["in environment 1 of 2"]
    with pytest.raises(TypeError, match=r"found torch\.float32"):
        env.step(root.set("action", torch.eye(2) / 2))
    with pytest.raises(KeyError, match="action"):
        env.step(env.reset())
    with pytest.raises(ValueError, match="at least 1"):
        env.rollout(0)
