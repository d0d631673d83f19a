"""Constant tables and named sizes: what an environment knows when it is built."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from specgen.check.model import Constant
from specgen.check.names import Names
from specgen.check.param_values import flatten_value
from specgen.check.specs import parse_spec
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Interval, SpecType, Type, point
from specgen.expr.dtypes import holds, is_int
from specgen.expr.spec_limits import number_fault
from specgen.schema.fields import Const
from specgen.schema.load import SchemaFile, describe

Place = tuple[str | int, ...]


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
        scope[name] = Binding(type_, interval, what="constant", symbol=symbol)
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
        scope[name] = Binding(Type("int64", (), "lit"), point(size), static=size, what="dim")
    return scope


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
