"""Values that only some parameters need: computed in these cases, and None in the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from specgen.expr import Symbol, Typed
from specgen.program.conditions import ALWAYS, NEVER, Condition, condition_of, values_in
from specgen.program.program import Assign, Program, Region, Statement
from specgen.program.verify import verified
from specgen.program.walk import expressions, read, reads_symbol, substituted, targets, with_body, with_parts
from specgen.values import dataclass, replace

ABSENT: Final = "absent"
"""The setting of a name whose value may be None: `elsewhere`, where the expression around it asks for it first."""


@dataclass(frozen=True)
class Guarded:
    """A program whose values are computed where they are needed.

    Attributes:
        program: the program: `when` nodes say in which cases a value is computed, names with the setting
            `ABSENT` read such a value.
        needs: when each of its values is needed, its inputs too.
    """

    program: Program
    needs: Mapping[Symbol, Condition]

    @property
    def programs(self) -> tuple[Program, ...]:
        """For the verifier."""
        return (self.program,)


@verified()
def guarded(
    program: Program,
    when: Mapping[str, Condition],
    optional: Iterable[Symbol] = (),
    nullable: Iterable[Symbol] = (),
    around: Callable[[Mapping[Symbol, Condition]], Mapping[Symbol, Condition]] | None = None,
) -> Guarded:
    """The program with each value computed only where an output needs it.

    Args:
        program: the program of a loss.
        when: in which cases an output is wanted, by its name; always, for those that it does not hold.
        optional: inputs that may be None whatever reads them.
        nullable: inputs whose readers take None, too.
        around: from when the program needs values, to when its caller computes them: what that needs itself is there.
    """
    needs = _Needs(program.body)
    for output in program.outputs:
        needs.add(output.symbol, when.get(output.name, ALWAYS))
    needs.body(program.body)
    found = needs.found if around is None else around(needs.found)
    absent = {symbol for symbol, condition in found.items() if condition != ALWAYS and not symbol.type.python}
    absent |= {target for target in assigned(program.body) if found.get(target, NEVER) != ALWAYS} | set(
        optional
    )
    absent -= set(nullable)
    always = (one.symbol for one in program.inputs if one.kind == "data" and one.symbol not in absent)
    witness = next((s for s in always if s.type.level == "batch" and needs.found.get(s) == ALWAYS), None)
    body = _Guards(found, frozenset(absent), witness).body(program.body)
    return Guarded(with_body(program, body), found)


def assigned(body: Sequence[Statement]) -> Iterable[Symbol]:
    """The symbols that statements define, those in regions too."""
    for statement in body:
        yield from targets(statement)
        if isinstance(statement, Region):
            yield from assigned(statement.body)


@dataclass
class _Needs:
    """Finds when each value is needed, from the last statement to the first."""

    statements: Sequence[Statement]
    found: dict[Symbol, Condition] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Conditions are said in parameters, so that they mean the same wherever they stand.
        self.numbers: dict[Symbol, Typed] = {}
        for one in self.statements:
            if isinstance(one, Assign) and one.target.type.python:
                self.numbers[one.target] = substituted(one.value, self.numbers)

    def add(self, symbol: Symbol, under: Condition) -> None:
        self.found[symbol] = self.found.get(symbol, NEVER) | under

    def body(self, body: Sequence[Statement]) -> None:
        for statement in reversed(body):
            if isinstance(statement, Region):
                for outer, inner in statement.results:
                    self.add(inner, self.found.get(outer, NEVER))
                self.body(statement.body)
                continue
            under = NEVER
            for target in targets(statement):
                under |= self.found.get(target, NEVER)
            for expr in expressions(statement):
                self.reads(expr, under)

    def reads(self, expr: Typed, under: Condition) -> None:
        if expr.op == "name":
            if expr.symbol is not None and expr.static is None:
                self.add(expr.symbol, under)
            return
        for symbol in expr.captured:
            self.add(symbol, under)
        if is_choice(expr):
            condition, then, otherwise = expr.args
            holds = condition_of(substituted(condition, self.numbers))
            self.reads(condition, under)
            self.reads(then, under & holds)
            self.reads(otherwise, under & ~holds)
            return
        for part in expr.parts:
            self.reads(part, under)


def is_choice(expr: Typed) -> bool:
    """Whether an expression is one of two, of which Python computes only one."""
    return expr.op == "where" and expr.args[0].type.python and expr.args[0].static is None


def _compares_words(expr: Typed) -> bool:
    """Whether an expression compares words: None is none of them."""
    return expr.op in ("==", "!=") and all(arg.type.dtype == "str" for arg in expr.args)


@dataclass
class _Guards:
    """Says of each statement in which cases it is computed, and of each read that it is of such a value."""

    needs: Mapping[Symbol, Condition]
    absent: frozenset[Symbol]
    witness: Symbol | None

    def body(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        return tuple(map(self.statement, body))

    def statement(self, statement: Statement) -> Statement:
        if isinstance(statement, Region):
            return replace(statement, body=self.body(statement.body))
        if not isinstance(statement, Assign):
            return statement
        if statement.target not in self.absent:
            return replace(statement, value=self.value(statement.value, frozenset()))
        condition = self.needs[statement.target].typed
        value = self.value(statement.value, values_in(condition))
        guard = Typed("when", value.type, value.interval, (self.expr(condition, frozenset()), value))
        return replace(statement, value=guard)

    def value(self, value: Typed, there: frozenset[Symbol]) -> Typed:
        """The value of a statement; if all that it reads may be None, another tensor tells how many rows there are."""
        made = self.expr(value, there)
        rows = [one for one in made.nodes if one.op == "name" and one.type.level == "batch"]
        if self.witness is None or not rows or not all(one.options.get(ABSENT) for one in rows):
            return made
        if is_choice(made) and all(map(reads_symbol, made.args[1:])):  # rows are those of what is chosen
            return made
        if made.op == "store":
            return made if len(made.args) > 1 else replace(made, args=(*made.args, read(self.witness)))
        return Typed("place", made.type, made.interval, (made, read(self.witness)))

    def expr(self, expr: Typed, there: frozenset[Symbol]) -> Typed:
        """An expression, where the values `there` are known not to be None."""
        if expr.op in ("given", "nonzero") or _compares_words(expr):
            return with_parts(expr, lambda part: replace(part, options={**part.options, ABSENT: "elsewhere"}))
        if expr.op == "name":
            if expr.symbol not in self.absent or expr.static is not None:
                return expr
            if expr.symbol in there:
                return replace(expr, options={**expr.options, ABSENT: "elsewhere"})
            return replace(expr, options={**expr.options, ABSENT: ABSENT})
        if is_choice(expr):
            condition = expr.args[0]
            args = (
                self.expr(condition, there),
                self.expr(expr.args[1], there | values_in(condition)),
                self.expr(expr.args[2], there | values_in(condition, False)),
            )
            return replace(expr, args=args)
        if expr.op in ("and", "or") and expr.type.python:
            first, second = expr.args
            known = there | values_in(first, expr.op == "and")
            return replace(expr, args=(self.expr(first, there), self.expr(second, known)))
        return with_parts(expr, lambda part: self.expr(part, there))
