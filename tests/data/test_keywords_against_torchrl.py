"""Keywords of replay buffers that `test_against_torchrl.py` leaves at their defaults: the same calls on both."""

from __future__ import annotations

from typing import Any

import pytest
import specgen_runtime.data as ours
import torch
from tensordict import TensorDict

from tests.data.test_against_torchrl import assert_same, pair, torchrl_trees
from tests.data.transitions import episodes, transitions

theirs = pytest.importorskip("torchrl.data", reason="the extra `peers`")

pytestmark = pytest.mark.peers

__all__ = ["torchrl_trees"]


@pytest.mark.parametrize(
    "options",
    [{"eps": 0.5}, {"max_priority_within_buffer": True}, {"reduction": "min"}],
    ids=str,
)
@pytest.mark.usefixtures("torchrl_trees")
def test_priorities(options: dict[str, Any]) -> None:
    """Elements, weights, and the priority of new elements, while the largest is written over again and again."""
    buffers = pair(
        "TensorDictReplayBuffer", ("PrioritizedSampler", (12, 0.7, 0.9), options), capacity=12, batch_size=8
    )
    for step in range(30):
        buffers.both(lambda buffer, n=step: buffer.extend(transitions(2, 2 * n)))
        mine, peer = buffers.both(lambda buffer: buffer.sample())
        assert mine["index"].tolist() == peer["index"].tolist()
        assert torch.allclose(mine["priority_weight"].double(), peer["priority_weight"].double(), rtol=1e-5)
        error = 10 * torch.rand(12, generator=torch.Generator().manual_seed(step))[mine["index"]]
        for buffer, sample in zip(buffers, (mine, peer), strict=True):
            buffer.update_tensordict_priority(sample.set("td_error", error))
        largest = [float(buffer.sampler.default_priority) for buffer in buffers]
        assert largest[0] == pytest.approx(largest[1], rel=1e-5)


SLICES: dict[str, dict[str, Any]] = {
    "cache_values": {"slice_len": 2, "cache_values": True},
    "another truncated_key": {"slice_len": 2, "truncated_key": ("next", "cut")},
    "traj_key and end_key": {"slice_len": 2, "traj_key": "episode", "end_key": ("next", "done")},
    "numbers that are not there": {"slice_len": 2, "traj_key": "traj", "end_key": ("next", "done")},
    "end_keys": {"slice_len": 4, "end_keys": [("next", "done")]},
}


@pytest.mark.parametrize("options", SLICES)
def test_slices(options: str) -> None:
    buffers = pair("TensorDictReplayBuffer", ("SliceSampler", (), SLICES[options]), batch_size=8)
    for first in (0, 16, 19):
        buffers.both(lambda buffer, n=first: buffer.extend(episodes(16 if n == 0 else 3, n, 1)))
        if "cache_values" not in SLICES[options] or not first:  # a cache of TorchRL's outlives its rows
            assert_same(*buffers.both(lambda buffer: buffer.sample()))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_passes_while_rows_are_written(drop_last: bool, shuffle: bool) -> None:
    sampler = ("SamplerWithoutReplacement", (), {"drop_last": drop_last, "shuffle": shuffle})
    buffers = pair("TensorDictReplayBuffer", sampler, batch_size=4)
    for first, count in ((0, 10), (10, 3), (13, 12), (25, 1)):
        buffers.both(lambda buffer, n=first, k=count: buffer.extend(transitions(k, n)))
        for _ in range(4):
            assert_same(*buffers.both(lambda buffer: buffer.sample()))
            ran_out = buffers.both(lambda buffer: buffer.sampler.ran_out)
            assert ran_out[0] == ran_out[1]


@pytest.mark.parametrize(("size", "asked_for"), [(3, 5), (None, 5), (5, None)])
def test_sizes_of_samples(size: int | None, asked_for: int | None) -> None:
    buffers = pair("TensorDictReplayBuffer", batch_size=size)
    buffers.both(lambda buffer: buffer.extend(transitions(10)))
    if size == 3:
        for buffer in buffers:
            with pytest.warns(UserWarning, match="batch_size"):
                assert buffer.sample(asked_for).shape == (5,)
    else:
        assert_same(*buffers.both(lambda buffer: buffer.sample(asked_for)))


