"""A `Composite` as a mapping: laws over random trees, entries that are None, faults of its peers."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import Bounded, Categorical, Composite, OneHot, TensorSpec, Unbounded
from tensordict import TensorDict, lazy_stack

NAMES = st.sampled_from(["a", "b", "c", "action", "next"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
LEAVES = st.sampled_from([Unbounded((2, 3)), Categorical(4, (2,)), OneHot(3, (2, 3)), None])
TREES: Any = st.recursive(
    LEAVES, lambda nodes: st.dictionaries(NAMES, nodes, max_size=4), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


def built(tree: dict[str, Any]) -> Composite:
    return Composite(tree, shape=(2,))


def flat(tree: dict[str, Any], path: tuple[str, ...] = ()) -> dict[Any, Any]:
    """All leaves of nested dicts by key, as `items(True, True)` gives them."""
    found: dict[Any, Any] = {}
    for name, node in tree.items():
        if isinstance(node, dict):
            found.update(flat(node, (*path, name)))
        else:
            found[(*path, name) if path else name] = node
    return found


class TestLaws:
    @given(TREES)
    def test_leaves(self, tree: dict[str, Any]) -> None:
        spec = built(tree)
        assert dict(spec.items(True, True)) == flat(tree)
        assert len(spec.keys(True, True)) == len(flat(tree))
        assert spec.is_empty(recurse=True) == (not flat(tree))
        assert set(spec.keys()) == set(spec) == set(tree)
        for key in spec.keys(True):
            assert key in spec
            assert spec.get(key) is spec[key]
        composites = set(spec.keys(True)) - set(spec.keys(True, True))
        assert all(isinstance(spec[key], Composite) for key in composites)

    @given(TREES)
    def test_copies_are_equal(self, tree: dict[str, Any]) -> None:
        spec = built(tree)
        for twin in (
            spec.clone(),
            copy.deepcopy(spec),
            pickle.loads(pickle.dumps(spec)),
            built(tree),
            spec.to("cpu"),
        ):
            assert twin.clear_device_() == spec
            assert list(twin.keys(True)) == list(spec.keys(True))
        clone = spec.clone()
        assert not any(clone[key] is spec[key] for key, entry in spec.items(True) if entry is not None)
        assert all(entry.shape[:2] == (3, 2) for entry in spec.expand(3, 2).values(True) if entry is not None)
        assert spec.expand(3, 2)[0] == spec
        assert spec.unsqueeze(0).squeeze(0) == spec

    @given(TREES, TREES)
    def test_update_merges(self, tree: dict[str, Any], more: dict[str, Any]) -> None:
        def merged(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
            both = {
                name: merged(one[name], node)
                if isinstance(node, dict) and isinstance(one.get(name), dict)
                else node
                for name, node in two.items()
            }
            return {**one, **both}

        spec = built(tree)
        assert spec.update(more) is spec
        assert spec == built(merged(tree, more))
        assert built(tree).update(built(more)) == spec
        assert spec.clone().update(more) == spec

    @given(TREES, st.data())
    def test_parts(self, tree: dict[str, Any], data: st.DataObject) -> None:
        spec = built(tree)
        known = sorted(spec.keys(True), key=str)
        keys = data.draw(st.lists(st.sampled_from(known), max_size=3) if known else st.just([]))
        chosen = spec.select(*keys)
        assert all(chosen[key] == spec[key] for key in keys)
        leaves = spec.keys(True, True)
        assert chosen.keys(True, True) <= leaves
        assert chosen.keys(True, True) | spec.exclude(*keys).keys(True, True) == leaves
        assert chosen.keys(True, True).isdisjoint(spec.exclude(*keys).keys(True, True))
        assert spec == built(tree)

    @given(TREES, PATHS)
    def test_set_then_pop(self, tree: dict[str, Any], path: tuple[str, ...]) -> None:
        spec = built(tree)
        before = spec.clone()
        leaf = Bounded(0, 1, (2,))
        try:
            spec.set(path, leaf)
        except TypeError:  # the path goes through a leaf
            assert spec == before
            return
        assert spec[path] is leaf
        assert spec.pop(path) is leaf
        assert path not in spec
        rest = before.exclude(path)
        assert spec.keys(True, True) == rest.keys(True, True)

    @given(TREES)
    def test_separates_takes_out(self, tree: dict[str, Any]) -> None:
        spec = built(tree)
        keys = [key for key, leaf in spec.items(True, True) if leaf is not None][::2]
        separate = spec.separates(*keys, "zz")
        if not keys:
            assert separate is None
            return
        assert separate is not None
        assert separate.keys(True, True) == set(keys)
        assert set(keys).isdisjoint(spec.keys(True, True))
        assert built(tree) == spec.update(separate)

    @given(TREES)
    @settings(max_examples=30)
    def test_values_go_round(self, tree: dict[str, Any]) -> None:
        spec = built(tree)
        value = spec.rand()
        assert spec.is_in(value)
        assert spec.project(value) is value
        assert (spec.encode(spec.to_numpy(value)) == value).all()
        known = {key for key, leaf in spec.items(True, True) if leaf is not None}
        assert set(value.keys(True, True)) == known
        assert set(spec.zero().keys(True, True)) == known
        spec.type_check(value)


class TestViews:
    def test_sets(self) -> None:
        spec = Composite({"a": Unbounded(), ("b", "c"): Unbounded()})
        keys = spec.keys(True)
        assert keys == {"a", "b", ("b", "c")}
        assert keys & {"a", "x"} == {"a"}
        assert keys - spec.keys(True, True) == {"b"}
        assert ("a",) in keys
        assert ("b", ("c",)) in keys
        assert 3 not in keys
        assert ("b", "c") not in spec.keys()  # noqa: SIM118  # the spec itself looks deeper
        spec["d"] = Unbounded()
        assert "d" in keys  # it follows the spec
        assert len(keys) == 4
        assert ("a", spec["a"]) in spec.items()
        assert ("a", Categorical(2)) not in spec.items()
        assert Unbounded() in spec.values()
        assert "'a'" in repr(keys)

    def test_is_leaf(self) -> None:
        spec = Composite({"a": Unbounded(), ("b", "c"): Unbounded()})
        assert set(spec.keys(True, True, is_leaf=lambda cls: issubclass(cls, Composite))) == {"b"}
        assert list(spec.values(True, True, is_leaf=lambda _: True)) == list(spec.values(True))

    def test_step_mdp_static(self) -> None:
        static = Composite(x=Unbounded(), y=Unbounded(), step_mdp_static=True)
        spec = Composite(a=static, b=Composite(z=Unbounded()))
        assert set(spec.keys(True, True, step_mdp_static_only=True)) == {"a", ("b", "z")}
        assert not set(static.keys(step_mdp_static_only=True))
        for made in (spec.clone(), spec.expand(2), spec.to(torch.float64), spec.to("cpu"), spec.unsqueeze(0)):
            nested = made["a"]
            assert isinstance(nested, Composite)
            assert nested.step_mdp_static


class TestNone:
    def test_kept_and_skipped(self) -> None:
        spec = Composite(a=None, b=Composite(c=None, d=Unbounded((3,))), e=Categorical(3))
        assert spec["a"] is None
        assert spec["b", "c"] is None
        assert spec.get("a", 3) is None
        assert "a" in spec
        assert set(spec.keys(True, True)) == {"a", ("b", "c"), ("b", "d"), "e"}
        assert "a: None" in repr(spec)
        value = spec.zero()
        assert set(value.keys(True, True)) == {("b", "d"), "e"}
        value["a"] = torch.ones(7)
        assert spec.is_in(value)
        spec.assert_is_in(value)
        spec.type_check(value)
        spec.type_check(torch.ones(7), "a")
        assert spec.project(value)["a"].tolist() == [1.0] * 7

    def test_t25_encode_and_to_numpy(self) -> None:
        spec = Composite(a=None, b=Unbounded((2,)))
        assert set(spec.encode({"a": 1, "b": [1, 2]}).keys()) == {"b"}
        assert spec.to_numpy(TensorDict(a=torch.ones(1), b=torch.ones(2))).keys() == {"b"}
        with pytest.raises(RuntimeError, match="entry 'b' is missing, got None"):
            spec.encode({"b": None})

    def test_through_changes(self) -> None:
        spec = Composite(a=None, b=Unbounded((2, 3)), shape=(2,))
        for made in (
            spec.clone(), spec.expand(4, 2), spec[0], spec.to("meta"), spec.to(torch.float64), spec.reshape(1, 2),
            spec.unsqueeze(0), spec.unbind(0)[1], spec.make_neg_dim(0), pickle.loads(pickle.dumps(spec)),
        ):  # fmt: skip
            assert made["a"] is None
            assert made != Composite(b=made["b"], shape=made.shape, device=made.device)
        spec.shape = ()
        assert spec["a"] is None
        assert Composite(a=None).cardinality() == 0

    def test_composites_that_ask_for_nothing_may_be_missing(self) -> None:
        spec = Composite(a={}, b={"c": None, "d": {}}, e=Unbounded((2,)))
        value = TensorDict(e=torch.zeros(2))
        assert spec.is_in(value)
        spec.assert_is_in(value)
        spec.type_check(value)
        assert spec.project(value) is value
        assert spec.is_in(spec.rand())
        assert not spec.is_in({"a": {}, "b": {}})
        assert not spec.is_in({"a": 3, "e": torch.zeros(2)})


class TestChecks:
    @pytest.mark.parametrize("name", ["shape", "device", "dtype", "space"])
    def test_names_of_attributes(self, name: str) -> None:
        spec = Composite(a=Unbounded())
        for change in (
            lambda: spec[name],
            lambda: spec.set(name, Unbounded()),
            lambda: spec.set(("n", name), Unbounded()),
            lambda: Composite({name: Unbounded()}),
            lambda: spec.update({name: Unbounded()}),
        ):
            with pytest.raises(AttributeError, match=name):
                change()
        with pytest.raises(ValueError, match=name):
            del spec[name]
        assert spec == Composite(a=Unbounded())

    def test_a_leaf_is_not_replaced_by_what_is_below_it(self) -> None:
        spec = Composite(a=Unbounded(), b=None)
        for key in (("a", "x"), ("b", "x")):
            with pytest.raises(TypeError, match=f"'{key[0]}' is not a Composite"):
                spec[key] = Unbounded()

    def test_t24_tensors_are_no_specs(self) -> None:
        with pytest.raises(TypeError, match="key 'a': expected a spec or a mapping of specs, got Tensor"):
            Composite(a=torch.zeros(2))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="key 'b': expected a spec"):
            Composite({"a": TensorDict(b=torch.zeros(2))})

    def test_t23_a_refused_shape_changes_nothing(self) -> None:
        spec = Composite(a=Composite(x=Unbounded((2, 3))), b=Unbounded((3,)))
        before = spec.clone()
        with pytest.raises(ValueError, match="'b'"):
            spec.batch_size = (2,)  # type: ignore[assignment]
        assert spec == before

    def test_t21_missing_keys(self) -> None:
        spec = Composite(a=Unbounded())
        with pytest.raises(KeyError, match="the keys are a"):
            spec.get("zz")
        with pytest.raises(KeyError, match="no entry 'a'"):
            spec.project(TensorDict())

    def test_t22_delete_from_a_locked_spec(self) -> None:
        spec = Composite(a=Unbounded()).lock_()
        with pytest.raises(RuntimeError, match="locked"):
            del spec["a"]
        assert "a" in spec

    def test_t28_type_check_by_key(self) -> None:
        spec = Composite({("a", "b"): Unbounded(), "c": Categorical(3)})
        spec.type_check(torch.zeros(1), ("a", "b"))
        spec.type_check(TensorDict(b=torch.zeros(1)), "a")
        spec.type_check(spec.rand(), ["c", ("a", "b")])
        with pytest.raises(TypeError, match="int64"):
            spec.type_check(torch.zeros(1, dtype=torch.int64), ("a", "b"))
        with pytest.raises(KeyError, match="zz"):
            spec.type_check(torch.zeros(1), "zz")
        with pytest.raises(KeyError, match="'a', 'b'"):
            spec.type_check(TensorDict(a=TensorDict(), c=torch.tensor(0)))
        with pytest.raises(TypeError, match="'a', 'b'"):
            spec.type_check(TensorDict(a=TensorDict(b=torch.tensor([1])), c=torch.tensor(0)))

    @pytest.mark.parametrize(
        "value", [3, "text", None, torch.zeros(1), TensorDict(), {"a": None}, {"a": {"b": 3}}]
    )
    def test_t8_is_in_never_raises(self, value: Any) -> None:
        assert Composite({("a", "b"): Unbounded()}).is_in(value) is False

    def test_entries_without_one_shape_are_not_members(self) -> None:
        ragged = lazy_stack([TensorDict(a=torch.zeros(2)), TensorDict(a=torch.zeros(3))])
        assert Composite(a=Unbounded((2, 2)), shape=(2,)).is_in(ragged) is False

    def test_the_device(self) -> None:
        spec = Composite(a=Unbounded(), b=Composite(c=Unbounded()), device="cpu")
        with pytest.raises(RuntimeError, match="clear_device_"):
            spec.device = None
        spec.device = torch.device("meta")
        assert {leaf.device.type for leaf in spec.values(True) if leaf.device} == {"meta"}
        assert spec.update({"d": Unbounded()})["d"].device == torch.device("meta")
        for more in ({"x": Unbounded()}, Composite(y=Unbounded())):
            assert all(
                leaf.device == torch.device("meta")
                for leaf in spec.update({"b": more, "e": more}).values(True)
            )
        with pytest.raises(ValueError, match="a dtype or a device"):
            spec.to(1.5)  # type: ignore[arg-type]
        assert spec.to(None) is spec
        assert spec.to(torch.float32) is spec


class TestCounts:
    def test_members(self) -> None:
        spec = Composite(
            a=OneHot(3), b=Composite(c=Categorical(2, (2,)), none=None, empty={}), d=Categorical(2), none=None
        )
        members = spec.enumerate()
        assert spec.cardinality() == len(members) == 3 * 4 * 2
        assert all(spec.is_in(member) for member in members)
        seen = {str(spec.to_numpy(member)) for member in members}
        assert len(seen) == len(members)
        assert members["d"][:4].tolist() == [0, 1, 0, 1]

    def test_batch(self) -> None:
        spec = Composite(a=Categorical(3, (2,)), shape=(2,))
        assert spec.enumerate().batch_size == (9, 2)
        assert spec.cardinality() == 9
        assert Composite(shape=(2,)).enumerate().batch_size == (0, 2)

    def test_masks(self) -> None:
        spec = Composite(a=Categorical(3, mask=torch.tensor([True, False, True])), b=Categorical(2))
        assert len(spec.enumerate(use_mask=True)) == 4

    def test_endless(self) -> None:
        spec = Composite(a=Unbounded(), b=Categorical(2))
        assert spec.cardinality() == float("inf")
        with pytest.raises(NotImplementedError):
            spec.enumerate()


def test_typing_of_entries() -> None:
    spec: TensorSpec = Composite(a=Unbounded())["a"]
    assert spec.shape == (1,)
