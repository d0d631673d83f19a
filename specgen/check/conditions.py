"""Conditions on parameters and optional keys: `given(p) and not q and mode == word`.

Those on parameters are decided when a transform is constructed, those on keys when its keys are found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from specgen.check.model import Parameter
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import transforms as rules
from specgen.expr import parse
from specgen.expr.tree import Call, Compare, Expr, Logic, Name, children, subexpressions
from specgen.literals import literal
from specgen.precedence import AND, ATOM, COMPARE, NOT
from specgen.source import Scalar
from specgen.values import dataclass

Test = Literal["given", "true", "is"]


@dataclass(frozen=True)
class Atom:
    """One part of a condition.

    Attributes:
        name: the parameter, or the role, that it asks for.
        test: whether it was given, whether it is true, or whether it is `word`.
        word: the member of an enum.
        holds: false where the part is negated.
        of_key: whether it asks for the key of an optional role.
    """

    name: str
    test: Test
    word: str = ""
    holds: bool = True
    of_key: bool = False

    def decide(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds of these values; a key that is missing is None or has none."""
        value = values.get(self.name) if self.of_key else values[self.name]
        found = {"given": value is not None, "true": bool(value), "is": value == self.word}[self.test]
        return found is self.holds

    @property
    def python(self) -> str:
        """The same in a method of the generated class, where `key` is the record of a repetition."""
        value = f"{'key' if self.of_key else 'self'}.{self.name}"
        match self.test:
            case "given":
                return f"{value} is {'not ' if self.holds else ''}None"
            case "true":
                return value if self.holds else f"not {value}"
            case "is":
                return f"{value} {'==' if self.holds else '!='} {literal(self.word)}"

    @property
    def precedence(self) -> int:
        """How tightly the outermost operator of `python` binds."""
        if self.test == "true":
            return ATOM if self.holds else NOT
        return COMPARE

    def __str__(self) -> str:
        text = {"given": f"given({self.name})", "true": self.name, "is": f"{self.name} == {self.word}"}
        return text[self.test] if self.holds else f"not {text[self.test]}"


@dataclass(frozen=True)
class Condition:
    """Parts that all have to hold."""

    atoms: tuple[Atom, ...]

    @property
    def always(self) -> bool:
        """Whether it asks for nothing."""
        return not self.atoms

    def decide(self, values: Mapping[str, Any]) -> bool:
        """Whether it holds of these parameters, and of the keys that a repetition has."""
        return all(atom.decide(values) for atom in self.atoms)

    @property
    def python(self) -> str:
        """The same in a method of the generated class, where `key` is the record of a repetition."""
        return " and ".join(atom.python for atom in self.atoms)

    @property
    def precedence(self) -> int:
        """How tightly the outermost operator of `python` binds."""
        return self.atoms[0].precedence if len(self.atoms) == 1 else AND

    @property
    def names(self) -> frozenset[str]:
        """The parameters and roles that it asks for."""
        return frozenset(atom.name for atom in self.atoms)

    @property
    def given(self) -> frozenset[str]:
        """The optional parameters that have a value where it holds, and the optional roles that have a key."""
        return frozenset(atom.name for atom in self.atoms if atom.test == "given" and atom.holds)

    @property
    def of_keys(self) -> tuple[Atom, ...]:
        """The parts that ask for keys."""
        return tuple(atom for atom in self.atoms if atom.of_key)

    @property
    def at_construction(self) -> Condition | None:
        """What of it is decided when the transform is constructed; None where that is nothing."""
        atoms = tuple(atom for atom in self.atoms if not atom.of_key)
        return Condition(atoms) if atoms else None

    def and_given(self, role: str) -> Condition:
        """The condition, and that an optional role has a key."""
        asked = Atom(role, "given", of_key=True)
        return self if asked in self.atoms else Condition((asked, *self.atoms))

    def implies(self, other: Condition) -> bool:
        """Whether the other one holds wherever it does."""
        return set(other.atoms) <= set(self.atoms)

    def excludes(self, other: Condition) -> bool:
        """Whether both can't hold together."""
        return any(_contradict(mine, theirs) for mine in self.atoms for theirs in other.atoms)

    def __str__(self) -> str:
        return " and ".join(map(str, self.atoms))


ALWAYS = Condition(())


