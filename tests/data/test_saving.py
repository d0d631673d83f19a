"""Saving a replay buffer and going on: to the last bit, and never half."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
    saving,
)
from specgen_runtime.transforms import MultiStepTransform
from specgen_std.transforms import RewardScaling
from tensordict import TensorDict

from tests.data.transitions import transitions

SAMPLERS = {
    "random": RandomSampler,
    "without replacement": SamplerWithoutReplacement,
    "prioritized": lambda: PrioritizedSampler(20, 0.6, 0.4),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mapped": {"storage": LazyMemmapStorage},
    "prefetched": {"prefetch": 3},
    "n-step": {"steps": 3},
}


def made(sampler: str, options: dict[str, Any], seed: int) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(
        storage=options.get("storage", LazyTensorStorage)(20),
        sampler=SAMPLERS[sampler],
        batch_size=6,
        prefetch=options.get("prefetch"),
        generator=torch.Generator().manual_seed(seed),
    )
    if "steps" in options:
        buffer.append_transform(MultiStepTransform(options["steps"], 0.9))
    return buffer


def use(buffer: TensorDictReplayBuffer, first: int) -> list[TensorDict]:
    """Write, sample, change priorities; with random numbers of its own."""
    random = torch.Generator().manual_seed(first)
    samples = []
    for step in range(8):
        buffer.extend(transitions(5, first + 5 * step))
        for _ in range(2):
            sample = buffer.sample()
            samples.append(sample.clone())
            buffer.update_tensordict_priority(
                sample.set("td_error", torch.rand(len(sample), generator=random))
            )
    return samples


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("how", ["dumps", "state_dict"])
def test_goes_on_to_the_last_bit(sampler: str, options: str, how: str, tmp_path: Path) -> None:
    buffer = made(sampler, OPTIONS[options], 0)
    use(buffer, 0)
    if how == "dumps":
        buffer.dumps(tmp_path / "buffer")
    else:
        state = buffer.state_dict()
    expected = use(buffer, 100)
    resumed = made(sampler, OPTIONS[options], 1)
    if how == "dumps":
        resumed.loads(tmp_path / "buffer")
    else:
        resumed.load_state_dict(state)
    for ours, theirs in zip(use(resumed, 100), expected, strict=True):
        assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
        assert (ours == theirs).all()
    assert (len(resumed), resumed.write_count) == (len(buffer), buffer.write_count)


def test_kinds_of_rows(tmp_path: Path) -> None:
    """All dtypes, rows of no size, several dimensions, a tensor alone."""
    dtypes = (
        torch.bool,
        torch.uint8,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.complex64,
    )
    data = TensorDict({str(dtype): torch.arange(8).reshape(4, 2).to(dtype) for dtype in dtypes}, [4])
    data["none"] = torch.zeros(4, 0)
    data["nested", "entry"] = torch.rand(4)
    buffer, other = (ReplayBuffer(storage=LazyTensorStorage(10)) for _ in range(2))
    buffer.extend(data)
    buffer.dumps(tmp_path)
    other.loads(tmp_path)
    assert (other[:] == data).all()
    assert {key: value.dtype for key, value in other[:].items(True, True)} == {
        key: value.dtype for key, value in data.items(True, True)
    }
    buffer, other = (ReplayBuffer(storage=LazyTensorStorage(12, ndim=2)) for _ in range(2))
    buffer.extend(transitions(5, batch=(3,)).transpose(0, 1))
    buffer.dumps(tmp_path)
    other.loads(tmp_path)
    assert (other[:] == buffer[:]).all()
    buffer, other = (ReplayBuffer(storage=LazyTensorStorage(12)) for _ in range(2))
    buffer.extend(torch.arange(5))
    buffer.dumps(tmp_path)
    other.loads(tmp_path)
    assert other[:].tolist() == [0, 1, 2, 3, 4]


def test_states_are_copies() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(5))
    buffer.extend(transitions(3))
    state = buffer.state_dict()
    buffer["next", "reward"] = torch.full((3, 1), 9.0)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    other.load_state_dict(state)
    other["next", "reward"] = torch.full((3, 1), 8.0)
    assert state["_storage"]["_storage"]["next", "reward"].flatten().tolist() == [0, 1, 2]


def test_a_batch_size_is_no_state() -> None:
    saved, sized, unsized = (
        ReplayBuffer(storage=LazyTensorStorage(5), batch_size=size) for size in (2, 3, None)
    )
    saved.extend(transitions(4))
    for buffer, expected in ((sized, 3), (unsized, 2)):
        buffer.load_state_dict(saved.state_dict())
        assert len(buffer.sample()) == expected


def of_parts(size: int = 20, loc: tuple[int, ...] = (1,), **options: Any) -> TensorDictReplayBuffer:
    parts = {"storage": LazyTensorStorage(size), "sampler": PrioritizedSampler(size, 0.5, 0.3), **options}
    buffer = TensorDictReplayBuffer(batch_size=6, generator=torch.Generator().manual_seed(3), **parts)
    buffer.append_transform(RewardScaling(torch.zeros(loc), 2.0 + len(loc)))
    return buffer


OF_OTHER_PARTS: dict[str, Callable[[], TensorDictReplayBuffer]] = {
    "sampler": lambda: of_parts(sampler=SamplerWithoutReplacement()),
    "writer": lambda: of_parts(writer=TensorDictMaxValueWriter(rank_key=("next", "reward"))),
    "transforms": lambda: of_parts(loc=()),
    "storage": lambda: of_parts(30),
}


@pytest.mark.parametrize("part", OF_OTHER_PARTS)
def test_a_state_of_other_parts_changes_nothing(part: str) -> None:
    """Whichever part it does not fit: rows, priorities, the cursor, transforms and draws are as they were."""
    buffer, twin = (of_parts(prefetch=3) for _ in range(2))
    expected, samples = use(twin, 0), use(buffer, 0)
    other = OF_OTHER_PARTS[part]()
    other.extend(transitions(25, 100) if part == "storage" else transitions(4, 100))
    with pytest.raises((KeyError, RuntimeError, ValueError)):
        buffer.load_state_dict(other.state_dict())
    expected += [twin[:], *use(twin, 5), twin[:]]
    samples += [buffer[:], *use(buffer, 5), buffer[:]]
    assert all((mine == theirs).all() for mine, theirs in zip(samples, expected, strict=True))


def test_of_an_empty_buffer(tmp_path: Path) -> None:
    ReplayBuffer(storage=LazyTensorStorage(5)).dumps(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    other.extend(transitions(2))
    other.loads(tmp_path)
    assert len(other) == 0
    other.extend(transitions(1))


def test_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no replay buffer was saved"):
        ReplayBuffer(storage=LazyTensorStorage(5)).loads(tmp_path)
    buffer = ReplayBuffer(storage=LazyTensorStorage(5))
    buffer.extend(transitions(4))
    buffer.dumps(tmp_path)
    with pytest.raises(ValueError, match="4 rows were saved, and there is space for 3"):
        ReplayBuffer(storage=LazyTensorStorage(3)).loads(tmp_path)
    other = ReplayBuffer(storage=LazyTensorStorage(5))
    other.extend(transitions(2).set("observation", torch.zeros(2, 4)))
    with pytest.raises(ValueError, match=r"'observation' has the shape \[4, 1\]"):
        other.loads(tmp_path)
    assert len(other) == 2  # its rows stay


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to let a file grow further, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_keeps_what_was_saved_last(tmp_path: Path) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(2_000))
    buffer.extend(transitions(3))
    buffer.dumps(tmp_path / "buffer")
    before = sorted(file.name for file in (tmp_path / "buffer").rglob("*"))
    buffer.extend(transitions(1_900, 3))
    with no_file_larger_than(5_000), pytest.raises(OSError, match="File too large"):
        buffer.dumps(tmp_path / "buffer")
    assert sorted(file.name for file in (tmp_path / "buffer").rglob("*")) == before
    other = ReplayBuffer(storage=LazyTensorStorage(2_000))
    other.loads(tmp_path / "buffer")
    assert other["next", "reward"].flatten().tolist() == [0, 1, 2]
    buffer.dumps(tmp_path / "buffer")
    other.loads(tmp_path / "buffer")
    assert len(other) == 1_903


def test_space_for_mapped_rows_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    buffer = ReplayBuffer(storage=LazyMemmapStorage(10_000, scratch_dir=tmp_path / "rows", existsok=True))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", no_space)
        with pytest.raises(OSError, match="No space left"):
            buffer.extend(transitions(3))
    assert len(buffer) == 0
    buffer.extend(transitions(3))
    file = tmp_path / "rows" / "observation.memmap"
    assert file.stat().st_blocks * 512 >= 40_000  # all of it is on the disk, not only what was written


def save_forever(folder: Path, said: int) -> None:
    """Save ever new rows; each number that is saved is a line in an open file."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(50_000), sampler=PrioritizedSampler(50_000, 1.0, 1.0))
    for number in count(1):
        rows = torch.full((50_000,), number)
        buffer.extend(TensorDict({"a": rows, "b": rows.clone(), "c": rows.double()}, [50_000]))
        buffer.update_priority(torch.arange(50_000), float(number))
        buffer.dumps(folder)
        os.write(said, b"%d\n" % number)


