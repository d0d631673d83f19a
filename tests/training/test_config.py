"""Printed trainings say which configuration they take."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from specgen_runtime.training import PipelineParts
from specgen_std.pipelines.dqn_cartpole import DQNCartPole, DQNCartPoleConfig, train
from specgen_std.pipelines.ppo_cartpole import PPOCartPoleConfig


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"lr": 0.1}, r"found dict: give it DQNCartPoleConfig\(\*\*config\)"),
        (PPOCartPoleConfig(), r"found PPOCartPoleConfig: it is the configuration of another pipeline"),
        (DQNCartPoleConfig, r"found the class DQNCartPoleConfig: give it DQNCartPoleConfig\(\)"),
        (3, r"found int: give it DQNCartPoleConfig\(\.\.\.\)"),
    ],
)
def test_another_configuration_is_refused(config: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=f"^DQNCartPole takes a DQNCartPoleConfig as config, {said}$"):
        train(config, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_has_its_fields_is_taken() -> None:
    class Mine(DQNCartPole):
        def __init__(self, width: int) -> None:
            super().__init__(DQNCartPoleConfig(num_envs=width))

    class Wider(DQNCartPoleConfig):
        pass

    assert Mine(3).env.batch_size == (3,)
    assert DQNCartPole(config=Wider(num_envs=2)).env.batch_size == (2,)
    alike: Any = SimpleNamespace(**vars(DQNCartPoleConfig(num_envs=4)))
    assert DQNCartPole(alike).env.batch_size == (4,)
    assert DQNCartPole().config == DQNCartPoleConfig()
    assert [*inspect.signature(DQNCartPole).parameters] == ["config"]
    assert issubclass(DQNCartPole, PipelineParts)
