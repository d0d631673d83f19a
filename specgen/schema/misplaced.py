"""Whole declarations at the wrong place: one message for each, in place of one for each of their fields."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.schema.allowed import fields_of, models_at
from specgen.schema.shape_help import NAMING
from specgen.source import Mapping, Scalar

Place = tuple[str | int, ...]

_CLASSES = {
    "envs": "an environment",
    "transforms": "a transform",
    "chains": "a chain",
    "losses": "a loss",
    "pipelines": "a pipeline",
}
"""The sections whose names become classes, and what one declaration of each is called."""
_SECTIONS = {
    **_CLASSES,
    "rewards": "a reward",
    "models": "a language model",
    "functions": "a function",
    "specs": "a spec",
}


def report_misplaced(
    root: Mapping, wrong: Collection[Place], unknown: Collection[Place], sink: Sink
) -> set[Place]:
    """Report declarations that stand where their name belongs, in the wrong section, or in none.

    Args:
        root: the nodes of a file.
        wrong: the places that the models refuse.
        unknown: those of them that are fields which the models do not know.
        sink: takes the diagnostics.

    Returns:
        What is said by these, or by another one: the places of whole entries, in which nothing else is wrong.
    """
    said = _without_section(root, [str(place[0]) for place in unknown if len(place) == 1], sink)
    said |= _beside_the_name(wrong)
    for section in _SECTIONS:
        entries = root.get(section)
        if not isinstance(entries, Mapping):
            continue
        said |= _without_name(section, entries, wrong, sink)
        for name, _ in entries.entries:
            place = (section, name.text)
            fields = [str(one[2]) for one in unknown if len(one) == 3 and one[:2] == place]
            if place not in said and _in_wrong_section(section, name, fields, sink):
                said.add(place)
    return said


def _without_section(root: Mapping, fields: list[str], sink: Sink) -> set[Place]:
    """Fields of a declaration at the top of the file."""
    section = _section_with(fields)
    first = root.key(fields[0]) if section else None
    if section is None or first is None:
        return set()
    what = _SECTIONS[section]
    sink.add(
        rules.UNKNOWN_FIELD.at(
            first.span,
            f"{_named(fields)} at the top of a file: these are fields of {what}",
            help=f"write them below its section and its name: `{section}: {{MyName: {{{fields[0]}: …}}}}`",
        )
    )
    return {(field,) for field in fields}


def _beside_the_name(wrong: Collection[Place]) -> set[Place]:
    """Arguments of a pipeline's environment that stand beside its name: all but the first, which is reported."""
    said: set[Place] = set()
    beside = [
        place for place in wrong if place[:1] == ("pipelines",) and place[2:3] == ("env",) and len(place) == 4
    ]
    for name in {place[1] for place in beside}:
        mine = [place for place in beside if place[1] == name]
        first = next((place for place in mine if place[3] in NAMING), mine[0])
        said |= {place for place in mine if place != first}
    return said


def _without_name(section: str, entries: Mapping, wrong: Collection[Place], sink: Sink) -> set[Place]:
    """Fields of a declaration where the names of declarations stand."""
    if section not in _CLASSES:
        return set()
    refused = {place[1] for place in wrong if len(place) > 1 and place[0] == section}
    found = [name for name, _ in entries.entries if name.text in refused & _fields_in(section)]
    # A name without a value is reported already: its fields stand below it, not deep enough.
    if found and not entries.lost - {name.text for name, _ in entries.entries}:
        fields = [name.text for name in found]
        sink.add(
            rules.WRONG_TYPE.at(
                found[0].span,
                f"`{section}` should hold names, got {_named(fields)}: fields of {_SECTIONS[section]}",
                help=f"write its name above them: `{section}: {{MyName: {{{fields[0]}: …}}}}`",
            )
        )
    return {(section, name.text) for name in found}


def _in_wrong_section(section: str, name: Scalar, fields: list[str], sink: Sink) -> bool:
    """Report a declaration that has fields of another section."""
    other = _section_with(fields)
    if other is None:
        return False
    sink.add(
        rules.UNKNOWN_FIELD.at(
            name.span,
            f"unknown fields {_named(fields)} in `{section}.{name.text}`: these are fields of {_SECTIONS[other]}",
            help=f"write it below `{other}`",
        )
    )
    return True


def _section_with(fields: list[str]) -> str | None:
    """The first section whose declarations have all of several fields; one field alone is rather misspelt."""
    if len(fields) < 2:
        return None
    return next((section for section in _SECTIONS if _fields_in(section).issuperset(fields)), None)


@cache
def _fields_in(section: str) -> set[str]:
    """The fields of the declarations of a section."""
    return fields_of(models_at((section, "name")))


def _named(fields: list[str]) -> str:
    shown = ", ".join(f"`{field}`" for field in fields[:3])
    return f"{shown}, …" if len(fields) > 3 else shown
