"""Storages that keep a list: rows of any kind and of different lengths, read, written over, sampled and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictMaxValueWriter,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from tensordict import LazyStackedTensorDict, TensorClass, TensorDict, lazy_stack

from tests.data.transitions import transitions


class Answer(TensorClass):  # type: ignore[misc]
    """A tensorclass in a row."""

    tokens: torch.Tensor
    said: str


def text(number: int) -> TensorDict:
    """A row as long as its number."""
    return TensorDict(tokens=torch.arange(number), number=torch.tensor(number), said="x" * number)


def texts(*numbers: int) -> LazyStackedTensorDict:
    stacked: LazyStackedTensorDict = lazy_stack([text(number) for number in numbers])
    return stacked


def numbers_in(data: Any) -> list[int]:
    """The numbers of rows, each of which is what `text` made."""
    rows = data if isinstance(data, list) else data.unbind(0)
    for row in rows:
        assert torch.equal(row["tokens"], torch.arange(int(row["number"])))
        assert row["said"] == "x" * int(row["number"])
    return [int(row["number"]) for row in rows]


@pytest.mark.parametrize("kind", [ListStorage, LazyStackStorage])
class TestRows:
    def test_the_newest_over_the_oldest(self, kind: type) -> None:
        buffer = ReplayBuffer(storage=kind(4))
        assert buffer.extend(texts(1, 2, 3)).tolist() == [0, 1, 2]
        assert int(buffer.add(text(4))) == 3
        assert buffer.extend([text(5), text(6)]).tolist() == [0, 1]
        assert numbers_in(buffer[:]) == [5, 6, 3, 4]
        assert buffer.extend(texts(*range(7, 14))).tolist() == [2, 3, 0, 1, 2, 3, 0]
        assert numbers_in(buffer[:]) == [13, 10, 11, 12]
        assert (len(buffer), buffer.write_count) == (4, 13)

    def test_indices(self, kind: type) -> None:
        buffer = ReplayBuffer(storage=kind(8))
        buffer.extend(texts(3, 1, 4, 2))
        assert numbers_in([buffer[-1], buffer[torch.tensor(2)]]) == [2, 4]
        mask = torch.tensor([True, False, False, True])
        for index, found in ((slice(1, 3), [1, 4]), ([2, 2], [4, 4]), (torch.tensor([3, -4]), [2, 3])):
            assert numbers_in(buffer[index]) == found
        assert numbers_in(buffer[mask]) == [3, 2]
        for wrong in (4, [0, -5]):
            with pytest.raises(IndexError, match="of a storage of 4"):
                buffer[wrong]
        with pytest.raises(IndexError, match="nothing was written"):
            ReplayBuffer(storage=kind(8))[:]

    def test_writing_over(self, kind: type) -> None:
        buffer = ReplayBuffer(storage=kind(8))
        buffer.extend(texts(3, 1, 4))
        buffer[1] = text(7)
        buffer[torch.tensor([2, 0])] = texts(8, 9)
        assert numbers_in(buffer[:]) == [9, 7, 8]
        buffer["number"] = torch.tensor([1, 2, 3])
        assert buffer["number"].tolist() == [1, 2, 3]
        with pytest.raises(IndexError, match="row 3 of a storage of 3"):
            buffer[3] = text(1)
        with pytest.raises(ValueError, match="1 rows were given for 2 places"):
            buffer[:2] = texts(1)
        with pytest.raises(IndexError, match="there are none before it"):
            buffer.storage.set(5, text(1))

    def test_rows_are_nobody_elses(self, kind: type) -> None:
        """Neither what is written nor what was sampled changes them; a row that was drawn twice is two rows."""
        given = text(3)
        given["weight"] = torch.ones(1, requires_grad=True) * 2
        buffer = TensorDictReplayBuffer(storage=kind(2), batch_size=2)
        buffer.add(given)
        given["tokens"].zero_()
        sample = buffer.sample()
        assert sample["index"].tolist() == [0, 0]
        sample["seen"] = torch.tensor([1, 2])
        assert sample["seen"].tolist() == [1, 2]
        sample[0]["tokens"].zero_()
        assert "seen" not in buffer[0]
        assert "index" not in buffer[0]
        assert not buffer[0]["weight"].requires_grad
        assert numbers_in(buffer[:].exclude("weight")) == [3]

    def test_each_row_once(self, kind: type) -> None:
        buffer = ReplayBuffer(storage=kind(), sampler=SamplerWithoutReplacement(), batch_size=2, prefetch=2)
        buffer.extend(texts(*range(1, 6)))
        for _ in range(3):
            assert sorted(number for part in buffer for number in numbers_in(part)) == [1, 2, 3, 4, 5]

    def test_priorities(self, kind: type) -> None:
        buffer = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=kind(4), batch_size=64)
        buffer.extend(texts(1, 2, 3))
        sample = buffer.sample()
        sample["td_error"] = (sample["number"] == 2).float()
        buffer.update_tensordict_priority(sample)
        assert set(numbers_in(buffer.sample())) == {2}

    def test_slices_of_trajectories(self, kind: type) -> None:
        found = []
        for storage in (kind(20), LazyTensorStorage(20)):
            buffer = TensorDictReplayBuffer(
                storage=storage,
                sampler=SliceSampler(slice_len=4),
                batch_size=8,
                generator=torch.Generator().manual_seed(0),
            )
            buffer.extend(transitions(30, 0))
            found.append(buffer.sample())
        assert (found[0] == found[1]).all()

    @pytest.mark.parametrize("how", ["dumps", "state_dict"])
    def test_goes_on_where_it_stood(self, kind: type, how: str, tmp_path: Path) -> None:
        def made(seed: int) -> TensorDictReplayBuffer:
            generator = torch.Generator().manual_seed(seed)
            return TensorDictReplayBuffer(
                storage=kind(4),
                sampler=PrioritizedSampler(4, 0.7, 0.4),
                batch_size=3,
                prefetch=2,
                generator=generator,
            )

        buffer, other = made(0), made(1)
        answers = [TensorDict(answer=Answer(torch.arange(n), "a" * n), of={"x": [n, None]}) for n in (2, 3)]
        nested = lazy_stack([TensorDict(steps=texts(1, 2)), TensorDict(steps=texts(3, 4))])
        buffer.extend(texts(1, 2))
        buffer.extend(lazy_stack(answers))
        buffer.sample()
        buffer.extend(nested[:1])
        if how == "dumps":
            buffer.dumps(tmp_path)
            other.loads(tmp_path)
        else:
            other.load_state_dict(buffer.state_dict())
        for each in (buffer, other):
            each.add(nested[1])
        assert [str(row) for row in buffer.storage._kept] == [str(row) for row in other.storage._kept]
        assert isinstance(other[2]["answer"], Answer)
        assert other[2]["answer"].said == "aa"
        assert numbers_in(other[0]["steps"]) == [1, 2]
        for _ in range(5):
            pair = buffer.sample(), other.sample()
            assert torch.equal(pair[0]["index"], pair[1]["index"])
            assert [str(row) for row in pair[0].unbind(0)] == [str(row) for row in pair[1].unbind(0)]


class TestListStorage:
    def test_text(self, tmp_path: Path) -> None:
        buffer = ReplayBuffer(storage=ListStorage(3), batch_size=2)
        buffer.extend(["a", "b", "c"])
        buffer.add("dd")
        assert buffer[:] == ["dd", "b", "c"]
        assert set(buffer.sample()) <= {"dd", "b", "c"}
        buffer.dumps(tmp_path)
        buffer.empty()
        assert len(buffer) == 0
        buffer.loads(tmp_path)
        assert buffer[:] == ["dd", "b", "c"]

    def test_tensors_are_stacked_if_they_can_be(self) -> None:
        buffer = ReplayBuffer(storage=ListStorage())
        buffer.extend([torch.zeros(2), torch.ones(2), torch.ones(3)])
        assert buffer[:2].tolist() == [[0, 0], [1, 1]]
        assert [len(row) for row in buffer[:]] == [2, 2, 3]

    def test_tensordicts_that_are_alike_are_dense(self) -> None:
        buffer = ReplayBuffer(storage=ListStorage(9))
        buffer.extend(transitions(5, 0))
        assert type(buffer[:]) is TensorDict
        assert (buffer[:] == transitions(5, 0)).all()

    def test_what_has_no_rows(self) -> None:
        buffer = ReplayBuffer(storage=ListStorage())
        with pytest.raises(TypeError, match=r"a ListStorage takes lists of rows.*got str"):
            buffer.extend("text")
        with pytest.raises(RuntimeError, match="nothing to write"):
            buffer.extend([])

    def test_transforms_need_keys(self) -> None:
        buffer = ReplayBuffer(storage=ListStorage(), transform=lambda data: data)
        with pytest.raises(TypeError, match=r"transforms read entries by their key.*lists"):
            buffer.extend(["a"])


class TestLazyStackStorage:
    def test_the_dimension_of_rows(self) -> None:
        rows = [TensorDict(x=torch.full((3, width), width), batch_size=[3]) for width in (1, 2)]
        buffer = ReplayBuffer(storage=LazyStackStorage(stack_dim=-1))
        buffer.extend(rows)
        assert buffer[:].batch_size == (3, 2)
        assert [len(part) for part in buffer[:][0].get("x", as_list=True)] == [1, 2]
        assert buffer[[]].batch_size == (3, 0)

    def test_rows_that_do_not_stack(self) -> None:
        buffer = ReplayBuffer(storage=LazyStackStorage())
        with pytest.raises(TypeError, match="keeps tensordicts or tensorclasses, got str: use ListStorage"):
            buffer.extend(["a"])
        buffer.add(text(1))
        with pytest.raises(ValueError, match=r"batch size \[2\].*have 0 dimensions"):
            buffer.add(texts(1, 2))
        assert len(buffer) == 1


class TestSaving:
    def test_what_would_be_read_by_running_code(self, tmp_path: Path) -> None:
        buffer = ReplayBuffer(storage=LazyStackStorage())
        buffer.add(TensorDict(a=TensorDict(said=[{"of": object()}])))
        with pytest.raises(
            TypeError, match=r"\('a', 'said'\) holds an object of class object, which can't be saved"
        ):
            buffer.dumps(tmp_path)
        with pytest.raises(FileNotFoundError):
            buffer.loads(tmp_path)

    def test_tensorclasses_are_not_imported_by_name(self) -> None:
        buffer = ReplayBuffer(storage=ListStorage())
        buffer.add(Answer(torch.zeros(2), "a"))
        state = buffer.state_dict()
        for name in (("os", "system"), ("tests.nowhere", "Answer")):
            state["_storage"]["_storage"][0]["class"] = name
            with pytest.raises(LookupError, match=f"tensorclass {name[1]} of {name[0]}: import it"):
                buffer.load_state_dict(state)

    def test_rows_of_other_storages(self) -> None:
        kept = ReplayBuffer(storage=ListStorage(2))
        dense = ReplayBuffer(storage=LazyTensorStorage(4))
        for buffer in (kept, dense):
            buffer.extend(transitions(2, 0))
        with pytest.raises(TypeError, match="keeps them in one tensordict, this is a ListStorage"):
            kept.load_state_dict(dense.state_dict())
        with pytest.raises(TypeError, match="keeps a list, this is a LazyTensorStorage"):
            dense.load_state_dict(kept.state_dict())
        with pytest.raises(ValueError, match="2 rows were saved, and there is space for 1"):
            ReplayBuffer(storage=ListStorage(1)).load_state_dict(kept.state_dict())


def test_the_best_rows_of_different_lengths() -> None:
    buffer = TensorDictReplayBuffer(
        storage=LazyStackStorage(2), writer=TensorDictMaxValueWriter("tokens", "sum")
    )
    assert buffer.extend(texts(3, 5, 2, 4)).tolist() == [-1, 1, -1, 0]
    assert numbers_in(buffer[:]) == [4, 5]
