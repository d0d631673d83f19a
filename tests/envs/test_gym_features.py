"""`GymEnv` and `GymWrapper`: repeated actions, images, attributes, arguments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from specgen_runtime.envs import GymEnv, GymWrapper, check_env_specs
from specgen_runtime.specs import Composite, OneHot, Unbounded
from specgen_runtime.testing import assert_identical
from tensordict import TensorDict

# repeated actions


def test_frame_skip_sums_rewards_and_stops_at_the_end() -> None:
    env, reference = GymEnv("Pendulum-v1", frame_skip=4), gymnasium.make("Pendulum-v1")
    check_env_specs(env)
    torch.manual_seed(0)
    env.set_seed(1)
    data = env.rollout(300)
    assert data.shape == (50,)
    reference.reset(seed=1)
    for row in data:
        total = 0.0
        for _ in range(4):
            observation, reward, _, truncated, _ = reference.step(row["action"].numpy())
            total += float(reward)
        assert row["next", "reward"].item() == np.float32(total)
        assert np.array_equal(row["next", "observation"].numpy(), observation)
        assert row["next", "truncated"].item() == truncated
    assert GymEnv("Pendulum-v1", frame_skip=3).rollout(300).shape == (67,)
    td = env.rand_step()
    assert abs(td["next", "reward"].item()) > 0
    assert env.frame_skip == 4


@pytest.mark.parametrize("skip", [0, -1, 1.5, "2", None, True])
def test_frame_skip_must_be_a_positive_integer(skip: Any) -> None:
    # E27
    for make in (GymEnv, lambda name, **kwargs: GymWrapper(gymnasium.make(name), **kwargs)):
        with pytest.raises(ValueError, match="frame_skip must be an integer of at least 1"):
            make("Pendulum-v1", frame_skip=skip)


def test_environments_that_skip_themselves_are_told() -> None:
    class Skipping(gymnasium.Env):
        observation_space = spaces.Box(0.0, 9.0, (1,))
        action_space = spaces.Discrete(2)

        def __init__(self, frameskip: int = 4) -> None:
            self.frameskip = frameskip

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return np.zeros(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.full(1, self.frameskip, np.float32), 1.0, False, False, {}

    gymnasium.register("Skipping-v0", Skipping)  # type: ignore[arg-type]
    try:
        given: list[tuple[dict[str, Any], int]] = [({}, 1), ({"frame_skip": 3}, 3), ({"frameskip": 5}, 5)]
        for options, expected in given:
            env = GymEnv("Skipping-v0", **options)
            assert env.rand_step()["next", "observation"].item() == expected
            assert env.frame_skip == 1
        with pytest.raises(ValueError, match="frame_skip and frameskip are both given"):
            GymEnv("Skipping-v0", frame_skip=2, frameskip=2)
    finally:
        del gymnasium.registry["Skipping-v0"]


# images


class Drawn(gymnasium.Env):
    """Renders what it counts."""

    observation_space: Any = spaces.Box(0.0, 9.0, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.count = 0

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.count = 0
        return self.observation(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.observation(), 1.0, self.count == 3, False, {}

    def observation(self) -> Any:
        return np.full(2, self.count, np.float32)

    def render(self) -> Any:
        return np.full((6, 4, 3), self.count, np.uint8)


class DrawnDict(Drawn):
    observation_space = spaces.Dict(count=spaces.Box(0.0, 9.0, (2,)))

    def observation(self) -> Any:
        return {"count": np.full(2, self.count, np.float32)}


@pytest.fixture
def drawn() -> Any:
    gymnasium.register("Drawn-v0", Drawn)  # type: ignore[arg-type]
    yield "Drawn-v0"
    del gymnasium.registry["Drawn-v0"]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({}, ["observation"]),
        ({"pixels_only": True}, ["observation"]),
        ({"from_pixels": True}, ["pixels"]),
        ({"from_pixels": True, "pixels_only": False}, ["observation", "pixels"]),
    ],
    ids=str,
)
def test_images_by_name(drawn: str, options: dict[str, Any], keys: list[str]) -> None:
    env = GymEnv(drawn, **options)
    check_env_specs(env)
    assert sorted(map(str, env.observation_keys)) == keys
    data = env.rollout(9)
    if "pixels" in keys:
        assert env.observation_spec["pixels"] == Unbounded((6, 4, 3), dtype=torch.uint8)
        assert env.render_mode == "rgb_array"
        assert data["next", "pixels"][:, 1, 1, 1].tolist() == [1, 2, 3]
        assert data["pixels"][:, 0, 0, 0].tolist() == [0, 1, 2]
    if "observation" in keys:
        assert data["next", "observation"][:, 0].tolist() == [1, 2, 3]


def test_images_of_wrapped_environments() -> None:
    env = GymWrapper(Drawn("rgb_array"), from_pixels=True)
    assert env.observation_keys == ["observation", "pixels"]
    check_env_specs(env)
    assert GymWrapper(Drawn("rgb_array"), from_pixels=True, pixels_only=True).observation_keys == ["pixels"]
    assert GymWrapper(DrawnDict("rgb_array"), from_pixels=True).rollout(2)["count"].shape == (2, 2)
    # E31
    for env_without in (Drawn(), Drawn("human")):
        with pytest.raises(ValueError, match=r"from_pixels=True needs .* render_mode='rgb_array'"):
            GymWrapper(env_without, from_pixels=True)


def test_images_are_called_pixels() -> None:
    class Camera(Drawn):
        observation_space = spaces.Box(0, 255, (6, 4, 3), np.uint8)

        def observation(self) -> Any:
            return self.render()

    for from_pixels in (False, True):
        env = GymWrapper(Camera(), from_pixels=from_pixels)
        assert env.from_pixels
        assert env.rollout(2)["pixels"].shape == (2, 6, 4, 3)
        env._step = env._step  # type: ignore[method-assign]  # the general way, too
        assert env.rollout(2)["pixels"].shape == (2, 6, 4, 3)


@pytest.mark.usefixtures("forked_processes")
def test_images_of_several(drawn: str) -> None:
    env = GymEnv(drawn, num_envs=2, from_pixels=True)
    assert env.rollout(2)["next", "pixels"].shape == (2, 2, 6, 4, 3)
    env.close()


# attributes


def test_attributes_of_the_environment_inside() -> None:
    env = GymEnv("Pendulum-v1", render_mode="rgb_array")
    env.reset()
    assert env.spec.max_episode_steps == 200
    assert env.render().shape == (500, 500, 3)
    assert env.unwrapped is env._env.unwrapped
    assert env.action_space == env.wrapped.action_space
    assert env.lib is gymnasium
    assert env.env_name == "Pendulum-v1"
    assert GymEnv.get_library_name(gymnasium.make("CartPole-v1")) == "gymnasium"
    assert {"CartPole-v1", "Pendulum-v1"} <= set(GymEnv.available_envs)
    assert env.available_envs == sorted(env.available_envs)
    env.fast_encoding()
    for name in ("no_such_thing", "__no_such_thing__"):
        with pytest.raises(AttributeError, match=name):
            getattr(env, name)
    with pytest.raises(ImportError, match="are not Gymnasium's"):
        GymEnv.get_library_name(object())
    assert repr(env) == "GymEnv(env=Pendulum-v1, batch_size=torch.Size([]), device=None)"


def test_a_closed_environment_says_so() -> None:
    # E22
    env = GymEnv("CartPole-v1")
    td = env.rand_action(env.reset())
    env.close()
    for call in (
        env.reset,
        lambda: env.step(td),
        lambda: env.step_and_maybe_reset(td),
        lambda: env.rollout(3),
    ):
        with pytest.raises(RuntimeError, match="GymEnv is closed"):
            call()


# arguments


def test_arguments_by_name_and_place() -> None:
    assert GymEnv(env_name="CartPole-v1", backend="gymnasium").batch_size == ()
    inner = gymnasium.make("CartPole-v1")
    assert GymWrapper(inner, True).action_spec.shape == ()
    assert GymWrapper(env=inner).action_spec == OneHot(2, dtype=torch.int64)
    with pytest.raises(ImportError, match="backend must be 'gymnasium', found 'gym'"):
        GymEnv("CartPole-v1", backend="gym")
    with pytest.raises(gymnasium.error.Error):
        GymEnv("NoSuch-v7")


def test_actions_may_stay_tensors() -> None:
    class Tensors(Drawn):
        def step(self, action: Any) -> Any:
            assert isinstance(action, torch.Tensor)
            return super().step(action)

    env = GymWrapper(Tensors(), convert_actions_to_numpy=False)
    assert env.rollout(9).shape == (3,)


def test_spaces_of_rewards() -> None:
    class Goals(Drawn):
        reward_space = spaces.Box(-1.0, 1.0, (2,))

        def step(self, action: Any) -> Any:
            observation, _, terminated, truncated, info = super().step(action)
            return observation, np.array([0.25, 0.5]), terminated, truncated, info

    env = GymWrapper(Goals())
    assert env.reward_spec.shape == (2,)
    check_env_specs(env)
    assert env.rollout(9)["next", "reward"].tolist() == [[0.25, 0.5]] * 3


def test_renamed_keys() -> None:
    env = GymEnv("CartPole-v1")
    env.full_action_spec = Composite(agent=Composite(move=OneHot(2, dtype=torch.int64)))
    env.full_reward_spec = Composite(gain=Unbounded((1,)))
    data = env.rollout(3)
    assert data["agent", "move"].shape == (3, 2)
    assert data["next", "gain"].tolist() == [[1.0]] * 3


def test_moving() -> None:
    torch.manual_seed(0)
    env = GymEnv("CartPole-v1", device="cpu")
    env.set_seed(0)
    data = env.rollout(5)
    assert data.device == torch.device("cpu")
    torch.manual_seed(0)
    other = GymEnv("CartPole-v1").to("cpu")
    other.set_seed(0)
    assert_identical(other.rollout(5), data)
    td = TensorDict({"action": torch.tensor([0, 1])}, device="cpu")
    assert other.step(td)["next"].device == torch.device("cpu")


def test_flags_must_be_told() -> None:
    class Silent(gymnasium.Env):  # type: ignore[type-arg]
        observation_space = action_space = spaces.Box(-1, 1, (2,), np.float32)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return np.zeros(2, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), 0.0, None, False, {}

    env = GymWrapper(Silent())
    for call in (
        env.read_done,
        lambda: env.read_done(None, True),
        lambda: env._step(env.rand_action(env.reset())),
    ):
        with pytest.raises(TypeError, match=r"read_done needs terminated \(or done\), found None"):
            call()
    terminated, truncated, done, over = env.read_done(done=True)
    assert [terminated.item(), truncated.item(), done.item(), over] == [True, False, True, True]


def test_workers() -> None:
    env: Any = GymEnv("CartPole-v1", num_workers=2)
    assert env.rollout(3).shape == (2, 3)
    env.close()
    with pytest.raises(ValueError, match="num_workers must be 1 or more, found 0"):
        GymEnv("CartPole-v1", num_workers=0)
