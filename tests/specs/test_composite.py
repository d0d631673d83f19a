from __future__ import annotations

import copy
import gc
import pickle
import re

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Binary, Bounded, Categorical, Composite, OneHot, TensorSpec, Unbounded
from tensordict import TensorDict


def tree() -> Composite:
    return Composite(
        {("agents", "action"): OneHot(4, (2, 3, 4)), "observation": Bounded(-1, 1, (2, 5))},
        done=Binary(shape=(2, 1), dtype=torch.bool),
        shape=(2,),
    )


def agents(spec: Composite) -> Composite:
    nested = spec["agents"]
    assert isinstance(nested, Composite)
    return nested


class TestMapping:
    def test_ways_to_build(self) -> None:
        leaf = Unbounded((3,))
        expected = Composite({"a": {"b": leaf}})
        assert Composite({("a", "b"): leaf}) == expected
        assert Composite(a=Composite(b=leaf)) == expected
        assert Composite(a={"b": leaf}) == expected
        assert Composite(expected) == expected
        assert Composite({("a", ("b",)): leaf}) == expected
        assert Composite(batch_size=2).shape == Composite(shape=2).shape == (2,)
        assert Composite(None, shape=None) == Composite()
        with pytest.raises(RuntimeError, match="expected a mapping"):
            Composite([leaf])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="give one of them"):
            Composite(shape=(2,), batch_size=(2,))

    def test_keys(self) -> None:
        spec = tree()
        assert list(spec.keys()) == ["agents", "observation", "done"]
        assert list(spec.keys(leaves_only=True)) == ["observation", "done"]
        assert list(spec.keys(True)) == [("agents", "action"), "agents", "observation", "done"]
        assert list(spec.keys(True, True)) == [("agents", "action"), "observation", "done"]
        assert [key for key, _ in spec.items(True, True)] == list(spec.keys(True, True))
        assert [leaf for _, leaf in spec.items(True, True)] == list(spec.values(True, True))
        assert all(isinstance(leaf, TensorSpec) for leaf in spec.values())
        assert ("agents", "action") in spec
        assert ("agents", "x") not in spec
        assert ("done", "x") not in spec
        assert 3 not in spec
        assert len(spec) == 3

    def test_get_set_pop(self) -> None:
        spec = tree()
        assert spec["agents", "action"] is agents(spec)["action"]
        assert spec[("done",)] is spec["done"]
        assert spec.get("x", None) is None
        assert spec.set(("new", "deep", "leaf"), Unbounded((2,))) is spec
        assert spec["new", "deep"].shape == (2,)
        popped = spec.pop(("new", "deep", "leaf"))
        assert popped == Unbounded((2,))
        assert spec.is_empty() is False
        assert Composite(a={}).is_empty(recurse=True)
        assert spec.pop("zz", 3) == 3
        with pytest.raises(KeyError):
            spec.pop("zz")
        del spec["agents", "action"]
        assert "agents" in spec
        nested = spec["agents"]
        assert spec.pop("agents") is nested
        spec["agents"] = nested
        separated = spec.separates("agents")
        assert separated is not None
        assert separated["agents"] == nested
        assert "agents" not in spec

    def test_bad_keys(self) -> None:
        for key in (3, (), ("a", 3)):
            with pytest.raises(TypeError, match="a key must be"):
                Composite({key: Unbounded()})

    def test_update_merges(self) -> None:
        spec = tree()
        spec.update({"agents": {"reward": Unbounded((2, 3, 1))}, ("agents", "info"): Unbounded((2,))})
        assert set(agents(spec).keys()) == {"action", "reward", "info"}

    def test_select_and_exclude(self) -> None:
        spec = tree()
        assert set(spec.select(("agents", "action")).keys(True, True)) == {("agents", "action")}
        assert spec.select("agents", ("agents", "action")) == spec.exclude("observation", "done")
        assert list(spec.exclude("agents", "zz").keys()) == ["observation", "done"]
        assert spec.select("zz", strict=False).is_empty()
        with pytest.raises(KeyError):
            spec.select("zz")

    def test_a_refused_entry_leaves_nothing_behind(self) -> None:
        spec = tree()
        with pytest.raises(ValueError, match="key 'x'"):
            spec.set(("fresh", "x"), Unbounded((3,)))
        assert "fresh" not in spec

    def test_a_refused_update_changes_nothing(self) -> None:
        spec, locked = tree(), Composite(x=Unbounded((2,)), shape=(2,)).lock_()
        spec["locked"] = locked
        before = spec.clone()
        fine = {"agents": {"x": Unbounded((2,)), "deep": {"y": Unbounded((2,))}}, "done": None}
        for wrong, error in (
            ({"b": 3}, TypeError),
            ({"agents": {"b": Unbounded((3,))}}, ValueError),
            ({("done", "b"): Unbounded((2,))}, TypeError),
            ({"locked": {"b": Unbounded((2,))}}, RuntimeError),
        ):
            with pytest.raises(error):
                spec.update({**fine, "more": Unbounded((2,)), ("agents", "y"): None, **wrong})
            assert spec == before
            assert list(spec.keys(True)) == list(before.keys(True))
        assert spec.update(fine)["agents", "deep", "y"].shape == (2,)

    def test_no_composite_holds_itself(self) -> None:
        spec = tree()
        before = spec.clone()
        for key in ("x", ("agents", "x"), ("fresh", "x")):
            for whole in (
                spec,
                Composite(a=spec, shape=2),
                {"a": {"b": spec}},
                torch.stack([spec, Composite(shape=2)]),
            ):
                with pytest.raises(ValueError, match="a composite cannot hold itself"):
                    spec.set(key, whole)  # type: ignore[arg-type]  # torch.stack of specs
                assert spec == before
        spec["x"] = spec.clone()
        assert spec["x", "done"] == spec["done"]

    def test_batch_dimensions(self) -> None:
        with pytest.raises(ValueError, match=re.escape("must start with the batch dimensions (2,)")):
            Composite(a=Unbounded((3,)), shape=(2,))
        with pytest.raises(ValueError, match="key 'a'"):
            Composite(a=OneHot(4), shape=(4,))  # the classes are no batch
        nested = Composite(a=Unbounded((2, 3)))
        assert Composite(nested=nested, shape=(2,))["nested"].shape == (2,)
        assert nested.shape == ()

    def test_devices(self) -> None:
        with pytest.raises(RuntimeError, match="key 'a': expected device meta, got cpu"):
            Composite(a=Unbounded(), device="meta")
        spec = Composite(a=Composite(b=Unbounded()), device="cpu")
        assert str(spec["a"].device) == "cpu"
        assert str(spec.clear_device_().device) == "None"
        assert str(spec["a"].device) == "None"
        assert spec["a", "b"].device == torch.device("cpu")
        assert spec.to("cpu").device == torch.device("cpu")
        meta = spec.to("meta")
        assert meta["a", "b"].device == torch.device("meta")
        assert meta.to("meta") is meta

    def test_shape_setter(self) -> None:
        spec = Composite(a=Composite(b=Unbounded((2, 3))), c=Categorical(3, (2,)))
        spec.shape = (2,)
        assert spec["a"].shape == (2,)
        spec.shape = ()
        assert spec["a"].shape == (2,)


