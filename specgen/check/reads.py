"""What an expression reads that it can't read here: said before inference calls the name undefined."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from specgen.check.unread import expression_of
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import Binding, Expr, Function, infer, parse
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.tree import Call, Name, calls_in, names_read_or_called, subexpressions
from specgen.expr.unknown import each_name_once
from specgen.source import Node, Scalar
from specgen.values import replace

Assignment: TypeAlias = tuple[Scalar, Node]
"""A name that is assigned, and what."""


def broken_reads(expr: Expr, broken: Collection[str]) -> bool:
    """Whether an expression reads or calls something whose own mistake has been reported already."""
    return bool(broken) and any(name.path in broken for name in names_read_or_called(expr))


def misplaced_reads(
    expr: Expr,
    source: Scalar,
    known: Collection[str],
    absent: Mapping[str, str],
    later: Mapping[str, Assignment],
    sink: Sink,
) -> bool:
    """Report reads of names that exist, but not here.

    Args:
        expr: the expression.
        source: its text.
        known: names that it may read.
        absent: names that mean something elsewhere in the declaration, with what to say.
        later: the assignments from this one on, by their name.
        sink: takes what is found.

    Returns:
        Whether anything was found.
    """
    found = set[str]()
    for name in names_read_or_called(expr):
        if name.path in known or name.path in found or not (name.path in absent or name.path in later):
            continue
        found.add(name.path)
        calls = {call.function for call in calls_in(expr)}
        span = source.span_of(name.start, name.end)
        if name in calls and name.path in CALLABLE:
            hidden = f"`{name.path}` is a name of this declaration's own, which hides the built-in function"
            sink.add(rules.BUILTIN_HIDDEN.at(span, hidden, help=f"give your own `{name.path}` another name"))
        elif name.path in absent:
            sink.add(rules.UNDEFINED.at(span, f"`{name.path}` is not known here", help=absent[name.path]))
        else:
            notes = [Note("it is assigned here", later[name.path][0].span)]
            message = f"`{name.path}` is read before it is assigned"
            help = "assign it above this line"
            if own := _circle(name.path, source, later):
                message = f"`{name.path}` is computed from itself"
                if own != name.path:
                    message = f"`{own}` reads `{name.path}`, which is computed from `{own}`"
                help = "let one of them do without the other"
                if own == name.path:
                    notes, help = [], "read another value, or give this one another name"
            sink.add(rules.UNDEFINED.at(span, message, notes=notes, help=help))
    return bool(found)


def _circle(read: str, source: Scalar, later: Mapping[str, Assignment]) -> str | None:
    """The name that is assigned `source`, if what it reads is computed from it; None where an order would do."""
    read_by = {name: _reads(node) for name, (_, node) in later.items()}
    own = next((name for name, (_, node) in later.items() if expression_of(node) is source), None)
    seen, found = set[str](), {read}
    while found:
        seen |= found
        found = {one for name in found for one in read_by.get(name, ())} - seen
    return own if own in seen else None


def _reads(node: Node) -> frozenset[str]:
    """The names that an assigned expression reads or calls."""
    source = expression_of(node)
    expr = None if source is None else parse(source, Sink())
    return frozenset() if expr is None else frozenset(name.path for name in names_read_or_called(expr))


def unknown_reads(
    expr: Expr,
    source: Scalar,
    scope: Mapping[str, Binding],
    functions: Mapping[str, Function | Builtin],
    others: Collection[str],
    sink: Sink,
) -> None:
    """Report the names and functions that nothing has, in an expression that can't be typed as a whole.

    Args:
        expr: the expression.
        source: its text.
        scope: names that it may read.
        functions: functions that it may call, besides the built-in ones.
        others: names that are known, but can't be typed.
        sink: takes what is found.
    """
    found = Sink()
    for part in subexpressions(expr):
        alone: Expr | None = None
        if isinstance(part, Name) and part.path not in {*scope, *others, *functions, *CALLABLE}:
            alone = part
        if isinstance(part, Call) and part.function.path not in {*others, *functions, *CALLABLE}:
            alone = replace(part, args=(), keywords=())
        if alone is not None:
            infer(alone, scope, source, found, functions=functions)
    sink.extend(each_name_once(found.items))
