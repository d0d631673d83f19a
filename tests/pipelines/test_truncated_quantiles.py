"""A pipeline of `TQCLoss`, whose critics give quantiles."""

from __future__ import annotations

import importlib
from pathlib import Path

from specgen_runtime.training import read_log

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/losses/tqc]
envs:
  Reach:
    doc: A hand is moved to a place that is told, in one step.
    state: {place: "float32[1] in [-1, 1]"}
    action: {action: "float32[1] in [-1, 1]"}
    observation: {observation: "float32[1] in [-1, 1]"}
    reset: {place: "uniform(-1, 1, shape=1)"}
    step: {next.place: place, reward: "-abs(action[0] - place[0])", terminated: "true"}
    observe: {observation: place}
pipelines:
  Training:
    env: Reach
    networks: {actor_network: {mlp: [16]}, qvalue_network: {mlp: [32], out: {quantiles: 7}}}
    loss: {TQCLoss: {num_qvalue_nets: 2, top_quantiles_to_drop_per_net: 1, target_entropy: -2.0}}
    value_estimator: {td0: {gamma: 0.9}}
    target_updater: {soft: {tau: 0.05}}
    data: {replay: {num_envs: 16, num_steps: 4, capacity: 5_000, batch_size: 64, warm_up_frames: 256, updates: 8}}
    optimizer: {adam: {lr: 1.0e-2}}
    evaluate: {every: 3_072, episodes: 50}
    stop: {frames: 3_072}
"""


def test_it_learns(tmp_path: Path) -> None:
    """Random actions are two thirds away in the mean."""
    with imported(generate({"reach.yaml": SCHEMA}, "reached"), "reached", tmp_path) as package:
        module = importlib.import_module(f"{package.__name__}.reach")
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        loss = next(one for one in vars(parts).values() if type(one).__name__ == "TQCLoss")
        assert loss.num_qvalue_nets == 2
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > -0.2