class TestValues:
    def test_rand_zero_one(self) -> None:
        spec = tree()
        for value in (spec.rand((5,)), spec.zero((5,)), spec.one((5,))):
            assert isinstance(value, TensorDict)
            assert value.batch_size == (5, 2)
            assert value["agents"].batch_size == (5, 2)
            assert value["agents", "action"].shape == (5, 2, 3, 4)
            assert value.device is None
        assert spec.to("cpu").rand().device == torch.device("cpu")
        assert spec.is_in(spec.sample())
        assert (spec.ones()["observation"] == 1).all()
        assert (spec.zeros()["observation"] == 0).all()

    def test_is_in_allows_further_entries(self) -> None:
        spec = tree()
        value = spec.rand()
        value["extra"] = torch.zeros(2)
        assert spec.is_in(value)
        assert spec.is_in(value.to_dict())

    def test_assert_is_in_names_every_key(self) -> None:
        spec = tree()
        value = spec.rand()
        spec.assert_is_in(value)
        value["observation"] = value["observation"].double()
        value["agents", "action"][0, 0] = True
        del value["done"]
        with pytest.raises(AssertionError) as caught:
            spec.assert_is_in(value)
        text = str(caught.value)
        assert "key ('agents', 'action'): expected a vector with a single 1 among zeros" in text
        assert "key 'observation': expected dtype torch.float32, got torch.float64" in text
        assert "key 'done': expected Binary(shape=(2, 1), dtype=bool, device=cpu), got nothing" in text

    def test_project_in_place(self) -> None:
        spec = tree()
        value = spec.rand()
        kept = value["done"]
        value["observation"] *= 100
        value["extra"] = torch.ones(2)
        assert spec.project(value) is value
        assert spec.is_in(value)
        assert value["done"] is kept
        assert "extra" in value.keys()  # noqa: SIM118

    def test_encode_and_to_numpy(self) -> None:
        spec = tree()
        encoded = spec.encode(
            {"agents": {"action": np.array([[0, 1, 2], [3, 2, 1]])}, "done": [[True], [False]]}
        )
        assert encoded.batch_size == (2,)
        assert encoded["agents", "action"].shape == (2, 3, 4)
        back = spec.to_numpy(encoded)
        assert back["agents"]["action"].tolist() == [[0, 1, 2], [3, 2, 1]]
        assert back["done"].tolist() == [[True], [False]]
        with pytest.raises(KeyError, match="did you mean done"):
            spec.encode({"dones": 0})
        with pytest.raises(AssertionError) as caught:
            spec.encode({"agents": {"action": np.full((2, 3), 9)}})
        assert str(caught.value).startswith("key 'agents': key 'action': ")

    def test_to_dtype(self) -> None:
        spec = Composite(a=Unbounded((2,)), b=Bounded(0, 1, (1,))).to(torch.float64)
        assert {leaf.dtype for leaf in spec.values()} == {torch.float64}


