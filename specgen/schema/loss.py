"""The `losses:` section: networks, keys, and the terms that an optimizer minimises."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import (
    Discriminator,
    Field,
    SerializeAsAny,
    Tag,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from specgen.schema.fields import Declaration, DeclaredClass, Expression, Number, Param, text_or_mapping


def _form(value: object) -> str:
    """Which form of a field a value has: `long`, a mapping, or `short`."""
    return "long" if isinstance(value, (dict, Declaration)) else "short"


DROP = "drop"
"""What a loss or a pipeline says of a section, entry or field that it does not take over from the one that it extends."""


NOTHING_DROPPED = {"dropped": False}
"""The context of a validation of what has no drops any more: the word is as wrong there as any other."""


def _unless_dropped(value: object, validated: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
    return value if value == DROP and info.context != NOTHING_DROPPED else validated(value)


T = TypeVar("T")
Droppable = Annotated[SerializeAsAny[T], WrapValidator(_unless_dropped)]
"""What a loss or a pipeline that extends another one may drop, in a schema that is written in Python.

Checks never see the word: what is dropped is gone before they begin.
"""


class Network(Declaration):
    """A network of the loss: what it reads and writes, and which copies of its parameters there are.

    Attributes:
        policy: the role of the action whose distribution it gives.
        keys: of a policy, the roles whose keys are those where the module that the user gives writes its `sample` and its
            `log_prob`.
        plain: `delta`, for a policy: a module that gives no distribution is one that is certain of what it writes. `true`,
            for a network with `out`: a module of tensors, which is called with those of `in`, and kept as it is.
        trains: whether gradients reach its parameters.
        qvalue: the role of the discrete action that it values: it writes one value for each of them, and the
            action is read as their index, however it is stored.
        choices: whether that action makes several choices: it writes a row of values for each of them, and the action is read
            as an index of each.
        in_: what it reads (`in`), by default; the network that the user gives decides.
        out: what it writes: the role of each key, with its type.
        ensemble: the parameter that says how many members it has; an axis of that many in expressions.
        target: whether it has target parameters: a truth value, or the name of the parameter that says so.
        apart: whether parameters that it shares with a network before it are trained by that one alone: a truth
            value, or the name of the parameter that says so.
        optional: whether it may be left out (then ``given(name)`` is false in conditions).
        joined: whether its calls with trained parameters run as one batch, of which its statistics see all.
        buffers: buffers of the module that is passed, with their types: constants in expressions.
        doc: one line for the generated docstring.
    """

    policy: str | None = None
    keys: Droppable[dict[str, Literal["sample", "log_prob"]]] = Field(default_factory=dict)
    plain: Annotated[bool | Literal["delta"], Field(union_mode="left_to_right")] = False
    trains: bool = True
    qvalue: str | None = None
    choices: bool = False
    in_: Droppable[list[str]] = Field(default_factory=list, alias="in")
    out: Droppable[dict[str, str]] = Field(default_factory=dict)
    ensemble: str | None = None
    target: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    apart: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    optional: bool = False
    joined: bool = False
    buffers: dict[str, str] = Field(default_factory=dict)
    doc: str = ""


class Auto(Declaration):
    """What a number is that the caller leaves to the loss, in full.

    Attributes:
        value: the number.
        when: the condition on parameters and networks under which the loss has one; elsewhere it stays None.
    """

    value: Expression
    when: Expression


AutoField = Annotated[
    Annotated[Expression, Tag("short")] | Annotated[Auto, Tag("long")], Discriminator(_form)
]
"""A computed number as its bare expression, or in full."""


class Limits(Declaration):
    """What must hold of one part of a pair, besides what holds of both: closed bounds, and open ones."""

    min: Number | None = None
    max: Number | None = None
    above: Number | None = None
    below: Number | None = None


class LossParam(Param):
    """A parameter of a loss.

    Attributes:
        buffer: whether it is kept as a buffer, a tensor in the state dict that can be assigned in place: a truth value,
            or the name that it has in the state dict; of a number that may be a pair also `parts`, if these are always
            the buffers.
        fixed: whether it is a constant of the loss: no keyword of the constructor.
        auto: the number that the default stands for: the word "auto", or None where it is `optional`.
        parts: the names of its parts, if it is a number or a pair of numbers, with what holds of each besides.
        true_is: the parameter whose number True stands for; False is None then.
        by_part: whether it may be a number for each part of an action, which expressions read beside `entropies`.
        or_function: of words, the kinds of a distance: whether it may be a function of a prediction and a target instead.
    """

    buffer: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    fixed: bool = False
    auto: AutoField | None = None
    parts: Annotated[list[str] | dict[str, Limits], Field(union_mode="left_to_right", default_factory=list)]
    true_is: str | None = None
    by_part: bool = False
    or_function: bool = False


class LossKey(Declaration):
    """A role and the key that plays it by default; users rename it with `set_keys`.

    Attributes:
        key: the default key, dotted when nested.
        domain: who says what its values are: keywords of the constructor, of which one is given, `action_spec`, its spec,
            and `bounds`, its bounds; a policy, by its own spec.
        type: the type of what is read there; rewards and done flags have theirs.
        role: the name that users rename it by, where expressions call it otherwise.
        optional: whether the data may lack it (then ``given(name)`` is false in conditions).
        when: the condition on parameters under which it is there; it is read only then.
        mask: whether it says which samples count: `true`, or `not` if it marks those that don't.
        missing: what stands for it where the data lack it: a number, or `estimate`, what the value estimator gives.
        doc: one line for the generated docstring.
    """

    key: str = ""
    domain: Droppable[list[str]] = Field(default_factory=list)
    type: str | None = None
    role: str | None = None
    optional: bool = False
    when: Expression | None = None
    missing: Expression | None = None
    mask: Expression | None = None
    doc: str = ""


class PassedModule(Declaration):
    """An object of the constructor whose methods expressions call.

    Attributes:
        protocol: what it can do: a `normalizer` has `normalize(x)`, a `value_norm` `denormalize(x)` and `scale()`, too.
        optional: whether it may be left out (then ``given(name)`` is false in conditions).
        update: the role of what it is updated by, before all else, when the loss is trained; it has a method `update(x)`.
        estimated: whether only what the value estimator of the loss fills in updates it, not what the data hold.
        doc: one line for the generated docstring.
    """

    protocol: Literal["normalizer", "value_norm"]
    optional: bool = False
    update: str | None = None
    estimated: bool = False
    doc: str = ""


class Learnable(Declaration):
    """A number that an optimizer changes together with the networks.

    Attributes:
        init: the expression of its first value, over parameters.
        low, high: those of its bounds.
        bound: whether the number itself is moved between its bounds before it is read (`move`), or only what is read,
            with the gradient of the identity (`pass`).
        fixed: whether it stays as it is: a truth value, or the name of the parameter that says so.
        when: a condition on parameters: whether there is one.
        doc: one line for the generated docstring.
    """

    init: Expression | None = None
    low: Expression | None = None
    high: Expression | None = None
    bound: Literal["move", "pass"] | None = None
    fixed: Annotated[bool | str, Field(union_mode="left_to_right")] = False
    when: Expression | None = None
    doc: str = ""


class Estimator(Declaration):
    """The value estimator that the loss uses unless told otherwise.

    Attributes:
        default: its name: `td0`, `td1`, `td_lambda`, and with a `network` `gae`, `multi_agent_gae` or `vtrace`.
        supports: the names of those that users may choose; without it, or with `all`, all that there are.
        value: the value of the next state that it bootstraps from, a name under `let`; or the role whose key it takes
            for the value that it reads and writes.
        network: the network whose values estimators of advantages read.
    """

    default: str
    supports: Annotated[list[str] | str | None, Field(union_mode="left_to_right")] = None
    value: str | None = None
    network: str | None = None


class Term(Declaration):
    """A term in full.

    Attributes:
        value: what is minimised, one number of each sample.
        when: the condition on parameters under which there is such a term; without it nothing of it is computed.
        elementwise: whether a sample may have several numbers: `mean` and `sum` go over them, too.
        mask: which samples count for this term.
    """

    value: Expression
    when: Expression | None = None
    mask: Expression | None = None
    elementwise: bool = False


class Metric(Declaration):
    """A metric in full; it has one of `value`, `each` and `by_part`.

    Attributes:
        value: what is averaged over the samples.
        each: its value for each sample, which is kept: detached, neither masked nor reduced.
        by_part: a number for each part of an action, as `entropies` gives it, kept likewise: one entry of each part, of an
            action that has several.
        name: what the entry of a part is called, with `{}` for the part.
        when: the condition on parameters under which there is such a metric.
    """

    value: Expression | None = None
    each: Expression | None = None
    by_part: Expression | None = None
    name: str = "{}"
    when: Expression | None = None


LossParamField = Annotated[
    Annotated[bool | int | float | str, Tag("short")] | Annotated[LossParam, Tag("long")],
    Discriminator(_form),
]
"""A parameter as its bare default, or in full."""

KeyField = Annotated[
    Annotated[str, Tag("short")] | Annotated[LossKey, Tag("long")], Discriminator(text_or_mapping)
]
"""A key as its bare default, or in full."""

EstimatorField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Estimator, Tag("long")], Discriminator(text_or_mapping)
]
"""An estimator as its bare name, or in full."""


TermField = Annotated[
    Annotated[Expression, Tag("short")] | Annotated[Term, Tag("long")], Discriminator(_form)
]
"""A term as the expression of one number of each sample, or in full."""


MetricField = Annotated[
    Annotated[Expression, Tag("short")] | Annotated[Metric, Tag("long")], Discriminator(_form)
]
"""A metric as the expression of its mean, or in full."""


class Method(Declaration):
    """A method that is given values and computes one term, or another value of each sample, from them, not from the data.

    It has either `term` or `value`.

    Attributes:
        term: the term.
        value: the value, a name of `let`.
        given: what it is computed from, names of `let`, by the arguments of the method: values, and distributions.
        type: `float32[1]` where the method returns numbers with a trailing 1, as the data have them.
    """

    term: str | None = None
    value: str | None = None
    given: dict[str, str]
    type: Literal["float32[1]"] | None = None


MethodField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Method, Tag("long")], Discriminator(text_or_mapping)
]
"""A method as the bare name of its term, which it computes from the data, or in full, with what it is given."""


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
        modules: objects of the constructor, such as normalizers, whose methods expressions call.
        value_estimator: the estimator behind `value_estimate(next_value)`.
        samples: the dimensions of a sample when they are not just the batch.
        mask: which samples count, in every term, metric and statistic over the batch.
        reduce: over which dimensions of the samples terms take means before the reduction, by the words of a parameter,
            which is called `by`; `none` for no reduction.
        functional: whether the class takes the parameters of its networks, unless told otherwise.
        let: named intermediate values, in order.
        terms: the `loss…` entries: one value per sample; the reduction is applied to each.
        metrics: what is returned with the terms, detached: means over the samples, or each sample's own value.
        writes: what is written back into the data, by role.
        update: what buffers become after the terms, `next.name` by name, where the loss is trained.
        methods: methods that compute one term, or one value of what they are given, by name.
        out_keys: terms and metrics in the order in which a call with tensors returns them; others stand behind them.
    """

    extends: str | None = None
    abstract: bool = False
    networks: dict[str, Droppable[Network]] = Field(default_factory=dict)
    keys: dict[str, KeyField] = Field(default_factory=dict)
    params: dict[str, LossParamField] = Field(default_factory=dict)
    require: dict[str, Expression] = Field(default_factory=dict)
    learnable: dict[str, Droppable[Learnable]] = Field(default_factory=dict)
    modules: dict[str, Droppable[PassedModule]] = Field(default_factory=dict)
    value_estimator: EstimatorField | None = None
    samples: list[str] = Field(default_factory=list)
    mask: Expression | None = None
    reduce: dict[str, Annotated[list[str] | str, Field(union_mode="left_to_right")]] = Field(
        default_factory=dict
    )
    functional: bool = True
    let: dict[str, Expression] = Field(default_factory=dict)
    terms: dict[str, TermField] = Field(default_factory=dict)
    metrics: dict[str, MetricField] = Field(default_factory=dict)
    writes: dict[str, Expression] = Field(default_factory=dict)
    update: dict[str, Expression] = Field(default_factory=dict)
    methods: dict[str, MethodField] = Field(default_factory=dict)
    out_keys: list[str] = Field(default_factory=list)
