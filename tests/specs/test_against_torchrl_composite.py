"""`Composite` as a mapping, and its values: the same as TorchRL's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from tests.specs.composite_samples import after, assign, delete, tree
from tests.specs.peer import Differs, Expression, compare

pytestmark = pytest.mark.peers

MAPPING: dict[str, Expression] = {
    **{
        f"keys({nested}, {leaves})": partial(
            lambda lib, nested, leaves: sorted(map(str, tree(lib).keys(nested, leaves))),
            nested=nested,
            leaves=leaves,
        )
        for nested in (False, True)
        for leaves in (False, True)
    },
    **{
        f"order of {method}({nested}, {leaves})": partial(
            lambda lib, method, nested, leaves: list(getattr(tree(lib), method)(nested, leaves)),
            method=method,
            nested=nested,
            leaves=leaves,
        )
        for method in ("keys", "items", "values")
        for nested in (False, True)
        for leaves in (False, True)
    },
    "keys keywords": lambda lib: len(list(tree(lib).keys(include_nested=True, leaves_only=True))),
    "keys len": lambda lib: len(tree(lib).keys(True)),
    "items len": lambda lib: len(tree(lib).items()),
    "keys twice": lambda lib: (lambda keys: (list(keys), list(keys)))(tree(lib).keys(True, True)),
    "dict of items": lambda lib: sorted(dict(tree(lib).items())),
    "keys contain": lambda lib: [
        key in tree(lib).keys(True)
        for key in (
            "obs",
            ("obs",),
            ("agents", "deep", "x"),
            ("agents", ("deep", ("x",))),
            "nope",
            ("obs", "x"),
        )
    ],
    "keys contain, flat": lambda lib: [
        key in tree(lib).keys(False) for key in ("obs", ("obs",), ("agents", "deep"))
    ],
    "keys contain, leaves": lambda lib: [
        key in tree(lib).keys(True, True) for key in ("agents", ("agents", "action"), ("agents", "deep"))
    ],
    "in spec": lambda lib: [key in tree(lib) for key in ("obs", "nope")],
    "iter": lambda lib: list(tree(lib)),
    "len": lambda lib: len(tree(lib)),
    "bool": lambda lib: bool(lib.Composite()),
    "get": lambda lib: tree(lib).get("obs"),
    "get nested": lambda lib: tree(lib).get(("agents", "action")),
    "get default": lambda lib: tree(lib).get("nope", None),
    "get nested default": lambda lib: tree(lib).get(("agents", "nope"), 3),
    "get missing": lambda lib: tree(lib).get("nope"),
    "[missing]": lambda lib: tree(lib)["nope"],
    "[missing, nested]": lambda lib: tree(lib)["agents", "nope"],
    "[below a leaf]": lambda lib: tree(lib)["obs", "x"],
    "[nested tuple]": lambda lib: tree(lib)["agents", ("deep", "x")],
    "[nested] is the same": lambda lib: (lambda spec: spec["agents"]["deep"] is spec["agents", "deep"])(
        tree(lib)
    ),
    "set": after(lambda lib, spec: spec.set("new", lib.Unbounded((2, 5)))),
    "set returns": lambda lib: (lambda spec: spec.set("new", lib.Unbounded((2,))) is spec)(tree(lib)),
    "set nested": after(lambda lib, spec: spec.set(("agents", "new"), lib.Unbounded((2,)))),
    "set deep": after(lambda lib, spec: spec.set(("a", "b", "c"), lib.Unbounded((2,)))),
    "set replaces": after(assign("obs", lambda lib: lib.Binary(shape=(2, 1)))),
    "set None": after(assign("obs", lambda _: None), lambda spec: (spec["obs"], list(spec.keys()))),
    "set below a leaf": after(assign(("obs", "x"), lambda lib: lib.Unbounded((2,)))),
    "set dict": after(assign("new", lambda lib: {"a": lib.Unbounded((2,))}), lambda spec: spec["new"]),
    "set wrong shape": after(assign("new", lambda lib: lib.Unbounded((3,)))),
    "set other device": lambda lib: tree(lib, device="cpu").set("new", lib.Unbounded((2,), device="meta")),
    "set tensor": after(assign("new", lambda _: torch.zeros(2))),
    "set number": after(assign("new", lambda _: 42)),
    "set int key": after(assign(3, lambda lib: lib.Unbounded((2,)))),
    "set empty key": after(assign((), lambda lib: lib.Unbounded((2,)))),
    **{
        f"set forbidden {name}": after(assign(name, lambda _: 42))
        for name in ("shape", "device", "dtype", "space")
    },
    "set forbidden, a spec": after(assign("shape", lambda lib: lib.Unbounded((2,)))),
    "a nested spec takes the batch": after(
        assign("new", lambda lib: lib.Composite(a=lib.Unbounded((2, 3)))), lambda spec: spec["new"].shape
    ),
    "a nested spec takes the device": lambda lib: (
        tree(lib, device="cpu").set("new", lib.Composite(a=lib.Unbounded((2,)), shape=(2,)))["new"].device
    ),
    "a non-tensor takes the device": lambda lib: (
        tree(lib, device="cpu").set("new", lib.NonTensor((2,)))["new"].device
    ),
    "del": after(delete("obs")),
    "del nested": after(delete(("agents", "deep", "x"))),
    "del missing": after(delete("nope")),
    "del nested missing": after(delete(("agents", "nope"))),
    "pop": lambda lib: tree(lib).pop("obs"),
    "pop nested": lambda lib: (lambda spec: (spec.pop(("agents", "action")), spec))(tree(lib)),
    "pop default": lambda lib: tree(lib).pop("nope", 3),
    "pop None": lambda lib: tree(lib).pop("nope", None),
    "pop missing": lambda lib: tree(lib).pop("nope"),
    "pop nested default": lambda lib: tree(lib).pop(("agents", "nope"), 3),
    "update": after(lambda lib, spec: spec.update({"new": lib.Unbounded((2,))})),
    "update replaces": after(lambda lib, spec: spec.update({"obs": lib.Unbounded((2,))})),
    "update merges": after(lambda lib, spec: spec.update({"agents": {"new": lib.Unbounded((2,))}})),
    "update by a composite": after(
        lambda lib, spec: spec.update(lib.Composite(agents=lib.Composite(new=lib.Unbounded((2,)))))
    ),
    "update with None": after(
        lambda lib, spec: spec.update(lib.Composite(agents=lib.Composite(action=None))),
        lambda spec: (spec["agents", "action"], sorted(map(str, spec.keys(True)))),
    ),
    "update tuple keys": after(lambda lib, spec: spec.update({("agents", "new"): lib.Unbounded((2,))})),
    "update wrong shape": after(lambda lib, spec: spec.update({"new": lib.Unbounded((3,))})),
    "update returns": lambda lib: tree(lib).update({}),
    "separates": lambda lib: (lambda spec: (spec.separates("obs"), spec))(tree(lib)),
    "separates nested": lambda lib: (lambda spec: (spec.separates(("agents", "action")), spec))(tree(lib)),
    "separates missing": lambda lib: tree(lib).separates("nope"),
    "separates default": lambda lib: tree(lib).separates("nope", default=None),
    "separates several": lambda lib: sorted(
        tree(lib).separates("obs", ("agents", "deep", "x")).keys(True, True), key=str
    ),
    "empty": lambda lib: tree(lib).empty(),
    "empty keeps": lambda lib: tree(lib, device="cpu").empty(),
    "is_empty": lambda lib: [
        lib.Composite().is_empty(),
        tree(lib).is_empty(),
        lib.Composite(a=lib.Composite()).is_empty(),
        lib.Composite(a=lib.Composite()).is_empty(recurse=True),
        lib.Composite(a=None).is_empty(),
    ],
    "equality, order": lambda lib: (
        lib.Composite(a=lib.Unbounded(), b=lib.Binary(2)) == lib.Composite(b=lib.Binary(2), a=lib.Unbounded())
    ),
    "equality": lambda lib: [
        tree(lib) == other
        for other in (tree(lib), tree(lib, device="cpu"), lib.Composite(), tree(lib).expand(2, 2), 3, None)
    ],
    "equality, None": lambda lib: [
        lib.Composite(a=None) == other
        for other in (lib.Composite(a=None), lib.Composite(), lib.Composite(a=lib.Unbounded()))
    ],
    "cardinality": lambda lib: (
        lib.Composite(a=lib.OneHot(5, (3, 5)), b=lib.Binary(shape=(3, 2)), shape=(3,)).cardinality() > 1
    ),
    "cardinality, small": lambda lib: lib.Composite(a=lib.OneHot(5), b=lib.Categorical(3)).cardinality(),
    "cardinality, endless": lambda lib: lib.Composite(a=lib.OneHot(5), b=lib.Unbounded()).cardinality(),
    "enumerate": lambda lib: lib.Composite(a=lib.Categorical(2), b=lib.Categorical(3)).enumerate(),
    "enumerate nested": lambda lib: lib.Composite({("b", "c"): lib.Categorical(3)}).enumerate(),
    "enumerate endless": lambda lib: lib.Composite(a=lib.Unbounded()).enumerate(),
    "repr": lambda lib: repr(tree(lib)).startswith("Composite(") and "obs: " in repr(tree(lib)),
}
VALUES: dict[str, Expression] = {
    "zero": lambda lib: tree(lib).zero(),
    "zero in front": lambda lib: tree(lib, device="cpu").zero((3,)),
    "one": lambda lib: tree(lib).one(),
    "is_in": lambda lib: [
        bool(tree(lib).is_in(value))
        for value in (
            tree(lib).rand(),
            tree(lib).rand((3,)),
            tree(lib).rand().set("more", torch.zeros(2)),
            tree(lib).one() * 3,
        )
    ],
    "is_in a dict": lambda lib: bool(tree(lib).is_in(tree(lib).rand().to_dict())),
    "is_in, missing": lambda lib: bool(tree(lib).is_in(TensorDict({}, [2]))),
    "is_in, None entry": lambda lib: bool(
        lib.Composite(a=lib.Unbounded(), b=None).is_in({"a": torch.zeros(1)})
    ),
    "project": lambda lib: lib.Composite(a=lib.Bounded(0, 1, (2,)), shape=()).project(
        TensorDict({"a": torch.tensor([-3.0, 0.5]), "more": torch.ones(1)})
    ),
    "project is in place": lambda lib: (lambda value: tree(lib).project(value) is value)(tree(lib).rand()),
    "project, missing": lambda lib: tree(lib).project(TensorDict({}, [2])),
    "encode": lambda lib: tree(lib).encode({"obs": np.zeros((2, 3)), "agents": {"action": np.array([0, 3])}}),
    "encode partly": lambda lib: tree(lib).encode({"obs": [[0, 0, 0], [1, 1, 1]]}),
    "encode a tensordict": lambda lib: lib.Composite(a=lib.Unbounded((2,))).encode(
        TensorDict({"a": torch.zeros(2)})
    ),
    "encode unknown": lambda lib: tree(lib).encode({"nope": 0}),
    "encode wrong shape": lambda lib: tree(lib).encode({"obs": np.zeros((2, 4))}),
    "encode None entry": lambda lib: lib.Composite(a=None).encode({"a": 3}),
    "encode nothing": lambda lib: tree(lib).encode({}),
    "to_numpy": lambda lib: tree(lib).to_numpy(tree(lib).zero()),
    "to_numpy partly": lambda lib: tree(lib).to_numpy(TensorDict({"obs": torch.zeros(2, 3)}, [2])),
    "type_check": lambda lib: tree(lib).type_check(tree(lib).rand()),
    "type_check key": lambda lib: tree(lib).type_check(torch.zeros(9), "obs"),
    "type_check wrong": lambda lib: tree(lib).type_check(torch.zeros(9, dtype=torch.int64), "obs"),
    "type_check nested": lambda lib: tree(lib).type_check(torch.zeros(2), ("agents", "deep", "x")),
    "type_check missing": lambda lib: tree(lib).type_check(torch.zeros(2), "zz"),
    "rand_update": lambda lib: (
        lambda td: (lib.Composite(a=lib.Unbounded((2,))).rand_update(td) is td, td["a"].shape)
    )(TensorDict({"b": torch.ones(1)})),
    "zeros_update": lambda lib: lib.Composite(a=lib.Unbounded((2,))).zeros_update(
        TensorDict({"b": torch.ones(1)})
    ),
    "ones_update": lambda lib: lib.Composite(a=lib.Unbounded((2,))).ones_update(
        TensorDict({"b": torch.ones(1)})
    ),
    "None entries": lambda lib: lib.Composite(a=None, b=lib.Unbounded()).zero(),
    "to_numpy None": lambda lib: lib.Composite(a=None, b=lib.Unbounded()).to_numpy(
        TensorDict({"b": torch.zeros(1)})
    ),
}
CASES: dict[str, Expression] = {
    f"{group}: {name}": expression
    for group, table in {"mapping": MAPPING, "values": VALUES}.items()
    for name, expression in table.items()
}

DIFFERENCES: dict[str, Differs] = {
    "mapping: get missing": Differs("there is no such entry, and no default", KeyError),
    "mapping: [below a leaf]": Differs("there is no such entry", KeyError),
    "mapping: set tensor": Differs("a tensor is no spec", TypeError),
    "mapping: set number": Differs("a number is no spec", TypeError),
    "mapping: set empty key": Differs("no key", TypeError),
    "mapping: is_empty": Differs("recurse looks into the entries", [True, False, False, True, False]),
    "mapping: cardinality, endless": Differs("infinite", float("inf")),
    "values: one": Differs("in the spec's dtype, not always int64"),
    "values: is_in, missing": Differs("membership is a question: it has an answer for every value", False),
    "values: project, missing": Differs("names the entry that is missing", KeyError),
    "values: encode None entry": Differs("nothing is known of the entry: its data are left out"),
    "values: type_check nested": Differs("a nested entry has a dtype too", None),
    "values: type_check missing": Differs("there is no such entry", KeyError),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
