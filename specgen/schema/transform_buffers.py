"""The field `buffers:` of a transform: what it learns, shared by all rows and episodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specgen.schema.fields import Declaration


class Buffer(Declaration):
    """A statistic.

    Attributes:
        each: the role of which each key has one of its own; without it there is one.
        type: a dtype, a dtype with `[...]` for the dimensions of the role, `like(x)` for its dtype, too, or `like(…)` of an
            expression of roles.
        init: what it begins with: a number, a truth value or the name of a parameter.
        optional: whether it has no value where the parameter of `init` was not given, until it is learned.
        doc: one line for the generated docstring.
    """

    each: str | None = None
    type: str
    init: Annotated[bool | int | float | str, Field(union_mode="left_to_right")]
    optional: bool = False
    doc: str = ""
