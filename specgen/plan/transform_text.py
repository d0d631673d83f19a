"""Finished strings for the class of a transform."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from specgen.check.model import Parameter
from specgen.check.transform_model import Output
from specgen.literals import formatted, literal
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.spec_text import number_text
from specgen.plan.writer import TORCH_DTYPES


def param_lines(param: Parameter) -> Iterator[str]:
    """The lines of `__init__` that check a parameter and keep it."""
    name = param.name
    value = name
    if param.kind == "tensor":
        yield f"self.register_buffer({literal(name)}, as_float_tensor({name}, {literal(name)}))"
        value = f"self.{name}"
    for sign, bound in param.range:
        limit = literal(bound)
        holds = (
            f"bool(({value} {sign} {limit}).all())" if param.kind == "tensor" else f"{value} {sign} {limit}"
        )
        given = f"{name} is not None and " if param.optional else ""
        yield f"if {given}not {holds}:"
        yield f"    raise ValueError({formatted(f'{name} must be {sign} {limit}, got ', name)})"
    if param.kind != "tensor":
        yield f"self.{name} = {name}"


def by_condition(outputs: Iterable[Output]) -> list[tuple[str | None, list[Output]]]:
    """Outputs by the optional parameter that they need: those that always exist first."""
    groups: dict[str | None, list[Output]] = {}
    for output in outputs:
        groups.setdefault(output.when, []).append(output)
    return sorted(groups.items(), key=lambda item: (item[0] is not None, item[0] or ""))


def spec_like(output: Output, like: str) -> str:
    """The spec of an output, made from that of the input `like`."""
    dtype = f", {TORCH_DTYPES[output.dtype]}" if output.dtype else ""
    if output.dtype == "bool":
        return f"flag_like({like})"
    if output.interval is not None:
        low, high = (_number(bound) for bound in output.interval)
        return f"bounded_like({like}, {low}, {high}{dtype})"
    return f"unbounded_like({like}{dtype})"


def _number(value: float) -> str:
    return number_text(int(value) if math.isfinite(value) and value == int(value) else value)


def spec_method(name: str, text: str) -> FunctionPlan:
    """A method from a spec to a spec."""
    return FunctionPlan(
        name, (Argument("spec", "TensorSpec"),), "TensorSpec", (), (Line(f"return {text}"),), method=True
    )


def joined(lines: Iterable[str]) -> tuple[Line, ...]:
    """Statements from lines: an indented line belongs to the one above it."""
    blocks: list[str] = []
    for line in lines:
        if line.startswith("    ") and blocks:
            blocks[-1] += f"\n{line}"
        else:
            blocks.append(line)
    return tuple(map(Line, blocks))


def key_literal(entry: str) -> str:
    """A key, or a group of keys, as the generated class writes it."""
    if entry.startswith("env.") or "." not in entry:
        return literal(entry)
    return literal(tuple(entry.split(".")))
