"""Stable-Baselines3 on our environments."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.envs import EnvBase, GymEnv
from specgen_runtime.envs.batched import SerialEnv
from specgen_runtime.interop import to_gymnasium, to_sb3
from specgen_runtime.transforms import TransformedEnv
from specgen_std.chains.cartpole import CartPoleTrain
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import StepCounter

from tests.envs.counting import Counting
from tests.interop.envs import Walk
from tests.interop.test_gymnasium_vector import assert_equal

pytestmark = pytest.mark.peers

sb3 = pytest.importorskip("stable_baselines3", reason="the extra `peers`")
vec_env = pytest.importorskip("stable_baselines3.common.vec_env", reason="the extra `peers`")

monitor = pytest.importorskip("stable_baselines3.common.monitor", reason="the extra `peers`")

N = 4


@pytest.mark.parametrize(
    "make", [CartPole, Pendulum, CartPoleTrain, Counting, Walk, partial(Walk, masked=True)], ids=str
)
def test_check_env(make: Any) -> None:
    from stable_baselines3.common.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bounds that are infinite, actions that are not within [-1, 1]
        check_env(to_gymnasium(make()))


@pytest.mark.parametrize("keys", [None, ["observation", "time"], "time"], ids=str)
def test_against_a_dummy_vec_env(keys: Any) -> None:
    """All as from single environments of the same seeds."""
    expected = vec_env.DummyVecEnv([partial(single, keys)] * N)
    found = to_sb3(Walk(N), observation_keys=keys)
    assert isinstance(found, vec_env.VecEnv)
    assert found.num_envs == N
    assert found.observation_space == expected.observation_space
    assert found.action_space == expected.action_space
    assert found.seed(7) == expected.seed(7)
    assert_equal({"start": found.reset()}, {"start": plain(expected.reset())})
    found.action_space.seed(0)
    ended = cut = 0
    for _ in range(40):
        actions = np.array([found.action_space.sample() for _ in range(N)])
        seen, rewards, dones, infos = expected.step(actions)
        now = found.step(actions)
        assert_equal(now[0], plain(seen))
        assert_equal(now[1:3], (rewards, dones))
        assert_equal(now[3], infos)
        cut += sum(info["TimeLimit.truncated"] for info in infos)
        ended += dones.sum()
    assert ended > cut > 0


def single(keys: Any) -> Any:
    return to_gymnasium(Walk(), observation_keys=keys)


def plain(seen: Any) -> Any:
    return dict(seen) if isinstance(seen, dict) else seen


def test_seeds_are_used_once() -> None:
    env = to_sb3(CartPole(batch_size=(3,)))
    env.seed(1)
    first, second = env.reset(), env.reset()
    env.seed(1)
    assert np.array_equal(env.reset(), first)
    assert np.array_equal(env.reset(), second)
    assert not np.array_equal(first, second)


def test_options() -> None:
    env = to_sb3(Walk(2))
    env.seed(0)
    plain_start = env.reset()
    env.seed(0)
    env.set_options({"shift": 3.0})
    assert np.allclose(env.reset(), plain_start + 3)
    env.set_options([{"shift": 1.0}, {}])
    with pytest.raises(ValueError, match="options can't differ"):
        env.reset()


def test_attributes_and_methods() -> None:
    env = to_sb3(Walk(3, masked=True))
    env.reset()
    assert env.get_attr("limit") == [6, 6, 6]
    assert env.get_attr("limit", indices=[0, 2]) == [6, 6]
    assert env.get_attr("render_mode") == [None] * 3
    env.set_attr("limit", 9)
    assert env.wrapped.limit == 9
    with pytest.raises(ValueError, match="for all of them"):
        env.set_attr("limit", 2, indices=[0])
    assert env.has_attr("action_masks")
    assert not env.has_attr("nothing")
    assert [mask.tolist() for mask in env.env_method("action_masks", indices=[1])] == [[0, 1, 1]]
    assert env.env_method("numel") == [3, 3, 3]
    assert env.env_is_wrapped(object) == [False] * 3
    assert not to_sb3(Walk(2)).has_attr("action_masks")
    with pytest.raises(NotImplementedError, match="can't be rendered"):
        env.get_images()


def test_masks_of_several_environments() -> None:
    env = to_sb3(SerialEnv(2, partial(Walk, masked=True)))
    env.reset()
    assert [mask.tolist() for mask in env.env_method("action_masks")] == [[0, 1, 1]] * 2
    env.close()


def test_frames_of_several_environments() -> None:
    env = to_sb3(SerialEnv(2, partial(GymEnv, "CartPole-v1", render_mode="rgb_array")))
    env.reset()
    assert env.render_mode == "rgb_array"
    frames = env.get_images()
    assert [frame.shape for frame in frames] == [(400, 600, 3)] * 2
    assert env.render("rgb_array").shape == (800, 600, 3)
    assert "rgb_array" in to_gymnasium(env.wrapped).metadata["render_modes"]
    env.close()


def test_closing() -> None:
    env = to_sb3(Walk(2))
    env.close()
    env.close()
    assert env.wrapped.is_closed


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (Walk, ValueError, "takes to_gymnasium"),
        (partial(CartPole, batch_size=(2, 2)), ValueError, r"found \[2, 2\]"),
        (lambda: 3, TypeError, "needs an EnvBase"),
    ],
    ids=["single", "two dimensions", "number"],
)
def test_what_is_no_batch_is_refused(make: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        to_sb3(make())


def ppo(env: Any, **kwargs: Any) -> Any:
    return sb3.PPO(
        "MlpPolicy", env, gae_lambda=0.8, gamma=0.98, learning_rate=1e-3, seed=0, device="cpu", **kwargs
    )


def lengths(model: Any) -> list[int]:
    return [episode["l"] for episode in model.ep_info_buffer]


def cartpole(*batch: int) -> EnvBase[Any]:
    torch.manual_seed(0)
    return TransformedEnv(CartPole(batch_size=batch), StepCounter(max_steps=200))


@pytest.mark.slow
def test_ppo_learns_on_a_batch() -> None:
    """A random policy holds the pole for about 22 steps."""
    model = ppo(vec_env.VecMonitor(to_sb3(cartpole(8))), n_steps=64, batch_size=256, n_epochs=20)
    model.learn(8 * 64)
    assert np.mean(lengths(model)) < 35
    model.learn(8 * 64 * 11)
    assert np.mean(lengths(model)[-20:]) > 80


@pytest.mark.slow
def test_ppo_learns_on_a_single_environment() -> None:
    model = ppo(to_gymnasium(cartpole()), n_steps=256, batch_size=64, n_epochs=10)
    model.learn(256)
    assert np.mean(lengths(model)) < 35
    model.learn(256 * 8)
    assert np.mean(lengths(model)[-10:]) > 45


def short(*batch: int) -> EnvBase[Any]:
    return TransformedEnv(Pendulum(batch_size=batch), StepCounter(max_steps=10))


@pytest.mark.parametrize("name", ["PPO", "A2C", "SAC"])
def test_models_are_saved_and_go_on(name: str, tmp_path: Path) -> None:
    """With normalised observations, on a batch; evaluated on a batch and on a single environment."""
    algorithm = getattr(sb3, name)
    evaluate = pytest.importorskip("stable_baselines3.common.evaluation").evaluate_policy
    env = vec_env.VecNormalize(vec_env.VecMonitor(to_sb3(short(4))))
    options = {"learning_starts": 8, "buffer_size": 100} if name == "SAC" else {"n_steps": 8}
    model = algorithm("MlpPolicy", env, device="cpu", seed=0, **options).learn(64)
    assert lengths(model) == [10] * 4
    env.save(tmp_path / "statistics")
    model.save(tmp_path / "model")
    again = vec_env.VecNormalize.load(tmp_path / "statistics", vec_env.VecMonitor(to_sb3(short(4))))
    loaded = algorithm.load(tmp_path / "model", device="cpu")
    loaded.set_env(again)
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == 96
    for other in (vec_env.VecMonitor(to_sb3(short(2))), monitor.Monitor(to_gymnasium(short()))):
        returns, steps = evaluate(loaded, other, n_eval_episodes=3, return_episode_rewards=True)
        assert steps == [10] * 3
        assert np.isfinite(returns).all()


def test_dqn_runs() -> None:
    model = sb3.DQN(
        "MlpPolicy", to_sb3(Walk(2)), learning_starts=8, buffer_size=64, batch_size=4, device="cpu"
    )
    model.learn(24)
    assert model.num_timesteps == 24
