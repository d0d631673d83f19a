"""The statements of a program while they are put together: a scope of names, and the draws met on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specgen.check.model import Statement, identifier
from specgen.diagnostics import Sink
from specgen.expr import ANYTHING, Binding, Function, Interval, Symbol, Type, Typed, infer
from specgen.expr import store as stored_interval
from specgen.expr.builtins.record import Builtin
from specgen.expr.types import At
from specgen.program.program import Assign, Input
from specgen.program.program import Statement as ProgramStatement
from specgen.program.walk import read, store


class Body:
    """Statements in the making.

    Attributes:
        path: what the paths of its symbols begin with.
        functions: what the declaration may call.
        records: the fields of the records that declared functions are passed whole (`params`, `consts`).
        scope: what each name stands for so far.
        statements: the statements so far.
        draws: the random numbers that they read, as inputs.
    """

    def __init__(
        self,
        path: str,
        functions: Mapping[str, Function | Builtin] | None = None,
        scope: Mapping[str, Binding] | None = None,
        records: Mapping[str, tuple[Symbol, ...]] | None = None,
    ) -> None:
        self.path = path
        self.functions = functions or {}
        self.records = records or {}
        self.scope: dict[str, Binding] = dict(scope or {})
        self.statements: list[ProgramStatement] = []
        self.draws: list[Input] = []
        self._versions: dict[str, int] = {}

    def symbol(
        self, name: str, type: Type, interval: Interval = ANYTHING, *, wish: str | None = None, **known: Any
    ) -> Symbol:
        """A new symbol for a name of the language; `wish` is what to call it in Python, `known` as in `Symbol`."""
        count = self._versions[name] = self._versions.get(name, 0) + 1
        path = f"{self.path}.{name}" + (f"~{count}" if count > 1 else "")
        return Symbol(path, wish or identifier(name), type, interval, **known)

    def bind(self, name: str, symbol: Symbol) -> Symbol:
        """Let a name stand for a symbol from here on."""
        self.scope[name] = Binding("", symbol.type, symbol.interval, what="value", symbol=symbol)
        return symbol

    def bound(self, name: str) -> Symbol:
        """The symbol that a name stands for."""
        symbol = self.scope[name].symbol
        assert symbol is not None, f"{name} is known at build"
        return symbol

    def add(self, target: Symbol, value: Typed, origin: str | None = None) -> Symbol:
        """Add `target = value`."""
        self.statements.append(Assign(target, value, origin))
        return target

    def typed(self, statement: Statement) -> Typed:
        """The typed tree of a checked statement where it now stands."""
        sink = Sink()
        prefix = f"draw_{identifier(statement.target)}"
        taken = {one.symbol.name for one in self.draws}
        while True:
            typed = infer(
                statement.expr,
                self.scope,
                statement.source,
                sink,
                functions=self.functions,
                draw_prefix=prefix,
                prove=False,
            )
            assert typed is not None, f"{statement.path} no longer types: {list(map(str, sink.items))}"
            if taken.isdisjoint(site.name for site in typed.draws):
                return self._read(typed)
            prefix += "_"  # the second draw for `x` is called as the first for `x_2` is

    def assign(
        self,
        statement: Statement,
        type: Type | None = None,
        interval: Interval | None = None,
        *,
        origin: str | None = None,
        **known: Any,
    ) -> Symbol | None:
        """Add a checked statement.

        Args:
            statement: the statement.
            type: how its value is stored; None for a local value, which stays as it is.
            interval: its values, where they are declared.
            origin: the declaration to name; by default the statement's own path.
            known: what else is known of the symbol that it defines.

        Returns:
            The symbol; None for a local value that is known at build, which is printed where it is read.
        """
        typed = self.typed(statement)
        name = statement.target
        if type is None and typed.static is not None:
            self.scope[name] = Binding("", typed.type, typed.interval, static=typed.static, what="value")
            return None
        kind = typed.type if type is None else type
        values = typed.interval if type is None else interval or stored_interval(typed.interval, type.dtype)
        symbol = self.symbol(name, kind, values, **known)
        self.add(symbol, typed if type is None else store(typed, type), origin or statement.path)
        return self.bind(name, symbol)

    def _read(self, node: Typed) -> Typed:
        """`node` with its draws as inputs, and with what functions read of parameters and tables."""
        if node.op == "site":
            assert node.site is not None
            symbol = self.symbol(node.text, node.type, node.interval)
            self.draws.append(Input(symbol, "draw", draw=node.site))
            return replace(read(symbol), start=node.start, end=node.end)
        items = tuple(At(self._read(item.index)) if isinstance(item, At) else item for item in node.items)
        made = replace(node, args=tuple(map(self._read, node.args)), items=items)
        if node.function is None or not node.function.prefix:
            return made
        captured = [symbol for record in node.function.prefix for symbol in self.records[record]]
        return replace(made, captured=tuple(captured))
