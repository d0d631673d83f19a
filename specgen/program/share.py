"""Costly parts of expressions that stand twice are computed once, under a name before their first reader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.expr.builtins.table import TABLE
from specgen.program.common import value_key
from specgen.program.program import Assign, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import expressions, read, targets, with_parts
from specgen.values import dataclass, replace

_COSTLY: Final = ("reduction", "scan", "product", "integrator", "loss", "batch", "network")
"""Families of built-ins that compute much for one value."""


@verified()
def share(program: Program) -> Program:
    """The program with each costly value computed once, where the first of its readers stands.

    A value that a region and a statement beside it read is computed before the region. In `no_grad` a shared value
    is detached where it would be handed on as it is: it was computed outside, with a gradient.
    """
    return replace(program, body=_Sharing(program.name).body(program.body))


@dataclass
class _Sharing:
    """Counts the values that it has named, so that their paths differ."""

    path: str
    count: int = 0

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """The statements of a program or a region, with what they share computed in front of its first reader."""
        wanted = _wanted(body)
        names: dict[Hashable, Symbol] = {}
        made: list[Statement] = []
        for statement in body:
            if wanted:
                swap = _Swap(self, wanted, names, statement.origin)
                statement = swap.statement(statement, detached=False)
                made += swap.before
            if isinstance(statement, Region):
                statement = replace(statement, body=self.body(statement.body))
            made.append(statement)
        return tuple(made)

    def symbol(self, value: Typed) -> Symbol:
        """A new value."""
        self.count += 1
        # A name of its own: `batch_mean` is a function of the module that prints it.
        name = value.op.removeprefix("batch_")
        return Symbol(f"{self.path}.shared{self.count}.{value.op}", name, value.type, value.interval)


def _wanted(body: Sequence[Statement]) -> frozenset[Hashable]:
    """The values that these statements, or regions among them, compute more than once.

    What one region alone computes twice is shared inside it.
    """
    times: Counter[Hashable] = Counter()
    places: dict[Hashable, set[int]] = {}
    direct: set[Hashable] = set()
    for index, statement in enumerate(body):
        for key in _costly_in(statement, frozenset(), times):
            places.setdefault(key, set()).add(index)
            if not isinstance(statement, Region):
                direct.add(key)
    return frozenset(
        key for key, count in times.items() if count > 1 and (len(places[key]) > 1 or key in direct)
    )


def _costly_in(
    statement: Statement, hidden: frozenset[Symbol], times: Counter[Hashable]
) -> Iterator[Hashable]:
    """The costly values of a statement that read nothing that is `hidden` in a region; `times` counts them."""

    def visit(expr: Typed) -> Iterator[Hashable]:
        if is_costly(expr) and not hidden.intersection(expr.symbols_read):
            key = value_key(expr)
            times[key] += 1
            yield key
            if times[key] > 1:
                return  # what stands below it is computed with it, once
        for part in expr.parts:
            yield from visit(part)

    for expr in expressions(statement):
        yield from visit(expr)
    if isinstance(statement, Region):
        inner = {one.inner for one in statement.carried} | {bound for _, bound in statement.over}
        inner |= set() if statement.index is None else {statement.index}
        for one in statement.body:
            inner.update(targets(one))
        for one in statement.body:
            yield from _costly_in(one, hidden | inner, times)


def is_costly(expr: Typed) -> bool:
    """Whether the outermost operation of an expression computes much for one value."""
    builtin = expr.builtin
    if builtin is None or builtin.family not in _COSTLY or expr.type.python:
        return False
    return not any(node.op == "in_range" for node in expr.nodes)  # raises: not to be done where it was not


@dataclass
class _Swap:
    """Replaces wanted values in one statement by their names, and collects the statements that make them."""

    sharing: _Sharing
    wanted: frozenset[Hashable]
    names: dict[Hashable, Symbol]
    origin: str | None
    before: list[Statement] = field(default_factory=list)

    def statement(self, statement: Statement, detached: bool) -> Statement:
        if isinstance(statement, Assign):
            return replace(statement, value=self.value(statement, detached))
        if isinstance(statement, Region):
            inner = detached or statement.kind == "no_grad"
            return replace(
                statement,
                body=tuple(self.statement(one, inner) for one in statement.body),
                carried=tuple(
                    replace(one, init=self.expr(one.init, True, detached)) for one in statement.carried
                ),
            )
        return replace(
            statement,
            args=tuple(self.expr(arg, True, detached) for arg in statement.args),
            named=tuple((name, self.expr(value, True, detached)) for name, value in statement.named),
        )

    def value(self, statement: Assign, detached: bool) -> Typed:
        """The value of an assignment; one that is itself the first of several gives them its name."""
        key = value_key(statement.value)
        if key not in self.wanted or key in self.names or detached:
            return self.expr(statement.value, True, detached)
        self.names[key] = statement.target
        return with_parts(statement.value, lambda part: self.expr(part, False, detached))

    def expr(self, expr: Typed, whole: bool, detached: bool) -> Typed:
        """An expression with names in place of shared values; `whole`: it is handed on as the tensor that it is."""
        key = value_key(expr) if is_costly(expr) else None
        if key is None or key not in self.wanted:
            return with_parts(expr, lambda part: self.expr(part, whole and hands_on(expr, part), detached))
        if key not in self.names:
            inner = with_parts(expr, lambda part: self.expr(part, False, False))
            self.names[key] = symbol = self.sharing.symbol(expr)
            self.before.append(Assign(symbol, inner, self.origin))
        shared = read(self.names[key])
        if not (whole and detached):
            return shared
        return Typed("stop_grad", shared.type, shared.interval, (shared,), builtin=TABLE["stop_grad"])


def hands_on(expr: Typed, part: Typed) -> bool:
    """Whether an expression can be the very tensor that one of its operands is."""
    if expr.op in ("store", "cast", "place"):
        return part is expr.args[0]
    return expr.op == "where" and expr.args[0].type.python and part is not expr.args[0]
