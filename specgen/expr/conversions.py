"""Conversions of typed values between dtypes: casts, and the dtype that several values have in common."""

from __future__ import annotations

from collections.abc import Sequence

from specgen.expr.dtypes import join, weak_join
from specgen.expr.interval import store
from specgen.expr.types import Typed
from specgen.values import replace


def cast_to(node: Typed, dtype: str) -> Typed:
    """`node` converted to `dtype`; itself when it has that dtype already."""
    if node.type.dtype == dtype:
        return node
    return Typed(
        "cast",
        replace(node.type, dtype=dtype),
        node.interval,
        (node,),
        start=node.start,
        end=node.end,
    )


def convert(value: Typed, dtype: str) -> Typed:
    """`value` cast to `dtype`, with the interval that it has there; patterns stay what they are."""
    if value.type.dtype == dtype or dtype in ("float", "number", "any"):
        return value
    return replace(cast_to(value, dtype), interval=store(value.interval, dtype))


def common_dtype(values: Sequence[Typed]) -> str | None:
    """The dtype that tensors and numbers have in common, or None."""
    strong = [value.type.dtype for value in values if not value.type.python]
    weak = [value.type.dtype for value in values if value.type.python]
    dtype: str | None = None
    for one in strong:
        dtype = one if dtype is None else join(dtype, one)
        if dtype is None:
            return None
    if dtype is None:
        for one in weak:
            dtype = one if dtype is None else join(dtype, one)
            if dtype is None:
                return None
        return dtype
    for one in weak:
        dtype = weak_join(dtype, one)
        if dtype is None:
            return None
    return dtype
