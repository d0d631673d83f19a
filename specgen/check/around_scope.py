"""What the parts of `around` read of a row's entries in a chain, and what a fold computes."""

from __future__ import annotations

from specgen.check.chains.model import Row
from specgen.check.model import Statement, identifier
from specgen.check.transforms.model import Around, Phase
from specgen.check.transforms.names import NTH
from specgen.expr import ANYTHING, Binding, Expr, Interval, Symbol, Type
from specgen.expr.symbols import Key, Time
from specgen.expr.tree import Call, Compare, Literal, Name


def given_around(path: str, phase: Phase, row: Row, count: float) -> dict[str, Binding]:
    """What a part of `around` reads of a row's entries, and the number of the repetition, of `count`."""
    scope: dict[str, Binding] = {}

    def give(name: str, type_: Type, values: Interval, key: Key | None) -> None:
        time: Time = "next" if name.startswith("next.") else "now"
        symbol = Symbol(f"{path}{phase}.in.{name}", identifier(name), type_, values, time, key)
        scope[name] = Binding(type_, values, what="key", symbol=symbol)

    if phase == "action":
        for name, entry in row.outputs.items():
            give(name, entry.type, entry.spec.interval, entry.key)
        give(NTH, Type("int64", (), "ctor"), Interval(0, count - 1), None)
        return scope
    repeats = phase in ("until", "fold", "collect")
    roles = dict.fromkeys(name.partition(".")[0] for name in row.inputs if "." in name)
    for role in roles:  # of several keys
        names = [name for name in row.inputs if name.partition(".")[0] == role]
        for prefix in ("", "next.") if repeats else ("",):
            several = tuple(f"{prefix}{name}" for name in names)
            scope[f"{prefix}{role}"] = Binding(Type("any"), ANYTHING, what="several keys", several=several)
    for name, entry in row.inputs.items():
        give(name, entry.type, entry.spec.interval, entry.key)
        if not repeats:
            continue
        give(f"next.{name}", entry.type, entry.spec.interval, entry.key)
        if phase == "fold":
            give(f"acc.{name}", entry.type, ANYTHING, None)
    if repeats:
        give(NTH, Type("int64", (), "ctor"), Interval(0, count - 1), None)
    return scope


def fold_expression(around: Around, statement: Statement) -> Expr:
    """What a fold computes at each repetition: the first one's value is taken as it is; a sum may begin with 0."""
    expr, target = statement.expr, statement.target
    if target in around.sums:
        return expr
    at = (expr.start, expr.end)
    first = Compare(("==",), (Name(NTH, *at), Literal(0, "0", *at)), *at)
    return Call(Name("where", *at), (first, Name(f"next.{target}", *at), expr), (), *at)


def any_of(expr: Expr) -> Expr:
    """Whether a condition holds for any element of a row."""
    at = (expr.start, expr.end)
    return Call(Name("any", *at), (expr,), (), *at)
