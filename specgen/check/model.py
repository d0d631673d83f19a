"""What the checker proves and the planner may rely on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from specgen.check.sources import GymnasiumSource, PythonSource
from specgen.diagnostics import Span
from specgen.expr import (
    ANYTHING,
    Binding,
    Expr,
    Function,
    Interval,
    SourceText,
    SpecType,
    Symbol,
    Type,
    Typed,
    full,
)
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.symbols import Key, Time
from specgen.program.program import DONE_FLAGS
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pictures import CheckedRender
    from specgen.check.rewards import ChatSource

Role = Literal["state", "action", "observation", "reward", "done"]

T = TypeVar("T")


@dataclass(frozen=True)
class Checked(Generic[T]):
    """A declaration that passed every check; only these reach the planner."""

    value: T


def dotted(key: Key) -> str:
    """A nested key as the language writes it: `agents.reward`."""
    return ".".join(key)


def entry_name(symbol: Symbol) -> str:
    """What an entry of the data is in the language, behind the step with `next.`: `next.agents.x`."""
    name = dotted(symbol.key or ())
    return f"next.{name}" if symbol.time == "next" else name


def identifier(name: str) -> str:
    """The Python name of a dotted name: `next.agents.reward` is `next_agents_reward`."""
    return name.replace(".", "_")


def snake(name: str) -> str:
    """`CartPoleGym` as `cart_pole_gym`, `DQNLoss` as `dqn_loss`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower()


@dataclass(frozen=True)
class Entry:
    """One declared tensor of the data layout.

    Attributes:
        key: its place in the tensordict.
        role: what it is for; a state key is an observation, too.
        spec: dtype, feature shape and domain as stored, without batch dimensions and without the
            trailing 1 of a column.
        type: its type in expressions; rewards and done flags are columns (stored with a trailing 1).
        doc: one line, with the unit.
        span: where it is declared.
    """

    key: Key
    role: Role
    spec: SpecType
    type: Type
    doc: str = ""
    span: Span | None = field(default=None, compare=False)

    @property
    def dotted(self) -> str:
        """The key as the language writes it."""
        return dotted(self.key)

    @property
    def name(self) -> str:
        """The key as a Python name."""
        return "_".join(self.key)

    def symbol(self, path: str) -> Symbol:
        """What stands under the key; `path` says where it is declared."""
        time: Time = "next" if self.role == "reward" else "now"
        return Symbol(path, self.name, self.type, self.spec.interval, time, self.key, self.span)

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The feature shape in the tensordict: a column has a trailing 1."""
        dims = self.type.shape
        return (*dims, 1) if self.type.col else dims


def reward_entry(key: Key, dims: tuple[int, ...] = ()) -> Entry:
    """The entry of a reward: float32, stored as a column."""
    spec = SpecType("unbounded", "float32", dims)
    return Entry(key, "reward", spec, spec.type(col=True))


ParamKind = Literal["float", "float64", "int", "bool", "tensor", "enum", "ints", "int_or_ints"]

PARAM_DTYPES: dict[ParamKind, str] = {
    "float": "float32",
    "int": "int64",
    "bool": "bool",
    "float64": "float64",
}
"""The dtype that a number of a parameter has in expressions; a plain float is weak, `float64` is not."""


_DTYPES: Final[Mapping[ParamKind, str]] = {
    **PARAM_DTYPES,
    "enum": "str",
    "ints": "list",
    "int_or_ints": "list",
}


class _Missing(Enum):
    REQUIRED = "REQUIRED"


REQUIRED: Final = _Missing.REQUIRED
"""The default of a parameter that has to be given."""


@dataclass(frozen=True)
class Parameter:
    """A constructor keyword of a generated class.

    Attributes:
        name: the keyword.
        kind: a number of Python, a truth value, one of some words, a tensor (made from numbers, lists or tensors),
            or whole numbers in a tuple.
        default: its value when none is passed; `REQUIRED` when there is none.
        doc: one line, with the unit.
        range: what must hold of a value, as pairs of a comparison and a bound.
        unless: the truth value where that need not hold.
        at_least: the parameter whose value is the smallest one.
        with_: the optional parameter without which it is not given.
        interval: its values in expressions.
        choices: the words of an `enum`.
        enum_class: the attribute of the generated class that is an enumeration of these words.
        or_function: whether it may be a function of two tensors in the place of a word.
        optional: whether it may be ``None`` (then `given(name)` is false).
        static: whether it may shape types and decide which outputs there are.
        per_env: whether each row of a transform has its own, which no entry keeps.
        entry: the state key that keeps it, if it differs between environments.
        draw: what fills that key at reset when the constructor gives no value.
        span: where it is declared.
    """

    name: str
    kind: ParamKind
    default: Any
    doc: str = ""
    range: tuple[tuple[str, float], ...] = ()
    unless: str | None = None
    at_least: str | None = None
    with_: str | None = None
    interval: Interval = ANYTHING
    choices: tuple[str, ...] = ()
    enum_class: str | None = None
    or_function: bool = False
    optional: bool = False
    static: bool = False
    per_env: bool = False
    entry: Entry | None = None
    draw: Statement | None = None
    span: Span | None = None

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is REQUIRED

    @property
    def type(self) -> Type:
        """Its type in expressions; a tensor is converted to the dtype of what it meets before they see it."""
        if self.entry is not None:
            return self.entry.type
        if self.kind == "tensor":
            return Type("float", ANY_DIMS, "const")
        if self.per_env:
            return Type("float" if self.kind == "float" else _DTYPES[self.kind], (), "batch")
        return Type(_DTYPES.get(self.kind, ""), (), "ctor")

    def symbol(self, path: str) -> Symbol:
        """The value that the constructor of the declaration at `path` is given."""
        return Symbol(f"{path}.params.{self.name}", self.name, self.type, self.interval, span=self.span)


@dataclass(frozen=True)
class Constant:
    """A constant table of the declaration."""

    name: str
    type: Type
    value: Any
    doc: str = ""
    interval: Interval = ANYTHING
    span: Span | None = None

    def symbol(self, path: str) -> Symbol:
        """What the name stands for in the expressions of the declaration at `path`."""
        return Symbol(f"{path}.consts.{self.name}", self.name, self.type, self.interval, span=self.span)


@dataclass(frozen=True)
class Statement:
    """`target: expression`, in the order written.

    Attributes:
        target: the dotted name it defines (`next.th`, `angle`).
        expr: the parsed expression.
        source: its text with positions.
        reads: the dotted names it reads.
        calls: the declared functions that it calls.
        draws: whether it draws random numbers.
        path: the declaration path, for the provenance comment.
        typed: the expression as it was proved right; its names carry the symbols that they read.
        symbol: the value that it defines, in the form in which it is stored.
    """

    target: str
    expr: Expr
    source: SourceText
    reads: frozenset[str]
    calls: frozenset[str]
    draws: bool
    path: str
    typed: Typed
    symbol: Symbol

    @property
    def name(self) -> str:
        """The target as a Python name."""
        return identifier(self.target)


@dataclass(frozen=True)
class CheckedFunction:
    """A declared pure function, ready to print.

    Attributes:
        let, returns: its statements.
        symbols: what its arguments stand for, by name.
    """

    name: str
    function: Function
    args: Mapping[str, Type]
    let: tuple[Statement, ...]
    returns: Statement
    doc: str = ""
    symbols: Mapping[str, Symbol] = field(default_factory=dict)


@dataclass(frozen=True)
class AgentGroup:
    """Agents with the same keys, side by side in the first dimension of what stands under the group's name."""

    name: str
    agents: tuple[str, ...]
    doc: str = ""

    @property
    def size(self) -> int:
        """How many agents there are."""
        return len(self.agents)


