"""Conditions on parameters: in which cases a value is there, and in which it is needed."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence, Set
from dataclasses import field
from functools import reduce
from typing import Final

from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.program.common import value_key
from specgen.values import dataclass, replace

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
                if _asks_before(one, case) and not known.implies(Condition(frozenset({frozenset({one})}))):
                    continue
                fewer = _simplified((self.cases - {case}) | {case - {one}})
                if (fewer & known).implies(made):
                    return fewer.within(known)
        return self

    def apart_from(self, symbols: Set[Symbol]) -> Condition:
        """What is left of the condition where nobody can ask for these values: it holds wherever this one may."""
        return _simplified(
            frozenset(one for one in case if symbols.isdisjoint(one[0].typed.symbols_read))
            for case in self.cases
        )

    @property
    def typed(self) -> Typed:
        """The condition as an expression: what all cases say, and any of the rest."""
        if not self.cases or self == ALWAYS:
            return Typed("literal", Type("bool", (), "lit"), full("bool"), static=self == ALWAYS)
        shared = frozenset[tuple[Atom, bool]].intersection(*self.cases)
        rest = [_in_order(case - shared) for case in self.cases]
        parts = [_literal(*one) for one in _in_order(shared)]
        if len(rest) > 1:
            rest.sort(key=lambda case: (not _is_absence(case), repr([_sorted(*one) for one in case])))
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
        case "!=" if typed.type.python:
            return ~condition_of(replace(typed, op="==", builtin=TABLE["=="]))
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
    """These cases as few and as short ones, which are the same whatever cases with this meaning they come from.

    All shortest cases are found by consensus (Quine 1955), then those that others imply are left out.
    """
    found = {case for case in cases if not _contradicts(case)}
    if len(found) == 1 and all(len(case) == 1 for case in found):
        return Condition(frozenset(found))
    never = _excluded({atom for case in found for atom, _ in case})
    found = _shortest(_shortest(found) | never)
    found = {case for case in found if not any(one <= case for one in never)}
    return Condition(frozenset(_without_implied(found, never)))


def _shortest(cases: Iterable[Case]) -> set[Case]:
    """All the shortest cases that imply one of these."""
    found: set[Case] = set()
    pending = set(cases)
    while pending:
        case = min(pending, key=len)
        pending.remove(case)
        if any(one <= case for one in found):
            continue
        found = {one for one in found if not case < one}
        pending.update(made for one in found if (made := _consensus(case, one)) is not None)
        found.add(case)
    return found


def _consensus(case: Case, other: Case) -> Case | None:
    """What two cases say together, whether or not the one atom holds about which they differ."""
    opposite = [atom for atom, holds in case if (atom, not holds) in other]
    if len(opposite) != 1:
        return None
    (atom,) = opposite
    made = frozenset(one for one in case | other if one[0] != atom)
    # what is compared has to be asked for before
    return None if _asks_before((atom, True), made) else made


def _compares(atom: Atom, symbol: Symbol) -> bool:
    """Whether an atom can't be computed where this is None."""
    if atom.typed.op in ("given", "nonzero") or _word(atom) is not None:
        return False
    return symbol in atom.typed.symbols_read


def _asks_before(literal: tuple[Atom, bool], case: Case) -> bool:
    """Whether it says of something that it is there which the case compares."""
    atom, holds = literal
    asks = atom.typed.args[0].symbol if atom.typed.op == "given" and holds else None
    return asks is not None and any(_compares(one, asks) for one, _ in case)


def _is_absence(case: Sequence[tuple[Atom, bool]]) -> bool:
    """Whether a case says that something is not there: behind `or`, what it compares is."""
    return any(atom.typed.op == "given" and not holds for atom, holds in case)


def _word(atom: Atom) -> Symbol | None:
    """What an atom says to be a certain word."""
    if atom.typed.op != "==" or any(arg.type.dtype != "str" for arg in atom.typed.args):
        return None
    return next((arg.symbol for arg in atom.typed.args if arg.static is None), None)


def _excluded(atoms: Iterable[Atom]) -> set[Case]:
    """The cases that can't be: what is not there is neither a number but 0 nor a word, and nothing is two words."""
    found: set[Case] = set()
    for one, two in itertools.permutations(atoms, 2):
        word = _word(two)
        if one.typed.op == "given" and two.typed.op == "nonzero":
            word = two.typed.args[0].symbol
        if word is None:
            continue
        if one.typed.op == "given" and one.typed.args[0].symbol == word:
            found.add(frozenset({(one, False), (two, True)}))
        elif _word(one) == word and _is_another_word(one, two):
            found.add(frozenset({(one, True), (two, True)}))
    return found


def _is_another_word(one: Atom, two: Atom) -> bool:
    first, second = ({arg.static for arg in atom.typed.args if arg.static is not None} for atom in (one, two))
    return len(first) == len(second) == 1 and first != second


def _contradicts(case: Case) -> bool:
    if any((atom, not holds) in case for atom, holds in case):
        return True
    return len(case) > 1 and any(one <= case for one in _excluded(atom for atom, _ in case))


def _without_implied(cases: set[Case], never: set[Case]) -> set[Case]:
    """The cases without those that the others imply, the longest first."""
    left = set(cases)
    for case in sorted(cases, key=lambda one: (not _unasked(one), -len(one), _repr(one))):
        if _covered(case, (left - {case}) | never):
            left.remove(case)
    return left


def _unasked(case: Case) -> bool:
    """Whether a case compares what may be None without asking for it."""
    asked = {atom.typed.args[0].symbol for atom, holds in case if holds and atom.typed.op == "given"}
    return any(
        arg.options.get("optional")
        and arg.symbol is not None
        and arg.symbol not in asked
        and _compares(atom, arg.symbol)
        for atom, _ in case
        for arg in atom.typed.nodes
        if arg.op == "name"
    )


def _covered(case: Case, others: Iterable[Case]) -> bool:
    """Whether one of the other cases holds wherever this one does."""
    left = [other - case for other in others if not any((atom, not holds) in case for atom, holds in other)]
    if not all(left):
        return True
    if not left:
        return False
    atom = min((atom for other in left for atom, _ in other), key=lambda one: repr(one.key))
    return all(_covered(case | {(atom, holds)}, left) for holds in (True, False))


def _repr(case: Case) -> str:
    return repr([_sorted(*one) for one in _in_order(case)])


def _in_order(case: Case) -> list[tuple[Atom, bool]]:
    return sorted(case, key=lambda one: _sorted(*one))


def _sorted(atom: Atom, holds: bool) -> tuple[bool, bool, str]:
    # what is compared is asked for before
    return (atom.typed.op != "given" or not holds, not holds, repr(atom.key))


def _literal(atom: Atom, holds: bool) -> Typed:
    return atom.typed if holds else Typed("not", _TRUTH, full("bool"), (atom.typed,), builtin=TABLE["not"])


def _joined(op: str, parts: list[Typed]) -> Typed:
    return reduce(lambda one, two: Typed(op, _TRUTH, full("bool"), (one, two), builtin=TABLE[op]), parts)
