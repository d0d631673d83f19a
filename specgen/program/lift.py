"""Lifting over time: which values that a step carries are known for all times at once, without a loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from specgen.expr import Symbol, Typed
from specgen.expr.builtins.table import TABLE
from specgen.program.common import value_key
from specgen.program.inline import inline
from specgen.program.program import DONE_FLAGS, Assign, Cell, Component, Program
from specgen.program.walk import defined, read, reads
from specgen.values import dataclass

Rule = Literal["kept", "shifted", "count", "sum", "max", "min", "any", "all", "affine"]


@dataclass(frozen=True, slots=True)
class Lifted:
    """A cell whose value at each time follows from its first value and from what all times have.

    Attributes:
        cell: The cell.
        rule: `kept`: it stays; `shifted`: it is `term` of the time before; `count`: a whole number, `by` more each
            time; `sum`, `max`, `min`, `any`, `all`: of the first value and the terms so far; `affine`:
            `factor * cell + term`, or without a term, `factor * cell`. Sums and affine recurrences are taken in
            order, so that they round as the loop does.
        term: What each time adds, in the names of the step.
        factor: What each time multiplies by.
        by: The slope of a count.
    """

    cell: Cell
    rule: Rule
    term: Typed | None = None
    factor: Typed | None = None
    by: int = 0


@dataclass(frozen=True, slots=True)
class Lift:
    """What can be said of a component without running it step by step.

    Attributes:
        solved: The cells that are known for all times, in an order in which each needs those before it.
        loop: The cells that are not; they need a loop, and it is over these alone.
        limits: When an episode must stop, as far as counters decide it.
        undecided: The flags that something else can raise, besides the wrapped environment and the limits.
    """

    solved: tuple[Lifted, ...]
    loop: tuple[Cell, ...]
    limits: tuple[Limit, ...]
    undecided: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """A flag that is raised once a counter reaches a number.

    Attributes:
        flag: The cell of the flag.
        counter: The lifted count.
        number: What `counter + by` (the value after a step) is compared with.
        above: Whether the flag is raised at or above the number; otherwise at or below it.
        param: The parameter that is added to the number, if there is one.
    """

    flag: Cell
    counter: Lifted
    number: int
    above: bool
    param: Symbol | None = None

    @property
    def reached(self) -> bool:
        """Whether the counter runs towards the number, so that it gets there after a known number of steps."""
        return self.counter.by > 0 if self.above else self.counter.by < 0

    def steps(self, first: int, given: int = 0) -> int | None:
        """After how many steps, at least one, from a counter of `first` the flag is raised; None where it never is.

        `given` is the value of the parameter.
        """
        by, missing = self.counter.by, self.number + given - first
        if not self.above:
            by, missing = -by, -missing
        if missing <= by:
            return 1
        return -(-missing // by) if by > 0 else None


_RULES: Final[Mapping[str, Rule]] = {
    "+": "sum",
    "-": "sum",
    "max": "max",
    "min": "min",
    "or": "any",
    "and": "all",
}
_WHOLE: Final = ("int32", "int64")
_MIRRORED: Final = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


def lift(component: Component) -> Lift:
    """Which cells of a component have a closed form over time, and which need the loop.

    A cell is solved when its next value is one of the rules' (`Lifted`), and the rest of it needs only what is known
    for all times: what the wrapped environment returned, actions, and cells that are solved before it.
    """
    solver = _Solver(inline(component.phases["step"]), component.cells)
    while solver.pass_over():
        pass
    limits: list[Limit] = []
    undecided: list[Cell] = []
    for cell in component.cells:
        if (
            cell.next.type.dtype == "bool" and cell.name.split(".")[-1] in DONE_FLAGS
        ):  # a transform's own flag, of another name, raises `done`
            found = [_limit(solver, cell, part) for part in solver.alternatives(read(cell.next))]
            known = {(one.counter.cell.name, one.number, one.above, one.param) for one in limits}
            limits += [
                one
                for one in found
                if isinstance(one, Limit)
                and (one.counter.cell.name, one.number, one.above, one.param) not in known
            ]
            if None in found:
                undecided.append(cell)
    return Lift(tuple(solver.solved.values()), tuple(solver.open), tuple(limits), tuple(undecided))


class _Solver:
    """A step, and the cells of it that are solved so far."""

    def __init__(self, step: Program, cells: Sequence[Cell]) -> None:
        self.makers = defined(step.body)
        self.returned = {one.symbol for one in step.inputs if one.kind in ("given", "data")}
        self.params = {
            one.symbol for one in step.inputs if one.kind == "param" and one.symbol.type.dtype == "int64"
        }
        self.cells = {cell.now: cell for cell in cells}
        self.unknown = {one.symbol for one in step.inputs if one.kind in ("draw", "buffer", "learnable")}
        self.solved: dict[Symbol, Lifted] = {}
        # What the wrapped environment returned is known for all times, also as what the next step starts from.
        self.known = {cell.now for cell in cells if cell.next in self.returned}
        self.open = [cell for cell in cells if cell.now not in self.known]

    def pass_over(self) -> bool:
        """Try each open cell once; whether one was solved."""
        before = len(self.open)
        for cell in list(self.open):
            found = self.solve(cell)
            if found is not None:
                self.solved[cell.now] = found
                self.known.add(cell.now)
                self.open.remove(cell)
        return len(self.open) < before

    def solve(self, cell: Cell) -> Lifted | None:
        """The rule by which a cell is known, if there is one."""
        value = self.made(read(cell.next))
        if self.is_cell(value, cell):
            return Lifted(cell, "kept")
        needed = self.needed(value)
        if not needed - {cell.now} <= self.known:
            return None
        if cell.now not in needed:
            return Lifted(cell, "shifted", read(cell.next))
        return self.recurrence(cell, value)

    def recurrence(self, cell: Cell, value: Typed) -> Lifted | None:
        """A cell whose next value is computed from itself."""
        kind = cell.next.type
        if (value.type.dtype, value.type.dims) != (kind.dtype, kind.dims) or len(value.args) != 2:
            return None
        if value.op == "*":
            factor = self.factor(cell, value)
            return None if factor is None else Lifted(cell, "affine", None, factor)
        rule = _RULES.get(value.op)
        for own, term in _pairs(value):
            if rule is None or cell.now in self.needed(term):
                continue
            added = _negative(term) if value.op == "-" else term
            if self.is_cell(own, cell):
                if isinstance(term.static, int) and kind.dtype in _WHOLE and rule == "sum":
                    return Lifted(cell, "count", by=-term.static if value.op == "-" else term.static)
                return Lifted(cell, rule, added)
            product = self.made(own)
            factor = self.factor(cell, product) if rule == "sum" and product.op == "*" else None
            if factor is not None and product.type.dtype == kind.dtype:
                return Lifted(cell, "affine", added, factor)
        return None

    def factor(self, cell: Cell, product: Typed) -> Typed | None:
        """What a product multiplies a cell by, if one of its factors is the cell."""
        for own, factor in (product.args, product.args[::-1]):
            if self.is_cell(own, cell) and cell.now not in self.needed(factor):
                return factor
        return None

    def is_cell(self, value: Typed, cell: Cell) -> bool:
        """Whether a value is that of a cell before the step."""
        found = self.made(value)
        return found.op == "name" and found.symbol == cell.now

    def made(self, value: Typed) -> Typed:
        """The expression behind a name; stores that change no number and repeat none are seen through."""
        while True:
            if value.op == "name" and value.static is None and value.symbol in self.makers:
                assert value.symbol is not None
                maker = self.makers[value.symbol]
                if not isinstance(maker, Assign):
                    return value
                value = maker.value
            elif value.op == "store" and _keeps_numbers(value):
                value = value.args[0]
            else:
                return value

    def needed(self, value: Typed) -> set[Symbol]:
        """The cells before the step that a value is computed from, and what is never known for all times."""
        found: set[Symbol] = set()
        seen: set[Symbol] = set()
        pending = list(value.symbols_read)
        while pending:
            symbol = pending.pop()
            if symbol in seen:
                continue
            seen.add(symbol)
            if symbol in self.cells or symbol in self.unknown:
                found.add(symbol)
            elif symbol in self.makers:
                pending += reads(self.makers[symbol])
        return found

    def alternatives(self, flag: Typed) -> Iterator[Typed]:
        """The values any of which raises a flag."""
        value = self.made(flag)
        if value.op == "or":
            for arg in value.args:
                yield from self.alternatives(arg)
        else:
            yield value


def _keeps_numbers(stored: Typed) -> bool:
    value, kind = stored.args[0].type, stored.type
    return (value.dtype, value.dims, value.level) == (kind.dtype, kind.dims, kind.level)


def _pairs(value: Typed) -> tuple[tuple[Typed, Typed], ...]:
    """The operands as (what may be the cell, the rest); a difference has one order only."""
    first, second = value.args
    return ((first, second),) if value.op == "-" else ((first, second), (second, first))


def _negative(value: Typed) -> Typed:
    if value.static is not None and not isinstance(value.static, str):
        return Typed("literal", value.type, value.interval, static=-value.static)
    options = {"operand_dtype": value.type.dtype}
    return Typed("neg", value.type, value.interval, (value,), options, builtin=TABLE["neg"])


def _limit(solver: _Solver, flag: Cell, value: Typed) -> Limit | bool | None:
    """The limit that an alternative of a flag is; True where the wrapped environment decides it, None where something else does."""
    if value.static is not None or value.op == "literal":
        return value.static is False or None
    if value.op == "name" and value.symbol in solver.returned:
        return True
    if value.op not in _MIRRORED:
        return None
    for op, (counter, bound) in ((value.op, value.args), (_MIRRORED[value.op], value.args[::-1])):
        param = bound.symbol if bound.op == "name" and bound.symbol in solver.params else None
        number = 0 if param is not None else bound.static
        if not isinstance(number, int) or isinstance(number, bool):
            continue
        for one in solver.solved.values():
            before = solver.is_cell(counter, one.cell)
            after = value_key(solver.made(counter)) == value_key(solver.made(read(one.cell.next)))
            if one.rule == "count" and (before or after):
                above = op in (">=", ">")
                exact = number + (op == ">") - (op == "<")
                return Limit(flag, one, exact + one.by * before, above, param)
    return None
