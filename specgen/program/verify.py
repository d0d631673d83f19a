"""The verifier: what every program keeps, whatever pass made it. Tests run it after each pass, builds don't.

A program is sound when

- each symbol is defined once, in regions too, and behind an input or a statement only those that follow read it;
- what a name is read as is what it was defined as: dtype, dimensions, level, layout;
- each expression has the operands that its operation needs (`verify_types`), each store a form and, once witnesses
  are given, a tensor that tells its rows;
- each call hands over what its callee takes and receives what it gives, and says so if the callee has effects;
- each draw is an input, and goes to one call at most;
- each region ends with values that it defines, of the types with which it began.

That effects stay in their order can be said only of two programs: `same_effects`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Final, Literal, NoReturn, ParamSpec, TypeVar

from specgen.expr import Symbol, Type, Typed
from specgen.program.program import Assign, Call, Component, Input, Program, Region, Statement
from specgen.program.verify_types import fault_of, fits, matches
from specgen.program.walk import expressions, read, reads, reads_symbol, targets
from specgen.values import replace

VERIFY: Final = "SPECGEN_VERIFY"
"""The environment variable that makes every pass verify what it takes and gives; the tests set it."""

P = ParamSpec("P")
R = TypeVar("R")

_SOUND: dict[int, Program] = {}
"""Programs that were verified when a pass gave them, by identity: they cannot change."""
_KEPT: Final = 1000


class BrokenProgramError(AssertionError):
    """A program that a pass has made wrong: a fault of the compiler, never of a schema."""


def verify(program: Program, *, witnesses: bool = False) -> Program:
    """The program itself, if it is sound.

    Args:
        program: the program.
        witnesses: whether each stored value that no row has must have a tensor that tells the rows.

    Raises:
        BrokenProgramError: with the names of the program, the statement and the symbol, where it is not.
    """
    _Verifier(program, witnesses).run()
    return program


def effects(program: Program, *, inlined: bool = False) -> tuple[str, ...]:
    """The calls with effects in their order, with the regions that they stand in.

    Args:
        program: the program.
        inlined: whether calls of known programs count as what is in these.
    """
    return tuple(_effects(program.body, inlined))


def same_effects(before: Program, after: Program, *, fewer: bool = False, inlined: bool = False) -> None:
    """Check that a pass kept every call with an effect, in order.

    Args:
        before: what the pass was given.
        after: what it made of it.
        fewer: whether some may be gone, as where a program is cut.
        inlined: whether calls of known programs may be replaced by what is in these.

    Raises:
        BrokenProgramError: where a call came, moved or, unless `fewer`, went.
    """
    old, new = effects(before, inlined=inlined), effects(after, inlined=inlined)
    rest = iter(old)
    if old == new or (fewer and all(one in rest for one in new)):
        return
    raise BrokenProgramError(f"{after.name}: calls with effects were {list(old)} and are {list(new)}")


def verified(
    effects: Literal["kept", "inlined", "fewer", "any"] = "kept",
    *,
    given: bool = True,
    witnesses: bool = False,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a pass: where `SPECGEN_VERIFY` is set, the programs that it takes and gives are verified.

    Args:
        effects: whether the calls with effects of its first program must stay in each that it gives, may be replaced
            by those of what they call, may become fewer, or are no longer those (a program made of several).
        given: whether what it takes is sound, too; otherwise it is what makes it sound.
        witnesses: whether it gives every stored value its witness.
    """

    def decorate(change: Callable[P, R]) -> Callable[P, R]:
        @wraps(change)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not os.environ.get(VERIFY):
                return change(*args, **kwargs)
            taken = [program for arg in args for program in programs_in(arg)]
            for program in taken if given else ():
                if _SOUND.get(id(program)) is not program:  # most are what the pass before has given
                    verify(program)
            made = change(*args, **kwargs)
            for program in programs_in(made):
                verify(program, witnesses=witnesses)
                if len(_SOUND) > _KEPT:
                    _SOUND.clear()
                _SOUND[id(program)] = program
                if effects != "any" and taken:
                    same_effects(taken[0], program, fewer=effects == "fewer", inlined=effects == "inlined")
            return made

        return checked

    return decorate


