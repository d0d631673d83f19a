"""Classes of values: dataclasses that are quick to declare and to make.

A run of the compiler declares two hundred classes and makes thousands of values for each file. Python's own `dataclass`
compiles six functions for each class, and a frozen one looks at each assignment of its own `__init__`. Here the functions
but for `__init__` are shared, and that nobody assigns to a field of a frozen value is left to type checkers. Its
`replace` asks each field what it is, each time; this one knows the fields of a class.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False):
        """Make a class a dataclass, as Python's decorator of that name does.

        Args:
            cls: the class.
            frozen: values can be hashed, and type checkers refuse assignments to their fields.
            slots: values have these fields and no other attributes.
            kw_only: `__init__` takes fields by name only.
        """
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, slots=slots, kw_only=kw_only)
        own = vars(cls)
        # Without any, it would be the signature, and finding that takes longer than all the rest.
        cls.__doc__ = cls.__doc__ or cls.__name__
        made = dataclasses.dataclass(cls, repr=False, eq=False, slots=slots, kw_only=kw_only)
        names = [item.name for item in dataclasses.fields(made) if item.compare]
        compared = attrgetter(*(names or ["__class__"]))
        methods = {
            "__repr__": _shown,
            "__eq__": lambda self, other: (
                compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented
            ),
            "__hash__": (lambda self: hash(compared(self))) if frozen else None,
        }
        for name, method in methods.items():
            if name not in own:
                setattr(made, name, method)
        return made

    def replace(value, /, **changes):
        """Another value of the same class, with some fields changed."""
        places, fields_of = _fields(value.__class__)
        if places is None:
            return dataclasses.replace(value, **changes)
        values = list(fields_of(value))
        for name, changed in changes.items():
            values[places[name]] = changed
        return value.__class__(*values)

    @cache
    def _fields(cls):
        """The place of each field among the arguments of a class, and what reads them; None if they go by name."""
        fields = [item for item in dataclasses.fields(cls) if item.init]
        if len(fields) < 2 or any(item.kw_only for item in fields):
            return None, None
        return {item.name: place for place, item in enumerate(fields)}, attrgetter(
            *[item.name for item in fields]
        )


@recursive_repr()
def _shown(value: Any) -> str:
    fields = (f"{item.name}={getattr(value, item.name)!r}" for item in dataclasses.fields(value) if item.repr)
    return f"{type(value).__qualname__}({', '.join(fields)})"


__all__ = ["dataclass", "replace"]
