"""Arguments of environments: hyper-parameters of a training, which may change in it."""

from __future__ import annotations

import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import GymSpaceMismatch, SerialEnv
from specgen_runtime.training import evaluate, linear
from specgen_runtime.training.run_config import ConfigChangedError

from specgen.project.gymnasium_lock import record
from specgen.source.spaces import record_key
from tests.pipelines.small import differing, small_config
from tests.pipelines.test_ends import DQN, trained
from tests.pipelines.test_learned_statistics import statistics
from tests.support import generate, imported
from tests.typing.checkers import mypy

HARDER = 'env: {CartPoleTrain: {length: 0.7, gravity: "linear(5.0, 10.0, over=40)"}}'
LAKE = """\
specgen: 1
doc: A training.
import: [specgen_std/losses/dqn, specgen_std/transforms/reward_sum]
envs:
  Lake:
    doc: Gymnasium's own FrozenLake.
    gymnasium:
      id: FrozenLake-v1
      kwargs: {map_name: 4x4, is_slippery: true, success_rate: 0.5}
      categorical_action_encoding: true
chains:
  LakeTrain: {doc: Sums of rewards., env: Lake, transforms: [RewardSum]}
pipelines:
  Training:
    doc: A training.
    env: {LakeTrain: {is_slippery: false, success_rate: 0.9}}
    networks: {value_network: {mlp: [8]}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
    loss: DQNLoss
    value_estimator: {td0: {gamma: 0.99}}
    data: {replay: {num_envs: 2, num_steps: 4, capacity: 1_000, batch_size: 8, warm_up_frames: 16, updates: 2}}
    target_updater: {soft: {tau: 0.05}}
    optimizer: {adam: {lr: 1.0e-3}}
    stop: {frames: 10_000}
"""
KEYWORDS = {"map_name": "4x4", "is_slippery": True, "success_rate": 0.5}


def test_a_number_of_an_environment_is_that_of_both(tmp_path: Path) -> None:
    with trained(DQN, "env: {CartPoleTrain: {length: 0.7}}", tmp_path) as module:
        parts = module.Training(small_config(module, length=0.3))
        assert parts.env.params.length == parts.eval_env.params.length == 0.3
        with pytest.raises(ValueError, match=r"length must be > 0, got -1.0"):
            module.TrainingConfig(length=-1.0)
        with pytest.raises(TypeError, match="length must be a real number, got 'long'"):
            module.TrainingConfig(length="long")


def test_evaluations_may_have_another_number(tmp_path: Path) -> None:
    changes = "env: {CartPoleTrain: {length: 0.7}}\n    evaluate: {env: {CartPoleTrain: {length: 0.9}}}"
    with trained(DQN, changes, tmp_path) as module:
        parts = module.Training(small_config(module, length=0.3, evaluate_length=0.4))
        assert (parts.env.params.length, parts.eval_env.params.length) == (0.3, 0.4)


