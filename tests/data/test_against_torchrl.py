"""Replay buffers against TorchRL's: the same calls on both, with the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import specgen_runtime.data as ours
import torch
from tensordict import TensorDict

from tests.data.transitions import episodes, transitions

theirs = pytest.importorskip("torchrl.data", reason="the extra `peers`")
prioritized = pytest.importorskip("torchrl.data.replay_buffers.samplers.prioritized")

pytestmark = pytest.mark.peers


class NumpyTree:
    """The sums or the least of numbers, with the methods of TorchRL's tree, which is compiled for other versions of torch."""

    def __init__(self, capacity: int) -> None:
        self.values = np.full(capacity, self.neutral, self.dtype)

    neutral: float
    dtype: Any
    reduce: Callable[..., Any]

    def __getitem__(self, index: Any) -> Any:
        return torch.as_tensor(self.values[np.asarray(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[np.asarray(index)] = np.asarray(value)

    def query(self, left: int, right: int) -> float:
        return float(type(self).reduce(self.values[left:right]))

    def scan_lower_bound(self, mass: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(np.searchsorted(np.cumsum(self.values), np.asarray(mass)))


@pytest.fixture
def torchrl_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let TorchRL's `PrioritizedSampler` run where its extension can't be loaded."""
    for name, neutral, reduce in (("Sum", 0.0, np.sum), ("Min", np.inf, np.min)):
        for bits in (32, 64):
            members = {
                "neutral": neutral,
                "dtype": getattr(np, f"float{bits}"),
                "reduce": staticmethod(reduce),
            }
            tree = type(f"{name}Tree", (NumpyTree,), members)
            monkeypatch.setattr(prioritized, f"{name}SegmentTreeFp{bits}", tree)


class Pair(NamedTuple):
    """Two buffers that are made alike."""

    mine: Any
    peer: Any

    def both(self, call: Callable[[Any], Any]) -> tuple[Any, Any]:
        return call(self.mine), call(self.peer)


def pair(
    kind: str,
    sampler: tuple[str, tuple[Any, ...], dict[str, Any]] = ("RandomSampler", (), {}),
    storage: str = "LazyTensorStorage",
    capacity: int = 20,
    ndim: int = 1,
    **options: Any,
) -> Pair:
    name, arguments, keywords = sampler
    return Pair(
        *(
            getattr(library, kind)(
                storage=getattr(library, storage)(capacity, ndim=ndim),
                sampler=getattr(library, name)(*arguments, **keywords),
                generator=torch.Generator().manual_seed(4),
                **options,
            )
            for library in (ours, theirs)
        )
    )


def assert_same(mine: Any, peer: Any) -> None:
    if isinstance(peer, TensorDict):
        # Ours has generations where there are priorities; TorchRL's rows hold their index, too.
        keys = set(peer.keys(True, True)) - {"index"}
        assert set(mine.keys(True, True)) - {"index", "index_generation"} == keys
        assert mine.shape == peer.shape
        for key in keys | ({"index"} & set(mine.keys())):
            assert_same(mine[key].reshape(peer[key].shape), peer[key])
    elif isinstance(peer, dict):
        for key in peer:
            assert_same(mine[key], peer[key])
    elif isinstance(peer, tuple):
        assert len(mine) == len(peer)
        for one, other in zip(mine, peer, strict=True):
            assert_same(one, other)
    elif isinstance(peer, torch.Tensor):
        assert mine.dtype == peer.dtype
        assert torch.equal(mine, peer)
    else:
        assert mine == peer


SAMPLERS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "random": ("RandomSampler", (), {}),
    "without replacement": ("SamplerWithoutReplacement", (), {}),
    "drop_last": ("SamplerWithoutReplacement", (), {"drop_last": True}),
    "in order": ("SamplerWithoutReplacement", (), {"shuffle": False}),
}


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("storage", ["LazyTensorStorage", "LazyMemmapStorage"])
@pytest.mark.parametrize("kind", ["ReplayBuffer", "TensorDictReplayBuffer"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_random_calls(sampler: str, kind: str, storage: str, ndim: int) -> None:
    """Written, sampled, read, emptied in any order: the same rows, indices and samples."""
    buffers = pair(kind, SAMPLERS[sampler], storage, 20 * (3 if ndim == 2 else 1), ndim, batch_size=4)
    choose = random.Random(f"{sampler}{kind}{storage}{ndim}")
    first = 0

    def data(count: int) -> TensorDict:
        made = transitions(count, first, (3,) if ndim == 2 else ())
        return made.transpose(0, 1).contiguous() if ndim == 2 else made

    for _ in range(60):
        count = choose.randint(ndim, 12)  # TorchRL fails on one row of several elements
        action = choose.choice(["extend", "extend", "sample", "sample", "sample", "read", "write", "empty"])
        if action == "extend" or len(buffers.peer) == 0:
            assert_same(*buffers.both(lambda buffer, n=count: buffer.extend(data(n))))
            first += count
        elif action == "sample" and (sampler != "drop_last" or len(buffers.peer) >= 4):
            mine, peer = buffers.both(lambda buffer: buffer.sample(return_info=True))
            assert_same(mine[0], peer[0])
            assert_same(mine[1]["index"], peer[1]["index"])
        elif action == "read":
            rows = len(buffers.peer) // (3 if ndim == 2 else 1)
            if ndim == 1:
                assert_same(*buffers.both(lambda buffer, n=rows: buffer[torch.arange(n).flip(0)]))
                assert_same(*buffers.both(lambda buffer, n=rows: buffer[n - 1]))
            assert_same(*buffers.both(lambda buffer: buffer[:]))
            assert_same(*buffers.both(lambda buffer: buffer["next", "reward"]))
        elif action == "write" and ndim == 1:
            buffers.both(lambda buffer: buffer.__setitem__(slice(0, 1), data(1)))
        elif action == "empty" and choose.random() < 0.3:
            buffers.both(lambda buffer: buffer.empty())
        assert len(buffers.mine) == len(buffers.peer)
        assert buffers.mine.write_count == buffers.peer.write_count


def test_add() -> None:
    buffers = pair("TensorDictReplayBuffer", batch_size=5)
    for number in range(25):
        assert_same(*buffers.both(lambda buffer, n=number: torch.as_tensor(buffer.add(transitions(1, n)[0]))))
    assert_same(*buffers.both(lambda buffer: buffer[:]))
    assert_same(*buffers.both(lambda buffer: buffer.sample()))


@pytest.mark.parametrize("drop_last", [False, True])
def test_iterating(drop_last: bool) -> None:
    sampler = ("SamplerWithoutReplacement", (), {"drop_last": drop_last})
    buffers = pair("ReplayBuffer", sampler, batch_size=4)
    buffers.both(lambda buffer: buffer.extend(transitions(10)))
    for _ in range(3):
        mine, peer = buffers.both(list)
        assert_same(tuple(mine), tuple(peer))


@pytest.mark.parametrize("reduction", ["max", "min", "mean"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.4), (0.7, 1.0), (0.0, 0.0)])
@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.usefixtures("torchrl_trees")
def test_priorities(ndim: int, alpha: float, beta: float, reduction: str) -> None:
    """Elements, weights, priorities of new elements, in each round the same."""
    size = 20 * (3 if ndim == 2 else 1)
    sampler = ("PrioritizedSampler", (size, alpha, beta), {"reduction": reduction})
    buffers = pair("TensorDictReplayBuffer", sampler, capacity=size, ndim=ndim, batch_size=16)
    drawn = random.Random(0)
    for step in range(20):
        data = transitions(3, 3 * step, (3,) if ndim == 2 else ())
        data["td_error"] = torch.rand((*data.shape, 1), generator=torch.Generator().manual_seed(step))
        data = data.transpose(0, 1).contiguous() if ndim == 2 else data
        given = drawn.random() < 0.5
        buffers.both(lambda buffer, d=data, g=given: buffer.extend(d.clone(), update_priority=g))
        mine, peer = buffers.both(lambda buffer: buffer.sample())
        assert mine["index"].tolist() == peer["index"].tolist()
        assert torch.allclose(mine["priority_weight"], peer["priority_weight"], rtol=1e-6)
        assert torch.equal(mine["next", "reward"], peer["next", "reward"])
        # The same number for the same element: which of several counts is undefined in TorchRL.
        error = torch.rand((100, 2) if ndim == 1 else (100,), generator=torch.Generator().manual_seed(step))
        place = mine["index"].reshape(16, -1)
        error = error[place[:, 0] + (20 * place[:, 1] if ndim == 2 else 0)]
        for buffer, sample in zip(buffers, (mine, peer), strict=True):
            buffer.update_tensordict_priority(sample.set("td_error", error))
        assert float(buffers.mine.sampler.default_priority) == pytest.approx(
            float(buffers.peer.sampler.default_priority), rel=1e-6
        )


SLICES: dict[str, dict[str, Any]] = {
    "num_slices": {"num_slices": 4},
    "slice_len": {"slice_len": 3},
    "end_key": {"slice_len": 3, "end_key": ("next", "terminated")},
    "end_keys": {"slice_len": 3, "end_keys": [("next", "terminated"), ("next", "truncated")]},
    "traj_key": {"slice_len": 3, "traj_key": "episode"},
    "short": {"slice_len": 12, "strict_length": False},
    "padded": {"slice_len": 12, "strict_length": False, "pad_output": True},
    "span before": {"slice_len": 4, "span": (2, False)},
    "any span before": {"slice_len": 4, "span": (True, False)},
    "not marked": {"slice_len": 4, "truncated_key": None, "init_key": None},
    "initial": {"slice_len": 4, "truncated_key": None},
}


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("options", SLICES)
@pytest.mark.parametrize("writes", [[20], [33, 13, 9], [5, 5, 5, 30]], ids=str)
def test_slices(writes: list[int], options: str, ndim: int) -> None:
    size = 40 * (3 if ndim == 2 else 1)
    sampler = ("SliceSampler", (), SLICES[options])
    buffers = pair("TensorDictReplayBuffer", sampler, capacity=size, ndim=ndim, batch_size=12)
    first = 0
    for count in writes:
        data = episodes(count, first, ndim)
        buffers.both(lambda buffer, d=data: buffer.extend(d.clone()))
        first += count
        for _ in range(3):
            assert_same(*buffers.both(lambda buffer: buffer.sample()))


def test_slices_without_replacement() -> None:
    sampler = ("SliceSamplerWithoutReplacement", (), {"slice_len": 4})
    buffers = pair("TensorDictReplayBuffer", sampler, capacity=70, batch_size=12)
    buffers.both(lambda buffer: buffer.extend(transitions(63)))
    for _ in range(8):
        assert_same(*buffers.both(lambda buffer: buffer.sample()))


class TestDifferences:
    """Where the two are meant to differ; the reasons are in docs/differences.md."""

    def test_missing_entries(self) -> None:
        buffers = pair("ReplayBuffer")
        buffers.both(lambda buffer: buffer.extend(transitions(4)))
        buffers.peer.extend(transitions(4).exclude("observation"))
        assert len(buffers.peer["observation"]) == 8  # four of which were never written
        with pytest.raises(KeyError, match="'observation' is in the replay buffer, and missing"):
            buffers.mine.extend(transitions(4).exclude("observation"))

    def test_more_entries(self) -> None:
        buffers = pair("ReplayBuffer")
        buffers.both(lambda buffer: buffer.extend(transitions(4)))
        buffers.peer.extend(transitions(4).set("value", torch.ones(4)))
        assert buffers.peer["value"].tolist() == [0] * 4 + [1] * 4
        with pytest.raises(KeyError, match="'value' was not in the first data"):
            buffers.mine.extend(transitions(4).set("value", torch.ones(4)))

    def test_gradients(self) -> None:
        buffers = pair("ReplayBuffer", batch_size=2)
        value = torch.ones(4, requires_grad=True)
        mine, peer = buffers.both(
            lambda buffer: (buffer.extend(TensorDict({"value": value * 2}, [4])), buffer.sample())[1]
        )
        assert peer["value"].requires_grad
        assert not mine["value"].requires_grad

    def test_stored_indices(self) -> None:
        buffers = pair("TensorDictReplayBuffer")
        buffers.both(lambda buffer: buffer.extend(transitions(4)))
        assert "index" in buffers.peer[:]
        assert "index" not in buffers.mine[:]

    @pytest.mark.usefixtures("torchrl_trees")
    def test_rows_that_were_written_over(self) -> None:
        buffers = pair("TensorDictReplayBuffer", ("PrioritizedSampler", (4, 1.0, 1.0), {}), capacity=4)
        samples = []
        for buffer in buffers:
            buffer.extend(transitions(4))
            samples.append(buffer.sample(20))
            buffer.extend(transitions(4, 4))
            buffer.update_tensordict_priority(samples[-1].set("td_error", torch.full((20,), 1e-3)))
        assert (buffers.mine.sample(20)["priority_weight"] == 1).all()  # all of them are new
        assert buffers.peer.sampler._sum_tree.values.max() < 0.01

    @pytest.mark.usefixtures("torchrl_trees")
    @pytest.mark.filterwarnings("ignore")
    def test_negative_priorities(self) -> None:
        buffers = pair("TensorDictReplayBuffer", ("PrioritizedSampler", (4, 0.5, 1.0), {}), capacity=4)
        buffers.both(lambda buffer: buffer.extend(transitions(4)))
        buffers.peer.update_priority(torch.arange(2), torch.tensor([-1.0, 1.0]))
        assert np.isnan(buffers.peer.sampler._sum_tree.values[0])
        with pytest.raises(ValueError, match="give absolute errors"):
            buffers.mine.update_priority(torch.arange(2), torch.tensor([-1.0, 1.0]))

    def test_truncations_within_slices(self) -> None:
        data = transitions(8)
        data["next", "truncated"][3] = data["next", "done"][3] = True
        data["episode"] = torch.zeros(8)
        buffers = pair(
            "TensorDictReplayBuffer", ("SliceSampler", (), {"num_slices": 1}), capacity=8, batch_size=8
        )
        buffers.both(lambda buffer: buffer.extend(data.clone()))
        mine, peer = buffers.both(lambda buffer: buffer.sample())
        assert mine["next", "truncated"][3]
        assert not peer["next", "truncated"][3]
        assert peer["next", "done"][3]

    def test_span_behind(self) -> None:
        """At least `slice_len - span` rows: TorchRL gives as few as `span + 1`, and none at all for True."""

        def lengths(buffer: Any) -> set[int]:
            found = set()
            for _ in range(50):
                ends = buffer.sample()["next", "truncated"].flatten().nonzero().flatten() + 1
                found |= set(ends.diff(prepend=torch.zeros(1, dtype=torch.int64)).tolist())
            return found

        sampler = ("SliceSampler", (), {"slice_len": 6, "span": (False, 1)})
        buffers = pair("TensorDictReplayBuffer", sampler, batch_size=60)
        buffers.both(lambda buffer: buffer.extend(transitions(7)))
        mine, peer = buffers.both(lengths)
        assert mine == {5, 6}
        assert min(peer) == 2

    def test_short_trajectories_without_replacement(self) -> None:
        """Each sample has the parts that were asked for."""
        sampler = ("SliceSamplerWithoutReplacement", (), {"slice_len": 4, "shuffle": False})
        buffers = pair("TensorDictReplayBuffer", sampler, capacity=60, batch_size=8)
        data = transitions(12)
        data["next", "done"][7] = True  # an episode of one step between those of seven and four
        buffers.both(lambda buffer: buffer.extend(data.clone()))
        mine, peer = buffers.both(lambda buffer: buffer.sample())
        assert (len(mine), len(peer)) == (8, 4)
