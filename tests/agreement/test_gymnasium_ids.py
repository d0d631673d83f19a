"""GymEnv against TorchRL's GymEnv and against Gymnasium itself: the same ids, seeds and actions, the same data.

Where the two libraries mean to differ:

- TorchRL's `set_seed` resets with the seed at once, so that its first `reset` begins Gymnasium's *second* episode of
  that seed; ours begins the first (`test_the_first_episode_of_a_seed`). Here ours is reset once more.
- Observations of a Discrete space are one-hot in both unless `categorical_action_encoding` is given.
- both make Atari environments without frames skipped inside (`frameskip=1`), unlike `gymnasium.make`.
- TorchRL can't run Blackjack, whose observation is a Tuple; it is compared with Gymnasium itself.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from specgen_runtime.envs import GymEnv
from specgen_runtime.testing import assert_identical
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std import transforms as own
from tensordict import TensorDict, TensorDictBase

ATARI, MUJOCO = "ALE/Pong-v5", "HalfCheetah-v5"

IDS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {},
    "MountainCar-v0": {"max_episode_steps": 50},
    "MountainCarContinuous-v0": {"max_episode_steps": 50},
    "Acrobot-v1": {"max_episode_steps": 50},
    "Pendulum-v1": {},
    "FrozenLake-v1": {},
    "FrozenLake-v1, not slippery": {"is_slippery": False},
    "FrozenLake8x8-v1": {},
    "Taxi-v4": {"max_episode_steps": 50},
    "CliffWalking-v1": {"max_episode_steps": 30},
    "CliffWalkingSlippery-v1": {"max_episode_steps": 30},
    ATARI: {"max_episode_steps": 12},
    MUJOCO: {"max_episode_steps": 40},
}
"""Arguments of `gymnasium.make`; a time limit where episodes would not end within a test."""

STEPS = {"Pendulum-v1": 450}
"""More than two episodes of Gymnasium's own time limit; others take 120 steps."""

FRAMES: dict[str, dict[str, Any]] = {ATARI: {"frameskip": 1}}
"""What Gymnasium itself must be told to make the same."""

each_id = pytest.mark.parametrize("name", IDS)
each_encoding = pytest.mark.parametrize("categorical", [True, False], ids=["index", "one_hot"])


def id_of(name: str) -> str:
    return name.split(",")[0]


def steps_of(name: str) -> int:
    return STEPS.get(name, 120) if name not in (ATARI, MUJOCO) else 100


