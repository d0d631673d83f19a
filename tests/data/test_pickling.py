"""Replay buffers in other processes: a copy that goes on as the original does."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import Future
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    SamplerWithoutReplacement,
    TensorDictReplayBuffer,
)
from specgen_runtime.transforms import MultiStepTransform

from tests.data.transitions import transitions


def drawn(buffer: TensorDictReplayBuffer) -> list[list[int]]:
    """Which rows the next samples have, where rows are written between them."""
    found = []
    for step in range(4):
        buffer.extend(transitions(3, step))
        found.append(buffer.sample()["index"].tolist())
    return found


def made(storage: type = LazyTensorStorage, **options: Any) -> TensorDictReplayBuffer:
    generator = torch.Generator().manual_seed(0)
    buffer = TensorDictReplayBuffer(storage=storage(20), batch_size=6, generator=generator, **options)
    buffer.append_transform(MultiStepTransform(2, 0.9))
    buffer.extend(transitions(12, 0))
    buffer.sample()
    return buffer


def send_drawn(buffer: TensorDictReplayBuffer, found: Any) -> None:
    found.put(drawn(buffer))


@pytest.mark.parametrize("storage", [LazyTensorStorage, ListStorage, LazyStackStorage])
@pytest.mark.parametrize("sampler", [SamplerWithoutReplacement, lambda: PrioritizedSampler(20, 0.6, 0.4)])
@pytest.mark.parametrize("prefetch", [None, 2])
def test_a_copy_goes_on_as_the_original(storage: type, sampler: Any, prefetch: int | None) -> None:
    buffer = made(storage, sampler=sampler, prefetch=prefetch)
    copies = [pickle.loads(pickle.dumps(buffer)), copy.deepcopy(buffer)]
    wanted = drawn(buffer)
    for each in copies:
        assert drawn(each) == wanted


def test_in_a_process_that_is_spawned() -> None:
    buffer = made(LazyStackStorage, prefetch=2)
    context = multiprocessing.get_context("spawn")
    found = context.Queue()
    process = context.Process(target=send_drawn, args=(buffer, found))
    process.start()
    try:
        there = found.get(timeout=60)
    finally:
        process.join(10)
        process.kill()
    assert there == drawn(buffer)


def test_rows_in_files_are_not_sent() -> None:
    with pytest.raises(TypeError, match="can't be pickled: save the buffer with `dumps`"):
        pickle.dumps(made(LazyMemmapStorage))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="nothing is forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_in_a_process_that_is_forked() -> None:
    """It has no thread, and makes what the thread had begun."""
    buffer = made(prefetch=2)
    begun = buffer._samples._begun
    begun[1] = begun[1]._replace(sample=Future())  # the thread is not done with it, and is not there
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    process = context.Process(target=send_drawn, args=(buffer, found))
    process.start()
    try:
        wanted = drawn(made(prefetch=2))
        assert found.get(timeout=60) == wanted
    finally:
        process.kill()
        process.join()
