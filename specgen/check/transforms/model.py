"""What a checked transform is, for the dynamic class and for the chains that inline it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Literal

from specgen.check.model import Parameter, Statement
from specgen.check.sources import PythonSource
from specgen.check.transforms.entries import Drop, Output, Role
from specgen.expr import Function, Symbol, Type
from specgen.expr.sizes import Dims, Sym
from specgen.values import dataclass

Phase = Literal[
    "reset", "step", "map", "inverse", "outer", "update", "buffer_types",
    "until", "fold", "collect", "action", "skip", "reset_steps",
]  # fmt: skip

PHASES: tuple[Phase, ...] = ("reset", "step", "map", "inverse")

AROUND_PHASES: tuple[Phase, ...] = ("until", "fold", "collect", "action", "skip", "reset_steps")
"""The parts of `around`: each is a section of its own."""


@dataclass(frozen=True)
class CheckedBuffer:
    """A statistic that a transform learns.

    Attributes:
        name: its name in expressions.
        each: the role of which each key has one of its own; None where there is one for all.
        type: its type in expressions, the same for all rows.
        dtype: its dtype; None for that of the role.
        shaped: whether it has the dimensions of the role.
        init: what it begins with; text is the name of a parameter.
        optional: whether it may have no value.
        like_text: the expression of roles whose dtype and dimensions it has, as it is written.
        like: the same, once it is typed.
    """

    name: str
    each: str | None
    type: Type
    dtype: str | None
    shaped: bool
    init: bool | int | float | str
    optional: bool
    doc: str
    like_text: str | None = None
    like: Statement | None = None


@dataclass(frozen=True)
class CalledNetwork:
    """A network of the constructor, which expressions call.

    Attributes:
        name: its keyword.
        reads: the roles whose types its arguments have.
        dtype: of what it returns.
        dims: the dimensions of what it returns for one row; sizes that no role has are its own.
        frozen: whether it stays as it is.
    """

    name: str
    reads: tuple[str, ...]
    dtype: str
    dims: Dims
    frozen: bool
    doc: str


@dataclass(frozen=True)
class PythonPhases:
    """The class behind a transform: its name, its methods, and whether it is made with the environment."""

    source: PythonSource
    phases: tuple[str, ...]
    reads_env: bool


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
        stacked: the outputs that collect each of several keys as it is, with the role that stands for these.
    """

    kind: Literal["repeat", "skip", "reset_steps"]
    count: Statement | None
    sections: Mapping[Phase, tuple[Statement, ...]]
    sums: tuple[str, ...] = ()
    extremes: tuple[str, ...] = ()
    taken: str | None = None
    stacked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedRecursion:
    """A recursion over recorded data.

    Attributes:
        backward: whether it begins at the end.
        at: where its outputs are written.
        start: the value of each output before the first moment.
        step: the outputs at a moment, and local values.
        open: the values at an end of the data without `done`; empty where that is an error.
        reads: what a class is given that stands in place of the statements, as they would read it.
    """

    backward: bool
    at: Literal["next", "root", "both"]
    start: tuple[Statement, ...]
    step: tuple[Statement, ...]
    open: tuple[Statement, ...]
    reads: tuple[str, ...] = ()


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
        reset_keyword: that by which users say which masks begin it anew.
        done_keyword: that by which they say which flag ends the episodes of recorded data.
        inverse_keyword: that by which they say that data are transformed on the way into a replay buffer.
        backward_param: the parameter with which recorded data are replayed from the end of each episode.
        recalls: the names that `step` reads bare: their value before the step, at this position in the chain.
        symbols: what expressions are given, by its path below the transform: `params.p`, `step.in.next.reward`.
        drops: the roles that are not shown behind it.
        drops_inverse: the roles that are left out on the way to the environment, or into a replay buffer.
        masks: actions, as the policy writes them, each with the role that says what of it is allowed.
        recursion: what it computes over recorded data, and nowhere else.
        refuses_offline: whether it refuses recorded data.
        outer: the expressions whose type what the policy writes has, one for each such output.
        networks: what its expressions call.
        python: the class that says what happens.
        functions: the functions of files that its expressions may call.
        buffers: what it learns.
        update: the new values of its buffers.
        learns: whether it learns at steps and resets, at resets, or by `init_stats` and `learn` only.
        methods: the class whose methods it has besides its own.
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
    drops: tuple[Drop, ...] = ()
    drops_inverse: tuple[Drop, ...] = ()
    masks: Mapping[str, str] = field(default_factory=dict)
    reset_keyword: str | None = None
    done_keyword: str | None = None
    inverse_keyword: str | None = None
    backward_param: str | None = None
    recursion: CheckedRecursion | None = None
    buffers: tuple[CheckedBuffer, ...] = ()
    update: tuple[Statement, ...] = ()
    learns: Literal["always", "at_reset", "when_called"] = "always"
    refuses_offline: bool = False
    outer: tuple[Statement, ...] = ()
    networks: tuple[CalledNetwork, ...] = ()
    python: PythonPhases | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)
    methods: PythonSource | None = None

    def param(self, name: str) -> Parameter:
        """The parameter of this name."""
        return next(param for param in self.params if param.name == name)

    def role(self, name: str) -> Role:
        """The role of this name."""
        return next(role for role in self.roles if role.name == name)

    def output(self, name: str) -> Output:
        """The output of this name; `ys.0` is that of the first of several keys."""
        name = name.partition(".")[0]
        return next(output for output in self.outputs if output.name == name)

    @property
    def buffer_types(self) -> tuple[Statement, ...]:
        """The expressions that buffers are like."""
        return tuple(buffer.like for buffer in self.buffers if buffer.like is not None)

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
        targets = {statement.target for statement in self.phase("collect")} | {*self.stacked}
        return tuple(output for output in self.outputs if output.name in targets)

    @property
    def stacked(self) -> Mapping[str, str]:
        """Those of them that collect each of several keys as it is, with the role that stands for these."""
        return {} if self.around is None else self.around.stacked

    @property
    def forward(self) -> tuple[Role, ...]:
        """The roles that are read from what the environment returns."""
        return tuple(role for role in self.roles if not role.inverse)

    @property
    def first_there(self) -> Role | None:
        """The role that tells repetitions apart, or the first that is read and of which there is a key."""
        driver = self.driver(inverse=False)
        return driver or next((role for role in self.forward if not role.may_be_missing), None)

    @property
    def backward(self) -> tuple[Role, ...]:
        """The roles that are what the environment is given in place of what the policy wrote."""
        passed = self.passed
        return tuple(role for role in self.roles if role.inverse and role not in passed)

    @property
    def passed(self) -> tuple[Role, ...]:
        """The roles that are what the environment is given, as the policy wrote it: they only have a mask."""
        return tuple(role for role in self.roles if role.inverse and role.name in self.masks)

    @property
    def renamed(self) -> Mapping[str, str]:
        """The outputs of `map` that are nothing but their role under another key, each with it."""
        found = (one for one in self.outputs if one.name in self.mapped and one.image == "same")
        return {one.name: one.each for one in found if one.each is not None and one.source == one.each}

    @property
    def renamed_inverse(self) -> Mapping[str, str]:
        """The roles that the environment is given as the policy wrote them under another key, each with that output."""
        follows = {one.name: one.each for one in self.outputs if one.inverse}
        read = ((one.target, one.typed) for one in self.inverse)
        named = {role: typed.symbol.name for role, typed in read if typed.op == "name" and typed.symbol}
        return {role: output for role, output in named.items() if follows.get(output) == role}

    @property
    def mapped(self) -> frozenset[str]:
        """The outputs of `map`."""
        return frozenset(statement.target for statement in self.map)

    @property
    def learns_of_steps(self) -> bool:
        """Whether a step teaches what the reset before it did not: some update reads more than parameters."""
        if self.learns == "at_reset":
            return False
        params = {param.name for param in self.params}
        nodes = (node for statement in self.update for node in statement.typed.nodes)
        counts = any(node.builtin is not None and node.builtin.family == "batch" for node in nodes)
        return counts or any(statement.reads - params for statement in self.update)

    @property
    def learns_from(self) -> tuple[Role, ...]:
        """The roles whose values, or sizes, updates read, and the types of buffers."""
        read = {name for one in (*self.update, *self.buffer_types) for name in one.reads}
        read |= {role.name for size, (role, _) in self.sizes.items() if size in read}
        return tuple(role for role in self.forward if role.name in read)

    def needs_keys(self, role: Role) -> bool:
        """Whether users have to pass the keys of a role; an inverse is left out beside `in_keys`."""
        beside = role.inverse and any(other.listed for other in self.forward)
        return role.required and not beside

    def may_have_inverse_keys_only(self, role: Role) -> bool:
        """Whether users may leave out the keys of a role where they pass those of an inverse one."""
        return not role.inverse and any(other.listed and other.inverse for other in self.roles)

    def driver(self, *, inverse: bool) -> Role | None:
        """The role for each of whose keys everything is repeated; None for a transform that runs once."""
        return driver_of(self.roles, inverse=inverse)

    @property
    def sizes(self) -> Mapping[str, tuple[Role, int]]:
        """The named sizes of its roles: the first one that has each, and the axis, counted from the end."""
        return sizes_of(self.roles)

    def written(self, *, inverse: bool) -> tuple[Output, ...]:
        """The outputs of one direction."""
        return tuple(output for output in self.outputs if output.inverse is inverse)


def driver_of(roles: tuple[Role, ...], *, inverse: bool) -> Role | None:
    """The role of one direction for each of whose keys everything is repeated."""
    return next(
        (role for role in roles if role.inverse is inverse and role.form == "each" and role.paired is None),
        None,
    )


def sizes_of(roles: Iterable[Role]) -> Mapping[str, tuple[Role, int]]:
    """The named sizes of some roles: the first one that has each, and the axis, counted from the end.

    Those that may be missing come last.
    """
    found: dict[str, tuple[Role, int]] = {}
    for role in sorted(roles, key=lambda role: role.may_be_missing):
        for place, size in enumerate(role.dims):
            if isinstance(size, Sym) and size.name not in (None, "_"):
                found.setdefault(str(size.name), (role, place - len(role.dims)))
    return found
