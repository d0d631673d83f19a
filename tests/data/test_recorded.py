"""Recorded transitions are read as they were saved, or it is said what they lack."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.data import load_recorded
from specgen_runtime.typing import NestedKey
from specgen_std.chains.pendulum import PendulumTrain
from tensordict import TensorDict

ENTRIES: dict[NestedKey, tuple[torch.dtype, tuple[int, ...]]] = {
    "observation": (torch.float32, (3,)),
    ("next", "reward"): (torch.float32, (1,)),
}


@pytest.mark.parametrize("batch_size", [[], [2]])
def test_a_rollout_comes_back_row_by_row(tmp_path: Path, batch_size: list[int]) -> None:
    rollout = PendulumTrain(batch_size=batch_size).rollout(7)
    rollout.memmap(tmp_path / "data")
    data = load_recorded(tmp_path / "data", ENTRIES)
    assert data.batch_size == torch.Size([rollout.numel()])
    assert set(data.keys(True, True)) == set(ENTRIES)
    assert (data == rollout.select(*ENTRIES).reshape(-1)).all()


def test_a_folder_without_data(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing is not there: save some with `rollout.memmap"):
        load_recorded(tmp_path / "nothing", ENTRIES)


def test_all_that_does_not_fit_is_named(tmp_path: Path) -> None:
    TensorDict({"observation": torch.zeros(5, 4)}, [5]).memmap(tmp_path)
    expected = (
        r"'observation' must be torch.float32 of shape \[3\] behind the batch, got torch.float32 \[4\]; "
        r"\('next', 'reward'\) is missing"
    )
    with pytest.raises(ValueError, match=expected):
        load_recorded(tmp_path, ENTRIES)


def test_another_dtype(tmp_path: Path) -> None:
    TensorDict({"observation": torch.zeros(5, 3, dtype=torch.float64)}, [5]).memmap(tmp_path)
    with pytest.raises(
        ValueError, match=r"'observation' must be torch.float32 of shape \[3\].*got torch.float64"
    ):
        load_recorded(tmp_path, ENTRIES)


def test_no_transitions(tmp_path: Path) -> None:
    TensorDict({"observation": torch.zeros(0, 3)}, [0]).memmap(tmp_path)
    with pytest.raises(ValueError, match="holds no transitions"):
        load_recorded(tmp_path, ENTRIES)
