"""Parameters that differ between the environments of a batch: given as tensors, or drawn at each reset.

Such a parameter is kept like a state key that `step` never assigns: it has an entry, and the constructor's value
or a draw fills it at reset.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from specgen.check.model import PARAM_DTYPES, Entry, Parameter, ParamKind
from specgen.check.param_values import (
    check_range,
    empty_range,
    ends,
    flatten_value,
    param_interval,
    range_of,
    shape_of_value,
)
from specgen.check.reads import Assignment, broken_reads, misplaced_reads
from specgen.check.specs import parse_spec
from specgen.check.statements import made_statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Expr, Function, SpecType, Typed, check_assignable, infer, parse
from specgen.expr.dtypes import INT_RANGES, holds, is_float
from specgen.expr.sizes import ANY_DIMS
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile, describe
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import dataclass


@dataclass(frozen=True)
class _DrawNames:
    """What a draw may read and call, and what to say of other names; `later` are the parameters declared after it."""

    scope: Mapping[str, Binding]
    functions: Mapping[str, Function]
    broken: frozenset[str]
    absent: Mapping[str, str]
    later: Mapping[str, Assignment]


def differing(params: Mapping[str, Any]) -> dict[str, Param]:
    """The parameters that have a value for each environment."""
    return {
        name: param
        for name, param in params.items()
        if isinstance(param, Param) and (param.per_env or param.draw is not None)
    }


def absent_in_functions(params: Mapping[str, Any]) -> dict[str, str]:
    """What to say of a function that reads such a parameter."""
    return {
        name: f"`{name}` differs between environments: pass it to the function as an argument"
        for name in differing(params)
    }


def wrong_targets(params: Mapping[str, Any]) -> dict[str, str]:
    """What to say of a `step` that assigns such a parameter."""
    return {
        f"next.{name}": f"parameter `{name}` keeps its value until the next reset; what changes is a state key"
        for name in differing(params)
    }


def check_per_env(
    file: SchemaFile,
    path: tuple[str, ...],
    params: Mapping[str, Any],
    dims: Mapping[str, int],
    fixed: Mapping[str, Binding],
    functions: Mapping[str, Function],
    broken: frozenset[str],
    absent: Mapping[str, str],
    sink: Sink,
) -> dict[str, Parameter]:
    """Check the parameters of the declaration at `path` that differ between environments.

    Args:
        file: where it is declared.
        path: the declaration.
        params: all its parameters; names are claimed already.
        dims: named sizes, for types.
        fixed: what a draw may read besides the parameters of this kind before it.
        functions: what it may call.
        broken: names whose mistakes have been reported.
        absent: names that a draw can't read, with what to say.
        sink: takes every mistake.
    """
    checked: dict[str, Parameter] = {}
    scope = dict(fixed)
    pending = {
        name: param for name, param in differing(params).items() if name not in fixed and "." not in name
    }
    lost = set(broken)
    for name, param in pending.items():
        here = (*path, "params", name)
        behind = list(pending)[list(pending).index(name) :]
        names = _DrawNames(scope, functions, frozenset(lost), absent, _entries(file, here[:-1], behind))
        made = _check(file, here, name, param, dims, names, sink)
        if made is None or made.entry is None:
            lost.add(name)
            continue
        checked[name] = made
        entry = made.entry
        symbol = entry.symbol(".".join((*path, "reset", name)))
        scope[name] = Binding(entry.type, entry.spec.interval, what="parameter", symbol=symbol)
    return checked


def _check(
    file: SchemaFile,
    here: tuple[str, ...],
    name: str,
    param: Param,
    dims: Mapping[str, int],
    names: _DrawNames,
    sink: Sink,
) -> Parameter | None:
    if param.optional or param.static:
        what = "optional" if param.optional else "static"
        message = f"`{what}: true` does not go with a value for each environment"
        sink.add(rules.NOT_AVAILABLE.at(file.span(*here, what), message))
        return None
    if param.draw is not None and param.default is not None:
        message = f"`{name}` has a default and a draw: its value would come from two places"
        help = "leave one out; a value that the constructor is given takes the place of the draw"
        sink.add(rules.PARAM_SOURCE.at(file.key_span(*here, "default"), message, help=help))
        return None
    drawn = None
    if param.draw is not None:
        drawn = _draw(file, here, name, names, sink)
        if drawn is None:
            return None
    spec = _spec(file, here, name, param, dims, drawn and drawn[2], sink)
    if spec is None or (drawn is None and not _default_fits(file, here, name, param, spec, sink)):
        return None
    if drawn is not None and not _draw_fits(name, param, spec, *drawn[1:], sink):
        return None
    entry = Entry((name,), "state", spec, spec.type(), param.doc, file.key_span(*here))
    kind: ParamKind = next(kind for kind, dtype in PARAM_DTYPES.items() if dtype == spec.dtype)
    default = _as_tuple(param.default)
    if is_float(spec.dtype) and isinstance(default, int):
        default = float(default)
    return Parameter(
        name,
        kind,
        default,
        param.doc,
        range_of(param),
        interval=param_interval(param, kind),
        entry=entry,
        draw=None
        if drawn is None
        else made_statement(here, name, *drawn, entry.symbol(".".join((*here[:-2], "reset", name)))),
        span=entry.span,
    )


def _draw(
    file: SchemaFile, here: tuple[str, ...], name: str, names: _DrawNames, sink: Sink
) -> tuple[Expr, Scalar, Typed] | None:
    """The expression of a draw: as parsed, its text, and typed."""
    source = file.scalar(*here, "draw")
    expr = parse(source, sink)
    if (
        expr is None
        or broken_reads(expr, names.broken)
        or misplaced_reads(expr, source, names.scope.keys(), names.absent, names.later, sink)
    ):
        return None
    typed = infer(expr, names.scope, source, sink, functions=names.functions, draw_prefix=f"draw_{name}")
    return None if typed is None else (expr, source, typed)


def _entries(file: SchemaFile, path: tuple[str, ...], names: Collection[str]) -> dict[str, Assignment]:
    """The entries of `names` in the mapping at `path`."""
    node = file.node(*path)
    entries = node.entries if isinstance(node, MappingNode) else ()
    return {key.text: (key, value) for key, value in entries if key.text in names}


def _spec(
    file: SchemaFile,
    here: tuple[str, ...],
    name: str,
    param: Param,
    dims: Mapping[str, int],
    drawn: Typed | None,
    sink: Sink,
) -> SpecType | None:
    """Dtype, shape and domain: of `type` if there is one, else of the draw or of the default."""
    if param.type in PARAM_DTYPES:
        shape = shape_of_value(param.default) if drawn is None else drawn.type.dims
        base = SpecType("unbounded", PARAM_DTYPES[param.type], ANY_DIMS if shape is None else shape)
    elif param.type is not None:
        parsed = parse_spec(file.scalar(*here, "type"), sink, dims)
        if parsed is None:
            return None
        if parsed.kind != "unbounded" or parsed.dtype not in PARAM_DTYPES.values():
            sink.add(
                rules.WRONG_TYPE.at(
                    file.span(*here, "type"),
                    f"`{param.type}` is no type of a parameter",
                    help=f"write {', '.join(PARAM_DTYPES)}, or a dtype with a shape such as float32[3];"
                    " the range goes into min, max, above and below",
                )
            )
            return None
        base = parsed
    elif drawn is not None:
        # an expression of Python numbers has no dtype of its own yet: it is stored as float32 or int64
        base = SpecType("unbounded", drawn.type.dtype, drawn.type.dims)
    else:
        shape = shape_of_value(param.default)
        base = SpecType("unbounded", _dtype(param.default), ANY_DIMS if shape is None else shape)
    if base.type().open:
        message = f"`{name}` needs a default that is a number, a truth value or an even list of them"
        sink.add(rules.WRONG_TYPE.at(file.span(*here), message))
        return None
    if not range_of(param):
        return base
    if base.dtype == "bool":
        sink.add(rules.WRONG_TYPE.at(file.span(*here), f"`{name}` is a truth value and has no range"))
        return None
    if empty_range(file, here, param, base.dtype, sink):
        return None
    low, high = ends(param, base.dtype)
    return SpecType("bounded", base.dtype, base.shape, low, high)


def _default_fits(
    file: SchemaFile, here: tuple[str, ...], name: str, param: Param, spec: SpecType, sink: Sink
) -> bool:
    """Whether the default is of the declared type and shape and in its range."""
    values = list(flatten_value(param.default))
    span = file.span(*here, "default") if param.default is not None else file.span(*here)
    shape = shape_of_value(param.default)
    if not values or shape is None or any(not _is_value(value, spec.dtype) for value in values):
        shown = describe(None, param.default) if param.default is not None else "none"
        message = f"the default of `{name}` should be {spec}, got {shown}"
        sink.add(rules.WRONG_TYPE.at(span, message))
        return False
    if shape not in ((), spec.dims):
        message = f"`{name}` is {spec}, its default has shape {list(shape)}"
        sink.add(rules.WRONG_TYPE.at(span, message))
        return False
    mine = Sink()
    for value in values:
        check_range(name, param, value, span, mine)
    sink.extend(mine.items)
    return not mine.has_errors


def _draw_fits(name: str, param: Param, spec: SpecType, source: Scalar, typed: Typed, sink: Sink) -> bool:
    """Whether every value that can be drawn is stored as it is, and in the range."""
    if not check_assignable(typed, spec, source, sink, name=name):
        return False
    inside = typed.interval.within(spec.interval)
    if inside and is_float(spec.dtype):  # the spec of floats has no open ends, the range has
        inside = (param.above is None or typed.interval.low > param.above) and (
            param.below is None or typed.interval.high < param.below
        )
    if spec.kind != "bounded" or inside:
        return True
    text = source.text[typed.start : typed.end]
    wanted = " and ".join(f"{sign} {bound:g}" for sign, bound in range_of(param))
    message = f"a draw of `{name}` may be {_beyond(typed, spec, param)}; it must be {wanted}"
    low, high = spec.interval.low, spec.interval.high
    bounds = f"{low:g}, {high:g}"
    help = (
        "the range leaves its end out: draw from a narrower one" if typed.interval.within(spec.interval) else
        f"write clip({text}, {bounds})" if math.isfinite(low) and math.isfinite(high) else
        f"write {'max' if math.isfinite(low) else 'min'}({text}, …), or draw from a narrower range"
    )  # fmt: skip
    sink.add(rules.PARAM_OUT_OF_RANGE.at(source.span_of(typed.start, typed.end), message, help=help))
    return False


def _beyond(typed: Typed, spec: SpecType, param: Param) -> str:
    got, allowed = typed.interval, spec.interval
    low = got.low < allowed.low or (got.high <= allowed.high and got.low == param.above)
    return f"as low as {got.low:g}" if low else f"as high as {got.high:g}"


def _dtype(default: object) -> str:
    values = list(flatten_value(default))
    if values and all(isinstance(value, bool) for value in values):
        return "bool"
    return "int64" if values and all(isinstance(value, int) for value in values) else "float32"


def _is_value(value: object, dtype: str) -> bool:
    if isinstance(value, bool) or dtype == "bool":
        return isinstance(value, bool) and dtype == "bool"
    if not isinstance(value, (int, float)) or (dtype in INT_RANGES and not isinstance(value, int)):
        return False
    return math.isfinite(value) and holds(dtype, value)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, (list, tuple)) else value
