"""Validates nodes as declarations; errors become diagnostics at the node that is wrong."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from specgen.diagnostics import Sink, Span, did_you_mean, suggestion
from specgen.diagnostics.rules import schema as rules
from specgen.schema.allowed import fields_of, kinds_of, models_at
from specgen.schema.bare_names import with_arguments
from specgen.schema.loss import DROP, NOTHING_DROPPED
from specgen.schema.misplaced import report_misplaced
from specgen.schema.module import Module
from specgen.schema.other_names import otherwise_called
from specgen.schema.shape_help import shape_help
from specgen.schema.unknown_fields import fields_at, unknown_field
from specgen.source import Mapping, Node, Scalar, Sequence
from specgen.source.resolve import number_hint
from specgen.values import dataclass


@dataclass(frozen=True)
class SchemaFile:
    """A declared module together with the nodes it came from, so that every part knows its place.

    Attributes:
        path: the file, as named in diagnostics.
        module: the declarations.
        root: the nodes; `node("envs", "Pendulum", "step", "u")` finds one.
    """

    path: str
    module: Module
    root: Mapping

    def node(self, *path: str | int) -> Node:
        """The node at `path`; raises KeyError when there is none."""
        found = find(self.root, path)
        if found is None:
            raise KeyError(path)
        return found

    def scalar(self, *path: str | int) -> Scalar:
        """The scalar at `path`, for a place where the models already proved that one stands."""
        found = self.node(*path)
        if not isinstance(found, Scalar):
            raise KeyError(path)
        return found

    def key_span(self, *path: str | int) -> Span:
        """The span of the last key of `path` (of the item itself inside a list)."""
        parent = find(self.root, path[:-1])
        if isinstance(parent, Mapping) and (key := parent.key(str(path[-1]))) is not None:
            return key.span
        found = find(self.root, path)
        return found.span if found is not None else self.root.span

    def whole_span(self, *path: str | int) -> Span:
        """From the last key of `path` to the end of its value."""
        return self.key_span(*path).to(self.span(*path))

    def span(self, *path: str | int) -> Span:
        """The span of the value at `path`, or of the nearest enclosing node."""
        for end in range(len(path), -1, -1):
            if (found := find(self.root, path[:end])) is not None:
                return found.span
        return self.root.span


def load(path: str, root: Mapping, sink: Sink) -> SchemaFile | None:
    """Validate the nodes of one file.

    Returns:
        The file's declarations, or ``None`` when their shape is wrong (each fault is in `sink`).
    """
    root = with_arguments(root)
    try:
        module = Module.model_validate(_without_drops(to_data(root)), context=NOTHING_DROPPED)
    except ValidationError as failure:
        places = _by_place(root, failure)
        unknown = [loc for loc, errors in places.items() if errors[0]["type"] == "extra_forbidden"]
        misspelt = {
            (*loc[:-1], did_you_mean(str(loc[-1]), fields_at(find(root, loc[:-1]), loc[:-1])))
            for loc in unknown
        }
        said = report_misplaced(root, places, unknown, sink)
        for loc, errors in places.items():
            if any(loc[:end] in said for end in range(1, len(loc) + 1)):
                continue
            # A field that is there under a name near its own is misspelt, not missing as well.
            if loc in unknown:
                sink.add(unknown_field(root, find(root, loc[:-1]), loc, unknown))
            elif errors[0]["type"] != "missing" or loc not in misspelt:
                _report(root, loc, errors, sink)
        return None
    return SchemaFile(path, module, root)


def to_data(node: Node) -> Any:
    """Plain Python data of a node, as the models take it."""
    match node:
        case Mapping():
            return {key.text: to_data(value) for key, value in node.entries}
        case Sequence():
            return [to_data(item) for item in node.items]
        case Scalar():
            return node.value


def is_dropped(node: Node) -> bool:
    """Whether a node stands for what a loss does not take over from the one that it extends."""
    return isinstance(node, Scalar) and node.value == DROP


def _without_drops(data: dict[str, Any]) -> dict[str, Any]:
    """The data of a file without what its losses and pipelines drop of those that they extend."""
    for section, depth in (("losses", 3), ("pipelines", 6)):
        found = data.get(section)
        if isinstance(found, dict):
            kept = {
                name: _kept(one, depth) if isinstance(one, dict) and "extends" in one else one
                for name, one in found.items()
            }
            data = {**data, section: kept}
    return data


def _kept(data: Any, depth: int) -> Any:
    """Data without the entries that are dropped: sections, their entries, and fields of these."""
    if not isinstance(data, dict) or not depth:
        return data
    return {key: _kept(value, depth - 1) for key, value in data.items() if value != DROP}


def find(root: Node, path: typing.Sequence[str | int]) -> Node | None:
    """The node at `path`, or ``None``."""
    node: Node | None = root
    for part in path:
        if isinstance(node, Mapping):
            node = node.get(str(part))
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def _by_place(root: Mapping, failure: ValidationError) -> dict[tuple[str | int, ...], list[Any]]:
    """The errors by the place they speak of: for a union there is one for each of its members.

    Where a member of a union is of the right kind but for something inside, only that is wrong.
    """
    places: dict[tuple[str | int, ...], list[Any]] = {}
    for error in failure.errors(include_url=False):
        absent = error["type"] == "missing"
        places.setdefault(tuple(_real_path(root, error["loc"], absent=absent)), []).append(error)
    inside = {place[:end] for place in places for end in range(len(place))}
    return {
        place: errors
        for place, errors in places.items()
        if place not in inside or not all(map(_is_of_another_kind, errors))
    }


def _is_of_another_kind(error: Any) -> bool:
    """Whether a member of a union takes another kind of value: a word, say, where a mapping stands."""
    return error["type"] in _EXPECTED or (
        error["type"] == "literal_error" and not isinstance(error["input"], str)
    )


def _report(root: Mapping, loc: tuple[str | int, ...], errors: list[Any], sink: Sink) -> None:
    # A whole number is a number: where either fits, the text is read as the wider one.
    error = next((one for one in errors if one["type"] == "float_type"), errors[0])
    if error["type"] == "missing":
        node = find(root, loc[:-1]) or root
        if isinstance(node, Mapping) and loc[-1] in node.lost:
            return  # it is there, and its value was refused
        owner = ".".join(map(str, loc[:-1])) or "the file"
        sink.add(
            rules.MISSING_FIELD.at(_head(root, loc[:-1]) or node.span, f"`{owner}` needs a field `{loc[-1]}`")
        )
        return
    if loc[:1] == ("import",):
        return  # the imports themselves are resolved, and reported, before
    if error["type"] in _TAGS:
        _report_kind(root, loc, error, sink)
        return
    found = find(root, loc)
    word = next((one for one in errors if one["type"] == "literal_error"), None)
    text = found if isinstance(found, Scalar) and isinstance(found.value, str) else None
    # Where a word may stand as well, a text is one, unless it is a number in another spelling.
    if text is not None and error["type"] in _READ and (word is None or number_hint(text.text) is not None):
        _READ[error["type"]](text, sink)
        return
    span = found.span if found is not None else _head(root, loc) or root.span
    sink.add(
        rules.WRONG_TYPE.at(
            span,
            f"`{'.'.join(map(str, loc))}` should be {_any_of(errors)}, got {describe(found, error['input'])}",
            help=_nearest(word or error)
            or _list_help(loc, found)
            or shape_help(loc, found, {_expected(one) for one in errors})
            or _braces_help(root, loc, found, errors),
        )
    )


_TAGS = ("union_tag_invalid", "union_tag_not_found")
"""What pydantic calls a declaration whose `kind` is missing, or is none that there is."""


def _report_kind(root: Mapping, loc: tuple[str | int, ...], error: Any, sink: Sink) -> None:
    kind = find(root, (*loc, "kind"))
    owner = ".".join(map(str, loc))
    kinds = sorted({word for model in models_at(loc) for word in kinds_of(model)})
    if kind is None:
        message = f"`{owner}` needs a field `kind`"
        help = f"the kinds are {', '.join(kinds)}"
        sink.add(rules.MISSING_FIELD.at(_head(root, loc) or root.span, message, help=help))
        return
    said = describe(kind, error["input"].get("kind"))
    near = suggestion(kind.text, kinds) if isinstance(kind, Scalar) else None
    message = f"`{owner}.kind` should be one of {', '.join(kinds)}, got {said}"
    sink.add(rules.WRONG_TYPE.at(kind.span, message, help=near))


def _real_path(root: Node, loc: tuple[Any, ...], *, absent: bool) -> Iterator[str | int]:
    """The parts of a pydantic location that exist in the file, but the last one if that is what is `absent`.

    Union tags are no part of it.
    """
    node: Node | None = root
    for index, part in enumerate(loc):
        last = absent and index == len(loc) - 1
        if isinstance(node, Mapping) and (node.key(str(part)) is not None or last):
            if part == "[key]":
                continue
            yield part
            node = node.get(str(part))
        elif isinstance(node, Sequence) and isinstance(part, int):
            yield part
            node = node.items[part] if part < len(node.items) else None


def _head(root: Mapping, path: tuple[str | int, ...]) -> Span | None:
    if not path:
        return None
    parent = find(root, path[:-1])
    key = parent.key(str(path[-1])) if isinstance(parent, Mapping) else None
    return key.span if key is not None else None


def _nearest(error: Any) -> str | None:
    """For a value that is none of a few words: the one that was meant."""
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return None
    expected = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    name = error["input"].rpartition(".")[2]  # of `nn.Tanh`
    return otherwise_called(name, expected) or suggestion(name, expected)


def _list_help(loc: tuple[str | int, ...], found: Node | None) -> str | None:
    """For a list as a parameter of an environment, a network or a trunk: how tensors, or layers in another order, are declared."""
    if not isinstance(found, Sequence):
        return None
    if loc[::2] == ("pipelines", "networks", "trunk"):
        return (
            "a network has one trunk; what it reads besides stands in `in`, `{trunk: encoder, in: [vector]}`"
        )
    if len(loc) != 4 or (loc[0], loc[2]) not in _NO_LISTS:
        return None
    if loc[2] == "networks":
        if all(isinstance(one, Scalar) for one in found.items):
            return (
                f"write `{{mlp: [{', '.join(one.text for one in found.items if isinstance(one, Scalar))}]}}`"
            )
        return "put the layers in front into a trunk: `front: {mlp: [64]}, memory: {trunk: front, lstm: 64}`"
    return (
        "a parameter that is a tensor is written {default: […], per_env: true}; "
        "a fixed table is declared under `consts`"
    )


_NO_LISTS = (("envs", "params"), ("pipelines", "networks"))


def _braces_help(
    root: Mapping, loc: tuple[str | int, ...], found: Node | None, errors: list[Any]
) -> str | None:
    """For a word or number where a list or a mapping of it is meant: that."""
    if loc[0] == "pipelines" and loc[2:3] == ("loss",) and len(loc) <= 4:
        return "name a loss, `DQNLoss`, or one with arguments, `{DQNLoss: {double_dqn: true}}`"
    if not isinstance(found, Scalar) or found.text in ("", "drop"):
        return None
    kinds = {_EXPECTED.get(one["type"]) for one in errors}
    if kinds == {"a list"}:
        if loc[0] == "envs" and loc[2:] == ("reward",) and not found.text.isidentifier():
            return f"write `reward: {found.text}` in `step`; `reward` beside it lists names of rewards"
        return f"write `[{found.text}]`"
    if "a mapping" not in kinds:
        return None
    if loc[0] == "envs" and loc[2:] == ("gymnasium",):
        return f"write `{{id: {found.text}}}`"
    fields = fields_at(found, loc)
    near = found.text if found.text in fields else suggestion(found.text, fields)
    if near == found.text:
        if fields_of(models_at([*loc, found.text])):
            return f"write `{{{found.text}: {{}}}}`"
        return f"write `{{{found.text}: …}}`, with its value"
    number = _number(found)
    of_number = next((one for one in fields if len(fields) == 1 or one in _OF_NUMBERS), None)
    if of_number is not None and number is not None:
        return f"write `{{{of_number}: {number}}}`"
    return near or (f"its fields are {', '.join(fields)}" if fields else None)


_OF_NUMBERS = ("lr", "every")
"""Fields of which people write the value alone: `checkpoint: 10_000`."""


def _number(found: Scalar) -> str | None:
    """A number as it is written, also of one that YAML takes for text: `1e-3`, `10_000`."""
    if isinstance(found.value, int | float) or _GROUPED.fullmatch(found.text):
        return found.text
    return repr(float(found.text)) if _POWER.fullmatch(found.text) else None


_POWER = re.compile(r"\d+(\.\d*)?e[+-]?\d{1,2}")

_GROUPED = re.compile(r"[1-9]\d{0,2}(_\d{3})+")

_READ = {"int_type": Scalar.as_int, "float_type": Scalar.as_float, "bool_type": Scalar.as_bool}
"""How a scalar of a kind is read: the reader says what is wrong with the text, and what to write."""

_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _any_of(errors: list[Any]) -> str:
    expected = list(dict.fromkeys(map(_expected, errors)))
    # A whole number is a number: naming both says nothing more.
    if "a number" in expected and "a whole number" in expected:
        expected.remove("a whole number")
    *others, last = expected
    return f"{', '.join(others)} or {last}" if others else last


def _expected(error: Any) -> str:
    if error["type"] == "literal_error":
        expected = str(error["ctx"]["expected"])
        return f"one of {expected}" if " or " in expected else expected
    return _EXPECTED.get(error["type"], str(error["msg"]).removeprefix("Input should be "))


def describe(node: Node | None, value: object) -> str:
    """A node in plain words: ``text "4"``, ``the number 4``, ``a list``."""
    value = node.value if isinstance(node, Scalar) else value
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case _ if isinstance(value, bool):
            return "true" if value else "false"
        case _ if isinstance(value, (int, float)):
            return f"the number {value}"
        case _ if isinstance(value, dict):
            return "a mapping"
        case _ if isinstance(value, list):
            return "a list"
        case _:
            return f'text "{value}"'
