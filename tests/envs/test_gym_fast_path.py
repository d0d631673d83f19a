"""The fast path through Gymnasium environments gives what the general way gives, bit by bit."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from specgen_runtime.envs import EnvBase, GymEnv, GymWrapper
from specgen_runtime.specs import Categorical
from specgen_runtime.testing import assert_identical
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn

IDS = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "FrozenLake-v1", "Taxi-v4"]
LENGTH: dict[str, dict[str, Any]] = {
    "Acrobot-v1": {"max_episode_steps": 30},
    "Taxi-v4": {"max_episode_steps": 20},
}


def made(name: str, **kwargs: Any) -> GymEnv:
    env = GymEnv(name, **LENGTH.get(name, {}), **kwargs)
    torch.manual_seed(3)
    env.set_seed(5)
    return env


class General(GymEnv):
    """Goes the general way: it writes a hook anew."""

    def read_obs(self, observations: Any) -> dict[str, Any]:
        return super().read_obs(observations)


def general(name: str, **kwargs: Any) -> GymEnv:
    env = General(name, **LENGTH.get(name, {}), **kwargs)
    torch.manual_seed(3)
    env.set_seed(5)
    return env


def stepped(env: Any, steps: int, stop: bool) -> Any:
    td, records = env.reset(), []
    for t in range(steps):
        td = env.rand_action(td)
        if stop or t == steps - 1:
            record = env.step(td)
            td = env.step_mdp(record)
        else:
            record, td = env.step_and_maybe_reset(td)
        records.append(record)
        if stop and record["next", "done"].item():
            break
    return torch.stack(records)


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("name", IDS)
def test_rollouts_are_stepping(name: str, categorical: bool, stop: bool) -> None:
    options = {"categorical_action_encoding": categorical}
    results = []
    for way in range(4):
        env = general(name, **options) if way in (1, 2) else made(name, **options)
        assert (env._fast_path() is None) == (way in (1, 2))
        if way == 0:
            data = env.rollout(240, break_when_any_done=stop)
        elif way == 1:
            data = EnvBase.rollout(env, 240, break_when_any_done=stop)
        else:
            data = stepped(env, 240, stop)
        # what comes next shows the state of the environment and of both generators
        more = env.rollout(5, break_when_any_done=stop)
        results.append((data, more, torch.get_rng_state(), env.unwrapped.np_random.random()))
    for data, more, state, number in results[1:]:
        assert_identical(data, results[0][0])
        assert_identical(more, results[0][1])
        assert torch.equal(state, results[0][2])
        assert number == results[0][3]


@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_rollouts_go_on(name: str, stop: bool) -> None:
    results = []
    for make in (made, general):
        env = make(name)
        first = env.rollout(5)
        more = env.rollout(
            230, auto_reset=False, tensordict=env.step_mdp(first[-1]), break_when_any_done=stop
        )
        extra = env.step_mdp(more[-1]).set("mark", torch.ones(2))
        last = env.rollout(4, auto_reset=False, tensordict=extra, break_when_any_done=False)
        again = env.rollout(3, tensordict=TensorDict({"mark": torch.ones(2)}))
        results.append((first, more, last, again))
    for mine, theirs in zip(*results, strict=True):
        assert_identical(mine, theirs)
    assert results[0][2]["mark"].shape == (4, 2)


@pytest.mark.parametrize("stop", [True, False])
def test_policies(stop: bool) -> None:
    layers = nn.Sequential(nn.Linear(3, 1), nn.Tanh())
    net = TensorDictModule(layers, in_keys=["observation"], out_keys=["action"])

    def changing(td: Any) -> Any:
        td["observation"] = td["observation"] * 2
        return td.update({"action": torch.zeros(1), "mark": td["observation"].sum()})

    def different(td: Any) -> Any:
        size = 2 if td["observation"][0] > 0 else 3
        return td.update({"action": torch.zeros(1), "mark": torch.ones(size)})

    for policy in (net, changing, different, layers):
        results = []
        for make in (made, general):
            env = make("Pendulum-v1")
            with torch.no_grad():
                results.append(env.rollout(220, policy, break_when_any_done=stop, set_truncated=True))
        if policy is different:
            results = [torch.stack([td.exclude("mark") for td in data.unbind(0)]) for data in results]
        assert_identical(*results)


def test_the_time_limit_counts_what_rollouts_take() -> None:
    env = made("Pendulum-v1")
    env.rollout(7)
    assert env._env._elapsed_steps == 7
    td = env.step_mdp(env.rollout(150)[-1])
    data = env.rollout(100, auto_reset=False, tensordict=td)
    assert data.shape == (50,)
    assert data["next", "truncated"].flatten().tolist() == [False] * 49 + [True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        GymEnv("Pendulum-v1").rollout(5, auto_reset=False, tensordict=td)


def test_large_observations_grow_as_they_come() -> None:
    class Images(gymnasium.Env):
        observation_space = spaces.Box(0, 255, (200, 200, 4), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.steps = 0
            return np.full((200, 200, 4), 7, np.uint8), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            return np.full((200, 200, 4), self.steps, np.uint8), 1, self.steps == 100, False, {}

    data = GymWrapper(Images()).rollout(10**6)
    assert data["next", "observation"][:, 3, 3, 3].tolist() == list(range(1, 101))
    assert data["observation"][:, 0, 0, 0].tolist() == [7, *range(1, 100)]


class Plain(gymnasium.Env):
    """Gives what it is told to, and keeps the actions."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, *given: Any) -> None:
        self.given = list(given)
        self.taken: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        given = self.given[(len(self.taken) - 1) % len(self.given)]
        return given if isinstance(given, tuple) else (given, 1.0, False, False, {})


