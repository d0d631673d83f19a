"""The `transforms:` section: small state machines over keys, between an environment and its user."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, DeclaredClass, Expression, ParamField
from specgen.schema.transform_offline import Offline


def _list_form(value: object) -> str:
    return "one" if isinstance(value, str) else "several"


Selectors = Annotated[
    Annotated[str, Tag("one")] | Annotated[list[str], Tag("several")],
    Discriminator(_list_form),
]
"""Keys (`observation`, `agents.reward`) and groups of the environment's keys (`env.reward`), one or several."""


class InKey(Declaration):
    """What a transform reads: a role that stands for one key, or for each of several.

    Exactly one of `each`, `key` and `all` is given.

    Attributes:
        each: the keys that the transform treats one by one; users may pass others.
        key: one key.
        all: the keys that the transform reads together.
        type: the pattern that a key's spec must match (`float[...]`, `float64[...]`, `any[...]`); keys of a
            group (`env.reward`) that do not match are passed over.
        inverse: the role is what the environment is given (`inverse` computes it) instead of what it returns.
        doc: one line for the generated docstring.
    """

    each: Selectors | None = None
    key: str | None = None
    all: Selectors | None = None
    type: str = "any[...]"
    inverse: bool = False
    doc: str = ""


class OutKey(Declaration):
    """What a transform writes, one for each key of the role that it follows.

    Attributes:
        each: the role that it follows.
        name: the last part of its key: a name, `same`, or a pattern with `{}` for the last part of the input's key.
        type: its type; `...` stands for the dimensions of the role, `like(x)` for the type of another.
        keyword: the constructor keyword with which users choose `name`; without one, `out_keys` does.
        when: `given(p)`: it exists only where the optional parameter `p` has a value.
        scale: dimensions that grow by a factor.
        doc: one line for the generated docstring.
    """

    each: str
    name: str = "same"
    type: str | None = None
    keyword: str | None = None
    when: str | None = None
    scale: dict[str, Expression] = Field(default_factory=dict)
    doc: str = ""


Actions = Annotated[
    Annotated[str, Tag("one")] | Annotated[dict[str, Expression], Tag("several")],
    Discriminator(_list_form),
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


class Transform(DeclaredClass):
    """A transform: what it reads, what it carries from step to step, and what it computes when.

    Attributes:
        params: constructor keywords of the generated class.
        in_: the roles it reads (`in`).
        out: the roles it writes.
        carry: outputs whose value the next step reads.
        reset: the outputs at the start of an episode.
        step: the outputs after a step: `next.k` is the value after it, a bare `k` the value before.
        map: outputs that depend on nothing but the inputs of the same moment: at reset, at step and offline.
        inverse: the inputs of the environment, computed from what the policy wrote.
        derive_done: whether a flag that this transform raises ends the episode (`done`); a truth value, or the name
            of a parameter.
        around: how it steps the environment before it.
        signature: the order of the constructor's arguments, where the usual one will not do.
        offline: `false` refuses recorded data; a recursion over such data stands instead of the phases.
        buffers, update, moves, drops, masks, python: reserved.
    """

    params: dict[str, ParamField] = Field(default_factory=dict)
    in_: dict[str, InKey] = Field(default_factory=dict, alias="in")
    out: dict[str, OutKey] = Field(default_factory=dict)
    carry: list[str] = Field(default_factory=list)
    reset: dict[str, Expression] = Field(default_factory=dict)
    step: dict[str, Expression] = Field(default_factory=dict)
    map: dict[str, Expression] = Field(default_factory=dict)
    inverse: dict[str, Expression] = Field(default_factory=dict)
    derive_done: Annotated[bool | str, Field(union_mode="left_to_right")] = True
    signature: list[str] = Field(default_factory=list)
    buffers: dict[str, Any] = Field(default_factory=dict)
    update: dict[str, Expression] = Field(default_factory=dict)
    offline: Offline | None = None
    around: Around | None = None
    moves: dict[str, str] = Field(default_factory=dict)
    drops: list[str] = Field(default_factory=list)
    masks: dict[str, str] = Field(default_factory=dict)
    python: str | None = None
