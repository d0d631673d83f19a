"""What is known of a chain while it is put together: the value of each key, and the fields of its records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import field
from typing import Literal

from specgen.check.chains.model import CheckedChain, Instance, Row
from specgen.check.model import Entry, dotted
from specgen.check.programs.body import Body
from specgen.check.programs.env import NOT_DONE
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.symbols import Key, Time
from specgen.program.hot_cold import Parts
from specgen.program.program import Cell, Component, Input
from specgen.program.walk import known, read, store
from specgen.values import dataclass, replace

Moment = Literal["reset", "now", "next"]
"""At a reset, at the root of a step, and after it: each key has a value at each, which transforms replace in turn."""


MOMENTS: tuple[Moment, ...] = ("reset", "now", "next")
"""All of them, in the order in which they are put together."""


_LOOPS: Mapping[Moment, Collection[str]] = {
    "reset": ("reset_steps",),
    "now": (),
    "next": ("repeat", "skip", "reset_steps"),
}
"""The kinds of `around` that run statements of a moment several times, or not at all: what they draw is drawn there."""


@dataclass(frozen=True)
class ChainCell:
    """A field of a chain's records.

    Attributes:
        cell: the value that is carried; its `name` is the Python name of the field.
        entry: what it is; for a private one, the entry that is shown in its place.
        position: the transform that carries it; None for what is the environment's, and for done flags.
        carried: whether the transform says that the next step needs it.
        hidden: whether it is shown to nobody.
    """

    cell: Cell
    entry: Entry
    position: int | None = None
    carried: bool = False
    hidden: bool = False


@dataclass(frozen=True)
class EnvPieces:
    """An environment as chains call it: its cells and its functions; for Gymnasium there are none."""

    component: Component | None = None
    parts: Parts | None = None
    fixed: tuple[Input, ...] = ()
    actions: Mapping[str, Symbol] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseRun:
    """A phase of a transform that a chain runs at a moment.

    Attributes:
        state: the chain so far; takes the statements, and the new values of keys at the moment.
        instance: the transform in its chain.
        row: the keys of one repetition of it.
        phase: the phase of the transform.
        moment: when it runs in the chain; `map` runs at each.
        place: a name for the repetition, in paths.
        before: what each key was before the transform.
        cells: what `step` reads of its own outputs before the step.
    """

    state: ChainState
    instance: Instance
    row: Row
    phase: Literal["reset", "step", "map"]
    moment: Moment
    place: str
    before: Mapping[Moment, Mapping[str, Symbol]]
    cells: Mapping[str, Symbol] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The declaration of the transform in its chain."""
        return f"{self.state.path}.transforms[{self.instance.position}]"

    def local_body(self) -> Body:
        """A body for the statements, with paths of its own."""
        place = self.state.bodies[self.moment].path.removeprefix(f"{self.state.path}.")
        return self.state.body(f"{place}.{self.place}.{self.phase}", self.moment)


