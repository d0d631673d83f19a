"""`SliceSampler`: parts of trajectories, which end where trajectories and the newest rows end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    ReplayBuffer,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from tensordict import TensorDict

from tests.data.transitions import transitions


def episodes(count: int, first: int = 0, batch: tuple[int, ...] = ()) -> TensorDict:
    """`transitions` with the number of each step's episode, and where episodes begin."""
    data = transitions(count, first, batch)
    number = torch.arange(first, first + count).reshape(count, *[1] * len(batch)).expand(data.shape)
    data["episode"] = number // 7
    data["is_init"] = (number % 7 == 0).unsqueeze(-1)
    return data


def sampled(
    options: dict[str, Any], writes: list[int], size: int, capacity: int = 40, batch: int = 0
) -> TensorDict:
    """A sample of a buffer that was written in pieces; of `[batch, time]` if there is a batch."""
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(capacity, ndim=2 if batch else 1),
        sampler=SliceSampler(**options),
        batch_size=size,
        generator=torch.Generator().manual_seed(0),
    )
    first = 0
    for count in writes:
        data = episodes(count, first, (batch,) if batch else ())
        buffer.extend(data.transpose(0, 1) if batch else data)
        first += count
    sample: TensorDict = buffer.sample()
    return sample


def assert_unbroken(part: TensorDict) -> None:
    """Steps that followed each other, of one episode and one place of the batch."""
    numbers = part["observation"].flatten()
    assert torch.equal(numbers, numbers[0] + 100 * torch.arange(len(numbers)))
    assert not part["next", "terminated"][:-1].any()
    assert part["next", "truncated"].flatten().tolist() == [False] * (len(part) - 1) + [True]
    assert not part["next", "done"][:-1].any()
    assert part["next", "done"][-1]


WRITES = [[20], [40], [33, 22], [7, 7, 40, 3], [5, 5, 40], [64, 1]]


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("key", ["traj_key", "end_key", "neither"])
@pytest.mark.parametrize("writes", WRITES, ids=str)
def test_parts_are_unbroken(writes: list[int], key: str, batch: int) -> None:
    """Whatever rows the newest data took, and however they are told apart."""
    keys: dict[str, Any] = {"traj_key": "episode", "end_key": ("next", "done")}
    options = {key: keys[key]} if key in keys else {}
    sample = sampled({"slice_len": 3, **options}, writes, 600, 40 * (batch or 1), batch)
    parts = sample.reshape(200, 3)
    for part in parts:
        assert_unbroken(part)
    assert parts["is_init"][:, 0].all()
    last = sum(writes) - 1
    seen = {int(number) // 100 for number in sample["observation"].flatten()}
    # The oldest and the newest rows are among them, if their pieces are long enough.
    assert max(seen) == (last if last % 7 >= 2 else last - last % 7 - 1)
    assert min(seen) >= max(0, last - 39)
    if batch:
        assert {int(number) % 100 for number in sample["observation"].flatten()} == {0, 1, 2}


def test_short_trajectories() -> None:
    sample = sampled({"slice_len": 10, "strict_length": False}, [9], 300)
    ends = sample["next", "truncated"].flatten().nonzero().flatten() + 1
    lengths = ends.diff(prepend=torch.zeros(1, dtype=torch.int64))
    assert set(lengths.tolist()) == {7, 2}
    for part in sample.split(lengths.tolist()):
        assert_unbroken(part)


def test_padded() -> None:
    sample = sampled({"slice_len": 5, "strict_length": False, "pad_output": True}, [9], 300).reshape(60, 5)
    mask = sample["collector", "mask"]
    assert set(mask.sum(1).tolist()) == {5, 2}
    for part, real in zip(sample, mask, strict=True):
        assert_unbroken(part[real])
        copies = part[~real]
        assert (copies["observation"] == part[real]["observation"][-1]).all()
        assert not copies["next", "truncated"].any()
    whole = sampled({"slice_len": 5, "strict_length": False, "pad_output": True}, [7], 30)
    assert whole["collector", "mask"].all()  # samples have the same entries whatever is drawn
    with pytest.raises(ValueError, match="pad_output fills up short parts"):
        SliceSampler(slice_len=5, pad_output=True)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (False, {(0, 4), (1, 5), (2, 6), (3, 7)}),
        (1, {(0, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 7)}),
        ([2, False], {(0, 2), (0, 3), (0, 4), (1, 5), (2, 6), (3, 7)}),
        ((False, True), {(0, 4), (1, 5), (2, 6), (3, 7), (4, 7), (5, 7), (6, 7)}),
        (True, {(0, 1), (0, 2), (0, 3), (0, 4), (1, 5), (2, 6), (3, 7), (4, 7), (5, 7), (6, 7)}),
    ],
    ids=str,
)
def test_span(span: Any, expected: set[tuple[int, int]]) -> None:
    sample = sampled({"slice_len": 4, "span": span}, [7], 4_000)
    ends = sample["next", "truncated"].flatten().nonzero().flatten().tolist()
    numbers = (sample["observation"].flatten() / 100).long().tolist()
    starts = [0, *(end + 1 for end in ends[:-1])]
    parts = [(numbers[start], numbers[end] + 1) for start, end in zip(starts, ends, strict=True)]
    assert set(parts) == expected
    assert len(parts) == 1_000
    if span is True:  # every row is as likely
        counts = torch.bincount(torch.tensor(numbers), minlength=7)
        assert counts.float().std() / counts.float().mean() < 0.06