@dataclass(frozen=True)
class Declared:
    """What an environment says of its data, whatever its behaviour comes from.

    Attributes:
        params: the parameters that are one value for all environments.
        consts: the constant tables.
        state: the state keys.
        action: the action keys.
        observation: the observation keys.
        rewards: the reward keys.
        done: the prefixes of the done sets.
        fixed: what every expression may read: sizes, parameters and constants.
        broken: names whose mistakes have been reported.
    """

    params: tuple[Parameter, ...]
    consts: tuple[Constant, ...]
    state: tuple[Entry, ...]
    action: tuple[Entry, ...]
    observation: tuple[Entry, ...]
    rewards: list[Key]
    done: tuple[Key, ...]
    fixed: Mapping[str, Binding]
    broken: frozenset[str]


@dataclass(frozen=True)
class CheckedEnv:
    """An environment whose keys, types and data flow are known to be right.

    Attributes:
        values: the values that state keys, and `next.` state keys, can have as far as it is proved; they may leave
            the domains that are declared.
    """

    name: str
    module: str
    doc: str
    params: tuple[Parameter, ...] = ()
    consts: tuple[Constant, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[AgentGroup, ...] = ()
    functions: tuple[CheckedFunction, ...] = ()
    state: tuple[Entry, ...] = ()
    action: tuple[Entry, ...] = ()
    observation: tuple[Entry, ...] = ()
    reward: tuple[Entry, ...] = ()
    done: tuple[Key, ...] = ((),)
    done_dims: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)
    masks: Mapping[str, str] = field(default_factory=dict)
    reset: tuple[Statement, ...] = ()
    step: tuple[Statement, ...] = ()
    observe: tuple[Statement, ...] = ()
    render: CheckedRender | None = None
    values: Mapping[str, Interval] = field(default_factory=dict)
    gymnasium: GymnasiumSource | None = None
    python: PythonSource | None = None
    chat: ChatSource | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Every declared tensor except the done flags."""
        return (*self.state, *self.observation, *self.action, *self.reward)

    @property
    def returned(self) -> dict[str, Entry]:
        """What it returns, by dotted key: observations, state, rewards, and the done flags."""
        found = [*self.observation, *self.state, *self.reward]
        for prefix in self.done:
            spec = SpecType("unbounded", "bool", self.done_dims[prefix])
            found += [Entry((*prefix, flag), "done", spec, spec.type(col=True)) for flag in DONE_FLAGS]
        return {entry.dotted: entry for entry in found}

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """What is declared, by its path below the environment.

        `state.th`, `flags.agents.done` (before the step), `action.action`, `params.g`, `consts.table`,
        `observation.cos`, `reward.reward`. A parameter that differs between environments is two: what the
        constructor is given, `params.g`, and the state key that expressions read, `state.g`.
        """
        path = f"envs.{self.name}"
        found = [param.symbol(path) for param in self.params]
        found += [const.symbol(path) for const in self.consts]
        found += [entry.symbol(f"{path}.{entry.role}.{entry.dotted}") for entry in self.entries]
        for level in self.done:
            kind = Type("bool", self.done_dims[level], col=True)
            for flag in DONE_FLAGS:
                key = (*level, flag)
                place = f"{path}.flags.{dotted(key)}"
                found.append(Symbol(place, "_".join(key), kind, full("bool"), "now", key))
        return {symbol.path.removeprefix(f"{path}."): symbol for symbol in found}

    @property
    def keeps_state(self) -> bool:
        """Whether an object is one instance, whose state is not in the tensordict."""
        return self.gymnasium is not None or (self.python is not None and self.python.stateful)

    @property
    def differing(self) -> tuple[Parameter, ...]:
        """The parameters that have a value for each environment."""
        return tuple(param for param in self.params if param.entry is not None)
