"""Stacks of specs, and what a `Stacked` of leaves can do: the same as TorchRL's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.specs.peer import Differs, Expression, compare, stack

pytestmark = pytest.mark.peers


def bounds(lib: Any, dim: int = 0) -> Any:
    return stack([lib.Bounded(0, 1, (2,)), lib.Bounded(0, 2, (2,))], dim)


def sizes(lib: Any, dim: int = 0) -> Any:
    return stack([lib.Unbounded((2, 3)), lib.Unbounded((2, 4))], dim)


def classes(lib: Any) -> Any:
    return stack([lib.OneHot(3), lib.OneHot(5)], 0)


def parts(lib: Any) -> list[Any]:
    """Two composites with other keys."""
    return [
        lib.Composite(a=lib.Unbounded((1, 3)), shape=(1, 3)),
        lib.Composite(a=lib.Unbounded((1, 3)), b=lib.UnboundedDiscrete((1, 3)), shape=(1, 3)),
    ]


def pair(lib: Any, dim: int = 0) -> Any:
    return stack(parts(lib), dim)


STACK: dict[str, Expression] = {
    "equal": lambda lib: stack([lib.Unbounded((2,)), lib.Unbounded((2,))], 1),
    "equal negative dim": lambda lib: stack([lib.Unbounded((2,)), lib.Unbounded((2,))], -1),
    "equal one hot last": lambda lib: stack([lib.OneHot(3), lib.OneHot(3)], -1),
    "equal masked": lambda lib: stack([lib.Categorical(2, mask=torch.tensor([True, False]))] * 2, 0),
    "equal composites": lambda lib: stack([lib.Composite(a=lib.Unbounded())] * 2, 0),
    "equal nested": lambda lib: stack([lib.Composite({("a", "b"): lib.Binary(3)})] * 3, 0),
    "other bounds": bounds,
    "other sizes": sizes,
    "other sizes dim 2": lambda lib: sizes(lib, 2),
    "other classes": classes,
    "other n": lambda lib: stack([lib.Categorical(3), lib.Categorical(4)], 0),
    "other masks": lambda lib: (
        type(stack([lib.Categorical(2, mask=torch.tensor([True, False])), lib.Categorical(2)], 0)).__name__
    ),
    "other keys": pair,
    "other entries": lambda lib: stack(
        [lib.Composite(a=lib.Bounded(0, 1, (2,))), lib.Composite(a=lib.Bounded(0, 2, (2,)))], 0
    ),
    "dtypes differ": lambda lib: stack([lib.Unbounded(), lib.Unbounded(dtype=torch.float64)], 0),
    "kinds differ": lambda lib: stack([lib.Unbounded(), lib.Bounded(0, 1, (1,))], 0),
    "dims differ": lambda lib: stack([lib.Unbounded((2,)), lib.Unbounded((2, 3))], 0),
    "devices differ": lambda lib: stack([lib.Unbounded(), lib.Unbounded(device="meta")], 0),
    "a leaf and a composite": lambda lib: stack([lib.Unbounded(), lib.Composite()], 0),
    "a spec and a tensor": lambda lib: stack([lib.Unbounded(), torch.zeros(1)], 0),
    "nothing": lambda lib: stack([], 0),
    "dim too far": lambda lib: stack([lib.Unbounded(), lib.Unbounded()], 3),
    "dim too far, other": lambda lib: stack([lib.Bounded(0, 1, (1,)), lib.Bounded(0, 2, (1,))], 3),
    "keyword": lambda lib: stack([lib.Unbounded(), lib.Unbounded()], dim=0),
    "tuple": lambda lib: stack((lib.Unbounded(), lib.Unbounded())),
    "batch shapes differ": lambda lib: stack([lib.Composite(shape=(2,)), lib.Composite(shape=(3,))], 0).shape,
}
LEAVES: dict[str, Expression] = {
    "shape": lambda lib: (
        bounds(lib).shape,
        bounds(lib).ndim,
        sizes(lib).shape,
        sizes(lib, 1).shape,
        classes(lib).shape,
    ),
    "device": lambda lib: bounds(lib).device,
    "dim": lambda lib: (bounds(lib).dim, bounds(lib).stack_dim, sizes(lib, -1).dim),
    "len": lambda lib: len(bounds(lib)),
    "iteration": lambda lib: [part.shape for part in bounds(lib)],
    "domain": lambda lib: bounds(lib).domain,
    "zero": lambda lib: bounds(lib).zero((3,)),
    "one": lambda lib: bounds(lib).one(),
    "zero of sizes": lambda lib: sizes(lib).zero().shape,
    "zero of sizes dim 1": lambda lib: type(sizes(lib, 1).zero()).__name__,
    "rand": lambda lib: (bounds(lib).rand().shape, bounds(lib).rand((4,)).shape, sizes(lib).rand()[1].shape),
    "rand of sizes in front": lambda lib: sizes(lib).rand((5,))[:, 0].shape,
    "rand is in": lambda lib: [
        bool(spec.is_in(spec.rand())) for spec in (bounds(lib), sizes(lib), classes(lib))
    ],
    "is_in": lambda lib: [
        bool(bounds(lib).is_in(torch.tensor(value))) for value in ([[0.5, 1], [2, 2]], [[2.0, 0], [0, 0]])
    ],
    "is_in of sizes": lambda lib: bool(sizes(lib).is_in(torch.zeros(2, 2, 3))),
    "project": lambda lib: bounds(lib).project(torch.full((2, 2), 9.0)),
    "project a member": lambda lib: bounds(lib).project(torch.zeros(2, 2)),
    "encode": lambda lib: bounds(lib).encode([[0, 1], [2, 2]]),
    "encode a tensor": lambda lib: bounds(lib).encode(torch.zeros(2, 2)),
    "to_numpy": lambda lib: bounds(lib).to_numpy(torch.tensor([[0.0, 1], [2, 2]])),
    "to_numpy safe": lambda lib: bounds(lib).to_numpy(torch.full((2, 2), 9.0), safe=True),
    "type_check": lambda lib: bounds(lib).type_check(torch.zeros(2, 2)),
    "type_check wrong": lambda lib: bounds(lib).type_check(torch.zeros(2, 2, dtype=torch.int64)),
    "index int": lambda lib: bounds(lib)[1],
    "index identity": lambda lib: (lambda spec: stack([spec, lib.Bounded(0, 2, (1,))])[0] is spec)(
        lib.Bounded(0, 1, (1,))
    ),
    "index negative": lambda lib: bounds(lib)[-1],
    "index too far": lambda lib: bounds(lib)[2],
    "index slice": lambda lib: bounds(lib)[:],
    "index slice of one": lambda lib: bounds(lib)[:1],
    "index ...": lambda lib: bounds(lib)[..., 0],
    "index a part": lambda lib: bounds(lib)[0, 1],
    "index parts": lambda lib: bounds(lib)[:, 1],
    "index along another dim": lambda lib: sizes(lib, 1)[0],
    "index the stack dim": lambda lib: sizes(lib, 1)[:, 1],
    "index list": lambda lib: bounds(lib)[[0, 1]],
    "index tensor": lambda lib: bounds(lib)[torch.tensor([1, 0])],
    "index None": lambda lib: bounds(lib)[None],
    "unbind": lambda lib: bounds(lib).unbind(0),
    "unbind other": lambda lib: sizes(lib).unbind(1),
    "unbind default": lambda lib: bounds(lib).unbind(),
    "expand": lambda lib: bounds(lib).expand(4, 2, 2),
    "expand wrong": lambda lib: bounds(lib).expand(4, 3, 2),
    "expand sizes": lambda lib: sizes(lib, 1).expand(5, 2, 2, -1).shape,
    "unsqueeze": lambda lib: [bounds(lib).unsqueeze(dim) for dim in (0, 1, 2, -1, -3)],
    "unsqueeze too far": lambda lib: bounds(lib).unsqueeze(3),
    "squeeze": lambda lib: bounds(lib).unsqueeze(0).squeeze(0),
    "squeeze the stack dim": lambda lib: bounds(lib).squeeze(0),
    "squeeze all": lambda lib: bounds(lib).unsqueeze(1).squeeze(),
    "reshape": lambda lib: bounds(lib).reshape(4),
    "reshape same": lambda lib: bounds(lib).reshape(2, 2),
    "flatten": lambda lib: bounds(lib).flatten(0, 1),
    "to": lambda lib: bounds(lib).to(torch.float64),
    "to device": lambda lib: bounds(lib).to("cpu"),
    "clone": lambda lib: (lambda spec: (spec.clone() == spec, spec.clone()[0] is spec[0]))(bounds(lib)),
    "equality": lambda lib: [
        bool(bounds(lib) == other) for other in (bounds(lib), sizes(lib), classes(lib), lib.Unbounded())
    ],
    "cardinality": lambda lib: classes(lib).cardinality(),
    "enumerate": lambda lib: stack([lib.Categorical(2), lib.Categorical(3)]).enumerate(),
    "index_select": lambda lib: torch.index_select(bounds(lib), 0, torch.tensor([0])),
    "torch.stack": lambda lib: stack([bounds(lib), bounds(lib)], 0).shape,
    "space": lambda lib: type(bounds(lib).space).__name__,
    "make_neg_dim": lambda lib: bounds(lib).make_neg_dim(1),
    "clear_device_": lambda lib: bounds(lib).clear_device_().device,
    "isinstance": lambda lib: [
        isinstance(bounds(lib), kind) for kind in (lib.TensorSpec, lib.Stacked, lib.Bounded, lib.Composite)
    ],
    "update_mask": lambda lib: classes(lib)[0].mask,
}
CASES: dict[str, Expression] = {
    f"{group}: {name}": expression
    for group, table in {"stack": STACK, "stacked": LEAVES}.items()
    for name, expression in table.items()
}

WORKS = Differs("works")
INDEXED = Differs("every dimension can be indexed, as that of a tensor")
EXPANDED = Differs("as for every spec", ValueError)
QUESTION = Differs("membership is a question: it has an answer for every value", False)
DIFFERENCES: dict[str, Differs] = {
    "stack: equal masked": Differs("the mask is kept"),
    "stacked: domain": Differs("that of the stacked specs", "continuous"),
    **{f"stacked: {name}": WORKS for name in ("zero", "one", "rand", "project", "encode", "encode a tensor")},
    "stacked: is_in of sizes": QUESTION,
    **{
        f"stacked: index {name}": INDEXED
        for name in ("...", "a part", "parts", "along another dim", "list", "tensor", "None")
    },
    **{
        f"stacked: {name}": WORKS
        for name in ("unbind other", "reshape", "reshape same", "flatten", "cardinality", "enumerate")
    },
    "stacked: index_select": WORKS,
    "stacked: space": WORKS,
    "stacked: expand wrong": EXPANDED,
    "stacked: make_neg_dim": Differs("a new spec"),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
