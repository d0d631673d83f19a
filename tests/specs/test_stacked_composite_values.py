"""Values of a `StackedComposite`: drawing, checking, encoding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Bounded,
    Categorical,
    Composite,
    StackedComposite,
    Unbounded,
)
from tensordict import LazyStackedTensorDict, TensorDict, assert_close

from tests.specs.stacked_composite_samples import pair, stack

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
@pytest.mark.parametrize("dim", [0, 1])
def test_draws(dim: int, lead: tuple[int, ...]) -> None:
    spec = pair((4,), dim)
    for value in (spec.rand(lead), spec.zero(lead), spec.one(lead)):
        assert isinstance(value, LazyStackedTensorDict)
        assert value.stack_dim == len(lead) + dim
        assert value.batch_size == (*lead, *spec.shape)
        assert value["obs"].shape == (*lead, *spec.shape, 3)
    spec.assert_is_in(spec.rand(lead))
    assert spec.zero(lead)["obs"].sum() == 0
    assert (spec.one(lead)["obs"] == 1).all()


def test_draws_without_differences_are_dense() -> None:
    spec = stack([Composite(a=Bounded(0, 1, (3,))), Composite(a=Bounded(5, 6, (3,)))])
    drawn = spec.rand()
    assert type(drawn) is TensorDict
    assert spec.is_in(drawn)
    assert not spec.is_in(drawn[[1, 0]])


def test_a_sequence_equals_successive_draws() -> None:
    spec = pair()
    torch.manual_seed(0)
    sequence = spec.rand_sequence(3)
    torch.manual_seed(0)
    for place in range(3):
        for row, other in zip(sequence[place].unbind(0), spec.rand().unbind(0), strict=True):
            assert_close(row, other)
    assert spec.rand_sequence(0).batch_size == (0, 2)
    assert Composite(agents=spec, z=Unbounded()).rand_sequence(3)["agents"].batch_size == (3, 2)


def test_membership() -> None:
    spec = pair()
    value = spec.rand()
    value[0]["in", "left"] += 9
    assert not spec.is_in(value)
    with pytest.raises(
        AssertionError, match=r"key \('in', 'left'\): item 0 of the stack: expected values in"
    ):
        spec.assert_is_in(value)
    value = spec.rand()
    del value[1]["right"]
    with pytest.raises(AssertionError, match=r"key 'right': item 1 of the stack: .*, got nothing"):
        spec.assert_is_in(value)
    assert spec.is_in(list(spec.rand().unbind(0)))
    for wrong in (None, 3, "x", torch.zeros(2), {}, spec.rand()[:1], spec.rand()[0], [spec[0].rand()]):
        assert not spec.is_in(wrong)


def test_projection_in_place() -> None:
    spec = pair()
    value = spec.rand()
    assert spec.project(value) is value
    value[0]["in", "left"] += 9
    value[1]["obs"] -= 9
    value[1]["extra"] = torch.zeros(1)
    assert spec.project(value) is value
    assert spec.is_in(value)
    assert value[0]["in", "left"] == 5
    assert "extra" in value[1].keys()  # noqa: SIM118
    dense = stack([Composite(a=Bounded(0, 1, (3,))), Composite(a=Bounded(5, 6, (3,)))])
    value = TensorDict(a=torch.full((4, 2, 3), 3.0), batch_size=[4, 2])
    assert dense.project(value) is value
    assert torch.equal(value["a"], torch.tensor([1.0, 5.0])[:, None].expand(4, 2, 3))
    with pytest.raises(KeyError, match="obs"):
        spec.project(TensorDict(batch_size=[2]))
    with pytest.raises(ValueError, match="expected shape"):
        spec.project(TensorDict(batch_size=[3]))
    for wrong in (torch.zeros(2), {"obs": 1}):
        with pytest.raises(TypeError, match="expected a tensordict"):
            spec.project(wrong)


def test_encode() -> None:
    spec = pair()
    rows = [
        {"obs": [0, 1, 0], "act": 2, "pos": [1, 2], "in": {"x": [3], "left": [4]}},
        {"obs": np.zeros(3), "act": 4, "pos": np.arange(4.0), "in": {"x": 5}, "right": 3},
    ]
    for data in (rows, tuple(rows)):
        value = spec.encode(data)
        spec.assert_is_in(value)
        assert value[1]["right"].tolist() == [False, False, False, True]
    value = spec.encode(
        {"obs": np.ones((2, 3)), "act": [2, 4], "in": {"x": [[1], [2]]}, "pos": ([1, 2], [3, 4, 5, 6])}
    )
    assert value["obs"].shape == (2, 3)
    assert value[1]["pos"].tolist() == [3, 4, 5, 6]
    drawn = spec.rand()
    assert_close(spec.encode(drawn)[0], drawn[0])
    nested = Composite(agents=spec, z=Unbounded((1,)))
    assert nested.is_in(nested.encode({"agents": rows, "z": [0]}))
    for wrong, error in (
        (rows[:1], RuntimeError),
        (3, RuntimeError),
        ({"obs": np.ones((3, 3))}, RuntimeError),
        ({"obs": np.ones((2, 4))}, RuntimeError),
        ({"obs": 1.0}, RuntimeError),
        ({"right": [1, 2]}, KeyError),
    ):
        with pytest.raises(error):
            spec.encode(wrong)


def test_encode_where_sizes_differ() -> None:
    spec = Composite(a=stack([Unbounded((2,)), Unbounded((3,))]), b=Unbounded((2,)), shape=(2,))
    value = spec.encode({"a": [[0, 1], [2, 3, 4]], "b": [0, 1]})
    assert value.batch_size == (2,)
    assert spec.is_in(value)


def test_to_numpy() -> None:
    spec = pair((4,), 1)
    value = spec.rand((3,))
    data = spec.to_numpy(value, safe=True)
    assert sorted(data) == ["act", "in", "obs", "pos", "right"]
    assert data["right"][0] is None
    assert data["right"][1].shape == (3, 4)
    assert data["in"]["left"][1] is None
    assert data["obs"].shape == (3, 4, 2, 3)
    assert np.array_equal(data["in"]["x"], value["in", "x"].numpy())
    assert [part.shape for part in data["pos"]] == [(3, 4, 2), (3, 4, 4)]
    drawn = pair().rand()
    for row, again in zip(drawn.unbind(0), pair().encode(pair().to_numpy(drawn)).unbind(0), strict=True):
        assert_close(row, again)
    value[:, :, 0]["obs"].fill_(9)
    with pytest.raises(AssertionError, match="item 0"):
        spec.to_numpy(value, safe=True)
    with pytest.raises(ValueError, match="expected shape"):
        spec.to_numpy(TensorDict(batch_size=[3]))


def test_type_check() -> None:
    spec = pair()
    value = spec.rand()
    spec.type_check(value)
    spec.type_check(value["obs"], "obs")
    spec.type_check(value, ["obs", "act"])
    Composite(agents=spec).type_check(TensorDict(agents=value))
    with pytest.raises(TypeError, match="'obs'"):
        spec.type_check(value["obs"].double(), "obs")
    value[0]["in", "left"] = torch.zeros(1, dtype=torch.int64)
    for check in (spec, Composite(agents=spec)):
        with pytest.raises(TypeError, match="left"):
            check.type_check(value if check is spec else TensorDict(agents=value))
    with pytest.raises(TypeError, match="expected a tensordict"):
        spec.type_check(torch.zeros(2))


def test_members() -> None:
    spec = stack([Composite(a=Categorical(2)), Composite(a=Categorical(3), b=Categorical(2)), Composite()])
    assert spec.cardinality() == 12
    members = spec.enumerate()
    assert members.batch_size == (12, 3)
    rows = zip(
        members[:, 0]["a"].tolist(), members[:, 1]["a"].tolist(), members[:, 1]["b"].tolist(), strict=True
    )
    assert list(rows) == [(a, b, c) for a in range(2) for b in range(3) for c in range(2)]
    assert spec.is_in(members)
    assert Composite(agents=spec).cardinality() == 12
    assert StackedComposite(Composite(), Composite(), dim=0).cardinality() == 0


def test_updates_of_a_tensordict() -> None:
    spec = pair()
    value = spec.zero()
    torch.manual_seed(0)
    assert spec.is_in(spec.rand_update(value))
    assert (spec.ones_update(value)["obs"] == 1).all()


@pytest.mark.peers
@pytest.mark.parametrize("lead", [(), (3,)])
def test_the_same_numbers_as_torchrl(lead: tuple[int, ...]) -> None:
    data = pytest.importorskip("torchrl.data")
    ours = stack([Composite(a=Bounded(0, 1, (3,))), Composite(a=Bounded(0, 2, (4,)), b=Categorical(5))])
    theirs = stack(
        [
            data.Composite(a=data.Bounded(0, 1, (3,))),
            data.Composite(a=data.Bounded(0, 2, (4,)), b=data.Categorical(5)),
        ]
    )
    torch.manual_seed(0)
    mine = ours.rand(lead)
    torch.manual_seed(0)
    for left, right in zip(mine.unbind(-1), theirs.rand(lead).unbind(-1), strict=True):
        assert_close(left, right)
    assert ours.is_in(mine)
