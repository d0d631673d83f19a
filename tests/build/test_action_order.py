"""Actions reach the dynamics by their names, in whatever order they and their groups are declared."""

from __future__ import annotations

import importlib
from itertools import permutations
from pathlib import Path

import pytest
import torch

from tests.support import generate, imported

ACTIONS = {"a.x": "float32", "b": "float32[2]", "a.y": "float32[3]", "c.d.z": "float32[4]"}
SCHEMA = """
specgen: 1
envs:
  Sum:
    state: {{s: float32}}
    action: {{{actions}}}
    observation: {{observation: "float32[1]"}}
    reset: {{s: 0.0}}
    step: {{next.s: "a.x + 10 * b[1] + 100 * a.y[2] + 1000 * c.d.z[3]", reward: next.s}}
    observe: {{observation: stack(s)}}
"""


@pytest.mark.parametrize("order", [*permutations(ACTIONS)][::5], ids=",".join)
def test_actions_are_read_by_name(tmp_path: Path, order: tuple[str, ...]) -> None:
    text = SCHEMA.format(actions=", ".join(f'{key}: "{ACTIONS[key]}"' for key in order))
    with imported(generate({"sum.yaml": text}, "action_order"), "action_order", tmp_path):
        env = importlib.import_module("action_order.sum").Sum()
        root = env.reset()
        for value, (key, spec) in enumerate(env.full_action_spec.items(True, True), 1):
            root.set(key, torch.full(spec.shape, float(value)))
        values = {key: float(root.get(key).flatten()[-1]) for key in env.action_keys}
        found = env.step(root)["next", "s"].item()
    wanted = values["a", "x"] + 10 * values["b"] + 100 * values["a", "y"] + 1000 * values["c", "d", "z"]
    assert found == wanted
