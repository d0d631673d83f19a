"""Importing the classes and functions that users write behind their declarations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["made_of_class"]

P = TypeVar("P")


def made_of_class(
    owner: object, path: str, make: Callable[[], P], field: str = "python", kind: str = "class"
) -> P:
    """What `make` makes of a class or function that it imports.

    Args:
        owner: an object of the generated class, for messages.
        path: the class as the schema names it, `package.module:Class`.
        make: imports the class and makes an object of it.
        field: the field of the schema that names it.
        kind: what it is: a class, or a function.

    Raises:
        ImportError: there is no such module, or no such class in it. What fails inside them is not touched.
    """
    module, _, name = path.partition(":")
    try:
        return make()
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        if not absent and (error.name != module or name not in str(error)):
            raise
        what = f"there is no module '{error.name}'" if absent else f"'{module}' has no {kind} '{name}'"
        raise ImportError(
            f"{type(owner).__name__}: its schema says `{field}: {path}`, but {what};"
            f" write it as the Protocol in {type(owner).__module__} says",
            name=error.name,
        ) from error
