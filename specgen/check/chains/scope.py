"""What a transform's expressions see in a chain besides entries: parameters, whose values it knows, and which keys are there."""

from __future__ import annotations

from typing import Any

from specgen.check.chains.model import Instance, Row
from specgen.check.model import Parameter, Statement
from specgen.check.transforms.model import CheckedTransform
from specgen.check.transforms.names import NTH
from specgen.diagnostics import Span
from specgen.expr import ANYTHING, Binding, Interval, Symbol, Type, point
from specgen.expr.tree import names_read_or_called


def given_keys(transform: CheckedTransform, row: Row) -> dict[str, Binding]:
    """What `given` says of the optional roles of a transform in a repetition."""
    known = {role.name: role.name in row.inputs for role in transform.roles if role.may_be_missing}
    return {
        f"given({prefix}{name})": Binding(Type("bool", (), "lit"), point(there), static=there)
        for name, there in known.items()
        for prefix in ("", "next.")
    }


def base_scope(instance: Instance) -> dict[str, Binding]:
    """What a transform's expressions see of its parameters, whose values a chain knows."""
    scope: dict[str, Binding] = {}
    for param in instance.transform.params:
        value = instance.params[param.name]
        if param.optional:
            given = value is not None
            scope[f"given({param.name})"] = Binding(Type("bool", (), "lit"), point(given), static=given)
        if isinstance(value, Parameter):
            chain = instance.path.rpartition(".")[0]
            symbol = value.symbol(chain)
            scope[param.name] = Binding(value.type, value.interval, what="parameter", symbol=symbol)
        elif param.kind == "tensor" and value is not None:
            type_ = Type("float32", shape_of(value), "const")
            values = interval_of(value)
            symbol = Symbol(f"{instance.path}.params.{param.name}", param.name, type_, values)
            scope[param.name] = Binding(type_, values, what="parameter", symbol=symbol)
        elif value is None:
            scope[param.name] = Binding(
                Type(_dtype(param.kind), (), "lit"), ANYTHING, static=None, what="missing"
            )
        elif isinstance(value, tuple):
            kind = Type("list", (), "lit")
            scope[param.name] = Binding(kind, ANYTHING, what="parameter", items=value)
        elif param.kind == "enum":
            for word in param.choices:
                scope.setdefault(word, Binding(Type("str", (), "lit"), ANYTHING, static=word, what="word"))
            kind = Type("str", (), "lit")
            scope[param.name] = Binding(kind, ANYTHING, static=value, what="parameter")
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
    dtypes = {"int": "int64", "float": "float32", "bool": "bool", "tensor": "float32", "enum": "str"}
    return dtypes.get(kind, "int64")


def _flat(value: Any) -> Any:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def of_part(statement: Statement, scope: dict[str, Binding]) -> dict[str, Binding]:
    """What a statement of an inverse reads; for one of several keys, `parts.1`, its number and the key itself, too."""
    role, _, number = statement.target.partition(".")
    if not number:
        return scope
    nth = Binding(Type("int64", (), "lit"), point(int(number)), static=int(number), what="number of a key")
    return {**scope, role: scope[statement.target], NTH: nth}


def argument_at(instance: Instance, statement: Statement, span: Span) -> tuple[str, ...]:
    """The parameter of a transform that a statement reads at a place; none where something else stands there."""
    names = (name for name in names_read_or_called(statement.expr) if name.path in instance.params)
    return next(((one.path,) for one in names if statement.source.span_of(one.start, one.end) == span), ())
