"""`around` of a transform: how it steps the environment before it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, Expression


def _actions_form(value: object) -> str:
    return "random" if isinstance(value, str) else "several"


Actions = Annotated[
    Annotated[str, Tag("random")] | Annotated[dict[str, Expression], Tag("several")],
    Discriminator(_actions_form),
]
"""`random`, or an expression for each inverse role."""


class Around(Declaration):
    """How a transform steps the environment before it: several times, not at all, or after a reset.

    Exactly one of `repeat`, `skip` and `reset_steps` is given.

    Attributes:
        repeat: how many steps are taken as one.
        until: where a row stops earlier.
        fold: roles whose values are combined over the repetitions: `acc.x` is what those before gave.
        collect: outputs that get the values of all repetitions, along a new front axis.
        taken: the output that gets the number of repetitions of each row.
        skip: where a row does not step.
        reset_steps: how many steps each row takes after a reset.
        at_most: the most that `reset_steps` can be.
        action: what is done at each repetition, for each inverse role; or `random`, after a reset.
    """

    repeat: Expression | None = None
    until: Expression | None = None
    fold: dict[str, Expression] = Field(default_factory=dict)
    collect: dict[str, Expression] = Field(default_factory=dict)
    taken: str | None = None
    skip: Expression | None = None
    reset_steps: Expression | None = None
    at_most: Expression | None = None
    action: Actions | None = None
