"""Conditions on parameters: in which cases a value is there, and in which it is needed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import field
from functools import reduce
from typing import Final

from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.program.common import value_key
from specgen.values import dataclass

_TRUTH: Final = Type("bool", (), "ctor")


@dataclass(frozen=True, slots=True)
class Atom:
    """A truth value of parameters that is no combination of others; equal by what it says, wherever that stands."""

    key: Hashable
    typed: Typed = field(compare=False)


Case = frozenset[tuple[Atom, bool]]
"""Atoms that hold, and such that don't, all of them together."""


@dataclass(frozen=True)
class Condition:
    """Some of these cases: none is never, one without atoms is always.

    Attributes:
        cases: no one of them contains another.
    """

    cases: frozenset[Case]

    def __and__(self, other: Condition) -> Condition:
        return _simplified(mine | theirs for mine in self.cases for theirs in other.cases)

    def __or__(self, other: Condition) -> Condition:
        return _simplified(self.cases | other.cases)

    def __invert__(self) -> Condition:
        made = ALWAYS
        for case in self.cases:
            made &= Condition(frozenset(frozenset({(atom, not holds)}) for atom, holds in case))
        return made

    def implies(self, other: Condition, known: Iterable[Condition] = ()) -> bool:
        """Whether `other` holds wherever this one does, and `known` does."""
        return not reduce(lambda one, two: one & two, known, self & ~other).cases

    def within(self, known: Condition) -> Condition:
        """The condition where `known` holds: without what that says already."""
        made = self & known
        if not made.cases:
            return NEVER
        for case in self.cases:
            for one in _in_order(case):
                fewer = _simplified((self.cases - {case}) | {case - {one}})
                if (fewer & known).implies(made):
                    return fewer.within(known)
        return self

    @property
    def typed(self) -> Typed:
        """The condition as an expression: what all cases say, and any of the rest."""
        if not self.cases or self == ALWAYS:
            return Typed("literal", Type("bool", (), "lit"), full("bool"), static=self == ALWAYS)
        shared = frozenset[tuple[Atom, bool]].intersection(*self.cases)
        rest = [_in_order(case - shared) for case in self.cases]
        parts = [_literal(*one) for one in _in_order(shared)]
        if len(rest) > 1:
            rest.sort(key=lambda case: repr([_sorted(*one) for one in case]))
            parts.append(_joined("or", [_joined("and", [_literal(*one) for one in case]) for case in rest]))
        return _joined("and", parts)


ALWAYS: Final = Condition(frozenset({frozenset()}))
NEVER: Final = Condition(frozenset())


def condition_of(typed: Typed) -> Condition:
    """What a truth value of parameters says."""
    if isinstance(typed.static, bool):
        return ALWAYS if typed.static else NEVER
    match typed.op:
        case "and":
            return condition_of(typed.args[0]) & condition_of(typed.args[1])
        case "or":
            return condition_of(typed.args[0]) | condition_of(typed.args[1])
        case "not":
            return ~condition_of(typed.args[0])
        case "where":
            holds, then, otherwise = map(condition_of, typed.args)
            return (holds & then) | (~holds & otherwise)
        case _:
            return Condition(frozenset({frozenset({(Atom(value_key(typed), typed), True)})}))


def values_in(condition: Typed, truth: bool = True) -> frozenset[Symbol]:
    """The values that are not None where a condition holds, or where it does not, as a type checker sees it."""
    match condition.op:
        case "given" | "nonzero" if truth:
            symbol = condition.args[0].symbol
            return frozenset() if symbol is None else frozenset({symbol})
        case "not":
            return values_in(condition.args[0], not truth)
        case "and" | "or" if truth == (condition.op == "and"):
            return values_in(condition.args[0], truth) | values_in(condition.args[1], truth)
        case _:
            return frozenset()


def _simplified(cases: Iterable[Case]) -> Condition:
    """These cases without those that can't be, and without what the others say already."""
    left = {_without_repetition(case) for case in cases if not _contradicts(case)}
    while True:
        left = {case for case in left if not any(other < case for other in left)}
        merged = next(
            (
                (one, case - {literal})
                for case in left
                for literal in case
                if (one := _turned(case, literal)) in left
            ),
            None,
        )
        if merged is None:
            return Condition(frozenset(left))
        left = (left - {merged[0]}) | {merged[1]}


def _turned(case: Case, literal: tuple[Atom, bool]) -> Case:
    atom, holds = literal
    return (case - {literal}) | {(atom, not holds)}


def _contradicts(case: Case) -> bool:
    there = {atom.typed.args[0].symbol for atom, holds in case if holds and atom.typed.op == "nonzero"}
    return any(
        (atom, not holds) in case
        or (atom.typed.op == "given" and not holds and atom.typed.args[0].symbol in there)
        for atom, holds in case
    )


def _without_repetition(case: Case) -> Case:
    """A case in which what is said not to be 0 is not also said to be given."""
    there = {atom.typed.args[0].symbol for atom, holds in case if holds and atom.typed.op == "nonzero"}
    absent = {atom.typed.args[0].symbol for atom, holds in case if not holds and atom.typed.op == "given"}
    return frozenset(
        (atom, holds)
        for atom, holds in case
        if not (atom.typed.op == "given" and holds and atom.typed.args[0].symbol in there)
        and not (atom.typed.op == "nonzero" and not holds and atom.typed.args[0].symbol in absent)
    )


def _in_order(case: Case) -> list[tuple[Atom, bool]]:
    return sorted(case, key=lambda one: _sorted(*one))


def _sorted(atom: Atom, holds: bool) -> tuple[bool, bool, str]:
    # what is compared is asked for before
    return (atom.typed.op != "given" or not holds, not holds, repr(atom.key))


def _literal(atom: Atom, holds: bool) -> Typed:
    return atom.typed if holds else Typed("not", _TRUTH, full("bool"), (atom.typed,), builtin=TABLE["not"])


def _joined(op: str, parts: list[Typed]) -> Typed:
    return reduce(lambda one, two: Typed(op, _TRUTH, full("bool"), (one, two), builtin=TABLE[op]), parts)
