"""`ReplayBuffer`: what is written, transforms, and what it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from specgen_runtime.data import (
    ImmutableDatasetWriter,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedReplayBuffer,
    PrioritizedSampler,
    ReplayBuffer,
    Storage,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
    TensorStorage,
)
from specgen_runtime.transforms import MultiStepTransform, RandomCropTensorDict, Transform
from specgen_std.transforms import ObservationNorm
from tensordict import TensorDict, lazy_stack, tensorclass
from tensordict.tensorclass import NonTensorData

from tests.data.transitions import episodes, numbers, transitions

STORAGES: list[Callable[..., Storage]] = [LazyTensorStorage, LazyMemmapStorage]


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
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parts = ReplayBuffer(storage=make(3))
            parts.add(transitions(4))  # a row may be a trajectory
        assert parts[:].shape == (1, 4)

    def test_what_is_written_is_a_copy(self, make: Callable[..., Storage]) -> None:
        buffer, data = ReplayBuffer(storage=make(5)), transitions(3)
        buffer.extend(data)
        data["observation"].fill_(-1)
        assert numbers(buffer[:]) == [0, 1, 2]

    def test_rows_are_no_part_of_a_graph(self, make: Callable[..., Storage]) -> None:
        """Otherwise a buffer would keep what each of its values was computed from."""
        buffer, value = ReplayBuffer(storage=make(5), batch_size=8), torch.ones(3, 1, requires_grad=True)
        for _ in range(2):
            buffer.extend(transitions(3).set("observation", value * 2))
        buffer[0:1] = transitions(1).set("observation", value[:1] * 2)
        assert not buffer.sample()["observation"].requires_grad
        assert not buffer[:]["observation"].requires_grad

    def test_in_inference_mode(self, make: Callable[..., Storage]) -> None:
        sampler = PrioritizedSampler(5, 1.0, 1.0)
        buffer = TensorDictReplayBuffer(storage=make(5), sampler=sampler, batch_size=4)
        with torch.inference_mode():
            buffer.extend(transitions(3))
            buffer.update_tensordict_priority(buffer.sample().set("td_error", torch.ones(4)))
        buffer.extend(transitions(3, 3))
        buffer.update_tensordict_priority(buffer.sample().set("td_error", torch.ones(4)))
        weight = torch.ones(1, requires_grad=True)
        (buffer.sample()["observation"] * weight).sum().backward()

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
        wider = transitions(2).set("observation", torch.zeros(2, 3))
        differing = lazy_stack([transitions(2), wider], 1)
        with pytest.raises(RuntimeError, match=r"'observation' is \[2, 1\] in the first.*\[2, 3\]"):
            ReplayBuffer(storage=make(10)).extend(differing)
        with pytest.raises(RuntimeError, match=r"'next', 'reward'.* is \[1\] in the first.*missing in"):
            ReplayBuffer(storage=make(10)).extend(
                [transitions(1)[0], transitions(1)[0].exclude(("next", "reward"))]
            )
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

    def test_items_of_several_dimensions(self, make: Callable[..., Storage]) -> None:
        """Counted as data come in: `[environment, time]`, though rows are moments."""
        buffer = ReplayBuffer(storage=make(12, ndim=2))
        buffer.extend(episodes(4, 0, 2))
        expected = buffer[:]["observation"].clone()
        other = buffer[0, 0].clone()
        other["observation"] = torch.tensor([-1.0])
        for index in ((1, 2), (0, slice(1, 3)), (slice(None), 3), ([0, 2], [2, 0]), 1, torch.tensor([2])):
            buffer[index] = other
            expected[index] = -1.0
            assert torch.equal(buffer[:]["observation"], expected)
        buffer[1:] = buffer[:2].clone()
        expected[1:] = expected[:2].clone()
        assert torch.equal(buffer[:]["observation"], expected)
        assert (len(buffer), buffer.write_count) == (12, 4)
        with pytest.raises(KeyError, match="'episode' is in the replay buffer, and missing"):
            buffer[0, 0] = other.exclude("episode")
        with pytest.raises(RuntimeError, match="expand"):
            buffer[0, :2] = buffer[0, :3]

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


@pytest.mark.parametrize("kind", [ReplayBuffer, TensorDictReplayBuffer])
@pytest.mark.parametrize("prioritized", [False, True])
def test_without_a_storage_rows_are_kept_in_a_list(kind: type[ReplayBuffer], prioritized: bool) -> None:
    made: type[ReplayBuffer] = kind
    options = {}
    if prioritized:
        made = PrioritizedReplayBuffer if kind is ReplayBuffer else TensorDictPrioritizedReplayBuffer
        options = {"alpha": 0.7, "beta": 0.5}
    buffer = made(batch_size=3, **options)
    assert isinstance(buffer.storage, ListStorage)
    assert buffer.extend(transitions(1_001))[-1] == 0
    assert len(buffer) == 1_000
    assert buffer.sample().shape == (3,)