@pytest.fixture(autouse=True)
def _simulators(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params.get("name", "") if hasattr(request.node, "callspec") else ""
    if name == ATARI:
        gymnasium.register_envs(pytest.importorskip("ale_py"))
    if name == MUJOCO and importlib.util.find_spec("mujoco") is None:
        pytest.skip("mujoco is not installed")


def actions_for(name: str, count: int) -> list[Any]:
    env = gymnasium.make(id_of(name), **IDS[name])
    env.action_space.seed(5)
    sampled = [env.action_space.sample() for _ in range(count)]
    env.close()
    return sampled


def encode(space: Any, action: Any, categorical: bool) -> torch.Tensor:
    """What stands under `action` for an action of Gymnasium."""
    if not isinstance(space, gymnasium.spaces.Discrete):
        return torch.from_numpy(np.asarray(action)).to(torch.float32)
    index = torch.tensor(int(action) - int(space.start))
    return index if categorical else torch.nn.functional.one_hot(index, int(space.n))


def drive(
    env: Any, root: TensorDictBase, actions: list[torch.Tensor]
) -> Iterator[tuple[TensorDictBase, TensorDictBase]]:
    """Each transition with the root that follows, through the ends of episodes."""
    for action in actions:
        transition, root = env.step_and_maybe_reset(root.set("action", action.clone()))
        yield transition.clone(), root.clone()


def without_device(data: TensorDictBase) -> TensorDictBase:
    return TensorDict(dict(data.items()), batch_size=data.batch_size)


def begin_as_torchrl(env: Any, seed: int) -> TensorDictBase:
    env.set_seed(seed)
    env.reset()
    started: TensorDictBase = env.reset()
    return started


def compare(
    mine: Any, other: Any, name: str, categorical: bool, seed: int = 7, steps: int | None = None
) -> None:
    """The same starts, transitions, resets, in every key, dtype, shape and bit; more than one episode."""
    space = gymnasium.make(id_of(name), **IDS[name]).action_space
    sampled = actions_for(name, steps_of(name) if steps is None else steps)
    actions = [encode(space, action, categorical) for action in sampled]
    other.set_seed(seed)
    left, right = begin_as_torchrl(mine, seed), other.reset()
    assert_identical(without_device(left), without_device(right), "reset")
    ends = 0
    both = zip(drive(mine, left, actions), drive(other, right, actions), strict=True)
    for step, ((found, root), (expected, next_root)) in enumerate(both):
        assert_identical(found, expected, f"step {step}")
        assert_identical(root, next_root, f"the root after step {step}")
        ends += int(found["next", "done"])
    assert ends >= 2
    mine.close()
    other.close()


@pytest.mark.peers
@each_encoding
@each_id
def test_torchrl_gives_the_same(name: str, categorical: bool) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    arguments: dict[str, Any] = {"categorical_action_encoding": categorical, **IDS[name]}
    compare(GymEnv(id_of(name), **arguments), theirs.GymEnv(id_of(name), **arguments), name, categorical)


Chain = Callable[[Any], list[Any]]
CHAINS: dict[str, Chain] = {
    "StepCounter": lambda lib: [lib.StepCounter(max_steps=17)],
    "StepCounter and RewardSum": lambda lib: [lib.StepCounter(max_steps=17), lib.RewardSum()],
    "InitTracker, RewardScaling, RewardSum": lambda lib: [
        lib.InitTracker(),
        lib.RewardScaling(loc=0.5, scale=2.0),
        lib.RewardSum(),
    ],
}


@pytest.mark.peers
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v4"])
def test_torchrl_gives_the_same_with_transforms(name: str, chain: str) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    parts = CHAINS[chain]
    mine = TransformedEnv(GymEnv(name, **IDS[name]), Compose(*parts(own)))
    other = theirs.TransformedEnv(theirs.GymEnv(name, **IDS[name]), theirs.Compose(*parts(theirs)))
    compare(mine, other, name, categorical=False)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["MountainCarContinuous-v0", "Pendulum-v1"])
def test_torchrl_gives_the_same_observation_norm(name: str) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")

    def norm(lib: Any) -> Any:
        return lib.ObservationNorm(loc=0.25, scale=2.0, in_keys=["observation"])

    mine = TransformedEnv(GymEnv(name, **IDS[name]), norm(own))
    other = theirs.TransformedEnv(theirs.GymEnv(name, **IDS[name]), norm(theirs))
    compare(mine, other, name, categorical=False)


@pytest.mark.peers
@each_encoding
@pytest.mark.parametrize("stop", [True, False], ids=["break", "on"])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Acrobot-v1"])
def test_torchrl_gives_the_same_rollouts(name: str, stop: bool, categorical: bool) -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    results = []
    for lib in (GymEnv, theirs.GymEnv):
        env = lib(name, categorical_action_encoding=categorical)
        env.set_seed(3)
        if lib is GymEnv:
            env.reset()
        torch.manual_seed(3)
        results.append(env.rollout(230, break_when_any_done=stop))
        env.close()
    found, expected = results
    assert found.names == expected.names
    assert_identical(found, expected, "rollout")


