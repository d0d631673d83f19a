"""`TensorDictMaxValueWriter`: the rows that rank highest stay, as a sort finds them, and as TorchRL's writer does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from tensordict import TensorDict

REDUCTIONS = ("max", "min", "mean", "median", "sum")


def ranked(*shape: int, seed: int = 0) -> TensorDict:
    """Rows with rewards that often are equal."""
    reward = torch.randint(20, shape, generator=torch.Generator().manual_seed(seed)).float()
    return TensorDict({"next": {"reward": reward}, "number": torch.arange(shape[0]) + 100 * seed}, shape[:1])


def made(size: int, reduction: str = "sum") -> TensorDictReplayBuffer:
    writer = TensorDictMaxValueWriter(reduction=reduction)
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), writer=writer, batch_size=4)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_highest_stay(reduction: str) -> None:
    buffer = made(7, reduction)
    batches = [ranked(5, 3, 1, seed=seed) for seed in range(8)]
    for batch in batches:
        index = buffer.extend(batch)
        kept = index >= 0
        assert (buffer[index[kept]] == batch[kept]).all()

    def values(data: TensorDict) -> list[float]:
        reduced = getattr(data["next", "reward"].flatten(1), reduction)(1)
        return sorted((reduced if isinstance(reduced, torch.Tensor) else reduced.values).tolist())

    assert values(buffer[:]) == values(torch.cat(batches))[-7:]


def test_of_a_batch_that_is_larger_than_the_space() -> None:
    buffer = made(2)
    data = TensorDict({"next": {"reward": torch.tensor([3.0, 1.0, 5.0, 4.0, 2.0])}}, [5])
    assert buffer.extend(data).tolist() == [-1, -1, 1, 0, -1]
    assert buffer["next", "reward"].tolist() == [4, 5]
    assert int(buffer.add(data[0])) == -1
    assert (len(buffer), buffer.write_count) == (2, 4)
    buffer.empty()
    assert buffer.extend(data[:2]).tolist() == [0, 1]


def test_refused() -> None:
    with pytest.raises(ValueError, match="reduction is one of max, min, mean, median, sum, got 'last'"):
        TensorDictMaxValueWriter(reduction="last")
    with pytest.raises(ValueError, match="keep a trajectory in each row, with ndim=1"):
        ReplayBuffer(storage=LazyTensorStorage(4, ndim=2), writer=TensorDictMaxValueWriter())
    with pytest.raises(TypeError, match="ranks rows by an entry, got list"):
        ReplayBuffer(storage=ListStorage(4), writer=TensorDictMaxValueWriter()).extend(["a"])
    buffer = made(2)
    buffer.extend(ranked(2))
    with pytest.raises(KeyError, match=r"'next', 'reward'.* is missing"):
        buffer.extend(ranked(2).exclude(("next", "reward")))
    for wrong, error in ((float("nan"), "of row 1 is NaN"), (99.0, "'number' is in the replay buffer")):
        data = TensorDict({"next": {"reward": torch.tensor([98.0, wrong])}}, [2])
        with pytest.raises((ValueError, KeyError), match=error):
            buffer.extend(data)
    assert (buffer[:] == ranked(2)).all(), "nothing was written"
    data = ranked(2).apply(lambda leaf: leaf + 20)
    assert sorted(buffer.extend(data).tolist()) == [0, 1], "what was refused has no rank"


def test_priorities_of_rows_that_are_kept() -> None:
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(3),
        sampler=PrioritizedSampler(3, 1.0, 1.0, eps=0.0),
        writer=TensorDictMaxValueWriter("value"),
        batch_size=64,
    )
    value = torch.tensor([5.0, 1.0, 4.0, 3.0])
    buffer.extend(TensorDict(value=value, td_error=(value == 4).float(), batch_size=[4]))
    sample = buffer.sample()
    assert sample["value"].unique().tolist() == [4]
    buffer.add(TensorDict(value=torch.tensor(6.0), td_error=torch.tensor(0.0)))
    buffer.add(TensorDict(value=torch.tensor(7.0), td_error=torch.tensor(1.0)))  # over the one with 4
    buffer.update_tensordict_priority(sample.set("td_error", torch.zeros(64)))
    assert buffer.sample()["value"].unique().tolist() == [7]


def test_goes_on_where_it_stood(tmp_path: Path) -> None:
    buffer, other = made(5), made(5)
    buffer.extend(ranked(9, 1))
    buffer.dumps(tmp_path)
    other.loads(tmp_path)
    for each in (buffer, other):
        each.extend(ranked(9, 1, seed=1))
    assert (buffer[:] == other[:]).all()
    assert buffer.write_count == other.write_count


@pytest.mark.peers
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3, 1)])
def test_against_torchrl(reduction: str, shape: tuple[int, ...]) -> None:
    theirs = pytest.importorskip("torchrl.data")
    their_buffer = theirs.TensorDictReplayBuffer(
        storage=theirs.LazyTensorStorage(7),
        writer=theirs.TensorDictMaxValueWriter(reduction=reduction),
        batch_size=4,
    )
    buffer = made(7, reduction)
    for seed in range(6):
        found, wanted = (each.extend(ranked(*shape, seed=seed)) for each in (buffer, their_buffer))
        assert found.tolist() == wanted.tolist()
    assert (buffer[:] == their_buffer[:].exclude("index")).all()
    assert buffer.write_count == their_buffer.write_count
