"""What is said of a field that the language does not know at its place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, get_args, get_origin

from specgen.diagnostics import Diagnostic, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.schema.allowed import fields_of, kinds_of, models_at
from specgen.schema.env import time_limit_help
from specgen.schema.other_names import field_otherwise_called, named_as
from specgen.source import Mapping, Node, Scalar

Place = Sequence[str | int]


def unknown_field(root: Mapping, parent: Node | None, place: Place, refused: Collection[Place]) -> Diagnostic:
    """The error about a field that the models refuse as unknown, with the nearest remedy.

    Args:
        root: the nodes of a file.
        parent: what has the field.
        place: the place of the field in the file.
        refused: the places of all fields in the file that the models refuse so.
    """
    *outer, last = place
    name = str(last)
    key = parent.key(name) if isinstance(parent, Mapping) else None
    fields = fields_at(parent, outer, without={str(one[-1]) for one in refused if [*one[:-1]] == outer})
    where = f" in `{'.'.join(map(str, outer))}`" if outer else ""
    help = (
        _word(outer, name)
        or field_otherwise_called(name, fields)
        or _of_another_kind(parent, outer, name)
        or _one_beside_several(parent, outer, name)
        or _device_of_a_network(outer, name, fields)
        or _network_in_a_group(parent, outer, name)
        or ("write `mixer: vdn`" if (*outer[4:], name) == ("mixer", "vdn") else None)
        or _other_level(parent, outer, name)
        or suggestion(name, fields)
        or (time_limit_help(name) if place[0] in ("envs", "chains") else None)
        or _in_what_is_left_out(parent, outer, name)
        or f"the fields here are {', '.join(fields)}"
    )
    span = key.span if key else root.span
    return rules.UNKNOWN_FIELD.at(span, f"unknown field `{name}`{where}", help=help)


def _word(outer: Place, name: str) -> str | None:
    """What is said of a word with something below it, where the word alone is allowed in place of the mapping."""
    if any(get_origin(one) is Literal and name in get_args(one) for one in models_at(outer)):
        return f"write `{outer[-1]}: {name}`"
    return None


def field_of_a_pipeline(pipeline: Node | None, place: Place, name: str) -> str | None:
    """Where a field belongs in a pipeline, of an argument that its loss does not have; None if nowhere.

    Args:
        pipeline: its node.
        place: its place, `("pipelines", name)`.
        name: the field.
    """
    return _other_level(pipeline, place, name) or _in_what_is_left_out(pipeline, place, name)


def _of_another_kind(parent: Node | None, outer: Place, name: str) -> str | None:
    """What is said of a field that another optimizer has, or another kind of recorded data that has all that is here."""
    if len(outer) < 4 or outer[0] != "pipelines" or outer[2] not in ("optimizer", "data"):
        return None
    own = {name, *_names_in(parent)} if outer[2] == "data" else {name}
    if outer[2] == "data" and "path" not in own:
        return None  # which data a loss learns from follows from the loss
    others = fields_of(models_at(outer[:-1])) - {str(outer[-1])}
    found = [one for one in sorted(others) if own <= fields_of(models_at([*outer[:-1], one]))]
    return f"write `{found[0]}` in the place of `{outer[-1]}`, which has none" if found else None


def _one_beside_several(parent: Node | None, outer: Place, name: str) -> str | None:
    """What is said of one of several by its name, beside fields of one for all, where either is allowed."""
    options = models_at(outer)
    fields = fields_of(options)
    node = parent.get(name) if isinstance(parent, Mapping) else None
    own, first = {*_names_in(node)}, next((one for one in _names_in(parent) if one in fields), None)
    by_name = any(get_origin(option) is dict for option in options)
    if first is None or not by_name or not own or not own <= fields:
        return None
    return f"`{first}` beside it is of all: write it below a name, too, or leave `{name}` out"


def _network_in_a_group(parent: Node | None, outer: Place, name: str) -> str | None:
    """What is said of a network that stands below its group, or its loss, whose name stands in front of it."""
    if len(outer) != 4 or outer[0] != "pipelines" or outer[2] != "networks":
        return None
    own = _names_in(parent.get(name) if isinstance(parent, Mapping) else None)
    if not own or not {*own} <= {*fields_of(models_at(outer))}:
        return None
    return f"write `{outer[-1]}.{name}` in one line below `networks`, without `{outer[-1]}` around it"


def _device_of_a_network(outer: Place, name: str, fields: Collection[str]) -> str | None:
    """What to say of a device for one of the networks of a pipeline, which are together."""
    if not outer or outer[0] != "pipelines":
        return None
    in_network = name == "device" and len(outer) == 4 and outer[2] == "networks"
    if in_network or (list(outer[2:]) == ["device"] and suggestion(name, fields) is None):
        place = "beside `networks`" if in_network else "here"
        return (
            "networks that learn are together, where `loss` is, and copies of those that act where `policy` is: "
            f'write `device: {{policy: cpu, loss: "cuda:0"}}` {place}'
        )
    return None


def _other_level(parent: Node | None, outer: Place, name: str) -> str | None:
    """Where the field belongs, if that is around where it stands, or within a field that stands beside it."""
    for depth in range(len(outer) - 1, 1, -1):
        if name in fields_of(models_at(outer[:depth])):
            levels = "one level" if depth == len(outer) - 1 else f"{len(outer) - depth} levels"
            return f"write `{name}` {levels} up, beside `{outer[depth]}`"
    below: list[tuple[list[str], Node | None]] = [([], parent)]
    for inner, node in below:
        for field in _names_in(node):
            meant = named_as(name, fields_of(models_at([*outer, *inner, field])))
            if field != name and meant:
                return f"write `{meant}` in `{'.'.join((*inner, field))}`"
            if isinstance(node, Mapping) and len(outer) > 1:
                below.append(([*inner, field], node.get(field)))
    return None


def _in_what_is_left_out(parent: Node | None, outer: Place, name: str) -> str | None:
    """Where the field belongs, if that is within the only field with such a one, or within one of several, none of which is there yet."""
    if len(outer) < 2:
        return None
    meant, found = "", dict[str, list[str]]()
    for field in sorted(fields_of(models_at(outer)) - {*_names_in(parent)}):
        inner = fields_of(models_at([*outer, field]))
        below = {one: named_as(name, fields_of(models_at([*outer, field, one]))) for one in sorted(inner)}
        kinds = [one for one, known in below.items() if known]
        if direct := named_as(name, inner):
            meant, found[field] = direct, []
        elif kinds:
            meant, found[field] = below[kinds[0]] or "", kinds
    field, *more = found or [""]
    kinds = found.get(field, [])
    if not found or (more and any(found.values())):
        return None
    if not kinds:
        others = f", or in the place of `{field}` {', '.join(f'`{one}`' for one in more)}" if more else ""
        return f"write `{field}: {{{meant}: …}}`{others}"
    others = (
        f", or in the place of `{kinds[0]}` {', '.join(f'`{one}`' for one in kinds[1:])}" if kinds[1:] else ""
    )
    return f"write `{field}: {{{kinds[0]}: {{{meant}: …}}}}`{others}"


def fields_at(found: Node | None, place: Place, *, without: Collection[str] = ()) -> list[str]:
    """The names of fields that the models allow at a place of a file, sorted.

    Where it says its `kind`, those of that kind; of several models, those that have most of the fields which are there.

    Args:
        found: what stands there.
        place: the place.
        without: fields that the model does not have.
    """
    options = [option for option in models_at(place) if fields_of([option])]
    kind = found.get("kind") if isinstance(found, Mapping) else None
    if isinstance(kind, Scalar):
        options = [option for option in options if kind.value in kinds_of(option)] or options
    options = [option for option in options if not fields_of([option]) & {*without}] or options
    known = [len(fields_of([option]) & {*_names_in(found)}) for option in options]
    return sorted(fields_of([one for one, count in zip(options, known, strict=True) if count == max(known)]))


def _names_in(node: Node | None) -> Collection[str]:
    return [key.text for key, _ in node.entries] if isinstance(node, Mapping) else []
