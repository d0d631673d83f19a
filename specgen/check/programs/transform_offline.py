"""A recursion of a transform over recorded data, as programs: a scan along time, and values at its open ends."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.conditions import Condition
from specgen.check.model import Statement, identifier, snake
from specgen.check.programs.body import Body
from specgen.check.programs.transform import PhaseProgram
from specgen.check.transforms.entries import by_condition
from specgen.check.transforms.model import CheckedRecursion, CheckedTransform
from specgen.check.transforms.types import output_type, rank_symbol, role_types
from specgen.expr import Symbol, Type, Typed, full
from specgen.expr.builtins.table import TABLE
from specgen.expr.relayout import relayout
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.symbols import Time
from specgen.program.cut import live
from specgen.program.fold import fold
from specgen.program.program import Carried, Input, Output, Program, Region
from specgen.program.walk import read, reads, store
from specgen.values import replace


def recursion_programs(transform: CheckedTransform) -> list[PhaseProgram]:
    """The recursions over tensors with time in front, one for each condition under which outputs exist.

    Before each stands what has the values at open ends, if they are declared. Its inputs have the names of the
    language. `acc` tells where the recursion begins anew, `acc.y` is the value of `y` before the first moment; at open
    ends what is computed is called so, too.
    """
    assert transform.recursion is not None
    made = _Recursion(transform, transform.recursion)
    found: list[PhaseProgram] = []
    for when, outputs in by_condition(transform.outputs):
        names = tuple(output.name for output in outputs)
        scan = made.scan(names, when)
        opened = [name for name in made.accumulated if made.opened(name) in scan.program.inputs]
        found += [made.open_ends(opened, names, when)] if opened else []
        found.append(scan)
    return found


class _Recursion:
    def __init__(self, transform: CheckedTransform, recursion: CheckedRecursion) -> None:
        self.transform = transform
        self.recursion = recursion
        self.path = f"transforms.{transform.name}.offline"
        self.roles = role_types(transform.roles)
        self.outputs = {output.name: output_type(output, self.roles) for output in transform.outputs}
        names = [name for statement in recursion.step for name in statement.reads]
        self.accumulated = [name for name in self.outputs if f"acc.{name}" in names]

    def scan(self, names: tuple[str, ...], when: Condition | None) -> PhaseProgram:
        """Some outputs of all moments, which exist under a condition."""
        body = Body(f"{self.path}.step", there=_there(when))
        outer, inner = self._data("step.all"), self._data("step.in")
        flag = self._flag("step.all.acc"), self._flag("step.in.acc")
        like = self._like()
        inits = {name: self._before_all(name, outer[like]) for name in self.accumulated}
        held = {
            name: body.symbol(f"acc.{name}", self.outputs[name], wish=f"previous_{name}")
            for name in self.accumulated
        }
        starts = {statement.target: statement for statement in self.recursion.start}
        for name, symbol in held.items():
            begun = body.symbol(f"acc.{name}", symbol.type, full(symbol.type.dtype), wish=f"acc_{name}")
            body.add(begun, store(_choice(flag[1], body.typed(starts[name]), symbol), symbol.type))
            body.bind(self.transform.symbols[f"offline.step.in.acc.{name}"], begun)
        for statement in self.recursion.step:
            self._compute(body, statement, inner[like], f"{statement.target}_now")
        results = [
            (Symbol(f"{self.path}.{name}", identifier(name), type_, full(type_.dtype)), body.bound(name))
            for name, type_ in self.outputs.items()
        ]
        seen = {symbol for statement in body.statements for symbol in reads(statement)} | {inner[like]}
        pairs = [*zip(outer.values(), inner.values(), strict=True), flag]
        region = Region(
            "scan",
            tuple(body.statements),
            tuple(Carried(symbol, inits[name], body.bound(name)) for name, symbol in held.items()),
            tuple(results),
            over=tuple(pair for pair in pairs if pair[1] in seen),
            axis="time",
            backward=self.recursion.backward,
            origin=self.path,
        )
        inputs = [*self._params(), *(Input(symbol, "data") for symbol, _ in region.over)]
        inputs += [self.opened(name) for name in self.accumulated if self.recursion.open]
        wanted = {identifier(name) for name in names}
        outputs = tuple(Output(symbol.name, symbol) for symbol, _ in results if symbol.name in wanted)
        program = Program(self._name("offline", names, when), tuple(inputs), (region,), outputs)
        return PhaseProgram(_without_unread(fold(program), inner[like]), names, when)

    def open_ends(
        self, accumulated: Iterable[str], names: tuple[str, ...], when: Condition | None
    ) -> PhaseProgram:
        """What comes before the first moment of some outputs where data end without `done`."""
        body = Body(f"{self.path}.open", there=_there(when))
        data = self._data("open.in")
        for statement in self.recursion.open:
            self._compute(body, statement, data[self._like()], f"open_{statement.target}")
        outputs = tuple(Output(f"open_{name}", body.bound(name)) for name in accumulated)
        inputs = [*self._params(), *(Input(symbol, "data") for symbol in data.values())]
        program = Program(self._name("open", names, when), tuple(inputs), tuple(body.statements), outputs)
        return PhaseProgram(live(program), tuple(f"acc.{name}" for name in accumulated), when)

    def _name(self, part: str, names: tuple[str, ...], when: Condition | None) -> str:
        """The name of a program, which that of what always exists alone has for itself."""
        return "_".join((snake(self.transform.name), part, *(names if when is not None else ())))

    def _compute(self, body: Body, statement: Statement, like: Symbol, wish: str) -> None:
        type_ = self.outputs.get(statement.target)
        if type_ is None:
            body.assign(statement)
            return
        value = body.typed(statement)
        symbol = body.symbol(statement.target, type_, full(type_.dtype), wish=wish)
        body.add(symbol, store(value, type_, None if value.type.level == "batch" else like), statement.path)
        body.name(statement, read(symbol))

    def _before_all(self, name: str, like: Symbol) -> Typed:
        """What is accumulated before the first moment."""
        if self.recursion.open:
            return read(self.opened(name).symbol)
        start = next(statement for statement in self.recursion.start if statement.target == name)
        value = Body(f"{self.path}.start").typed(start)
        return store(value, self.outputs[name], None if value.type.level == "batch" else like)

    # ------------------------------------------------------------------ inputs

    def _params(self) -> list[Input]:
        symbols = self.transform.symbols
        found = [Input(symbols[f"params.{param.name}"], "param") for param in self.transform.params]
        found += [Input(symbols[f"sizes.{name}"], "param") for name in self.transform.sizes]
        return found + [Input(rank_symbol(role), "param") for role in self.transform.roles]

    def _data(self, place: str) -> dict[str, Symbol]:
        """What stands at the root, then what stands under `next`, by the names of the language."""
        made: dict[str, Symbol] = {}
        times: tuple[tuple[Time, str], ...] = (("now", ""), ("next", "next."))
        for time, prefix in times:
            for name, type_ in self.roles.items():
                full_name = f"{prefix}{name}"
                path, values = f"{self.path}.{place}.{full_name}", full(type_.dtype)
                made[full_name] = Symbol(path, identifier(full_name), type_, values, time, (name,))
        return made

    def _like(self) -> str:
        """An input that a moment always has: it tells how many rows there are, and on which device."""
        always = [role.name for role in self.transform.roles if not role.may_be_missing]
        there = {f"{prefix}{name}" for name in always for prefix in ("", "next.")}
        read_ = [name for statement in self.recursion.step for name in statement.reads]
        return next((name for name in read_ if name in there), f"next.{always[0]}")

    def _flag(self, place: str) -> Symbol:
        dims = self.outputs[self.accumulated[0]].dims if self.accumulated else ANY_DIMS
        name = "ends" if self.recursion.backward else "begins"
        return Symbol(f"{self.path}.{place}", name, Type("bool", dims), full("bool"), key=("acc",))

    def opened(self, name: str) -> Input:
        """What an output is before the first moment, where that is computed."""
        type_ = self.outputs[name]
        symbol = Symbol(
            f"{self.path}.open.{name}", f"open_{name}", type_, full(type_.dtype), key=("acc", name)
        )
        return Input(symbol, "data")


def _there(when: Condition | None) -> frozenset[str]:
    """The parameters and roles that are there where a condition holds."""
    return frozenset() if when is None else when.given


def _without_unread(program: Program, like: Symbol) -> Program:
    """What a scan needs for its outputs; of what it goes along, that which is read, and `like`."""
    program = live(program)
    (region,) = program.body
    assert isinstance(region, Region)
    seen = {symbol for statement in region.body for symbol in reads(statement)} | {like}
    over = tuple(pair for pair in region.over if pair[1] in seen)
    return live(replace(program, body=(replace(region, over=over),)))


def _choice(flag: Symbol, then: Typed, otherwise: Symbol) -> Typed:
    """`then` where a flag is set, `otherwise` where it is not."""
    values = then.interval.hull(otherwise.interval)
    kind = replace(otherwise.type, col=False)
    options = {"operand_dtype": kind.dtype}
    operands = (read(flag), then, read(otherwise))
    return relayout(Typed("where", kind, values, operands, options, builtin=TABLE["where"]))
