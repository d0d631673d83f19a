"""The statements of a program while they are put together: what checked names stand for, and the draws on the way."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from specgen.check.model import Statement, identifier
from specgen.check.transforms.entries import role_of
from specgen.expr import ANYTHING, Interval, Symbol, Type, Typed
from specgen.expr import store as stored_interval
from specgen.expr.builtins.batch import BATCH
from specgen.expr.relayout import relayout
from specgen.program.program import Assign, Call, Callee, Input
from specgen.program.program import Statement as ProgramStatement
from specgen.program.walk import known, read, store, with_parts
from specgen.values import replace


class Body:
    """Statements in the making.

    Attributes:
        path: what the paths of its symbols begin with.
        records: the fields of the records that declared functions are passed whole (`params`, `consts`).
        new_rows: what tells statistics over a batch which of its rows are new.
        there: the roles whose keys may be missing that are known to be there.
        assigned: what each name of the language was assigned: a symbol, or a value that is known at build.
        statements: the statements so far.
        draws: the random numbers that they read, as inputs.
        numbers: what draws them where they are read; None where they are inputs.
    """

    def __init__(
        self,
        path: str,
        records: Mapping[str, tuple[Symbol, ...]] | None = None,
        new_rows: Symbol | None = None,
        there: frozenset[str] = frozenset(),
        numbers: Symbol | None = None,
    ) -> None:
        self.path = path
        self.records = records or {}
        self.new_rows = new_rows
        self.there = there
        self.numbers = numbers
        self.assigned: dict[str, Typed] = {}
        self.statements: list[ProgramStatement] = []
        self.draws: list[Input] = []
        self._values: dict[Symbol, Typed] = {}
        self._versions: dict[str, int] = {}

    def fork(self) -> Body:
        """The same statements so far: what is added to one is not in the other."""
        made = copy(self)
        made.statements, made.draws = list(self.statements), list(self.draws)
        made.assigned, made._values = dict(self.assigned), dict(self._values)
        made._versions = dict(self._versions)
        return made

    def symbol(
        self, name: str, type: Type, interval: Interval = ANYTHING, *, wish: str | None = None, **known: Any
    ) -> Symbol:
        """A new symbol for a name of the language; `wish` is what to call it in Python, `known` as in `Symbol`."""
        count = self._versions[name] = self._versions.get(name, 0) + 1
        path = f"{self.path}.{name}" + (f"~{count}" if count > 1 else "")
        return Symbol(path, wish or identifier(name), type, interval, **known)

    def draw(self, one: Input) -> None:
        """Draw random numbers: before all else, or here."""
        if self.numbers is None:
            self.draws.append(one)
            return
        assert one.draw is not None
        callee = Callee(one.draw.kind, effect="draws", receiver=self.numbers, draw=one.draw)
        self.statements.append(Call((one.symbol,), callee))

    def bind(self, symbol: Symbol, value: Typed | Symbol) -> None:
        """Let a symbol of checked expressions stand for a value of this program from here on."""
        self._values[symbol] = read(value) if isinstance(value, Symbol) else value

    def bound(self, name: str) -> Symbol:
        """The symbol that a name was assigned."""
        symbol = self.assigned[name].symbol
        assert symbol is not None, f"{name} is known at build"
        return symbol

    def add(self, target: Symbol, value: Typed, origin: str | None = None) -> Symbol:
        """Add `target = value`."""
        self.statements.append(Assign(target, value, origin))
        return target

    def typed(self, statement: Statement) -> Typed:
        """The expression of a checked statement, over the values of this program."""
        return relayout(self._read(statement.typed))

    def assign(
        self,
        statement: Statement,
        type: Type | None = None,
        interval: Interval | None = None,
        *,
        origin: str | None = None,
        **known: Any,
    ) -> Typed:
        """Add a checked statement.

        Args:
            statement: the statement.
            type: how its value is stored; None for a local value, which stays as it is.
            interval: its values, where they are declared.
            origin: the declaration to name; by default the statement's own path.
            known: what else is known of the symbol that it defines.

        Returns:
            What the name stands for: a symbol; a local value that is known at build is printed where it is read.
        """
        typed = self.typed(statement)
        if type is None and typed.static is not None:
            return self.name(statement, typed)
        kind = typed.type if type is None else type
        values = typed.interval if type is None else interval or stored_interval(typed.interval, type.dtype)
        symbol = self.symbol(statement.target, kind, values, span=statement.symbol.span, **known)
        self.add(symbol, typed if type is None else store(typed, type), origin or statement.path)
        return self.name(statement, read(symbol))

    def name(self, statement: Statement, value: Typed) -> Typed:
        """Let the target of a statement stand for a value from here on."""
        self.assigned[statement.target] = self._values[statement.symbol] = value
        return value

    def _read(self, node: Typed) -> Typed:
        """`node` over the values of this program, with its draws as inputs."""
        if node.op == "name":
            found = None if node.symbol is None or node.static is not None else self._values.get(node.symbol)
            return node if found is None else found
        if node.op == "given" and role_of(node.args[0].symbol) in self.there:
            return known(True)
        if node.op == "site":
            assert node.site is not None
            symbol = self.symbol(node.site.name, node.type, node.interval)
            self.draw(Input(symbol, "draw", draw=node.site))
            return read(symbol)
        if node.op == "where" and isinstance(node.args[0].static, bool):
            other = 2 if node.args[0].static else 1
            if node.args[other].draws:  # what is not taken draws nothing
                nothing = known(False if node.type.dtype == "bool" else 0)
                args = tuple(nothing if at == other else arg for at, arg in enumerate(node.args))
                node = replace(node, args=args)
        made = with_parts(node, self._read)
        if made.op in BATCH and self.new_rows is not None:
            return replace(made, args=(*made.args, read(self.new_rows)))
        if node.function is None or not node.function.prefix:
            return made
        captured = [symbol for record in node.function.prefix for symbol in self.records[record]]
        return replace(made, captured=tuple(captured))