class TestShapes:
    def test_expand(self) -> None:
        spec = tree().expand(7, 2)
        assert spec.shape == (7, 2)
        assert spec["agents", "action"].shape == (7, 2, 3, 4)
        assert spec.is_in(spec.rand())
        with pytest.raises(ValueError, match="cannot expand"):
            tree().expand(3)
        with pytest.raises(ValueError, match="cannot expand"):
            tree().expand(-1, 2)

    def test_empty_composites_follow(self) -> None:
        spec = Composite(a={"b": {}}, shape=(2,))
        for made in (
            spec.expand(7, 2), spec.unsqueeze(0), spec[0], spec.reshape(1, 2), spec.unsqueeze(-1).flatten(0, 1),
            spec.unbind(0)[1], torch.stack([spec, spec]), torch.stack([spec, Composite(a={"b": {}}, c={}, shape=2)]),
        ):  # fmt: skip
            assert made["a"].shape == made["a", "b"].shape == made.shape

    def test_index(self) -> None:
        spec = tree().expand(7, 2)
        assert spec[0].shape == (2,)
        assert spec[0]["agents", "action"].shape == (2, 3, 4)
        assert spec[:, 1].shape == (7,)
        assert spec[..., 0]["observation"].shape == (7, 5)
        assert spec[torch.tensor([True] * 3 + [False] * 4)].shape == (3, 2)
        assert spec[None].shape == (1, 7, 2)
        for index in ((0, 0, 0), 7, (..., ...), "x", True, 1.5):
            with pytest.raises((IndexError, KeyError)):
                spec[index]  # type: ignore[index]

    def test_reshape_squeeze_unsqueeze_unbind(self) -> None:
        spec = tree().expand(3, 2)
        assert spec.reshape(-1)["agents", "action"].shape == (6, 3, 4)
        assert spec.flatten(0, 1).shape == (6,)
        assert spec.view(6).unflatten(0, (3, 2)) == spec
        assert spec.unsqueeze(-1)["done"].shape == (3, 2, 1, 1)
        assert spec.unsqueeze(1).squeeze() == spec
        assert [part.shape for part in spec.unbind(0)] == [torch.Size([2])] * 3


