"""Pipelines around environments whose action has a name of its own: losses and networks take that."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from specgen_runtime.training import read_log

from tests.pipelines.small import losses, small_config
from tests.support import generate, imported

ENVS = """\
specgen: 1
doc: Something slides.
import:
  - specgen_std/transforms/step_counter
  - specgen_std/transforms/reward_sum
  - specgen_std/losses/dqn
  - specgen_std/losses/ppo
  - specgen_std/losses/sac
  - specgen_std/losses/td3
envs:
  {name}:
    doc: It slides as far as it is pushed.
    state: {{place: "float32[2] in [-10, 10]"}}
    action: {{push: {action}}}
    observation: {{seen: "float32[2] in [-10, 10]", far: "float32[1] in [0, 300]"}}
    reset: {{place: "uniform(-1, 1, shape=2)"}}
    step: {{next.place: "clip(place + 0.1 * {pushed}, -10, 10)", reward: -sum(next.place ** 2)}}
    observe: {{seen: place, far: "clip(stack(sum(place ** 2)), 0, 300)"}}
chains:
  {name}Train: {{env: {name}, transforms: [{{StepCounter: {{max_steps: 5}}}}, RewardSum]}}
pipelines:
  {name}Learner:
    doc: A training.
    env: {name}Train
    optimizer: {{adam: {{lr: 1.0e-3}}}}
    stop: {{frames: 4800}}
"""
REPLAYED = """\
    data: {replay: {num_envs: 2, capacity: 1000, batch_size: 16, warm_up_frames: 64}}
    value_estimator: {td0: {gamma: 0.9}}
    target_updater: {soft: {tau: 0.01}}
"""
LEARNERS = {
    "dqn": """\
    loss: DQNLoss
    networks: {value_network: {mlp: [8]}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
""" + REPLAYED,
    "c51": """\
    loss: DistributionalDQNLoss
    networks: {value_network: {mlp: [8], support: {atoms: 11, low: -50, high: 0}}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
""" + REPLAYED.replace("    value_estimator: {td0: {gamma: 0.9}}\n", ""),
    "qrdqn": """\
    loss: QRDQNLoss
    params: {several: {default: 6, min: 2}}
    networks: {value_network: {mlp: [8], out: {quantiles: several}}}
    policy: {explore: {epsilon_greedy: {eps: 0.1}}}
""" + REPLAYED.replace("    value_estimator: {td0: {gamma: 0.9}}\n", ""),
    "td3": """\
    loss: TD3Loss
    networks: {actor_network: {mlp: [8]}, qvalue_network: {mlp: [8]}}
    policy: {explore: {gaussian: {sigma: 0.1}}}
""" + REPLAYED,
    "sac": """\
    loss: SACLoss
    networks: {actor_network: {mlp: [8]}, qvalue_network: {mlp: [8]}}
""" + REPLAYED,
    "ppo": """\
    loss: ClipPPOLoss
    networks: {actor_network: {mlp: [8]}, critic_network: {mlp: [8]}}
    value_estimator: {gae: {gamma: 0.9, lmbda: 0.95}}
    data: {on_policy: {num_envs: 8, num_steps: 64, epochs: 2, minibatch_size: 64}}
""",
}  # fmt: skip


def _schema(name: str) -> str:
    chosen = name in ("dqn", "c51", "qrdqn")
    action, pushed = ("categorical(2)", "(2 * push - 1)") if chosen else ('"float32[2] in [-1, 1]"', "push")
    return ENVS.format(name=name.title(), action=action, pushed=pushed) + LEARNERS[name]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({f"{name}.yaml": _schema(name) for name in LEARNERS}, "pushed")
    with imported(files, "pushed", tmp_path_factory.mktemp("pushed")) as made:
        yield made


@pytest.mark.parametrize("name", LEARNERS)
def test_the_action_of_the_environment_is_that_of_the_loss(
    package: ModuleType, name: str, tmp_path: Path
) -> None:
    module = importlib.import_module(f"{package.__name__}.{name}")
    parts = module.train(small_config(module), folder=tmp_path / "run")
    (loss,) = losses(parts)
    assert loss.tensor_keys.action == ("push",) or loss.tensor_keys.action == "push"
    assert "push" in parts.stored
    assert read_log(tmp_path / "run" / "log.csv")[-1]["frames"] == 48
