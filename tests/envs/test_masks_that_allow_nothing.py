"""Environments in some state of which the mask of an action allows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.testing import check_env

from tests.support import compile_texts, imported

SCHEMA = """
specgen: 1
envs:
  Stuck:
    state: {x: int64}
    action: {action: categorical(2)}
    observation: {observation: "float32[1]", legal: "bool[2]"}
    masks: {action: legal}
    reset: {x: "randint(0, 4)"}
    step: {next.x: x + 1 + action, reward: 1.0, terminated: x > 20}
    observe: {observation: "stack(float32(x))", legal: "stack(x != 6, x < 6)"}
"""


def test_check_env_finds_them(tmp_path: Path) -> None:
    files, said, _ = compile_texts({"stuck.yaml": SCHEMA.replace("x != 6", "x != 99")}, "generated")
    with imported(files, "generated", tmp_path) as package:
        check_env(lambda: package.stuck.Stuck(batch_size=(3,)), steps=30)
    files, said, _ = compile_texts(
        {"stuck.yaml": SCHEMA.replace("next.x: x + 1 + action", "next.x: x + 1 + 0 * action")}, "generated"
    )
    assert "error" not in said
    with imported(files, "generated", tmp_path) as package:
        for env in (package.stuck.Stuck(batch_size=(3,)), package.stuck.Stuck()):
            torch.manual_seed(0)
            with pytest.raises(RuntimeError, match="cannot draw: a row of the mask allows no class"):
                env.rollout(30)
        with pytest.raises(RuntimeError, match="cannot draw: a row of the mask allows no class"):
            check_env(lambda: package.stuck.Stuck(batch_size=(3,)), steps=30)
