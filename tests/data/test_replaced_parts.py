"""`set_sampler`, `set_storage`, `set_writer` and `next` of a replay buffer."""

from __future__ import annotations

import pickle
import warnings

import pytest
import specgen_runtime.data as ours
import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    PrioritizedSampler,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
)

from tests.data.transitions import numbers, transitions


@pytest.mark.parametrize("ndim", [1, 2])
def test_a_sampler_that_comes_later(ndim: int) -> None:
    generator = torch.Generator().manual_seed(1)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(20, ndim=ndim), batch_size=6, generator=generator
    )
    data = transitions(10) if ndim == 1 else transitions(10, 0, (2,)).transpose(0, 1)
    buffer.extend(data)
    before = buffer.sampler
    buffer.sample()
    assert buffer.set_sampler(PrioritizedSampler(20, 1.0, 0.5, eps=0.0)) is before
    assert buffer.sampler._rng is generator
    sample = buffer.sample()
    assert sample["priority_weight"].tolist() == [1.0] * 6
    assert (sample["index_generation"] == -1).all()
    index = sample["index"][:1]
    buffer.update_priority(index, 0.0)
    drawn = [one.flatten().tolist() for _ in range(40) for one in buffer.sample()["index"]]
    assert index[0].flatten().tolist() not in drawn
    assert len({tuple(one) for one in drawn}) == data.numel() - 1


def test_samples_that_were_prefetched_are_dropped() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=4, prefetch=3)
    buffer.extend(transitions(20))
    buffer.sample()
    buffer.set_sampler(SamplerWithoutReplacement(shuffle=False))
    assert numbers(buffer.sample()) == [0, 1, 2, 3]


def test_a_sampler_for_samples_of_one_size() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20))
    with pytest.raises(ValueError, match="drop_last needs samples of one size"):
        buffer.set_sampler(SamplerWithoutReplacement(drop_last=True))
    assert isinstance(buffer.sampler, RandomSampler)


def test_a_storage() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), sampler=SliceSampler(slice_len=2), batch_size=4)
    buffer.extend(transitions(20))
    buffer.sample()
    other = LazyTensorStorage(10)
    before = buffer.set_storage(other)
    assert len(before) == 20
    assert len(buffer) == 0
    assert buffer.extend(transitions(4, 50)).tolist() == [0, 1, 2, 3]
    assert min(numbers(buffer.sample())) >= 50
    assert numbers(before.get(slice(None))) == list(range(20))
    with pytest.raises(ValueError, match="2 those of the storage"):
        buffer.set_storage(LazyTensorStorage(10, ndim=2))


def test_a_writer() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=4)
    buffer.extend(transitions(5))
    first = buffer.set_writer(ours.ImmutableDatasetWriter())
    with pytest.raises(RuntimeError, match="can't be written"):
        buffer.extend(transitions(5))
    deep = ReplayBuffer(storage=LazyTensorStorage(20, ndim=2))
    kept = deep.writer
    with pytest.raises(ValueError, match="ranks rows"):
        deep.set_writer(ours.TensorDictMaxValueWriter())
    assert deep.writer is kept
    buffer.set_writer(first)
    assert buffer.extend(transitions(2)).tolist() == [5, 6]


def test_next() -> None:
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(20), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=4
    )
    with pytest.raises(RuntimeError, match="empty"):
        buffer.next()
    buffer.extend(transitions(8))
    passes = [buffer.next() for _ in range(6)]
    assert [None if one is None else numbers(one) for one in passes] == [
        *([0, 1, 2, 3], [4, 5, 6, 7], None),
        *([0, 1, 2, 3], [4, 5, 6, 7], None),
    ]
    buffer.next()
    assert numbers(pickle.loads(pickle.dumps(buffer)).next()) == [4, 5, 6, 7]
    buffer.next()
    resumed = ReplayBuffer(
        storage=LazyTensorStorage(20), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=4
    )
    resumed.load_state_dict(buffer.state_dict())
    for one in (resumed, pickle.loads(pickle.dumps(buffer))):
        assert one.next() is None
        assert numbers(one.next()) == [0, 1, 2, 3]
    buffer.set_sampler(SamplerWithoutReplacement(shuffle=False))
    assert numbers(buffer.next()) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [None, 5])
def test_prefetched_samples_of_another_size_are_not_given(size: int | None) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=4, prefetch=2)
    buffer.extend(transitions(8))
    buffer.sample()
    resumed = ReplayBuffer(storage=LazyTensorStorage(20), batch_size=size)
    resumed.load_state_dict(buffer.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a number that is not the buffer's
        assert [len(resumed.sample(5)) for _ in range(3)] == [5, 5, 5]