class TestDifferences:
    """Where the two are meant to differ; the reasons are in docs/differences.md."""

    def test_the_index_of_a_row(self) -> None:
        mine, peer = pair("ReplayBuffer").both(lambda buffer: buffer.add(transitions(1)[0]))
        assert isinstance(mine, torch.Tensor)
        assert mine.shape == ()
        assert isinstance(peer, int)

    def test_the_index_of_slices(self) -> None:
        buffers = pair("TensorDictReplayBuffer", ("SliceSampler", (), {"slice_len": 2}), batch_size=8)
        buffers.both(lambda buffer: buffer.extend(episodes(16, 0, 1)))
        mine, peer = buffers.both(lambda buffer: buffer.sample()["index"])
        assert mine.shape == (8,)
        assert peer.shape == (8, 1)

    def test_prefetched_samples_of_another_size(self) -> None:
        buffers = pair("TensorDictReplayBuffer", batch_size=3, prefetch=2)
        buffers.both(lambda buffer: buffer.extend(transitions(10)))
        with pytest.raises(ValueError, match="samples of 3 are prefetched, one of 5 was asked for"):
            buffers.mine.sample(5)
        with pytest.warns(UserWarning, match="batch_size"):
            assert buffers.peer.sample(5).shape == (5,)
        assert buffers.peer.sample().shape == (5,)  # which were asked for by none

    @pytest.mark.usefixtures("torchrl_trees")
    def test_priorities_in_double_precision(self) -> None:
        """TorchRL draws float32 numbers, of which there are 2**24."""
        sampler = ("PrioritizedSampler", (12, 0.7, 0.9), {"dtype": torch.float64})
        buffers = pair("TensorDictReplayBuffer", sampler, capacity=12, batch_size=64)
        buffers.both(lambda buffer: buffer.extend(transitions(12)))
        mine, peer = buffers.both(lambda buffer: buffer.sample()["index"])
        drawn = [
            torch.rand(64, dtype=dtype, generator=torch.Generator().manual_seed(4))
            for dtype in (torch.float64, torch.float32)
        ]
        assert torch.equal(mine, (drawn[0] * 12).long())
        assert torch.equal(peer, (drawn[1] * 12).long())

    def test_an_entry_of_all_rows(self) -> None:
        buffers = pair("TensorDictReplayBuffer")
        for buffer in buffers:
            buffer.extend(transitions(10))
            buffer["observation"] = torch.zeros(10, 1)
        assert (buffers.mine["observation"] == 0).all()
        assert (buffers.peer["observation"] != 0).any()

    def test_sizes_that_do_not_divide(self) -> None:
        for library, error in ((ours, ValueError), (theirs, RuntimeError)):
            buffer = library.ReplayBuffer(
                storage=library.LazyTensorStorage(20),
                sampler=library.SliceSampler(num_slices=3),
                batch_size=8,
            )
            buffer.extend(transitions(10))
            with pytest.raises(error, match="divi"):
                buffer.sample()

    def test_lists_and_trees(self) -> None:
        rows = list(transitions(3))
        mine, peer = pair("TensorDictReplayBuffer")
        assert mine.extend(rows).tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="only accepts TensorDictBase"):
            peer.extend(rows)
        mine, peer = pair("ReplayBuffer")
        tree: Any = {"a": torch.zeros(3), "b": torch.ones(3)}
        assert peer.extend(tree).tolist() == [0, 1, 2]
        with pytest.raises(TypeError, match="or takes a list of them; got dict"):
            mine.extend(tree)
        assert mine.extend(TensorDict(tree, [3])).tolist() == [0, 1, 2]

    def test_rows_in_files(self) -> None:
        mine, peer = pair("ReplayBuffer", storage="LazyMemmapStorage").both(
            lambda buffer: (buffer.extend(transitions(3)), buffer[:]["observation"])[1]
        )
        assert type(mine) is torch.Tensor
        assert type(peer) is not torch.Tensor