def test_odd_values_are_read_as_by_the_general_way() -> None:
    # E24: flags that are ints or NumPy's; rewards of several kinds; observations of another dtype
    zero = np.zeros(2, np.float32)
    given: list[Any] = [
        (zero, 1, 0, 0, {}),
        (np.ones(2), np.float64(0.1), np.bool_(False), 0, {}),
        ([0.5, 0.25], np.array([0.5]), False, np.int64(0), {}),
        (zero, True, 0, np.bool_(True), {}),
        (zero, np.float32(2), 1, 1, {}),
    ]
    results = []
    for way in range(3):
        torch.manual_seed(0)
        env = GymWrapper(Plain(*given))
        if way == 0:
            results.append(env.rollout(10, break_when_any_done=False))
        elif way == 1:
            results.append(stepped(env, 10, False))
        else:
            env.read_done = env.read_done  # type: ignore[method-assign]
            assert env._fast_path() is None
            results.append(stepped(env, 10, False))
    for other in results[1:]:
        assert_identical(results[0], other)
    following = results[0]["next"]
    assert following["truncated"].flatten().tolist() == [False, False, False, True, True] * 2
    assert following["terminated"].flatten().tolist() == [False] * 4 + [True] + [False] * 4 + [True]
    assert following["reward"].flatten()[:5].tolist() == [1, np.float32(0.1), 0.5, 1, 2]


@pytest.mark.parametrize("categorical", [True, False])
def test_actions_are_of_the_kind_that_gymnasium_samples(categorical: bool) -> None:
    for space in (spaces.Discrete(2), spaces.Discrete(50, dtype=np.int32)):
        env = GymWrapper(Plain(np.zeros(2, np.float32)), categorical)
        env.wrapped.action_space = space
        env = GymWrapper(env.wrapped, categorical)
        env.rollout(3)
        env.rand_step()
        assert [type(action) for action in env.wrapped.taken] == [type(space.sample())] * 4


@pytest.mark.parametrize("value", [np.zeros(7, np.float32), np.zeros((2, 1), np.float32), np.zeros(1)])
def test_wrong_observations_are_refused(value: Any) -> None:
    # E26
    for name, arguments in (("rollout", (3,)), ("rand_step", ())):
        with pytest.raises(ValueError, match=r"shape .*, its space says \[2\]"):
            getattr(GymWrapper(Plain(value)), name)(*arguments)


@pytest.mark.parametrize("action", [[1, 1], [0, 0], [2, 0], [-1, 1]])
def test_vectors_that_are_not_one_hot_are_refused(action: list[int]) -> None:
    # E28
    env = GymEnv("CartPole-v1")
    td = env.reset().set("action", torch.tensor(action))
    with pytest.raises(ValueError, match=r"an action must be a one-hot vector of 2 classes, found \["):
        env.step(td)
    assert "next" not in td


@pytest.mark.parametrize("action", [2, -1])
def test_classes_that_do_not_exist_are_refused(action: int) -> None:
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    with pytest.raises(ValueError, match=f"an action must be a class of 0 to 1, found {action}"):
        env.step(env.reset().set("action", torch.tensor(action)))


def test_actions_that_do_not_fit_are_refused() -> None:
    env = GymEnv("CartPole-v1")
    for action in (torch.tensor(1), torch.tensor([0.5, 0.5])):
        with pytest.raises(RuntimeError, match=r"'action' must be torch\.int64"):
            env.step(env.reset().set("action", action))
    with pytest.raises(KeyError, match="action"):
        env.step(env.reset())