class ChainState:
    """A chain in the making.

    Attributes:
        chain: the checked chain.
        env: the environment that it begins with.
        path: what the paths of its symbols begin with.
        views: the value of each key at each moment, as the next transform sees it.
        bodies: the statements so far, by moment.
        cells: the fields of its records so far, in order.
        actions: the actions as the policy writes them, by dotted name.
        written: the states of policies as these left them to the step, by dotted name.
        constants: the parameters of transforms that are tensors, as inputs, by name; those that are read.
        networks: the networks and the objects that the chain calls, as inputs, by their names.
        begun: what Gymnasium returns of a reset.
        given: what it returns of a step, as inputs; nothing where the step takes its steps.
        observed: the values that the environment's own function observes.
        learned: the statistics of transforms, as inputs, by name; those that are read.
        statistics: the value of each buffer so far, by the transform's position, the entry, the moment and its name.
        recorded: values that follow from statistics as they were: nobody can compute them again.
        inverse: what turns what the policy wrote into what Gymnasium is given; None where it is given just that.
        sent: what the environment is given, by dotted name; nothing where that is just what the policy wrote.
        acted: how many statements of the step turn what the policy wrote into the environment's actions.
        acting: how many of them come before those that make the actions of a repetition, by the position of the transform.
        skips: the rows in which the chain so far stands still.
    """

    def __init__(self, chain: CheckedChain, env: EnvPieces) -> None:
        self.chain = chain
        self.env = env
        self.path = f"chains.{chain.name}"
        self.views: dict[Moment, dict[str, Symbol]] = {"reset": {}, "now": {}, "next": {}}
        self.networks: dict[str, Input] = {}
        self._drawing = {moment: self._numbers(kinds) for moment, kinds in _LOOPS.items()}
        self.bodies: dict[Moment, Body] = {
            "reset": self.body("reset", "reset"),
            "now": self.body("observe", "now"),
            "next": self.body("step", "next"),
        }
        self.cells: list[ChainCell] = []
        self.actions = {
            a.dotted: Symbol(f"{self.path}.action.{a.dotted}", a.name, a.type, a.spec.interval, "now", a.key)
            for a in chain.actions
        }
        self.written: dict[str, Symbol] = {}
        self.constants: dict[str, Input] = {}
        self.begun: list[Symbol] = []
        self.given: list[Input] = []
        self.observed: set[Symbol] = set()
        self.learned: dict[str, Input] = {}
        self.statistics: dict[tuple[int, Key, Moment, str], Symbol] = {}
        self.recorded: set[Symbol] = set()
        self.inverse: Body | None = None
        self.sent: Mapping[str, Symbol] = {}
        self.acted = 0
        self.acting: dict[int, int] = {}
        self.skips: list[Symbol] = []

    @property
    def fixed(self) -> tuple[Input, ...]:
        """What a step is given and never changes: parameters, constants, networks."""
        renamed = {"consts": "env_consts"} | ({"params": "env_params"} if self.chain.params else {})
        of_env = (replace(one, group=renamed.get(one.group or "", one.group)) for one in self.env.fixed)
        own = (Input(one.symbol(self.path), "param", "params") for one in self.chain.params)
        return (*of_env, *own, *self.constants.values(), *self.networks.values(), *self.learned.values())

    def _numbers(self, kinds: Collection[str]) -> Symbol | None:
        """What draws random numbers where they are read, in a chain that steps the environment in these ways."""
        around = (instance.transform.around for instance in self.chain.instances)
        if not any(one is not None and one.kind in kinds for one in around):
            return None
        symbol = Symbol(f"{self.path}.draws", "", Type("record", ()))
        self.networks["draws"] = Input(symbol, "function", "draws")
        return symbol

    def body(self, place: str, moment: Moment) -> Body:
        """A new body for statements at a moment, whose paths begin with `place` below the chain."""
        return Body(f"{self.path}.{place}", numbers=self._drawing[moment])

    def fork(self) -> ChainState:
        """The same chain so far: what becomes of one changes nothing of the other."""
        made = copy(self)
        made.views = {moment: dict(view) for moment, view in self.views.items()}
        made.bodies = {moment: body.fork() for moment, body in self.bodies.items()}
        made.cells, made.skips = list(self.cells), list(self.skips)
        return made

    def dynamics(self) -> Symbol:
        """The simulator behind the chain, whose steps its functions take."""
        for one in (*self.env.fixed, *self.networks.values()):
            if one.group == "dynamics":
                return one.symbol
        symbol = Symbol(f"{self.path}.dynamics", "", Type("record", ()))
        self.networks["dynamics"] = Input(symbol, "function", "dynamics")
        return symbol

    def see(
        self, name: str, *, reset: Symbol | None = None, now: Symbol | None = None, next: Symbol | None = None
    ) -> None:
        """Note the value of a key at some moments."""
        for moment, symbol in (("reset", reset), ("now", now), ("next", next)):
            if symbol is not None:
                self.views[moment][name] = symbol  # type: ignore[index]

    def flag(self, key: Key, place: str, time: Time) -> Symbol:
        """A new value of a done flag."""
        type_ = self.chain.entries[dotted(key)].type
        return Symbol(f"{self.path}.{place}.{dotted(key)}", "_".join(key), type_, full("bool"), time, key)

    def add_flag(self, key: Key) -> None:
        """Add a done flag to the records; at a reset it is not raised."""
        first = self.flag(key, "reset", "now")
        value = read(NOT_DONE.symbol)
        if len(key) > 1:
            value = store(known(False), first.type)
        elif self.env.component is not None:
            value = Typed(
                "copy", first.type, first.interval, (value,)
            )  # the environment's reset returns the original
        self.bodies["reset"].add(first, value)
        now = self.flag(key, "cells", "now")
        self.see(dotted(key), reset=first, now=now)
        cell = Cell("_".join(key), now, first, first, key)
        self.cells.append(ChainCell(cell, self.chain.entries[dotted(key)]))

    def after(self, one: ChainCell) -> Symbol:
        """The value of a cell after the step; a flag that nobody raises is false."""
        if one.entry.role != "done":
            return one.cell.next
        view, name = self.views["next"], one.entry.dotted
        if name not in view:
            symbol = self.flag(one.entry.key, "step.never", "next")
            view[name] = self.bodies["next"].add(symbol, store(known(False), symbol.type))
        return view[name]
