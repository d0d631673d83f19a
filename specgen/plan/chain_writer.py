"""The body of one function of a chain, made on demand: asking for a value writes the lines that make it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from specgen.check.chain_model import ChainKey, Instance, Row
from specgen.check.chain_types import base_scope
from specgen.check.model import DONE_FLAGS, Statement, identifier
from specgen.diagnostics import Sink
from specgen.expr import ANYTHING, Binding, Type, infer, point
from specgen.plan.chain_fields import ChainField, constant_name
from specgen.plan.chain_flow import Place, Time, Versions, Write
from specgen.plan.interface import Call, EnvInterface
from specgen.plan.model import Line
from specgen.plan.writer import stored_text

Kind = Literal["reset", "advance", "reward", "observe"]

GIVEN = ("dynamics", "params", "consts")
"""What an environment's functions may take besides tensors: a user's object, parameters, constants."""

FIXED = ("dynamics", "params", "env_consts", "consts")
"""The same for a chain's functions: its transforms have constants too."""


class NotHere(Exception):  # noqa: N818  # a signal between two planners, never seen by users
    """A value can't be made in this function from what it is given."""


class ChainWriter:
    """One function of a chain.

    Attributes:
        lines: its statements so far.
        args: the arguments that they read, by name, in the order first read.
    """

    def __init__(
        self,
        kind: Kind,
        chain: str,
        env: EnvInterface,
        versions: Versions,
        fields: tuple[ChainField, ...],
        like: Binding | None,
        given: Mapping[str, Binding],
    ) -> None:
        self.kind = kind
        self.chain = chain
        self.env = env
        self.versions = versions
        self.fields = fields
        self.like = like
        self.given = given
        self.lines: list[Line] = []
        self.args: dict[str, None] = {}
        self.made: dict[tuple[Time, str, Place | None], Binding] = {}
        self.names: set[str] = {binding.text for binding in given.values()}
        if kind != "reset":
            self.names |= {f.field.name for f in fields}
        self._base: str | None = None
        self._locals: dict[tuple[int, int, str], Binding] = {}

    # values --------------------------------------------------------------------------------------

    def value(self, time: Time, key: str, before: Place) -> Binding:
        """The value of an entry as a transform at `before` sees it; lines are added where it must be computed.

        Raises:
            NotHere: this function can't know it.
        """
        write = self.versions.last(time, key, before)
        version = (time, key, write.place if write else None)
        if version in self.made:
            return self.made[version]
        binding = self._from_field(time, key, write) or (
            self._from_env(time, key)
            if write is None
            else self._raised(write)
            if write.raised_by
            else self._computed(time, write)
        )
        self.made[version] = binding
        return binding

    def _from_field(self, time: Time, key: str, write: Write | None) -> Binding | None:
        """A record's field, when the function is given one that holds this version."""
        for chain_field in self.fields:
            if chain_field.key != key:
                continue
            place = chain_field.root if time == "root" else chain_field.next
            if self.versions.last(time, key, place) != write:
                continue
            given_here = time == "root" and self.kind in ("advance", "reward", "observe")
            later = time == "next" and self.kind == "reward"
            if given_here or later:
                bare = given_here or chain_field.field.flag
                name = chain_field.field.name if bare else f"next_{chain_field.field.name}"
                self.args.setdefault(f"{time}.{chain_field.field.name}")
                return Binding(name, chain_field.field.type, chain_field.field.interval)
        return None

    def _from_env(self, time: Time, key: str) -> Binding:
        if (binding := self.given.get(key)) is not None and self._given_at(time):
            self.args.setdefault(key)
            return binding
        if self._base is not None and (field := next((f for f in self.env.next if f.dotted == key), None)):
            at = "root" if self.kind == "reset" else "next"
            if at == time:
                return Binding(f"{self._base}.{field.name}", field.type, field.interval)
        if any(field.added and field.key == key for field in self.fields):
            return Binding("False", Type("bool", (), "lit"), point(0), static=False)
        if self.kind == "reset" and key in DONE_FLAGS:
            return self.given["not_done"]
        for call, outputs in ((self.env.observe, self.env.observations), (self.env.reward, self.env.rewards)):
            if call is not None and key in call.returns and (call is self.env.observe or time == "next"):
                return self._call(time, call, key, {o.dotted: o for o in outputs}[key].type)
        raise NotHere(key)

    def _given_at(self, time: Time) -> bool:
        return (time == "root") == (self.kind in ("reset", "observe")) or self.kind == "reward"

    def _call(self, time: Time, call: Call, key: str, type: Type) -> Binding:
        args = []
        for arg in call.args:
            if arg in GIVEN:
                args.append(self.fixed(arg))
            elif arg.startswith("next."):
                args.append(self.value("next", arg.removeprefix("next."), _START).text)
            elif arg in self.given:
                self.args.setdefault(arg)
                args.append(self.given[arg].text)
            else:
                at: Time = time if call is self.env.observe else "root"
                args.append(self.value(at, arg, _START).text)
        text = f"{call.name}({', '.join(args)})"
        if call.record is None:
            name = self._name(
                identifier(key) if time == "root" or call is self.env.reward else f"next_{identifier(key)}"
            )
            self.lines.append(Line(f"{name} = {text}", f"envs.{self.env.name}"))
            return Binding(name, type, ANYTHING)
        local = self._name("observed" if call is self.env.observe else "rewards")
        self.lines.append(Line(f"{local} = {text}", f"envs.{self.env.name}"))
        outputs = (*self.env.observations, *self.env.rewards)
        for output in outputs:
            if output.dotted in call.returns:
                self.made[time, output.dotted, None] = Binding(
                    f"{local}.{output.name}", output.type, ANYTHING
                )
        return self.made[time, key, None]

    def base(self, call: Call, args: list[str]) -> None:
        """Begin with a call of the environment's own function; its record is read as `base`."""
        self._base = self._name("base")
        self.lines.append(Line(f"{self._base} = {call.name}({', '.join(args)})", f"envs.{self.env.name}"))

    def fixed(self, name: str) -> str:
        """The argument that holds what is the environment's own: its parameters, its constants, a user's object."""
        text = "env_consts" if name == "consts" else name
        self.args.setdefault(text)
        return text

    # transforms ----------------------------------------------------------------------------------

    def _raised(self, write: Write) -> Binding:
        current = self.value("next", write.entry.dotted, write.place)
        flag = self.value("next", write.raised_by or "", write.place)
        missing = write.entry.type.rank - flag.type.rank
        text = flag.text + ".unsqueeze(-2)" * missing
        name = self._name(f"next_{write.entry.name}")
        self.lines.append(Line(f"{name} = {current.text} | {text}"))
        return Binding(name, write.entry.type, current.interval)

    def _computed(self, time: Time, write: Write) -> Binding:
        instance, row = write.instance, write.row
        if instance is None or row is None:
            raise AssertionError("a write has a statement or a flag behind it")
        target = write.output if write.phase != "step" else f"next.{write.output}"
        statement = next(s for s in instance.statements(write.phase, row) if s.target == target)
        return self._statement(time, write, instance, row, statement, write.entry)

    def _statement(
        self,
        time: Time,
        write: Write,
        instance: Instance,
        row: Row,
        statement: Statement,
        entry: ChainKey | None,
    ) -> Binding:
        scope = base_scope(instance, partial(self.constant, instance))
        reset_blank = {
            name: Binding("0", Type(e.type.dtype, (), "lit"), point(0), static=0)
            for name, e in row.outputs.items()
        }
        earlier = self._assigned_before(instance, row, write.phase, statement)
        for name in sorted(statement.reads - set(scope)):
            bare = name.removeprefix("next.")
            read = row.entry(bare)
            if read is None:
                scope[name] = self._local(time, write, instance, row, name)
            elif name in earlier and earlier[name].target != statement.target:
                scope[name] = self.value(time, read.dotted, (write.place[0], write.place[1] + 0.5))
            elif name == statement.target and write.entry.group == "done":
                # a flag as it is so far: another key of the same transform may have raised it
                scope[name] = self.value(time, read.dotted, write.place)
            elif write.phase == "step" and name == bare:
                before = (instance.position, -1.0) if bare in row.inputs else (instance.position + 0.5, 0.0)
                scope[name] = self.value("root", read.dotted, before)
            elif write.phase == "reset" and bare in row.outputs:
                scope[name] = reset_blank[bare]
            else:
                scope[name] = self.value(time, read.dotted, (instance.position, -1.0))
        typed = infer(statement.expr, scope, statement.source, sink := Sink())
        if typed is None:
            raise AssertionError(f"{statement.path} no longer types: {list(map(str, sink.items))}")
        path = f"chains.{self.chain}.transforms[{instance.position}]"
        if entry is None:
            name = self._name(identifier(statement.target))
            self.lines.append(Line(f"{name} = {stored_text(typed, typed.type, self.like)}", path))
            return Binding(name, typed.type, typed.interval, static=typed.static)
        like = None if typed.type.level == "batch" else self.like or self._like(entry)
        text = stored_text(typed, entry.type, like)
        plain = entry.name if time == "root" or entry.group == "reward" else f"next_{entry.name}"
        name = self._name(f"{plain}_{write.output}" if plain in self.names else plain)
        self.lines.append(Line(f"{name} = {text}", path))
        return Binding(name, entry.type, typed.interval)

    def _like(self, entry: ChainKey) -> Binding | None:
        """A tensor in whose batch a constant stands: the root's own value of the entry."""
        found = next((f for f in self.fields if f.key == entry.dotted), None)
        if found is None or self.kind == "reset":
            return None
        return self.value("root", entry.dotted, found.root)

    def _assigned_before(
        self, instance: Instance, row: Row, phase: Literal["reset", "step", "map"], statement: Statement
    ) -> dict[str, Statement]:
        """The outputs that the phase has assigned when it comes to `statement`."""
        found: dict[str, Statement] = {}
        for other in instance.statements(phase, row):
            if other.target == statement.target:
                return found
            found[other.target] = other
        return found

    def _local(self, time: Time, write: Write, instance: Instance, row: Row, name: str) -> Binding:
        place = (instance.position, int(write.place[1]), f"{time}.{write.phase}.{name}")
        if place not in self._locals:
            statement = next(s for s in instance.statements(write.phase, row) if s.target == name)
            self._locals[place] = self._statement(time, write, instance, row, statement, None)
        return self._locals[place]

    def constant(self, instance: Instance, name: str) -> str:
        """How a parameter that is a tensor is read."""
        self.args.setdefault("consts")
        return f"consts.{constant_name(instance, name)}"

    def _name(self, wanted: str) -> str:
        name, count = wanted, 2
        while name in self.names:
            name, count = f"{wanted}_{count}", count + 1
        self.names.add(name)
        return name


_START: Place = (-1, 0)