def programs_in(value: object) -> Iterator[Program]:
    """The programs of what a pass takes or gives: a program, a component, several of them."""
    if isinstance(value, Program):
        yield value
    elif isinstance(value, Component):
        yield from value.phases.values()
    elif isinstance(value, tuple | list):
        for part in value:
            yield from programs_in(part)
    else:
        yield from programs_in(getattr(value, "programs", ()))


class _Verifier:
    def __init__(self, program: Program, witnesses: bool) -> None:
        self.program = program
        # Where no tensor is given, as to a declared function without arguments, nothing can tell rows.
        tensors = [one.symbol for one in program.inputs if not one.symbol.type.python]
        self.witnesses = witnesses and any(symbol.type.level == "batch" for symbol in tensors)
        self.statement = "its inputs"
        self.defined: set[Symbol] = set()
        self.groups = {one.symbol: one.group for one in program.inputs if one.group}
        self.draws = {one.symbol for one in program.inputs if one.kind == "draw"}
        self.drawn: set[Symbol] = set()

    def fail(self, message: str) -> NoReturn:
        raise BrokenProgramError(f"{self.program.name}: {self.statement}: {message}")

    def run(self) -> None:
        visible: dict[Symbol, Symbol] = {}
        for one in self.program.inputs:
            self.define(one.symbol, visible)
            self.input(one)
        in_records = [bool(one.group) for one in self.program.inputs]
        if in_records != sorted(in_records, reverse=True):
            self.fail("what comes in records comes first")
        self.body(self.program.body, visible)
        self.statement = "its outputs"
        for output in self.program.outputs:
            if output.symbol not in visible:
                self.fail(f"`{output.name}` is {output.symbol!r}, which nothing defines")
            self.read_as(output.symbol, output.symbol.type, visible)
        self.once([output.name for output in self.program.outputs], lambda name: f"two are called `{name}`")

    def input(self, one: Input) -> None:
        draw = one.draw
        if (one.kind == "draw") != (draw is not None):
            self.fail(f"{one.symbol!r} is of kind {one.kind}, drawn {'as ' + draw.kind if draw else 'nohow'}")
        if draw is not None and (draw.dtype, draw.dims) != (one.symbol.type.dtype, one.symbol.type.dims):
            self.fail(f"{one.symbol!r} is {one.symbol.type}, drawn as {draw.dtype}{list(draw.dims)}")

    def once(self, values: Iterable[str], message: Callable[[str], str]) -> None:
        seen: set[str] = set()
        for value in values:
            if value in seen:
                self.fail(message(value))
            seen.add(value)

    def define(self, symbol: Symbol, visible: dict[Symbol, Symbol]) -> None:
        if symbol in self.defined:
            self.fail(f"{symbol!r} is defined twice")
        self.defined.add(symbol)
        visible[symbol] = symbol

    def read_as(self, symbol: Symbol, type: Type, visible: dict[Symbol, Symbol]) -> None:
        definition = visible.get(symbol)
        if definition is None:
            where = "outside its region" if symbol in self.defined else "before it is defined"
            self.fail(f"{symbol!r} is read {where}")
        if not matches(type, definition.type):
            self.fail(f"{symbol!r} is read as {described(type)}, and is {described(definition.type)}")

    def body(self, body: Sequence[Statement], visible: dict[Symbol, Symbol]) -> None:
        for statement in body:
            self.statement = _named(statement)
            if not isinstance(statement, Region):
                for symbol in reads(statement):
                    self.read_as(symbol, symbol.type, visible)
            for expr in expressions(statement):
                self.expression(expr, visible)
            match statement:
                case Assign():
                    self.assign(statement)
                case Call():
                    self.call(statement)
                case Region():
                    self.region(statement, visible)
            self.statement = _named(statement)
            for target in targets(statement):
                self.define(target, visible)

    def expression(self, expr: Typed, visible: dict[Symbol, Symbol]) -> None:
        if reads_symbol(expr) and expr.symbol is not None:
            self.read_as(expr.symbol, expr.type, visible)
        fault = fault_of(expr, witnesses=self.witnesses)
        if fault is not None:
            self.fail(f"`{expr.op}`: {fault}")
        for symbol in expr.captured:
            self.read_as(symbol, symbol.type, visible)
        for part in expr.parts:
            self.expression(part, visible)

    def assign(self, statement: Assign) -> None:
        if not fits(statement.value.type, statement.target.type):
            made, wanted = described(statement.value.type), described(statement.target.type)
            self.fail(f"{statement.target!r} is {wanted}, its value {made}")

    def call(self, statement: Call) -> None:
        callee, program = statement.callee, statement.callee.program
        if callee.effect == "draws" and not statement.targets:
            self.fail("what is drawn goes nowhere")
        if callee.draw is not None:
            self.draws.update(statement.targets)
        if statement.fields and len(statement.fields) != len(statement.targets):
            self.fail(f"{len(statement.fields)} fields for {len(statement.targets)} values")
        self.once(statement.fields, lambda name: f"the field `{name}` is taken twice")
        if program is None:
            return
        if statement.named or len(statement.args) != len(program.inputs):
            given = len(statement.args) + len(statement.named)
            self.fail(f"{given} arguments for the {len(program.inputs)} inputs of {program.name}")
        records: dict[str, str] = {}
        for one, arg in zip(program.inputs, statement.args, strict=True):
            self.argument(one, arg)
            if one.group:
                symbol = arg.symbol if reads_symbol(arg) else None
                group = "" if symbol is None else self.groups.get(symbol, "")
                whole = symbol is not None and symbol.name == one.symbol.name
                if not whole or records.setdefault(one.group, group) != group or not group:
                    self.fail(
                        f"{one.symbol!r} is in the record `{one.group}`, which is not handed over whole"
                    )
        if callee.effect == "pure" and (found := effects(program, inlined=True)):
            self.fail(f"{program.name} is called as if it were pure: {list(found)}")
        if program.record is not None and [one.type.dtype for one in statement.targets] == ["record"]:
            return  # the record is taken as one value
        if len(statement.targets) != len(program.outputs):
            self.fail(f"{len(statement.targets)} values of the {len(program.outputs)} of {program.name}")
        names = tuple(output.name for output in program.outputs)
        if statement.fields not in ((), names) or (program.record is None) != (statement.fields == ()):
            self.fail(f"fields {list(statement.fields)} of {list(names)} of {program.name}")
        for target, output in zip(statement.targets, program.outputs, strict=True):
            if not matches(target.type, output.symbol.type):
                got, given_type = described(target.type), described(output.symbol.type)
                self.fail(f"{target!r} is {got}, `{output.name}` of {program.name} {given_type}")

    def argument(self, one: Input, arg: Typed) -> None:
        if not fits(arg.type, one.symbol.type):
            self.fail(
                f"{one.symbol!r} is {described(one.symbol.type)}, the argument is {described(arg.type)}"
            )
        if one.kind != "draw":
            return
        symbol = arg.symbol if reads_symbol(arg) else None
        if symbol is None or symbol not in self.draws:
            self.fail(f"{one.symbol!r} is a draw, and is not given one")
        if symbol in self.drawn:
            self.fail(f"{symbol!r} is drawn once and goes to two calls")
        self.drawn.add(symbol)

    def region(self, region: Region, outside: dict[Symbol, Symbol]) -> None:
        if fault := _shape_of(region):
            self.fail(fault)
        inside = dict(outside)
        for outer, inner in region.over:
            self.read_as(outer, outer.type, outside)
            if not matches(outer.type, inner.type):
                self.fail(f"{inner!r} is not of the type of {outer!r}, but for the axis")
            self.define(inner, inside)
        for one in region.carried:
            self.define(one.inner, inside)
        if region.index is not None:
            self.define(region.index, inside)
        begun = set(inside) - set(outside)
        self.body(region.body, inside)
        self.statement = _named(region)
        own = begun | (set(inside) - set(outside))
        for one in region.carried:
            self.ends(one.after, inside, own)
            types = [one.init.type, one.after.type, *([one.result.type] if one.result is not None else [])]
            if not all(fits(type, one.inner.type) and type.dtype == one.inner.type.dtype for type in types):
                texts = " to ".join(map(described, types))
                self.fail(f"{one.inner!r} is {described(one.inner.type)}, carried from {texts}")
        if region.mask is not None and not _only_rises(region):
            self.fail(f"its mask {region.mask!r} can fall: a row that is finished would go on")
        for outer, inner in region.results:
            self.ends(inner, inside, own)
            whole = outer.type
            if region.kind == "repeat":  # of each repetition, along a new axis in front
                whole = replace(whole, dims=whole.dims[1:])
            if not matches(whole, inner.type) or (region.kind == "repeat" and not outer.type.dims):
                self.fail(f"{outer!r} is not of the type of {inner!r}, which it is behind the region")

    def ends(self, symbol: Symbol, inside: dict[Symbol, Symbol], own: set[Symbol]) -> None:
        if symbol not in own:
            self.fail(f"it ends with {symbol!r}, which it does not define")
        self.read_as(symbol, symbol.type, inside)


