"""The field `offline:` of a transform: what it does with recorded data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, Expression


def _open_form(value: object) -> str:
    return "error" if isinstance(value, str) else "values"


OpenEnd = Annotated[
    Annotated[Literal["error"], Tag("error")] | Annotated[dict[str, Expression], Tag("values")],
    Discriminator(_open_form),
]
"""What to take where data end without `done`: nothing (`error`), or a value of each output at that moment."""


class Recursion(Declaration):
    """A recursion over recorded data, from one end of each episode to the other.

    Attributes:
        direction: where it begins: `backward` at the end.
        start: the value of each output before the first moment.
        step: the outputs at a moment: a bare name is at the root, `next.x` under `next`, `acc.y` the value of `y`
            at the moment done before.
        open: what `acc.y` is where the data end without `done`.
        at: where the outputs are written.
        reads: what a Python class is given in place of all that: roles at the root, and `next.x`.
    """

    direction: Literal["backward", "forward"] = "backward"
    start: dict[str, Expression] = Field(default_factory=dict)
    step: dict[str, Expression] = Field(default_factory=dict)
    open: OpenEnd = "error"
    at: Literal["next", "root", "both"] = "next"
    reads: list[str] = Field(default_factory=list)


def _offline_form(value: object) -> str:
    return "refused" if isinstance(value, bool) else "recursion"


Offline = Annotated[
    Annotated[Literal[False], Tag("refused")] | Annotated[Recursion, Tag("recursion")],
    Discriminator(_offline_form),
]
"""`false` refuses recorded data; a recursion is for nothing else."""
