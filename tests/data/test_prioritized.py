"""`PrioritizedSampler`: frequencies, weights, new rows, rows that were written over; and its tree of sums."""

from __future__ import annotations

import math

import pytest
import torch
from specgen_runtime.data import (
    LazyTensorStorage,
    PrioritizedReplayBuffer,
    PrioritizedSampler,
    ReplayBuffer,
    TensorDictPrioritizedReplayBuffer,
    TensorDictReplayBuffer,
)
from specgen_runtime.data.segment_tree import SegmentTree
from tensordict import TensorDict

from tests.data.transitions import transitions

SIZES = [1, 31, 33, 5_000, 140_000]  # one level to three


def prioritized(
    capacity: int, alpha: float = 0.7, beta: float = 0.5, **options: float
) -> TensorDictReplayBuffer:
    return TensorDictPrioritizedReplayBuffer(
        alpha=alpha,
        beta=beta,
        storage=LazyTensorStorage(capacity),
        generator=torch.Generator().manual_seed(0),
        **options,
    )


class TestTree:
    @pytest.mark.parametrize("size", SIZES)
    def test_sums_follow_updates(self, size: int) -> None:
        torch.manual_seed(0)
        expected = torch.rand(size, dtype=torch.float64)
        sums = SegmentTree(size, "sum", torch.float64, None)
        least = SegmentTree(size, "min", torch.float64, None)
        sums.fill(expected)
        least.fill(expected)
        for _ in range(5):
            index = torch.randperm(size)[: 1 + size // 3]
            index = torch.cat([index, index[:1]])
            expected[index] = torch.rand(len(index), dtype=torch.float64)
            for tree in (sums, least):
                tree.update(index, expected[index])
            assert torch.allclose(sums.total(), expected.sum(), rtol=1e-12)
            assert torch.equal(least.total(), expected.min())
            assert torch.equal(sums[index], expected[index])

    @pytest.mark.parametrize("size", SIZES)
    def test_draws_are_those_of_the_whole_sum(self, size: int) -> None:
        """Sums of multiples of 1/8 have no rounding: the element is that of one search in all sums."""
        torch.manual_seed(1)
        values = torch.randint(0, 5, (size,)).double() / 8
        values[0] = 0.125
        tree = SegmentTree(size, "sum", torch.float64, None)
        tree.fill(values)
        uniform = torch.randint(0, 2**20, (3_000,)).double() / 2**20
        whole = values.cumsum(0)
        expected = torch.searchsorted(whole, uniform * whole[-1], right=True)
        assert torch.equal(tree.draw(uniform), expected)
        assert (values[tree.draw(uniform)] > 0).all()

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_zeros_are_never_drawn(self, size: int, dtype: torch.dtype) -> None:
        """Neither at the ends of [0, 1), nor where float32 has rounded."""
        torch.manual_seed(2)
        values = torch.rand(size, dtype=dtype) ** 30 * (torch.rand(size) < 0.05)
        values[size // 2] = 1e-3
        tree = SegmentTree(size, "sum", dtype, None)
        tree.fill(values)
        ends = torch.tensor([0.0, torch.finfo(dtype).tiny, 1 - torch.finfo(dtype).eps / 2], dtype=dtype)
        drawn = tree.draw(torch.cat([ends, torch.rand(20_000, dtype=dtype)]))
        assert (drawn >= 0).all()
        assert (drawn < size).all()
        assert (values[drawn] > 0).all()


class TestSampling:
    @pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
    @pytest.mark.parametrize("capacity", [40, 6_000])
    def test_frequencies(self, alpha: float, capacity: int) -> None:
        """A chi-squared test at one in ten thousand: elements grouped into 20 of about the same probability."""
        buffer = prioritized(capacity, alpha)
        count = capacity - 7  # not full
        buffer.extend(transitions(count))
        priority = torch.rand(count, generator=torch.Generator().manual_seed(5)) ** 3
        buffer.update_priority(torch.arange(count), priority)
        probability = (priority.double() + 1e-8) ** alpha
        probability /= probability.sum()
        group = (probability.cumsum(0) * 20).floor().long().clamp_max(19)
        expected = torch.zeros(20, dtype=torch.float64).index_add_(0, group, probability) * 60_000
        drawn = torch.zeros(20, dtype=torch.float64)
        for _ in range(20):
            index = buffer.sample(3_000)["index"]
            drawn.index_add_(0, group[index], torch.ones(3_000, dtype=torch.float64))
        there = expected > 0
        statistic = ((drawn - expected)[there] ** 2 / expected[there]).sum()
        assert statistic < 50.8  # the 0.9999 quantile for 19 degrees of freedom
        assert drawn[~there].sum() == 0

    def test_weights(self) -> None:
        """((p + eps) / min (p + eps)) ** (-alpha beta), and 1 for the least priority."""
        buffer = prioritized(100, 0.6, 0.4)
        buffer.extend(transitions(100))
        priority = torch.linspace(0.1, 3, 100)
        buffer.update_priority(torch.arange(100), priority)
        sample = buffer.sample(500)
        expected = (priority[sample["index"]] / 0.1) ** (-0.6 * 0.4)
        assert torch.allclose(sample["priority_weight"], expected, rtol=1e-5)
        buffer.sampler.beta = 0.0  # type: ignore[attr-defined]
        assert (buffer.sample(50)["priority_weight"] == 1).all()

    def test_new_rows_have_the_largest_priority(self) -> None:
        buffer = prioritized(10, 1.0)
        sampler = buffer.sampler
        assert sampler.default_priority == 1.0
        buffer.extend(transitions(5))
        buffer.update_priority(torch.arange(5), torch.tensor([0.1, 4.0, 0.2, 0.2, 0.2]))
        buffer.extend(transitions(5))
        assert sampler.default_priority == 4.0
        share = torch.bincount(buffer.sample(5_000)["index"], minlength=10)[5:].sum() / 5_000
        assert abs(share - 20 / 24.7) < 0.05

    def test_the_largest_within_the_buffer(self) -> None:
        sampler = PrioritizedSampler(4, 1.0, 1.0, max_priority_within_buffer=True)
        buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(4), sampler=sampler, batch_size=2)
        buffer.extend(transitions(4))
        buffer.update_priority(torch.arange(4), torch.tensor([9.0, 2.0, 3.0, 0.5]))
        assert sampler.default_priority == 9.0
        buffer.extend(transitions(1))  # over the one of 9
        assert sampler.default_priority == 3.0
        buffer.update_priority(torch.tensor([2, 0]), torch.tensor([0.1, 0.2]))
        assert sampler.default_priority == 2.0

    def test_priorities_of_what_comes_in(self) -> None:
        buffer = prioritized(10, 1.0)
        buffer.extend(transitions(3).set("td_error", torch.tensor([0.0, 2.0, 0.0])))
        assert set(buffer.sample(20)["index"].tolist()) == {1}
        buffer.empty()
        buffer.extend(transitions(3).set("td_error", torch.tensor([0.0, 2.0, 0.0])), update_priority=False)
        assert set(buffer.sample(50)["index"].tolist()) == {0, 1, 2}

    def test_rows_that_were_written_over_keep_theirs(self) -> None:
        """What was sampled before is another row than the one that is there now."""
        buffer = prioritized(4, 1.0)
        buffer.extend(transitions(4))
        sample = buffer.sample(40)
        assert set(sample["index"].tolist()) == {0, 1, 2, 3}
        buffer.extend(transitions(2, 4))  # over rows 0 and 1
        buffer.update_tensordict_priority(sample.set("td_error", torch.zeros(40)))
        assert set(buffer.sample(100)["index"].tolist()) == {0, 1}
        buffer.update_tensordict_priority(buffer.sample(50).set("td_error", torch.full((50,), 2.0)))
        assert set(buffer.sample(100)["index"].tolist()) == {0, 1}

    @pytest.mark.parametrize(("reduction", "expected"), [("max", 4.0), ("min", 1.0), ("mean", 2.5)])
    def test_one_priority_for_each_element(self, reduction: str, expected: float) -> None:
        buffer = prioritized(3, 1.0, reduction=reduction)  # type: ignore[arg-type]
        buffer.extend(transitions(3))
        sample = buffer.sample(1).expand(2).contiguous()  # one element twice, with two numbers each
        sample["td_error"] = torch.tensor([[1.0, 4.0], [4.0, 1.0]])
        buffer.update_tensordict_priority(sample)
        trees = buffer.sampler._trees  # type: ignore[attr-defined]
        assert trees.priorities[sample["index"][0]] == expected

    def test_draws_from_torch(self) -> None:
        def drawn(seed: int) -> list[int]:
            torch.manual_seed(seed)
            buffer = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(50))
            buffer.extend(transitions(50))
            index: list[int] = buffer.sample(20)["index"].tolist()
            return index

        assert drawn(1) == drawn(1) != drawn(2)

    def test_alpha_can_change(self) -> None:
        buffer = prioritized(4, 0.0)
        buffer.extend(transitions(4))
        buffer.update_priority(torch.arange(4), torch.tensor([1.0, 1.0, 1.0, 97.0]))
        assert (buffer.sample(400)["index"] == 3).sum() < 160
        buffer.sampler.alpha = 1.0  # type: ignore[attr-defined]
        assert (buffer.sample(400)["index"] == 3).sum() > 360

    def test_several_dimensions(self) -> None:
        buffer = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(10, ndim=2))
        given = transitions(4, batch=(3,)).transpose(0, 1)
        priority = torch.zeros(3, 4)
        priority[2, 1] = 1.0
        index = buffer.extend(given.set("td_error", priority))
        assert len(buffer) == 12
        sample = buffer.sample(20)
        assert {tuple(index) for index in sample["index"].tolist()} == {(1, 2)}
        assert (sample["observation"] == 102).all()
        buffer.update_priority(index, torch.full((3, 4), 0.5))
        buffer.update_tensordict_priority(sample.set("td_error", torch.zeros(20, 1)))
        assert (1, 2) not in {tuple(index) for index in buffer.sample(200)["index"].tolist()}

    def test_of_a_plain_buffer(self) -> None:
        buffer = PrioritizedReplayBuffer(alpha=1.0, beta=1.0, storage=LazyTensorStorage(6), batch_size=30)
        buffer.extend(transitions(6))
        buffer.update_priority(torch.arange(6), torch.tensor([0.0, 0, 0, 0, 3, 0]))
        data, info = buffer.sample(return_info=True)
        assert (data["observation"] == 400).all()
        assert info["priority_weight"].shape == (30,)

    def test_of_a_storage_that_was_full(self) -> None:
        storage = LazyTensorStorage(6)
        ReplayBuffer(storage=storage).extend(transitions(6))
        buffer = ReplayBuffer(storage=storage, sampler=PrioritizedSampler(6, 1.0, 1.0))
        assert set(buffer.sample(60, return_info=True)[1]["index"].tolist()) == set(range(6))

    @pytest.mark.parametrize("within", [False, True])
    @pytest.mark.parametrize("capacity", [4, 6])
    def test_priorities_before_a_storage(self, capacity: int, within: bool) -> None:
        sampler = PrioritizedSampler(capacity, 1.0, 1.0, eps=0.0, max_priority_within_buffer=within)
        sampler.update_priority(torch.arange(4), torch.tensor([0.0, 1, 0, 3]))
        storage = LazyTensorStorage(6)
        storage.set(range(6), transitions(6))
        index, _ = sampler.sample(storage, 4_000)
        assert isinstance(index, torch.Tensor)
        assert torch.bincount(index, minlength=6)[1] == pytest.approx(1_000, abs=120)
        assert set(index.tolist()) == {1, 3}
        sampler.mark_update(torch.tensor([5]), storage=storage)  # as likely as the likeliest
        index, _ = sampler.sample(storage, 4_000)
        assert isinstance(index, torch.Tensor)
        assert torch.bincount(index, minlength=6)[5] == pytest.approx(4_000 * 3 / 7, abs=150)


