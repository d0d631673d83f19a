"""What a checked transform is, for the dynamic class and for the chains that inline it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from specgen.check.model import Parameter, Statement
from specgen.expr import Symbol
from specgen.expr.sizes import ANY_DIMS, Dims

Phase = Literal[
    "reset", "step", "map", "inverse", "until", "fold", "collect", "action", "skip", "reset_steps"
]

PHASES: tuple[Phase, ...] = ("reset", "step", "map", "inverse")

AROUND_PHASES: tuple[Phase, ...] = ("until", "fold", "collect", "action", "skip", "reset_steps")
"""The parts of `around`: each is a section of its own."""


@dataclass(frozen=True)
class Role:
    """What a transform reads, for each of several keys.

    Attributes:
        name: its name in expressions.
        default: keys, and groups of the environment's keys (`env.reward`), that it stands for by default;
            `env.done` is the `done` of every root-most done set.
        pattern: the dtype pattern: `float`, `number`, `any` or a dtype.
        dtypes: the dtypes that the pattern admits.
        dims: its feature dimensions; `...` for those that nobody knows.
        inverse: whether it is what the environment is given.
    """

    name: str
    default: tuple[str, ...]
    pattern: str
    dtypes: tuple[str, ...]
    dims: Dims = ANY_DIMS
    inverse: bool = False
    doc: str = ""

    @property
    def required(self) -> bool:
        """Whether users have to pass its keys."""
        return not self.default

    @property
    def structural(self) -> bool:
        """Whether it follows the environment's done sets, so that users don't choose its keys."""
        return any(entry == "env.done" for entry in self.default)


@dataclass(frozen=True)
class Output:
    """What a transform writes, one for each key of a role.

    Attributes:
        name: its name in expressions.
        each: the role that it follows.
        key: the last part of its key, with `{}` for that of the role's key; `{}` alone is the same key.
        like: the role or output whose dtype it has; ``None`` when `dtype` says it.
        dtype: its dtype, when it does not follow `like`.
        interval: its declared values; ``None`` when nothing is declared.
        keyword: the constructor keyword that replaces `key`; ``None`` when `out_keys` does.
        when: the optional parameter that must be given for it to exist.
        carry: whether the next step reads it.
        flag: whether it is a done flag, or-ed with what it was.
        inverse: whether it is what the policy writes (the outer side of an inverse role).
        monotone: whether its expression is monotone in its role, so that bounds map to bounds.
    """

    name: str
    each: str
    key: str = "{}"
    like: str | None = None
    dtype: str | None = None
    interval: tuple[float, float] | None = None
    keyword: str | None = None
    when: str | None = None
    carry: bool = False
    flag: bool = False
    inverse: bool = False
    monotone: bool = False
    doc: str = ""

    @property
    def same(self) -> bool:
        """Whether it replaces its input by default."""
        return self.key == "{}"


@dataclass(frozen=True)
class Around:
    """How a transform steps the environment before it.

    Attributes:
        kind: whether it repeats a step, leaves some out, or takes some after a reset.
        count: how many steps it takes as one, or at most after a reset; None where some are left out.
        sections: the statements of each part. A part that is one expression defines what it is called itself.
        sums: the roles whose values are added up.
        extremes: those of which the largest or smallest value is taken.
        taken: the output that gets the number of repetitions.
    """

    kind: Literal["repeat", "skip", "reset_steps"]
    count: Statement | None
    sections: Mapping[Phase, tuple[Statement, ...]]
    sums: tuple[str, ...] = ()
    extremes: tuple[str, ...] = ()
    taken: str | None = None


@dataclass(frozen=True)
class CheckedRecursion:
    """A recursion over recorded data.

    Attributes:
        backward: whether it begins at the end.
        at: where its outputs are written.
        start: the value of each output before the first moment.
        step: the outputs at a moment, and local values.
        open: the values at an end of the data without `done`; empty where that is an error.
    """

    backward: bool
    at: Literal["next", "root", "both"]
    start: tuple[Statement, ...]
    step: tuple[Statement, ...]
    open: tuple[Statement, ...]


@dataclass(frozen=True)
class CheckedTransform:
    """A transform whose roles, types and data flow are known to be right, whatever keys it will get.

    Statements keep their parsed expressions: the dynamic class prints them for patterns, a chain infers them
    again for the dtypes and shapes of its keys.

    Attributes:
        around: how it steps the environment before it; None for most.
        reset, step, map, inverse: the statements of each phase, in the order written. Targets are outputs,
            `next.` outputs (`step`), inverse roles (`inverse`), or local values.
        derive_done: whether a raised flag raises `done`: a truth value, or the name of a `bool` parameter.
        signature: the constructor's parameters, in order.
        recalls: the names that `step` reads bare: their value before the step, at this position in the chain.
        recursion: what it computes over recorded data, and nowhere else.
        refuses_offline: whether it refuses recorded data.
        symbols: what expressions are given, by its path below the transform: `params.p`, `step.in.next.reward`.
    """

    name: str
    module: str
    doc: str
    params: tuple[Parameter, ...]
    roles: tuple[Role, ...]
    outputs: tuple[Output, ...]
    reset: tuple[Statement, ...]
    step: tuple[Statement, ...]
    map: tuple[Statement, ...]
    inverse: tuple[Statement, ...]
    derive_done: bool | str
    signature: tuple[str, ...]
    recalls: tuple[str, ...]
    symbols: Mapping[str, Symbol]
    around: Around | None = None
    recursion: CheckedRecursion | None = None
    refuses_offline: bool = False

    def param(self, name: str) -> Parameter:
        """The parameter of this name."""
        return next(param for param in self.params if param.name == name)

    def role(self, name: str) -> Role:
        """The role of this name."""
        return next(role for role in self.roles if role.name == name)

    def output(self, name: str) -> Output:
        """The output of this name."""
        return next(output for output in self.outputs if output.name == name)

    def phase(self, phase: Phase) -> tuple[Statement, ...]:
        """The statements of a phase, or of a part of `around`."""
        if phase in AROUND_PHASES:
            return () if self.around is None else self.around.sections.get(phase, ())
        statements: tuple[Statement, ...] = getattr(self, phase)
        return statements

    @property
    def folded(self) -> tuple[Role, ...]:
        """The roles that `around` combines over its repetitions."""
        targets = {statement.target for statement in self.phase("fold")}
        return tuple(role for role in self.roles if role.name in targets)

    @property
    def collected(self) -> tuple[Output, ...]:
        """The outputs that get the values of all repetitions."""
        targets = {statement.target for statement in self.phase("collect")}
        return tuple(output for output in self.outputs if output.name in targets)

    @property
    def forward(self) -> tuple[Role, ...]:
        """The roles that are read from what the environment returns."""
        return tuple(role for role in self.roles if not role.inverse)

    @property
    def backward(self) -> tuple[Role, ...]:
        """The roles that are what the environment is given."""
        return tuple(role for role in self.roles if role.inverse)

    def outputs_of(self, role: Role) -> Iterator[Output]:
        """The outputs that follow a role."""
        return (output for output in self.outputs if output.each == role.name)
