"""Buffers that hold recorded transitions before anything is collected."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_std.pipelines import ddpg_pendulum_recorded as module
from tensordict import TensorDict

from tests.pipelines.small import differing, pipeline, recorded_pendulum, small_config
from tests.pipelines.test_ends import trained


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


RECORDED = ("DDPGPendulumRecorded", "pipelines/ddpg_pendulum_recorded, chains/pendulum, losses/ddpg")
OFFLINE = ("BCPendulum", "pipelines/bc_pendulum, chains/pendulum, losses/behavior_cloning")


@pytest.fixture
def renamed(tmp_path: Path) -> str:
    """The transitions of `recorded_pendulum`, whose observations and rewards have other names; all rewards are 7."""
    data = TensorDict.load_memmap(recorded_pendulum()).reshape(-1)
    other = data.exclude("observation", ("next", "reward")).clone()
    other["obs"], other["rewards"] = data["observation"], torch.full_like(data["next", "reward"], 7.0)
    folder = str(tmp_path / "renamed")
    other.memmap(folder)
    return folder


def test_a_fraction_of_each_batch_is_recorded(tmp_path: Path, renamed: str) -> None:
    """The recorded transitions stay where they are; what is collected is in the buffer, and in checkpoints."""
    changes = "data: {online_and_recorded: {fraction: 0.25, keys: {next.reward: rewards, observation: obs}}}"
    with trained(RECORDED, changes, tmp_path) as made:
        config = small_config(made, recorded=renamed, random_frames=0)
        rewards, update = [], made.update

        def noted(parts: Any, batch: Any) -> Any:
            rewards.append(batch["next", "reward"])
            return update(parts, batch)

        made.update = noted
        whole = made.train(config, folder=tmp_path / "whole")
        assert len(whole.buffer) == config.total_frames
        assert len(whole.recorded_buffer) == 80
        assert rewards
        for each in rewards:
            assert each.shape == (8, 1)
            assert (each[:6] < 0).all()
            assert (each[6:] == 7).all()
        made.train(replace(config, total_frames=24), folder=tmp_path / "cut")
        cut = made.train(config, folder=tmp_path / "cut", resume=True)
        assert differing(whole.state_dict(), cut.state_dict()) == []
        with pytest.raises(ValueError, match="recorded_fraction must leave frames of both kinds"):
            replace(config, recorded_fraction=0.01)


def test_recorded_entries_may_have_other_names(tmp_path: Path, renamed: str) -> None:
    with trained(OFFLINE, "data: {recorded: {keys: {observation: obs}}}", tmp_path) as made:
        parts = made.Training(small_config(made, recorded=renamed))
        recorded = TensorDict.load_memmap(recorded_pendulum()).reshape(-1)
        assert torch.equal(parts.buffer[:]["observation"], recorded["observation"])
        with pytest.raises(ValueError, match="'observation', which is called 'obs' there, is missing"):
            made.Training(small_config(made))


@pytest.mark.parametrize("form", ["npz", "hdf5", "minari"])
def test_a_training_from_where_people_have_data(form: str, tmp_path: Path) -> None:
    """The same transitions are learned from, whatever form they are in: the same networks come out."""
    rows = TensorDict.load_memmap(recorded_pendulum())
    end = torch.zeros(2, 40, dtype=torch.bool)
    end[:, -1] = True
    ordered = rows.reshape(-1)
    arrays = {
        "seen": ordered["observation"].double().numpy(),
        "act": ordered["action"].numpy(),
        "rewards": ordered["next", "reward"].squeeze(-1).numpy(),
        "terminals": ordered["next", "terminated"].squeeze(-1).numpy(),
        "timeouts": (ordered["next", "done"] & ~ordered["next", "terminated"]).squeeze(-1).numpy(),
        "next_observations": ordered["next", "observation"].double().numpy(),
    }
    keys = "keys: {observation: seen, action: act}"
    path = tmp_path / f"data.{form}"
    if form == "npz":
        np.savez(path, **arrays)
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "data.hdf5", "w") as file:
            for name, array in arrays.items() if form == "hdf5" else ():
                file[name] = array
            for episode in range(2) if form == "minari" else ():
                group, steps = file.create_group(f"episode_{episode}"), slice(40 * episode, 40 * episode + 40)
                last = arrays["next_observations"][steps][-1:]
                group["observations"] = np.concatenate([arrays["seen"][steps], last])
                group["actions"], group["rewards"] = arrays["act"][steps], arrays["rewards"][steps]
                group["terminations"], group["truncations"] = (
                    arrays["terminals"][steps],
                    arrays["timeouts"][steps],
                )
        path, keys = tmp_path / "data.hdf5", keys if form == "hdf5" else "keys: {}"
    parent = ("IQLPendulum", "pipelines/iql_pendulum, chains/pendulum, losses/iql")
    with trained(parent, f"data: {{recorded: {{{keys}}}}}", tmp_path / "made") as made:
        config = small_config(made, recorded=str(path))
        parts = made.train(config, folder=tmp_path / "run")
        wanted = pipeline("iql_pendulum")
        whole = wanted.train(small_config(wanted), folder=tmp_path / "whole")
        for key in made.Training.recorded:
            assert torch.equal(parts.buffer[:][key], whole.buffer[:][key]), key
        assert differing(whole.loss.state_dict(), parts.loss.state_dict()) == []
