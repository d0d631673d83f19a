"""Trainings whose loss is compiled: numbers of those that are not, up to rounding, and resumed bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.training import minibatches
from tensordict import TensorDictBase

from tests.pipelines.small import losses, parts_class, pipeline, small_config

COMPILED = ("ppo_cartpole", "dqn_cartpole", "sac_mountain_car", "td3_pendulum")
UPDATES = 50


def begun(module: ModuleType, config: Any) -> tuple[Any, list[TensorDictBase]]:
    """Parts, and what the first updates are given; random actions are of torch's generator, which making parts seeds."""
    parts = parts_class(module)(config)
    return parts, batches_of(parts, UPDATES)


def batches_of(parts: Any, count: int) -> list[TensorDictBase]:
    """What the first updates of a training are given."""
    batch, config = parts.collector.next(), parts.config
    if not hasattr(parts, "buffer"):
        with torch.no_grad():
            parts.estimator(batch)
        read, found = batch.select(*parts.stored), []
        while len(found) < count:
            found += minibatches(read, config.minibatch_size, generator=parts.shuffling)
        return found
    while len(parts.buffer) < config.warm_up_frames:
        parts.buffer.extend(batch.select(*parts.stored).reshape(-1))
        batch = parts.collector.next()
    return [parts.buffer.sample().to(parts.device) for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_fifty_updates_are_those_without(name: str) -> None:
    module = pipeline(name)
    config = small_config(module) if name == "ppo_cartpole" else small_config(module, warm_up_frames=64)
    plain, batches = begun(module, config)
    compiled, same_batches = begun(module, replace(config, compile=True))
    first = [one.clone() for one in plain.loss.parameters()]
    pairs = zip(batches[:UPDATES], same_batches, strict=False)
    for index, (batch, same) in enumerate(pairs):
        words = {"updates": index} if name == "td3_pendulum" else {}
        expected, metrics = module.update(plain, batch, **words), module.update(compiled, same, **words)
        for field, value in expected._asdict().items():
            torch.testing.assert_close(getattr(metrics, field), value, rtol=1e-4, atol=1e-5)
        assert_same_entries(same, batch)
    if plain.loss.generator is not None:
        assert torch.equal(plain.loss.generator.get_state(), compiled.loss.generator.get_state())
    moved = [*plain.loss.parameters()]
    assert not any(torch.equal(one, other) for one, other in zip(first, moved, strict=True))
    for (which, mine), theirs in zip(compiled.loss.named_parameters(), moved, strict=True):
        torch.testing.assert_close(
            mine, theirs, rtol=1e-4, atol=1e-5, msg=lambda text, which=which: f"{which}: {text}"
        )


def assert_same_entries(one: TensorDictBase, other: TensorDictBase) -> None:
    """Whether batches have the same entries, priorities that a loss wrote among them."""
    assert set(one.keys(True, True)) == set(other.keys(True, True))
    for key in one.keys(True, True):
        torch.testing.assert_close(one[key], other[key], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_resumed_one_goes_on_bit_by_bit(tmp_path: Path) -> None:
    module = pipeline("sac_mountain_car")
    whole = module.train(small_config(module, compile=True, total_frames=48), folder=tmp_path / "whole")
    torch.compiler.reset()  # another process has no graphs
    module.train(small_config(module, compile=True, total_frames=32), folder=tmp_path / "half")
    torch.compiler.reset()
    config = small_config(module, compile=True, total_frames=48)
    resumed = module.train(config, folder=tmp_path / "half", resume=True)
    (mine,), (theirs,) = losses(resumed), losses(whole)
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(resumed.drawing.get_state(), whole.drawing.get_state())


def test_losses_are_compiled_where_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def compiled(function: Any, **options: Any) -> Any:
        asked.append(options)
        return function

    monkeypatch.setattr(torch, "compile", compiled)
    module = pipeline("ppo_cartpole")
    module.train(small_config(module), folder=tmp_path / "plain")
    assert asked == []
    module.train(small_config(module, compile=True), folder=tmp_path / "compiled")
    assert asked == [{"fullgraph": True, "dynamic": False, "options": {"fallback_random": True}}]
