"""Pipelines whose values of actions are made of the value of the state and of advantages: `dueling: true`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.modules import DuelingValues
from specgen_runtime.training import read_log
from torch import nn

from tests.pipelines.small import differing, small_config
from tests.pipelines.test_several_choices import made
from tests.pipelines.test_values_of_choices import KINDS, of_values
from tests.support import generate, imported

SCHEMA = """\
specgen: 1
import: [specgen_std/losses/dqn, specgen_std/losses/sac, specgen_std/transforms/step_counter]
envs:
  Dial:
    doc: A dial is to be turned to where it is said.
    state: {wanted: "int64", noise: "float32[2]"}
    action: {action: categorical(3)}
    observation: {observation: "float32[1]", more: "float32[2]"}
    reset: {wanted: "randint(0, 3)", noise: "normal(0, 1, shape=2)"}
    step: {next.wanted: "randint(0, 3)", next.noise: "normal(0, 1, shape=2)", reward: "float32(action == wanted)"}
    observe: {observation: "stack(float32(wanted) - 1)", more: noise}
chains: {DialTrain: {env: Dial, transforms: [{StepCounter: {max_steps: 4}}]}}
pipelines:
  Training:
    env: DialTrain
    networks: {NETWORKS}
    policy: {explore: EXPLORE}
    loss: LOSS
    data: {replay: {num_envs: 16, num_steps: 4, capacity: 5_000, batch_size: 64, warm_up_frames: 256, updates: 8}}
    target_updater: {soft: {tau: 0.05}}
    optimizer: {adam: {lr: 3.0e-3}}
    evaluate: {every: 2_560, episodes: 20}
    stop: {frames: 2_560}
"""
GREEDY = '{epsilon_greedy: {eps: "linear(1.0, 0.05, over=1_000)"}}'
NETWORKS = {
    "DQNLoss": "value_network: {mlp: [32], dueling: true, in: [observation, more]}",
    "DistributionalDQNLoss": "value_network: {mlp: [32], dueling: true, support: {atoms: 21, low: 0, high: 5}}",
    "QRDQNLoss": "trunk: {mlp: [32]}, value_network: {trunk: trunk, dueling: true, out: {quantiles: 8}}",
    "DiscreteSACLoss": "actor_network: {mlp: [32]}, qvalue_network: {mlp: [32], dueling: true}",
}


@pytest.mark.parametrize("loss", NETWORKS)
def test_it_learns(loss: str, tmp_path: Path) -> None:
    """Random choices are right in one of three, so that an episode gives 1.3 of 4."""
    text = SCHEMA.replace("NETWORKS", NETWORKS[loss])
    text = text.replace("EXPLORE", "none" if loss == "DiscreteSACLoss" else GREEDY)
    text = text.replace("LOSS", f"{{{loss}: {{target_entropy_weight: 0.1}}}}" if "SAC" in loss else loss)
    with imported(generate({"dial.yaml": text}, "dial"), "dial", tmp_path):
        module: Any = importlib.import_module("dial.dial")
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > 3.5
        values = parts.qvalue_network if "SAC" in loss else parts.value_network
        (dueling,) = (one for one in values.modules() if isinstance(one, DuelingValues))
        assert dueling.var_nums is None


@pytest.mark.parametrize("kind", ["sizes that differ", "one-hot rows"])
def test_choices_share_the_value_of_the_state(kind: str, tmp_path: Path) -> None:
    text = of_values(kind).replace(
        "{mlp: [32], activation: tanh}", "{mlp: [32], activation: tanh, dueling: true}"
    )
    with made(text, tmp_path) as module:
        parts = module.train(module.TrainingConfig(), folder=tmp_path / "run")
        assert read_log(tmp_path / "run" / "log.csv")[-1]["evaluation"] > 3.8
        network = parts.value_network
        (net,) = (one for one in network.modules() if type(one) is nn.Sequential and len(one) == 2)
        data = parts.env.reset()
        values = network(data.clone())["action_value"]
        given = net[0](data["observation"])
        assert given.shape == (*values.shape[:-1], values.shape[-1] + 1)
        first = 0
        for n in KINDS[kind][1]:
            part, advantages = values[..., first : first + n], given[..., 1 + first : 1 + first + n]
            torch.testing.assert_close(part, given[..., :1] + advantages - advantages.mean(-1, keepdim=True))
            first += n


def test_what_is_trained_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    text = of_values("sizes that differ").replace("activation: tanh}", "activation: tanh, dueling: true}")
    with made(text, tmp_path) as module:
        whole = module.train(small_config(module), folder=tmp_path / "whole")
        module.train(small_config(module, total_frames=24), folder=tmp_path / "parts")
        parts = module.train(small_config(module), folder=tmp_path / "parts", resume=True)
        assert not differing(whole.state_dict(), parts.state_dict())
