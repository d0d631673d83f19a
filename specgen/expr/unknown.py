"""What to say of a name, or of a function, that nothing has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from specgen.diagnostics import Diagnostic, Rule, as_question, did_you_mean
from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.other_names import meant_function, same_elsewhere
from specgen.expr.builtins.table import CALLABLE, NUMBERS
from specgen.expr.tree import Call
from specgen.expr.types import Binding

_MODULES: Final = ("os", "sys", "subprocess", "shutil", "builtins", "importlib", "socket", "pathlib")

_DISCOUNTS: Final = ("gamma", "discount", "discount_factor")
_RECORDS: Final = ("self", "next", "now")
"""What people write in front of names that are read bare."""


def unknown_name(
    name: str, scope: Mapping[str, Binding], functions: Collection[str]
) -> tuple[str, str | None]:
    """The message about a name that is read, and what helps."""
    if name in functions or name in CALLABLE:
        return f"`{name}` is a function", f"call it: {name}(…)"
    if name in _DISCOUNTS and "value_estimate" in functions:
        help = "the value estimator has the discount: the one-step target is value_estimate(next_value)"
        return f"undefined name `{name}`", help
    first, _, last = name.partition(".")
    if first in _RECORDS and last in scope:
        return f"undefined name `{name}`", f"write {last}"
    best = did_you_mean(name, (*scope, *NUMBERS))
    if best is None:
        return f"undefined name `{name}`", None
    return f"undefined name `{name}`", as_question(best, scope[best].what if best in scope else "")


def unknown_function(
    call: Call, scope: Mapping[str, Binding], functions: Collection[str]
) -> tuple[Rule, str, str | None]:
    """The rule that the call of an unknown function breaks, the message, and what helps."""
    name = call.function.path
    first, _, last = name.rpartition(".")
    if name.split(".")[0] in _MODULES:
        message = f"`{name}` is not an allowed function; expressions use declared names and the listed functions only"
        return rules.NOT_SAFE, message, None
    unknown = f"unknown function `{name}`"
    if first and (meant := same_elsewhere(last)) is not None:
        of = first if first in scope else "…"
        return (
            rules.UNKNOWN_FUNCTION,
            unknown,
            f"write {meant}({of}{', …' * (of == first and bool(call.args))})",
        )
    if name in scope and name in CALLABLE:
        message = (
            f"`{name}` is a {scope[name].what or 'value'} here, which hides the built-in function `{name}`"
        )
        return rules.BUILTIN_HIDDEN, message, f"give your own `{name}` another name"
    if name in scope or name in NUMBERS:
        return rules.UNKNOWN_FUNCTION, f"`{name}` is a value, not a function", "write `*` to multiply"
    return rules.UNKNOWN_FUNCTION, unknown, meant_function(last, functions)


def each_name_once(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """What was found in one expression, where a name that nothing has is one mistake, however often it is read."""
    kept: dict[object, Diagnostic] = {}
    for item in found:
        of_name = item.rule in (rules.UNDEFINED, rules.UNKNOWN_FUNCTION)
        kept.setdefault((item.rule, item.message) if of_name else item, item)
    return list(kept.values())