def _contradict(one: Atom, other: Atom) -> bool:
    if (one.name, one.test) != (other.name, other.test):
        return False
    if one.word == other.word:
        return one.holds is not other.holds
    return one.holds and other.holds


def read_condition(
    text: Scalar, params: Iterable[Parameter], sink: Sink, roles: Collection[str] = ()
) -> Condition | None:
    """The condition that `text` writes; None after reporting that it is none, or that it asks for data.

    Args:
        text: the condition.
        params: the parameters that there are.
        sink: takes what is wrong.
        roles: the optional roles that it may ask for.
    """
    known = {param.name: param for param in params}
    found = Sink()
    expr = parse(text, found)
    atoms = None if expr is None else _atoms(expr, known, roles, True)
    if atoms is not None:
        return Condition(tuple(atoms))
    sink.add(
        rules.WRONG_CONDITION.at(
            text.span,
            f"`{text.text}` is no condition: write `given(…)` of an optional parameter"
            f"{' or role' if roles else ''}, or a `static: true` one that is a truth value or a word",
            help=None if expr is None else _meant(expr, known, roles),
        )
    )
    return None


def _atoms(
    expr: Expr, params: Mapping[str, Parameter], roles: Collection[str], holds: bool
) -> list[Atom] | None:
    match expr:
        case Logic("not", (operand,)):
            made = _atoms(operand, params, roles, not holds)
            return made if made is not None and len(made) == 1 else None
        case Logic("and", operands) if holds:
            parts = [_atoms(operand, params, roles, True) for operand in operands]
            return None if None in parts else [atom for part in parts for atom in part or []]
        case Call(Name("given"), (Name(name),), ()) if name in params and params[name].optional:
            return [Atom(name, "given", holds=holds)]
        case Call(Name("given"), (Name(name),), ()) if name in roles:
            return [Atom(name, "given", holds=holds, of_key=True)]
        case Name(name) if name in params and params[name].static and params[name].kind == "bool":
            return [Atom(name, "true", holds=holds)]
        case Compare(("==" | "!=" as sign,), (Name(name), Name(word))) if name in params:
            if params[name].static and word in params[name].choices:
                return [Atom(name, "is", word, holds is (sign == "=="))]
    return None


def _meant(expr: Expr, params: Mapping[str, Parameter], roles: Collection[str]) -> str | None:
    names = [part.path for part in subexpressions(expr) if isinstance(part, Name)]
    for name in names:
        param = params.get(name)
        if param is not None and param.kind in ("bool", "enum") and not param.static:
            return f"declare `{name}` with `static: true`"
    fitting = [*(param.name for param in params.values() if param.optional or param.static), *roles]
    unknown = next((name for name in names if name not in fitting), None)
    return None if unknown is None else suggestion(unknown, fitting)


def may_be_absent(expr: Expr, needed: Mapping[str, Collection[str]], given: frozenset[str]) -> frozenset[str]:
    """What `expr` may read where it is not there: optional parameters without a value, roles without a key.

    What stands in a branch of `where(given(p), …)` that is taken only with a value may read it; so may one under
    `given(p) and …` or `not given(p)`.

    Args:
        expr: the expression.
        needed: the names that need something optional, each with that: a parameter itself, `next.goal` and the sizes of
            its pattern the role `goal`.
        given: what is known to be there.
    """
    match expr:
        case Name(name):
            return frozenset(needed.get(name, ())) - given
        case Call(Name("given"), (Name(_),), ()):
            return frozenset()
        case Call(Name("where"), (condition, then, otherwise), ()):
            found = [may_be_absent(condition, needed, given)]
            for branch, holds in ((then, True), (otherwise, False)):
                asked = _asked_for(condition, holds)
                there = frozenset(one for name in asked for one in (name, *needed.get(name, ())))
                found.append(may_be_absent(branch, needed, given | there))
        case _:
            found = [may_be_absent(child, needed, given) for child in children(expr)]
    return frozenset[str]().union(*found)


def _asked_for(condition: Expr, holds: bool) -> frozenset[str]:
    """The names that `given` is asked of, and that are there wherever a condition holds, or does not."""
    match condition:
        case Call(Name("given"), (Name(name),), ()) if holds:
            return frozenset({name})
        case Logic("not", (operand,)):
            return _asked_for(operand, not holds)
        case Logic("and" | "or" as op, operands) if holds is (op == "and"):
            return frozenset[str]().union(*(_asked_for(operand, holds) for operand in operands))
    return frozenset()
