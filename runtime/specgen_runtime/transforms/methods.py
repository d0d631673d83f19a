"""Methods that a generated transform has besides its own: those of a class that is written by hand."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["refuse_hidden_methods"]


def refuse_hidden_methods(transform: type[Any]) -> None:
    """Refuse a class of methods with a name that the transform has itself: nobody could call that one.

    Raises:
        TypeError: there is such a name in the class that `transform._methods` names for itself.
    """
    methods: type | None = transform.__dict__.get("_methods")
    if methods is None:
        return
    own = [base for base in methods.__mro__ if base is not object]
    taken = dict.fromkeys(inspect.signature(transform.__init__).parameters, "a parameter")
    for base in transform.__mro__:
        if base not in own:
            taken.update(dict.fromkeys(vars(base), f"what {base.__name__} has"))
    for name in (name for base in own for name in vars(base)):
        if name in taken and name not in _OF_ANY_CLASS:
            raise TypeError(
                f"{methods.__module__}.{methods.__qualname__} is to add methods to {transform.__name__}, where"
                f" {name!r} is {taken[name]} already: give it another name, or override it in a subclass"
            )


_OF_ANY_CLASS = frozenset(
    (
        *("__annotate_func__", "__annotations__", "__annotations_cache__", "__dict__", "__doc__"),
        *("__firstlineno__", "__module__", "__slots__", "__static_attributes__", "__weakref__"),
    )
)
"""What Python adds to every class."""