def test_the_command_line_says_it(tmp_path: Path) -> None:
    with trained(DQN, "env: {CartPoleTrain: {length: 0.7}}", tmp_path):
        command = [sys.executable, "-m", "made.a", "--length", "-0.5"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert told.returncode != 0
        assert "length must be > 0, got -0.5" in told.stderr


def test_an_environment_may_change_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both environments have at each batch what the schedule says, and steps are those of that number."""
    with trained(DQN, HARDER, tmp_path) as module:
        seen: list[float] = []

        def evaluated(env: Any, *args: Any, **words: Any) -> Any:
            seen.append(env.params.gravity)
            return evaluate(env, *args, **words)

        monkeypatch.setattr(module, "evaluate", evaluated)
        config = small_config(module)
        parts = module.train(config, folder=tmp_path / "run")
        begun = range(0, config.total_frames, config.num_envs * config.num_steps)
        expected = [linear(frames, 5.0, 10.0, 40) for frames in begun]
        assert seen
        assert set(seen) <= set(expected)
        assert parts.env.params.gravity == expected[-1]
        assert parts.env.params.length == 0.7
        data = parts.env.reset()
        data["action"] = torch.ones(2, dtype=torch.int64)
        stepped = parts.env.step(data.clone())["next", "theta_dot"]
        parts.env.params = parts.env.params._replace(gravity=20.0)
        assert not torch.equal(stepped, parts.env.step(data.clone())["next", "theta_dot"])


def test_an_environment_with_a_transform_around_it_changes_too(tmp_path: Path) -> None:
    """Where the policy has a memory, the environment is inside a `TransformedEnv`."""
    parent = ("DQNCartPoleGRU", "pipelines/dqn_cartpole_gru, chains/cartpole, losses/dqn")
    with trained(parent, HARDER, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        assert parts.env.params.gravity == parts.env.base_env.params.gravity > 5.0


def test_a_resumed_training_has_the_numbers_that_it_had(tmp_path: Path) -> None:
    with trained(DQN, HARDER, tmp_path) as module:
        whole = module.train(small_config(module), folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=24), folder=tmp_path / "cut")
        stored = json.loads((tmp_path / "cut" / "config.json").read_text())["config"]
        assert stored["length"] == 0.7
        with pytest.raises(ConfigChangedError, match=r"length was 0.7, is 0.2"):
            module.train(small_config(module, length=0.2), folder=tmp_path / "cut", resume=True)
        cut = module.train(small_config(module), folder=tmp_path / "cut", resume=True)
        assert differing(whole.state_dict(), cut.state_dict()) == []
        assert whole.env.params == cut.env.params


def test_a_parameter_is_not_assigned_by_its_name(tmp_path: Path) -> None:
    with trained(DQN, HARDER, tmp_path) as module:
        parts = module.Training(small_config(module))
        with pytest.raises(AttributeError, match=r"write env.params = env.params._replace\(length=...\)"):
            parts.env.length = 0.2


CHAIN = """\
specgen: 1
doc: A training.
import:
  - specgen_std/envs/cartpole
  - specgen_std/losses/dqn
  - specgen_std/pipelines/dqn_cartpole
  - specgen_std/transforms/reward_scaling
  - specgen_std/transforms/reward_sum
  - specgen_std/transforms/step_counter
chains:
  Scaled:
    doc: CartPole whose task has numbers.
    env: CartPole
    params: {max_steps: 500, reward_scale: {default: 0.5, max: 4, doc: the factor of rewards}, standardised: false}
    transforms:
      - RewardSum
      - StepCounter: {max_steps: max_steps}
      - RewardScaling: {loc: 0.0, scale: reward_scale, standard_normal: standardised}
    allow: [SG311]
pipelines:
  Training:
    doc: A training.
    extends: DQNCartPole
    env: {Scaled: {max_steps: 9, reward_scale: "linear(0.5, 1.0, over=40)", standardised: true, length: 0.7}}
    evaluate: {env: Scaled}
"""


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"scaled.yaml": CHAIN}, "chain_arguments")
    with imported(files, "chain_arguments", tmp_path_factory.mktemp("chain_arguments")):
        yield importlib.import_module("chain_arguments.scaled")


def test_parameters_of_a_chain_are_hyper_parameters(scaled: ModuleType, tmp_path: Path) -> None:
    """Their range and documentation are those of the arguments that name them; an evaluation that says nothing has the defaults."""
    config = small_config(scaled, max_steps=3, standardised=False)
    assert (config.reward_scale, config.reward_scale_end) == (0.5, 1.0)
    assert "the length at which an episode is truncated" in inspect.getsource(scaled.TrainingConfig)
    for wrong, message in (
        ({"max_steps": 0}, "max_steps must be >= 1, got 0"),
        ({"reward_scale": 5.0}, "reward_scale must be <= 4, got 5.0"),
        ({"reward_scale": 0.0}, "reward_scale must be > 0, got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            scaled.TrainingConfig(**wrong)
    parts = scaled.train(config, folder=tmp_path / "run")
    assert parts.env.params.max_steps == 3
    assert parts.env.params.length == parts.env.env_params.length == 0.7
    assert parts.env.params.reward_scale == linear(40, 0.5, 1.0, 40)
    assert parts.eval_env.params._asdict() == type(parts.eval_env)().params._asdict()
    assert parts.env.rollout(20).batch_size[-1] == 3


def test_the_command_line_says_those_of_a_chain(tmp_path: Path) -> None:
    with trained(DQN, "env: {CartPoleTrain: {max_steps: 300}}", tmp_path):
        command = [sys.executable, "-m", "made.a", "--max-steps", "0"]
        told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert told.returncode != 0
        assert "max_steps must be >= 1, got 0" in told.stderr


def test_evaluations_have_those_of_the_training(tmp_path: Path) -> None:
    with trained(DQN, "env: {CartPoleTrain: {max_steps: 30}}", tmp_path) as module:
        parts = module.Training(small_config(module, max_steps=7))
        assert parts.env.params == parts.eval_env.params
        assert parts.eval_env.params.max_steps == 7


def test_a_resumed_training_has_those_of_a_chain(scaled: ModuleType, tmp_path: Path) -> None:
    whole = scaled.train(small_config(scaled), folder=tmp_path / "whole")
    scaled.train(small_config(scaled, total_frames=24), folder=tmp_path / "cut")
    with pytest.raises(ConfigChangedError, match=r"max_steps was 9, is 4"):
        scaled.train(small_config(scaled, max_steps=4), folder=tmp_path / "cut", resume=True)
    cut = scaled.train(small_config(scaled), folder=tmp_path / "cut", resume=True)
    assert differing(whole.state_dict(), cut.state_dict()) == []
    assert whole.env.params == cut.env.params


def test_workers_are_given_those_of_a_chain(tmp_path: Path) -> None:
    changes = "env: {CartPoleTrain: {max_steps: 5}}\n    workers: {processes: 2}"
    with trained(DQN, changes, tmp_path) as module:
        parts = module.train(small_config(module), folder=tmp_path / "run")
        try:
            assert int(parts.buffer[:]["next", "done"].sum()) >= len(parts.buffer) // 5 - 2
        finally:
            parts.collector.shutdown()


@pytest.mark.slow
def test_what_is_printed_of_them_passes_mypy(tmp_path: Path) -> None:
    for path, text in generate({"scaled.yaml": CHAIN}, "chain_arguments").items():
        (tmp_path / "chain_arguments" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "chain_arguments" / path).write_text(text)
    assert mypy(tmp_path) == {}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    records = {record_key("FrozenLake-v1", KEYWORDS): record("FrozenLake-v1", KEYWORDS)}
    files = generate({"lake.yaml": LAKE}, "gym_arguments", records)
    with imported(files, "gym_arguments", tmp_path_factory.mktemp("gym_arguments")):
        yield importlib.import_module("gym_arguments.lake")


def test_keywords_of_gymnasium_are_hyper_parameters(lake: ModuleType, tmp_path: Path) -> None:
    config = small_config(lake, success_rate=0.8)
    assert (config.is_slippery, config.success_rate) == (False, 0.8)
    with pytest.raises(TypeError, match="is_slippery must be True or False, got 1"):
        lake.TrainingConfig(is_slippery=1)
    parts = lake.train(config, folder=tmp_path / "run")
    assert isinstance(parts.env, SerialEnv)
    for env in (parts.env, parts.eval_env):
        pool: Any = env._pool
        made = pool.worker_envs[0].env._gym.spec
        assert made.kwargs["success_rate"] == 0.8
        assert made.kwargs["is_slippery"] is False


def test_keywords_that_change_spaces_are_refused_when_the_parts_are_made(tmp_path: Path) -> None:
    records = {record_key("FrozenLake-v1", KEYWORDS): record("FrozenLake-v1", KEYWORDS)}
    text = LAKE.replace("is_slippery: false", "map_name: 8x8")
    with imported(generate({"lake.yaml": text}, "gym_spaces", records), "gym_spaces", tmp_path):
        module = importlib.import_module("gym_spaces.lake")
        with pytest.raises(
            GymSpaceMismatch, match="FrozenLake-v1: the installed Gymnasium environment differs"
        ):
            module.Training(small_config(module))


def test_an_evaluation_with_another_number_normalises_by_what_was_learned(tmp_path: Path) -> None:
    text = """\
specgen: 1
doc: A training.
import: [specgen_std/pipelines/ppo_pendulum, specgen_std/chains/pendulum, specgen_std/losses/ppo, specgen_std/envs/pendulum,
  specgen_std/transforms/vec_norm, specgen_std/transforms/step_counter, specgen_std/transforms/reward_sum]
chains:
  Normalised:
    doc: Pendulum with observations that are normalised.
    env: Pendulum
    transforms: [{VecNorm: {in_keys: [observation]}}, {StepCounter: {max_steps: 200}}, RewardSum]
pipelines:
  Training: {doc: A training., extends: PPOPendulum, env: {Normalised: {g: 9.0}}, evaluate: {env: {Normalised: {g: 3.0}}}}
"""
    with imported(generate({"learned.yaml": text}, "learned_elsewhere"), "learned_elsewhere", tmp_path):
        module = importlib.import_module("learned_elsewhere.learned")
        parts = module.train(small_config(module), folder=tmp_path / "run")
        assert (parts.env.params.g, parts.eval_env.params.g) == (9.0, 3.0)
        assert statistics(parts.env)[0]
        assert differing(statistics(parts.env)[0], statistics(parts.eval_env)[0]) == []


def test_workers_step_environments_with_the_numbers(tmp_path: Path) -> None:
    changes = "env: {CartPoleTrain: {length: 0.7}}\n    workers: {processes: 2}"
    with trained(DQN, changes, tmp_path) as module:
        parts = module.Training(small_config(module, num_envs=4, length=0.3))
        try:
            batch = next(iter(parts.collector))
        finally:
            parts.collector.shutdown()
        env = module.CartPoleTrain(length=0.3, batch_size=batch.batch_size)
        root = batch.select("x", "x_dot", "theta", "theta_dot", "action", "step_count", "episode_reward")
        flags = batch.select("done", "terminated", "truncated")
        stepped = env.step(root.update(flags).clone())
        torch.testing.assert_close(stepped["next", "theta_dot"], batch["next", "theta_dot"])
