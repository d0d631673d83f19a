"""What a program imports from TorchRL's environments and specs, it finds here under the same name."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import (
    GymEnv,
    GymLikeEnv,
    GymWrapper,
    MarlGroupMapType,
    check_env_specs,
    check_marl_grouping,
    default_info_dict_reader,
    gym_backend,
    register_gym_spec_conversion,
    set_gym_backend,
    terminal_obs_reader,
    terminated_or_truncated,
)
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from specgen_runtime.specs import gymnasium as spaces_and_specs
from tensordict import TensorDict

NAMES = {
    "envs": (
        "EnvBase GymEnv GymWrapper GymLikeEnv SerialEnv ParallelEnv check_env_specs step_mdp default_info_dict_reader"
        " set_exploration_type exploration_type ExplorationType gym_backend set_gym_backend make_composite_from_td"
        " register_gym_spec_conversion MarlGroupMapType check_marl_grouping terminated_or_truncated"
    ),
    "envs.utils": (
        "check_env_specs step_mdp terminated_or_truncated MarlGroupMapType check_marl_grouping make_composite_from_td"
        " check_no_exclusive_keys consolidate_spec set_exploration_type exploration_type ExplorationType"
    ),
    "envs.gym": "gym_backend set_gym_backend register_gym_spec_conversion terminal_obs_reader GymEnv GymWrapper",
    "specs": "consolidate_spec check_no_exclusive_keys contains_lazy_spec make_composite_from_td",
    "": "make_composite_from_td default_info_dict_reader check_env_specs step_mdp Composite EnvBase",
}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in NAMES.items() for n in names.split()])
def test_name(module: str, name: str) -> None:
    found = importlib.import_module(f"specgen_runtime.{module}".rstrip("."))
    assert hasattr(found, name)
    assert name in found.__all__


OLD = "CompositeSpec BoundedTensorSpec UnboundedContinuousTensorSpec DiscreteTensorSpec OneHotDiscreteTensorSpec"


@pytest.mark.parametrize("name", OLD.split())
def test_older_names_at_the_top(name: str) -> None:
    import specgen_runtime

    with pytest.warns(DeprecationWarning, match=f"{name} is now called") as warned:
        getattr(specgen_runtime, name)
    assert warned[0].filename == __file__


class TestGroups:
    AGENTS = ("a", "b", "c")

    @pytest.mark.parametrize("kind", MarlGroupMapType)
    def test_usual_groupings_are_right(self, kind: MarlGroupMapType) -> None:
        groups = kind.get_group_map(list(self.AGENTS))
        check_marl_grouping(groups, list(self.AGENTS))
        assert sorted(name for names in groups.values() for name in names) == list(self.AGENTS)

    def test_names(self) -> None:
        assert MarlGroupMapType.ALL_IN_ONE_GROUP.get_group_map(["a", "b"]) == {"agents": ["a", "b"]}
        assert MarlGroupMapType.ONE_GROUP_PER_AGENT.get_group_map(["a", "b"]) == {"a": ["a"], "b": ["b"]}

    @pytest.mark.parametrize(
        ("groups", "agents", "message"),
        [
            ({}, [], "there are no agents"),
            ({"g": ["a"]}, ["a", "a"], "several called a"),
            ({"g": [], "h": ["a"]}, ["a"], "group 'g' is empty"),
            ({"g": ["a", "x"]}, ["a"], "group 'g': the environment has no agent 'x', only a"),
            ({"g": ["a"], "h": ["b", "a"]}, ["a", "b"], "agent 'a' is in group 'g' and again in 'h'"),
            ({"g": ["a"]}, ["a", "b"], "agents in no group: b"),
        ],
    )
    def test_faults(self, groups: Any, agents: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_marl_grouping(groups, agents)


class TestTerminatedOrTruncated:
    DATA = (
        {"done": True, "truncated": False, "nested": {"done": False, "truncated": True}},
        {"done": False, "terminated": False, "nested": {"done": False, "truncated": True}},
        {"done": False, "nested": {"done": False, "x": 1.0}},
        {"observation": 1.0},
        {"done": False, "_reset": True, "nested": {"done": False, "_reset": True, "x": 1.0}},
    )

    @pytest.mark.peers
    @pytest.mark.parametrize("data", DATA)
    @pytest.mark.parametrize("full", [True, False])
    @pytest.mark.parametrize("key", ["_reset", "over", None])
    def test_as_torchrl(self, data: Any, full: bool, key: str | None) -> None:
        peer = pytest.importorskip("torchrl.envs.utils")
        own, theirs = TensorDict(data), TensorDict(data)
        found = terminated_or_truncated(own, None, key, full)
        expected = peer.terminated_or_truncated(theirs, None, key, full)
        assert found is bool(expected)
        assert set(own.keys(True, True)) == set(theirs.keys(True, True))
        assert all(torch.equal(own[k], theirs[k]) for k in own.keys(True, True))

    def test_flags_that_a_spec_names(self) -> None:
        flag = Categorical(2, shape=(3, 1), dtype=torch.bool)
        spec = Composite(done=flag, lost=flag, agents=Composite(done=flag, shape=(3,)), shape=(3,))
        lost = torch.tensor([[False], [True], [False]])
        data = TensorDict({"done": torch.zeros(3, 1, dtype=torch.bool), "lost": lost, "agents": {}}, [3])
        assert terminated_or_truncated(data, spec)
        assert torch.equal(data["_reset"], lost)
        assert not data["agents", "_reset"].any()


class TestBackend:
    def test_gymnasium(self) -> None:
        assert gym_backend() is gymnasium
        assert gym_backend("wrappers") is gymnasium.wrappers
        for backend in ("gymnasium", gymnasium, lambda: gymnasium):
            with set_gym_backend(backend):
                assert gym_backend() is gymnasium
        set_gym_backend("gymnasium").set()

    def test_decorator(self) -> None:
        @set_gym_backend("gymnasium")
        def backend() -> ModuleType:
            return gym_backend()

        assert backend() is gymnasium

    def test_another_library(self) -> None:
        with pytest.raises(ImportError, match="with Gymnasium, not with 'gym'"):
            set_gym_backend("gym")


class Sphere(gymnasium.Space):  # type: ignore[type-arg]
    """Points of length 1: a space that no spec of its own describes."""

    def __init__(self, n: int) -> None:
        super().__init__((n,), np.float32)

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        return np.eye(*self.shape, dtype=np.float32)[0]  # type: ignore[misc]

    def contains(self, x: Any) -> bool:
        return bool(np.isclose(np.linalg.norm(x), 1))


class OnSphere(gymnasium.Env):  # type: ignore[type-arg]
    observation_space = Sphere(3)
    action_space = Sphere(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert type(action) is np.ndarray
        assert action.shape == (2,)
        return self.observation_space.sample(), 1.0, False, False, {}


class TestSpaces:
    @pytest.fixture(autouse=True)
    def _forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(spaces_and_specs, "_conversions", {})

    def test_unknown_space_says_what_to_do(self) -> None:
        with pytest.raises(TypeError, match="register_gym_spec_conversion"):
            GymWrapper(OnSphere())

    @pytest.mark.parametrize("name", [Sphere, f"{Sphere.__module__}.Sphere"])
    def test_registered_space(self, name: Any) -> None:
        @register_gym_spec_conversion(name)
        def convert(space: Any, device: Any = None, **kwargs: Any) -> Any:
            return Bounded(-1, 1, space.shape, device)

        env = GymWrapper(OnSphere())
        check_env_specs(env)
        assert env.rollout(3)["next", "observation"].shape == (3, 3)

    def test_comes_before_what_is_built_in(self) -> None:
        @register_gym_spec_conversion("box.Box")
        def convert(space: Any, **kwargs: Any) -> Any:
            return Unbounded(space.shape, dtype=torch.float64)

        env = GymEnv("CartPole-v1")
        assert env.observation_spec["observation"] == Unbounded((4,), dtype=torch.float64)
        check_env_specs(env)

    def test_what_is_no_spec_is_refused(self) -> None:
        @register_gym_spec_conversion(Sphere)
        def convert(space: Any, **kwargs: Any) -> Any:
            return space

        with pytest.raises(TypeError, match="registered for Sphere must return a spec, returned Sphere"):
            GymWrapper(OnSphere())


class Countdown:
    """A simulator of its own kind: three numbers back from `step`, a text flag, no spaces."""

    def __init__(self, start: int = 5) -> None:
        self.start = self.left = start
        self.closed = False
        self.seeds: list[Any] = []

    def reset(self) -> int:
        self.left = self.start
        return self.left

    def step(self, action: Any) -> tuple[Any, float, str]:
        self.left -= 1 + int(action)
        return self.left, float(action), "over" if self.left <= 0 else "on"

    def close(self) -> None:
        self.closed = True


class CountdownEnv(GymLikeEnv):
    """As a program for TorchRL would write it."""

    def __init__(self, start: int = 5, **kwargs: Any) -> None:
        super().__init__(start=start, **kwargs)

    def _check_kwargs(self, kwargs: Any) -> None:
        if kwargs["start"] < 1:
            raise ValueError("start must be positive")

    def _build_env(self, start: int, **kwargs: Any) -> Countdown:
        return Countdown(start)

    def _make_specs(self, env: Countdown) -> None:
        self.observation_spec = Composite(observation=Unbounded((1,)), shape=self.batch_size)
        self.action_spec = Categorical(2)
        self.reward_spec = Unbounded((1,))

    def _init_env(self) -> None:
        self._env.ready = True  # type: ignore[attr-defined]

    def _set_seed(self, seed: int | None) -> None:
        self._env.seeds.append(seed)

    def _output_transform(self, step_outputs_tuple: Any) -> Any:
        left, reward, flag = step_outputs_tuple
        over = flag == "over"
        return np.array([left]), reward, over, False, over, {"left": np.int64(left)}

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> Any:
        return np.array([reset_outputs_tuple]), {"left": np.int64(reset_outputs_tuple)}


class TestGymLikeEnv:
    def test_contract(self) -> None:
        env = CountdownEnv()
        check_env_specs(env)
        assert env.ready
        assert env.start == 5  # of the simulator
        assert isinstance(GymEnv("CartPole-v1"), GymLikeEnv)

    def test_rollout(self) -> None:
        data = CountdownEnv().rollout(10, lambda observation: torch.tensor(1))
        assert data["next", "observation"].flatten().tolist() == [3.0, 1.0, -1.0]
        assert data["next", "terminated"].flatten().tolist() == [False, False, True]
        assert "truncated" not in data

    def test_frame_skip_sums_and_stops_at_the_end(self) -> None:
        env = CountdownEnv(frame_skip=2)
        data = env.rollout(10, lambda observation: torch.tensor(1))
        assert data["next", "observation"].flatten().tolist() == [1.0, -1.0]
        assert data["next", "reward"].flatten().tolist() == [2.0, 1.0]

    def test_info_readers(self) -> None:
        env = CountdownEnv().set_info_dict_reader(
            default_info_dict_reader(["left"], [Unbounded((), dtype=torch.int64)])
        )
        assert env.rollout(3, lambda observation, left: torch.tensor(0))["next", "left"].tolist() == [4, 3, 2]
        learnt = CountdownEnv().auto_register_info_dict()
        assert learnt.observation_spec["left"] == Unbounded((), dtype=torch.int64)

    def test_truncated_where_it_is_declared(self) -> None:
        env = CountdownEnv().add_truncated_keys()
        check_env_specs(env)
        assert not env.rollout(3)["next", "truncated"].any()

    def test_faults(self) -> None:
        with pytest.raises(ValueError, match="start must be positive"):
            CountdownEnv(0)
        with pytest.raises(ValueError, match="frame_skip must be an integer of at least 1"):
            CountdownEnv(frame_skip=0)

        class Unsaid(CountdownEnv):
            _build_env = GymLikeEnv._build_env

        with pytest.raises(TypeError, match="Unsaid must write _build_env, or be given env="):
            Unsaid()

    @pytest.mark.parametrize("method", ["_make_specs", "_output_transform", "_reset_output_transform"])
    def test_a_method_left_out(self, method: str) -> None:
        unsaid = type("Unsaid", (CountdownEnv,), {method: getattr(GymLikeEnv, method)})
        with pytest.raises(NotImplementedError, match=f"Unsaid must write {method}"):
            unsaid().rand_step()

    def test_seeds_and_closing_reach_the_simulator(self) -> None:
        env = CountdownEnv()
        inner = env.wrapped
        env.set_seed(3)
        env.close()
        assert inner.seeds == [3]
        assert inner.closed

    def test_observations_by_key(self) -> None:
        class Named(CountdownEnv):
            def _make_specs(self, env: Countdown) -> None:
                super()._make_specs(env)
                self.observation_spec = Composite(left=Unbounded((1,)), twice=Unbounded((1,)))

            def _output_transform(self, step_outputs_tuple: Any) -> Any:
                left, *others = super()._output_transform(step_outputs_tuple)
                return {"left": left, "twice": 2 * left}, *others

            def _reset_output_transform(self, reset_outputs_tuple: Any) -> Any:
                left, info = super()._reset_output_transform(reset_outputs_tuple)
                return {"left": left, "twice": 2 * left}, info

        env = Named()
        check_env_specs(env)
        data = env.rollout(3)
        assert torch.equal(data["next", "twice"], 2 * data["next", "left"])


class TestTerminalObservations:
    def test_same_step_vectors(self) -> None:
        vector = gymnasium.make_vec(
            "CartPole-v1",
            num_envs=3,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP},
            max_episode_steps=4,
        )
        env = GymWrapper(vector, categorical_action_encoding=True)
        reader = terminal_obs_reader(env.observation_spec, backend="gymnasium")
        env.set_info_dict_reader(reader)
        env.set_seed(0)
        data = env.rollout(4, break_when_any_done=False)
        final, following = data["next", "final", "observation"], data["next", "observation"]
        assert not final[:, :3].any()
        assert torch.equal(final[:, 3], following[:, 3])  # this wrapper's own data end with it too
        assert env.observation_spec["final", "observation"].shape == (3, 4)

    def test_unknown_backend(self) -> None:
        with pytest.raises(ValueError, match="backend must be one of sb3, gym, gymnasium, found 'brax'"):
            terminal_obs_reader(Composite(observation=Unbounded((2, 4)), shape=(2,)), backend="brax")
