"""Names of printed values: those that nothing has yet, and expressions that read them."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Container, Iterable

from specgen.expr import Symbol, Typed
from specgen.expr.types import NO_OPTIONS
from specgen.program.program import Assign, Region, Statement
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


def called_functions(body: Iterable[Statement]) -> Iterable[str]:
    """The functions that statements call, which no variable beside them can be called."""
    for one in body:
        if isinstance(one, Region):
            yield from called_functions(one.body)
            continue
        values = (one.value,) if isinstance(one, Assign) else one.args
        yield from (node.function.text for value in values for node in value.nodes if node.function)


def hidden_builtins(texts: Iterable[str], names: Iterable[str]) -> set[str]:
    """Those of some variables that have the name of a function of Python's which the texts call."""
    found = {*vars(builtins)}.intersection(names)
    return {one for text in texts for one in _CALLED.findall(text) if one in found} if found else set()


_CALLED = re.compile(r"(?<![\w.])([a-z]+)\(")


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
