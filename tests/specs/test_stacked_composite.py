"""`StackedComposite`: composites that differ, side by side; their entries and shapes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

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

from tests.specs.stacked_composite_samples import items, pair, stack

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


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
        with pytest.raises(error):
            spec.update({"y": Unbounded((4, 2)), "in": {"y": Unbounded((4, 2))}, key: wrong})
        assert spec == before
    with pytest.raises(ValueError, match="cannot hold itself"):
        spec["x"] = spec
    spec[:, 1].lock_()
    with pytest.raises(RuntimeError, match="locked"):
        spec["x"] = Unbounded((4, 2))
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
