"""Types inside a chain: a transform's expressions inferred again for the keys it is bound to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from specgen.check.around_scope import any_of, fold_expression, given_around
from specgen.check.chain_model import Instance, Row
from specgen.check.model import Entry, Statement, identifier
from specgen.check.transform_model import AROUND_PHASES, CheckedTransform, Output, Phase
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.expr import ANYTHING, Binding, Interval, SpecType, Symbol, Type, check_assignable, infer, point
from specgen.expr.dtypes import FLOAT_RANGES
from specgen.expr.symbols import Time
from specgen.expr.tree import Call, Name, names_read_or_called


def check_row(
    instance: Instance, row: Row, phases: tuple[Phase, ...], span: Callable[..., Span], sink: Sink
) -> Row:
    """The row with every statement that applies to it typed; what doesn't fit is reported at the chain."""
    path = f"{instance.path}.{next(iter(row.inputs.values())).dotted}"
    bound: dict[Phase, tuple[Statement, ...]] = {}
    around = instance.transform.around
    symbols: dict[str, Symbol] = {}
    for phase in phases:
        scope = base_scope(instance)
        if statements := instance.statements(phase, row):
            given = (given_around if phase in AROUND_PHASES else _given)(f"{path}.", phase, row)
            scope |= given
            made = [binding.symbol for binding in given.values() if binding.symbol is not None]
            symbols |= {symbol.path.removeprefix(f"{path}."): symbol for symbol in made}
        typed_statements: list[Statement] = []
        for statement in statements:
            if _reads_reward_too_early(instance, phase, row, statement, span, sink):
                return row
            found = Sink()
            folds = around is not None and phase == "fold" and statement.target in row.inputs
            expr = fold_expression(around, statement) if around is not None and folds else statement.expr
            typed = infer(expr, scope, statement.source, found)
            if (
                phase in ("until", "skip")
                and typed is not None
                and statement.target == phase
                and typed.type.dims
            ):
                typed = infer(any_of(expr), scope, statement.source, found)
            target = row.entry(statement.target.removeprefix("next."))
            if typed is not None and target is not None:
                wanted = SpecType("pattern", target.type.dtype, target.type.dims)
                check_assignable(typed, wanted, statement.source, found, name=statement.target)
            if found.has_errors:
                first = next(item for item in found.items if item.severity == "error")
                key = next(iter(row.inputs.values()))
                sink.add(
                    rules.WRONG_INPUT.at(
                        span(),
                        f"`{instance.transform.name}` can't be applied to `{key.dotted}` "
                        f"({key.spec}): {first.message}",
                        notes=[Note(f"in `{statement.path}`", first.span)],
                        help=first.help,
                    )
                )
                return row
            if typed is not None:
                type_ = target.type if target is not None else typed.type
                symbol = Symbol(
                    f"{path}.{phase}.{statement.target}",
                    identifier(statement.target),
                    type_,
                    typed.interval,
                    _time(statement.target),
                    None if target is None else target.key,
                    statement.symbol.span,
                )
                scope[statement.target] = Binding(
                    type_,
                    typed.interval,
                    static=None if target else typed.static,
                    symbol=symbol,
                )
                typed_statements.append(replace(statement, typed=typed, symbol=symbol))
        bound[phase] = tuple(typed_statements)
    return replace(row, bound=bound, symbols=symbols)


def _given(path: str, phase: Phase, row: Row) -> dict[str, Binding]:
    """What a phase reads of a row's entries; an output has only its dtype before it is assigned at a reset."""
    scope: dict[str, Binding] = {}
    for name, entry in {**row.inputs, **row.outputs}.items():
        for full_name in (name, f"next.{name}") if phase == "step" else (name,):
            if phase == "reset" and name in row.outputs:
                scope[name] = Binding(Type(entry.type.dtype, (), "lit"), point(0), static=0)
                continue
            symbol = Symbol(
                f"{path}{phase}.in.{full_name}",
                identifier(full_name),
                entry.type,
                entry.spec.interval,
                _time(full_name),
                entry.key,
            )
            scope[full_name] = Binding(entry.type, symbol.interval, what="key", symbol=symbol)
    return scope


def _time(name: str) -> Time:
    return "next" if name.startswith("next.") else "now"


def _reads_reward_too_early(
    instance: Instance, phase: Phase, row: Row, statement: Statement, span: Callable[..., Span], sink: Sink
) -> bool:
    """Report a statement that reads a reward where there is none: at a reset, or before the step."""
    if phase not in ("reset", "step"):
        return False
    for name in names_read_or_called(statement.expr):
        entry = row.inputs.get(name.path)
        if entry is not None and entry.role == "reward":
            where = "at a reset" if phase == "reset" else "before a step"
            sink.add(
                rules.NO_REWARD_YET.at(
                    span(),
                    f"`{instance.transform.name}` can't be applied to the reward `{entry.dotted}`: "
                    f"it reads its value {where}",
                    notes=[Note(f"in `{statement.path}`", statement.source.span_of(name.start, name.end))],
                    help="there is a reward behind each step only: read `next."
                    f"{name.path}`, or the shape of an output",
                )
            )
            return True
    return False


def cast_bounds(transform: CheckedTransform, output: Output, source: Entry, made: Entry) -> Entry:
    """`made` with the bounds of `source`, where the transform does nothing but cast one to the other."""
    if source.spec.kind != "bounded" or made.spec.dtype not in FLOAT_RANGES:
        return made
    pairs = {(s.target, s.expr) for s in transform.map} | {(s.target, s.expr) for s in transform.inverse}
    names = {output.name, output.each}
    for target, expr in pairs:
        match expr:
            case Call(Name("float32" | "float64"), (Name(read),), ()) if {target, read} == names:
                spec = replace(made.spec, kind="bounded", low=source.spec.low, high=source.spec.high)
                return replace(made, spec=spec)
    return made


def base_scope(instance: Instance) -> dict[str, Binding]:
    """What a transform's expressions see of its parameters, whose values a chain knows."""
    scope: dict[str, Binding] = {}
    for param in instance.transform.params:
        value = instance.params[param.name]
        if param.kind == "tensor" and value is not None:
            type_ = Type("float32", shape_of(value), "const")
            values = interval_of(value)
            symbol = Symbol(f"{instance.path}.params.{param.name}", param.name, type_, values)
            scope[param.name] = Binding(type_, values, what="parameter", symbol=symbol)
        elif value is None:
            scope[param.name] = Binding(
                Type(_dtype(param.kind), (), "lit"), ANYTHING, static=None, what="missing"
            )
        else:
            number = float(value) if param.kind == "float" else value
            scope[param.name] = Binding(
                Type(_dtype(param.kind), (), "lit"),
                point(number),
                static=number,
                what="parameter",
            )
    return scope


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of nested lists (they are known to be regular)."""
    return (len(value), *shape_of(value[0])) if isinstance(value, list) else ()


def interval_of(value: Any) -> Interval:
    """The smallest interval around the numbers in nested lists."""
    numbers = list(_flat(value))
    return Interval(min(numbers), max(numbers))


def _dtype(kind: str) -> str:
    return {"int": "int64", "float": "float32", "bool": "bool", "tensor": "float32"}[kind]


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value
