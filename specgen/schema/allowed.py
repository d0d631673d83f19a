"""What the models allow at a place of a file: read off their annotations."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from specgen.schema.module import Module


def models_at(path: Sequence[str | int]) -> list[Any]:
    """What the models allow at a place of the file: models, kinds of containers and of plain values.

    What may be one model, or several by names of one's own, is the one where the name is a field of it.
    """
    options: list[Any] = [Module]
    for part in path:
        fields = [inner for one in options if _is_model(one) for inner in _step_into(one, str(part))]
        options = fields or [inner for option in options for inner in _step_into(option, str(part))]
    return options


def fields_of(models: Sequence[Any]) -> set[str]:
    """The names, as they are written in a file, of the fields of all that are models."""
    return {
        field.alias or name
        for model in models
        if _is_model(model)
        for name, field in model.model_fields.items()
    }


def kinds_of(model: Any) -> tuple[Any, ...]:
    """The words that the field `kind` of a model can be."""
    field = model.model_fields.get("kind") if _is_model(model) else None
    return get_args(field.annotation) if field is not None else ()


def _step_into(annotation: Any, part: str) -> Iterator[Any]:
    if _is_model(annotation):
        for name, field in annotation.model_fields.items():
            if (field.alias or name) == part:
                yield from _alternatives(field.annotation)
        return
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is dict:
        yield from _alternatives(args[1])
    elif origin is list:
        yield from _alternatives(args[0])


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
