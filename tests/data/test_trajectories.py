"""Where trajectories end, kept as rows change: what is found by looking at all rows again."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    CompressedListStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    SliceSampler,
    Storage,
    TensorStorage,
)
from specgen_runtime.data.trajectories import Ends, TrajectoryEnds
from tensordict import TensorDict
from torch import Tensor


def ends_by_scan(end: Tensor, *, full: bool, last: int | None) -> list[list[int]]:
    """The elements `[row, *batch]` behind which a piece ends, of flags of all `[rows, *batch]`."""
    end = end.clone()
    if not full:
        end[-1] = True
    elif last is not None:
        end[last] = True
    else:
        end[-1] |= ~end.any(0)
    return end.nonzero().tolist()


def pieces_by_scan(end: Tensor, *, full: bool, last: int | None) -> list[tuple[list[int], int]]:
    """The first element and the length of each piece, in the order of the batch from its last dimension, then of ends."""
    rows, found = len(end), []
    stops = ends_by_scan(end, full=full, last=last)
    for row, *batch in sorted(
        stops, key=lambda stop: (*stop[-1:], *stop[1:-1], stop[0]) if stop[1:] else stop
    ):
        there = sorted(stop[0] for stop in stops if stop[1:] == batch)
        before = there[there.index(row) - 1]
        found.append(([(before + 1) % rows, *batch], (row - before - 1) % rows + 1))
    return found


def flagged(*rows: int, of: int) -> Tensor:
    end = torch.zeros(of, dtype=torch.bool)
    end[list(rows)] = True
    return end


def found(ends: Ends) -> list[tuple[list[int], int]]:
    start, length = ends.pieces()
    return list(zip(start.tolist(), length.tolist(), strict=True))


def in_storage(end: Tensor, last: int | None = None) -> Ends:
    """The ends in a storage that is full."""
    storage = TensorStorage(TensorDict({"done": end}, end.shape), ndim=end.ndim)
    storage._last_cursor = last
    return TrajectoryEnds("this", [], ["done"]).of(storage)


def test_around_the_end() -> None:
    """A trajectory goes on in row 0, unless the newest row is the last."""
    end = flagged(2, 4, 7, of=10)
    assert found(in_storage(end)) == [([8], 5), ([3], 2), ([5], 3)]
    assert found(in_storage(end, 9)) == [([0], 3), ([3], 2), ([5], 3), ([8], 2)]


def test_none_ends() -> None:
    assert found(in_storage(torch.zeros(5, 2, dtype=torch.bool), 1)) == [([2, 0], 5), ([2, 1], 5)]
    assert found(in_storage(torch.zeros(5, dtype=torch.bool))) == [([0], 5)]
    assert found(in_storage(torch.zeros(1, dtype=torch.bool))) == [([0], 1)]


KINDS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "rows": (LazyTensorStorage, ()),
    "a batch": (LazyTensorStorage, (3,)),
    "a batch of two dimensions": (LazyTensorStorage, (2, 3)),
    "a list": (ListStorage, ()),
    "a compressed list": (CompressedListStorage, ()),
}
CHOSEN: dict[str, dict[str, Any]] = {
    "flags": {"numbers": [], "flags": ["done", "truncated", "elsewhere"]},
    "numbers": {"numbers": ["elsewhere", "episode"], "flags": ["done"]},
    "both": {"numbers": ["episode"], "flags": ["done", "truncated"], "both": True},
}


@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_written(kind: str, chosen: str, seed: int) -> None:
    """Rows are appended, written over, around the end, loaded, forgotten, set by index; seldom or often looked at."""
    made, batch = KINDS[kind]
    ndim = 1 + len(batch)
    rows, choose = 23, random.Random(f"{kind} {chosen} {seed}")
    generator = torch.Generator().manual_seed(seed)
    options = {} if ndim == 1 else {"ndim": ndim}

    def data(count: int) -> TensorDict:
        def drawn(high: int) -> Tensor:
            return torch.randint(high, (count, *batch), generator=generator)

        # numbers stay the same for some rows, and flags of two agents are rare
        episode = drawn(4).div(3, rounding_mode="floor").cumsum(0)
        flags = {name: torch.stack([drawn(7) == 0, drawn(9) == 0], -1) for name in ("done", "truncated")}
        return TensorDict({"episode": episode, **flags}, [count, *batch])

    def ends_of(storage: Storage) -> Tensor:
        """By looking at all rows."""
        every = storage.collate(storage.get(slice(None)))
        new = every["episode"] != every["episode"].roll(-1, 0)
        done, truncated = every["done"].any(-1), every["truncated"].any(-1)
        return {"flags": done | truncated, "numbers": new, "both": new | done | truncated}[chosen]

    def made_buffer() -> ReplayBuffer:
        return ReplayBuffer(storage=made(rows * torch.Size(batch).numel(), **options), dim_extend=0)

    buffer = made_buffer()
    ends = TrajectoryEnds("this", **CHOSEN[chosen])
    looks = 0
    for _ in range(150):
        match choose.choices(
            ("extend", "extend far", "set", "set some", "entry", "load", "empty", "more than it holds"),
            (40, 6, 8, 4, 2, 2, 1, 2),
        ):
            case ["extend"]:
                buffer.extend(data(choose.randint(1, 4)))
            case ["extend far"]:
                buffer.extend(data(choose.randint(5, rows)))
            case ["more than it holds"]:
                buffer.extend(data(choose.randint(rows, 2 * rows + 3)))
            case ["set"] if len(buffer):
                count = buffer.storage.shape[0]  # type: ignore[index]
                first = choose.randrange(count)
                stop = choose.randint(first + 1, count)
                buffer[first:stop] = data(stop - first)
            case ["set some"] if len(buffer):
                count = buffer.storage.shape[0]  # type: ignore[index]
                places = torch.tensor(choose.sample(range(count), choose.randint(1, count)))
                buffer[places] = data(len(places))
            case ["entry"] if len(buffer):
                buffer["episode"] = data(buffer.storage.shape[0])["episode"]  # type: ignore[index]
            case ["load"] if len(buffer):
                other = made_buffer()
                other.extend(data(choose.randint(1, 2 * rows)))
                buffer.load_state_dict(other.state_dict())
            case ["empty"]:
                buffer.empty()
        if len(buffer) and choose.random() < (0.9, 0.3)[seed % 2]:
            storage, looks = buffer.storage, looks + 1
            flags = ends_of(storage)
            where: dict[str, Any] = {"full": storage.is_full, "last": storage._last_cursor}
            now = ends.of(storage)
            assert now.sizes == flags.shape
            wanted = pieces_by_scan(flags, **where)
            assert found(now) == wanted
            elements = torch.ones(flags.shape).nonzero()
            begin, length = now.piece_of(elements)
            for (row, *of), first_row, size in zip(
                elements.tolist(), begin.tolist(), length.tolist(), strict=True
            ):
                assert ([first_row, *of], size) in wanted
                assert (row - first_row) % len(flags) < size
    assert looks > 30


def test_only_what_was_written_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    entries = LazyTensorStorage.entries

    def counted(self: LazyTensorStorage, keys: Any, index: Any) -> Any:
        if isinstance(index, slice):
            looked_at.append(index.stop - index.start)
        return entries(self, keys, index)

    monkeypatch.setattr(LazyTensorStorage, "entries", counted)
    buffer = ReplayBuffer(storage=LazyTensorStorage(1_000), sampler=SliceSampler(slice_len=4), batch_size=8)
    steps = TensorDict({"next": {"done": torch.arange(1_300).unsqueeze(-1) % 10 == 9}}, [1_300])
    buffer.extend(steps[:900])
    buffer.sample()
    assert sum(looked_at) >= 900
    for first in range(900, 1_300, 4):
        looked_at.clear()
        buffer.extend(steps[first : first + 2])
        buffer.extend(steps[first + 2 : first + 4])
        buffer.sample()
        assert sum(looked_at) <= 6
        buffer.sample()
        assert sum(looked_at) <= 6  # nothing has changed


def test_after_very_many_writes() -> None:
    """Of the last writes alone it is known what they changed."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(9), sampler=SliceSampler(slice_len=4), batch_size=40)
    buffer.extend(
        TensorDict(
            {"next": {"done": torch.tensor([[False]] * 4 + [[True]] * 5)}, "row": torch.arange(9)}, [9]
        )
    )
    assert set(buffer.sample()["row"].tolist()) == {0, 1, 2, 3, 4}
    for _ in range(300):
        buffer[5:] = TensorDict(
            {"next": {"done": torch.tensor([[False]] * 4)}, "row": torch.arange(5, 9)}, [4]
        )
        buffer[0] = TensorDict({"next": {"done": torch.tensor([True])}, "row": torch.tensor(0)}, [])
        buffer[0] = TensorDict({"next": {"done": torch.tensor([True])}, "row": torch.tensor(0)}, [])
    assert set(buffer.sample()["row"].tolist()) == set(range(1, 9))


def test_copies_do_not_take_the_rows_along() -> None:
    sampler = SliceSampler(slice_len=4)
    buffer = ReplayBuffer(storage=LazyTensorStorage(100_000), sampler=sampler, batch_size=8)
    buffer.extend(TensorDict({"next": {"done": torch.zeros(50_000, 1, dtype=torch.bool)}}, [50_000]))
    buffer.sample()
    copy = pickle.dumps(sampler)
    assert len(copy) < 3_000
    other = ReplayBuffer(storage=LazyTensorStorage(20), sampler=pickle.loads(copy), batch_size=8)
    other.extend(TensorDict({"next": {"done": torch.zeros(20, 1, dtype=torch.bool)}}, [20]))
    assert len(other.sample()) == 8
