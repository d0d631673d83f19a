"""The arguments of a call of a declared function: in order, by name, and defaults."""

from __future__ import annotations

from specgen.diagnostics import suggestion
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import tree
from specgen.expr.arguments import Visitor, spread_args
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.site import Site
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.interval import point
from specgen.expr.types import Function, Typed
from specgen.values import replace


def bind_function(visitor: Visitor, builtin: Builtin, call: tree.Call, function: Function) -> Site | None:
    """The call of a declared function: what is given in order, what by name, and the defaults of the rest."""
    name, names = function.name, [name for name, _ in function.params]
    shown = f"{name}({', '.join(names)})"
    if name in CALLABLE:
        shown += ", which hides the built-in function"
    args = spread_args(visitor, call, name, None)
    values = [visitor.visit(arg) for arg in args or ()]
    sound = args is not None and None not in values
    by_name: dict[str, Typed | None] = {}
    for keyword in call.keywords:
        value = visitor.visit(keyword.value)
        known = keyword.name in names
        if not known or keyword.name in by_name or keyword.name in names[: len(values)]:
            help = None if known else suggestion(keyword.name, names)
            message = (
                f"`{keyword.name}` is given twice"
                if known
                else f"`{keyword.name}` is no argument of `{name}`"
            )
            end = keyword.start + len(keyword.name)
            visitor.error(rules.WRONG_ARGUMENTS, keyword.start, end, message, help or f"it is {shown}")
            sound = False
        by_name[keyword.name] = value
        sound &= value is not None
    if not sound:
        return None
    found = [value for value in values if value is not None]
    first = len(names) - len(function.defaults)
    for place, param in enumerate(names[len(found) :], len(found)):
        if (value := by_name.get(param)) is not None:
            found.append(value)
        elif place >= first:
            default = function.defaults[place - first]
            kind = replace(function.params[place][1], level="lit")
            found.append(Typed("literal", kind, point(default), start=call.end, end=call.end, static=default))
        elif by_name or function.module:
            message = f"`{name}` needs `{param}`"
            visitor.error(rules.WRONG_ARGUMENTS, call.start, call.end, message, f"it is {shown}")
            return None
    return Site(builtin, visitor, tuple(found), {}, function, call.start, call.end)