def test_values_in_next_prevail() -> None:
    env = GymEnv("CartPole-v1")
    td = env.rand_action(env.reset())
    td["next"] = TensorDict({"reward": torch.tensor([5.0])})
    assert env.step(td)["next", "reward"].item() == 5


def test_overridden_methods_are_called() -> None:
    calls = []

    class Steps(GymEnv):
        def _step(self, tensordict: Any) -> Any:
            calls.append("_step")
            result = super()._step(tensordict)
            return result.set("reward", result["reward"] + 1)

    class Resets(GymEnv):
        def _reset(self, tensordict: Any, **kwargs: Any) -> Any:
            calls.append("_reset")
            return super()._reset(tensordict, **kwargs)

    class WholeSteps(GymEnv):
        def step(self, tensordict: Any) -> Any:
            calls.append("step")
            return super().step(tensordict)

    class Info(GymEnv):
        def read_info(self, info: Any, tensordict: Any) -> Any:
            calls.append("read_info")
            return tensordict

    for cls, expected in ((Steps, 3), (Resets, 1), (WholeSteps, 3), (Info, 4)):
        env: Any = cls("Pendulum-v1")
        calls.clear()
        data = env.rollout(3)
        assert calls == [calls[0]] * expected, cls
        if cls is Steps:
            assert (data["next", "reward"] > -17 + 1).all()

    env = GymEnv("Pendulum-v1")
    env.rollout(2)
    original = env._step
    env._step = lambda td: original(td).update({"reward": torch.full((1,), 7.0)})
    assert (env.rollout(3)["next", "reward"] == 7).all()


def test_changed_specs_are_obeyed() -> None:
    env = GymEnv("CartPole-v1")
    env.rollout(3)
    env.action_spec = Categorical(2)
    assert env.rollout(5)["action"].shape[1:] == ()
    env.action_spec = Categorical(2, mask=torch.tensor([True, False]))
    assert (env.rollout(5)["action"] == 0).all()


def test_environments_that_draw_from_torch_keep_their_numbers() -> None:
    class Draws(Plain):
        def step(self, action: Any) -> Any:
            self.taken.append(torch.rand(()).item())
            return np.zeros(2, np.float32), 1.0, len(self.taken) % 5 == 0, False, {}

    env = GymWrapper(Draws())
    for _ in range(4):
        env.rollout(100)
    assert len(set(env.wrapped.taken)) == 20


def test_results_share_no_memory() -> None:
    env = GymEnv("CartPole-v1")
    td = env.rand_step()
    kept = copy.deepcopy(td)
    td["next", "observation"].requires_grad_().sum().backward()
    other = env.step(env.rand_action(env.reset()))
    for key in list(other["next"].keys()):
        other["next", key].fill_(0)
    assert_identical(td.detach(), kept)
    assert td["next", "reward"].untyped_storage().nbytes() == 4


class Paid(Plain):
    """Gives the reward that it is told."""

    def __init__(self, reward: Any) -> None:
        super().__init__(np.zeros(2, np.float32))
        self.reward = reward

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, self.reward, *rest


@pytest.mark.parametrize("reward", [None, "1.5", 1j])
def test_rewards_that_are_no_numbers_are_refused(reward: Any) -> None:
    for short in (True, False):
        env: Any = GymWrapper(Paid(reward))
        if not short:
            env.read_obs = env.read_obs
        for run in (env.rand_step, lambda env=env: env.rollout(3)):
            with pytest.raises(TypeError, match=r"reward.* must be numbers"):
                run()


def test_rewards_of_several_numbers_are_refused() -> None:
    env: Any = GymWrapper(Paid(np.zeros(2)))
    for run in (env.rand_step, lambda: env.rollout(3)):
        with pytest.raises(ValueError, match="the reward must be one number, Gymnasium gave"):
            run()


def test_check_finite_counts_from_when_it_is_set() -> None:
    env = GymWrapper(Paid(float("nan")))
    env.rand_step()
    env.check_finite = True
    for run in (env.rand_step, lambda: env.rollout(3)):
        with pytest.raises(FloatingPointError, match="'reward'"):
            run()
    env.check_finite = False
    assert bool(env.rand_step()["next", "reward"].isnan())


def test_hooks_that_are_set_on_an_object_stay_in_use() -> None:
    env: Any = made("CartPole-v1")
    env.read_reward = _seven
    env.full_reward_spec = env.full_reward_spec
    for each in (env, copy.deepcopy(env)):
        assert each.rand_step()["next", "reward"].item() == 7.0
        assert bool((each.rollout(3)["next", "reward"] == 7.0).all())


def _seven(reward: Any) -> torch.Tensor:
    return torch.tensor([7.0])
