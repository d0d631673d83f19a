"""Programs: statements over symbols, with inputs and outputs. Names are wishes: printers choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from specgen.expr import DrawSite, Symbol, Typed
from specgen.expr.symbols import Key
from specgen.values import dataclass

ENDING_FLAGS: Final = ("terminated", "truncated")
"""The done flags that end an episode: what a `step` assigns."""

DONE_FLAGS: Final = ("done", *ENDING_FLAGS)
"""Every done flag; `done` is derived from the others."""

InputKind = Literal[
    "param",  # a Python number of the constructor
    "const",  # a table of the declaration, or what is computed from such tables and numbers alone
    "buffer",  # a tensor that a component keeps beside the data, such as running statistics
    "learnable",  # a tensor that an optimizer changes
    "state",  # what one step reads of the step before it
    "flag",  # a done flag before the step
    "action",
    "written",  # a state of the policy, as it left it to the step
    "draw",  # random numbers, drawn by whoever calls the program
    "data",  # other entries of a tensordict
    "given",  # what the environment behind a chain returned
    "witness",  # a tensor that only tells batch shape and device
    "network",
    "function",  # a callable, such as a value estimator
]

OutputRole = Literal[
    "cell", "reward", "raw_reward", "observation", "term", "metric", "write", "update", "value"
]

Effect = Literal["pure", "draws", "steps", "reads_data", "reads_buffer", "writes_buffer"]
"""What a call does besides returning values; calls with effects stay in their order, and none is dropped or merged."""


@dataclass(frozen=True, slots=True)
class Input:
    """A value that a program is given.

    Attributes:
        symbol: The value.
        kind: What it is.
        group: The record that it is a field of (`params`, `consts`); empty for an argument of its own.
        draw: How it is drawn, for `draw`.
    """

    symbol: Symbol
    kind: InputKind
    group: str = ""
    draw: DrawSite | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A value that a program returns, under the name of a record's field; `key` is its place in the tensordict."""

    name: str
    symbol: Symbol
    role: OutputRole = "value"
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """`target = value`.

    Attributes:
        target: The value that is defined.
        value: A typed tree; its `store` nodes say in which dtype, shape and layout a value is kept.
        origin: The declaration that says so; None for what the compiler made, which a printer may print inline.
    """

    target: Symbol
    value: Typed
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Callee:
    """What a `Call` calls: another program, a network, an environment, an estimator.

    Attributes:
        name: The name that printed code calls.
        program: What it computes, where that is known.
        effect: What it does besides.
        receiver: What it is a method of, such as a network; it is read by the call.
        record: The class of what it returns, where its program does not say that.
        returns_tuple: Whether it returns a tuple even of one value.
        about: The entry that it is about, which it is told before its arguments.
        draw: What is drawn by its receiver, where the order of draws follows from what happens: in loops.
    """

    name: str
    program: Program | None = None
    effect: Effect = "pure"
    receiver: Symbol | None = None
    record: str | None = None
    returns_tuple: bool = False
    about: Key | None = None
    draw: DrawSite | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """`targets = callee(args, named)`.

    Attributes:
        targets: What the outputs of the callee are called here, in their order.
        callee: What is called.
        args: One value for each input of the callee's program.
        named: Arguments by name, for callees without a program.
        fields: The fields of the record that the callee returns; empty where it returns a value or a tuple.
        called: What a printer would like to call that record.
        origin: The declaration that says so.
    """

    targets: tuple[Symbol, ...]
    callee: Callee
    args: tuple[Typed, ...] = ()
    named: tuple[tuple[str, Typed], ...] = ()
    fields: tuple[str, ...] = ()
    called: str = "base"
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Carried:
    """A value that a region hands from one iteration to the next.

    Attributes:
        inner: The value inside the region, at the start of an iteration.
        init: Its value at the first iteration.
        after: The value inside the region that the next iteration starts with.
        result: The value behind the region; None where nothing reads it.
    """

    inner: Symbol
    init: Typed
    after: Symbol
    result: Symbol | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """Statements that run several times, for some rows, or without gradients.

    Attributes:
        kind: `repeat`: `count` times, where rows of `mask` keep what they have; `scan`: along `axis`, forward or
            backward; `no_grad`: once, without gradients; `when`: once, or not at all, as `condition` says of one row.
        body: The statements.
        carried: What goes from one iteration to the next.
        results: Pairs of a value behind the region and the inner one that it is (for `scan` and `repeat`: of all iterations,
            for `repeat` along a new axis behind the rows).
        count: How often `repeat` runs.
        mask: The carried flag of the rows that are finished.
        index: The number of the iteration, for `repeat`, where something reads it.
        leaves: Whether a `repeat` is of one row, and left when its mask is set; what is of all iterations is 0 from there.
        condition: Whether the statements of `when` run; what they hand on is else as it was.
        over: Pairs of a value with the axis and the inner one without it, for `scan`.
        axis: The name of the axis of `scan`.
        backward: Whether `scan` begins at the end.
        origin: The declaration that says so.
    """

    kind: Literal["repeat", "scan", "no_grad", "when"]
    body: tuple[Statement, ...]
    carried: tuple[Carried, ...] = ()
    results: tuple[tuple[Symbol, Symbol], ...] = ()
    count: Typed | None = None
    mask: Symbol | None = None
    index: Symbol | None = None
    leaves: bool = False
    condition: Typed | None = None
    over: tuple[tuple[Symbol, Symbol], ...] = ()
    axis: str = ""
    backward: bool = False
    origin: str | None = None


Statement = Assign | Call | Region


@dataclass(frozen=True, slots=True)
class Program:
    """A pure function of its inputs; random numbers are inputs, too.

    Attributes:
        name: What the printed function is called.
        inputs: What it is given, in the order of its arguments.
        body: Its statements, each behind what it reads; every symbol is defined once.
        outputs: What it returns.
        record: The record that it returns; None for one value, or a tuple of several.
    """

    name: str
    inputs: tuple[Input, ...]
    body: tuple[Statement, ...]
    outputs: tuple[Output, ...]
    record: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value that is carried from one time to the next: state, flags, what transforms keep.

    Attributes:
        name: Its dotted key in the language.
        now: The value before a step.
        init: The value at a reset; None where the environment behind a chain gives it.
        next: The value after a step.
        key: Its place in the tensordict.
        private: Whether a later transform shows another value under its key.
    """

    name: str
    now: Symbol
    init: Symbol | None
    next: Symbol
    key: Key | None = None
    private: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """What a declaration computes: its programs by phase, and what it carries over time.

    Attributes:
        name: The name of the declaration.
        phases: `reset`, `step`, `observe` of environments and chains, `inverse` of chains that somebody else steps;
            `reset`, `step`, `map`, `inverse` of transforms; `terms` of losses, or the names of their parts.
        cells: What goes from one step to the next.
    """

    name: str
    phases: Mapping[str, Program]
    cells: tuple[Cell, ...] = field(default=())
