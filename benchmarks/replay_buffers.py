"""Replay buffers: writing and sampling, against TorchRL's; prioritized ones where TorchRL's extension can be loaded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import specgen_runtime.data as ours
import torch
import torchrl.data as theirs
from specgen_runtime.training.checkpoints import Checkpoints
from tensordict import TensorDict
from torchrl.data.replay_buffers.samplers import prioritized

from benchmarks.harness import Budget, Row, Work, paired

CAPACITY = 100_000
LARGE = 1_000_000
BATCH = 256
SLICES: tuple[str, tuple[Any, ...], dict[str, Any]] = ("SliceSampler", (), {"slice_len": 16})


def rows(budget: Budget) -> Iterator[Row]:
    """Writing of one step of many environments and of a batch, each kind of sample, checkpoints."""
    for storage in ("LazyTensorStorage", "LazyMemmapStorage"):
        for count in (8, 1_000):
            yield _extended(storage, count, budget)
        yield _sampled(f"{storage}: sample {BATCH}", _both(storage), budget, 1.7)
    yield _sampled(
        f"without replacement: sample {BATCH}", _both(sampler=("SamplerWithoutReplacement", (), {})), budget
    )
    yield _sampled(f"slices of 16: sample {BATCH}", _both(sampler=SLICES), budget)
    yield from _between_writes(budget)
    yield from _prioritized(budget)
    yield from _saved(budget)


def _extended(storage: str, count: int, budget: Budget) -> Row:
    mine, peer = _both(storage)
    data = _steps(count)
    return paired(
        f"{storage}: extend {count}",
        Work(lambda: mine.extend(data)),
        Work(lambda: peer.extend(data)),
        budget,
        limit=2.5,
    )


def _between_writes(budget: Budget) -> Iterator[Row]:
    """A new step and a sample: what is known of trajectories has to be known of that step, too.

    It is added alone: TorchRL's `HERReplayBuffer` fails behind batches that are written into a full one.
    """

    def round_of(buffer: Any, step: TensorDict) -> None:
        buffer.add(step)
        buffer.sample()

    for capacity in (CAPACITY, LARGE):
        for name, made in (("slices of 16", _sliced), ("goals in hindsight", _hindsight)):
            step = _steps(1, goals=made is _hindsight)[0]
            yield paired(
                f"{name}, {capacity:,} steps: add 1, sample {BATCH}",
                Work(partial(round_of, made(ours, capacity), step)),
                Work(partial(round_of, made(theirs, capacity), step)),
                budget,
                limit=1.3,
            )


def _sliced(library: Any, capacity: int) -> Any:
    return _one(library, sampler=SLICES, capacity=capacity)


def _hindsight(library: Any, capacity: int) -> Any:
    buffer = library.HERReplayBuffer(
        lambda step: (step["next", "achieved_goal"] - step["desired_goal"]).norm(dim=-1, keepdim=True),
        storage=library.LazyTensorStorage(capacity),
        batch_size=BATCH,
    )
    return _filled(buffer, capacity, goals=True)


def _prioritized(budget: Budget) -> Iterator[Row]:
    sampler = ("PrioritizedSampler", (CAPACITY, 0.6, 0.4), {})
    if prioritized.SumSegmentTreeFp32 is None:  # TorchRL's extension is built for another torch
        mine, uniform = _one(ours, sampler=sampler), _one(ours)
        peer_name = "ours, uniform"
    else:
        mine, uniform = _both(sampler=sampler)
        peer_name = "TorchRL"
    error = torch.rand(BATCH)

    def round_of(buffer: Any) -> None:
        buffer.update_tensordict_priority(buffer.sample().set("td_error", error))

    yield paired(
        f"prioritized: sample {BATCH}, update priorities",
        Work(lambda: round_of(mine)),
        Work(lambda: round_of(uniform)),
        budget,
        peer_name=peer_name,
    )


def _saved(budget: Budget) -> Iterator[Row]:
    """Saving of a large buffer after every thousand steps: as checkpoints do, which wait for the disk, and as `dumps` does."""
    steps = _steps(1_000)
    with tempfile.TemporaryDirectory() as folder:
        mine, peer = _one(ours, capacity=LARGE), _one(theirs, capacity=LARGE)
        checkpoints = Checkpoints(Path(folder), keep=2)
        saved = iter(range(LARGE))
        yield paired(
            f"checkpoint of {LARGE:,} steps, 1,000 of them new",
            Work(
                lambda: checkpoints.save(next(saved), {}, {"buffer": mine}),
                prepare=lambda: mine.extend(steps),
            ),
            Work(lambda: peer.dumps(Path(folder) / "peer"), prepare=lambda: peer.extend(steps)),
            budget,
        )


def _sampled(name: str, buffers: tuple[Any, Any], budget: Budget, limit: float | None = None) -> Row:
    mine, peer = buffers
    return paired(name, Work(mine.sample), Work(peer.sample), budget, limit=limit)


def _both(storage: str = "LazyTensorStorage", **options: Any) -> tuple[Any, Any]:
    return _one(ours, storage, **options), _one(theirs, storage, **options)


def _one(
    library: Any,
    storage: str = "LazyTensorStorage",
    sampler: tuple[str, tuple[Any, ...], dict[str, Any]] = ("RandomSampler", (), {}),
    capacity: int = CAPACITY,
) -> Any:
    """A full buffer."""
    name, arguments, keywords = sampler
    buffer = library.TensorDictReplayBuffer(
        storage=getattr(library, storage)(capacity),
        sampler=getattr(library, name)(*arguments, **keywords),
        batch_size=BATCH,
    )
    return _filled(buffer, capacity)


def _filled(buffer: Any, capacity: int, goals: bool = False) -> Any:
    for _ in range(capacity // 10_000):
        buffer.extend(_steps(10_000, goals))
    return buffer


def _steps(count: int, goals: bool = False) -> TensorDict:
    """Steps as of HalfCheetah, of episodes of 100."""
    done = (torch.arange(count) % 100 == 99).unsqueeze(-1)
    after = {
        "observation": torch.randn(count, 17),
        "reward": torch.randn(count, 1),
        "done": done,
        "terminated": torch.zeros_like(done),
        "truncated": done,
    }
    entries = {"observation": torch.randn(count, 17), "action": torch.randn(count, 6), "next": after}
    steps = TensorDict(entries, [count])
    if goals:
        for name in ("achieved_goal", "desired_goal"):
            steps[name] = steps["next", name] = torch.randn(count, 3)
    return steps