@pytest.mark.peers
def test_the_first_episode_of_a_seed() -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    raw = gymnasium.make("Pendulum-v1")
    episodes = [torch.from_numpy(raw.reset(seed=0)[0]), torch.from_numpy(raw.reset()[0])]
    mine, other = GymEnv("Pendulum-v1"), theirs.GymEnv("Pendulum-v1")
    mine.set_seed(0)
    other.set_seed(0)
    assert torch.equal(mine.reset()["observation"], episodes[0])
    assert torch.equal(other.reset()["observation"], episodes[1])


def as_entry(space: Any, value: Any, categorical: bool) -> torch.Tensor:
    """What stands under `observation` for an observation of Gymnasium."""
    if isinstance(space, gymnasium.spaces.Discrete):
        index = torch.tensor(int(value) - int(space.start))
        return index if categorical else torch.nn.functional.one_hot(index, int(space.n))
    return torch.from_numpy(np.array(value))


@each_encoding
@each_id
def test_gymnasium_gives_the_same(name: str, categorical: bool) -> None:
    raw = gymnasium.make(id_of(name), **IDS[name], **FRAMES.get(name, {}))
    env = GymEnv(id_of(name), categorical_action_encoding=categorical, **IDS[name])
    env.set_seed(11)
    root = env.reset()
    observed = "pixels" if name == ATARI else "observation"
    before, _ = raw.reset(seed=11)
    ends = 0
    for step, action in enumerate(actions_for(name, steps_of(name))):
        expected = as_entry(raw.observation_space, before, categorical)
        check(root[observed], expected, f"observation before step {step}")
        root["action"] = encode(raw.action_space, action, categorical)
        transition, root = env.step_and_maybe_reset(root)
        after, reward, terminated, truncated, _ = raw.step(action)
        following = transition["next"]
        check(
            following[observed],
            as_entry(raw.observation_space, after, categorical),
            f"observation after step {step}",
        )
        check(following["reward"], torch.tensor([float(reward)]), f"reward of step {step}")
        for flag, value in (
            ("terminated", terminated),
            ("truncated", truncated),
            ("done", terminated or truncated),
        ):
            check(following[flag], torch.tensor([bool(value)]), f"{flag} of step {step}")
        if terminated or truncated:
            ends += 1
            before, _ = raw.reset()
        else:
            before = after
    assert ends >= 2
    env.close()
    raw.close()


def check(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    assert found.dtype == expected.dtype, what
    assert found.shape == expected.shape, what
    assert torch.equal(found, expected), f"{what}: {found}, expected {expected}"


@each_encoding
def test_blackjack_is_gymnasiums(categorical: bool) -> None:
    raw = gymnasium.make("Blackjack-v1")
    raw.action_space.seed(1)
    env = GymEnv("Blackjack-v1", categorical_action_encoding=categorical)
    env.set_seed(2)
    root = env.reset()
    before, _ = raw.reset(seed=2)
    ends = 0
    for step in range(60):
        parts = list(root["observation"].unbind(0))
        spaces = raw.observation_space.spaces  # type: ignore[attr-defined]
        for part, space, value in zip(parts, spaces, before, strict=True):
            check(part, as_entry(space, value, categorical), f"observation before step {step}")
        action = raw.action_space.sample()
        root["action"] = encode(raw.action_space, action, categorical)
        transition, root = env.step_and_maybe_reset(root)
        before, reward, terminated, truncated, _ = raw.step(action)
        check(transition["next", "reward"], torch.tensor([float(reward)]), f"reward of step {step}")
        assert bool(transition["next", "terminated"]) is terminated
        if terminated or truncated:
            ends += 1
            before, _ = raw.reset()
    assert ends > 10


@pytest.mark.peers
def test_torchrl_cannot_run_blackjack() -> None:
    theirs = pytest.importorskip("torchrl.envs", reason="the extra `peers`")
    with pytest.raises((NotImplementedError, RuntimeError, TypeError, KeyError, AttributeError)):
        theirs.GymEnv("Blackjack-v1").rollout(3)
