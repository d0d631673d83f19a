"""The batch dimensions of a `Composite`, their names, and its lock: the same as TorchRL's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from tests.specs.composite_samples import after, put, tree
from tests.specs.peer import Differs, Expression, assigned, compare, stack

pytestmark = pytest.mark.peers

BATCH: dict[str, Expression] = {
    "shape =": after(put("shape", ()), lambda spec: (spec.shape, spec["agents"].shape)),
    "shape = longer": lambda lib: assigned(
        lib.Composite(n=lib.Composite(x=lib.Unbounded((2, 3)))), "shape", (2,)
    ),
    "shape = wrong": after(put("shape", (3,))),
    "batch_size =": after(put("batch_size", ()), lambda spec: spec.shape),
    "device =": after(put("device", "cpu")),
    "clear_device_": lambda lib: (
        lambda spec: (spec.clear_device_(), spec.device, spec["agents"].device, spec["obs"].device)
    )(tree(lib, device="cpu"))[1:],
    "clear_device_ returns": lambda lib: (lambda spec: spec.clear_device_() is spec)(tree(lib, device="cpu")),
    "to device": lambda lib: tree(lib).to("cpu"),
    "to dtype": lambda lib: lib.Composite(a=lib.Unbounded(), b={"c": lib.Bounded(0, 1, (2,))}).to(
        torch.float64
    ),
    "to None": lambda lib: tree(lib, device="cpu").to(None).device,
    "expand": lambda lib: tree(lib).expand(3, 2),
    "expand list": lambda lib: tree(lib).expand([3, 2]).shape,
    "expand wrong": lambda lib: tree(lib).expand(3),
    "reshape": lambda lib: tree(lib).expand(6, 2).reshape(2, 3, 2),
    "reshape -1": lambda lib: tree(lib).expand(6, 2).reshape(-1).shape,
    "reshape wrong": lambda lib: tree(lib).reshape(5),
    "flatten": lambda lib: tree(lib).expand(6, 2).flatten(0, 1),
    "unflatten": lambda lib: tree(lib).expand(6, 2).unflatten(0, (2, 3)),
    "squeeze": lambda lib: tree(lib).expand(1, 2).squeeze(),
    "squeeze 0": lambda lib: tree(lib).expand(1, 2).squeeze(0),
    "squeeze larger": lambda lib: tree(lib).squeeze(0).shape,
    "unsqueeze": lambda lib: tree(lib).unsqueeze(0),
    "unsqueeze -1": lambda lib: tree(lib).unsqueeze(-1),
    "unsqueeze too far": lambda lib: tree(lib).unsqueeze(3),
    "unbind": lambda lib: tree(lib).unbind(0),
    "unbind -1": lambda lib: tree(lib).unbind(-1),
    "unbind too far": lambda lib: tree(lib).unbind(1),
    "index past the batch": lambda lib: tree(lib)[0, 0],
    "index": lambda lib: tree(lib)[0],
    "index None": lambda lib: tree(lib)[None],
    "index slice": lambda lib: tree(lib)[1:],
    "index mask": lambda lib: tree(lib)[torch.tensor([True, False])],
    "index_select": lambda lib: torch.index_select(tree(lib), 0, torch.tensor([1, 0, 1])),
    "variable": lambda lib: lib.Composite(a=lib.Unbounded((-1, 3)), shape=(-1,)).is_in(
        TensorDict({"a": torch.zeros(5, 3)}, [5])
    ),
    "variable expand": lambda lib: (
        lib.Composite(a=lib.Unbounded((-1, 1, 2)), shape=(-1, 1, 2)).expand(-1, 4, 2).shape
    ),
    "variable expand in front": lambda lib: (
        lib.Composite(a=lib.Unbounded((-1, 1, 2)), shape=(-1, 1, 2)).expand(3, -1, 1, 2).shape
    ),
    "variable expand fixes": lambda lib: lib.Composite(a=lib.Unbounded((-1, 1, 2)), shape=(-1, 1, 2)).expand(
        3, 3, 1, 2
    ),
    "clone": lambda lib: (lambda spec: (spec.clone() == spec, spec.clone()["obs"] is spec["obs"]))(tree(lib)),
}


def locked(lib: Any, *args: Any) -> Any:
    spec = tree(lib)
    spec.lock_(*args)
    return spec


def graph(lib: Any) -> list[Any]:
    """Four levels, the first one locked with all below."""
    levels = [lib.Composite()]
    for name in ("level3", "level2", "level1"):
        levels.insert(0, lib.Composite({name: levels[0]}))
    levels[0].lock_(recurse=True)
    return levels


LOCKS: dict[str, Expression] = {
    "is_locked": lambda lib: [
        tree(lib).is_locked,
        tree(lib).locked,
        locked(lib).is_locked,
        locked(lib)["agents"].is_locked,
    ],
    "lock_ returns": lambda lib: (lambda spec: spec.lock_() is spec)(tree(lib)),
    "unlock_ returns": lambda lib: (lambda spec: spec.unlock_() is spec)(locked(lib)),
    "not recursive": lambda lib: (locked(lib, False).is_locked, locked(lib, False)["agents"].is_locked),
    "recursive": lambda lib: locked(lib, True)["agents", "deep"].is_locked,
    "set": lambda lib: locked(lib).set("new", lib.Unbounded((2,))),
    "set nested": lambda lib: locked(lib).set(("agents", "new"), lib.Unbounded((2,))),
    "set in a child": lambda lib: locked(lib)["agents"].set("new", lib.Unbounded((2,))),
    "update": lambda lib: locked(lib).update({"new": lib.Unbounded((2,))}),
    "shape": lambda lib: assigned(locked(lib), "shape", ()),
    "del": lambda lib: locked(lib).__delitem__("obs"),
    "pop": lambda lib: locked(lib).pop("obs"),
    "is_locked =": lambda lib: assigned(tree(lib), "is_locked", True).is_locked,
    "is_locked = False": lambda lib: assigned(locked(lib), "is_locked", False).is_locked,
    "child cannot unlock": lambda lib: (lambda levels: levels[3].unlock_())(graph(lib)),
    "child cannot unlock, not recursive": lambda lib: (lambda levels: levels[2].unlock_(recurse=False))(
        graph(lib)
    ),
    "root unlocks": lambda lib: [level.is_locked for level in unlocked(graph(lib))],
    "root unlocks itself only": lambda lib: [
        level.is_locked for level in unlocked(graph(lib), recurse=False)
    ],
    "shared child": lambda lib: (
        lambda levels: (lib.Composite(level2=levels[2]).lock_(), levels[0].unlock_())
    )(graph(lib)),
    "clone": lambda lib: (locked(lib).clone().is_locked, locked(lib).clone()["agents"].is_locked),
    "expand": lambda lib: locked(lib).expand(3, 2).is_locked,
    "to": lambda lib: locked(lib).to("cpu").is_locked,
    "index": lambda lib: locked(lib)[0].is_locked,
    "attribute": lambda lib: locked(lib).rand().shape,
}


def unlocked(levels: list[Any], **kwargs: Any) -> list[Any]:
    levels[0].unlock_(**kwargs)
    return levels


def named(lib: Any, names: Any = ("batch", "time"), shape: Any = (4, 1)) -> Any:
    return lib.Composite(
        {"obs": lib.Bounded(-1, 1, (*shape, 3)), "in": {"x": lib.Unbounded((*shape, 2))}},
        shape=shape,
        names=names,
    )


NAMES: dict[str, Expression] = {
    "names": lambda lib: named(lib).names,
    "no names": lambda lib: named(lib, None).names,
    "setter": lambda lib: assigned(named(lib, None), "names", ["a", "b"]).names,
    "setter None": lambda lib: assigned(named(lib), "names", None).names,
    "setter too many": lambda lib: assigned(named(lib), "names", ["a", "b", "c"]),
    "constructor too many": lambda lib: named(lib, ["a", "b", "c"]),
    "nested": lambda lib: named(lib)["in"].names,
    "deeper": lambda lib: (
        lib.Composite(o=lib.Composite(i=lib.Unbounded((4, 3, 2)), shape=(4, 3)), shape=(4,), names=["batch"])[
            "o"
        ].names
    ),
    "refine": lambda lib: named(lib, None).refine_names(None, "time").names,
    "refine is new": lambda lib: (lambda spec: spec.refine_names("a", "b") is spec)(named(lib, None)),
    "refine ...": lambda lib: named(lib, ["batch", None]).refine_names("batch", ...).names,
    "refine another": lambda lib: named(lib).refine_names("batch", "other"),
    "expand": lambda lib: named(lib).expand(5, 4, 1).names,
    "squeeze": lambda lib: named(lib).squeeze(1).names,
    "squeeze all": lambda lib: named(lib, ["a", "b"], (1, 1)).squeeze().names,
    "unsqueeze": lambda lib: named(lib).unsqueeze(1).names,
    "unbind": lambda lib: named(lib).unbind(0)[0].names,
    "clone": lambda lib: named(lib).clone().names,
    "to": lambda lib: named(lib).to("cpu").names,
    "to dtype": lambda lib: named(lib).to(torch.float64).names,
    "index": lambda lib: named(lib)[0].names,
    "index slice": lambda lib: named(lib)[0:2].names,
    "index None": lambda lib: named(lib)[None].names,
    "reshape": lambda lib: named(lib).reshape(2, 2, 1).names,
    "stack": lambda lib: stack([named(lib), named(lib)]).names,
    "equality": lambda lib: named(lib) == named(lib, None),
    "empty": lambda lib: lib.Composite({}, shape=(3,), names=["batch"]).names,
    "repr": lambda lib: "Composite" in repr(named(lib)),
    "zero": lambda lib: named(lib).zero().names,
    "rand in front": lambda lib: named(lib).rand((2,)).names,
    "encode": lambda lib: named(lib).encode({"obs": np.zeros((4, 1, 3))}).names,
}

CASES: dict[str, Expression] = {
    f"{group}: {name}": expression
    for group, table in {"batch": BATCH, "lock": LOCKS, "names": NAMES}.items()
    for name, expression in table.items()
}

LOCKED = Differs("it is locked", RuntimeError)
NAMED = "the names of the dimensions stay"
DIFFERENCES: dict[str, Differs] = {
    "batch: device =": Differs("the device is set"),
    "batch: reshape -1": Differs("the size is found", torch.Size([12])),
    "lock: del": LOCKED,
    "lock: pop": LOCKED,
    "names: index None": Differs(NAMED, [None, "batch", "time"]),
    "names: rand in front": Differs(NAMED, [None, "batch", "time"]),
    "names: encode": Differs(NAMED, ["batch", "time"]),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
