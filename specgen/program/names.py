"""Names of printed values: those that nothing has yet, and expressions that read them."""

from __future__ import annotations

from collections.abc import Callable, Container

from specgen.expr import Symbol, Typed
from specgen.expr.types import NO_OPTIONS
from specgen.program.walk import with_parts


def numbered(wanted: str, taken: Container[str]) -> str:
    """The name, or the first of `wanted_2`, `wanted_3`, … that is free: for values of a function."""
    name, count = wanted, 2
    while name in taken:
        name, count = f"{wanted}_{count}", count + 1
    return name


def underscored(wanted: str, taken: Container[str]) -> str:
    """The name with as many underscores behind it as make it free: for fields of records, which users read."""
    while wanted in taken:
        wanted += "_"
    return wanted


def with_names(expr: Typed, name: Callable[[Symbol], str]) -> Typed:
    """`expr` with the text that reads each symbol."""
    if expr.op != "name":
        return with_parts(expr, lambda part: with_names(part, name))
    symbol = expr.symbol
    if symbol is None or expr.static is not None:
        return expr
    absent = expr.options.get("absent")
    text = f"not_none({name(symbol)})" if absent == "absent" else name(symbol)
    options = {"several": True} if expr.several else {"absent": absent} if absent else NO_OPTIONS
    return Typed("name", symbol.type, symbol.interval, options=options, text=text, symbol=symbol)
