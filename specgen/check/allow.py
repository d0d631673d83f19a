"""`allow`: the warnings that a declaration means."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.diagnostics import Diagnostic, Sink, suggestion
from specgen.diagnostics.rules import ALL_RULES
from specgen.diagnostics.rules import unread as rules
from specgen.schema.load import SchemaFile

SECTIONS = ("envs", "transforms", "chains", "losses", "models", "pipelines")
"""The sections whose declarations have the field."""


def apply_allow(file: SchemaFile, checked: object, sink: Sink) -> None:
    """Take out of `sink` the warnings that the declarations where they stand allow.

    Args:
        file: the loaded file.
        checked: its checked declarations, by section; None when it was not checked. Of a declaration that is not among
            them, with mistakes of its own or of what it names, nobody knows yet whether it allows in vain.
        sink: what was found; also takes codes that can't be allowed, and those that silence nothing.
    """
    for section in SECTIONS:
        for name, declaration in getattr(file.module, section).items():
            if declaration.allow:
                sound = checked is not None and name in getattr(checked, section)
                _apply(file, (section, name), declaration.allow, sound, sink)


def _apply(file: SchemaFile, path: tuple[str, str], allow: list[str], sound: bool, sink: Sink) -> None:
    used = set()
    for item in list(_within(file, path, sink)):
        if item.code in allow and item.severity == "warning":
            sink.remove(item)
            used.add(item.code)
    known = [code for code, rule in ALL_RULES.items() if rule.severity == "warning"]
    for index, code in enumerate(allow):
        place = file.span(*path, "allow", index)
        if code not in ALL_RULES:
            help = suggestion(code, known) or "`specgen explain` lists them all"
            sink.add(rules.NOT_A_WARNING.at(place, f"there is no warning `{code}`", help=help))
        elif ALL_RULES[code].severity == "error":
            message = f"{code} is an error ({ALL_RULES[code].title}), which can't be allowed"
            sink.add(rules.NOT_A_WARNING.at(place, message, help="mend what it says"))
        elif code not in used and sound:
            message = f"`{path[1]}` allows {code} ({ALL_RULES[code].title}), and has nothing of it"
            sink.add(rules.ALLOWS_NOTHING.at(place, message, help="leave it out"))


def _within(file: SchemaFile, path: tuple[str, str], sink: Sink) -> Iterator[Diagnostic]:
    """What stands between the name of a declaration and its end."""
    first, last = file.key_span(*path), file.span(*path)
    start, end = (first.line, first.column), (last.end_line, last.end_column)
    for item in sink.items:
        if item.span.file == first.file and start <= (item.span.line, item.span.column) <= end:
            yield item
