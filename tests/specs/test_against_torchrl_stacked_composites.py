"""Composites with other keys or entries, stacked: the same as TorchRL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensordict import LazyStackedTensorDict, TensorDict

from tests.specs.peer import Differs, Expression, compare, stack

pytestmark = pytest.mark.peers


def parts(lib: Any) -> list[Any]:
    """Two composites with other keys."""
    return [
        lib.Composite(a=lib.Unbounded((1, 3)), shape=(1, 3)),
        lib.Composite(a=lib.Unbounded((1, 3)), b=lib.UnboundedDiscrete((1, 3)), shape=(1, 3)),
    ]


def pair(lib: Any, dim: int = 0) -> Any:
    return stack(parts(lib), dim)


def agents(lib: Any, batch: tuple[int, ...] = (), dim: int = 0) -> Any:
    """Three composites that share "shared" and "hetero", the latter with other sizes."""
    shared, lidar = lib.Bounded(0, 1, (*batch, 4, 3)), lib.Bounded(0, 5, (*batch, 6))
    specs = [
        lib.Composite(
            {
                "shared": shared,
                "lidar": lidar,
                "hetero": lib.Unbounded((*batch, 3)),
                "first": lib.Composite(x=lib.Unbounded((*batch, 3, 1)), shape=(*batch, 3)),
            },
            shape=batch,
        ),
        lib.Composite(
            {
                "shared": shared,
                "lidar": lidar,
                "hetero": lib.Unbounded((*batch, 2)),
                "second": lib.Composite(x=lib.Bounded(0, 3, (*batch, 3, 1, 2)), shape=(*batch, 3)),
            },
            shape=batch,
        ),
        lib.Composite({"shared": shared, "hetero": lib.Unbounded((*batch, 2))}, shape=batch),
    ]
    return stack(specs, dim)


def changed(spec: Any, *path: Any, key: Any = "shared", by: float = 1) -> Any:
    """A draw with one entry moved."""
    value = spec.rand()
    part = value
    for step in path:
        part = part[step]
    part[key] += by
    return bool(spec.is_in(value))


def without(value: Any, key: Any) -> Any:
    del value[key]
    return value


COMPOSITES: dict[str, Expression] = {
    "shape": lambda lib: [pair(lib, dim).shape for dim in (0, 1, 2, -1, -2, -3)],
    "dim": lambda lib: [pair(lib, dim).dim for dim in (0, 1, 2, -1)],
    "device": lambda lib: (pair(lib).device, agents(lib).to("cpu").device),
    "isinstance": lambda lib: [
        isinstance(pair(lib), kind) for kind in (lib.Composite, lib.StackedComposite, lib.Stacked)
    ],
    "len": lambda lib: [len(agents(lib, batch)) for batch in ((), (4,))],
    "keys": lambda lib: [sorted(agents(lib).keys()), sorted(map(str, agents(lib).keys(True, True)))],
    "values": lambda lib: sorted(type(spec).__name__ for spec in agents(lib).values()),
    "items": lambda lib: sorted(key for key, _ in agents(lib).items()),
    "entry": lambda lib: (agents(lib)["shared"], agents(lib)["hetero"]),
    "exclusive entry": lambda lib: agents(lib)["lidar"],
    "missing entry": lambda lib: agents(lib)["nope"],
    "get default": lambda lib: agents(lib).get("nope", None),
    "in": lambda lib: ["shared" in agents(lib).keys(), "lidar" in agents(lib).keys()],  # noqa: SIM118
    "index": lambda lib: [
        (lambda made, spec: spec[index] is made[place])(made := parts(lib), stack(made, 0))
        for index, place in ((0, 0), (1, 1), (-1, 1), ((0, ...), 0))
    ],
    "index ... of the last dim": lambda lib: pair(lib, 2)[..., 1],
    "index ... of another dim": lambda lib: pair(lib, 0)[..., 0],
    "index before the dim": lambda lib: pair(lib, 1)[0],
    "index at the dim": lambda lib: pair(lib, 1)[:, 0],
    "index slices": lambda lib: [
        type(pair(lib)[index]).__name__ for index in (slice(None), slice(0, 2), (slice(None), slice(None)))
    ],
    "index a slice of one": lambda lib: type(pair(lib)[:1]).__name__,
    "index too far": lambda lib: pair(lib)[2],
    "zero": lambda lib: [
        (type(value).__name__, value.shape, value["a"].shape)
        for value in (pair(lib, dim).zero() for dim in (0, 1, 2, -1))
    ],
    "zero in front": lambda lib: [
        (value.shape, value["a"].shape) for value in (pair(lib, dim).zero([5, 6]) for dim in (0, 1, 2, -3))
    ],
    "one": lambda lib: (pair(lib).one()["a"] == 1).all().item(),
    "rand": lambda lib: [
        (isinstance(value, LazyStackedTensorDict), value.shape)
        for value in (pair(lib, dim).rand((2,)) for dim in (0, 1, -1))
    ],
    "rand is in": lambda lib: [
        bool(agents(lib, batch).is_in(agents(lib, batch).rand())) for batch in ((), (4,), (4, 2))
    ],
    "rand is in, further dims": lambda lib: bool(pair(lib).is_in(pair(lib).rand((5,)))),
    "is_in outside": lambda lib: changed(agents(lib)),
    "is_in outside, exclusive": lambda lib: changed(agents(lib), 1, key=("second", "x"), by=4),
    "is_in inside, exclusive": lambda lib: changed(agents(lib), 0, key=("first", "x")),
    "is_in without a shared key": lambda lib: bool(agents(lib).is_in(without(agents(lib).rand(), "shared"))),
    "is_in without an exclusive key": lambda lib: bool(
        agents(lib).is_in(without(agents(lib).rand(), ("second", "x")))
    ),
    "project": lambda lib: (
        lambda spec, value: (value["shared"].add_(5), bool(spec.is_in(spec.project(value))))
    )(agents(lib), agents(lib).rand())[1],
    "encode": lambda lib: agents(lib).encode({"shared": torch.zeros(3, 4, 3).numpy()}).shape,
    "to_numpy": lambda lib: sorted(agents(lib).to_numpy(agents(lib).rand())),
    "to_numpy safe": lambda lib: stack(
        [
            lib.Composite(a=lib.Bounded(-1, 1, (3,)), shape=()),
            lib.Composite(a=lib.Bounded(-1, 1, (3,)), b=lib.Unbounded(), shape=()),
        ]
    ).to_numpy(TensorDict({"a": torch.full((2, 3), 9.0)}, [2]), safe=True),
    "type_check": lambda lib: (
        lambda value: (agents(lib).type_check(value), agents(lib).type_check(value["shared"], "shared"))
    )(agents(lib).rand()),
    "del": lambda lib: (
        lambda spec: (spec.__delitem__("shared"), sorted(spec.keys()), sorted(spec[0].keys()))
    )(agents(lib))[1:],
    "del exclusive": lambda lib: (lambda spec: (spec.__delitem__("lidar"), sorted(spec[0].keys())))(
        agents(lib)
    )[1:],
    "del nested": lambda lib: (
        lambda spec: (spec.__delitem__(("second", "x")), list(spec[1]["second"].keys()))
    )(agents(lib))[1:],
    "del missing": lambda lib: agents(lib).__delitem__("x"),
    "set": lambda lib: (lambda spec, new: (spec.__setitem__("new", new), spec["new"] == new))(
        agents(lib, (2,)), stack([lib.Unbounded((2, size)) for size in range(1, 4)], 0)
    )[1],
    "set along dim 1": lambda lib: (lambda spec, new: (spec.__setitem__("new", new), spec["new"] == new))(
        agents(lib, (2,), 1), stack([lib.Unbounded((2, size)) for size in range(1, 4)], 1)
    )[1],
    "set nested": lambda lib: (
        lambda spec, new: (spec.__setitem__(("other", "key"), new), type(spec["other"]).__name__)
    )(agents(lib, (2,)), stack([lib.Unbounded((2, size)) for size in range(1, 4)], 0))[1],
    "set a composite": lambda lib: (lambda spec, new: (spec.__setitem__("comp", new), spec["comp"] == new))(
        agents(lib), stack([lib.Composite(a=lib.Unbounded((size,))) for size in range(1, 4)], 0)
    )[1],
    "set int": lambda lib: agents(lib).__setitem__(0, lib.Unbounded()),
    "update": lambda lib: (lambda spec, new: (spec.update({"new": new}), spec["new"] == new))(
        agents(lib), stack([lib.Unbounded((size,)) for size in range(1, 4)], 0)
    )[1],
    "update by a stack": lambda lib: (lambda spec: (spec.update(agents(lib)), spec == agents(lib)))(
        agents(lib)
    )[1],
    "expand": lambda lib: [
        (lambda spec: (spec.shape, spec.dim))(pair(lib, dim).expand(4, *pair(lib, dim).shape))
        for dim in (0, 1, 2)
    ],
    "expand wrong": lambda lib: pair(lib).expand(4, 3, 1, 3),
    "unsqueeze": lambda lib: [pair(lib, 1).unsqueeze(dim).shape for dim in range(-2, 3)],
    "squeeze": lambda lib: [pair(lib, 1).unsqueeze(dim).squeeze(dim) == pair(lib, 1) for dim in range(-2, 3)],
    "squeeze all": lambda lib: pair(lib, 1).squeeze().shape,
    "unbind": lambda lib: [type(part).__name__ for part in pair(lib).unbind(0)],
    "unbind other": lambda lib: [part.shape for part in pair(lib).unbind(2)],
    "reshape": lambda lib: pair(lib).reshape(2, 3).shape,
    "clone": lambda lib: (lambda spec: (spec.clone() == spec, spec.clone()[0] is spec[0]))(pair(lib)),
    "to": lambda lib: pair(lib).to("cpu").device,
    "equality": lambda lib: [
        bool(pair(lib, 0) == other) for other in (pair(lib, 0), pair(lib, 1), agents(lib), lib.Composite())
    ],
    "equality after del": lambda lib: (lambda spec: (spec[0].__delitem__("lidar"), spec == agents(lib)))(
        agents(lib)
    )[1],
    "empty": lambda lib: (type(agents(lib).empty()).__name__, len(list(agents(lib).empty().keys()))),
    "is_empty": lambda lib: (agents(lib).is_empty(), agents(lib).empty().is_empty()),
    "cardinality": lambda lib: stack(
        [lib.Composite(a=lib.Categorical(2)), lib.Composite(a=lib.Categorical(3))]
    ).cardinality(),
    "lock_": lambda lib: (lambda spec: (spec.lock_(), spec.is_locked, spec[0].is_locked))(agents(lib))[1:],
    "lock_, then set": lambda lib: (
        lambda spec: (spec.lock_(), spec.__setitem__("new", lib.Unbounded((3, 1))))
    )(agents(lib)),
    "repr": lambda lib: (
        repr(agents(lib)).startswith("StackedComposite(") and "exclusive" in repr(agents(lib))
    ),
    "clear_device_": lambda lib: agents(lib).to("cpu").clear_device_().device,
    "index_select": lambda lib: torch.index_select(pair(lib), 0, torch.tensor([0])),
    "pop": lambda lib: agents(lib).pop("shared").shape,
    "separates": lambda lib: sorted(agents(lib).separates("shared").keys()),
}
CASES: dict[str, Expression] = {
    f"{group}: {name}": expression
    for group, table in {"composites": COMPOSITES}.items()
    for name, expression in table.items()
}

WORKS = Differs("works")
INDEXED = Differs("every dimension can be indexed, as that of a tensor")
EXPANDED = Differs("as for every spec", ValueError)
QUESTION = Differs("membership is a question: it has an answer for every value", False)
DIFFERENCES: dict[str, Differs] = {
    "composites: index ... of another dim": INDEXED,
    "composites: index before the dim": INDEXED,
    "composites: rand is in, further dims": Differs("a draw is a member", True),
    "composites: is_in without a shared key": QUESTION,
    "composites: is_in without an exclusive key": QUESTION,
    "composites: set int": Differs("an integer is no key", TypeError),
    "composites: expand wrong": EXPANDED,
    **{
        f"composites: {name}": WORKS
        for name in (
            "encode",
            "to_numpy",
            "unbind other",
            "reshape",
            "empty",
            "is_empty",
            "cardinality",
            "separates",
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
