"""Values at, beside and beyond the bounds: the same membership and projection as TorchRL's."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from tests.specs.peer import Differs, Expression, compare
from tests.specs.value_samples import (
    BINARY,
    BOUNDED,
    BOUNDED_INT,
    CATEGORICAL,
    CATEGORICAL_MASK,
    CATEGORICAL_ROW,
    INF,
    MULTI,
    MULTI_ONE_HOT,
    MULTI_ROWS,
    NAN,
    ONE_HOT,
    ONE_HOT_INT,
    ONE_HOT_MASK,
    UINT8,
    UNBOUNDED,
    UNBOUNDED_INT,
    VARIABLE,
    above,
    below,
    bits,
    f32,
    i64,
    int8,
)

pytestmark = pytest.mark.peers

# spec, then values.
MEMBERS: dict[str, tuple[Expression, dict[str, Any]]] = {
    "bounded": (
        BOUNDED,
        {
            "at the bounds": f32(-1, 2),
            "an ulp above": f32(0, above(2)),
            "an ulp inside": f32(above(-1), below(2)),
            "an ulp below": f32(below(-1), 0),
            "nan": f32(NAN, 0),
            "inf": f32(0, INF),
            "float64": f32(0, 0).double(),
            "int64": i64(0, 0),
            "further dims": torch.zeros(5, 3, 2),
            "no elements": torch.zeros(0, 2),
            "wrong shape": torch.zeros(3),
            "wrong last": torch.zeros(2, 3),
            "0-d": torch.tensor(0.0),
            "text": "x",
            "None": None,
            "list": [0.0, 0.0],
            "array": np.zeros(2, np.float32),
            "meta": torch.zeros(2, device="meta"),
        },
    ),
    "bounded int": (
        BOUNDED_INT,
        {"at": i64(-3, 9), "below": i64(-4, 0), "above": i64(0, 10), "float": f32(0, 0)},
    ),
    "uint8": (UINT8, {"all": torch.tensor([0, 255], dtype=torch.uint8), "int64": i64(0, 255)}),
    "unbounded": (
        UNBOUNDED,
        {
            "any": f32(-1e30, 1e30),
            "inf": f32(INF, -INF),
            "nan": f32(0, NAN),
            "float64": f32(0, 0).double(),
            "wrong shape": f32(0),
            "0-d": torch.tensor(0.0),
            "further dims": torch.zeros(4, 2),
            "meta": torch.zeros(2, device="meta"),
        },
    ),
    "unbounded int": (UNBOUNDED_INT, {"any": i64(-(2**63), 2**63 - 1), "int32": i64(0, 0).int()}),
    "categorical": (
        CATEGORICAL,
        {
            "first": torch.tensor(0),
            "last": torch.tensor(3),
            "beyond": torch.tensor(4),
            "before": torch.tensor(-1),
            "int32": torch.tensor(1).int(),
            "float": torch.tensor(1.0),
            "batch": i64(0, 1, 2, 3),
            "batch beyond": i64(0, 4),
            "matrix": torch.zeros(2, 3, dtype=torch.int64),
        },
    ),
    "categorical row": (
        CATEGORICAL_ROW,
        {"row": i64(0, 1, 3), "shorter": i64(0, 1), "batch": i64(0, 1, 3).expand(2, 3)},
    ),
    "categorical mask": (
        CATEGORICAL_MASK,
        {"allowed": torch.tensor(2), "masked": torch.tensor(1), "beyond": torch.tensor(4)},
    ),
    "one hot": (
        ONE_HOT,
        {
            "one": bits(0, 1, 0, 0),
            "none": bits(0, 0, 0, 0),
            "two": bits(1, 1, 0, 0),
            "int64": i64(0, 1, 0, 0),
            "too short": bits(0, 1, 0),
            "batch": torch.eye(4, dtype=torch.bool),
            "index": torch.tensor(1),
        },
    ),
    "one hot int": (
        ONE_HOT_INT,
        {"one": i64(0, 1, 0), "two": i64(0, 2, 0), "sum": i64(2, -1, 0), "bool": bits(0, 1, 0)},
    ),
    "one hot mask": (ONE_HOT_MASK, {"allowed": bits(1, 0, 0, 0), "masked": bits(0, 1, 0, 0)}),
    "multi": (
        MULTI,
        {
            "first": i64(0, 0),
            "last": i64(2, 1),
            "beyond": i64(2, 2),
            "before": i64(-1, 0),
            "batch": i64(1, 1).expand(3, 2),
            "int32": i64(0, 0).int(),
            "too long": i64(0, 0, 0),
        },
    ),
    "multi rows": (
        MULTI_ROWS,
        {"last": torch.tensor([[0, 1], [2, 3]]), "beyond": torch.tensor([[1, 0], [0, 0]])},
    ),
    "multi one hot": (
        MULTI_ONE_HOT,
        {
            "one each": bits(0, 1, 0, 1, 0),
            "none": bits(0, 0, 0, 1, 0),
            "two": bits(1, 1, 0, 1, 0),
            "int64": i64(0, 1, 0, 1, 0),
            "batch": bits(0, 1, 0, 1, 0).expand(2, 5),
            "too short": bits(0, 1, 0, 1),
        },
    ),
    "binary": (
        BINARY,
        {
            "bits": int8(0, 1, 1),
            "two": int8(0, 2, 1),
            "negative": int8(0, -1, 1),
            "bool": bits(0, 1, 1),
            "too short": int8(0, 1),
            "batch": int8(0, 1, 1).expand(4, 3),
        },
    ),
    "variable": (
        VARIABLE,
        {
            "one": torch.zeros(1, 2),
            "seven": torch.zeros(7, 2),
            "none": torch.zeros(0, 2),
            "no such dim": torch.zeros(2),
            "wrong last": torch.zeros(7, 3),
            "further": torch.zeros(3, 7, 2),
        },
    ),
}
PROJECTIONS: dict[str, tuple[Expression, dict[str, Any]]] = {
    "bounded": (
        BOUNDED,
        {
            "far": f32(-9, 9),
            "inf": f32(-INF, INF),
            "one outside": f32(0.5, 3),
            "batch": f32(-9, 9).expand(3, 2),
            "float64": f32(-9, 9).double(),
            "nan": f32(NAN, 0),
            "int64": i64(-9, 9),
        },
    ),
    "bounded int": (BOUNDED_INT, {"far": i64(-99, 99), "float": f32(-99, 99)}),
    "unbounded": (UNBOUNDED, {"float64": f32(-9, 9).double(), "int64": i64(1, 2), "nan": f32(NAN, 0)}),
    "categorical": (
        CATEGORICAL,
        {
            "far": i64(-9, 0, 3, 9),
            "fractions": f32(-0.6, 0.4, 0.6, 2.4, 2.6, 9.9),
            "half": f32(0.5, 1.5, 2.5),
        },
    ),
    "multi": (MULTI, {"far": i64(-9, 9), "fractions": f32(0.9, 0.4), "float64": f32(-9, 9).double()}),
    "one hot": (ONE_HOT, {"scores": f32(0, 0, 9, 0), "two": bits(0, 0, 0, 1).expand(2, 4)}),
    "binary": (BINARY, {"far": int8(-9, 9, 1), "fractions": f32(0.4, 0.6, 2), "float": f32(-9, 9, 1)}),
}
QUESTION = Differs("membership is a question: it has an answer for every value", False)
MEMBER = "a projection is a member: its dtype is the spec's, NaN counts as 0"
DIFFERENCES: dict[str, Differs] = {
    **{
        f"is_in {name}": QUESTION
        for name in (
            "bounded: wrong shape",
            "bounded: wrong last",
            "bounded: 0-d",
            "bounded: text",
            "bounded: None",
            "bounded: list",
            "bounded: meta",
            "categorical row: shorter",
            "categorical mask: beyond",
            "one hot: too short",
            "multi: too long",
            "binary: too short",
            "variable: wrong last",
        )
    },
    "is_in unbounded: nan": Differs("NaN belongs to no spec", False),
    "is_in unbounded: meta": Differs("another device", False),
    "is_in one hot int: sum": Differs("not a single 1", False),
    **{
        f"project {name}": Differs(MEMBER)
        for name in (
            "bounded: float64",
            "bounded: nan",
            "bounded int: float",
            "unbounded: nan",
            "categorical: fractions",
            "categorical: half",
            "binary: fractions",
            "binary: float",
        )
    },
}

CASES: dict[str, Expression] = {
    f"is_in {kind}: {label}": partial(
        lambda lib, make, value: bool(make(lib).is_in(value)), make=make, value=value
    )
    for kind, (make, values) in MEMBERS.items()
    for label, value in values.items()
}
CASES |= {
    f"project {kind}: {label}": partial(
        lambda lib, make, value: make(lib).project(value.clone()), make=make, value=value
    )
    for kind, (make, values) in PROJECTIONS.items()
    for label, value in values.items()
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    torch.manual_seed(0)
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
