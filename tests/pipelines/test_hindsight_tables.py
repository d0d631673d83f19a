"""Rewards in hindsight that read constant tables: the numbers are written out, where there are not too many."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from tests.support import compile_texts, imported

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/step_counter, specgen_std/losses/dqn]
envs:
  Carry:
    consts:
      {table}
    state: {{x: "float32[2]", goal: "float32[2]"}}
    action: {{action: categorical(2)}}
    observation: {{observation: "float32[2]", achieved_goal: "float32[2]", desired_goal: "float32[2]"}}
    reset: {{x: "uniform(-1, 1, shape=2)", goal: "uniform(-1, 1, shape=2)"}}
    step:
      next.x: x + where(action == 0, 0.1, -0.1)
      distance: abs(next.x - goal)
      reward: "{reward}"
    observe: {{observation: x, achieved_goal: x, desired_goal: goal}}
chains:
  Carried: {{env: Carry, transforms: [{{StepCounter: {{max_steps: 20}}}}]}}
pipelines:
  Carrying:
    env: Carried
    networks: {{value_network: {{mlp: [8], in: [observation, desired_goal]}}}}
    policy: {{explore: {{epsilon_greedy: {{eps: 0.1}}}}}}
    loss: {{DQNLoss: {{}}}}
    value_estimator: {{td0: {{gamma: 0.99}}}}
    data: {{replay: {{num_envs: 8, num_steps: 8, updates: 2, capacity: 1_000, batch_size: 64, warm_up_frames: 100, sampler: {{hindsight: {{}}}}}}}}
    target_updater: {{soft: {{tau: 0.01}}}}
    optimizer: {{adam: {{lr: 1.0e-3}}}}
    stop: {{frames: 1_000}}
"""
TABLES = {
    "vector": ('table: {type: "float32[2]", value: [1.0, 2.5]}', "-sum(table * distance)"),
    "number": ("table: {type: float32, value: 0.3}", "float32(table) * -sum(distance)"),
    "rows": (
        'table: {type: "float32[3, 2]", value: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]}',
        "-sum(table[1] * distance)",
    ),
    "computed index": (
        'table: {type: "float32[3]", value: [1.0, 2.0, -4.0]}',
        "table[clip(int64(10 * distance[0]), 0, 2)]",
    ),
    "whole numbers": ('table: {type: "int32[2]", value: [3, -2]}', "-sum(float32(table) * distance)"),
    "truth values": ('table: {type: "bool[2]", value: [true, false]}', "-sum(where(table, distance, 0.0))"),
    "double": ('table: {type: "float64[2]", value: [0.1, 0.2]}', "float32(-sum(table * float64(distance)))"),
}


@pytest.mark.parametrize("name", TABLES)
def test_rewards_are_those_of_the_environment(name: str, tmp_path: Path) -> None:
    table, reward = TABLES[name]
    text = SCHEMA.format(table=table, reward=reward)
    files, said, _ = compile_texts({"carry.yaml": text}, "generated")
    assert "error" not in said, said
    with imported(files, "generated", tmp_path):
        module = importlib.import_module("generated.carry")
        data = module.Carry(batch_size=[64]).rollout(4)
        following = data["next"]
        found = module.reward_in_hindsight(following["achieved_goal"], following["desired_goal"])
        assert torch.allclose(found, following["reward"], atol=1e-6)
        assert found.unique().numel() > 1


def test_large_tables_are_told() -> None:
    large = f'table: {{type: "float32[65]", value: {[1.0] * 65}}}'
    text = SCHEMA.format(table=large, reward="-sum(distance) * table[64]")
    _, said, codes = compile_texts({"carry.yaml": text}, "generated")
    assert "SG652" in codes
    assert "reads `table`" in said
