"""What is wrong with the values and ranges of parameters, and with the elements of constant tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.expr import SpecType
from specgen.expr.dtypes import INT_RANGES, holds, is_float, is_int
from specgen.expr.spec_limits import number_fault
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile, describe
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar

PARAM_TYPES = {"float": "float32", "int": "int64", "bool": "bool", "float64": "float64"}
"""Declared types of parameters and their dtype in expressions; a plain float is weak, `float64` is not."""

_MEANT = {
    "float32": "float",
    "number": "float",
    "double": "float64",
    "int32": "int",
    "int64": "int",
    "integer": "int",
    "boolean": "bool",
}

Place = tuple[str | int, ...]


def unusable(file: SchemaFile, path: tuple[str, ...], param: Param, sink: Sink) -> bool:
    """Report a parameter, one value for all environments, that has no usable type or no default."""
    name = path[-1]
    if param.optional:
        span, help = file.span(*path, "optional"), "leave it out, and give a default that is a number"
        message = "`optional: true` is not available yet for an environment"
        sink.add(rules.NOT_AVAILABLE.at(span, message, help=help))
        return True
    tensor = "write `per_env: true` beside it, for a tensor; a fixed table is declared under `consts`"
    if param.type is not None and param.type not in PARAM_TYPES:
        kind = param.type.strip()
        meant = f"did you mean '{_MEANT[kind]}'?" if kind in _MEANT else suggestion(kind, PARAM_TYPES)
        message = f"`{kind}` is no type of a parameter"
        if "[" in kind:
            message, meant = f"{message} that is one value for all environments", tensor
        meant = meant or f"the types of parameters are {', '.join(PARAM_TYPES)}"
        sink.add(rules.WRONG_TYPE.at(file.span(*path, "type"), message, help=meant))
        return True
    if isinstance(param.default, (list, dict)):
        shown = describe(None, param.default)
        message = f"the default of `{name}` should be a number or a truth value, got {shown}"
        listed = isinstance(param.default, list)
        at = file.span(*path, "default")
        sink.add(rules.WRONG_TYPE.at(at, message, help=tensor if listed else None))
        return True
    if param.default is None:
        help = "write `default:` and a number or a truth value, or `draw:` and an expression"
        sink.add(
            rules.MISSING_FIELD.at(file.key_span(*path), f"parameter `{name}` needs a default", help=help)
        )
        return True
    return False


def misfit(file: SchemaFile, path: tuple[str, ...], kind: str, default: Any) -> tuple[str, str | None]:
    """What is wrong with a default that is not of its type `kind`, and what to write instead."""
    outer = file.node(*path)
    node = outer.get("default") if isinstance(outer, MappingNode) else outer
    text = node.text if isinstance(node, Scalar) else repr(default)
    what = f"the default of `{path[-1]}`"
    if isinstance(default, bool) or kind == "bool":
        wanted = "true or false" if kind == "bool" else "a number"
        return f"{what} should be {wanted}, got {describe(None, default)}", None
    if isinstance(default, int):
        help = f"write {text}.0 if a float is meant" if text.lstrip("+-").isdecimal() else None
        return f"{what}, {text}, is outside int64", help
    if kind == "int" and math.isfinite(default):
        help = f"write {int(default)}" if default.is_integer() else "write `type: float` if a float is meant"
        return f"{what} should be a whole number, got {text}", help
    if math.isnan(default) or "inf" in text.lower():
        return f"{what} should be a finite number, got {text}", None
    return f"{what}, {text}, is too large for a float", None


def range_of(param: Param) -> tuple[tuple[str, float], ...]:
    """What must hold of a value, as pairs of a comparison and a bound; infinite ones say nothing."""
    bounds = ((">=", param.min), ("<=", param.max), (">", param.above), ("<", param.below))
    return tuple((sign, bound) for sign, bound in bounds if bound is not None and math.isfinite(bound))


def ends(param: Param, dtype: str) -> tuple[float, float]:
    """The closed bounds of a range; for integers, of the whole numbers in it."""
    lows = [bound for bound in (param.min, param.above) if bound is not None]
    highs = [bound for bound in (param.max, param.below) if bound is not None]
    if dtype not in INT_RANGES:
        return float(max(lows, default=-math.inf)), float(min(highs, default=math.inf))
    least, most = INT_RANGES[dtype]
    if param.min is not None:
        least = max(least, math.ceil(param.min))
    if param.above is not None:
        least = max(least, math.floor(param.above) + 1)
    if param.max is not None:
        most = min(most, math.floor(param.max))
    if param.below is not None:
        most = min(most, math.ceil(param.below) - 1)
    return least, most


def empty_range(file: SchemaFile, path: tuple[str, ...], param: Param, dtype: str, sink: Sink) -> bool:
    """Whether no value of `dtype` is in the range of a parameter; it is reported."""
    if any(math.isinf(bound) or math.isnan(bound) for bound in _bounds(param)):
        return False
    low, high = ends(param, dtype)
    open_ = is_float(dtype) and low == high and (param.above == low or param.below == high)
    if low <= high and not open_:
        return False
    wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in range_of(param))
    kind = "whole number" if dtype in INT_RANGES else "number"
    message = f"no {kind} is {wanted}, so `{path[-1]}` has no value"
    last = "max" if param.max is not None else "below"
    sink.add(rules.PARAM_OUT_OF_RANGE.at(file.span(*path, last), message))
    return True


def _bounds(param: Param) -> list[float]:
    return [bound for bound in (param.min, param.max, param.above, param.below) if bound is not None]


def refused_value(file: SchemaFile, path: Place, value: Any, spec: SpecType, sink: Sink) -> bool:
    """Report what is wrong with the value of the constant at `path`: its shape, then its elements."""
    here = (*path, "value")
    declared = file.scalar(*path, "type").text.strip()
    name = path[-1]
    shape = _shape(value)
    if shape != spec.dims:
        place, why = _uneven(value) if shape is None else ((), None)
        message = why or f"its value has shape {list(shape or ())}"
        message = f"`{name}` is declared {spec}, {message}"
        sink.add(rules.WRONG_TYPE.at(file.span(*here, *place), message))
        return True
    wrong = [(place, item) for place, item in _elements(value) if not _is_value(item, spec)]
    texts = [(place, item) for place, item in wrong if isinstance(item, str)]
    for place, _ in texts:
        scalar = file.scalar(*here, *place)
        read = (
            scalar.as_bool
            if spec.dtype == "bool"
            else scalar.as_int
            if is_int(spec.dtype)
            else scalar.as_float
        )
        read(sink)
    if wrong and not texts:
        place, item = wrong[0]
        message = (
            f"{describe(file.node(*here, *place), item)} is not a value of `{name}`, declared {declared}"
        )
        sink.add(rules.WRONG_TYPE.at(file.span(*here, *place), message))
    return bool(wrong)


def _elements(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The numbers of nested lists, with their places."""
    if not isinstance(value, (list, tuple)):
        yield place, value
        return
    for index, item in enumerate(value):
        yield from _elements(item, (*place, index))


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; ``None`` where they are uneven."""
    if not isinstance(value, (list, tuple)):
        return () if not isinstance(value, dict) else None
    inner = {_shape(item) for item in value}
    if len(inner) != 1 or None in inner:
        return None
    return (len(value), *(inner.pop() or ()))


def _uneven(value: Any, place: Place = ()) -> tuple[Place, str]:
    """Where nested lists have no shape, and why."""
    if not isinstance(value, (list, tuple)):
        return place, f"its value is {describe(None, value)}"
    if not value:
        return place, "this list is empty"
    for index, item in enumerate(value):
        if _shape(item) is None:
            return _uneven(item, (*place, index))
    first = _shape(value[0])
    index = next(index for index, item in enumerate(value) if _shape(item) != first)
    mine, other = (_described(value[at]) for at in (index, 0))
    return (*place, index), f"its value is uneven: this is {mine}, what comes first is {other}"


def _described(value: Any) -> str:
    shape = _shape(value)
    if not shape:
        return "one number"
    return f"a list of {shape[0]}" if len(shape) == 1 else f"of shape {list(shape)}"


def _is_value(value: object, spec: SpecType) -> bool:
    if not isinstance(value, (int, float)) or math.isnan(value):
        return False
    if number_fault(value, spec.dtype) or not holds(spec.dtype, value):
        return False
    return spec.interval.low <= value <= spec.interval.high


__all__ = ["PARAM_TYPES", "empty_range", "ends", "misfit", "range_of", "refused_value", "unusable"]
