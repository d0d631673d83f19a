"""The values of parameters: their ranges, and what is wrong with a default."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.expr import Interval
from specgen.expr.builtins.table import TABLE
from specgen.expr.dtypes import INT_RANGES, is_float
from specgen.schema.fields import Param, ParamField
from specgen.schema.load import SchemaFile, describe
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


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


def fits_others(
    file: SchemaFile, path: tuple[str, ...], param: Param, params: Mapping[str, ParamField], sink: Sink
) -> bool:
    """Whether `unless`, `at_least` and `with`, where given, name parameters of which they can be said; else reported."""
    if param.unless is not None and not decides(params.get(param.unless)):
        message = f"`unless: {param.unless}` names no static truth value of the parameters"
        help = "declare it: `type: bool, default: false, static: true`"
        sink.add(transform_rules.WRONG_CONDITION.at(file.span(*path, "unless"), message, help=help))
        return False
    return _at_least_fits(file, path, param, params, sink) and _with_fits(file, path, param, params, sink)


def _at_least_fits(
    file: SchemaFile, path: tuple[str, ...], param: Param, params: Mapping[str, ParamField], sink: Sink
) -> bool:
    """Whether `at_least`, where it is given, names a parameter that a number can be compared with; else reported."""
    if param.at_least is None:
        return True
    numbers = [name for name, one in params.items() if name != path[-1] and _is_number(one)]
    place = file.span(*path, "at_least")
    if param.at_least not in numbers or not _is_number(param):
        message = f"`at_least: {param.at_least}` compares two numbers, the same ones for all environments"
        help = suggestion(param.at_least, numbers) if _is_number(param) else None
        sink.add(rules.WRONG_TYPE.at(place, message, help=help))
        return False
    other = params[param.at_least]
    least = other.default if isinstance(other, Param) else other
    if least is None or param.default is None or param.default >= least:
        return True
    message = f"the default of `{path[-1]}` must be >= `{param.at_least}`, {least:g}, got {param.default:g}"
    sink.add(rules.PARAM_OUT_OF_RANGE.at(file.span(*path, "default"), message))
    return False


def _with_fits(
    file: SchemaFile, path: tuple[str, ...], param: Param, params: Mapping[str, ParamField], sink: Sink
) -> bool:
    """Whether `with`, where it is given, names a parameter that may be missing as this one may; else reported."""
    if param.with_ is None:
        return True
    optional = [
        name for name, one in params.items() if name != path[-1] and isinstance(one, Param) and one.optional
    ]
    if param.optional and param.default is None and param.with_ in optional:
        return True
    message = f"`with: {param.with_}` is about two parameters that may be missing"
    help = suggestion(param.with_, optional)
    if not param.optional:
        help = "write `optional: true` beside it"
    elif param.default is not None:
        help = "leave its default out: with one it is never missing"
    sink.add(rules.WRONG_TYPE.at(file.span(*path, "with"), message, help=help))
    return False


def _is_number(param: ParamField) -> bool:
    """Whether a parameter is one number in each object."""
    if not isinstance(param, Param):
        return isinstance(param, (int, float)) and not isinstance(param, bool)
    if param.per_env or param.type not in (None, "int", "float"):
        return False
    return param.type is not None or (_is_number(param.default) if param.default is not None else False)


def _bounds(param: Param) -> list[float]:
    return [bound for bound in (param.min, param.max, param.above, param.below) if bound is not None]


def param_interval(param: Param, kind: str) -> Interval:
    """The values that the range of a parameter admits."""
    if kind == "bool":
        return Interval(0, 1)
    if param.unless is not None:
        return Interval(-math.inf, math.inf)
    low = max(bound for bound in (param.min, param.above, -math.inf) if bound is not None)
    high = min(bound for bound in (param.max, param.below, math.inf) if bound is not None)
    return Interval(low, high)


def flatten_value(value: Any) -> Iterator[Any]:
    """The numbers of nested lists, from the first to the last."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten_value(item)
    else:
        yield value


def shape_of_value(value: Any) -> tuple[int, ...] | None:
    """The shape of nested lists; ``None`` where they are uneven."""
    if not isinstance(value, (list, tuple)):
        return ()
    inner = {shape_of_value(item) for item in value}
    if len(inner) != 1 or None in inner:
        return None
    return (len(value), *(inner.pop() or ()))


def decides(given: ParamField | None) -> bool:
    """Whether a parameter is a truth value that is known when the transform is made."""
    return (
        isinstance(given, Param)
        and given.static
        and (given.type == "bool" or isinstance(given.default, bool))
    )


def check_range(name: str, param: Param, value: float, span: Span, sink: Sink) -> None:
    """Report a value outside the range that its declaration gives."""
    bounds = ((">=", param.min), ("<=", param.max), (">", param.above), ("<", param.below))
    wrong = [
        f"{sign} {bound}"
        for sign, bound in bounds
        if bound is not None and not COMPARISONS[sign](value, bound)
    ]
    if wrong:
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span, f"`{name}` must be {' and '.join(wrong)}, got {value}"))


def _is_drawn(text: str) -> bool:
    """Whether a text calls a function that draws."""
    found = TABLE.get(text.partition("(")[0].strip())
    return found is not None and found.family == "draw"


def refused_text(file: SchemaFile, path: tuple[str, ...], param: Param, sink: Sink, *, drawn: bool) -> bool:
    """Report a default that is a text where a number or a truth value is meant.

    Args:
        file: the file.
        path: the parameter.
        param: its declaration.
        sink: takes the mistake.
        drawn: whether such parameters may be drawn.

    Returns:
        Whether it is such a text.
    """
    node = file.node(*path)
    default = node.get("default") if isinstance(node, MappingNode) else node
    if not isinstance(default, Scalar) or not isinstance(default.value, str):
        return False
    if "(" in default.text:
        message = f"a default that is computed (`{default.text}`) is not available yet"
        help = "give a number, or leave the parameter to the caller"
        if drawn and _is_drawn(default.text):
            message = f"a default is the same for all environments, and `{default.text}` is drawn for each"
            help = f'write `{path[-1]}: {{draw: "{default.text}"}}`'
        sink.add(rules.NOT_AVAILABLE.at(default.span, message, help=help))
        return True
    read = {"int": default.as_int, "bool": default.as_bool}.get(param.type or "", default.as_float)
    read(sink)
    return True
