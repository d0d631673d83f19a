"""Pipelines whose chains learn statistics: evaluations normalise with what the training has learned, and teach nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import EnvBase, SerialEnv
from specgen_runtime.envs.batched.pool import LocalPool
from specgen_runtime.transforms.statistics import LearningTransform

from tests.pipelines.small import differing, parts_class, small_config
from tests.pipelines.test_simulators import stopped_after
from tests.support import generate, imported

HEAD = """\
specgen: 1
doc: A training.
import:
  - specgen_std/losses/ppo
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/vec_norm
  - specgen_std/transforms/time
"""
NATIVE = """\
envs:
  Slide:
    doc: What is hidden decides how far it slides; two vectors are seen.
    state: {place: "float32[2] in [-10, 10]", wind: "float32[2] in [-1, 1]"}
    action: {push: "float32[2] in [-1, 1]"}
    observation: {seen: "float32[2] in [-100, 100]", far: "float32[1] in [0, 1000]"}
    reset: {place: "uniform(-1, 1, shape=2)", wind: "uniform(-1, 1, shape=2)"}
    step:
      next.place: clip(place + 0.1 * push + 0.05 * wind, -10, 10)
      next.wind: wind
      reward: -sum(next.place ** 2)
    observe: {seen: 10 * place, far: "stack(sum(place ** 2))"}
chains:
  SlideTrain:
    doc: It ends after some steps.
    env: Slide
    params: {decay: 0.99}
    transforms: [{VecNorm: {in_keys: [seen, far], decay: decay}}, {StepCounter: {max_steps: 5}}, RewardSum]
"""
GYM = """\
envs:
  Pole:
    doc: Gymnasium's CartPole.
    gymnasium: {id: CartPole-v1}
chains:
  PoleTrain:
    doc: Normalised.
    env: Pole
    transforms: [{VecNorm: {in_keys: [observation]}}, RewardSum]
"""
TRAINING = """\
pipelines:
  {name}Learner:
    doc: A training.
    env: {env}
    networks: {{actor_network: {{mlp: [8]}}, critic_network: {{mlp: [8]}}}}
    loss: ClipPPOLoss
    value_estimator: {{gae: {{gamma: 0.9, lmbda: 0.95}}}}
    data: {{on_policy: {{num_envs: 8, num_steps: 64, epochs: 2, minibatch_size: 64}}}}
    optimizer: {{adam: {{lr: 1.0e-3}}}}
    stop: {{frames: 4800}}
"""
REMEMBERING = """\
specgen: 1
import: [native, specgen_std/losses/ppo]
pipelines:
  Remembering:
    doc: The environment that learns statistics is inside of the one with the states of the policy.
    env: {SlideTrain: {decay: 1.0}}
    networks: {joint: {mlp: [8]}, memory: {trunk: joint, gru: 8}, actor_network: {trunk: memory}, critic_network: {trunk: memory}}
    loss: ClipPPOLoss
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 8, num_steps: 64, epochs: 2, minibatches: 2}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 4800}
"""
SCHEMAS = {
    "native": HEAD
    + NATIVE
    + TRAINING.format(name="Slide", env='{SlideTrain: {decay: "linear(0.9999, 1.0)"}}'),
    "gym": HEAD + GYM + TRAINING.format(name="Pole", env="PoleTrain"),
    "remembering": REMEMBERING,
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": text for name, text in SCHEMAS.items()}, "normalised")
    with imported(files, "normalised", tmp_path_factory.mktemp("normalised")) as made:
        yield made


@pytest.fixture(params=SCHEMAS)
def module(package: ModuleType, request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{request.param}")


def statistics(env: EnvBase[Any, Any]) -> list[dict[str, torch.Tensor]]:
    """What each environment of a batch has learned, or a batch as a whole."""
    pool = env._pool if isinstance(env, SerialEnv) else None
    all_envs = [one.env for one in pool.worker_envs] if isinstance(pool, LocalPool) else [env]
    return [
        {
            name: value.clone()
            for module in one.modules()
            if isinstance(module, LearningTransform)
            for name, value in module._statistics.values.items()
        }
        for one in all_envs
    ]


def counts(env: EnvBase[Any, Any]) -> set[float]:
    """How many rows each statistic has counted."""
    return {
        value.item() for one in statistics(env) for name, value in one.items() if name.startswith("count")
    }


def test_evaluations_read_what_the_training_has_learned(module: ModuleType, tmp_path: Path) -> None:
    parts = module.train(small_config(module), folder=tmp_path / "run")
    (learned, *others) = statistics(parts.env)
    assert learned
    for one in (*others, *statistics(parts.eval_env)):
        assert differing(learned, one) == []
    frames, episodes = 48, counts(parts.env)
    assert len(episodes) == 1
    assert next(iter(episodes)) > frames  # with the resets; all environments are counted


def test_parameters_of_statistics_change_in_training(package: ModuleType, tmp_path: Path) -> None:
    module: Any = importlib.import_module(f"{package.__name__}.native")
    parts = module.train(small_config(module), folder=tmp_path / "run")
    for env in (parts.env, parts.eval_env):
        (transform,) = (one for one in env.modules() if isinstance(one, LearningTransform))
        assert transform.decay == env.params.decay == pytest.approx(0.9999 + 0.0001 * 40 / 48, abs=1e-8)  # type: ignore[attr-defined]


def test_an_evaluation_teaches_nothing_and_normalises(module: ModuleType) -> None:
    parts = parts_class(module)(small_config(module))
    next(iter(parts.collector))
    before = statistics(parts.env)
    with torch.no_grad():
        data = parts.eval_env.rollout(5, parts.policy)
    assert all(differing(old, new) == [] for old, new in zip(before, statistics(parts.env), strict=True))
    if module.__name__.endswith("native"):
        names = [name for name in before[0] if name.endswith("seen")]
        assert {name.partition("|")[0] for name in names} >= {"count", "loc", "var"}
        loc, var = (before[0][f"{name}|seen"] for name in ("loc", "var"))
        seen = 10 * data["place"].double()
        wanted = (seen - loc) / var.sqrt().clamp(min=1e-4)
        torch.testing.assert_close(data["seen"], wanted.float())


@pytest.mark.parametrize("name", ["native", "remembering"])
def test_a_resumed_training_has_the_statistics(
    package: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulator begins new episodes; where none is, all is as if nothing had stopped it."""
    module = importlib.import_module(f"{package.__name__}.{name}")
    config = small_config(module)
    whole = module.train(config, folder=tmp_path / "whole")
    with stopped_after(module, 18, monkeypatch):
        module.train(config, folder=tmp_path / "stopped")
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert differing(statistics(whole.eval_env)[0], statistics(resumed.eval_env)[0]) == []


def test_policies_read_what_is_observed_and_neither_states_nor_sums(package: ModuleType) -> None:
    module = importlib.import_module(f"{package.__name__}.native")
    parts = parts_class(module)(small_config(module))
    assert parts.actor_network.in_keys == ["seen", "far"]
    assert parts.critic_network.in_keys == ["seen", "far"]
