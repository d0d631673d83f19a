"""The `losses:` section: networks, keys, and the terms that an optimizer minimises."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Discriminator, Field, SerializeAsAny, Tag, ValidatorFunctionWrapHandler, WrapValidator

from specgen.schema.fields import Declaration, DeclaredClass, Expression, ParamField, text_or_mapping


class Network(Declaration):
    """A network of the loss: what it reads and writes, and which copies of its parameters there are.

    Attributes:
        policy: the role of the action whose distribution it gives.
        qvalue: the role of the discrete action that it values: it writes one value for each of them, and the
            action is read as their index, however it is stored.
        in_: what it reads (`in`), by default; the network that the user gives decides.
        out: what it writes: the role of each key, with its type.
        ensemble: the parameter that says how many members it has; an axis of that many in expressions.
        target: whether it has target parameters: a truth value, or the name of the parameter that says so.
        apart: whether parameters that it shares with a network before it are trained by that one alone: a truth
            value, or the name of the parameter that says so.
        doc: one line for the generated docstring.
    """

    policy: str | None = None
    qvalue: str | None = None
    in_: list[str] = Field(default_factory=list, alias="in")
    out: dict[str, str] = Field(default_factory=dict)
    ensemble: str | None = None
    target: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    apart: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    doc: str = ""


class LossKey(Declaration):
    """A role and the key that plays it by default; users rename it with `set_keys`.

    Attributes:
        key: the default key, dotted when nested.
        type: the type of what is read there; rewards and done flags have theirs.
        doc: one line for the generated docstring.
    """

    key: str
    type: str | None = None
    doc: str = ""


class Learnable(Declaration):
    """A number that an optimizer changes together with the networks.

    Attributes:
        init: the expression of its first value, over parameters.
        low, high: those of its bounds.
        bound: whether the number itself is moved between its bounds before it is read (`move`), or only what is read,
            with the gradient of the identity (`pass`).
        fixed: whether it stays as it is: a truth value, or the name of the parameter that says so.
        when: the parameter that says whether there is one.
        doc: one line for the generated docstring.
    """

    init: Expression | None = None
    low: Expression | None = None
    high: Expression | None = None
    bound: Literal["move", "pass"] | None = None
    fixed: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    when: str | None = None
    doc: str = ""


class Estimator(Declaration):
    """The value estimator that the loss uses unless told otherwise.

    Attributes:
        default: its name: `td0`, `td1` or `td_lambda`.
        supports: the names of those that users may choose; all of them without it.
        value: the value of the next state that it bootstraps from, a name under `let`.
    """

    default: str
    supports: list[str] | None = None
    value: str | None = None


class Metric(Declaration):
    """A metric in full.

    Attributes:
        each: its value for each sample, which is kept: detached, neither masked nor reduced.
    """

    each: Expression


KeyField = Annotated[
    Annotated[str, Tag("short")] | Annotated[LossKey, Tag("long")], Discriminator(text_or_mapping)
]
"""A key as its bare default, or in full."""

EstimatorField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Estimator, Tag("long")], Discriminator(text_or_mapping)
]
"""An estimator as its bare name, or in full."""


DROP = "drop"
"""What a loss says of a section, entry or field that it does not take over from the loss that it extends."""


def _unless_dropped(value: object, validated: ValidatorFunctionWrapHandler) -> object:
    return value if value == DROP else validated(value)


T = TypeVar("T")
Droppable = Annotated[SerializeAsAny[T], WrapValidator(_unless_dropped)]
"""What a loss that extends another one may drop, in a schema that is written in Python.

Checks never see the word: what is dropped is gone before they begin.
"""


def _metric_form(value: object) -> str:
    return "long" if isinstance(value, (dict, Metric)) else "short"


MetricField = Annotated[
    Annotated[Expression, Tag("short")] | Annotated[Metric, Tag("long")], Discriminator(_metric_form)
]
"""A metric as the expression of its mean, or in full."""


class Loss(DeclaredClass):
    """A loss. Expressions are written for one sample; the generated class runs them for a batch.

    Attributes:
        extends: another loss, whose declaration it takes over by name; what it says itself goes before that.
        abstract: whether it is there to be extended only, and has no class.
        networks: the constructor's networks.
        keys: the roles that expressions read by name and that users rename.
        params: constructor keywords.
        require: conditions on the parameters, by what is said when one does not hold.
        learnable: scalars that are trained with the networks.
        value_estimator: the estimator behind `value_estimate(next_value)`.
        samples: the dimensions of a sample when they are not just the batch.
        mask: the role of the mask of valid samples.
        let: named intermediate values, in order.
        terms: the `loss…` entries: one value per sample; the reduction is applied to each.
        metrics: what is returned with the terms, detached: means over the samples, or each sample's own value.
        writes: what is written back into the data, by role.
    """

    extends: str | None = None
    abstract: bool = False
    networks: dict[str, Droppable[Network]] = Field(default_factory=dict)
    keys: dict[str, KeyField] = Field(default_factory=dict)
    params: dict[str, ParamField] = Field(default_factory=dict)
    require: dict[str, Expression] = Field(default_factory=dict)
    learnable: dict[str, Droppable[Learnable]] = Field(default_factory=dict)
    value_estimator: EstimatorField | None = None
    samples: list[str] = Field(default_factory=list)
    mask: str | None = None
    let: dict[str, Expression] = Field(default_factory=dict)
    terms: dict[str, Expression] = Field(default_factory=dict)
    metrics: dict[str, MetricField] = Field(default_factory=dict)
    writes: dict[str, Expression] = Field(default_factory=dict)