def _shape_of(region: Region) -> str | None:
    """What a region of this kind must have, or may not have, and has not, or has."""
    scan, repeat = region.kind == "scan", region.kind == "repeat"
    if scan != bool(region.over) or scan != bool(region.axis) or (region.backward and not scan):
        return "an axis, and values along it, are what a scan has, and nothing else has"
    if repeat != (region.count is not None) or (region.leaves and not repeat):
        return "a count is what a repeat has, and nothing else has"
    if region.mask is not None and not repeat:
        return "a mask is what a repeat has, and nothing else has"
    if (region.kind == "when") != (region.condition is not None) or (region.condition and region.results):
        return "a condition, and nothing to hand on but what it carries, is what a `when` has, and nothing else has"
    if region.condition is not None and (region.condition.type.dtype, region.condition.type.dims) != (
        "bool",
        (),
    ):
        return f"it runs where {region.condition.type} says so, which is no truth value"
    if region.count is not None and (region.count.type.dtype, region.count.type.dims) != ("int64", ()):
        return f"it is repeated {region.count.type} times"
    if region.index is not None and not (repeat and region.index.type.python):
        return "the number of an iteration is what a repeat has, and nothing else has"
    if region.kind == "no_grad" and region.carried:
        return "it runs once, and carries nothing"
    if region.leaves and region.mask is None:
        return "it is left when its mask is set, and has none"
    if region.mask is not None:
        flags = [one.inner for one in region.carried if one.inner == region.mask]
        if not flags or flags[0].type.dtype != "bool":
            return f"its mask {region.mask!r} is no flag that it carries"
    return None


