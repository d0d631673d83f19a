"""Finished strings for the class of a transform."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from specgen.check.model import Parameter
from specgen.check.transform_model import Output
from specgen.code import Code, needs_math, using, value_code
from specgen.literals import formatted, literal
from specgen.plan.model import CallPlan
from specgen.plan.short_texts import TORCH_DTYPES
from specgen.plan.spec_text import number_text
from specgen.plan.transform_model import LimitPlan


def limits(param: Parameter) -> Iterator[LimitPlan]:
    """What must hold of a parameter."""
    name = param.name
    value = f"self.{name}" if param.kind == "tensor" else name
    for sign, bound in param.range:
        limit = value_code(bound)
        holds = f"{value} {sign} {limit}"
        if param.kind == "tensor":
            holds = f"bool(({holds}).all())"
        yield LimitPlan(using(holds, *limit.uses), formatted(f"{name} must be {sign} {limit}, got ", name))


def by_condition(outputs: Iterable[Output]) -> list[tuple[str | None, list[Output]]]:
    """Outputs by the optional parameter that they need: those that always exist first."""
    groups: dict[str | None, list[Output]] = {}
    for output in outputs:
        groups.setdefault(output.when, []).append(output)
    return sorted(groups.items(), key=lambda item: (item[0] is not None, item[0] or ""))


def spec_like(output: Output, like: str) -> CallPlan:
    """The spec of an output, made from that of the input `like`."""
    dtype = (dtype_code(output.dtype),) if output.dtype else ()
    if output.dtype == "bool":
        return CallPlan("flag_like", (like,))
    if output.interval is not None:
        return CallPlan("bounded_like", (like, *map(_number, output.interval), *dtype))
    return CallPlan("unbounded_like", (like, *dtype))


def dtype_code(dtype: str) -> Code:
    """A dtype of torch."""
    return using(TORCH_DTYPES[dtype], "torch")


def _number(value: float) -> Code:
    number = int(value) if math.isfinite(value) and value == int(value) else value
    return using(number_text(number), *(["math"] if needs_math(number) else []))


def key_literal(entry: str) -> str:
    """A key, or a group of keys, as the generated class writes it."""
    if entry.startswith("env.") or "." not in entry:
        return literal(entry)
    return literal(tuple(entry.split(".")))
