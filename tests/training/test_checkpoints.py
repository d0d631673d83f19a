"""Checkpoints are whole or not there, whatever ends the process that writes them."""

from __future__ import annotations

import io
import os
import resource
import shutil
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime import durable
from specgen_runtime.data import LazyTensorStorage, ReplayBuffer
from specgen_runtime.reported import ReportedError
from specgen_runtime.training import load_parts
from specgen_runtime.training.checkpoints import Checkpoints
from specgen_runtime.training.state import plain_state, restored_state
from tensordict import TensorDict
from torch import nn

from tests.training.small_run import Parts, run_in


def buffer_of(*values: int) -> ReplayBuffer:
    buffer = ReplayBuffer(storage=LazyTensorStorage(10_000))
    if values:
        buffer.extend(TensorDict({"a": torch.tensor(values)}, [len(values)]))
    return buffer


def rows_of(checkpoints: Checkpoints) -> tuple[int, list[int]]:
    buffer = buffer_of()
    state = checkpoints.load({"buffer": buffer})
    return state["number"], buffer[:]["a"].tolist()


def test_saved_and_loaded(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        checkpoints.load({})
    for number in range(1, 4):
        saved = checkpoints.save(number * 10, {"number": number}, {"buffer": buffer_of(number)})
        assert saved == tmp_path / f"checkpoint-{number * 10}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint-20",
        "checkpoint-30",
        "checkpoints.json",
    ]
    assert rows_of(Checkpoints(tmp_path, keep=2)) == (3, [3])


