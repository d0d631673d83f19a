"""Data from and to outside, one-hot vectors and class indices, masks: the same as TorchRL's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.specs.peer import Differs, Expression, compare, told
from tests.specs.value_samples import (
    BINARY,
    BOUNDED,
    BOUNDED_INT,
    CATEGORICAL,
    CATEGORICAL_ROW,
    MASK,
    MULTI,
    MULTI_ONE_HOT,
    ONE_HOT,
    ONE_HOT_ROW,
    UNBOUNDED,
    VARIABLE,
    bits,
    f32,
    i64,
    int8,
)

pytestmark = pytest.mark.peers

ENCODED: dict[str, tuple[Expression, dict[str, Any]]] = {
    "bounded": (
        BOUNDED,
        {
            "list": [0, 1],
            "tuple": (0.5, 1.5),
            "float64 array": np.array([0.5, 1]),
            "int array": np.array([0, 1]),
            "tensor": f32(0, 1),
            "outside": [5, 5],
            "number": 1.0,
            "matrix": [[0, 1]],
            "column": [[0], [1]],
            "too long": [0, 1, 2],
            "float64 tensor": f32(0, 1).double(),
            "batch tensor": torch.zeros(3, 2),
            "text": "x",
            "None": None,
            "list of arrays": [np.float32(0), np.float32(1)],
            "uint8 array": np.array([0, 1], np.uint8),
        },
    ),
    "bounded int": (
        BOUNDED_INT,
        {"list": [0, 1], "fractions": [0.5, 1.5], "float array": np.array([0.0, 1.0])},
    ),
    "unbounded": (
        UNBOUNDED,
        {"list": [0, 1], "batch array": np.zeros((3, 2)), "scalar array": np.array(1.0)},
    ),
    "unbounded of one": (
        lambda lib: lib.Unbounded((1,)),
        {
            "number": 3.5,
            "array": np.array([3.5]),
            "0-d": np.float64(3.5),
            "bool": True,
            "list": [3.5],
            "matrix": [[3.5]],
        },
    ),
    "categorical": (
        CATEGORICAL,
        {
            "number": 3,
            "numpy number": np.int64(3),
            "0-d array": np.array(3),
            "int32": np.int32(2),
            "list": [3],
            "array of one": np.array([3]),
            "tensor": torch.tensor(3),
            "tensor of one": torch.tensor([3]),
            "batch tensor": i64(0, 1, 2),
            "beyond": 9,
            "fraction": 2.7,
        },
    ),
    "categorical row": (CATEGORICAL_ROW, {"list": [0, 1, 2], "array": np.array([0, 1, 2]), "number": 1}),
    "one hot": (
        ONE_HOT,
        {
            "number": 2,
            "numpy number": np.int64(2),
            "0-d array": np.array(2),
            "array of one": np.array([2]),
            "list": [2],
            "tensor of one": torch.tensor([2]),
            "0-d tensor": torch.tensor(2),
            "beyond": 9,
            "one hot list": [0, 0, 1, 0],
            "one hot array": np.array([0, 0, 1, 0]),
            "one hot tensor": bits(0, 0, 1, 0),
            "batch": i64(0, 1, 2),
        },
    ),
    "one hot row": (
        ONE_HOT_ROW,
        {"list": [0, 2], "array": np.array([0, 2]), "tensor": i64(0, 2), "column": np.array([[0], [2]])},
    ),
    "multi": (MULTI, {"list": [2, 1], "array": np.array([2, 1]), "tensor": i64(2, 1), "too long": [0, 0, 0]}),
    "multi one hot": (
        MULTI_ONE_HOT,
        {
            "list": [2, 1],
            "array": np.array([2, 1]),
            "tensor": i64(2, 1),
            "beyond": [3, 1],
            "tuple": (2, 1),
            "too long": [0, 0, 0],
            "batch tensor": i64(2, 1).expand(3, 2),
        },
    ),
    "binary": (
        BINARY,
        {
            "list": [0, 1, 1],
            "array": np.array([0, 1, 1]),
            "bools": np.array([False, True, True]),
            "beyond": [0, 2, 1],
        },
    ),
    "variable": (
        VARIABLE,
        {"three rows": np.zeros((3, 2)), "no rows": np.zeros((0, 2)), "wrong": np.zeros((3, 3))},
    ),
    "nontensor": (lambda lib: lib.NonTensor((1,)), {"text": "a string", "number": 3, "dict": {"a": 1}}),
}
OUT: dict[str, tuple[Expression, dict[str, Any]]] = {
    "bounded": (BOUNDED, {"row": f32(0, 1), "batch": torch.zeros(3, 2), "outside": f32(9, 9)}),
    "categorical": (CATEGORICAL, {"0-d": torch.tensor(3), "batch": i64(1, 2)}),
    "one hot": (ONE_HOT, {"row": bits(0, 0, 1, 0), "batch": torch.eye(4, dtype=torch.bool)}),
    "one hot row": (ONE_HOT_ROW, {"rows": bits(0, 0, 1, 0, 1, 0).view(2, 3)}),
    "multi": (MULTI, {"row": i64(2, 1)}),
    "multi one hot": (MULTI_ONE_HOT, {"row": bits(0, 1, 0, 0, 1), "batch": bits(0, 1, 0, 0, 1).expand(3, 5)}),
    "binary": (BINARY, {"row": int8(0, 1, 1)}),
}
CONVERSIONS: dict[str, Expression] = {
    "categorical to one hot": lambda lib: lib.Categorical(4).to_one_hot(i64(1, 3)),
    "categorical to one hot spec": lambda lib: lib.Categorical(4, (2,)).to_one_hot_spec(),
    "categorical to one hot beyond": lambda lib: lib.Categorical(4).to_one_hot(i64(1, 9), safe=True),
    "categorical to categorical": lambda lib: lib.Categorical(4).to_categorical(i64(1, 3)),
    "categorical to categorical spec": lambda lib: lib.Categorical(4).to_categorical_spec(),
    "one hot to categorical": lambda lib: lib.OneHot(4).to_categorical(bits(0, 0, 1, 0)),
    "one hot to categorical spec": lambda lib: lib.OneHot(4, (2, 4)).to_categorical_spec(),
    "one hot to one hot": lambda lib: lib.OneHot(4).to_one_hot(bits(0, 0, 1, 0)),
    "one hot to one hot spec": lambda lib: lib.OneHot(4).to_one_hot_spec(),
    "one hot to categorical unsafe": lambda lib: lib.OneHot(4).to_categorical(bits(0, 1, 1, 0), safe=False),
    "one hot to categorical safe": lambda lib: lib.OneHot(4).to_categorical(bits(0, 1, 1, 0), safe=True),
    "multi to one hot": lambda lib: lib.MultiCategorical([3, 2]).to_one_hot(i64(2, 1)),
    "multi to one hot batch": lambda lib: lib.MultiCategorical([3, 2]).to_one_hot(i64(2, 1).expand(3, 2)),
    "multi to one hot spec": lambda lib: lib.MultiCategorical([3, 2]).to_one_hot_spec(),
    "multi rows to one hot spec": lambda lib: lib.MultiCategorical([[1, 2], [3, 4]]).to_one_hot_spec(),
    "multi to categorical": lambda lib: lib.MultiCategorical([3, 2]).to_categorical(i64(2, 1)),
    "multi to categorical spec": lambda lib: lib.MultiCategorical([3, 2]).to_categorical_spec(),
    "multi one hot to categorical": lambda lib: lib.MultiOneHot([3, 2]).to_categorical(bits(0, 0, 1, 1, 0)),
    "multi one hot to categorical spec": lambda lib: lib.MultiOneHot([3, 2], (4, 5)).to_categorical_spec(),
    "multi one hot to one hot spec": lambda lib: lib.MultiOneHot([3, 2]).to_one_hot_spec(),
    "masked to one hot spec": lambda lib: lib.Categorical(4, (2,), mask=MASK).to_one_hot_spec(),
    "masked to categorical spec": lambda lib: lib.OneHot(4, (2, 4), mask=MASK).to_categorical_spec(),
    "float to one hot spec": lambda lib: lib.Categorical(4, dtype=torch.float32).to_one_hot_spec(),
    "int32 to categorical spec": lambda lib: lib.OneHot(4, dtype=torch.int32).to_categorical_spec(),
}
INDEXED: dict[str, Expression] = {
    "one hot": lambda lib: lib.OneHot(4).index(bits(0, 0, 1, 0), f32(5, 6, 7, 8)),
    "one hot rows": lambda lib: lib.OneHot(3, (2, 3)).index(
        bits(0, 0, 1, 0, 1, 0).view(2, 3), torch.arange(6.0).view(2, 3)
    ),
    "one hot index": lambda lib: lib.OneHot(4).index(torch.tensor(2), f32(5, 6, 7, 8)),
    "categorical": lambda lib: lib.Categorical(4).index(torch.tensor(2), f32(5, 6, 7, 8)),
    "categorical rows": lambda lib: lib.Categorical(4, (2,)).index(i64(2, 0), torch.arange(8.0).view(2, 4)),
    "multi one hot": lambda lib: lib.MultiOneHot([3, 2]).index(bits(0, 0, 1, 1, 0), torch.arange(5.0)),
    "multi": lambda lib: lib.MultiCategorical([3, 2]).index(i64(2, 0), torch.arange(3.0)),
    "bounded": lambda lib: lib.Bounded(0, 1, (3,)).index(0, torch.zeros(3)),
    "unbounded": lambda lib: lib.Unbounded((3,)).index(0, torch.zeros(3)),
    "composite": lambda lib: lib.Composite(a=lib.Unbounded()).index(0, torch.zeros(3)),
}
MASKS: dict[str, Expression] = {
    "update": lambda lib: masked(lib.Categorical(4), MASK).mask,
    "update rows": lambda lib: masked(lib.OneHot(4, (2, 4)), MASK).mask,
    "update other rows": lambda lib: masked(lib.Categorical(2, (2,)), bits(1, 0, 0, 1).view(2, 2)).mask,
    "update too long": lambda lib: masked(lib.Categorical(4), torch.ones(5, dtype=torch.bool)),
    "update more dims": lambda lib: masked(lib.Categorical(4), torch.ones(3, 4, dtype=torch.bool)),
    "update nothing": lambda lib: masked(lib.Categorical(4, mask=MASK), None).mask,
    "update floats": lambda lib: masked(lib.Categorical(4), torch.ones(4)),
    "update columns": lambda lib: masked(lib.MultiCategorical([3, 2], (4, 2)), bits(1, 0, 1, 1, 1)).mask,
    "update columns too long": lambda lib: masked(lib.MultiOneHot([3, 2]), bits(1, 0, 1, 1)),
    "equality": lambda lib: (
        bool(lib.Categorical(4, mask=MASK) == lib.Categorical(4)),
        bool(lib.OneHot(4, mask=MASK) == lib.OneHot(4, mask=MASK)),
    ),
    "only one": lambda lib: lib.Categorical(4, (5,), mask=bits(0, 0, 1, 0)).rand((2,)),
    "only one, one hot": lambda lib: lib.OneHot(4, mask=bits(0, 0, 1, 0)).rand(),
    "only one, columns": lambda lib: lib.MultiCategorical([3, 2], mask=bits(0, 0, 1, 1, 0)).rand((2,)),
    "only one, multi one hot": lambda lib: lib.MultiOneHot([3, 2], mask=bits(0, 0, 1, 1, 0)).rand((2,)),
    "only one, project": lambda lib: lib.Categorical(4, mask=bits(0, 0, 1, 0)).project(i64(0, 2, 3)),
    "only one, project one hot": lambda lib: lib.OneHot(4, mask=bits(0, 0, 1, 0)).project(bits(1, 0, 0, 0)),
    "only one, project columns": lambda lib: lib.MultiCategorical([3, 2], mask=bits(0, 0, 1, 1, 0)).project(
        i64(0, 1)
    ),
    "nothing allowed": lambda lib: lib.Categorical(2, mask=bits(0, 0)).rand(),
    "enumerate": lambda lib: lib.Categorical(4, mask=MASK).enumerate(use_mask=True),
    "enumerate rows": lambda lib: lib.Categorical(4, (2,), mask=MASK).enumerate(use_mask=True),
    "enumerate one hot": lambda lib: lib.OneHot(4, mask=MASK).enumerate(use_mask=True),
    "enumerate all": lambda lib: lib.Categorical(4, mask=MASK).enumerate(),
    "enumerate columns": lambda lib: lib.MultiCategorical([3, 2], mask=bits(1, 0, 1, 1, 1)).enumerate(
        use_mask=True
    ),
    "indexed": lambda lib: lib.Categorical(2, (2,), mask=bits(1, 0, 0, 1).view(2, 2))[1].mask,
    "index_select": lambda lib: (
        selected(lib.OneHot(2, (2, 2), mask=bits(1, 0, 0, 1).view(2, 2)), torch.tensor([1])).mask
    ),
    "expanded": lambda lib: lib.OneHot(4, mask=MASK).expand(2, 4).mask,
    "unbound": lambda lib: [
        part.mask for part in lib.Categorical(2, (2,), mask=bits(1, 0, 0, 1).view(2, 2)).unbind(0)
    ],
    "unsqueezed": lambda lib: lib.Categorical(4, mask=MASK).unsqueeze(0).mask,
    "provisional": lambda lib: provisional(lib.Categorical(-1, (2,)), 3),
}


def masked(spec: Any, mask: Any) -> Any:
    spec.update_mask(mask)
    return spec


def selected(spec: Any, index: torch.Tensor) -> Any:
    return torch.index_select(spec, 0, index)


def provisional(spec: Any, n: int) -> Any:
    spec.set_provisional_n(n)
    return spec.n, int(spec.rand((200,)).max()), spec.shape


ALREADY = Differs("the data are one-hot already", told(bits(0, 0, 1, 0)))
DIFFERENCES: dict[str, Differs] = {
    "encode bounded int: fractions": Differs("a fraction is not cut off silently", ValueError),
    "encode categorical: beyond": Differs("no such class", AssertionError),
    "encode categorical: fraction": Differs("no such class", ValueError),
    "encode binary: beyond": Differs("no such value", AssertionError),
    "encode one hot: one hot list": ALREADY,
    "encode one hot: one hot array": ALREADY,
    "encode one hot: one hot tensor": ALREADY,
    "encode one hot: list": Differs(
        "data of one class have the spec's shape, as everywhere", told(bits(0, 0, 1, 0))
    ),
    "encode one hot: array of one": Differs("the same", told(bits(0, 0, 1, 0))),
    "encode one hot row: column": Differs("the same"),
    "encode multi one hot: too long": Differs("three classes for two groups", RuntimeError),
    "encode multi one hot: batch tensor": Differs(
        "tensors may have further dimensions in front, as for OneHot"
    ),
    "index: one hot index": Differs("an index is no one-hot vector", ValueError),
    "index: multi": Differs("the columns have tables of their own, side by side", ValueError),
    "index: multi one hot": Differs("works: a column for each class", torch.tensor([2.0, 3.0])),
    "mask: update floats": Differs("a mask is made of bools", ValueError),
    "mask: indexed": Differs("a mask outlives indexing", torch.tensor([False, True])),
    "mask: enumerate rows": Differs("works with batch dimensions too"),
    "mask: enumerate one hot": Differs("works for every class"),
    "mask: enumerate columns": Differs("works for every class"),
    "convert: masked to one hot spec": Differs("the mask is kept, as in the other direction"),
}

CASES: dict[str, Expression] = {
    f"encode {kind}: {label}": partial(
        lambda lib, make, value: make(lib).encode(value), make=make, value=value
    )
    for kind, (make, values) in ENCODED.items()
    for label, value in values.items()
}
CASES |= {
    f"to_numpy {kind}: {label}": partial(
        lambda lib, make, value: make(lib).to_numpy(value), make=make, value=value
    )
    for kind, (make, values) in OUT.items()
    for label, value in values.items()
}
for verb, expressions in (("convert", CONVERSIONS), ("index", INDEXED), ("mask", MASKS)):
    CASES |= {f"{verb}: {label}": expression for label, expression in expressions.items()}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
