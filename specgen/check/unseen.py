"""Declarations that are named where neither the file nor its imports declare them."""

from __future__ import annotations

import re
from collections.abc import Collection

from specgen.diagnostics import Diagnostic, Rule, Span, Unseen, as_question, suggestion
from specgen.diagnostics.rules.schema import UNKNOWN_DECLARATION
from specgen.schema.other_names import made_in_python, wrapper_named


def unseen(
    what: str,
    name: str,
    sections: tuple[str, ...],
    seen: Collection[str],
    span: Span,
    *,
    rule: Rule = UNKNOWN_DECLARATION,
) -> Diagnostic:
    """The diagnostic of a name that nothing in sight has; which file to import is said where all files are known.

    Args:
        what: what the name should be of (`environment`).
        name: the name.
        sections: where it could be declared, the usual section first.
        seen: the names in sight, those of declarations with mistakes included.
        span: where it is named.
        rule: the rule that it breaks.
    """
    near = None
    if sections[0] == "transforms":
        near = wrapper_named(name) or made_in_python(name)
    near = near or _called(name) or suggestion(name, seen)
    if near is None and sections[0] == "losses" and f"{name}Loss" in seen:  # `ClipPPO`
        near = as_question(f"{name}Loss")
    help = near or f"declare it under `{sections[0]}`, or `import` the file that does"
    return rule.at(
        span, f"unknown {what} `{name}`", help=help, unseen=Unseen(sections, name, near is not None)
    )


def _called(name: str) -> str | None:
    """How to write arguments that stand in parentheses behind a name, as in Python; None if none do."""
    call = re.fullmatch(r"(\w+)\((.*)\)", name)
    if call is None:
        return None
    arguments = [one.split("=", 1) for one in call[2].split(",") if one.strip()]
    if not arguments:
        return f"write `{call[1]}`"
    if any(len(one) == 1 for one in arguments) or re.search(r"[\[({]", call[2]):
        return f"write `{{{call[1]}: {{argument: value}}}}`"
    named = ", ".join(f"{word.strip()}: {value.strip()}" for word, value in arguments)
    return f"write `{{{call[1]}: {{{named}}}}}`"
