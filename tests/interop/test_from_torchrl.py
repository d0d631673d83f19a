"""TorchRL's environments behind our interface."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, check_env_specs
from specgen_runtime.interop import from_torchrl, to_torchrl
from specgen_runtime.specs import Bounded, OneHot
from specgen_runtime.transforms import TransformedEnv
from specgen_std.transforms import RewardSum
from tensordict import TensorDict

from tests.interop.envs import assert_same

pytestmark = pytest.mark.peers

theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
specs = pytest.importorskip("torchrl.data", reason="the extra `peers`")


def gym(name: str = "CartPole-v1", **kwargs: Any) -> Any:
    pytest.importorskip("gymnasium")
    return theirs.GymEnv(name, **kwargs)


def transformed(base: Any) -> Any:
    return theirs.TransformedEnv(
        base, theirs.Compose(theirs.StepCounter(7), theirs.RewardSum(), theirs.InitTracker())
    )


class Agents(theirs.EnvBase):
    """Two agents below `agents`, with flags of their own and at the root."""

    def __init__(self, *batch: int) -> None:
        super().__init__(batch_size=torch.Size(batch))
        shape = (*batch, 2)
        flag = specs.Categorical(2, shape=(*shape, 1), dtype=torch.bool)
        root = specs.Categorical(2, shape=(*batch, 1), dtype=torch.bool)

        def group(**entries: Any) -> Any:
            return specs.Composite(agents=specs.Composite(entries, shape=shape), shape=batch)

        self.action_spec = group(action=specs.OneHot(5, (*shape, 5)))
        self.observation_spec = group(observation=specs.Unbounded((*shape, 4)))
        self.observation_spec["time"] = specs.Unbounded((*batch, 1))
        self.state_spec = specs.Composite(time=specs.Unbounded((*batch, 1)), shape=batch)
        self.reward_spec = group(reward=specs.Unbounded((*shape, 1)))
        done = group(done=flag, terminated=flag.clone())
        done["done"], done["terminated"] = root, root.clone()
        self.done_spec = done

    def observe(self, time: torch.Tensor) -> dict[str, Any]:
        seen = time.unsqueeze(-1).expand(*self.batch_size, 2, 4).clone()
        return {"time": time, "agents": TensorDict({"observation": seen}, (*self.batch_size, 2))}

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        return TensorDict(self.observe(torch.zeros(*self.batch_size, 1)), self.batch_size)

    def _step(self, tensordict: Any) -> Any:
        time = tensordict["time"] + 1
        entries = self.observe(time)
        moved = tensordict["agents", "action"].float().argmax(-1, keepdim=True).float()
        ended = (time >= 4).unsqueeze(-1).expand(*self.batch_size, 2, 1).clone()
        entries["agents"].update({"reward": moved, "done": ended, "terminated": ended.clone()})
        entries |= {"done": time >= 4, "terminated": time >= 4}
        return TensorDict(entries, self.batch_size)

    def _set_seed(self, seed: int | None) -> None:
        pass


ENVS: dict[str, Callable[[], Any]] = {
    "pendulum": theirs.PendulumEnv,
    "gym one-hot": gym,
    "gym categorical": lambda: gym(categorical_action_encoding=True),
    "gym continuous": lambda: gym("Pendulum-v1"),
    "gym on a device": lambda: gym("Pendulum-v1", device="cpu"),
    "gym discrete": lambda: gym("FrozenLake-v1"),
    "transformed": lambda: transformed(gym()),
    "serial": lambda: theirs.SerialEnv(3, gym),
    "serial transformed": lambda: transformed(theirs.SerialEnv(2, gym)),
    "transformed serial": lambda: theirs.SerialEnv(2, lambda: transformed(gym())),
    "serial pendulum": lambda: theirs.SerialEnv(2, theirs.PendulumEnv),
    "tic-tac-toe": theirs.TicTacToeEnv,
    "agents": Agents,
    "agents batch": lambda: Agents(3),
}

each_env = pytest.mark.parametrize("name", ENVS)


@each_env
def test_check_env_specs(name: str) -> None:
    env = from_torchrl(ENVS[name]())
    assert isinstance(env, EnvBase)
    check_env_specs(env, seed=0)


@each_env
def test_the_same_rollouts(name: str) -> None:
    mine, their = from_torchrl(ENVS[name]()), ENVS[name]()
    for stops in (True, False):
        found = []
        for env in (their, mine):
            env.set_seed(3)
            torch.manual_seed(1)
            found.append(env.rollout(25, break_when_any_done=stops))
        assert_same(found[1], found[0])


@each_env
def test_specs_and_keys(name: str) -> None:
    their = ENVS[name]()
    mine = from_torchrl(their)
    assert mine.wrapped is their
    assert mine.batch_size == their.batch_size
    assert mine.device == their.device
    assert mine.batch_locked == their.batch_locked
    for group in ("action", "observation", "reward", "done", "state"):
        assert set(getattr(mine, f"{group}_keys")) == set(getattr(their, f"{group}_keys"))


def test_leaves() -> None:
    assert from_torchrl(gym()).action_spec == OneHot(2, dtype=torch.int64)
    assert from_torchrl(gym("Pendulum-v1")).action_spec == Bounded(-2.0, 2.0, (1,))


def test_our_transforms() -> None:
    env = TransformedEnv(from_torchrl(gym()), RewardSum())
    check_env_specs(env)
    data = env.rollout(40, break_when_any_done=False)
    assert data["next", "episode_reward"].max() > 5


def test_there_and_back_is_the_same_object() -> None:
    their = theirs.PendulumEnv()
    assert to_torchrl(from_torchrl(their)) is their


def test_seeds() -> None:
    single = from_torchrl(gym())
    assert single.set_seed(4) == 4
    batch = from_torchrl(theirs.SerialEnv(2, gym))
    following = batch.set_seed(4)
    assert following == theirs.SerialEnv(2, gym).set_seed(4)
    assert batch.set_seed(4, static_seed=True) == 4
    observed = batch.reset()["observation"]
    assert torch.equal(observed[0], observed[1])


def test_states_can_be_set() -> None:
    env = from_torchrl(theirs.PendulumEnv())
    start = env.reset()
    start["th"], start["thdot"] = torch.tensor(0.5), torch.tensor(-0.25)
    assert env.reset(start.clone(), set_state=True)["th"] == 0.5
    assert env.reset(start.clone(), set_state=False)["th"] != 0.5
    with pytest.raises(NotImplementedError):
        from_torchrl(gym()).reset(set_state=True)


def test_an_end_starts_anew() -> None:
    """The state at the end of an episode is not taken for the one to start from."""
    env = from_torchrl(theirs.TransformedEnv(theirs.PendulumEnv(), theirs.StepCounter(3)))
    env.set_seed(0)
    data = env.rollout(8, break_when_any_done=False)
    assert data["next", "done"].any()
    assert data["step_count"].flatten().tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert not torch.equal(data["th"][3], data["next", "th"][2])


def test_partial_resets() -> None:
    env = from_torchrl(theirs.SerialEnv(3, gym))
    root = env.rollout(4)[:, -1]["next"].exclude("reward")
    root["done"] = root["terminated"] = root["truncated"] = torch.zeros(3, 1, dtype=torch.bool)
    before = root.clone()
    root["_reset"] = torch.tensor([[False], [True], [False]])
    after = env.reset(root)
    assert torch.equal(after["observation"][[0, 2]], before["observation"][[0, 2]])
    assert not torch.equal(after["observation"][1], before["observation"][1])


def test_devices() -> None:
    env = from_torchrl(theirs.PendulumEnv(device="cpu"))
    assert env.device == torch.device("cpu")
    moved = from_torchrl(gym()).to("cpu")
    assert moved.device == moved.wrapped.device == torch.device("cpu")
    check_env_specs(moved)


def test_closing() -> None:
    env = from_torchrl(gym())
    env.close()
    assert env.is_closed
    assert env.wrapped.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()


def test_pickling() -> None:
    env = pickle.loads(pickle.dumps(from_torchrl(theirs.PendulumEnv())))
    check_env_specs(env)


def test_state_dicts() -> None:
    inner = theirs.TransformedEnv(gym("Pendulum-v1"), theirs.VecNormV2(in_keys=["observation"]))
    env = from_torchrl(inner)
    env.rollout(3)
    assert env.state_dict().keys() == inner.state_dict().keys()
    env.load_state_dict(inner.state_dict())


class Faulty(theirs.EnvBase):
    """Gives something wrong, which TorchRL does not notice."""

    def __init__(self, **entries: Any) -> None:
        super().__init__()
        self.entries = entries
        self.observation_spec = specs.Composite(observation=specs.Unbounded((2,)))
        self.action_spec = specs.Bounded(-1, 1, (1,))
        self.reward_spec = specs.Unbounded((1,))

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        return TensorDict({"observation": self.entries.get("start", torch.zeros(2))})

    def _step(self, tensordict: Any) -> Any:
        entries = {
            "observation": torch.zeros(2),
            "reward": torch.zeros(1),
            "terminated": torch.zeros(1, dtype=torch.bool),
            **self.entries,
        }
        return TensorDict({key: value for key, value in entries.items() if value is not None})

    def _set_seed(self, seed: int | None) -> None:
        pass


TRUE = torch.ones(1, dtype=torch.bool)


@pytest.mark.parametrize(
    ("entries", "error", "says"),
    [
        (
            {"start": torch.zeros(3)},
            RuntimeError,
            r"_reset: 'observation' must be torch.float32 \[2\].*found .* \[3\]",
        ),
        (
            {"observation": torch.zeros(7)},
            RuntimeError,
            r"_step: 'observation' must be .*found torch.float32 \[7\]",
        ),
        ({"observation": torch.zeros(2).double()}, RuntimeError, "found torch.float64"),
        ({"observation": None}, KeyError, "the result has no 'observation'"),
        ({"reward": torch.zeros(3)}, RuntimeError, r"'reward' must be torch.float32 \[1\]"),
        ({"reward": None}, KeyError, "the result has no 'reward'"),
        ({"terminated": TRUE, "done": ~TRUE}, RuntimeError, "done flags contradict each other"),
        ({"terminated": None, "done": TRUE, "truncated": TRUE}, RuntimeError, "without 'terminated'"),
    ],
    ids=["start", "shape", "dtype", "missing", "reward", "no reward", "contradiction", "no terminated"],
)
def test_faults_are_reported(entries: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        from_torchrl(Faulty(**entries)).rollout(2)


def test_a_cut_alone_ends_the_episode() -> None:
    """TorchRL leaves `done` False, and never stops."""
    assert from_torchrl(Faulty(terminated=None, truncated=TRUE)).rollout(5).shape == (1,)


def test_rewards_and_flags_get_the_shape_of_their_spec() -> None:
    data = from_torchrl(Faulty(reward=torch.tensor(2.0), terminated=torch.tensor(True))).rollout(5)
    assert data["next", "reward"].tolist() == [[2.0]]
    assert data["next", "done"].tolist() == [[True]]


@pytest.mark.parametrize("given", [3, None, theirs.PendulumEnv], ids=str)
def test_what_is_no_environment_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"from_torchrl needs a torchrl.envs.EnvBase"):
        from_torchrl(given)
