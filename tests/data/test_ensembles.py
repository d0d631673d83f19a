"""`ReplayBufferEnsemble`: several buffers that are sampled together, against TorchRL's and by itself."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import specgen_runtime.data as ours
import torch
from specgen_runtime.data import (
    ImmutableDatasetWriter,
    LazyTensorStorage,
    RandomSampler,
    ReplayBuffer,
    ReplayBufferEnsemble,
    RoundRobinWriter,
    SamplerEnsemble,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    StorageEnsemble,
    TensorDictReplayBuffer,
    TensorStorage,
    WriterEnsemble,
)
from specgen_runtime.transforms import MultiStepTransform, Transform
from tensordict import TensorDict

from tests.data.transitions import numbers, transitions


def member(library: Any, sampler: Any, capacity: int = 40, **options: Any) -> Any:
    return library.TensorDictReplayBuffer(
        storage=library.LazyTensorStorage(capacity), sampler=sampler, batch_size=4, **options
    )


def ensemble(
    library: Any = ours,
    samplers: tuple[str, str] = ("RandomSampler", "RandomSampler"),
    filled: bool = True,
    **options: Any,
) -> Any:
    """An ensemble of two buffers, with steps 0 to 29 and 1,000 to 1,021."""
    keywords: dict[str, dict[str, Any]] = {
        "SliceSampler": {"slice_len": 3},
        "PrioritizedSampler": {"max_capacity": 40, "alpha": 0.7, "beta": 0.5},
        "PrioritizedSliceSampler": {"max_capacity": 40, "alpha": 0.7, "beta": 0.5, "slice_len": 3},
    }
    made = [member(library, getattr(library, name)(**keywords.get(name, {}))) for name in samplers]
    options = {"batch_size": 12, "generator": torch.Generator().manual_seed(3), **options}
    both = library.ReplayBufferEnsemble(*made, **options)
    if filled:
        both[0].extend(transitions(30))
        both[1].extend(transitions(22, 1_000))
    return both


OPTIONS: dict[str, dict[str, Any]] = {
    "alike": {},
    "shares": {"p": [0.2, 0.8]},
    "of tensors": {"p": torch.tensor([3.0, 1.0])},
    "sampleable": {"p": "sampleable"},
    "all": {"sample_from_all": True},
    "groups": {"num_buffer_sampled": 4},
    "one group": {"num_buffer_sampled": 1, "p": [0.5, 0.5]},
}
SAMPLERS = [
    ("RandomSampler", "RandomSampler"),
    ("RandomSampler", "SamplerWithoutReplacement"),
    ("SliceSampler", "SliceSampler"),
]


@pytest.mark.peers
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("samplers", SAMPLERS, ids=str)
def test_samples_are_torchrls(samplers: tuple[str, str], options: str) -> None:
    theirs = pytest.importorskip("torchrl.data")
    if options == "all" and "SamplerWithoutReplacement" in samplers:
        pytest.skip("TorchRL can't put what two kinds of samplers say of their groups into a sample")
    mine, peer = (ensemble(library, samplers, **OPTIONS[options]) for library in (ours, theirs))
    for _ in range(6):
        sample, expected = mine.sample(), peer.sample()
        assert sample.shape == expected.shape[:2]  # parts of trajectories have a third dimension there, of 1
        for key in (*transitions(1).keys(True, True), ("index", "buffer_ids"), ("index", "index")):
            torch.testing.assert_close(sample[key].reshape(expected[key].shape), expected[key], msg=str(key))


@pytest.mark.peers
@pytest.mark.parametrize("routing", [{"routing_key": "member"}, {"routing_dim": 1}], ids=str)
def test_routed_rows_are_torchrls(routing: dict[str, Any]) -> None:
    theirs = pytest.importorskip("torchrl.data")
    mine, peer = (ensemble(library, filled=False, **routing) for library in (ours, theirs))
    data = transitions(10, 500, (2,))
    data["member"] = torch.randint(2, (10, 2), generator=torch.Generator().manual_seed(0))
    index, expected = mine.extend(data), peer.extend(data)
    assert torch.equal(index["buffer_ids"], expected["buffer_ids"])
    assert torch.equal(index["index"], expected["index"])
    for one in range(2):
        assert torch.equal(mine[one][:]["observation"], peer[one][:]["observation"])


def test_emptying_is_for_all_members_or_none() -> None:
    recorded = TensorDictReplayBuffer(
        storage=TensorStorage(transitions(6)), writer=ImmutableDatasetWriter(), batch_size=2
    )
    online = member(ours, RandomSampler())
    online.extend(transitions(5))
    both = ReplayBufferEnsemble(online, recorded, batch_size=4)
    with pytest.raises(
        RuntimeError, match=r"^member 1 of the ensemble: .* recorded data: it can't be emptied$"
    ):
        both.empty()
    assert (len(online), online.write_count, len(recorded)) == (5, 5, 6)
    online.empty()
    assert len(online) == 0


@pytest.mark.parametrize(("given", "groups"), [(None, 2), (6, 6)])
def test_a_part_of_an_ensemble_has_groups_of_its_own_number(given: int | None, groups: int) -> None:
    made = [member(ours, RandomSampler()) for _ in range(3)]
    for one in made:
        one.extend(transitions(10))
    part = ReplayBufferEnsemble(*made, batch_size=12, num_buffer_sampled=given)[:2]
    assert part.sample().shape == (groups, 12 // groups)


class TestSamples:
    def test_groups_are_of_their_members(self) -> None:
        both = ensemble(num_buffer_sampled=6)
        for _ in range(20):
            sample = both.sample()
            assert sample.shape == (6, 2)
            for group in sample:
                (where,) = set(group["index", "buffer_ids"].tolist())
                rows = both[where][:]["observation"][group["index", "index"]]
                assert torch.equal(group["observation"], rows)

    def test_shares(self) -> None:
        both = ensemble(p=[0.25, 0.75], num_buffer_sampled=100, batch_size=100)
        drawn = torch.cat([both.sample()["index", "buffer_ids"].flatten() for _ in range(20)])
        assert float(drawn.float().mean()) == pytest.approx(0.75, abs=0.03)

    def test_what_samplers_say(self) -> None:
        both = ensemble(samplers=("PrioritizedSampler", "PrioritizedSliceSampler"), sample_from_all=True)
        sample = both.sample()
        assert sample["priority_weight"].shape == (2, 6)
        error = torch.zeros(2, 6)
        error[1, 0] = 5.0
        both.update_priority(sample["index"], error)
        assert float(both[1].sampler.default_priority) == 5.0
        assert float(both[0].sampler.default_priority) == 1.0
        both[0].sampler.eps = 0.0
        with pytest.raises(ValueError, match="priorities"):
            both.update_priority(sample["index"], -error)

    def test_transforms_of_members_then_of_all(self) -> None:
        first = member(
            ours, RandomSampler(), transform=lambda data: data.set("of", data["observation"] * 0 + 1)
        )
        second = member(
            ours, RandomSampler(), transform=lambda data: data.set("of", data["observation"] * 0 + 2)
        )
        both = ReplayBufferEnsemble(
            first,
            second,
            sample_from_all=True,
            batch_size=4,
            transform=lambda data: data.set("twice", 2 * data["of"]),
        )
        both[0].extend(transitions(5))
        both[1].extend(transitions(5))
        sample = both.sample()
        assert sample["of"].flatten().tolist() == [1, 1, 2, 2]
        assert torch.equal(sample["twice"], 2 * sample["of"])

    def test_parts_that_are_given(self) -> None:
        both = ReplayBufferEnsemble(
            storages=StorageEnsemble(LazyTensorStorage(10), LazyTensorStorage(10)),
            samplers=SamplerEnsemble(RandomSampler(), SamplerWithoutReplacement(), sample_from_all=True),
            writers=WriterEnsemble(RoundRobinWriter(), RoundRobinWriter()),
            collate_fns=[lambda data: data, lambda data: data.set("observation", -data["observation"])],
            batch_size=4,
        )
        both[0].extend(transitions(5, 1))
        both[1].extend(transitions(5, 1))
        sample = both.sample()
        assert (sample["observation"][0] > 0).all()
        assert (sample["observation"][1] < 0).all()
        assert both.write_count == 10
        assert len(both) == 10

    def test_several_dimensions(self) -> None:
        made = [ReplayBuffer(storage=LazyTensorStorage(20, ndim=2)) for _ in range(2)]
        for buffer in made:
            buffer.extend(transitions(5, 0, (2,)).transpose(0, 1))
        sample = ReplayBufferEnsemble(*made, batch_size=6).sample()
        assert sample.shape == (2, 3)
        assert sample["index", "index"].shape == (2, 3, 2)

    @pytest.mark.parametrize("prefetch", [1, 2])
    def test_iterating(self, prefetch: int) -> None:
        whole = [ensemble(prefetch=count) for count in (0, prefetch)]
        for _, one, other in zip(range(5), *whole, strict=False):
            assert torch.equal(one["observation"], other["observation"])

    def test_members_of_an_ensemble(self) -> None:
        both = ensemble(p=[0.1, 0.9])
        assert both[1] is both.buffers[1]
        one = both[[1]]
        assert one.buffers == (both[1],)
        assert min(numbers(one.sample())) >= 1_000
        assert both[:].buffers == both.buffers
        assert both[torch.tensor([False, True])].buffers == (both[1],)
        assert both[torch.tensor(1)] is both[1]
        with pytest.raises(TypeError, match="entries are in the members"):
            both["observation"]
        with pytest.raises(TypeError, match="rows are in the members"):
            both[:, :3]

    @pytest.mark.parametrize("sampler", [SliceSampler, SliceSamplerWithoutReplacement])
    def test_parts_of_a_number_have_the_length_of_their_group(self, sampler: type[SliceSampler]) -> None:
        """However many groups a member has in a sample, and where a pass ends."""
        made = [
            TensorDictReplayBuffer(storage=LazyTensorStorage(70), sampler=sampler(num_slices=2)) for _ in "ab"
        ]
        for buffer in made:
            buffer.extend(transitions(35))
        both = ReplayBufferEnsemble(*made, batch_size=24, num_buffer_sampled=4)
        for _ in range(20):
            for group in both.sample():
                for part in group.reshape(2, 3):
                    first = numbers(part)[0]
                    assert numbers(part) == [first, first + 1, first + 2]

    @pytest.mark.parametrize("prefetch", [None, 2])
    def test_transforms_of_members_draw_from_their_generator(self, prefetch: int | None) -> None:
        """From that of the ensemble, or of the member where it has none."""

        class Noise(Transform):
            _generator: torch.Generator | None = None

            def _offline(self, tensordict: Any) -> Any:
                return tensordict.set("noise", torch.rand(tensordict.shape, generator=self._generator))

        def drawn(own: bool) -> list[torch.Tensor]:
            generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
            made = [
                member(
                    ours,
                    RandomSampler(),
                    transform=Noise(),
                    generator=generator if own else None,
                )
                for generator in generators
            ]
            both = ReplayBufferEnsemble(
                *made,
                sample_from_all=True,
                batch_size=4,
                prefetch=prefetch,
                generator=None if own else generators[0],
            )
            for one in both.buffers:
                one.extend(transitions(10))
            return [both.sample()["noise"] for _ in range(4)]

        for own in (True, False):
            torch.testing.assert_close(drawn(own), drawn(own), rtol=0, atol=0)


class TestState:
    @pytest.mark.parametrize("prefetch", [0, 2])
    def test_goes_on_to_the_last_bit(self, prefetch: int) -> None:
        samplers = ("SamplerWithoutReplacement", "PrioritizedSampler")
        both = ensemble(samplers=samplers, prefetch=prefetch)
        both.sample()
        state = both.state_dict()
        other = ensemble(samplers=samplers, prefetch=prefetch)
        other.empty()
        other.load_state_dict(state)
        copy = pickle.loads(pickle.dumps(both))
        for _ in range(4):
            expected = both.sample()
            for again in (other, copy):
                sample = again.sample()
                assert torch.equal(sample["observation"], expected["observation"])
                assert torch.equal(sample["index", "index"], expected["index", "index"])

    def test_empty(self) -> None:
        both = ensemble()
        both.empty()
        assert len(both) == 0
        assert both.write_count == 0
        both[0].extend(transitions(5))
        with pytest.raises(RuntimeError, match="member 1 of the ensemble is empty"):
            [both.sample() for _ in range(40)]

    def test_of_other_members(self) -> None:
        three = ReplayBufferEnsemble(*(member(ours, RandomSampler()) for _ in range(3)))
        with pytest.raises(ValueError, match="of 3 members, and the ensemble has 2"):
            ensemble().load_state_dict(three.state_dict())


class TestRefused:
    def test_arguments(self) -> None:
        one, other = (member(ours, RandomSampler()) for _ in range(2))
        deep = ReplayBuffer(storage=LazyTensorStorage(20, ndim=2))
        with pytest.raises(ValueError, match="as many dimensions"):
            ReplayBufferEnsemble(one, deep)
        with pytest.raises(TypeError, match="or all of"):
            ReplayBufferEnsemble()
        with pytest.raises(TypeError, match="or all of"):
            ReplayBufferEnsemble(one, writers=WriterEnsemble(RoundRobinWriter()))
        with pytest.raises(ValueError, match="not both"):
            ReplayBufferEnsemble(one, other, routing_key="a", routing_dim=0)
        with pytest.raises(ValueError, match="leave out p"):
            ReplayBufferEnsemble(one, other, p=[1.0, 1.0], sample_from_all=True)
        with pytest.raises(ValueError, match="routed one by one"):
            ReplayBufferEnsemble(deep, routing_key="member")
        with pytest.raises(TypeError, match="no member of another one"):
            ReplayBufferEnsemble(one, ensemble())
        short = member(ours, SliceSampler(slice_len=3, strict_length=False))
        with pytest.raises(ValueError, match="parts of member 1 may be shorter"):
            ReplayBufferEnsemble(one, short)
        for wrong in ([1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("inf")], [1.0, float("nan")]):
            with pytest.raises(ValueError, match="for each of 2 members"):
                ReplayBufferEnsemble(one, other, p=wrong)
        with pytest.raises(ValueError, match="divided into 2 groups"):
            ensemble(batch_size=5).sample()
        with pytest.raises(TypeError, match="StorageEnsemble"):
            ReplayBuffer(
                storage=LazyTensorStorage(3), sampler=SamplerEnsemble(RandomSampler()), batch_size=2
            ).sample()

    def test_writing(self) -> None:
        both = ensemble()
        with pytest.raises(RuntimeError, match="routing_key"):
            both.extend(transitions(3))
        routed = ensemble(filled=False, routing_key="member")
        with pytest.raises(KeyError, match="member"):
            routed.extend(transitions(3))
        with pytest.raises(ValueError, match="from 0 to 1, got 0 to 2"):
            routed.extend(transitions(3).set("member", torch.arange(3)))
        with pytest.raises(TypeError, match="integers"):
            routed.extend(transitions(3).set("member", torch.zeros(3)))
        with pytest.raises(ValueError, match="one number of each row"):
            routed.extend(transitions(3).set("member", torch.zeros(3, 2, dtype=torch.int64)))
        held_back = ensemble(filled=False, routing_key="member", transform=MultiStepTransform(3, 0.9))
        one = torch.ones(2, dtype=torch.int64)
        assert held_back.extend(transitions(2).set("member", one)).shape == (0,)
        changed = ensemble(filled=False, routing_key="member")
        changed[1].append_transform(MultiStepTransform(3, 0.9))
        index = changed.extend(transitions(5).set("member", torch.tensor([0, 1, 1, 1, 1])))["index"]
        assert index.tolist() == [0, -1, -1, -1, -1]
        assert len(changed[1]) == 1
        assert routed.add(transitions(1).set("member", torch.ones(1, 1, dtype=torch.int64))[0])["index"] == 0
        with pytest.raises(ValueError, match="2 entries along routing_dim"):
            ensemble(routing_dim=0).extend(transitions(3))
        with pytest.raises(RuntimeError, match="in the members"):
            both[0:1][0:1] = transitions(1)

    def test_parts_are_those_of_members(self) -> None:
        both = ensemble()
        for replace in (
            lambda: both.set_sampler(RandomSampler()),
            lambda: both.set_writer(RoundRobinWriter()),
            lambda: both.set_storage(LazyTensorStorage(3)),
        ):
            with pytest.raises(RuntimeError, match="of its members"):
                replace()  # type: ignore[no-untyped-call]


def test_an_index_of_other_shapes_is_refused() -> None:
    both = ensemble()
    with pytest.raises(ValueError, match="has the shape of"):
        both.update_priority(TensorDict({"buffer_ids": torch.zeros(3), "index": torch.zeros(2)}), 1.0)
    with pytest.raises(ValueError, match="from 0 to 1, got 2"):
        both.update_priority(TensorDict({"buffer_ids": torch.tensor([2]), "index": torch.tensor([0])}), 1.0)
    with pytest.raises(TypeError, match="got Tensor"):
        both.update_priority(torch.arange(3), 1.0)


def test_priorities_of_other_shapes() -> None:
    both = ensemble(samplers=("PrioritizedSampler", "PrioritizedSampler"), sample_from_all=True)
    index = both.sample()["index"]
    both.update_priority(index, torch.arange(12.0))
    assert float(both[1].sampler.default_priority) == 11.0
    with pytest.raises(ValueError, match=r"priorities \[2, 5\] for elements \[2, 6\]"):
        both.update_priority(index, torch.rand(2, 5))
