"""Printed modules train: each part is moved as declared, and a training that was stopped goes on as if it had not been."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.training import read_log

from tests.pipelines.small import (
    NAMES,
    SIMULATED,
    differing,
    leaves,
    losses,
    optimizers,
    parts_class,
    pipeline,
    rows,
    small_config,
)


@pytest.fixture(params=NAMES)
def module(request: pytest.FixtureRequest) -> ModuleType:
    return pipeline(request.param)


def parameters(parts: Any) -> dict[str, list[torch.Tensor]]:
    """Copies of what each optimizer moves."""
    return {
        name: [one.detach().clone() for group in optimizer.param_groups for one in group["params"]]
        for name, optimizer in optimizers(parts).items()
    }


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def targets(parts: Any) -> list[torch.Tensor]:
    """Copies of the target parameters of its loss."""
    found = [
        getattr(loss, name, None)
        for loss in losses(parts)
        for name in vars(type(loss)).get("__annotations__", ())
        if name.startswith("target_")
    ]
    values = [one for one in found if one is not None]
    return [leaf.clone() for one in values for leaf in one.values(True, True)]


def test_each_optimizer_moves_its_parameters(module: ModuleType, tmp_path: Path) -> None:
    config = small_config(module)
    before = parts_class(module)(config)
    parts = module.train(config, folder=tmp_path / "run")
    moved, fresh = parameters(parts), parameters(before)
    for name, values in moved.items():
        assert values, name
        assert all(value.isfinite().all() for value in values), name
        assert not equal(values, fresh[name]), f"{name} moved nothing"
    log = read_log(tmp_path / "run" / "log.csv")
    assert len(log) >= 2
    metrics = module.__dict__[f"{parts_class(module).__name__}Metrics"]._fields
    assert all(math.isfinite(log[-1][metric]) for metric in metrics)


def test_all_that_the_loss_trains_is_moved_by_one_optimizer(module: ModuleType) -> None:
    parts = parts_class(module)(small_config(module))
    moved = [
        id(one)
        for values in optimizers(parts).values()
        for group in values.param_groups
        for one in group["params"]
    ]
    assert len(moved) == len(set(moved))
    trained = {id(one) for loss in losses(parts) for one in loss.parameters() if one.requires_grad}
    assert set(moved) == trained


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SIMULATED])
def test_an_interrupted_training_goes_on_bit_by_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped in an update behind a checkpoint: the parts and the log are those of a training that was left alone."""
    module = pipeline(name)
    monkeypatch.setattr(module, "draw_curve", lambda folder, **_: None)
    config = small_config(module)
    whole = module.train(config, folder=tmp_path / "whole")
    update, done, last = module.update, 0, _updates_of(config) * 3 // 4

    def stopping(*args: Any, **words: Any) -> Any:
        nonlocal done
        if done == last:
            raise InterruptedError
        done += 1
        return update(*args, **words)

    monkeypatch.setattr(module, "update", stopping)
    with pytest.raises(InterruptedError):
        module.train(config, folder=tmp_path / "stopped")
    done, last = 0, -1
    torch.manual_seed(12345)
    resumed = module.train(config, folder=tmp_path / "stopped", resume=True)
    assert 0 < done < _updates_of(config), "it began anew"
    assert differing(whole.state_dict(), resumed.state_dict()) == []
    assert rows(tmp_path / "whole") == rows(tmp_path / "stopped")
    if hasattr(whole, "buffer"):
        assert (whole.buffer[:] == resumed.buffer[:]).all()


def _updates_of(config: Any) -> int:
    """How many updates a training takes."""
    if hasattr(config, "total_updates"):
        return int(config.total_updates)
    if hasattr(config, "epochs"):
        frames = config.num_envs * config.num_steps
        parts = config.minibatches if hasattr(config, "minibatches") else frames // config.minibatch_size
        return int(config.total_frames // frames * config.epochs * parts)
    batches = (config.total_frames - config.warm_up_frames) // (config.num_envs * config.num_steps) + 1
    return int(batches * config.updates)


def test_what_is_checked_in_a_configuration(module: ModuleType) -> None:
    config = small_config(module)
    assert config == small_config(module)
    with pytest.raises(ValueError, match="evaluate_episodes"):
        small_config(module, evaluate_episodes=0)


def test_seeds_differ_in_all_that_is_drawn(module: ModuleType) -> None:
    one, same, other = (parts_class(module)(small_config(module, seed=seed)) for seed in (1, 1, 2))
    assert differing(one.state_dict(), same.state_dict()) == []
    differ = set(differing(one.state_dict(), other.state_dict()))
    generators = {
        name
        for name in leaves(one.state_dict())
        if name in ("/exploring", "/drawing", "/shuffling", "/sampling")
    }
    assert generators <= differ
    assert any("actor" in place or "value" in place for place in differ)
