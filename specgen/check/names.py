"""One flat namespace a declaration: no shadowing, no Python keywords, no words of the language."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from types import MappingProxyType

from specgen.check.model import snake
from specgen.diagnostics import Diagnostic, Note, Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.expr.dtypes import CONCRETE
from specgen.imported import NAMES_READ
from specgen.look_alikes import plain
from specgen.program.program import DONE_FLAGS
from specgen.settings import LONGEST_NAME
from specgen.values import replace

RESERVED = frozenset(
    {"next", "now", "acc", "params", "consts", "torch", "math", "self", "pi", "inf", "true", "false"}
)


SPEC_ATTRIBUTES = frozenset({"device", "dtype", "shape", "space"})
"""What each part of a spec has as an attribute, so that no key of a `Composite` can be called that."""

_ENTRIES = frozenset({"role", "output"})
"""What is a variable in methods of transforms."""
_DRAWN = frozenset({"state key", "parameter key", "reward key", "local value"}) | _ENTRIES
_TENSORS = _DRAWN | {"action key", "observation key"}
"""What is a variable in generated functions; for those that may be drawn there is another, for the draw."""

_NESTED = frozenset(
    {"state key", "action key", "observation key", "reward key", "done key", "group", "local value"}
)
"""What may be called a nested name, with dots."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


class Names:
    """The names of one declaration and where each was given."""

    def __init__(
        self,
        sink: Sink,
        words: Mapping[str, str] = MappingProxyType({}),
        everywhere: Mapping[str, str] = MappingProxyType({}),
        own: Span | None = None,
    ) -> None:
        """Start without names.

        Args:
            sink: takes what is wrong with names.
            words: what is taken besides the words of the language, for the reasons given.
            everywhere: what is taken in functions of the declaration, too.
            own: where the declaration stands; names that it inherits were there before.
        """
        self._sink = sink
        self._words = {**words, **everywhere}
        self._everywhere = everywhere
        self._own = own
        self._taken: dict[str, tuple[str, Span]] = {}
        self._notes: dict[Span, str] = {}
        self._related: set[str] = set()

    def inner(self, visible: Iterable[str]) -> Names:
        """The names inside a function: those of `visible` can be read there, so they are taken."""
        names = Names(self._sink, self._everywhere, self._everywhere, self._own)
        names._taken = {name: self._taken[name] for name in visible if name in self._taken}
        names._related = set().union(*map(_related, names._taken))
        names._notes = self._notes
        return names

    def copy(self) -> Names:
        """The same names; what is taken here is not taken there."""
        return self.inner(self._taken)

    def claim(self, name: str, what: str, span: Span, note: str = "first declared here") -> bool:
        """Take `name` for a `what`; a clash or an unusable name is reported and refused.

        `note` is what to say of the place if something else is called the same later.
        """
        if fault := self._fault(name, what):
            found = refused(*fault, what, span)
            if fault[0] in self._everywhere and self._own is not None and not span.begins_in(self._own):
                found = replace(found, help=f"rename the function `{fault[0]}`: this {what} is inherited")
            self._sink.add(found)
            return False
        clash = self._clash(name, what)
        if clash is not None:
            other, first, message = clash
            inherits = self._own is not None and not span.begins_in(self._own) and first.begins_in(self._own)
            if inherits and self._taken.get(name) == (other, first):
                what, other, span, first = other, what, first, span
                self._notes[first] = "inherited from here"
            self._sink.add(
                rules.NAME_TAKEN.at(
                    span,
                    message.format(name=name, other=f"{article(other)} {other}"),
                    notes=[Note(self._notes[first], first)],
                    help=f"give this {what} another name",
                )
            )
            return False
        self._taken[name] = (what, span)
        self._related |= _related(name)
        self._notes[span] = note
        return True

    def _fault(self, name: str, what: str) -> tuple[str, str] | None:
        """The part of a name that can't be used, or all of it, and why; ``None`` for a right one."""
        parts = name.split(".")
        if len(parts) > 1 and what not in _NESTED:
            return name, "it is one word; a dot is for nested keys"
        for part in parts:
            if not part:
                return name, "a part of it is empty"
            reason = key_refusal(part) if what.endswith(" key") else refusal(part)
            if reason := reason or self._words.get(part):
                return part, reason
        return None

    def _clash(self, name: str, kind: str) -> tuple[str, Span, str] | None:
        """What else has this name, or the same name in Python, or stands where it would be a group."""
        if name in self._taken:
            return *self._taken[name], "`{name}` is already {other}"
        if self._related.isdisjoint(_related(name)):
            return None
        written = name.replace(".", "_")
        for taken, (what, span) in self._taken.items():
            if written == taken.replace(".", "_"):
                return what, span, f"`{{name}}` and `{taken}`, {{other}}, are the same name in Python"
            if what == "group" and name.startswith(f"{taken}."):
                continue
            if taken.startswith(f"{name}.") or name.startswith(f"{taken}."):
                group = min(name, taken, key=len)
                return (
                    what,
                    span,
                    f"`{group}` can't be both a key and the group of `{max(name, taken, key=len)}`",
                )
            other = taken.replace(".", "_")
            if (of := _derived(taken, what, written, kind)) is not None:
                return what, span, f"`{{name}}` is what {of} is called in Python; `{taken}` is {{other}}"
            if (of := _derived(name, kind, other, what)) is not None:
                return what, span, f"`{taken}`, {{other}}, is what {of} is called in Python"
        return None