def one_bit_changed(content: bytes, file: str) -> bytes:
    """Of a number that is kept, in a file of tensors, or of the first digest or byte."""
    place = 0
    if file.endswith(".pt"):
        with zipfile.ZipFile(io.BytesIO(content)) as records:
            names = records.namelist()
            tensors = [name for name in names if "/data/" in name]
            record = records.read(tensors[0] if tensors else names[0])
            place = content.index(record) + len(record) // 2
    elif file.endswith(".json"):
        place = content.index(b'"digests": ["') + 13
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("file", ["state.pt", "buffer/*/0.0.rows", "buffer/*/rows.json", "buffer/*/state.pt"])
@pytest.mark.parametrize("how", ["removed", "cut", "changed"])
def test_a_damaged_one_is_named(tmp_path: Path, file: str, how: str) -> None:
    """And the one before is there for whoever removes it."""
    checkpoints = Checkpoints(tmp_path, keep=2)
    for number in (1, 2):
        checkpoints.save(
            number * 10, {"number": number, "weights": torch.ones(3)}, {"buffer": buffer_of(number)}
        )
    (damaged,) = (tmp_path / "checkpoint-20").glob(file)
    content = damaged.read_bytes()
    damaged.unlink()
    if how == "cut":
        damaged.write_bytes(content[: len(content) // 2])
    if how == "changed":
        damaged.write_bytes(one_bit_changed(content, file))
    with pytest.raises(
        OSError, match=r"checkpoint-20 is damaged: .*; remove it, and the run goes on from checkpoint-10"
    ):
        rows_of(Checkpoints(tmp_path, keep=2))
    shutil.rmtree(tmp_path / "checkpoint-20")
    assert rows_of(Checkpoints(tmp_path, keep=2)) == (1, [1])
    (tmp_path / "checkpoint-10" / "state.pt").unlink()
    with pytest.raises(
        ReportedError, match=r"checkpoint-10 is damaged: .*; start a new run in another folder"
    ):
        rows_of(Checkpoints(tmp_path, keep=2))


def test_the_newer_of_two_at_the_same_count_stays(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for count, number in ((10, 1), (20, 2), (20, 3), (20, 4)):
        checkpoints.save(count, {"number": number}, {"buffer": buffer_of(number)})
    assert rows_of(Checkpoints(tmp_path, keep=2)) == (4, [4])
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2
    assert (tmp_path / "checkpoint-10").is_dir()


def test_keep_is_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep must be at least 1, found 0"):
        Checkpoints(tmp_path, keep=0)


STEPS = ("fsync", "replace", "mkdir", "open")


def save_until(step: int, folder: Path) -> None:
    """Save, and die before a certain call of the system; exit code 0 if there are no more calls than that."""
    calls = 0

    def dying(function: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > step:
                os._exit(9)
            return function(*arguments, **keywords)

        return call

    checkpoints = Checkpoints(folder, keep=1)
    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))
    durable.open = dying(open)  # type: ignore[attr-defined]
    checkpoints.save(20, {"number": 2}, {"buffer": buffer_of(2)})
    os._exit(0)


def test_killed_at_every_step_of_a_save(tmp_path: Path) -> None:
    found = []
    for step in range(200):
        folder = tmp_path / str(step)
        folder.mkdir()
        Checkpoints(folder, keep=1).save(10, {"number": 1}, {"buffer": buffer_of(1)})
        process = os.fork()
        if process == 0:
            try:
                save_until(step, folder)
            finally:
                os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert code in (0, 9)
        number, rows = rows_of(Checkpoints(folder, keep=1))
        assert rows == [number]
        found.append(number)
        again = Checkpoints(folder, keep=1)
        again.save(30, {"number": 3}, {"buffer": buffer_of(3)})
        assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-30", "checkpoints.json"]
        if code == 0:
            break
    assert code == 0
    assert found == sorted(found)
    assert found.count(1) > 15
    assert found.count(2) > 1


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to let a file grow further, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("weights", "rows"), [(10_000, 1), (1, 5_000)], ids=["in the state", "in the buffer"]
)
def test_a_full_disk_keeps_the_last(tmp_path: Path, weights: int, rows: int) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(10, {"number": 1}, {"buffer": buffer_of(1)})
    with no_file_larger_than(5_000), pytest.raises(OSError, match="File too large"):
        checkpoints.save(
            20, {"number": 2, "weights": torch.zeros(weights)}, {"buffer": buffer_of(*range(rows))}
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoints.json"]
    assert rows_of(checkpoints) == (1, [1])
    assert rows_of(Checkpoints(tmp_path, keep=1)) == (1, [1])
    checkpoints.save(30, {"number": 3}, {"buffer": buffer_of(3)})
    assert rows_of(Checkpoints(tmp_path, keep=1)) == (3, [3])


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    network = nn.BatchNorm1d(2)
    whole = torch.arange(1_000_000.0)
    state = {
        "network": network.state_dict(),
        "root": TensorDict({"a": torch.ones(3), "next": TensorDict({"b": torch.zeros(3)}, [3])}, [3]),
        "numbers": [1, 2.5, True, None, "text", 2**127, (1, 2), np.float64(0.5), np.int32(3)],
        "torch's": [torch.Size([2]), torch.float32, torch.device("cpu")],
        "part": whole[3:5],
        ("a", "b"): torch.ones((), requires_grad=True),
    }
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(0, state, {})
    loaded = checkpoints.load({})
    assert isinstance(loaded["network"], OrderedDict)
    assert loaded["network"]._metadata == state["network"]._metadata
    assert isinstance(loaded["root"], TensorDict)
    assert (loaded["root"] == state["root"]).all()
    assert loaded["numbers"] == state["numbers"]
    assert all(type(number).__module__ == "builtins" for number in loaded["numbers"])
    assert loaded["torch's"] == state["torch's"]
    assert loaded["part"].tolist() == [3, 4]
    assert loaded["a", "b"] == 1
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.pt")) < 20_000  # of `whole` two numbers
    assert restored_state(plain_state(state))["numbers"] == state["numbers"]


def test_what_can_not_be_saved_is_named(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    with pytest.raises(
        TypeError, match=r"object of class Linear at parts\.networks\[1\], which can't be saved"
    ):
        checkpoints.save(0, {"parts": {"networks": [1, nn.Linear(1, 1)]}}, {})
    with pytest.raises(TypeError, match=r"object of class ndarray at a\.b"):
        checkpoints.save(0, {"a": {"b": np.zeros(3)}}, {})
    assert list(tmp_path.iterdir()) == []


def test_rows_of_a_buffer_are_written_once(tmp_path: Path) -> None:
    """Of what did not change since the last checkpoint, the next one has the same files; each stands by itself."""
    buffer, other = (ReplayBuffer(storage=LazyTensorStorage(600_000)) for _ in range(2))
    buffer.extend(torch.arange(300_000))
    checkpoints = Checkpoints(tmp_path, keep=1)
    inodes: list[dict[str, int]] = []
    for frames in (1, 2):
        saved = checkpoints.save(frames, {}, {"buffer": buffer})
        inodes.append({file.name: file.stat().st_ino for file in saved.rglob("*.rows")})
        buffer.extend(torch.arange(10))
    first, second = inodes
    assert first.keys() == second.keys() == {"0.0.rows", "0.1.rows", "0.2.rows"}
    assert [first[name] == second[name] for name in sorted(first)] == [True, True, False]
    assert not (tmp_path / "checkpoint-1").exists()
    checkpoints.load({"buffer": other})
    assert torch.equal(other[:], torch.cat([torch.arange(300_000), torch.arange(10)]))


def test_what_cannot_be_synchronised_leaves_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronise, calls = os.fsync, 0

    def failing(file: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == fails:
            raise OSError(28, "No space left on device")
        synchronise(file)

    monkeypatch.setattr(os, "fsync", failing)
    for fails in range(1, 100):
        folder = tmp_path / str(fails)
        folder.mkdir()
        calls = -100
        checkpoints = Checkpoints(folder, keep=1)
        checkpoints.save(10, {"number": 1}, {"buffer": buffer_of(1)})
        calls = 0
        try:
            checkpoints.save(20, {"number": 2}, {"buffer": buffer_of(2)})
        except OSError:
            assert checkpoints.kept == Checkpoints(folder, keep=1).kept
            number, rows = rows_of(checkpoints)
            assert rows == [number]
            checkpoints.save(30, {"number": 3}, {"buffer": buffer_of(3)})
            assert rows_of(Checkpoints(folder, keep=1)) == (3, [3])
        else:
            break
    assert fails > 5


def test_parts_without_their_loop(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.save()
        trained = run._parts.state_dict()
    parts = Parts()
    load_parts(parts, tmp_path)
    torch.testing.assert_close(parts.state_dict(), trained)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        load_parts(parts, tmp_path / "elsewhere")
    (checkpoint,) = tmp_path.glob("checkpoint-*")
    with pytest.raises(FileNotFoundError, match=f"one checkpoint of a run, whose folder is {tmp_path}"):
        load_parts(parts, checkpoint)


def test_parts_of_something_else(tmp_path: Path) -> None:
    with run_in(tmp_path) as run:
        run.save()

    class Wider(Parts):
        def __init__(self) -> None:
            self.network = nn.Linear(2, 1)

    class Others(Parts):
        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            self.network.load_state_dict(state["policy"])

    with pytest.raises(
        ValueError,
        match=r"does not fit Wider: it has network.weight of shape \[1, 1\] for \[1, 2\]; .*config.json says",
    ):
        load_parts(Wider(), tmp_path)
    with pytest.raises(ValueError, match="does not fit Others: it lacks 'policy'"):
        load_parts(Others(), tmp_path)
