"""`StackedComposite`: composites that differ, side by side."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Bounded,
    Categorical,
    Composite,
    OneHot,
    Stacked,
    StackedComposite,
    Unbounded,
)
from tensordict import LazyStackedTensorDict, TensorDict, assert_close

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def items(batch: tuple[int, ...] = ()) -> list[Composite]:
    """Two that share "obs" of one size, "act" of other classes, "pos" of other sizes, and "in", which differs."""
    return [
        Composite(
            {
                "obs": Bounded(0, 1, (*batch, 3)),
                "act": Categorical(3, batch),
                "pos": Unbounded((*batch, 2)),
                ("in", "x"): Unbounded((*batch, 1)),
                ("in", "left"): Bounded(0, 5, (*batch, 1)),
            },
            shape=batch,
        ),
        Composite(
            {
                "right": OneHot(4, (*batch, 4)),
                "obs": Bounded(0, 1, (*batch, 3)),
                "act": Categorical(5, batch),
                "pos": Unbounded((*batch, 4)),
                ("in", "x"): Unbounded((*batch, 1)),
            },
            shape=batch,
        ),
    ]


def stack(specs: list[Any], dim: int = 0) -> Any:
    return torch.stack(specs, dim)


def pair(batch: tuple[int, ...] = (), dim: int = 0) -> Any:
    return stack(items(batch), dim)


# torch.stack


def test_equal_composites_stack_to_one() -> None:
    spec = items((4,))[0]
    made = stack([spec, spec.clone()], 1)
    assert type(made) is Composite
    assert made.shape == (4, 2)
    assert made["in", "x"].shape == (4, 2, 1)
    assert made.unbind(1) == (spec, spec)
    assert not stack([spec.lock_(), spec]).is_locked
    assert stack([Composite(a=None)] * 2) == Composite(a=None, shape=(2,))


def test_the_device_may_be_left_to_the_entries() -> None:
    for specs in ([Composite(device="cpu"), Composite()], [Composite(), Composite(device="cpu")]):
        made = stack(specs)
        assert type(made) is Composite
        assert made.device == torch.device("cpu")
    assert stack([Composite(device="cpu"), Composite(device="meta")]).device is None
    assert stack([Composite(device="cpu"), Composite(a=Unbounded())]).device == torch.device("cpu")


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_others_stack_to_a_stacked_composite(dim: int) -> None:
    specs = items((4,))
    made = stack(specs, dim)
    assert type(made) is StackedComposite
    assert isinstance(made, Composite)
    assert made.shape == made.batch_size == torch.stack([torch.empty(4)] * 2, dim).shape
    assert made.dim == made.stack_dim == dim % 2
    assert len(made) == made.shape[0]
    assert made
    assert (made.ndim, made.device, made.dtype, made.space, made.domain) == (2, None, None, None, "composite")
    assert all(part is spec for part, spec in zip(made.unbind(dim), specs, strict=True))


def test_wrong_items() -> None:
    with pytest.raises(RuntimeError, match=r"item 0 has shape \(\), item 1 \(2,\)"):
        stack([Composite(), Composite(shape=(2,))])
    with pytest.raises(ValueError, match="out of range"):
        stack(items(), 1)
    with pytest.raises(TypeError, match="by Stacked"):
        StackedComposite(Unbounded(), dim=0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        StackedComposite(dim=0)


# A mapping


def test_entries_that_all_items_have() -> None:
    spec = pair()
    assert list(spec) == list(spec.keys()) == ["act", "in", "obs", "pos"]
    assert list(spec.keys(True, True)) == ["act", ("in", "x"), "obs", "pos"]
    assert spec["obs"] == Bounded(0, 1, (2, 3))
    assert spec["act"] == Stacked(Categorical(3), Categorical(5), dim=0)
    assert spec["pos"].shape == (2, -1)
    assert type(spec["in"]) is StackedComposite
    assert spec["in", "x"] == Unbounded((2, 1))
    assert dict(spec.items())["obs"] == spec.get("obs") == list(spec.values())[2]
    assert "obs" in spec
    assert ("in", "x") in spec
    assert "right" not in spec
    assert ("in", "left") not in spec
    assert spec.get("right", 3) == 3
    assert spec[1]["right"] == OneHot(4)
    assert not spec.is_empty()


def test_entries_that_not_all_items_have() -> None:
    with pytest.raises(KeyError, match=r"not all items have an entry 'right', only \[1\]"):
        pair()["right"]
    with pytest.raises(KeyError, match="no entry 'obz'; did you mean obs"):
        pair()["obz"]


def test_entries_of_different_kinds() -> None:
    spec = stack([Composite(a=Unbounded((2,)), b=None), Composite(a=Categorical(3), b=Unbounded())])
    assert list(spec.keys()) == []
    assert "a" not in spec
    with pytest.raises(
        RuntimeError, match="entry 'a': the specs cannot be stacked: item 0 has class Unbounded"
    ):
        spec["a"]
    with pytest.raises(RuntimeError, match="entry 'b': the specs cannot be stacked: item 0 is None"):
        spec["b"]
    assert spec.is_in(spec.rand())
    assert not spec.is_empty()
    assert repr(spec).count("a: ") == 2


def test_setting() -> None:
    spec = pair((4,), 1)
    new = stack([Unbounded((4, 2)), Unbounded((4, 3))], 1)
    assert spec.set("new", new) is spec
    assert spec["new"] == new
    assert spec[:, 1]["new"] == Unbounded((4, 3))
    spec["in", "deep", "er"] = Unbounded((4, 2))
    assert spec["in", "deep", "er"] == Unbounded((4, 2))
    spec["map"] = {"a": Unbounded((4, 2, 7)), "b": None}
    assert spec["map", "a"].shape == (4, 2, 7)
    assert spec["map", "b"] is None
    spec["sub"] = Composite(a=Unbounded((4, 2, 7)))
    assert spec["sub"].shape == (4, 2)
    before = spec.clone()
    for key, wrong, error in (
        ("x", Unbounded((2, 4)), ValueError),
        ("x", 3, TypeError),
        (0, Unbounded((4, 2)), TypeError),
        (("obs", "x"), Unbounded((4, 2)), TypeError),
        (("right", "x"), Unbounded((4, 2)), TypeError),
        ("shape", Unbounded((4, 2)), AttributeError),
    ):
        with pytest.raises(error):
            spec[key] = wrong
        assert spec == before


def test_update() -> None:
    spec = pair()
    spec.update({"in": {"y": Unbounded((2, 2))}, "obs": Unbounded((2, 1))})
    assert list(spec["in"].keys()) == ["x", "y"]
    assert ("in", "left") in spec[0]
    assert spec["obs"] == Unbounded((2, 1))
    spec.update(pair())
    assert spec["obs"] == pair()["obs"]
    assert pair().update(pair()) == pair()


def test_deleting() -> None:
    spec = pair()
    del spec["obs"]
    assert "obs" not in spec[0]
    del spec["right"]
    assert "right" not in spec[1]
    del spec["in", "left"]
    with pytest.raises(KeyError):
        del spec["obs"]
    assert spec.pop("pos").shape == (2, -1)
    assert "pos" not in spec[0]
    assert spec.pop("pos", None) is None
    with pytest.raises(KeyError):
        spec.pop("pos")


def test_parts_of_it() -> None:
    assert pair().empty() == Composite(shape=(2,))
    assert pair().select("obs") == Composite(obs=Bounded(0, 1, (2, 3)), shape=(2,))
    assert pair().select("obs", "right", strict=False)[1] == items()[1].select("obs", "right")
    with pytest.raises(KeyError):
        pair().select("right")
    assert pair().exclude("act", "pos", "in", "right", "nope") == pair().select("obs")
    spec = pair()
    assert spec.separates("obs", "act").keys() == {"obs", "act"}
    assert "obs" not in spec[1]


def test_locks() -> None:
    spec = pair()
    assert spec.lock_() is spec
    assert spec.is_locked
    assert spec[0].is_locked
    assert spec[1]["in"].is_locked
    changes: list[Callable[[], Any]] = [
        lambda: spec.set("new", Unbounded((2,))),
        lambda: spec.update({"obs": Unbounded((2,))}),
        lambda: spec.pop("obs"),
        lambda: spec.__delitem__("right"),
        lambda: spec[0].set("new", Unbounded()),
        lambda: spec[0].unlock_(),
        lambda: setattr(spec, "shape", (2,)),
    ]
    for change in changes:
        with pytest.raises(RuntimeError, match="lock"):
            change()
    assert spec == pair()
    assert not spec.clone().is_locked
    assert pickle.loads(pickle.dumps(spec))[0].is_locked
    assert not spec.unlock_()[0].is_locked


# Values


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


# Copies, device, batch dimensions


def test_copies() -> None:
    for spec in (pair(), pair((4,), 1)):
        for copied in (spec.clone(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
            assert copied == spec
            assert copied is not spec
    spec = pair()
    spec.clone()["new"] = Unbounded((2,))
    assert spec == pair()


def test_equality() -> None:
    assert pair((2,), 0) != pair((2,), 1)
    other = pair()
    del other["right"]
    assert pair() != other
    assert pair() != pair().select("obs")
    dense = stack([Composite(a=Bounded(0, 1, (3,))), Composite(a=Bounded(5, 6, (3,)))])
    plain = Composite(a=dense["a"], shape=(2,))
    assert dense != plain
    assert plain != dense
    assert dense != 3


def test_device() -> None:
    spec = pair()
    assert spec.device is None
    moved = spec.to("cpu")
    assert moved.device == moved[0].device == torch.device("cpu")
    assert moved.to("cpu") is moved
    assert moved.set("new", Unbounded((2,)))["new"].device == torch.device("cpu")
    assert moved.clear_device_().device is None
    assert moved[1]["in"].device is None
    spec.device = "cpu"
    assert spec[0].device == torch.device("cpu")
    assert pair().to(torch.float64)["obs"].dtype == torch.float64
    assert Composite(agents=pair(), device="cpu")["agents"].device == torch.device("cpu")


def test_batch_dimensions() -> None:
    spec = pair()
    spec.shape = (2,)
    with pytest.raises(ValueError, match="stacked along dimension 0"):
        spec.shape = (3,)
    spec = stack([Composite(a=Unbounded((4, 1))), Composite(a=Unbounded((4, 2)))])
    spec.shape = (2, 4)
    assert spec[0].shape == (4,)
    holder = Composite(agents=stack([Composite(a=Unbounded((4, 1))), Composite(a=Unbounded((4, 2)))]))
    holder.shape = (2, 4)
    assert holder["agents"].shape == (2, 4)
    with pytest.raises(ValueError, match="stacked along dimension 0"):
        holder.shape = (4,)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_shapes(dim: int) -> None:
    spec = pair((3, 1), dim)
    drawn = spec.rand()
    changes: dict[str, Callable[[Any], Any]] = {
        "unsqueeze": lambda part: part.unsqueeze(1),
        "squeeze": lambda part: part.unsqueeze(0).squeeze(0),
        "squeeze all": lambda part: part.squeeze(),
        "expand": lambda part: part.expand(5, *part.shape),
        "index": lambda part: part[0],
        "index last": lambda part: part[..., 0],
        "index the stack": lambda part: part[(slice(None),) * dim + (1,)],
        "slice": lambda part: part[:, :1],
        "list": lambda part: part[[0, 1, 0]],
        "unbind": lambda part: part.unbind(dim)[1],
    }
    for name, change in changes.items():
        made = change(spec)
        assert made.shape == change(drawn).batch_size, name
        assert made.is_in(change(drawn)), name
    assert spec.reshape(-1).shape == (6,)
    assert spec.flatten(0, 2).is_in(list(drawn.reshape(-1).unbind(0)))
    assert spec.make_neg_dim(0 if dim else 1).shape.count(-1) == 1


def test_items_keep_what_is_theirs() -> None:
    spec = pair((3,), 1)
    assert spec[0][1] == items((3,))[1][0]
    assert spec[0][0]["in", "left"] == Bounded(0, 5, (1,))
    assert spec[:, [1, 0]][:, 0] == items((3,))[1]
    assert type(spec[:, [1, 1]]) is Composite


def test_in_a_composite() -> None:
    spec = Composite(agents=pair((4,), 1), done=Categorical(2, (4, 1)), shape=(4,), names=["time"])
    assert spec["agents"].names == ["time", None]
    assert spec["agents"].refine_names(..., "agent").names == ["time", "agent"]
    assert spec["agents"].clone().names == ["time", "agent"]
    drawn = spec.rand((2,))
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn
    assert spec.expand(3, 4)[1]["agents"] == spec["agents"]
    assert spec[0]["agents"].shape == (2,)
    assert spec.clone() == spec == pickle.loads(pickle.dumps(spec))
    assert ("agents", "in", "x") in spec.keys(True, True)
    assert spec.lock_()["agents"][:, 0].is_locked


def test_updates_of_a_tensordict() -> None:
    spec = pair()
    value = spec.zero()
    torch.manual_seed(0)
    assert spec.is_in(spec.rand_update(value))
    assert (spec.ones_update(value)["obs"] == 1).all()


# Text


def test_text() -> None:
    spec = stack([Composite(a=Unbounded((1,))), Composite(a=Unbounded((2,)), b=Categorical(3))])
    assert repr(spec) == (
        "StackedComposite(\n"
        "    fields={\n"
        "        a: Stacked(\n"
        "            Unbounded(shape=(1,), dtype=float32, device=cpu),\n"
        "            Unbounded(shape=(2,), dtype=float32, device=cpu),\n"
        "            dim=0, shape=(2, -1))},\n"
        "    exclusive_fields={\n"
        "        1 ->\n"
        "            b: Categorical(n=3, shape=(), dtype=int64, device=cpu)},\n"
        "    device=None,\n"
        "    shape=(2,),\n"
        "    stack_dim=0)"
    )
    assert "b: Categorical" in spec.repr_exclusive_keys()
    assert "a: " not in spec.repr_exclusive_keys()


# TorchRL


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
