"""Buffers that hold recorded transitions before anything is collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_std.pipelines import ddpg_pendulum_recorded as module
from tensordict import TensorDict

from tests.pipelines.small import recorded_pendulum, small_config


def test_the_buffer_begins_with_what_was_recorded() -> None:
    parts = module.DDPGPendulumRecorded(small_config(module))
    recorded = TensorDict.load_memmap(recorded_pendulum()).reshape(-1)
    assert len(parts.buffer) == len(recorded) == 80
    for key in parts.stored:
        assert torch.equal(parts.buffer[:][key], recorded[key]), key


def test_collected_transitions_come_behind_them(tmp_path: Path) -> None:
    config = small_config(module, random_frames=0)
    parts = module.train(config, folder=tmp_path / "run")
    assert len(parts.buffer) == 80 + config.total_frames
    recorded = TensorDict.load_memmap(recorded_pendulum()).reshape(-1)
    assert torch.equal(parts.buffer[:80]["observation"], recorded["observation"])
    assert not torch.equal(parts.buffer[80:]["observation"][:40], recorded["observation"][:40])


def test_more_than_there_is_space_for_is_refused() -> None:
    with pytest.raises(ValueError, match="holds 80 transitions, and there is space for 64"):
        module.DDPGPendulumRecorded(small_config(module, capacity=64))


def test_noise_drifts_within_episodes() -> None:
    """The noise of a step is near that of the step before, and begins anew with each episode."""
    config = small_config(module, random_frames=0, num_steps=300, sigma=1.0, dt=0.04)
    parts = module.DDPGPendulumRecorded(config)
    batch: Any = parts.collector.next()
    noise = batch["_ou_prev_noise"].squeeze(-1)
    assert (batch["_ou_steps"][:, :3] == torch.tensor([1, 2, 3])).all()
    begins = batch["is_init"].squeeze(-1)
    assert begins[:, 1:].any(), "no second episode"
    assert (noise[begins].abs() < 1.0).all()  # 5 deviations of one step
    steps = (noise[:, 1:] - noise[:, :-1])[~begins[:, 1:]]
    assert abs(float(steps.std()) - 0.2) < 0.03
    assert float(noise.std()) > 2 * float(steps.std())


def test_noise_that_never_dies_out_is_refused() -> None:
    with pytest.raises(ValueError, match="theta \\* dt must be below 2, or the noise never dies out, got 3"):
        small_config(module, theta=15.0, dt=0.2)
    assert small_config(module, theta=15.0, dt=0.1).theta == 15.0