def _only_rises(region: Region) -> bool:
    """Whether a row that the mask has stays in it: it is handed on as it is, or with others (`mask or …`)."""
    made = {one.target: one.value for one in region.body if isinstance(one, Assign)}
    pending = [read(one.after) for one in region.carried if one.inner == region.mask]
    while pending:
        value = pending.pop()
        if value.op == "name" and value.symbol == region.mask:
            return True
        if value.op == "name" and value.symbol in made:
            pending.append(made[value.symbol])
        elif value.op in ("store", "or"):
            pending += value.args if value.op == "or" else value.args[:1]
    return False


def _named(statement: Statement) -> str:
    made = ", ".join(map(repr, targets(statement)))
    match statement:
        case Assign():
            return made
        case Call():
            return f"{made or 'call'} = {statement.callee.name}(…)"
        case Region():
            return f"{made or 'region'} = {statement.kind}"


def described(type: Type) -> str:
    """A type with its level and layout: `bool, batch, stored with a trailing 1`."""
    return f"{type}, {type.level}" + (", with a trailing 1" if type.col else "")


def _effects(body: Sequence[Statement], inlined: bool) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Region):
            inside = list(_effects(statement.body, inlined))
            if inside and statement.kind != "no_grad":
                inside = [f"{statement.kind} {{", *inside, "}"]
            yield from inside
        elif isinstance(statement, Call):
            callee = statement.callee
            if inlined and callee.program is not None:
                yield from effects(callee.program, inlined=True)
            elif callee.effect != "pure":
                yield f"{callee.effect} {callee.name}"
