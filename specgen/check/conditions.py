"""Conditions on parameters, decided when a transform is constructed: `given(p) and not q and mode == word`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from specgen.check.model import Parameter
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import transforms as rules
from specgen.expr import parse
from specgen.expr.tree import Call, Compare, Expr, Logic, Name, children, subexpressions
from specgen.literals import literal
from specgen.source import Scalar
from specgen.values import dataclass

Test = Literal["given", "true", "is"]


@dataclass(frozen=True)
class Atom:
    """One part of a condition.

    Attributes:
        param: the parameter that it asks for.
        test: whether it was given, whether it is true, or whether it is `word`.
        word: the member of an enum.
        holds: false where the part is negated.
    """

    param: str
    test: Test
    word: str = ""
    holds: bool = True

    def decide(self, params: Mapping[str, Any]) -> bool:
        """Whether it holds of these values."""
        value = params[self.param]
        found = {"given": value is not None, "true": bool(value), "is": value == self.word}[self.test]
        return found is self.holds

    @property
    def python(self) -> str:
        """The same in a method of the generated class."""
        value = f"self.{self.param}"
        match self.test:
            case "given":
                return f"{value} is {'not ' if self.holds else ''}None"
            case "true":
                return value if self.holds else f"not {value}"
            case "is":
                return f"{value} {'==' if self.holds else '!='} {literal(self.word)}"

    def __str__(self) -> str:
        text = {"given": f"given({self.param})", "true": self.param, "is": f"{self.param} == {self.word}"}
        return text[self.test] if self.holds else f"not {text[self.test]}"


@dataclass(frozen=True)
class Condition:
    """Parts that all have to hold."""

    atoms: tuple[Atom, ...]

    @property
    def always(self) -> bool:
        """Whether it asks for nothing."""
        return not self.atoms

    def decide(self, params: Mapping[str, Any]) -> bool:
        """Whether it holds of these values."""
        return all(atom.decide(params) for atom in self.atoms)

    @property
    def python(self) -> str:
        """The same in a method of the generated class."""
        return " and ".join(atom.python for atom in self.atoms)

    @property
    def params(self) -> frozenset[str]:
        """The parameters that it asks for."""
        return frozenset(atom.param for atom in self.atoms)

    @property
    def given(self) -> frozenset[str]:
        """The optional parameters that have a value where it holds."""
        return frozenset(atom.param for atom in self.atoms if atom.test == "given" and atom.holds)

    def excludes(self, other: Condition) -> bool:
        """Whether both can't hold together."""
        return any(_contradict(mine, theirs) for mine in self.atoms for theirs in other.atoms)

    def __str__(self) -> str:
        return " and ".join(map(str, self.atoms))


ALWAYS = Condition(())


def _contradict(one: Atom, other: Atom) -> bool:
    if (one.param, one.test) != (other.param, other.test):
        return False
    if one.word == other.word:
        return one.holds is not other.holds
    return one.holds and other.holds


def read_condition(text: Scalar, params: Iterable[Parameter], sink: Sink) -> Condition | None:
    """The condition that `text` writes; None after reporting that it is none, or that it asks for data."""
    known = {param.name: param for param in params}
    found = Sink()
    expr = parse(text, found)
    atoms = None if expr is None else _atoms(expr, known, True)
    if atoms is not None:
        return Condition(tuple(atoms))
    sink.add(
        rules.WRONG_CONDITION.at(
            text.span,
            f"`{text.text}` is no condition: write `given(…)` of an optional parameter, "
            "or a `static: true` one that is a truth value or a word",
            help=None if expr is None else _meant(expr, known),
        )
    )
    return None


def _atoms(expr: Expr, params: Mapping[str, Parameter], holds: bool) -> list[Atom] | None:
    match expr:
        case Logic("not", (operand,)):
            made = _atoms(operand, params, not holds)
            return made if made is not None and len(made) == 1 else None
        case Logic("and", operands) if holds:
            parts = [_atoms(operand, params, True) for operand in operands]
            return None if None in parts else [atom for part in parts for atom in part or []]
        case Call(Name("given"), (Name(name),), ()) if name in params and params[name].optional:
            return [Atom(name, "given", holds=holds)]
        case Name(name) if name in params and params[name].static and params[name].kind == "bool":
            return [Atom(name, "true", holds=holds)]
        case Compare(("==" | "!=" as sign,), (Name(name), Name(word))) if name in params:
            if params[name].static and word in params[name].choices:
                return [Atom(name, "is", word, holds is (sign == "=="))]
    return None


def _meant(expr: Expr, params: Mapping[str, Parameter]) -> str | None:
    names = [part.path for part in subexpressions(expr) if isinstance(part, Name)]
    for name in names:
        param = params.get(name)
        if param is not None and param.kind in ("bool", "enum") and not param.static:
            return f"declare `{name}` with `static: true`"
    fitting = [param.name for param in params.values() if param.optional or param.static]
    unknown = next((name for name in names if name not in fitting), None)
    return None if unknown is None else suggestion(unknown, fitting)


def may_be_absent(expr: Expr, optional: frozenset[str], given: frozenset[str]) -> frozenset[str]:
    """The optional parameters whose value `expr` may read where they have none.

    What stands in a branch of `where(given(p), …)` that is taken only with a value may read it.
    """
    match expr:
        case Name(name):
            return frozenset({name}) & (optional - given)
        case Call(Name("given"), (Name(_),), ()):
            return frozenset()
        case Call(Name("where"), (Call(Name("given"), (Name(name),), ()), then, otherwise), ()):
            return may_be_absent(then, optional, given | {name}) | may_be_absent(otherwise, optional, given)
    found = [may_be_absent(child, optional, given) for child in children(expr)]
    return frozenset[str]().union(*found)