@lru_cache(10_000)
def _related(name: str) -> Set[str]:
    """The Python names that have to do with a name: two names can clash only if they share one of these."""
    written = name.replace(".", "_")
    related = {written, written.removeprefix("next_")}
    if written.startswith("draw_"):
        drawn = written.removeprefix("draw_").removeprefix("next_")
        related |= {drawn, re.sub(r"_[0-9]+\Z", "", drawn)}
    related |= {written.removeprefix("open_"), written.removesuffix("_rank")}
    groups = {name[:end].replace(".", "_") for end, char in enumerate(name) if char == "."}
    return related | groups


def _derived(name: str, what: str, variable: str, kind: str) -> str | None:
    """What of `name` generated code calls `variable`, besides `name` itself; ``None`` if nothing."""
    written = name.replace(".", "_")
    beside = what in _ENTRIES and kind in _ENTRIES
    if (what == "state key" or beside) and variable == f"next_{written}":
        return f"`next.{name}`"
    if beside and variable == f"open_{written}":
        return f"`acc.{name}` of an episode that has no end"
    if what == "role" and variable == f"{written}_rank":
        return f"the number of dimensions of `{name}`"
    drawn = re.fullmatch(r"draw_(next_)?(.+?)(_[0-9]+)?", variable)
    if drawn is not None and drawn[2] == written and what in _DRAWN and kind in _TENSORS:
        return f"a draw for `{name}`"
    return None


MADE_FUNCTIONS = ("constants", "reset", "advance", "reward", "observe", "render", "picture")
"""What is generated for an environment or a chain beside its class, each under its name and one of these."""

INVERSE = "inverse"
"""What is generated for a chain over Gymnasium besides: from what the policy writes to what Gymnasium is given."""


def reserved_in_env(name: str, functions: Iterable[str]) -> dict[str, str]:
    """What else nothing of the environment `name` can be called, and why."""
    made = (
        *(f"{snake(name)}_{function}" for function in (*MADE_FUNCTIONS, INVERSE, *functions)),
        *(
            f"{name}{record}"
            for record in (
                "Params",
                "Consts",
                "Constants",
                "Networks",
                "Objects",
                "Learned",
                "Root",
                "Next",
                "Reward",
                "Observation",
                "Picture",
            )
        ),
        "not_done",
    )
    return {
        **dict.fromkeys(made, "generated code calls something else so"),
        **dict.fromkeys(DONE_FLAGS, "it is a done flag"),
    }


def article(noun: str) -> str:
    """`a` or `an`, as `noun` wants it."""
    return "an" if noun[:1] in "aeiou" else "a"


def refused(name: str, reason: str, what: str, span: Span) -> Diagnostic:
    """The diagnostic for a name that a `what` can't have."""
    message = f"`{shortened(name)}` can't be a name: {reason}" if name else "a name is empty"
    meant = plain(name)
    help = f"give this {what} another name"
    if meant != name and refusal(meant) is None:
        help = f"write `{meant}`: {' and '.join(_foreign(name))}"
    return rules.NAME_REFUSED.at(span, message, help=help)


def _foreign(name: str) -> Iterator[str]:
    """The characters of a name that look like others."""
    for char in dict.fromkeys(name):
        if plain(char) != char:
            yield f"`{char}` is {unicodedata.name(char).lower()}"


def shortened(name: str) -> str:
    """A name as messages show it: a long one by its beginning."""
    return name if len(name) <= LONGEST_NAME else f"{name[:40]}…"


def refusal(part: str, *, foreign: bool = False) -> str | None:
    """Why one part of a name can't be used, or ``None``; no expression reads a `foreign` one."""
    if len(part) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters, this one has {len(part):,}"
    if not _IDENTIFIER.match(part):
        return "names are letters, digits and `_`, and start with a letter"
    if keyword.iskeyword(part):
        return "it is a Python keyword"
    if part in RESERVED:
        return "it is a word of the language"
    if part in CONCRETE and not foreign:
        return "it is a dtype"
    if part in NAMES_READ:
        return "generated code uses it"
    return None


def key_refusal(part: str, *, foreign: bool = False) -> str | None:
    """Why one part of a key can't be used, or ``None``."""
    return (
        "every spec has an attribute of this name"
        if part in SPEC_ATTRIBUTES
        else refusal(part, foreign=foreign)
    )
