"""Samples of a `ReplayBuffer`: which rows, how many, and what is known of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    RandomSampler,
    ReplayBuffer,
    RoundRobinWriter,
    Sampler,
    SamplerWithoutReplacement,
    Storage,
    TensorDictReplayBuffer,
)

from tests.data.transitions import numbers, transitions


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

    @pytest.mark.parametrize("prefetch", [None, 2])
    def test_written_by_another_thread(self, prefetch: int | None) -> None:
        """Rows are written whole, between samples."""
        buffer = ReplayBuffer(storage=LazyTensorStorage(64), batch_size=64, prefetch=prefetch)
        buffer.extend(transitions(64))

        def write() -> None:
            for step in range(300):
                buffer.extend(transitions(40, 64 + 40 * step))

        with ThreadPoolExecutor(1) as other:
            written = other.submit(write)
            for _ in range(300):
                sample = buffer.sample()
                assert torch.equal(sample["next", "observation"], sample["observation"] + 100)
            written.result()
        assert buffer.write_count == 64 + 300 * 40

    def test_more_prefetched_samples_than_one_s_own(self) -> None:
        def made(prefetch: int) -> ReplayBuffer:
            generator = torch.Generator().manual_seed(prefetch)
            return ReplayBuffer(
                storage=LazyTensorStorage(20), batch_size=3, prefetch=prefetch, generator=generator
            )

        saved, other = made(3), made(1)
        saved.extend(transitions(20))
        saved.sample()
        other.load_state_dict(saved.state_dict())
        for _ in range(5):
            assert numbers(other.sample()) == numbers(saved.sample())

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
