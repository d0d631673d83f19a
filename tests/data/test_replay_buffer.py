"""`ReplayBuffer`: what is written, what is sampled, transforms, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    Sampler,
    SamplerWithoutReplacement,
    Storage,
    TensorDictReplayBuffer,
    TensorStorage,
)
from specgen_runtime.transforms import MultiStepTransform, RandomCropTensorDict, Transform
from specgen_std.transforms import ObservationNorm
from tensordict import TensorDict, tensorclass
from tensordict.tensorclass import NonTensorData

from tests.data.transitions import transitions

STORAGES: list[Callable[..., Storage]] = [LazyTensorStorage, LazyMemmapStorage]


def numbers(data: Any) -> list[int]:
    return [int(value) // 100 for value in data["observation"].flatten()]


@pytest.mark.parametrize("make", STORAGES)
class TestWriting:
    def test_rows_are_written_over_from_the_first(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(10))
        assert buffer.extend(transitions(6)).tolist() == [0, 1, 2, 3, 4, 5]
        assert len(buffer) == 6
        assert buffer.extend(transitions(6, 6)).tolist() == [6, 7, 8, 9, 0, 1]
        assert numbers(buffer[:]) == [10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
        assert (len(buffer), buffer.write_count) == (10, 12)

    def test_more_than_there_is_space_for(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(4))
        buffer.extend(transitions(3))
        index = buffer.extend(transitions(11, 3))
        assert index.tolist() == [n % 4 for n in range(3, 14)]
        assert sorted(numbers(buffer[:])) == [10, 11, 12, 13]
        assert numbers(buffer[index[-4:]]) == [10, 11, 12, 13]
        assert buffer.extend(transitions(1, 14)).tolist() == [2]

    def test_add(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(3))
        assert [int(buffer.add(transitions(1, n)[0])) for n in range(5)] == [0, 1, 2, 0, 1]
        assert numbers(buffer[:]) == [3, 4, 2]

    def test_what_is_written_is_a_copy(self, make: Callable[..., Storage]) -> None:
        buffer, data = ReplayBuffer(storage=make(5)), transitions(3)
        buffer.extend(data)
        data["observation"].fill_(-1)
        assert numbers(buffer[:]) == [0, 1, 2]

    def test_samples_are_copies(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(5), batch_size=8)
        buffer.extend(transitions(5))
        buffer.sample()["next", "reward"].fill_(-1)
        assert buffer["next", "reward"].flatten().tolist() == [0, 1, 2, 3, 4]

    def test_several_dimensions(self, make: Callable[..., Storage]) -> None:
        buffer = TensorDictReplayBuffer(storage=make(12, ndim=2), batch_size=50)
        assert buffer.dim_extend == 1
        index = buffer.extend(transitions(5, batch=(3,)).transpose(0, 1))  # [batch, time]
        assert index.shape == (12 + 3, 2)
        assert (len(buffer), buffer[:].shape) == (12, (3, 4))
        assert numbers(buffer[:]) == [4, 1, 2, 3] * 3
        assert index[3:6].tolist() == [[1, 0], [1, 1], [1, 2]]  # rows are moments
        sample = buffer.sample()
        assert sample.shape == (50,)
        row, column = sample["index"].unbind(-1)
        assert torch.equal(sample["observation"][:, 0] % 100, column.float())
        assert set(zip(row.tolist(), column.tolist(), strict=True)) <= {
            (r, c) for r in range(4) for c in range(3)
        }

    def test_nothing_is_written_of_wrong_data(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(10))
        buffer.extend(transitions(4))
        for wrong, error, message in (
            (transitions(2).exclude(("next", "reward")), KeyError, "'next', 'reward'.*missing in the data"),
            (transitions(2).set("value", torch.zeros(2)), KeyError, "'value' was not in the first data"),
            (
                transitions(2).set("observation", torch.zeros(2, 1).double()),
                TypeError,
                "'observation' is torch.float64",
            ),
            (
                transitions(2).set("observation", torch.zeros(2, 3)),
                ValueError,
                r"shape \[2, 3\].* needs \[2, 1\]",
            ),
        ):
            with pytest.raises(error, match=message):
                buffer.extend(wrong)
        assert (len(buffer), buffer.write_count) == (4, 4)
        assert buffer.extend(transitions(1, 4)).tolist() == [4]
        assert numbers(buffer[:]) == [0, 1, 2, 3, 4]

    def test_kinds_of_data(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(10), batch_size=3)
        buffer.extend(torch.arange(4))
        assert buffer[1:3].tolist() == [1, 2]
        assert buffer.sample().shape == (3,)
        buffer = ReplayBuffer(storage=make(10), batch_size=3)
        buffer.extend(Pair(left=torch.arange(4), right=torch.zeros(4, 2), batch_size=[4]))
        assert isinstance(buffer.sample(), Pair)
        assert buffer[:].left.tolist() == [0, 1, 2, 3]
        buffer = ReplayBuffer(storage=make(10), batch_size=3)
        buffer.extend([transitions(1, n)[0] for n in range(3)])
        assert numbers(buffer[:]) == [0, 1, 2]
        with pytest.raises(TypeError, match="'text' holds NonTensorData"):
            ReplayBuffer(storage=make(10)).extend(
                transitions(2).set("text", NonTensorData("a", batch_size=[2]))
            )

    def test_nests_keep_their_batch_size(self, make: Callable[..., Storage]) -> None:
        agents = TensorDict({"observation": torch.rand(4, 3, 2)}, [4, 3])
        buffer = ReplayBuffer(storage=make(10), batch_size=6)
        buffer.extend(TensorDict({"agents": agents}, [4]))
        assert buffer.sample()["agents"].batch_size == (6, 3)

    def test_items(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(10))
        buffer.extend(transitions(5))
        assert numbers(buffer[2]) == [2]
        assert numbers(buffer[torch.tensor([4, 0])]) == [4, 0]
        assert numbers(buffer[[1, 2]]) == [1, 2]
        buffer[1:3] = transitions(2, 20)
        buffer[torch.tensor([0])] = transitions(1, 30)
        assert numbers(buffer[:]) == [30, 20, 21, 3, 4]
        buffer["next", "reward"] = torch.ones(5, 1)
        assert buffer["next", "reward"].tolist() == [[1.0]] * 5
        with pytest.raises(IndexError):
            buffer[7]

    def test_empty(self, make: Callable[..., Storage]) -> None:
        buffer = ReplayBuffer(storage=make(4), batch_size=2)
        with pytest.raises(RuntimeError, match="the replay buffer is empty"):
            buffer.sample()
        buffer.extend(transitions(6))
        buffer.empty()
        assert (len(buffer), buffer.write_count) == (0, 0)
        with pytest.raises(RuntimeError, match="the replay buffer is empty"):
            buffer.sample()
        assert buffer.extend(transitions(2, 50)).tolist() == [0, 1]
        assert numbers(buffer[:]) == [50, 51]


@tensorclass
class Pair:
    """Two entries."""

    left: torch.Tensor
    right: torch.Tensor


class TestStorages:
    def test_files_and_their_end(self, tmp_path: Path) -> None:
        storage = LazyMemmapStorage(5, scratch_dir=tmp_path / "rows")
        buffer = ReplayBuffer(storage=storage)
        buffer.extend(transitions(3))
        assert TensorDict.load_memmap(tmp_path / "rows")["next", "reward"][:3].flatten().tolist() == [0, 1, 2]
        again = ReplayBuffer(storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "rows"))
        with pytest.raises(Exception, match="exist"):
            again.extend(transitions(3))
        ReplayBuffer(storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "rows", existsok=True)).extend(
            transitions(3)
        )

    def test_temporary_files_go_with_the_storage(self) -> None:
        storage = LazyMemmapStorage(5)
        ReplayBuffer(storage=storage).extend(transitions(3))
        folder = storage.scratch_dir
        assert folder is not None
        assert (folder / "observation.memmap").stat().st_size == 5 * 4
        del storage
        assert not folder.exists()

    def test_data_that_are_there(self) -> None:
        buffer = ReplayBuffer(
            storage=TensorStorage(transitions(6)), writer=ImmutableDatasetWriter(), batch_size=20
        )
        assert len(buffer) == 6
        assert set(numbers(buffer.sample())) <= set(range(6))
        for write in (lambda: buffer.extend(transitions(1)), buffer.empty):
            with pytest.raises(RuntimeError, match="recorded data"):
                write()

    def test_arguments(self) -> None:
        with pytest.raises(ValueError, match="max_size is a positive number"):
            LazyTensorStorage(0)
        with pytest.raises(ValueError, match="ndim is a positive number"):
            LazyTensorStorage(5, ndim=0)
        with pytest.raises(ValueError, match="memory-mapped tensors are on the CPU"):
            LazyMemmapStorage(5, device="cuda")
        with pytest.raises(ValueError, match="takes data of as many batch dimensions"):
            ReplayBuffer(storage=LazyTensorStorage(5, ndim=2), dim_extend=0).extend(transitions(3))


class Doubled(Transform):
    """Stores doubles, gives back what came."""

    invertible = True

    def __init__(self) -> None:
        super().__init__(["observation"], ["observation"], ["observation"], ["observation"])

    def _apply_transform(self, obs: torch.Tensor) -> torch.Tensor:
        return obs / 2

    def _inv_apply_transform(self, state: torch.Tensor) -> torch.Tensor:
        return state * 2


class TestTransforms:
    def test_both_ways(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(10), transform=Doubled(), batch_size=4)
        buffer.extend(transitions(5))
        stored = buffer.storage.get(slice(None))
        assert numbers(stored) == [0, 2, 4, 6, 8]
        assert numbers(buffer[:]) == [0, 1, 2, 3, 4]
        assert set(numbers(buffer.sample())) <= set(range(5))
        assert numbers(stored) == [0, 2, 4, 6, 8]
        buffer.append_transform(Doubled(), invert=True)
        buffer.extend(transitions(1, 8))
        assert numbers(buffer[:])[-1] == 8

    def test_one_after_the_other(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
        buffer.append_transform(lambda data: data.set("sum", data["next", "reward"] + 1))
        buffer.append_transform(ObservationNorm(1.0, 2.0, in_keys=["sum"], out_keys=["sum"]))
        buffer.extend(transitions(5))
        sample = buffer.sample()
        assert torch.equal(sample["sum"], (sample["next", "reward"] + 1) * 2 + 1)

    @pytest.mark.parametrize("behind", [False, True])
    def test_several_steps_hold_data_back(self, behind: bool) -> None:
        """Windows of three steps end with the episode, and none reaches over the row that is written next."""
        buffer = ReplayBuffer(storage=LazyTensorStorage(8), batch_size=64)
        if behind:
            buffer.append_transform(lambda data: data)
        buffer.append_transform(MultiStepTransform(3, 0.5))
        assert buffer.extend(transitions(3)).shape == (0,)
        assert int(buffer.add(transitions(1, 3)[0])) == 0
        for first in range(4, 20, 4):
            buffer.extend(transitions(4, first))
        sample = buffer.sample()
        for number, steps, total, last in zip(
            numbers(sample),
            sample["steps_to_next_obs"].tolist(),
            sample["next", "reward"].flatten().tolist(),
            numbers(sample["next"]),
            strict=True,
        ):
            assert steps == min(3, 7 - number % 7)
            assert total == sum(0.5**k * (number + k) for k in range(steps))
            assert last == number + steps

    def test_transforms_draw_from_the_generator(self) -> None:
        def crops(seed: int) -> list[list[int]]:
            generator = torch.Generator().manual_seed(seed)
            buffer = ReplayBuffer(storage=LazyTensorStorage(4), batch_size=3, generator=generator)
            buffer.append_transform(RandomCropTensorDict(2, sample_dim=-1))
            buffer.extend(transitions(4, batch=(9,)))
            return [buffer.sample()["observation"].flatten().tolist() for _ in range(3)]

        assert crops(1) == crops(1) != crops(2)

    def test_of_tensors_are_refused(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(4), transform=Doubled())
        with pytest.raises(TypeError, match="this replay buffer holds Tensors"):
            buffer.extend(torch.arange(3))


class TestSampling:
    def test_what_is_known_of_a_sample(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=5)
        buffer.extend(transitions(10))
        data, info = buffer.sample(return_info=True)
        assert numbers(data) == info["index"].tolist()
        assert "index" not in data

    def test_samples_hold_their_index(self) -> None:
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10), batch_size=5)
        given = transitions(10, batch=(2,))
        buffer.extend(given)
        sample = buffer.sample()
        assert sample["index"].shape == (5, 2)
        assert numbers(sample[:, 0]) == sample["index"][:, 0].tolist()
        buffer.extend(sample)  # whose index is not kept
        assert set(buffer[:].keys()) == set(given.keys())

    def test_sizes(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(10))
        buffer.extend(transitions(4))
        assert buffer.sample(7).shape == (7,)
        with pytest.raises(RuntimeError, match="a batch_size"):
            buffer.sample()
        with pytest.raises(RuntimeError, match="a batch_size"):
            next(iter(buffer))
        sized = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=3)
        sized.extend(transitions(4))
        with pytest.warns(UserWarning, match="batch_size is 3, this sample's is 2"):
            assert sized.sample(2).shape == (2,)
        for options in ({"prefetch": 2}, {"sampler": SamplerWithoutReplacement(drop_last=True)}):
            with pytest.raises(ValueError, match="give the replay buffer a batch_size"):
                ReplayBuffer(storage=LazyTensorStorage(3), **options)  # type: ignore[arg-type]

    @pytest.mark.parametrize("prefetch", [None, 3])
    @pytest.mark.parametrize("drop_last", [False, True])
    def test_each_once(self, drop_last: bool, prefetch: int | None) -> None:
        buffer = ReplayBuffer(
            storage=LazyTensorStorage(20),
            sampler=SamplerWithoutReplacement(drop_last=drop_last),
            batch_size=4,
            prefetch=prefetch,
        )
        buffer.extend(transitions(10))
        for _ in range(3):
            passed = [numbers(sample) for sample in buffer]
            assert [len(sample) for sample in passed] == ([4, 4] if drop_last else [4, 4, 2])
            drawn = [number for sample in passed for number in sample]
            assert len(set(drawn)) == len(drawn)
        # Nothing of the next pass was drawn before the data changed.
        buffer.empty()
        buffer.extend(transitions(10, 50))
        assert all(50 <= number < 60 for sample in buffer for number in numbers(sample))

    def test_in_order(self) -> None:
        buffer = ReplayBuffer(
            storage=LazyTensorStorage(20), sampler=SamplerWithoutReplacement(shuffle=False), batch_size=3
        )
        buffer.extend(transitions(7))
        assert [numbers(sample) for sample in buffer] == [[0, 1, 2], [3, 4, 5], [6]]

    @pytest.mark.parametrize("prefetch", [1, 4])
    def test_prefetched_samples_are_those_that_were_drawn(self, prefetch: int) -> None:
        def run(prefetch: int | None) -> list[list[int]]:
            generator = torch.Generator().manual_seed(3)
            buffer = ReplayBuffer(
                storage=LazyTensorStorage(50), batch_size=6, generator=generator, prefetch=prefetch
            )
            buffer.extend(transitions(50))
            samples = []
            for step in range(30):
                samples.append(buffer.sample(return_info=True)[1]["index"].tolist())
                buffer.extend(transitions(2, 50 + 2 * step))
            return samples

        assert run(prefetch) == run(None)

    def test_what_a_prefetched_transform_raises(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(5), batch_size=2, prefetch=2)
        buffer.append_transform(lambda data: data.set("late", data["missing"]))
        buffer.extend(transitions(5))
        with pytest.raises(KeyError, match="missing"):
            buffer.sample()

    def test_priorities_of_a_uniform_sampler(self) -> None:
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(5), batch_size=2)
        buffer.extend(transitions(5))
        buffer.update_tensordict_priority(buffer.sample().set("td_error", torch.ones(2)))
        with pytest.warns(UserWarning, match="RandomSampler has no priorities"):
            buffer.update_priority(torch.tensor([1]), 2.0)

    def test_samplers_of_users(self) -> None:
        class Newest(Sampler):
            def sample(self, storage: Storage, batch_size: int) -> tuple[torch.Tensor, dict[Any, Any]]:
                return torch.arange(len(storage) - batch_size, len(storage)), {
                    "age": torch.arange(batch_size)
                }

        buffer = TensorDictReplayBuffer(storage=lambda: LazyTensorStorage(9), sampler=Newest, batch_size=2)
        buffer.extend(transitions(6))
        sample = buffer.sample()
        assert (numbers(sample), sample["age"].tolist()) == ([4, 5], [0, 1])

    def test_parts_are_named(self) -> None:
        buffer = ReplayBuffer(storage=LazyTensorStorage(9), writer=RoundRobinWriter)
        assert isinstance(buffer.sampler, RandomSampler)
        assert isinstance(buffer.writer, RoundRobinWriter)
        assert "nothing yet" in repr(buffer)