def test_span_that_is_no_part() -> None:
    with pytest.raises(ValueError, match="can't begin or end 4 rows outside"):
        sampled({"slice_len": 4, "span": 4}, [7], 8)


def test_truncations_within_a_part_stay() -> None:
    """Where numbers of trajectories say that they go on, as where collectors mark the ends of their batches."""
    data = transitions(8).exclude(("next", "terminated"))
    data["next", "truncated"][3] = data["next", "done"][3] = True
    data["episode"] = torch.zeros(8)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(8), sampler=SliceSampler(num_slices=1), batch_size=8
    )
    buffer.extend(data)
    sample = buffer.sample()
    assert sample["next", "truncated"].flatten().nonzero().flatten().tolist() == [3, 7]
    assert sample["next", "done"].flatten().nonzero().flatten().tolist() == [3, 6, 7]
    assert not sample["next", "terminated"].any()


def test_several_flags() -> None:
    data = transitions(10)
    data["next", "truncated"][2] = True
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(10),
        sampler=SliceSampler(
            slice_len=3, end_keys=[("next", "terminated"), ("next", "truncated"), "unknown"]
        ),
        batch_size=90,
    )
    buffer.extend(data)
    starts = set((buffer.sample()["observation"].reshape(30, 3)[:, 0] / 100).long().tolist())
    assert starts <= {0, 3, 4, 7}
    assert starts >= {0, 7}


def test_flags_of_several_agents() -> None:
    """A row of which any flag is set is an end."""
    data = transitions(10).exclude("next")
    data["next", "done"] = torch.zeros(10, 3, 1, dtype=torch.bool)
    data["next", "done"][4, 1] = data["next", "done"][6, 0] = True
    buffer = ReplayBuffer(storage=LazyTensorStorage(10), sampler=SliceSampler(slice_len=3), batch_size=300)
    buffer.extend(data)
    starts = (buffer.sample()["observation"].reshape(100, 3)[:, 0] / 100).long().tolist()
    assert set(starts) == {0, 1, 2, 7}


def test_where_numbers_were_found() -> None:
    def found(data: TensorDict, **options: Any) -> Any:
        buffer = ReplayBuffer(
            storage=LazyTensorStorage(9), sampler=SliceSampler(slice_len=2, **options), batch_size=4
        )
        buffer.extend(data)
        buffer.sample()
        assert isinstance(buffer.sampler, SliceSampler)
        return buffer.sampler.traj_key

    data = episodes(9)
    assert found(data) == "episode"
    data["collector", "traj_ids"] = data["episode"]
    assert found(data) == ("collector", "traj_ids")
    assert found(data, traj_key="episode") == "episode"
    assert found(data, end_key=("next", "done")) is None
    assert found(transitions(9)) is None


def test_boundaries_are_found_again_when_rows_change() -> None:
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(14),
        sampler=SliceSampler(slice_len=7),
        batch_size=70,
        generator=torch.Generator().manual_seed(0),
    )
    buffer.extend(episodes(14))
    assert set((buffer.sample()["observation"].flatten() / 700).long().tolist()) == {0, 1}
    buffer.extend(episodes(7, 14))
    assert set((buffer.sample()["observation"].flatten() / 700).long().tolist()) == {1, 2}
    buffer["episode"] = torch.arange(14)
    with pytest.raises(RuntimeError, match="no trajectory of 7 rows: the longest has 1"):
        buffer.sample()


def test_without_replacement() -> None:
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(80),
        sampler=SliceSamplerWithoutReplacement(slice_len=4),
        batch_size=12,
        generator=torch.Generator().manual_seed(0),
    )
    buffer.extend(episodes(66))  # nine episodes, and one of three steps
    for _ in range(3):
        passed = [sample["episode"].reshape(-1, 4)[:, 0].tolist() for sample in buffer]
        assert [len(sample) for sample in passed] == [3, 3, 3]
        assert sorted(number for sample in passed for number in sample) == list(range(9))


class TestMistakes:
    def test_arguments(self) -> None:
        for options in ({}, {"num_slices": 2, "slice_len": 3}):
            with pytest.raises(TypeError, match="give num_slices or slice_len"):
                SliceSampler(**options)
        with pytest.raises(ValueError, match="end_key or end_keys"):
            SliceSampler(slice_len=2, end_key="done", end_keys=["done"])

    def test_sizes(self) -> None:
        for options in ({"num_slices": 3}, {"slice_len": 3}):
            with pytest.raises(ValueError, match="a sample of 10 rows can't be divided into 3"):
                sampled(options, [7], 10)

    def test_no_ends(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(9), sampler=SliceSampler(slice_len=2), batch_size=4)
        with pytest.raises(RuntimeError, match="the replay buffer is empty"):
            buffer.sample()
        buffer.extend(TensorDict({"observation": torch.zeros(4)}, [4]))
        with pytest.raises(KeyError, match=r"none of .*'traj_ids'.*'done'"):
            buffer.sample()
