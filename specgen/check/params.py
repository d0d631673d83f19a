"""Constructor parameters, constants and dims: what every declaration may start with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from specgen.check.model import Constant, Parameter
from specgen.check.names import Names, refused
from specgen.check.specs import parse_spec
from specgen.check.value_faults import PARAM_TYPES, empty_range, misfit, range_of, refused_value, unusable
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Interval, Type, point
from specgen.expr.dtypes import holds
from specgen.schema.fields import Const, Param
from specgen.schema.load import SchemaFile
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar

KEYWORDS = frozenset({"batch_size", "device"})
"""Keywords that the constructor of every environment has."""


def check_params(
    file: SchemaFile, path: tuple[str, ...], params: Mapping[str, Any], names: Names, sink: Sink
) -> tuple[tuple[Parameter, ...], dict[str, Binding]]:
    """Check the `params:` of a declaration at `path`: those that are one number for the whole batch.

    Returns:
        The constructor keywords, and what expressions see under their names. Parameters that differ between
        environments are left to `check_per_env`; only their names are claimed.
    """
    checked: list[Parameter] = []
    scope: dict[str, Binding] = {}
    for name, given in params.items():
        here = (*path, "params", name)
        param = given if isinstance(given, Param) else Param(default=given)
        per_env = param.per_env or param.draw is not None
        if name in KEYWORDS:
            sink.add(refused(name, "every environment has this keyword", "parameter", file.key_span(*here)))
            continue
        # what differs between environments is also a key of the tensordict: see `check_per_env`
        what = "parameter key" if per_env else "parameter"
        if not names.claim(name, what, file.key_span(*here)) or per_env:
            continue
        if unusable(file, here, param, sink) or refused_text(file, here, param, sink):
            continue
        kind = param.type or _kind_of(param.default)
        if not _fits(kind, param.default):
            message, help = misfit(file, here, kind, param.default)
            sink.add(rules.WRONG_TYPE.at(file.span(*here, "default"), message, help=help))
            continue
        if empty_range(file, here, param, PARAM_TYPES[kind], sink):
            continue
        check_range(name, param, param.default, file.span(*here, "default"), sink)
        annotation = "float" if kind == "float64" else kind
        value = float(param.default) if annotation == "float" else param.default
        interval = param_interval(param, kind)
        made = Parameter(
            name,
            annotation,
            value,
            param.doc,
            range_of(param),
            PARAM_TYPES[kind],
            interval,
            span=file.key_span(*here),
        )
        checked.append(made)
        symbol = made.symbol(".".join(path))
        scope[name] = Binding(f"params.{name}", symbol.type, interval, what="parameter", symbol=symbol)
    return tuple(checked), scope


def refused_text(file: SchemaFile, path: tuple[str, ...], param: Param, sink: Sink) -> bool:
    """Report a default that is a text where a number or a truth value is meant."""
    node = file.node(*path)
    default = node.get("default") if isinstance(node, MappingNode) else node
    if not isinstance(default, Scalar) or not isinstance(default.value, str):
        return False
    if param.type not in (None, *PARAM_TYPES):
        return False
    read = {"int": default.as_int, "bool": default.as_bool}.get(param.type or "", default.as_float)
    read(sink)
    return True


def check_range(name: str, param: Param, value: float, span: Span, sink: Sink) -> None:
    """Report a value outside the range that its declaration gives."""
    wrong = [
        f"{sign} {bound}"
        for sign, bound, holds_ in (
            (">=", param.min, param.min is None or value >= param.min),
            ("<=", param.max, param.max is None or value <= param.max),
            (">", param.above, param.above is None or value > param.above),
            ("<", param.below, param.below is None or value < param.below),
        )
        if not holds_
    ]
    if wrong:
        sink.add(rules.PARAM_OUT_OF_RANGE.at(span, f"`{name}` must be {' and '.join(wrong)}, got {value}"))


def check_consts(
    file: SchemaFile,
    path: tuple[str, ...],
    consts: Mapping[str, Const],
    dims: Mapping[str, int],
    names: Names,
    sink: Sink,
) -> tuple[tuple[Constant, ...], dict[str, Binding]]:
    """Check the constant tables of a declaration: type, shape and range of every element."""
    checked: list[Constant] = []
    scope: dict[str, Binding] = {}
    for name, const in consts.items():
        here = (*path, "consts", name)
        if not names.claim(name, "constant", file.key_span(*here)):
            continue
        spec = parse_spec(file.scalar(*here, "type"), sink, dims)
        if spec is None:
            continue
        if refused_value(file, here, const.value, spec, sink):
            continue
        values = list(flatten_value(const.value))
        type_ = spec.type("const")
        interval = Interval(min(values), max(values))
        made = Constant(name, type_, const.value, const.doc, interval, file.key_span(*here))
        checked.append(made)
        symbol = made.symbol(".".join(path))
        scope[name] = Binding(f"consts.{name}", type_, interval, what="constant", symbol=symbol)
    return tuple(checked), scope


def check_dims(
    file: SchemaFile, path: tuple[str, ...], dims: Mapping[str, int], names: Names, sink: Sink
) -> dict[str, Binding]:
    """Check named sizes: positive whole numbers known at build."""
    scope: dict[str, Binding] = {}
    for name, size in dims.items():
        here = (*path, "dims", name)
        if not names.claim(name, "dim", file.key_span(*here)):
            continue
        if size < 1:
            sink.add(
                rules.PARAM_OUT_OF_RANGE.at(file.span(*here), f"dim `{name}` must be at least 1, got {size}")
            )
            continue
        if not holds("int64", size):
            sink.add(
                rules.PARAM_OUT_OF_RANGE.at(
                    file.span(*here), f"dim `{name}` is {size}, which is larger than int64 holds"
                )
            )
            continue
        scope[name] = Binding(str(size), Type("int64", (), "lit"), point(size), static=size, what="dim")
    return scope


def _kind_of(default: object) -> str:
    return "bool" if isinstance(default, bool) else "int" if isinstance(default, int) else "float"


def _fits(kind: str, default: object) -> bool:
    if isinstance(default, bool):
        return kind == "bool"
    if kind in ("int", "bool"):
        return kind == "int" and isinstance(default, int) and holds(PARAM_TYPES[kind], default)
    return isinstance(default, (int, float)) and math.isfinite(default)


def param_interval(param: Param, kind: str) -> Interval:
    """The values that the range of a parameter admits."""
    if kind == "bool":
        return Interval(0, 1)
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
