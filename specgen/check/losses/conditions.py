"""Conditions on the parameters of a loss: `when` of terms, metrics and keys, and what may be missing without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final

from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_conditions as rules
from specgen.expr import Binding, Expr, SourceText, Symbol, Type, Typed, full, infer, parse, tree
from specgen.expr.builtins.optional import GIVEN, NONZERO
from specgen.expr.builtins.record import Builtin
from specgen.program.conditions import ALWAYS, Condition, condition_of
from specgen.program.guards import is_choice
from specgen.program.torch_text import print_expression
from specgen.source import Scalar
from specgen.values import dataclass, replace

_TRUTH: Final = Type("bool", (), "ctor")
_NONZERO: Final = "is not 0"
"""What the function that makes a truth value of a number is called: nothing that could be written."""


def nonzero_name(name: str) -> str:
    """The name of the truth value that a buffer was not 0 when the loss was made: one that nobody can write."""
    return f"{name} {_NONZERO}"


def read_condition(source: Scalar, scope: Mapping[str, Binding], sink: Sink) -> Typed | None:
    """A condition on parameters, where a number stands for its not being 0; None after reporting that it is none."""
    parsed = parse(source, sink)
    expr = None if parsed is None else with_random(parsed, scope, source, sink)
    if expr is None:
        return None
    functions: dict[str, Builtin] = {GIVEN.name: GIVEN, _NONZERO: NONZERO}
    typed = infer(_truth(expr, scope), scope, source, sink, functions=functions)
    if typed is None or (typed.type.dtype == "bool" and typed.type.python):
        return typed
    kind = "different for each sample" if typed.type.level == "batch" else typed.type
    message = f"a condition is a truth value of parameters, `{source.text}` is {kind}"
    help = "what differs between samples is chosen with where(…), or left out of the reduction with `mask`"
    sink.add(rules.WRONG_CONDITION.at(source.span, message, help=help))
    return None


def infer_requirement(
    expr: Expr, scope: Mapping[str, Binding], source: SourceText, sink: Sink
) -> Typed | None:
    """A requirement on parameters, in whose parts numbers stand for their not being 0, too."""
    named = with_random(expr, scope, source, sink)
    if named is None:
        return None
    meant = _truth(named, scope) if isinstance(named, tree.Logic) else named
    return infer(meant, scope, source, sink, functions={GIVEN.name: GIVEN, _NONZERO: NONZERO})


def random_of(network: str) -> str:
    """The name in a scope of whether a network that may be certain is not: one that nobody can write."""
    return f"random({network})"


def with_random(expr: Expr, scope: Mapping[str, Binding], source: SourceText, sink: Sink) -> Expr | None:
    """An expression with names in the place of `random(network)`; None after reporting what is no such network."""
    failed = False

    def change(part: Expr) -> Expr:
        nonlocal failed
        if not isinstance(part, tree.Call) or part.function.path != "random":
            return part
        asked = part.args[0].path if len(part.args) == 1 and isinstance(part.args[0], tree.Name) else ""
        if random_of(asked) in scope:
            return tree.Name(random_of(asked), part.start, part.end)
        failed = True
        message = "`random` asks whether a network gives a distribution, that may also be certain"
        help = f"declare it so: `{asked or 'actor_network'}: {{policy: action, plain: delta}}`"
        sink.add(rules.RANDOM.at(source.span_of(part.start, part.end), message, help=help))
        return part

    made = tree.changed(expr, change)
    return None if failed else made


def _truth(expr: Expr, scope: Mapping[str, Binding]) -> Expr:
    """An expression where a truth value is meant: numbers in it stand for their not being 0."""
    match expr:
        case tree.Logic():
            return replace(expr, operands=tuple(_truth(operand, scope) for operand in expr.operands))
        case tree.Name() if (asked := nonzero_name(expr.path)) in scope:
            return tree.Name(asked, expr.start, expr.end)
        case tree.Name() if (found := scope.get(expr.path)) and found.type.python and found.static is None:
            if found.type.dtype not in ("bool", "str"):
                function = tree.Name(_NONZERO, expr.start, expr.end)
                return tree.Call(function, (expr,), (), expr.start, expr.end)
    return expr


def condition_text(condition: Condition) -> str:
    """A condition as one would write it."""

    def text(node: Typed, inner: bool = False) -> str:
        match node.op:
            case "given":
                return f"given({_named(node.args[0])})"
            case "nonzero":
                return _named(node.args[0])
            case "not" if node.args[0].op not in ("==", "!="):
                return f"not {text(node.args[0], True)}"
            case "and" | "or":
                joined = f" {node.op} ".join(text(arg, arg.op != node.op) for arg in node.args)
                return f"({joined})" if inner else joined
            case _:
                return print_expression(node, _written).text

    return text(condition.typed)


def _named(node: Typed) -> str:
    return "" if node.symbol is None else node.symbol.name


def _written(symbol: Symbol) -> str:
    """What stands for a symbol in a condition, as one would write it."""
    *before, last = symbol.path.split(".")
    return last if before[-1:] == ["nonzero"] else symbol.name


@dataclass
class Presence:
    """Follows what may be missing through the values of a loss, and reports where it is read nevertheless.

    Attributes:
        sink: takes every mistake.
        known: the conditions that the constructor requires.
        there: in which cases a value is there; always, for those that it does not hold.
    """

    sink: Sink
    known: tuple[Condition, ...] = ()
    there: dict[Symbol, Condition] = field(default_factory=dict)

    def may_be_missing(self, binding: Binding) -> None:
        """What is there where it is given."""
        if binding.symbol is not None:
            self.there[binding.symbol] = self.given(binding)

    def given(self, binding: Binding) -> Condition:
        """That an optional value is given."""
        read = Typed(
            "name",
            binding.type,
            binding.interval,
            options=binding.options,
            text=binding.symbol.name if binding.symbol else "",
            symbol=binding.symbol,
        )
        return condition_of(Typed(GIVEN.name, _TRUTH, full("bool"), (read,), builtin=GIVEN))

    def value(self, symbol: Symbol, typed: Typed) -> None:
        """A named value: it is there where all is that it reads."""
        found = self._of(typed)
        if found != ALWAYS:
            self.there[symbol] = found

    def _of(self, typed: Typed) -> Condition:
        found = ALWAYS
        for read, under in reads_under(typed):
            condition = self.there.get(read.symbol, ALWAYS) if read.symbol is not None else ALWAYS
            found &= ~under | condition
        return found

    def output(self, name: str, typed: Typed, source: SourceText, under: Condition) -> None:
        """What is computed `under` a condition may read what is there in all these cases only."""
        for read, cases in reads_under(typed):
            wanted = self.there.get(read.symbol, ALWAYS) if read.symbol is not None else ALWAYS
            if (under & cases).implies(wanted, self.known):
                continue
            needed = condition_text(wanted)
            text = source.text[read.start : read.end]
            message = f"`{text}` is there only where {needed}, and `{name}` reads it in other cases, too"
            help = f"write where({needed}, …, …), or say of `{name}`: {{value: …, when: {needed}}}"
            self.sink.add(rules.MAY_BE_MISSING.at(source.span_of(read.start, read.end), message, help=help))
            return

    def statements(self, statements: Iterable[Statement], when: Mapping[str, Typed]) -> None:
        """What a section returns, in the cases that `when` says."""
        for statement in statements:
            under = condition_of(when[statement.target]) if statement.target in when else ALWAYS
            self.output(statement.target, statement.typed, statement.source, under)


def reads_under(typed: Typed, under: Condition = ALWAYS) -> Iterable[tuple[Typed, Condition]]:
    """The names that an expression reads, with the conditions under which it reads them."""
    if typed.op == "name":
        yield typed, under
    elif typed.op == GIVEN.name:
        return
    elif is_choice(typed):
        condition, then, otherwise = typed.args
        holds = condition_of(condition)
        yield from reads_under(condition, under)
        yield from reads_under(then, under & holds)
        yield from reads_under(otherwise, under & ~holds)
    elif typed.op in ("and", "or") and typed.type.python:
        first, second = typed.args
        holds = condition_of(first)
        yield from reads_under(first, under)
        yield from reads_under(second, under & (holds if typed.op == "and" else ~holds))
    elif typed.op != NONZERO.name:
        for part in typed.parts:
            yield from reads_under(part, under)
