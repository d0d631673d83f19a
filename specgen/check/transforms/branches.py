"""What an expression is with each of the keys that may be missing, and without them."""

from __future__ import annotations

from collections.abc import Collection

from specgen.check.conditions import ALWAYS, Atom, Condition
from specgen.check.transforms.entries import role_of
from specgen.expr import Typed


def parts_of_rows(typed: Typed, missing: Collection[str], *, counts: bool) -> list[tuple[Condition, Typed]]:
    """An expression of rows, or what it is with each choice of keys, where it gives the same for all rows without some.

    Args:
        typed: the expression: a truth value or a number for each row.
        missing: the roles whose keys may be missing.
        counts: whether it is a number.
    """
    found = _branches(typed, missing)
    plain = [end for _, end in found if end.type.level != "batch"]
    if not plain or not (counts or all(map(is_nothing, plain))):
        return [(ALWAYS, typed)]
    return found


def _branches(typed: Typed, missing: Collection[str]) -> list[tuple[Condition, Typed]]:
    """The branches of choices by keys that an expression consists of, each with the keys that it is computed for."""
    if typed.op != "where":
        return [(ALWAYS, typed)]
    asked, then, otherwise = typed.args
    holds = _atoms(asked, missing)
    if holds is None:
        return [(ALWAYS, typed)]
    lacks = [Atom(one.name, "given", holds=not one.holds, of_key=True) for one in holds]
    if len(lacks) > 1 and not is_nothing(otherwise):
        return [(ALWAYS, typed)]
    sides = [(tuple(holds), then), *(((one,), otherwise) for one in lacks)]
    return [
        (Condition((*atoms, *when.atoms)), end)
        for atoms, side in sides
        for when, end in _branches(side, missing)
    ]


def taken(typed: Typed) -> Typed:
    """What an expression is, where it is known which branches of its choices are taken."""
    while typed.op == "where" and isinstance(typed.args[0].static, bool):
        typed = typed.args[1 if typed.args[0].static else 2]
    return typed


def is_nothing(typed: Typed) -> bool:
    """Whether an expression is false, or 0."""
    return typed.static is not None and typed.static in (False, 0)


def _atoms(condition: Typed, missing: Collection[str]) -> list[Atom] | None:
    """What a condition asks of keys; None where it asks for anything else."""
    if condition.op == "given" and (name := role_of(condition.args[0].symbol)) in missing:
        return [Atom(name, "given", of_key=True)]
    if condition.op == "not" and (found := _atoms(condition.args[0], missing)) is not None:
        return (
            [Atom(found[0].name, "given", holds=not found[0].holds, of_key=True)] if len(found) == 1 else None
        )
    if condition.op == "and":
        parts = [_atoms(one, missing) for one in condition.args]
        if all(part is not None for part in parts):
            return list(dict.fromkeys(atom for part in parts for atom in part or ()))
    return None
