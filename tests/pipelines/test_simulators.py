"""Pipelines around environments that are one at a time: Gymnasium's, and Python's that keep their state."""

from __future__ import annotations

import importlib
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import SerialEnv
from specgen_runtime.training import load_parts, read_log

from tests.pipelines.small import differing, leaves, parts_class, small_config
from tests.support import generate, imported

HEAD = "specgen: 1\ndoc: A training.\nimport: [{imports}]\n"
DQN = """\
pipelines:
  CartLearner:
    doc: A training.
    extends: DQNCartPole
    env: CartPoleGymTrain
    stop: {return: 475}
"""
TD3 = """\
pipelines:
  PendulumLearner:
    doc: A training on Gymnasium's own environment, without a chain.
    extends: TD3Pendulum
    env: PendulumGym
    data: {replay: {n_step: 3}}
"""
PYTHON = """\
envs:
  Track:
    doc: A wheel that is to stand still.
    python: {class: "track_of_tests:Track", stateful: true}
    params: {push: {default: 0.5, min: 0}}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[2]"}
chains:
  TrackTrain:
    doc: It ends after some steps.
    env: Track
    transforms: [{StepCounter: {max_steps: 6}}, RewardSum]
pipelines:
  TrackLearner:
    doc: A training.
    extends: PPOPendulum
    env: {TrackTrain: {push: 0.25}}
    stop: {return: -1}
"""
SCHEMAS = {
    "dqn": HEAD.format(imports="specgen_std/pipelines/dqn_cartpole, specgen_std/chains/cartpole, specgen_std/losses/dqn") + DQN,
    "td3": HEAD.format(imports="specgen_std/pipelines/td3_pendulum, specgen_std/envs/pendulum, specgen_std/chains/pendulum, specgen_std/losses/td3") + TD3,
    "python": HEAD.format(
        imports="specgen_std/pipelines/ppo_pendulum, specgen_std/chains/pendulum, specgen_std/losses/ppo, specgen_std/transforms/step_counter, specgen_std/transforms/reward_sum"
    )
    + PYTHON,
}  # fmt: skip


def _made() -> Any:
    """The generated module of the environment."""
    return importlib.import_module("simulated.python")


class Track:
    """Keeps where the wheel is, and how fast it turns."""

    made: list[float] = []  # noqa: RUF012

    def __init__(self, setup: Any) -> None:
        self.push = setup.params.push
        self.made.append(self.push)
        self.random = torch.Generator()

    def reset(self, seed: int | None) -> Any:
        if seed is not None:
            self.random.manual_seed(seed)
        self.angle, self.speed = torch.rand((), generator=self.random).item(), 0.0
        return _made().TrackReset(observation=[self.angle, self.speed])

    def step(self, action: torch.Tensor) -> Any:
        self.speed += self.push * action.item()
        self.angle += self.speed
        return _made().TrackStep(
            observation=[self.angle, self.speed], reward=-abs(self.angle), terminated=False, truncated=False
        )


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": text for name, text in SCHEMAS.items()}, "simulated")
    sys.modules["track_of_tests"] = sys.modules[__name__]
    with imported(files, "simulated", tmp_path_factory.mktemp("simulated")) as made:
        yield made
    del sys.modules["track_of_tests"]


@pytest.fixture(params=SCHEMAS)
def module(package: ModuleType, request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{request.param}")


@contextmanager
def stopped_after(module: ModuleType, updates: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside, the update behind so many raises InterruptedError."""
    update, done = module.update, 0

    def stopping(*args: Any, **words: Any) -> Any:
        nonlocal done
        if done == updates:
            raise InterruptedError
        done += 1
        return update(*args, **words)

    with monkeypatch.context() as patch:
        patch.setattr(module, "update", stopping)
        with pytest.raises(InterruptedError):
            yield


def test_a_training_has_its_environments_side_by_side(module: ModuleType, tmp_path: Path) -> None:
    parts = module.train(small_config(module), folder=tmp_path / "run")
    assert type(parts.env) is SerialEnv
    assert parts.env.num_workers == 2
    assert type(parts.eval_env) is SerialEnv
    rows = read_log(tmp_path / "run" / "log.csv")
    assert rows[-1]["frames"] == 48
    assert "evaluation" in rows[-1]
    if module.__name__.endswith("python"):
        assert set(Track.made) == {0.25}


def test_the_same_seed_gives_the_same_training(module: ModuleType, tmp_path: Path) -> None:
    config = small_config(module)
    one, same = (module.train(config, folder=tmp_path / name) for name in ("one", "same"))
    assert differing(one.state_dict(), same.state_dict()) == []


def test_a_resumed_training_begins_new_episodes(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(module, total_frames=96)
    with stopped_after(module, 8, monkeypatch):
        module.train(config, folder=tmp_path / "run")
    parts = parts_class(module)(config)
    first = next(iter(parts.collector))["observation"]
    resumed = []
    for name in ("one", "same"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
        with pytest.warns(UserWarning, match="new episodes begin"):
            resumed.append(module.train(config, folder=tmp_path / name, resume=True))
    assert differing(resumed[0].state_dict(), resumed[1].state_dict()) == []
    rows = read_log(tmp_path / "one" / "log.csv")
    frames = [row["frames"] for row in rows]
    assert frames == sorted(set(frames))
    assert frames[-1] == 96
    state = resumed[0].state_dict()["collector"]
    assert state["root"] is None
    again = parts_class(module)(config)
    with pytest.warns(UserWarning, match="new episodes begin"):
        again.load_state_dict(resumed[0].state_dict())
    assert not torch.equal(next(iter(again.collector))["observation"], first), "the first episodes came again"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_parts(parts_class(module)(config), tmp_path / "one")  # for its policy: nobody asks for episodes
    assert all(
        leaf.isfinite().all()
        for leaf in leaves(state).values()
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
    )