class TestLock:
    def test_locked(self) -> None:
        spec = tree()
        assert [spec.is_locked, spec.lock_().is_locked] == [False, True]
        for change in (
            lambda: spec.set("a", Unbounded((2,))),
            lambda: spec.update({"done": None}),
            lambda: spec.__delitem__("done"),
            lambda: spec.separates("done"),
            lambda: setattr(spec, "device", "cpu"),
            lambda: spec.__delitem__(("agents", "action")),
            lambda: spec.pop("done"),
            lambda: agents(spec).set("a", Unbounded((2,))),
            lambda: setattr(spec, "shape", ()),
            lambda: agents(spec).unlock_(),
        ):
            with pytest.raises(RuntimeError, match="locked"):
                change()
        assert not spec.clone().is_locked
        spec.clone().set("a", Unbounded((2,)))
        spec.unlock_()
        assert not agents(spec).is_locked
        spec["agents", "a"] = Unbounded((2,))

    def test_copies_stay_locked_as_a_whole(self) -> None:
        spec = tree().lock_()
        for twin in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
            assert twin == spec
            assert twin.is_locked
            assert agents(twin).is_locked
            twin.unlock_()
            assert not agents(twin).is_locked
        assert agents(spec).is_locked

    def test_a_part_of_two_trees(self) -> None:
        part = Composite(x=Unbounded())
        first, second = Composite(deep=Composite(part=part)).lock_(), Composite(part=part).lock_()
        with pytest.raises(RuntimeError, match="part of a locked"):
            first.unlock_()
        assert first.is_locked
        for tree_ in (first, first["deep"]):
            assert isinstance(tree_, Composite)
            assert not tree_.unlock_(recurse=False).is_locked
        assert part.is_locked
        second.unlock_()
        assert not part.is_locked

    def test_locking_without_the_parts(self) -> None:
        spec = tree().lock_(recurse=False)
        spec["agents", "x"] = Unbounded((2,))
        with pytest.raises(RuntimeError, match="locked"):
            spec["new", "x"] = Unbounded((2,))
        assert agents(spec.lock_()).is_locked
        spec.unlock_(recurse=False)
        assert agents(spec).is_locked
        assert not agents(spec).unlock_().is_locked
        spec.is_locked = True
        assert spec.locked
        spec.is_locked = False
        assert not agents(spec).locked

    def test_equal_trees_are_still_two(self) -> None:
        part = Composite(x=Unbounded())
        first, second = Composite(part=part).lock_(), Composite(part=part).lock_()
        assert first == second
        with pytest.raises(RuntimeError, match="locked"):
            first.unlock_()

    def test_a_root_that_is_gone_holds_nothing(self) -> None:
        part = Composite(x=Unbounded())
        root = Composite(part=part).lock_()
        with pytest.raises(RuntimeError, match="unlock its root"):
            part.unlock_()
        del root
        gc.collect()
        assert part.is_locked
        part.unlock_()
        assert not part.is_locked


def test_equality_and_hash() -> None:
    assert tree() == tree()
    assert tree() != tree().expand(2, 2)
    other = tree()
    other["observation"] = Bounded(-1, 2, (2, 5))
    assert tree() != other
    assert tree() != 3
    with pytest.raises(TypeError):
        hash(tree())
