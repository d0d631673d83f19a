"""Single environments behind Gymnasium's interface."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from specgen_runtime.envs import EnvBase, GymEnv
from specgen_runtime.interop import to_gymnasium
from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms import TransformedEnv
from specgen_std.envs.cartpole import CartPole
from specgen_std.envs.pendulum import Pendulum
from specgen_std.transforms import StepCounter

from tests.envs.counting import Counting, Grid, Scripted
from tests.interop.envs import Levers, Only, Team, Walk, generated

gymnasium = pytest.importorskip("gymnasium", reason="the extra `gym`")
spaces = gymnasium.spaces

ENVS: dict[str, Callable[[], EnvBase[Any]]] = {
    env.__name__: env for env in generated() if env().reward_keys == ["reward"]
}
ENVS |= {
    "counting": Counting,
    "walk": Walk,
    "masked walk": partial(Walk, masked=True),
    "chain": lambda: TransformedEnv(CartPole(), StepCounter(max_steps=9)),
    "gym": lambda: GymEnv("CartPole-v1"),
    "gym continuous": lambda: GymEnv("Pendulum-v1"),
    "gym tuple": lambda: GymEnv("Blackjack-v1"),
}
each_env = pytest.mark.parametrize("name", ENVS)


@each_env
def test_check_env(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    env = to_gymnasium(ENVS[name]())
    assert isinstance(env, gymnasium.Env)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bounds that are infinite, actions that are not within [-1, 1]
        check_env(env, skip_render_check=True)


@each_env
def test_the_same_episode(name: str) -> None:
    """What Gymnasium sees is what the environment gives for the same seed and actions."""
    mine, env = ENVS[name](), to_gymnasium(ENVS[name]())
    mine.set_seed(5)
    root = mine.reset()
    seen, _ = env.reset(seed=5)
    env.action_space.seed(0)
    converter = env._converter
    for _ in range(30):
        assert equal(seen, converter.observation(root))
        action = env.action_space.sample()
        converter.write_action(root, action)
        now = mine.step(root)
        seen, reward, terminated, truncated, _ = env.step(action)
        following = now["next"]
        assert type(reward) is float
        assert type(terminated) is type(truncated) is bool
        assert reward == following["reward"].item()
        assert terminated == following["terminated"].item()
        assert (terminated or truncated) == following["done"].item()
        root = mine.step_mdp(now)
        if terminated or truncated:
            assert equal(seen, converter.observation(following))
            root, (seen, _) = mine.reset(), env.reset()


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, tuple):
        return all(equal(*pair) for pair in zip(left, right, strict=True))
    return bool(np.array_equal(left, right))


def test_against_gymnasium() -> None:
    """A wrapped Gymnasium environment gives what it gives by itself."""
    raw, env = gymnasium.make("CartPole-v1"), to_gymnasium(GymEnv("CartPole-v1"))
    assert env.action_space == raw.action_space
    assert env.observation_space == raw.observation_space
    assert env.spec is not None
    assert env.spec.id == "CartPole-v1"
    for seed in (3, None):
        expected, found = raw.reset(seed=seed), env.reset(seed=seed)
        assert np.array_equal(expected[0], found[0])
        done = False
        while not done:
            action = int(np.random.default_rng(0).integers(2))
            expected, found = raw.step(action), env.step(action)
            assert np.array_equal(expected[0], found[0])
            assert expected[1:4] == found[1:4]
            done = expected[2] or expected[3]


def test_spaces() -> None:
    env = to_gymnasium(CartPole())
    assert env.action_space == spaces.Discrete(2)
    assert isinstance(env.observation_space, spaces.Box)
    assert env.observation_space.shape == (4,)
    assert env.observation_space.dtype == np.float32
    assert to_gymnasium(Walk()).action_space == spaces.Discrete(3), "one-hot inside"
    assert to_gymnasium(Pendulum()).action_space == spaces.Box(-2.0, 2.0, (1,), np.float32)
    assert to_gymnasium(Counting()).metadata["render_modes"] == []


def test_one_hot_actions_are_classes() -> None:
    env = to_gymnasium(Walk())
    start, _ = env.reset(seed=0)
    for action, move in ((0, -1), (2, 1), (1, 0), (np.int64(2), 1)):
        before = start
        start = env.step(action)[0]
        assert np.allclose(start - before, move)


@pytest.mark.parametrize("action", [3, -1, 0.5, np.zeros(3)], ids=str)
def test_actions_that_are_none_are_refused(action: Any) -> None:
    env = to_gymnasium(Walk())
    env.reset()
    with pytest.raises(ValueError, match="the action must be of "):
        env.step(action)
    continuous = to_gymnasium(Pendulum())
    continuous.reset()
    with pytest.raises(ValueError, match="the action must be of Box"):
        continuous.step(np.zeros(2))


def test_a_step_needs_a_reset() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
        to_gymnasium(CartPole()).step(0)


def test_seeds() -> None:
    env = to_gymnasium(CartPole())
    first, second = env.reset(seed=1)[0], env.reset()[0]
    assert np.array_equal(env.reset(seed=1)[0], first)
    assert np.array_equal(env.reset()[0], second)
    assert not np.array_equal(first, second)


class TestObservationKeys:
    def test_the_observation_alone(self) -> None:
        """State, counters and masks stay behind."""
        env = to_gymnasium(TransformedEnv(Walk(masked=True), StepCounter()))
        assert env.observation_space.shape == (2,)

    def test_one_key(self) -> None:
        env = to_gymnasium(TransformedEnv(CartPole(), StepCounter()), observation_keys="step_count")
        assert env.observation_space.shape == (1,)
        env.reset()
        assert env.step(0)[0] == [1]

    def test_several_keys(self) -> None:
        env = to_gymnasium(CartPole(), observation_keys=["x", "observation"])
        assert set(env.observation_space.spaces) == {"x", "observation"}
        seen, _ = env.reset()
        assert seen in env.observation_space
        assert seen["x"] == seen["observation"][0]

    def test_a_list_of_one(self) -> None:
        env = to_gymnasium(CartPole(), observation_keys=["observation"])
        assert isinstance(env.observation_space, spaces.Dict)

    def test_nested_keys(self) -> None:
        env = to_gymnasium(Team(), observation_keys=("agents", "observation"))
        assert env.observation_space.shape == (2, 4)
        group = to_gymnasium(Team(), observation_keys="agents")
        assert set(group.observation_space.spaces) == {"observation"}
        listed = to_gymnasium(Team(), observation_keys=[("agents", "observation"), "time"])
        seen, _ = listed.reset()
        assert seen in listed.observation_space
        assert seen["agents"]["observation"].shape == (2, 4)

    def test_without_one_of_that_name(self) -> None:
        assert to_gymnasium(Team()).observation_space.shape == (2, 4), "all but the state"
        assert to_gymnasium(Only()).observation_space.shape == (1,), "the state, if there is nothing else"

    @pytest.mark.parametrize("keys", ["nothing", ["observation", "nothing"], ("agents", "nothing")], ids=str)
    def test_unknown_keys(self, keys: Any) -> None:
        with pytest.raises(KeyError, match="nothing"):
            to_gymnasium(CartPole(), observation_keys=keys)


def test_several_actions() -> None:
    env = to_gymnasium(Levers())
    assert env.action_space == spaces.Dict(
        {
            "force": spaces.Box(-1.0, 1.0, (1,)),
            "hand": spaces.Dict({"fingers": spaces.MultiDiscrete([2, 3]), "open": spaces.MultiBinary(4)}),
            "gear": spaces.Discrete(5, dtype=np.int32),
        }
    )
    env.reset()
    env.action_space.seed(0)
    for _ in range(4):
        env.step(env.action_space.sample())


class TestMasks:
    def test_of_an_observation_of_that_name(self) -> None:
        env = to_gymnasium(Walk(masked=True))
        _, info = env.reset(seed=0)
        assert info["action_mask"].dtype == np.int8
        assert info["action_mask"].tolist() == [0, 1, 1]
        assert env.action_space.sample(mask=info["action_mask"]) in (1, 2)
        assert env.step(1)[4]["action_mask"].tolist() == [1, 0, 1]
        assert env.action_masks().tolist() == [1, 0, 1]

    def test_through_transforms(self) -> None:
        env = to_gymnasium(TransformedEnv(Walk(masked=True), StepCounter()))
        assert env.reset()[1]["action_mask"].tolist() == [0, 1, 1]

    def test_there_are_none(self) -> None:
        env = to_gymnasium(Walk())
        assert env.reset()[1] == {}
        with pytest.raises(AttributeError, match="no action masks"):
            env.action_masks()


def test_options() -> None:
    env = to_gymnasium(Walk())
    plain = env.reset(seed=0)[0]
    assert np.allclose(env.reset(seed=0, options={"shift": 2.0})[0], plain + 2)
    inside = to_gymnasium(TransformedEnv(GymEnv("CartPole-v1"), StepCounter()))
    raw = gymnasium.make("CartPole-v1")
    options = {"low": -0.01, "high": 0.01}
    assert np.array_equal(inside.reset(seed=0, options=options)[0], raw.reset(seed=0, options=options)[0])
    with pytest.raises(TypeError, match="shift"):
        to_gymnasium(CartPole()).reset(options={"shift": 2.0})


def test_rendering() -> None:
    pytest.importorskip("pygame")
    env = to_gymnasium(TransformedEnv(GymEnv("CartPole-v1", render_mode="rgb_array"), StepCounter()))
    assert env.render_mode == "rgb_array"
    assert "rgb_array" in env.metadata["render_modes"]
    env.reset()
    assert env.render().shape == (400, 600, 3)
    with pytest.raises(NotImplementedError):
        to_gymnasium(Counting()).render()
    drawn = to_gymnasium(CartPole())
    drawn.reset()
    assert drawn.render().shape[-1] == 3


class Drawn(Counting):
    """Renders itself."""

    metadata: ClassVar = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def render(self) -> str:
        return "a picture"


def test_rendering_of_our_own() -> None:
    env = to_gymnasium(TransformedEnv(Drawn(), StepCounter()))
    assert env.render() == "a picture"
    assert env.render_mode == "ansi"


def test_closing() -> None:
    env = to_gymnasium(Counting())
    env.close()
    env.close()
    assert env.wrapped.is_closed


def test_pickling() -> None:
    env = pickle.loads(pickle.dumps(to_gymnasium(CartPole())))
    env.reset(seed=0)
    assert env.step(1)[0].shape == (4,)


def test_wrappers_of_gymnasium() -> None:
    env = gymnasium.wrappers.TimeLimit(
        gymnasium.wrappers.RecordEpisodeStatistics(to_gymnasium(Pendulum())), 5
    )
    env.reset(seed=0)
    *_, truncated, _info = [env.step(env.action_space.sample()) for _ in range(5)][-1]
    assert truncated
    assert "Pendulum" in str(env)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Grid(), ValueError, "knows one reward"),
        (lambda: Grid(root_done=False), ValueError, "knows one"),
        (lambda: CartPole(batch_size=(2, 3)), ValueError, r"\[2, 3\]"),
        (lambda: 3, TypeError, "needs an EnvBase"),
        (lambda: gymnasium.make("CartPole-v1"), TypeError, "needs an EnvBase"),
    ],
    ids=["rewards", "ends", "batch", "number", "gymnasium"],
)
def test_what_gymnasium_can_not_say_is_refused(
    make: Callable[[], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        to_gymnasium(make())


def test_ends_of_several_agents_are_refused() -> None:
    class Alone(Grid):
        def __init__(self) -> None:
            super().__init__(root_done=False)
            self.full_reward_spec = Composite(reward=Unbounded((1,)))

    with pytest.raises(ValueError, match=r"one end of an episode.*'agents', 'done'\) \[2, 1\]"):
        to_gymnasium(Alone())


def test_an_end_without_a_cut() -> None:
    env = to_gymnasium(Scripted(flags=("done", "terminated")))
    env.reset()
    assert env.step(np.zeros(1, np.float32))[2:4] == (False, False)


def test_autoreset_is_for_batches() -> None:
    with pytest.raises(TypeError, match="autoreset_mode is for batches"):
        to_gymnasium(CartPole(), autoreset_mode="SameStep")


def test_what_is_wrong_with_an_action() -> None:
    env = to_gymnasium(CartPole())
    env.reset()
    with pytest.raises(ValueError, match=r"the action must be of Discrete\(2\), found 2"):
        env.step(2)
    env = to_gymnasium(Pendulum())
    env.reset()
    with pytest.raises(TypeError, match=r"the action must be of Box\(.*, found None"):
        env.step(None)


class Stopping(Counting):
    """Is done after three steps, without saying why."""

    def __init__(self) -> None:
        super().__init__()
        flag = self.full_done_spec["done"].clone()
        self.full_done_spec = Composite(done=flag, terminated=flag.clone())

    def _step(self, tensordict: Any) -> Any:
        following = super()._step(tensordict).exclude("truncated")
        return following.set("done", following["count"] >= 3)


def test_what_is_done_for_no_stated_reason_is_truncated() -> None:
    env = to_gymnasium(Stopping())
    env.reset()
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_wrappers_that_stack_and_clip() -> None:
    wrappers = pytest.importorskip("gymnasium.wrappers")
    env = wrappers.RecordEpisodeStatistics(
        wrappers.TimeLimit(
            wrappers.FrameStackObservation(wrappers.ClipAction(to_gymnasium(Pendulum())), 4), 10
        )
    )
    env.reset(seed=0)
    for step in range(1, 11):
        observation, _, terminated, truncated, info = env.step([5.0])
        assert observation.shape == (4, 3)
        assert not terminated
        assert truncated == (step == 10)
    assert info["episode"]["l"] == 10
