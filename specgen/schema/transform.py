"""The `transforms:` section: small state machines over keys, between an environment and its user."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from specgen.schema.fields import Declaration, DeclaredClass, Expression, ParamField
from specgen.schema.transform_around import Around
from specgen.schema.transform_buffers import Buffer
from specgen.schema.transform_networks import CalledNetwork
from specgen.schema.transform_offline import Offline


def _list_form(value: object) -> str:
    return "one" if isinstance(value, str) else "several"


Selectors = Annotated[
    Annotated[str, Tag("one")] | Annotated[list[str], Tag("several")],
    Discriminator(_list_form),
]
"""Keys (`observation`, `agents.reward`) and groups of the environment's keys (`env.reward`), one or several."""


def _drops_form(value: object) -> str:
    return "conditions" if isinstance(value, dict) else "roles"


Drops = Annotated[
    Annotated[list[str], Tag("roles")] | Annotated[dict[str, Expression], Tag("conditions")],
    Discriminator(_drops_form),
]
"""Roles that are dropped, or each with the condition on parameters under which it is (`true`: always)."""


class InKey(Declaration):
    """What a transform reads: a role that stands for one key, or for each of several.

    Exactly one of `each`, `key`, `all` and `flag` is given.

    Attributes:
        each: the keys that the transform treats one by one; users may pass others.
        with_: the role that this one goes along with, one key for each of its keys (`with`).
        key: one key, the same for all that the transform treats one by one.
        beside: the role beside whose key `key` stands.
        keyword: the constructor keyword with which users choose `key`, or the keys of an inverse `all`.
        all: the keys that the transform reads together.
        but: the role whose keys `all` leaves out.
        varargs: whether users pass the keys of `all` one after another, not as `in_keys`.
        sorted: when the keys of `all` are put into the order of their names: `true`, or a condition on parameters.
        flag: a done flag of the root-most done set on the path of the role `of`.
        of: the role whose episodes `flag` tells.
        optional: whether the transform can do without the key.
        type: the pattern that a key's spec must match (`float[...]`, `float64[...]`, `any[...]`); keys of a
            group (`env.reward`) that do not match are passed over.
        dtype: the enum parameter that says which dtype the keys have.
        recorded: the keys are those of recorded data, which users say; in an environment there are none.
        inverse: the role is what the environment is given (`inverse` computes it) instead of what it returns.
        written_by: `policy` for an action as the policy wrote it, which `step` reads.
        doc: one line for the generated docstring.
    """

    each: Selectors | None = None
    with_: str | None = Field(default=None, alias="with")
    key: str | None = None
    beside: str | None = None
    keyword: str | None = None
    all: Selectors | None = None
    but: str | None = None
    varargs: bool = False
    sorted: Expression | None = None
    flag: Literal["done", "terminated", "truncated"] | None = None
    of: str | None = None
    optional: bool = False
    type: str = "any[...]"
    dtype: str | None = None
    recorded: bool = False
    inverse: bool = False
    written_by: Literal["policy"] | None = None
    doc: str = ""


class OutKey(Declaration):
    """What a transform writes: one for each key of the role that it follows, or one key.

    Attributes:
        each: the role that it follows.
        key: the one key that it is written under.
        inverse: whether the policy writes `key` in place of the keys of an inverse role with `all`.
        name: the last part of its key: a name, `same`, or a pattern with `{}` for the last part of the input's key.
        type: its type; `...` stands for the dimensions of the role, `like(x)` for the type of another.
        keyword: the constructor keyword with which users choose `name`; without one, `out_keys` does.
        optional: whether it exists only where users give `keyword`.
        when: parameters, decided at construction, without which it does not exist: `given(p)` of an optional one,
            a static truth value, `p == word`, `not` and `and`.
        group: `reward` for what is a reward; otherwise it is an observation, and what `map` makes is as its input.
        hidden: whether it is never shown: it is carried below `_carry`.
        written_by: `policy` for the state of a policy, which the policy itself writes under `next`.
        doc: one line for the generated docstring.
    """

    each: str | None = None
    key: str | None = None
    inverse: bool = False
    name: str = "same"
    type: str | None = None
    keyword: str | None = None
    optional: bool = False
    when: str | None = None
    group: Literal["observation", "reward"] | None = None
    hidden: bool = False
    written_by: Literal["policy"] | None = None
    doc: str = ""


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
        signature: the order of the constructor's arguments, where the usual one will not do.
        reset_keyword: the constructor keyword by which users say which masks begin what is carried anew.
        done_keyword: that by which they say which flag ends the episodes of recorded data.
        inverse_keyword: that by which they say that recorded data are transformed on the way into a replay buffer.
        backward: the `bool` parameter with which recorded data are replayed from the end of each episode.
        drops: roles whose keys are not shown any more; with a condition on parameters each, or a list.
        drops_inverse: roles whose keys are left out on the way to the environment or into a replay buffer; as `drops`.
        offline: `false` refuses recorded data; a recursion over such data stands instead of the phases.
        buffers: what is learned, shared by all rows and episodes.
        update: the buffers, from the rows that are new.
        learns: `always`, `at_reset`, or `when_called`: by `init_stats` and `learn` only.
        around: how it steps the environment before it.
        networks: the constructor's networks, which expressions call.
        python: the class that says what happens instead of statements, `package.module:Class`.
        phases: its methods.
        reads_env: whether it is made with the environment that the transform stands around.
        masks: which role says what of an action is allowed.
        methods: a class whose methods the generated one has besides its own, `package.module:Class`.
        moves: reserved.
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
    reset_keyword: str | None = None
    done_keyword: str | None = None
    inverse_keyword: str | None = None
    backward: str | None = None
    buffers: dict[str, Buffer] = Field(default_factory=dict)
    update: dict[str, Expression] = Field(default_factory=dict)
    learns: Literal["always", "at_reset", "when_called"] = "always"
    offline: Offline | None = None
    around: Around | None = None
    networks: dict[str, CalledNetwork] = Field(default_factory=dict)
    moves: dict[str, str] = Field(default_factory=dict)
    drops: Drops = Field(default_factory=list)
    drops_inverse: Drops = Field(default_factory=list)
    masks: dict[str, str] = Field(default_factory=dict)
    python: str | None = None
    phases: list[Literal["map", "reset", "step", "inverse", "offline"]] = Field(default_factory=list)
    reads_env: bool = False
    methods: str | None = None
