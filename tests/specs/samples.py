"""The same specs in either library: functions of the module that has the classes."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import NonTensorData

from tests.specs.peer import Expression

MASK = torch.tensor([True, False, True, True])
COLUMNS = torch.tensor([True, False, True, True, True])

CONTINUOUS: dict[str, Expression] = {
    "bounded_float32": lambda lib: lib.Bounded(-2, 3, (4,)),
    "bounded_float64": lambda lib: lib.Bounded(-2, 3, (2, 3), dtype=torch.float64),
    "bounded_float16": lambda lib: lib.Bounded(0, 1, (7,), dtype=torch.float16),
    "bounded_bfloat16": lambda lib: lib.Bounded(0, 8, (7,), dtype=torch.bfloat16),
    "bounded_rows": lambda lib: lib.Bounded(torch.tensor([-1.0, 0.0, 1e-3]), torch.tensor([1.0, 5.0, 1e6])),
    "bounded_scalar": lambda lib: lib.Bounded(-1, 1, ()),
    "bounded_int64": lambda lib: lib.Bounded(-3, 9, (5,), dtype=torch.int64),
    "bounded_int64_wide": lambda lib: lib.Bounded(-(2**62), 2**62 + 5, (5,), dtype=torch.int64),
    "bounded_int64_full": lambda lib: lib.Bounded(-(2**63), 2**63 - 1, (5,), dtype=torch.int64),
    "bounded_int32": lambda lib: lib.Bounded(-(2**31), 2**31 - 1, (5,), dtype=torch.int32),
    "bounded_uint8": lambda lib: lib.Bounded(0, 255, (4, 4), dtype=torch.uint8),
    "bounded_int8": lambda lib: lib.Bounded(-7, 3, (4,), dtype=torch.int8),
    "bounded_bool": lambda lib: lib.Bounded(False, True, (6,), dtype=torch.bool),
    "unbounded_float32": lambda lib: lib.Unbounded((3,)),
    "unbounded_float32_long": lambda lib: lib.Unbounded((33,)),
    "unbounded_float64": lambda lib: lib.Unbounded((2, 9), dtype=torch.float64),
    "unbounded_default": lambda lib: lib.Unbounded(),
    "unbounded_bool": lambda lib: lib.Unbounded((9,), dtype=torch.bool),
    "unbounded_uint8": lambda lib: lib.Unbounded((9,), dtype=torch.uint8),
}
CLASSES: dict[str, Expression] = {
    "categorical": lambda lib: lib.Categorical(4),
    "categorical_batch": lambda lib: lib.Categorical(7, (2, 3), dtype=torch.int32),
    "categorical_bool": lambda lib: lib.Categorical(2, (1,), dtype=torch.bool),
    "categorical_mask": lambda lib: lib.Categorical(4, (5,), mask=MASK),
    "categorical_mask_batch": lambda lib: lib.Categorical(4, (5, 2), mask=MASK),
    "onehot": lambda lib: lib.OneHot(4),
    "onehot_batch": lambda lib: lib.OneHot(4, (3, 2, 4), dtype=torch.int64),
    "onehot_mask": lambda lib: lib.OneHot(4, (3, 4), mask=MASK),
    "multi": lambda lib: lib.MultiCategorical([3, 2, 5]),
    "multi_batch": lambda lib: lib.MultiCategorical([3, 2], (6, 2)),
    "multi_deep": lambda lib: lib.MultiCategorical([3, 2, 9], (4, 5, 3)),
    "multi_rows_differ": lambda lib: lib.MultiCategorical(torch.tensor([[3, 2], [7, 4], [5, 9]])),
    "binary": lambda lib: lib.Binary(8),
    "binary_batch": lambda lib: lib.Binary(shape=(3, 2), dtype=torch.bool),
}
COLUMN_CLASSES: dict[str, Expression] = {
    "multi_mask": lambda lib: lib.MultiCategorical([3, 2], (4, 2), mask=COLUMNS),
    "multi_onehot": lambda lib: lib.MultiOneHot([3, 2]),
    "multi_onehot_batch": lambda lib: lib.MultiOneHot([3, 2], (2, 5), dtype=torch.int64),
    "multi_onehot_mask": lambda lib: lib.MultiOneHot([3, 2], (2, 5), mask=COLUMNS),
}
COMPOSITES: dict[str, Expression] = {
    "composite": lambda lib: lib.Composite(
        action=lib.Categorical(4, (3,)),
        agents=lib.Composite(
            observation=lib.Bounded(-1, 1, (3, 2)), mask=lib.Binary(shape=(3, 4)), shape=(3,)
        ),
        noise=lib.Unbounded((3, 5)),
        shape=(3,),
    ),
}
MORE_COMPOSITES: dict[str, Expression] = {
    "composite_empty": lambda lib: lib.Composite(shape=(2,), device="cpu"),
    "composite_none": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), b=None, shape=(2,)),
    "composite_classes": lambda lib: lib.Composite(
        {"a": lib.OneHot(3, (2, 3)), ("b", "c"): lib.Categorical(2, (2,))}, shape=(2,), device="cpu"
    ),
}
VARIABLE: dict[str, Expression] = {
    "variable_unbounded": lambda lib: lib.Unbounded((-1, 3)),
    "variable_bounded": lambda lib: lib.Bounded(-1, 1, (-1, 1, 2)),
    "variable_categorical": lambda lib: lib.Categorical(4, (-1, 2)),
    "variable_onehot": lambda lib: lib.OneHot(4, (-1, 4)),
    "variable_multi": lambda lib: lib.MultiCategorical([3, 4], (-1, 2)),
    "variable_multi_onehot": lambda lib: lib.MultiOneHot([3, 4], (-1, 7)),
    "variable_binary": lambda lib: lib.Binary(shape=(-1, 2)),
    "variable_composite": lambda lib: lib.Composite(a=lib.Unbounded((-1, 3)), shape=(-1,)),
}
STACKS: dict[str, Expression] = {
    "stacked_bounds": lambda lib: torch.stack([lib.Bounded(0, 1, (2,)), lib.Bounded(0, 2, (2,))], 0),
    "stacked_shapes": lambda lib: torch.stack([lib.Unbounded((2, 3)), lib.Unbounded((2, 4))], 1),
    "stacked_classes": lambda lib: torch.stack([lib.Categorical(3, (2,)), lib.Categorical(5, (2,))], 0),
    "stacked_onehot": lambda lib: torch.stack([lib.OneHot(3), lib.OneHot(5)], 0),
    "stacked_composite": lambda lib: torch.stack(
        [
            lib.Composite(a=lib.Unbounded((2, 3)), shape=(2,)),
            lib.Composite(a=lib.Unbounded((2, 3)), b=lib.Categorical(4, (2,)), shape=(2,)),
        ],
        0,
    ),
    "stacked_composite_shapes": lambda lib: torch.stack(
        [
            lib.Composite(a=lib.Unbounded((2, 3)), c=lib.Binary(shape=(2, 1)), shape=(2,)),
            lib.Composite(a=lib.Unbounded((2, 4)), c=lib.Binary(shape=(2, 1)), shape=(2,)),
        ],
        1,
    ),
}
NON_TENSORS: dict[str, Expression] = {
    "nontensor": lambda lib: lib.NonTensor((3, 4), example_data="text"),
    "nontensor_cpu": lambda lib: lib.NonTensor((2,), device="cpu"),
    "choice_bounded": lambda lib: lib.Choice([lib.Bounded(0, 2.5, ()), lib.Bounded(10, 12, ())]),
    "choice_classes": lambda lib: lib.Choice([lib.Categorical(10, (2,)), lib.Categorical(20, (2,))]),
    "choice_data": lambda lib: lib.Choice([NonTensorData("a"), NonTensorData("b")]),
}

SPECS = CONTINUOUS | CLASSES | COMPOSITES
"""Those whose draws are compared number by number."""
PLAIN = SPECS | COLUMN_CLASSES | MORE_COMPOSITES | NON_TENSORS
"""Those that TorchRL handles throughout; its variable dimensions and stacks have cases of their own."""
ALL = PLAIN | VARIABLE | STACKS


def is_composite(name: str) -> bool:
    return "composite" in name


def make(name: str, library: Any) -> Any:
    return ALL[name](library)
