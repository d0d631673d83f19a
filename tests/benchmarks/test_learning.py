"""The printed trainings and the same ones with TorchRL's loss, which the table of `docs/training.md` compares."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.collectors import Collector

from benchmarks.learning import Result, table
from benchmarks.learning_templates import TEMPLATES
from benchmarks.learning_torchrl import parts_with


def _numbers(made: Any) -> dict[str, torch.Tensor]:
    """The parameters of all losses, targets too."""
    losses = [attribute for attribute in vars(made) if attribute.endswith("loss")]
    return {
        f"{loss}.{key}": value.detach().clone()
        for loss in losses
        for key, value in getattr(made, loss).named_parameters()
    }


def _updated(name: str, parts: type[Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """All parameters before and after two updates on what the parts collected."""
    template = TEMPLATES[name]
    made = parts(template.config())
    before = _numbers(made)
    batch = Collector(made.env, made.policy, frames_per_batch=256, total_frames=-1).next()
    for attribute in vars(made):
        if attribute.endswith("estimator"):
            with torch.no_grad():
                getattr(made, attribute)(batch)
    for _ in range(2):
        template.module.update(made, batch.reshape(-1))
    return before, _numbers(made)


@pytest.mark.parametrize("name", ["DQNCartPole", "C51CartPole", "PPOPendulum", "DDPGPendulum", "MAPPOTag"])
def test_updates_are_those_of_torchrl(name: str) -> None:
    template = TEMPLATES[name]
    first, ours = _updated(name, template.parts)
    assert template.torchrl is not None
    begun, theirs = _updated(name, parts_with(template.torchrl, template.parts))
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(first[key], begun[key]), key
        assert not torch.equal(first[key], value), key
        torch.testing.assert_close(theirs[key], value, rtol=1e-3, atol=1e-5)


def test_what_was_not_reached_is_said() -> None:
    results = [Result(6000, 12.34, 93.0, True), Result(30_000, 60.0, 12.5, False)]
    arms = {"specgen": list(results), "TorchRL's loss": [None, results[0]], "Stable-Baselines3": [None, None]}
    shown = table({"SACMountainCar": arms}, [0, 1])
    assert shown.splitlines()[2:] == [
        "| `SACMountainCar`, 90 | specgen | 6,000, not by 30,000 (12.5) | 12.3, 60.0 |",
        "|  | TorchRL's loss, seed 1 | 6,000 | 12.3 |",
    ]
