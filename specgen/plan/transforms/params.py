"""What the constructor of a transform does with each of its parameters."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.model import PARAM_DTYPES, Parameter
from specgen.plan.per_env import chooses_dtype
from specgen.plan.refusals import refusals
from specgen.plan.transforms.model import EnumClassPlan, TransformParamPlan
from specgen.plan.transforms.text import dtype_code

__all__ = ["plan_param"]


def plan_param(param: Parameter, *, initial: bool, missing: Collection[str]) -> TransformParamPlan:
    """The record of a parameter.

    Args:
        param: the parameter.
        initial: whether it only says what buffers begin with.
        missing: the parameters of the transform that may be None.
    """
    return TransformParamPlan(
        param.name,
        param.kind == "tensor",
        param.optional,
        param.kind in ("ints", "int_or_ints"),
        tuple(refusals(param, kept=chooses_dtype(param), missing=missing)),
        initial,
        dtype_code(PARAM_DTYPES[param.kind]) if param.per_env else None,
        chooses_dtype(param),
        _enum_class(param),
    )


def _enum_class(param: Parameter) -> EnumClassPlan | None:
    if param.enum_class is None:
        return None
    return EnumClassPlan(param.enum_class, tuple((word.upper(), word) for word in param.choices))
