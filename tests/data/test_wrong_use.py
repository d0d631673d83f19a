"""Wrong uses of replay buffers: each is told by the name of what is wrong, what is expected and what was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    HERReplayBuffer,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)

from tests.data.transitions import transitions


def filled(count: int = 10, *, ndim: int = 1, **options: Any) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20, ndim=ndim), **{"batch_size": 4, **options})
    buffer.extend(transitions(count))
    return buffer


def sliced(size: int = 4, **options: Any) -> Any:
    return filled(sampler=SliceSampler(**options), batch_size=size).sample()


def by_priority() -> TensorDictPrioritizedReplayBuffer:
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=0.6, beta=0.4, storage=LazyTensorStorage(20), batch_size=4
    )
    buffer.extend(transitions(10))
    return buffer


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a row without a dimension of rows": (
        lambda: filled().extend(transitions(1)[0]),
        RuntimeError,
        r"no rows \(`add` writes one",
    ),
    "rows of too few dimensions": (
        lambda: filled(ndim=2),
        ValueError,
        r"along dimension 1 of what comes in \(`dim_extend`\), \[batch, time\] for 1; got \[10\]",
    ),
    "dim_extend": (
        lambda: filled(dim_extend=1),
        ValueError,
        r"along dimension 1 of what comes in .* got \[10\]",
    ),
    "no elements": (lambda: filled(batch_size=None).sample(0), ValueError, "batch_size is 1 or more, got 0"),
    "fewer than none": (lambda: filled().sample(-3), ValueError, "batch_size is 1 or more, got -3"),
    "a part of one": (lambda: filled(batch_size=4.5), TypeError, "batch_size is a whole number, got 4.5"),
    "prefetch": (lambda: filled(prefetch=-1), ValueError, "prefetch is a number of samples, got -1"),
    "a sampler's name": (
        lambda: filled(sampler="random"),
        TypeError,
        "sampler is a Sampler of specgen_runtime.data, or a function that makes one; got 'random'",
    ),
    "a storage for a sampler": (
        lambda: filled(sampler=LazyTensorStorage(3)),
        TypeError,
        "sampler is a Sampler .* got LazyTensorStorage",
    ),
    "a size for a storage": (
        lambda: ReplayBuffer(storage=1000),  # type: ignore[arg-type]
        TypeError,
        "storage is a Storage .* got 1000",
    ),
    "a writer": (lambda: filled(writer=3), TypeError, "writer is a Writer .* got 3"),
    "a seed for a generator": (
        lambda: filled(generator=3),
        TypeError,
        "generator is a torch.Generator, got 3",
    ),
    "a complete sample of too few": (
        lambda: filled(batch_size=40, sampler=SamplerWithoutReplacement(drop_last=True)).sample(),
        ValueError,
        "10 elements don't make one of 40",
    ),
    "a transform that gives nothing": (
        lambda: filled(transform=lambda data: None).sample(),
        TypeError,
        "a transform of samples gave None",
    ),
    "a number of slices that does not divide": (
        lambda: sliced(10, num_slices=3),
        ValueError,
        "a sample of 10 rows can't be divided into 3 parts",
    ),
    "slices of no rows": (lambda: sliced(slice_len=0), ValueError, "slice_len is 1 or more, got 0"),
    "slices fewer than none": (lambda: sliced(num_slices=-2), ValueError, "num_slices is 1 or more, got -2"),
    "no trajectory is long enough": (
        lambda: sliced(20, slice_len=10),
        RuntimeError,
        "no trajectory of 10 rows: the longest has 7",
    ),
    "a number of trajectories that rows do not have": (
        lambda: sliced(slice_len=2, traj_key="traj"),
        KeyError,
        "the replay buffer has none of 'traj'; give traj_key or end_key",
    ),
    "a flag that rows do not have": (
        lambda: sliced(slice_len=2, end_key=("next", "finished")),
        KeyError,
        r"the replay buffer has none of \('next', 'finished'\)",
    ),
    "a flag that is none": (
        lambda: sliced(slice_len=2, end_key=("next", "reward")),
        TypeError,
        r"\('next', 'reward'\) is torch.float32, and no flag",
    ),
    "marks in what is no flag": (
        lambda: sliced(slice_len=2, truncated_key="observation"),
        TypeError,
        "'observation' is torch.float32, and flags are marked in it",
    ),
    "span below 0": (lambda: sliced(slice_len=2, span=-1), ValueError, "span is True, .* got -1"),
    "three spans": (
        lambda: sliced(slice_len=2, span=(1, 2, 3)),
        ValueError,
        r"or two of these.* got \(1, 2, 3\)",
    ),
    "priorities beyond the storage": (
        lambda: by_priority().update_priority(torch.tensor([3, 25]), torch.ones(2)),
        IndexError,
        r"holds \[10\] elements, got priorities of those from 3 to 25",
    ),
    "priorities of what was not written": (
        lambda: by_priority().update_priority(torch.tensor([15]), 2.0),
        IndexError,
        r"holds \[10\] elements, got priorities of those from 15 to 15",
    ),
    "priorities of rows that were left out": (
        lambda: by_priority().update_priority(torch.tensor([-1]), 2.0),
        IndexError,
        "from -1 to -1",
    ),
    "an index of floats": (
        lambda: by_priority().update_priority(torch.tensor([1.0]), 2.0),
        TypeError,
        "an index of elements holds integers, got torch.float32",
    ),
    "priorities of no capacity": (
        lambda: PrioritizedSampler(0, 0.6, 0.4),
        ValueError,
        "max_capacity is 1 or more, got 0",
    ),
    "a strategy": (
        lambda: HERReplayBuffer(lambda step: step["reward"], strategy="last"),  # type: ignore[arg-type]
        ValueError,
        "strategy is one of future, final, episode, random, got 'last'",
    ),
    "no reward": (
        lambda: HERReplayBuffer(None),  # type: ignore[arg-type]
        TypeError,
        "reward_fn is a function of steps, got None",
    ),
    "a state of other parts": (
        lambda: by_priority().load_state_dict(filled().state_dict()),
        KeyError,
        "no '_alpha', which a PrioritizedSampler goes on with: load it into a buffer of the same parts",
    ),
    "tensors behind a transform": (
        lambda: _numbers().append_transform(lambda data: data)[:2],
        TypeError,
        "transforms read entries by their key, and this replay buffer holds Tensors: use tensordicts",
    ),
    "rows that are trajectories": (
        lambda: _trajectories().sample(),
        RuntimeError,
        r"\('next', 'done'\) is \[3, 1\] in one row and \[5, 1\] in another, .*: write each step as a row",
    ),
    "text has no trajectories": (
        lambda: _texts().sample(),
        KeyError,
        r"none of \('collector', 'traj_ids'\), 'episode', \('next', 'done'\)",
    ),
}


def _numbers() -> ReplayBuffer:
    buffer = ReplayBuffer(storage=LazyTensorStorage(10))
    buffer.extend(torch.arange(4.0))
    return buffer


def _trajectories() -> ReplayBuffer:
    buffer = ReplayBuffer(
        storage=ListStorage(10), batch_size=2, sampler=SliceSampler(slice_len=1, end_key=("next", "done"))
    )
    buffer.extend([transitions(3), transitions(5)])
    return buffer


def _texts() -> ReplayBuffer:
    buffer = ReplayBuffer(storage=ListStorage(10), batch_size=2, sampler=SliceSampler(slice_len=1))
    buffer.extend(["a", "b"])
    return buffer


@pytest.mark.parametrize("wrong", WRONG)
def test_it_is_told(wrong: str) -> None:
    use, error, message = WRONG[wrong]
    with pytest.raises(error, match=message):
        use()


def test_files_of_another_storage(tmp_path: Path) -> None:
    """None of them is touched."""
    ReplayBuffer(storage=LazyMemmapStorage(20, scratch_dir=tmp_path)).extend(transitions(3))
    beside = tmp_path / "beside" / "x.memmap"
    beside.parent.mkdir()
    beside.write_bytes(b"")
    ReplayBuffer(storage=LazyMemmapStorage(20, scratch_dir=beside.parent)).extend(transitions(3))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    other = ReplayBuffer(storage=LazyMemmapStorage(20, scratch_dir=tmp_path))
    with pytest.raises(FileExistsError, match=r"\.memmap is there: existsok=True writes over it"):
        other.extend(transitions(4).exclude("observation"))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    ReplayBuffer(storage=LazyMemmapStorage(20, scratch_dir=tmp_path, existsok=True)).extend(transitions(3))


def test_a_flag_beside_a_number_that_rows_do_not_have() -> None:
    """Who names both has rows of both kinds."""
    assert len(sliced(slice_len=2, traj_key="traj", end_key=("next", "done"))) == 4
