"""`given(x)` of a value that may be missing, where there are two of it: before a step and after it."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.expr.tree import Call, Expr, Logic, Name, changed, free_names
from specgen.expr.types import Binding
from specgen.values import replace


def at_moments_read(condition: Expr, branches: tuple[Expr, ...], scope: Mapping[str, Binding]) -> Expr:
    """A condition that asks for the values which its branches read: `given(x)` for `x`, `next.x`, `acc.x`, or several.

    All are there or none is; what is asked for is known to be there where it is read.

    Args:
        condition: the condition of a `where`.
        branches: what is computed where it holds and where it does not.
        scope: what each name stands for.
    """
    read = frozenset[str]().union(*map(free_names, branches))

    def change(expr: Expr) -> Expr:
        match expr:
            case Call(Name("given"), (Name(name) as value,), ()) if f"next.{name}" in scope:
                places = (name, f"next.{name}", f"acc.{name}")
                if not any(one in scope and scope[one].optional for one in places):
                    return expr
                names = [one for one in places if one in read]
                names = names or [f"next.{name}"]
                calls = tuple(replace(expr, args=(replace(value, path=one),)) for one in names)
                return calls[0] if len(calls) == 1 else Logic("and", calls, expr.start, expr.end)
        return expr

    return changed(condition, change)
