"""One flat namespace a declaration: no shadowing, no Python keywords, no words of the language."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.expr.builtins.table import CALLABLE

RESERVED = frozenset(
    {"next", "now", "acc", "params", "consts", "torch", "math", "self", "pi", "inf", "true", "false"}
)

SHARED = frozenset({"size", "stack"})
"""Built-ins whose name may be declared: a grid has a `size`, frames form a `stack`; a call looks different."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class Names:
    """The names of one declaration and where each was given."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._taken: dict[str, tuple[str, Span]] = {}

    def inner(self, visible: Iterable[str]) -> Names:
        """The names inside a function: those of `visible` can be read there, so they are taken."""
        names = Names(self._sink)
        names._taken = {name: self._taken[name] for name in visible if name in self._taken}
        return names

    def claim(self, name: str, what: str, span: Span) -> bool:
        """Take `name` for a `what`; a clash or an unusable name is reported and refused."""
        for part in name.split("."):
            if reason := refusal(part):
                self._sink.add(
                    rules.NAME_REFUSED.at(
                        span, f"`{part}` can't be a name: {reason}", help=f"give this {what} another name"
                    )
                )
                return False
        if name in self._taken:
            other, first = self._taken[name]
            self._sink.add(
                rules.NAME_TAKEN.at(
                    span,
                    f"`{name}` is already {article(other)} {other}",
                    notes=[Note("first declared here", first)],
                    help=f"give this {what} another name",
                )
            )
            return False
        self._taken[name] = (what, span)
        return True


def article(noun: str) -> str:
    """`a` or `an`, as `noun` wants it."""
    return "an" if noun[:1] in "aeiou" else "a"


def refusal(part: str) -> str | None:
    """Why one part of a name can't be used, or ``None``."""
    if not _IDENTIFIER.match(part):
        return "names are letters, digits and `_`, and start with a letter"
    if keyword.iskeyword(part):
        return "it is a Python keyword"
    if part in RESERVED:
        return "it is a word of the language"
    if part in CALLABLE and part not in SHARED:
        return "it is a built-in function"
    return None