@pytest.mark.slow
def test_a_killed_program_leaves_a_whole_buffer(tmp_path: Path) -> None:
    for delay in (0.0, 0.013, 0.041, 0.11):
        heard, said = os.pipe()
        process = os.fork()  # a new Python would import torch for seconds
        if process == 0:
            try:
                save_forever(tmp_path, said)
            finally:
                os._exit(1)
        os.close(said)
        with open(heard) as lines:
            for _ in range(3):
                done = int(lines.readline())
            time.sleep(delay)
            os.kill(process, signal.SIGKILL)
            assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
        buffer = ReplayBuffer(
            storage=LazyTensorStorage(50_000), sampler=PrioritizedSampler(50_000, 1.0, 1.0), batch_size=5
        )
        buffer.loads(tmp_path)
        number = int(buffer["a"][0])
        assert number >= done
        assert all((buffer[key] == number).all() for key in ("a", "b", "c"))
        assert buffer.sampler.default_priority == number
        assert buffer.write_count == number * 50_000
        buffer.sample()


def files_of_rows(folder: Path) -> dict[str, int]:
    """The files of rows that were saved in a folder, each with what tells it from others on the disk."""
    return {file.name: file.stat().st_ino for file in folder.rglob("*.rows")}


@pytest.fixture
def many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for each 50 rows of 8 bytes."""
    monkeypatch.setattr(saving, "_LEAST", 400)


def numbered(first: int, count: int) -> TensorDict:
    numbers = torch.arange(first, first + count)
    return TensorDict({"number": numbers, "half": numbers.double() / 2}, [count])


@pytest.mark.usefixtures("many_files")
def test_only_rows_that_are_new_are_written_again(tmp_path: Path) -> None:
    """In a folder that began with what was saved in another, which stays as it is."""
    buffer, now, then = (ReplayBuffer(storage=LazyTensorStorage(1_000)) for _ in range(3))
    buffer.extend(numbered(0, 990))
    buffer.dumps(tmp_path / "first")
    before = buffer[:].clone()
    buffer.extend(numbered(990, 30))  # over the end: rows 990 to 999, and 0 to 19
    buffer["number"][500] = -1  # not by the buffer
    saving.link_saved(tmp_path / "first", tmp_path / "second")
    buffer.dumps(tmp_path / "second")
    first, second = files_of_rows(tmp_path / "first"), files_of_rows(tmp_path / "second")
    assert first.keys() == second.keys()
    assert len(first) == 40
    assert {name for name in first if first[name] != second[name]} == {
        "0.0.rows", "0.10.rows", "0.19.rows", "1.0.rows", "1.19.rows",
    }  # fmt: skip
    then.loads(tmp_path / "first")
    assert (then[:] == before).all()
    shutil.rmtree(tmp_path / "first")
    now.loads(tmp_path / "second")
    assert (now[:] == buffer[:]).all()


@pytest.mark.usefixtures("many_files")
def test_a_folder_that_is_written_again_keeps_its_files(tmp_path: Path) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(1_000))
    buffer.extend(numbered(0, 120))
    buffer.dumps(tmp_path)
    before = files_of_rows(tmp_path)
    buffer.extend(numbered(120, 100))
    buffer.dumps(tmp_path)
    after = files_of_rows(tmp_path)
    assert {name for name in before if before[name] == after[name]} == {
        "0.0.rows", "0.1.rows", "1.0.rows", "1.1.rows",
    }  # fmt: skip


@pytest.mark.usefixtures("many_files")
def test_disks_without_links_get_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    buffer, other = (ReplayBuffer(storage=LazyTensorStorage(1_000)) for _ in range(2))
    buffer.extend(numbered(0, 120))
    buffer.dumps(tmp_path / "first")
    saving.link_saved(tmp_path / "first", tmp_path / "second")
    assert not (tmp_path / "second").exists()
    buffer.dumps(tmp_path / "first")
    other.loads(tmp_path / "first")
    assert (other[:] == buffer[:]).all()


@pytest.mark.parametrize("storage", [LazyTensorStorage, LazyMemmapStorage])
@pytest.mark.parametrize("by", ["folder", "state dict"])
def test_groups_of_agents_keep_their_dimension(storage: Any, by: str, tmp_path: Path) -> None:
    def group(*names: str) -> TensorDict:
        return TensorDict({name: torch.randn(8, 3, 2) for name in names}, [8, 3])

    inner = TensorDict({"body": group("speed")}, [8, 3])
    rows = TensorDict(
        {"cart": group("place").update(inner), "next": TensorDict({"cart": group("place")}, [8])}, [8]
    )
    before, after = (TensorDictReplayBuffer(storage=storage(20), batch_size=4) for _ in range(2))
    before.extend(rows)
    if by == "folder":
        before.dumps(tmp_path / "saved")
        after.loads(tmp_path / "saved")
    else:
        after.load_state_dict(before.state_dict())
    held, again = before.storage[:], after.storage[:]
    assert (held == again).all()
    for key in ("cart", ("cart", "body"), "next", ("next", "cart")):
        assert again[key].batch_size == held[key].batch_size
    after.extend(rows)
    assert len(after) == 16
