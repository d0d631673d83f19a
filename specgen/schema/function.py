"""The `functions:` section of a file: pure functions that every declaration may call, of this file and of those that import it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, Expression, ParamField, text_or_mapping


class Arg(Declaration):
    """An argument of a function that is a tensor.

    Attributes:
        type: its type for one row: a spec, or a pattern such as `float[time]`; names are sizes of any number.
        doc: one line for the generated docstring.
    """

    type: str
    doc: str = ""


ArgField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Arg, Tag("long")], Discriminator(text_or_mapping)
]
"""An argument by its type, or in full."""


class SharedFunction(Declaration):
    """A pure function of tensors and numbers, which stands in the generated module of its file.

    Attributes:
        args: the tensors that it takes, one row of each.
        params: the numbers and truth values that it takes behind them, by keyword.
        let: named intermediate values.
        returns: its result.
        type: the type of the result; left out, it is that of `returns`.
        doc: what it computes, and where the formula is from.
    """

    args: dict[str, ArgField]
    params: dict[str, ParamField] = Field(default_factory=dict)
    let: dict[str, Expression] = Field(default_factory=dict)
    returns: Expression
    type: str | None = None
    doc: str = ""
