"""What the values of a section are computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.check.model import Statement
from specgen.expr import Expr
from specgen.expr.tree import (
    Binary,
    Call,
    Compare,
    Index,
    Literal,
    Logic,
    Name,
    Spread,
    Tuple,
    Unary,
    children,
)


class Flow:
    """The assignments of one section, by their targets."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self.by_target = {statement.target: statement for statement in statements}

    def behind(self, names: Iterable[str], stop: Collection[str] = ()) -> frozenset[str]:
        """`names`, and all that they are computed from here; what is in `stop` is taken as it is."""
        found: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in found:
                continue
            found.add(name)
            if name not in stop and name in self.by_target:
                pending += self.by_target[name].reads
        return frozenset(found)

    def statements(self, names: Iterable[str]) -> list[Statement]:
        """The assignments of `names`, where there are any, in the order written."""
        wanted = set(names)
        return [statement for target, statement in self.by_target.items() if target in wanted]


def structure_of(expr: Expr) -> object:
    """What `expr` says, wherever it stands: equal for equal expressions."""
    below = tuple(structure_of(child) for child in children(expr))
    match expr:
        case Name():
            return expr.path
        case Literal():
            return (expr.value,)
        case Call():
            return ("call", expr.function.path, tuple(word.name for word in expr.keywords), below)
        case Index():
            kinds = tuple(type(item).__name__ for item in expr.items)
            return ("index", kinds, below)
        case Binary() | Unary() | Logic():
            return (expr.op, below)
        case Compare():
            return (expr.ops, below)
        case Tuple():
            return ("tuple", below)
        case Spread():
            return ("spread", below)
