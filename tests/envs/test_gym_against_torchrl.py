"""`GymEnv` and `GymWrapper` against TorchRL's, where these are right."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from specgen_runtime.envs import GymEnv, GymWrapper
from specgen_runtime.envs.gym import default_info_dict_reader
from specgen_runtime.specs import Unbounded

pytestmark = pytest.mark.peers


@pytest.fixture
def peer() -> Any:
    return pytest.importorskip("torchrl.envs")


def compare(mine: Any, theirs: Any, steps: int, reset: Any) -> None:
    """Give both the same actions; `reset` starts both from one seed."""
    td, other = reset()
    for _ in range(steps):
        mine.rand_action(td)
        for key in mine.action_keys:
            other[key] = td[key].clone()
        record, td = mine.step_and_maybe_reset(td)
        peers, other = theirs.step_and_maybe_reset(other)
        keys = set(record.keys(True, True))
        assert keys == set(peers.keys(True, True))
        for key in keys:
            assert torch.equal(record[key], peers[key]), key
            assert record[key].dtype is peers[key].dtype, key


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "one-hot": ("CartPole-v1", {}),
    "indices": ("CartPole-v1", {"categorical_action_encoding": True}),
    "continuous": ("Pendulum-v1", {}),
    "table": ("FrozenLake-v1", {}),
    "frame skip": ("Pendulum-v1", {"frame_skip": 4}),
    "pixels": ("CartPole-v1", {"from_pixels": True, "max_episode_steps": 3}),
    "pixels and state": ("CartPole-v1", {"from_pixels": True, "pixels_only": False, "max_episode_steps": 3}),
    "device": ("CartPole-v1", {"device": "cpu"}),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_same_data(peer: Any, case: str) -> None:
    name, options = OPTIONS[case]
    mine, theirs = GymEnv(name, **options), peer.GymEnv(name, **options)
    assert mine.batch_size == theirs.batch_size
    assert mine.device == theirs.device
    assert [str(key) for key in mine.observation_keys] == [str(key) for key in theirs.observation_keys]
    assert set(mine.done_keys) == set(theirs.done_keys)
    assert_same_shapes(mine, theirs)
    compare(mine, theirs, 12 if "pixels" in case else 120, lambda: (mine.reset(seed=3), theirs.reset(seed=3)))


def assert_same_shapes(mine: Any, theirs: Any) -> None:
    for group in ("full_action_spec", "full_observation_spec", "full_reward_spec", "full_done_spec"):
        found = {key: (leaf.shape, leaf.dtype) for key, leaf in getattr(mine, group).items(True, True)}
        expected = {key: (leaf.shape, leaf.dtype) for key, leaf in getattr(theirs, group).items(True, True)}
        assert found == expected, group


def test_same_info(peer: Any) -> None:
    class Telling(gymnasium.Wrapper):
        def reset(self, **kwargs: Any) -> Any:
            observation, info = super().reset(**kwargs)
            return observation, {**info, "place": observation[:1].copy()}

        def step(self, action: Any) -> Any:
            observation, reward, ended, cut, info = super().step(action)
            return observation, reward, ended, cut, {**info, "place": observation[:1].copy()}

    mine = GymWrapper(Telling(gymnasium.make("CartPole-v1")))
    mine.set_info_dict_reader(default_info_dict_reader(["place"], [Unbounded((1,))]))
    theirs = peer.GymWrapper(Telling(gymnasium.make("CartPole-v1")))
    spec = [pytest.importorskip("torchrl.data").Unbounded((1,))]
    theirs.set_info_dict_reader(peer.default_info_dict_reader(["place"], spec))
    assert_same_shapes(mine, theirs)
    compare(mine, theirs, 40, lambda: (mine.reset(seed=3), theirs.reset(seed=3)))
    mine = GymWrapper(Telling(gymnasium.make("CartPole-v1"))).auto_register_info_dict()
    theirs = peer.GymWrapper(Telling(gymnasium.make("CartPole-v1"))).auto_register_info_dict()
    assert_same_shapes(mine, theirs)


@pytest.mark.parametrize(
    "mode", [AutoresetMode.DISABLED, AutoresetMode.SAME_STEP], ids=lambda mode: mode.name
)
def test_same_vectors(peer: Any, mode: AutoresetMode) -> None:
    def vector() -> Any:
        return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode)

    mine, theirs = GymWrapper(vector()), peer.GymWrapper(vector())
    assert mine.batch_size == theirs.batch_size
    assert_same_shapes(mine, theirs)
    compare(mine, theirs, 60, lambda: (mine.reset(seed=3), theirs.reset(seed=3)))


def test_atari(peer: Any) -> None:
    pytest.importorskip("ale_py")
    mine, theirs = GymEnv("ALE/Pong-v5", frame_skip=2), peer.GymEnv("ALE/Pong-v5", frame_skip=2)
    assert mine.observation_keys == theirs.observation_keys == ["pixels"]
    assert mine.spec.kwargs["frameskip"] == theirs.spec.kwargs["frameskip"] == 2
    compare(mine, theirs, 10, lambda: (mine.reset(seed=3), theirs.reset(seed=3)))


# where TorchRL is wrong


def test_the_default_autoreset_mode_is_refused_by_torchrl(peer: Any) -> None:
    vector = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2)
    with pytest.raises(RuntimeError, match="auto-reset mode"):
        peer.GymWrapper(vector)
    assert GymWrapper(vector).rollout(40, break_when_any_done=False).shape == (2, 40)


def test_torchrl_executes_what_is_no_action(peer: Any) -> None:
    env = peer.GymEnv("CartPole-v1")
    env.step(env.reset().set("action", torch.tensor([1, 1])))


def test_torchrl_fails_at_numbers_in_the_info(peer: Any) -> None:
    class Telling(gymnasium.Wrapper):
        def step(self, action: Any) -> Any:
            observation, reward, ended, cut, _ = super().step(action)
            return observation, reward, ended, cut, {"speed": 0.5}

    with pytest.raises(AttributeError, match="dtype"):
        peer.GymWrapper(Telling(gymnasium.make("CartPole-v1"))).auto_register_info_dict()
    env = GymWrapper(Telling(gymnasium.make("CartPole-v1"))).auto_register_info_dict()
    assert (env.rollout(2)["next", "speed"] == 0.5).all()


def test_torchrl_resets_twice_for_a_seed(peer: Any) -> None:
    env, reference = peer.GymEnv("CartPole-v1"), gymnasium.make("CartPole-v1")
    env.set_seed(0)
    reference.reset(seed=0)
    assert not np.array_equal(env.reset()["observation"].numpy(), reference.reset(seed=0)[0])
