"""`PrioritizedSliceSampler`: parts of trajectories that begin with rows drawn by their priority."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from specgen_runtime.data import LazyTensorStorage, PrioritizedSliceSampler, TensorDictReplayBuffer

from tests.data.test_slices import assert_unbroken, episodes


def buffer(capacity: int = 40, ndim: int = 1, size: int = 12, **options: Any) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(
        storage=LazyTensorStorage(capacity, ndim=ndim),
        sampler=PrioritizedSliceSampler(capacity, **{"alpha": 1.0, "beta": 1.0, "eps": 0.0, **options}),
        batch_size=size,
        generator=torch.Generator().manual_seed(0),
    )


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("writes", [[20], [33, 22], [7, 7, 40, 3], [64, 1]], ids=str)
def test_parts_are_unbroken(writes: list[int], ndim: int) -> None:
    made = buffer(40 * (3 if ndim == 2 else 1), ndim, slice_len=3)
    first = 0
    for count in writes:
        data = episodes(count, first, (3,) if ndim == 2 else ())
        made.extend(data.transpose(0, 1) if ndim == 2 else data)
        first += count
        for _ in range(20):
            for part in made.sample().reshape(4, 3):
                assert_unbroken(part)
                assert part["is_init"][0]


def test_parts_begin_in_proportion_to_priorities() -> None:
    made = buffer(size=3_000, slice_len=3)
    made.extend(episodes(14))
    priority = torch.arange(1, 15).float()
    made.update_priority(torch.arange(14), priority)
    sample = made.sample().reshape(1_000, 3)
    begins = sample["index"][:, 0]
    wanted = torch.tensor([1.0, 2, 3, 4, 5, 0, 0, 8, 9, 10, 11, 12, 0, 0])  # none fits behind the others
    drawn = torch.bincount(begins, minlength=14) / 1_000
    torch.testing.assert_close(drawn, wanted / wanted.sum(), atol=0.05, rtol=0)
    assert not drawn[wanted == 0].any()
    torch.testing.assert_close(sample["priority_weight"], (1 / priority[begins]).unsqueeze(-1).expand(-1, 3))
    # Drawing leaves the priorities of rows that begin no part.
    assert float(made.sampler._trees.sums.total()) == float(priority.sum())  # type: ignore[attr-defined]


def test_rows_have_priorities_of_their_own() -> None:
    made = buffer(size=6, slice_len=3)
    made.extend(episodes(7))
    sample = made.sample()
    made.update_tensordict_priority(sample.set("td_error", torch.zeros(6, 1)))
    left = sorted(set(range(5)) - set(sample["index"].tolist()))
    begins = {int(index) for _ in range(30) for index in made.sample()["index"].reshape(2, 3)[:, 0]}
    assert begins == set(left)


def test_short_trajectories() -> None:
    made = buffer(slice_len=12, strict_length=False)
    made.extend(episodes(17))
    starts = {int(made.sample()["index"][0]) for _ in range(40)}
    assert starts == {0, 7, 14}
    padded = buffer(slice_len=12, strict_length=False, pad_output=True)
    padded.extend(episodes(17))
    sample = padded.sample()
    assert sample.shape == (12,)
    assert int(sample["collector", "mask"].sum()) in (3, 7)
    strict = buffer(slice_len=12)
    strict.extend(episodes(17))
    with pytest.raises(RuntimeError, match="no trajectory of 12 rows"):
        strict.sample()


def test_a_span_does_not_let_short_trajectories_in() -> None:
    made = buffer(size=12, slice_len=6, span=(False, True))
    made.extend(episodes(12))  # episodes of 7 and 5 rows
    assert {int(episode) for _ in range(20) for episode in made.sample()["episode"]} == {0}


@pytest.mark.parametrize(("span", "last"), [(True, 6), (1, 4), (False, 3)])
def test_span_behind(span: bool | int, last: int) -> None:
    made = buffer(size=4, slice_len=4, span=[False, span])
    made.extend(episodes(7))
    samples = [made.sample() for _ in range(60)]
    assert max(int(sample["index"][0]) for sample in samples) == last
    assert {len(sample) for sample in samples} == set(range(7 - last, 5))


def test_refused() -> None:
    for span in (True, 2, (True, False), (1, 1)):
        with pytest.raises(ValueError, match="can't reach before their trajectory"):
            buffer(slice_len=4, span=span)
    with pytest.raises(ValueError, match="alpha is 0 or larger"):
        buffer(slice_len=4, alpha=-1.0)
    with pytest.raises(TypeError, match="num_slices or slice_len"):
        buffer()
    made = buffer(slice_len=4)
    made.extend(episodes(7))
    made.update_priority(torch.arange(4), 0.0)
    with pytest.raises(RuntimeError, match="all priorities are 0"):
        made.sample()
    made.update_priority(torch.arange(1), 1.0)  # the others still count
    assert made.sample()["index"].tolist() == [0, 1, 2, 3] * 3


def test_goes_on_to_the_last_bit() -> None:
    made, other = buffer(slice_len=3), buffer(slice_len=3)
    made.extend(episodes(33))
    made.update_priority(torch.arange(33), torch.rand(33))
    made.sample()
    other.load_state_dict(made.state_dict())
    copy = pickle.loads(pickle.dumps(made))
    for _ in range(4):
        index = made.sample()["index"]
        assert torch.equal(other.sample()["index"], index)
        assert torch.equal(copy.sample()["index"], index)
    made.empty()
    with pytest.raises(RuntimeError, match="empty"):
        made.sample()
