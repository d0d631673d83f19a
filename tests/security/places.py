"""Where a schema can hold a text, found from the pydantic models, so that a new field is among them on its own."""

from __future__ import annotations

import types
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from specgen.schema import Module

Path = tuple[str | int, ...]
HERE = "\0here"
"""Stands for the text in a value that a place adds to a document."""


@dataclass(frozen=True, eq=False)
class Place:
    """A text of a document: a value, the key of an entry, or a field that the document leaves out.

    Attributes:
        path: where it is; for a key, that of its entry.
        field: the model and the field that it belongs to.
        key: whether it is the key.
        added: what is written into a field that the document leaves out.
    """

    path: Path
    field: str
    key: bool = False
    added: Any = None

    def __str__(self) -> str:
        what = "key " if self.key else "new " if self.added is not None else ""
        return f"{what}{'.'.join(map(str, self.path))}"

    def put(self, document: dict[str, Any], text: str) -> dict[str, Any]:
        """The document with `text` in this place; entries keep their order."""
        made = deepcopy(document)
        parent: Any = made
        for part in self.path[:-1]:
            parent = parent[part]
        last = self.path[-1]
        if self.key:
            entries = [(text if name == last else name, value) for name, value in parent.items()]
            parent.clear()
            parent.update(entries)
        else:
            parent[last] = text if self.added is None else _filled(self.added, text)
        return made


def places(document: dict[str, Any]) -> list[Place]:
    """Every place of a document."""
    return list(_places(Module, document, (), "Module"))


def text_fields() -> set[str]:
    """Every field of the models that can hold a text."""
    found: set[str] = set()
    pending: list[type[BaseModel]] = [Module]
    seen: set[type[BaseModel]] = set()
    while pending:
        model = pending.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            if any(
                of == name for of, _ in _samples(field.annotation, name)
            ):  # else only a model within holds one
                found.add(f"{model.__name__}.{_key(name, field)}")
            pending += [each for each in _inside(field.annotation) if _is_model(each)]
    return found


def _places(annotation: Any, value: Any, path: Path, field: str) -> Iterator[Place]:
    if isinstance(value, (dict, list)) and path:
        yield Place(path, field)
    if isinstance(value, dict):
        model = next(filter(_is_model, _alternatives(annotation)), None)
        if model is not None:
            yield from _fields(model, value, path)
            return
        inner = next(
            (get_args(each)[1] for each in _alternatives(annotation) if get_origin(each) is dict), Any
        )
        for name, entry in value.items():
            yield Place((*path, name), field, key=True)
            yield from _places(inner, entry, (*path, name), field)
    elif isinstance(value, list):
        inner = next(
            (get_args(each)[0] for each in _alternatives(annotation) if get_origin(each) is list), Any
        )
        for index, entry in enumerate(value):
            yield from _places(inner, entry, (*path, index), field)
    else:
        yield Place(path, field)


def _fields(model: type[BaseModel], value: dict[str, Any], path: Path) -> Iterator[Place]:
    for name, info in model.model_fields.items():
        key = _key(name, info)
        field = f"{model.__name__}.{key}"
        if key in value:
            yield from _places(info.annotation, value[key], (*path, key), field)
        else:
            for of, sample in _samples(info.annotation, field):
                yield Place((*path, key), of, added=sample)


def _samples(annotation: Any, field: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Values of a type that hold a text, one for each place of the text, each with the field that it belongs to."""
    if depth > 4:
        return
    for each in _alternatives(annotation):
        origin, args = get_origin(each), get_args(each)
        if each in (str, Any):
            yield field, HERE
        elif origin is dict:
            yield field, {HERE: _some(args[1], depth)}
            yield from ((of, {"name": sample}) for of, sample in _samples(args[1], field, depth + 1))
        elif origin is list:
            yield from ((of, [sample]) for of, sample in _samples(args[0], field, depth + 1))
        elif _is_model(each):
            for name, info in each.model_fields.items():
                others = {
                    _key(other, needed): _some(needed.annotation, depth)
                    for other, needed in each.model_fields.items()
                    if needed.is_required() and other != name
                }
                own = f"{each.__name__}.{_key(name, info)}"
                for of, sample in _samples(info.annotation, own, depth + 1):
                    yield of, {**others, _key(name, info): sample}


def _some(annotation: Any, depth: int) -> Any:
    """A harmless value of a type."""
    return _filled(next((sample for _, sample in _samples(annotation, "", depth + 1)), 1), "word")


def _filled(value: Any, text: str) -> Any:
    match value:
        case dict():
            return {_filled(key, text): _filled(entry, text) for key, entry in value.items()}
        case list():
            return [_filled(entry, text) for entry in value]
        case _:
            return text if value == HERE else value


def _key(name: str, field: FieldInfo) -> str:
    return field.alias or name


def _inside(annotation: Any) -> Iterator[Any]:
    for each in _alternatives(annotation):
        yield each
        for arg in get_args(each):
            yield from _inside(arg)


def _alternatives(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for option in get_args(annotation):
            yield from _alternatives(option)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
