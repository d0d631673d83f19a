"""The bounds of what the environment takes, as tables of a chain that its inverses read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specgen.check.chains.model import Instance
from specgen.check.chains.scope import shape_of
from specgen.check.model import Constant, Entry, identifier
from specgen.check.transforms.entries import Role
from specgen.check.transforms.inverse import bound_names
from specgen.expr import Binding, Interval, Symbol, Type
from specgen.expr.spec_limits import Bound, flatten


def bound_tables(
    instance: Instance, roles: Sequence[Role], inputs: Mapping[str, Entry]
) -> Iterator[tuple[str, Constant]]:
    """The bounds of what the environment takes, as tables of the chain, by what expressions call them."""
    for role in roles:
        entry = inputs.get(role.name)
        for (name, argument), side in zip(bound_names(role), ("low", "high"), strict=False):
            if entry is None:
                continue
            bound: Bound = getattr(entry.spec, side)
            value = _listed(bound)
            own = argument.removeprefix(f"{role.name}_")
            called = f"{instance.field}_{entry.name}_{own}"
            type_ = Type(entry.spec.dtype, shape_of(value), "const")
            yield name, Constant(called, type_, value, f"the {side} bounds of `{entry.dotted}`")


def _listed(bound: Bound) -> Any:
    return [_listed(one) for one in bound] if isinstance(bound, tuple) else bound


def table_symbols(instance: Instance, tables: Mapping[str, Constant]) -> Iterator[tuple[Symbol, Constant]]:
    """What expressions of a transform read for each table."""
    for name, table in tables.items():
        path = f"{instance.path}.{table.name}"
        numbers = list(flatten(table.value if not isinstance(table.value, list) else _tupled(table.value)))
        values = Interval(min(numbers), max(numbers))
        yield Symbol(path, identifier(name.replace("(", "_").replace(")", "")), table.type, values), table


def _tupled(value: Any) -> Any:
    return tuple(_tupled(one) for one in value) if isinstance(value, list) else value


def tables_scope(instance: Instance, tables: Mapping[str, Constant]) -> dict[str, Binding]:
    """The tables as expressions call them: `low(u)`."""
    symbols = [symbol for symbol, _ in table_symbols(instance, tables)]
    return {
        name: Binding(symbol.type, symbol.interval, what="bound", symbol=symbol)
        for name, symbol in zip(tables, symbols, strict=True)
    }
