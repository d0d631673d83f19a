"""Types inside a chain: a transform's expressions inferred again for the keys it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from specgen.check.chain_model import ChainKey, Instance, Row
from specgen.check.model import Statement, identifier
from specgen.check.transform_model import CheckedTransform, Output
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import flow as rules
from specgen.expr import ANYTHING, Binding, Interval, SpecType, Type, check_assignable, infer, point
from specgen.expr.dtypes import FLOAT_RANGES
from specgen.expr.tree import Call, Name, names_read_or_called

Time = Literal["root", "next"]
Phase = Literal["reset", "step", "map", "inverse"]


def check_row(
    instance: Instance, row: Row, entries: Mapping[str, ChainKey], span: Callable[..., Span], sink: Sink
) -> None:
    """Infer every statement that applies to a row; what doesn't fit is reported at the chain."""
    inverse = row in instance.inverse_rows
    phases: tuple[Phase, ...] = ("inverse",) if inverse else ("reset", "step", "map")
    for phase in phases:
        scope = base_scope(instance, lambda name: name)
        for name in (*row.inputs, *row.outputs):
            entry = row.entry(name)
            if entry is None:
                continue
            scope[name] = entry_binding(entry, identifier(name))
            if phase == "step":
                scope[f"next.{name}"] = entry_binding(entry, identifier(f"next.{name}"))
        for statement in instance.statements(phase, row):
            if _reads_reward_too_early(instance, phase, row, statement, span, sink):
                return
            found = Sink()
            typed = infer(statement.expr, scope, statement.source, found)
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
                return
            if typed is not None:
                type_ = target.type if target is not None else typed.type
                scope[statement.target] = Binding(
                    identifier(statement.target),
                    type_,
                    typed.interval,
                    static=None if target else typed.static,
                )


def _reads_reward_too_early(
    instance: Instance, phase: Phase, row: Row, statement: Statement, span: Callable[..., Span], sink: Sink
) -> bool:
    """Report a statement that reads a reward where there is none: at a reset, or before the step."""
    if phase not in ("reset", "step"):
        return False
    for name in names_read_or_called(statement.expr):
        entry = row.inputs.get(name.path)
        if entry is not None and entry.group == "reward":
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


def cast_bounds(transform: CheckedTransform, output: Output, source: ChainKey, made: ChainKey) -> ChainKey:
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


def base_scope(instance: Instance, const_text: Callable[[str], str]) -> dict[str, Binding]:
    """What a transform's expressions see of its parameters, whose values a chain knows.

    Args:
        instance: the transform in its chain.
        const_text: how a parameter that is a tensor is read.
    """
    scope: dict[str, Binding] = {}
    for param in instance.transform.params:
        value = instance.params[param.name]
        if param.kind == "tensor" and value is not None:
            type_ = Type("float32", shape_of(value), "const")
            numbers = list(_flat(value))
            scope[param.name] = Binding(
                const_text(param.name), type_, Interval(min(numbers), max(numbers)), what="parameter"
            )
        elif value is None:
            scope[param.name] = Binding(
                "None", Type(_dtype(param.kind), (), "lit"), ANYTHING, static=None, what="missing"
            )
        else:
            number = float(value) if param.kind == "float" else value
            scope[param.name] = Binding(
                repr(number),
                Type(_dtype(param.kind), (), "lit"),
                point(number),
                static=number,
                what="parameter",
            )
    return scope


def entry_binding(entry: ChainKey, text: str) -> Binding:
    """What an expression sees of an entry."""
    return Binding(text, entry.type, entry.spec.interval, what="key")


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of nested lists (they are known to be regular)."""
    return (len(value), *shape_of(value[0])) if isinstance(value, list) else ()


def _dtype(kind: str) -> str:
    return {"int": "int64", "float": "float32", "bool": "bool", "tensor": "float32"}[kind]


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value
