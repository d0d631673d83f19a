"""Specs in either library, and short ways to write the values that they are asked about."""

from __future__ import annotations

import numpy as np
import torch

from tests.specs.peer import Expression

INF, NAN = float("inf"), float("nan")
MASK = torch.tensor([True, False, True, True])


def f32(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def i64(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def above(value: float) -> float:
    """The next float32."""
    return float(np.nextafter(np.float32(value), np.float32(INF)))


def below(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(-INF)))


BOUNDED: Expression = lambda lib: lib.Bounded(-1, 2, (2,))  # noqa: E731
BOUNDED_INT: Expression = lambda lib: lib.Bounded(-3, 9, (2,), dtype=torch.int64)  # noqa: E731
UINT8: Expression = lambda lib: lib.Bounded(0, 255, (2,), dtype=torch.uint8)  # noqa: E731
UNBOUNDED: Expression = lambda lib: lib.Unbounded((2,))  # noqa: E731
UNBOUNDED_INT: Expression = lambda lib: lib.Unbounded((2,), dtype=torch.int64)  # noqa: E731
CATEGORICAL: Expression = lambda lib: lib.Categorical(4)  # noqa: E731
CATEGORICAL_ROW: Expression = lambda lib: lib.Categorical(4, (3,))  # noqa: E731
CATEGORICAL_MASK: Expression = lambda lib: lib.Categorical(4, mask=MASK)  # noqa: E731
ONE_HOT: Expression = lambda lib: lib.OneHot(4)  # noqa: E731
ONE_HOT_ROW: Expression = lambda lib: lib.OneHot(3, (2, 3))  # noqa: E731
ONE_HOT_INT: Expression = lambda lib: lib.OneHot(3, dtype=torch.int64)  # noqa: E731
ONE_HOT_MASK: Expression = lambda lib: lib.OneHot(4, mask=MASK)  # noqa: E731
MULTI: Expression = lambda lib: lib.MultiCategorical([3, 2])  # noqa: E731
MULTI_ROWS: Expression = lambda lib: lib.MultiCategorical([[1, 2], [3, 4]])  # noqa: E731
MULTI_ONE_HOT: Expression = lambda lib: lib.MultiOneHot([3, 2])  # noqa: E731
BINARY: Expression = lambda lib: lib.Binary(3)  # noqa: E731
VARIABLE: Expression = lambda lib: lib.Unbounded((-1, 2))  # noqa: E731


def bits(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)


def int8(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int8)