class TestMistakes:
    @pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
    def test_no_priority(self, wrong: float) -> None:
        buffer = prioritized(4)
        buffer.extend(transitions(4))
        with pytest.raises(ValueError, match=r"finite and not negative.* absolute errors"):
            buffer.update_priority(torch.arange(2), torch.tensor([1.0, wrong]))

    def test_other_numbers_of_priorities(self) -> None:
        buffer = prioritized(4)
        buffer.extend(transitions(4))
        with pytest.raises(ValueError, match="3 priorities for 2 elements"):
            buffer.update_priority(torch.arange(2), torch.ones(3))

    def test_missing_entries(self) -> None:
        buffer = prioritized(4)
        buffer.extend(transitions(4))
        with pytest.raises(KeyError, match="'td_error' is missing"):
            buffer.update_tensordict_priority(buffer.sample(2))
        with pytest.raises(KeyError, match="'index' is missing"):
            buffer.update_tensordict_priority(TensorDict({"td_error": torch.ones(2)}, [2]))

    def test_nothing_to_draw(self) -> None:
        buffer = prioritized(4, eps=0.0)
        buffer.extend(transitions(4).set("td_error", torch.zeros(4)))
        with pytest.raises(RuntimeError, match="all priorities are 0"):
            buffer.sample(2)

    def test_arguments(self) -> None:
        for options in (
            {"alpha": -1, "beta": 0},
            {"alpha": 0, "beta": -1},
            {"alpha": 0, "beta": 0, "eps": math.nan},
        ):
            with pytest.raises(ValueError, match="is 0 or larger"):
                PrioritizedSampler(4, **options)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="reduction is one of"):
            PrioritizedSampler(4, 1, 1, reduction="largest")
