"""Choices and non-tensor specs: the same as TorchRL's."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tensordict import NonTensorData, NonTensorStack

from tests.specs.peer import Differs, Expression, compare, stack

pytestmark = pytest.mark.peers


NON_TENSORS: dict[str, Expression] = {
    **{
        f"{method}": partial(
            lambda lib, method: getattr(lib.NonTensor((3, 4), example_data="x"), method)((2,)).shape,
            method=method,
        )
        for method in ("rand", "zero", "one", "sample", "zeros", "ones")
    },
    "data": lambda lib: lib.NonTensor((3, 4), example_data="x").zero((2,)).data,
    "kind": lambda lib: type(lib.NonTensor((3,), example_data="x").zero()).__name__,
    "feature_dims": lambda lib: (
        type(lib.NonTensor((3, 4), example_data="x", feature_dims=1).zeros()).__name__
    ),
    "feature_dims part": lambda lib: (
        type(lib.NonTensor((3, 4), example_data="x", feature_dims=1).zeros()[0]).__name__
    ),
    "int in front": lambda lib: lib.NonTensor((3,), example_data="x").zeros(2).shape,
    "is_in": lambda lib: [
        bool(lib.NonTensor((1,)).is_in(value))
        for value in (
            NonTensorData("a", batch_size=[1]),
            NonTensorData("a"),
            NonTensorStack("a"),
            torch.zeros(1),
            "text",
        )
    ],
    "is_in a batch": lambda lib: bool(lib.NonTensor((2,)).is_in(NonTensorData("a", batch_size=[3, 2]))),
    "project": lambda lib: lib.NonTensor((1,)).project(NonTensorData("a", batch_size=[1])),
    "encode": lambda lib: lib.NonTensor((1,)).encode("text"),
    "encode in a composite": lambda lib: (
        lib.Composite(a=lib.NonTensor((1,)), device="cpu").encode({"a": "text"}).get("a")
    ),
    "encode data": lambda lib: lib.NonTensor((1,)).encode(NonTensorData("a", batch_size=[1])),
    "to_numpy": lambda lib: lib.NonTensor((1,)).to_numpy(NonTensorData("a", batch_size=[1])),
    "to_numpy of a stack": lambda lib: lib.NonTensor((2,)).to_numpy(NonTensorStack("a", "b")),
    "cardinality": lambda lib: lib.NonTensor((1,)).cardinality(),
    "enumerate": lambda lib: lib.NonTensor((1,)).enumerate(),
    "index": lambda lib: lib.NonTensor((1,)).index(0, torch.zeros(1)),
    "expand": lambda lib: (
        lib.NonTensor((3, 4), example_data="x").expand(2, 3, 4) == lib.NonTensor((2, 3, 4), example_data="x")
    ),
    "clone": lambda lib: (
        lambda spec: (spec.clone() == spec, spec.clone() is spec, spec.clone().example_data)
    )(lib.NonTensor((3,), example_data="x")),
    "unbind": lambda lib: (lambda spec: (spec.unbind(1)[0] == spec[:, 0], spec.unbind(1)[0].example_data))(
        lib.NonTensor((3, 4), example_data="x")
    ),
    "stack": lambda lib: stack([lib.NonTensor((3,), example_data="x")] * 2, 1),
    "stack others": lambda lib: (
        stack([lib.NonTensor((3,), example_data="x"), lib.NonTensor((3,), example_data="y")], 0).shape
    ),
    "to": lambda lib: lib.NonTensor((3,), example_data="x").to("cpu").device,
    "to dtype": lambda lib: lib.NonTensor((3,)).to(torch.float32).shape,
    "takes the device": lambda lib: lib.Composite(a=lib.NonTensor((1,)), device="cpu")["a"].device,
    "in a composite": lambda lib: lib.Composite(a=lib.NonTensor((1,), example_data="x")).zero().get("a"),
    "type_check": lambda lib: lib.NonTensor((1,)).type_check(NonTensorData("a")),
    "clear_device_": lambda lib: lib.NonTensor((1,), device="cpu").clear_device_().device,
    "squeeze": lambda lib: lib.NonTensor((1, 3)).squeeze().shape,
}


def choice(lib: Any, kind: str = "bounds") -> Any:
    return lib.Choice(
        {
            "bounds": [lib.Bounded(0, 2.5, ()), lib.Bounded(10, 12, ())],
            "classes": [lib.Categorical(10), lib.Categorical(20)],
            "data": [NonTensorData("a"), NonTensorData("b"), NonTensorData("c")],
            "stacks": [NonTensorStack("a", "b"), NonTensorStack("c", "d")],
            "composites": [lib.Composite(a=lib.Categorical(2)), lib.Composite(a=lib.Categorical(3))],
        }[kind]
    )


KINDS = ("bounds", "classes", "data", "stacks", "composites")
CHOICES: dict[str, Expression] = {
    **{
        f"{kind}: rand is in": partial(
            lambda lib, kind: bool(choice(lib, kind).is_in(choice(lib, kind).rand())), kind=kind
        )
        for kind in KINDS
    },
    **{
        f"{kind}: cardinality": partial(lambda lib, kind: choice(lib, kind).cardinality(), kind=kind)
        for kind in KINDS
    },
    **{
        f"{kind}: enumerate": partial(lambda lib, kind: choice(lib, kind).enumerate(), kind=kind)
        for kind in KINDS
    },
    **{
        f"{kind}: fields": partial(
            lambda lib, kind: (
                choice(lib, kind).shape,
                choice(lib, kind).device,
                choice(lib, kind).num_choices,
            ),
            kind=kind,
        )
        for kind in KINDS
    },
    **{
        f"{kind}: expand": partial(
            lambda lib, kind: choice(lib, kind).expand([3, *choice(lib, kind).shape]).shape, kind=kind
        )
        for kind in KINDS
    },
    **{
        f"{kind}: clone": partial(
            lambda lib, kind: (lambda spec: (spec.clone() == spec, spec.clone() is spec))(choice(lib, kind)),
            kind=kind,
        )
        for kind in KINDS
    },
    **{
        f"{kind}: to": partial(lambda lib, kind: choice(lib, kind).to("cpu").device, kind=kind)
        for kind in KINDS
    },
    **{
        f"{kind}: stack": partial(
            lambda lib, kind: stack([choice(lib, kind), choice(lib, kind)], 0), kind=kind
        )
        for kind in KINDS
    },
    **{f"{kind}: zero": partial(lambda lib, kind: choice(lib, kind).zero(), kind=kind) for kind in KINDS},
    **{
        f"{kind}: in front": partial(lambda lib, kind: choice(lib, kind).rand((3,)).shape, kind=kind)
        for kind in KINDS
    },
    "is_in": lambda lib: [
        bool(choice(lib).is_in(torch.tensor(value))) for value in (11.0, 9.0, 0.0, 2.5, 12.5)
    ],
    "is_in data": lambda lib: [bool(choice(lib, "data").is_in(NonTensorData(text))) for text in ("b", "x")],
    "is_in stacks": lambda lib: [
        bool(choice(lib, "stacks").is_in(NonTensorStack(*texts))) for texts in ("ab", "ba", "cd")
    ],
    "project": lambda lib: choice(lib).project(torch.tensor(11.0)),
    "project outside": lambda lib: choice(lib).project(torch.tensor(9.0)),
    "encode": lambda lib: choice(lib).encode(11.0),
    "equality": lambda lib: [choice(lib) == other for other in (choice(lib), choice(lib, "classes"), 3)],
    "unsqueeze": lambda lib: choice(lib).unsqueeze(0).shape,
    "squeeze": lambda lib: choice(lib).unsqueeze(0).squeeze(0).shape,
    "index": lambda lib: choice(lib).expand(3)[0],
    "spec index": lambda lib: choice(lib).index(0, torch.zeros(3)),
    "in a composite": lambda lib: lib.Composite(a=choice(lib)).rand()["a"].shape,
    "type_check": lambda lib: choice(lib).type_check(torch.tensor(1.0)),
}

CASES: dict[str, Expression] = {
    f"{group}: {name}": expression
    for group, table in {"non-tensor": NON_TENSORS, "choice": CHOICES}.items()
    for name, expression in table.items()
}

WORKS = Differs("works")
DATA = "plain Python data, as `encode` takes them"
MEMBERS = Differs("all members, stacked in front")
DIFFERENCES: dict[str, Differs] = {
    "non-tensor: to_numpy": Differs(DATA, "a"),
    "non-tensor: to_numpy of a stack": Differs(DATA, ["a", "b"]),
    **{f"choice: {kind}: enumerate": MEMBERS for kind in ("classes", "data", "stacks", "composites")},
    "choice: data: in front": WORKS,
    "choice: stacks: in front": WORKS,
    "choice: project outside": Differs("into the nearest choice", torch.tensor(10.0)),
    "choice: index": WORKS,
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
