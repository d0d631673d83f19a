"""Gymnasium environments: wrapped, generated, and against Gymnasium itself."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from specgen_runtime.envs import (
    EnvBase,
    EnvSpecs,
    GeneratedGymEnv,
    GymEnv,
    GymSpaceMismatch,
    GymWrapper,
    check_env_specs,
)
from specgen_runtime.envs.gym.actions import action_decoder, actions_decoder
from specgen_runtime.envs.gym.values import value_encoder
from specgen_runtime.specs import Bounded, Categorical, Composite, OneHot, Unbounded
from specgen_runtime.specs.gymnasium import space_to_spec
from tensordict import TensorDictBase

from tests.envs.gym_cartpole_chain import CartPoleChain, LiftedCartPoleChain, OneHotCartPoleChain

IDS = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"]


def same(a: TensorDictBase, b: TensorDictBase) -> None:
    assert a.batch_size == b.batch_size
    assert set(a.keys(True, True)) == set(b.keys(True, True))
    for key in a.keys(True, True):
        assert a[key].dtype is b[key].dtype, key
        assert torch.equal(a[key], b[key]), key


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("name", IDS)
def test_gym_env_is_gymnasium(name: str, categorical: bool) -> None:
    env = GymEnv(name, categorical_action_encoding=categorical)
    check_env_specs(env)
    reference = gymnasium.make(name)
    torch.manual_seed(0)
    assert env.set_seed(7) == 7
    td = env.reset()
    observation, _ = reference.reset(seed=7)
    for _ in range(300):
        assert np.array_equal(td["observation"].numpy(), observation)
        td = env.rand_action(td)
        action: Any = td["action"]
        if isinstance(reference.action_space, spaces.Discrete):
            action = int(action) if categorical else int(action.argmax())
        else:
            action = action.numpy()
        observation, reward, terminated, truncated, _ = reference.step(action)
        record, td = env.step_and_maybe_reset(td)
        following = record["next"]
        assert np.array_equal(following["observation"].numpy(), observation)
        assert following["reward"].item() == np.float32(reward)
        assert following["terminated"].item() == terminated
        assert following["truncated"].item() == truncated
        assert following["done"].item() == (terminated or truncated)
        if terminated or truncated:
            observation, _ = reference.reset()


def test_gym_env_layout() -> None:
    env = GymEnv("CartPole-v1")
    assert env.device is None
    assert env.action_spec == OneHot(2, dtype=torch.int64)
    assert env.done_keys == ["done", "terminated", "truncated"]
    data = env.rollout(5)
    assert data["next", "reward"].shape == (*data.batch_size, 1)
    assert data["next", "reward"].dtype is torch.float32
    assert data["observation"].shape == (*data.batch_size, 4)


def test_gym_arguments() -> None:
    env = GymEnv("CartPole-v1", max_episode_steps=3)
    env.set_seed(0)
    assert env.rollout(10)["next", "truncated"].flatten().tolist() == [False, False, True]
    assert "observation" in env.reset(options={"low": 0.0, "high": 0.01}).keys(True)
    with pytest.raises(TypeError, match="needs a Gymnasium environment, found int"):
        GymWrapper(3)
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()


def test_seeds_continue() -> None:
    env, reference = GymEnv("CartPole-v1"), gymnasium.make("CartPole-v1")
    env.set_seed(3)
    first, _ = reference.reset(seed=3)
    second, _ = reference.reset()
    assert np.array_equal(env.reset()["observation"].numpy(), first)
    assert np.array_equal(env.reset()["observation"].numpy(), second)
    env.set_seed(3)
    assert np.array_equal(env.reset(seed=4)["observation"].numpy(), reference.reset(seed=4)[0])


@pytest.mark.parametrize("make", [lambda: GymEnv("CartPole-v1"), CartPoleChain, LiftedCartPoleChain])
def test_gym_environments_copy_and_pickle(make: Any) -> None:
    env = make()
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        results = []
        for each in (env, twin):
            torch.manual_seed(0)
            each.set_seed(1)
            results.append(each.rollout(30, break_when_any_done=False))
        same(*results)


def test_gymnasium_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"pip install 'specgen-rl\[gym\]'"):
        GymEnv("CartPole-v1")


BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_discrete_keeps_its_start() -> None:
    # TorchRL sends 0 to 2 (E23).
    space = spaces.Discrete(3, start=1)
    for categorical in (True, False):
        spec = space_to_spec(space, categorical_action_encoding=categorical)
        values = [value_encoder(space, spec)(value) for value in (1, 2, 3)]
        assert [action_decoder(space, spec)(value) for value in values] == [1, 2, 3]
        assert actions_decoder(space, spec)(torch.stack(values)) == [1, 2, 3]


class DictEnv(gymnasium.Env):  # type: ignore[type-arg]
    """Reuses one buffer, gives ints as flags and NumPy scalars as rewards."""

    observation_space = spaces.Dict(place=BOX, level=spaces.Discrete(4))
    action_space = spaces.MultiDiscrete([2, 3])

    def __init__(self) -> None:
        self.buffer = np.zeros(3, dtype=np.float32)
        self.steps = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.buffer[:] = self.np_random.uniform(-1, 1, 3)
        return {"place": self.buffer, "level": 0}, {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.steps += 1
        self.buffer[:] = self.steps / 10
        return {"place": self.buffer, "level": self.steps % 4}, np.float64(0.5), 0, int(self.steps >= 5), {}


def test_dict_observations_and_odd_values() -> None:
    # E24: int flags break TorchRL.
    env = GymWrapper(DictEnv(), categorical_action_encoding=True)
    check_env_specs(env, seed=0)
    data = env.rollout(9)
    assert data.batch_size == (5,)
    assert torch.allclose(data["next", "place"][:, 0], torch.arange(1, 6) / 10)
    assert data["next", "level"].tolist() == [1, 2, 3, 0, 1]
    assert data["next", "done"].dtype is torch.bool


def test_a_name_that_is_missing_is_told() -> None:
    env = GymWrapper(DictEnv())
    env.wrapped.reset = lambda **kwargs: ({"place": np.zeros(1, np.float32)}, {})
    with pytest.raises(ValueError, match=r"Gymnasium gave \['place'\], its space has \['level'\] too"):
        env.reset()


# generated


@pytest.mark.parametrize("cls", [CartPoleChain, OneHotCartPoleChain, LiftedCartPoleChain])
def test_generated_chain(cls: Any) -> None:
    check_env_specs(cls(max_steps=10), seed=0)


@pytest.mark.parametrize("lifted", [True, False])
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("max_steps", [1, 10, 500])
@pytest.mark.parametrize("one_hot", [True, False])
def test_rollout_is_stepping(one_hot: bool, max_steps: int, stop: bool, lifted: bool) -> None:
    class Chain(LiftedCartPoleChain):
        pass

    Chain.one_hot, Chain._gym_lifts = one_hot, lifted
    results = []
    for way in range(3):
        torch.manual_seed(2)
        env = Chain(max_steps=max_steps)
        env.set_seed(4)
        if way == 0:
            data: Any = env.rollout(100, break_when_any_done=stop)
        elif way == 1:
            data = EnvBase.rollout(env, 100, break_when_any_done=stop)
        else:
            td, records = env.reset(), []
            for _ in range(100):
                record, td = env.step_and_maybe_reset(env.rand_action(td))
                records.append(record)
                if stop and record["next", "done"].any():
                    break
            data = torch.stack(records)
        results.append((data, torch.get_rng_state()))
    for data, state in results[1:]:
        same(results[0][0], data)
        assert torch.equal(results[0][1], state)
    if not stop:
        data = results[0][0]
        assert data["next", "done"].sum() >= 3
        assert data["is_init"].sum() == 1 + data["next", "done"][:-1].sum()


def test_continuing_a_generated_rollout() -> None:
    for cls in (CartPoleChain, LiftedCartPoleChain):
        torch.manual_seed(0)
        env = cls(max_steps=12)
        env.set_seed(1)
        first = env.rollout(5)
        second = env.rollout(
            20, auto_reset=False, tensordict=env.step_mdp(first[-1]), break_when_any_done=False
        )
        torch.manual_seed(0)
        env = cls(max_steps=12)
        env.set_seed(1)
        td, records = env.reset(), []
        for _ in range(25):
            record, td = env.step_and_maybe_reset(env.rand_action(td))
            records.append(record)
        same(torch.cat([first, second]), torch.stack(records))


def test_generated_chain_is_gymnasium() -> None:
    env, reference = LiftedCartPoleChain(max_steps=15), gymnasium.make("CartPole-v1")
    torch.manual_seed(0)
    env.set_seed(9)
    data = env.rollout(200, break_when_any_done=False)
    observation, _ = reference.reset(seed=9)
    total, count = np.float32(0), 0
    for t in range(200):
        row = data[t]
        expected = (torch.from_numpy(observation) - 0.1) / 2.0
        assert torch.equal(row["observation"], expected)
        assert row["step_count"].item() == count
        assert row["is_init"].item() == (count == 0)
        observation, reward, terminated, truncated, _ = reference.step(int(row["action"]))
        count, total = count + 1, np.float32(total + np.float32(reward))
        assert torch.equal(row["next", "observation"], (torch.from_numpy(observation) - 0.1) / 2.0)
        assert row["next", "episode_reward"].item() == total
        assert row["next", "reward"].item() == pytest.approx(0.6)
        assert row["next", "terminated"].item() == terminated
        assert row["next", "done"].item() == (terminated or truncated or count >= 15)
        if row["next", "done"]:
            observation, _ = reference.reset()
            total, count = np.float32(0), 0


def test_flags_are_never_shared() -> None:
    env = CartPoleChain()
    td = env.rand_step()
    td["next", "terminated"].fill_(True)
    td["next", "truncated"].fill_(True)
    env.set_seed(0)
    for record in (
        env.rand_step(),
        env.rollout(3)[0],
        env.rollout(3, lambda td: td.set("action", torch.tensor(1)))[0],
    ):
        assert not record["next", "terminated"].any()
        record["next", "terminated"].fill_(True)


def test_changed_spaces_are_found() -> None:
    class Narrow(CartPoleChain):
        def _env_specs(self) -> EnvSpecs:
            good = super()._env_specs()
            return EnvSpecs(
                action=good.action,
                observation=Composite(observation=Bounded(-1.0, 1.0, (4,))),
                reward=good.reward,
                done=good.done,
            )

    with pytest.raises(
        GymSpaceMismatch, match=r"CartPole-v1: .* differs from its declaration in 'observation'"
    ) as error:
        Narrow()
    assert error.value.key == "observation"
    assert error.value.declared == Bounded(-1.0, 1.0, (4,))
    assert isinstance(error.value.found, Bounded)

    class Three(CartPoleChain):
        def _action(self) -> Composite:
            return Composite(action=Categorical(3))

    with pytest.raises(GymSpaceMismatch, match=r"'action'.*declared.*found"):
        Three()

    class Short(CartPoleChain):
        _gym_max_episode_steps = 200

    with pytest.raises(GymSpaceMismatch, match="'max_episode_steps': declared 200, found 500"):
        Short()


def test_gym_keywords_are_passed_on() -> None:
    env = CartPoleChain(max_episode_steps=3)
    assert env.rollout(10)["next", "truncated"].flatten().tolist() == [False, False, True]
    with pytest.raises(TypeError):
        CartPoleChain(wrong_keyword=1)


def test_generated_environments_render() -> None:
    pytest.importorskip("pygame")
    env = CartPoleChain(render_mode="rgb_array")
    env.reset(seed=3)
    reference = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    reference.reset(seed=3)
    assert np.array_equal(env.render(), reference.render())
    assert env.render_mode == "rgb_array"
    assert env.metadata == reference.metadata
    assert CartPoleChain().render_mode is None


def test_reset_keywords_reach_gymnasium() -> None:
    env, reference = CartPoleChain(), gymnasium.make("CartPole-v1")
    expected, _ = reference.reset(seed=5)
    assert torch.equal(env.reset(seed=5)["observation"], (torch.from_numpy(expected) - 0.1) / 2.0)


class PendulumGym(GeneratedGymEnv):
    """Continuous actions, no transforms."""

    _gym_id = "Pendulum-v1"
    _gym_max_episode_steps = 200

    def __init__(self, **gym_kwargs: Any) -> None:
        super().__init__(**gym_kwargs)
        self._build()

    def _specs(self) -> EnvSpecs:
        flags = {name: Categorical(2, (1,), dtype=torch.bool) for name in ("done", "terminated", "truncated")}
        high = torch.tensor([1.0, 1.0, 8.0])
        return EnvSpecs(
            action=Composite(action=Bounded(-2.0, 2.0, (1,))),
            observation=Composite(observation=Bounded(-high, high)),
            reward=Composite(reward=Unbounded((1,))),
            done=Composite(flags),
        )

    from typing import NamedTuple as _Record

    class Root(_Record):
        observation: torch.Tensor
        done: torch.Tensor
        terminated: torch.Tensor
        truncated: torch.Tensor

    class Next(_Record):
        observation: torch.Tensor
        done: torch.Tensor
        terminated: torch.Tensor
        truncated: torch.Tensor
        reward: torch.Tensor

    def _read(self, tensordict: Any) -> Any:
        return self.Root(*(tensordict.get(name) for name in self.Root._fields))

    def _fresh(self) -> Any:
        return self.Root(self._gym_reset(), *(torch.zeros(1, dtype=torch.bool) for _ in range(3)))

    def _advance(self, root: Any, actions: tuple[torch.Tensor, ...]) -> Any:
        observation, reward, terminated, truncated = self._gym_step(actions[0])
        return self.Next(observation, terminated | truncated, terminated, truncated, reward)

    def _root_entries(self, root: Any) -> dict[str, Any]:
        return root._asdict()

    def _next_entries(self, root: Any, actions: tuple[torch.Tensor, ...], next_: Any) -> dict[str, Any]:
        return next_._asdict()


def test_the_declared_specs_are_made_once() -> None:
    class Counted(PendulumGym):
        made = 0

        def _specs(self) -> EnvSpecs:
            type(self).made += 1
            return super()._specs()

    Counted()
    assert Counted.made == 1


def test_continuous_actions() -> None:
    env = PendulumGym()
    check_env_specs(env, seed=0)
    torch.manual_seed(0)
    env.set_seed(1)
    data = env.rollout(250, break_when_any_done=False)
    wrapped = GymEnv("Pendulum-v1")
    torch.manual_seed(0)
    torch.randint(2**62, ())  # the seed that PendulumGym draws at construction is not drawn here
    torch.manual_seed(0)
    wrapped.set_seed(1)
    same(data, wrapped.rollout(250, break_when_any_done=False))
    assert data["next", "truncated"][199].item()
    assert (data["action"].abs() <= 2).all()


@pytest.mark.peers
def test_chain_is_torchrls() -> None:
    torchrl = pytest.importorskip("torchrl.envs")
    libs = pytest.importorskip("torchrl.envs.libs.gym")
    peer = torchrl.TransformedEnv(
        libs.GymEnv("CartPole-v1", categorical_action_encoding=True),
        torchrl.Compose(
            torchrl.InitTracker(),
            torchrl.StepCounter(15),
            torchrl.RewardSum(),
            torchrl.ObservationNorm(loc=0.1, scale=2.0, in_keys=["observation"], standard_normal=True),
            torchrl.RewardScaling(0.5, 0.1),
        ),
    )
    peer.reset()
    peer.base_env._env.reset(seed=6)
    mine = CartPoleChain(max_steps=15)
    mine.set_seed(6)
    torch.manual_seed(0)
    td = mine.reset()
    peer.base_env._env.reset(seed=6)
    other = peer.reset(seed=6)
    for _ in range(300):
        td = mine.rand_action(td)
        other["action"] = td["action"].clone()
        record, td = mine.step_and_maybe_reset(td)
        theirs, other = peer.step_and_maybe_reset(other)
        same(record, theirs.select(*record.keys(True, True)))
