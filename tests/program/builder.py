"""Programs built by hand, as the checker builds them: statements in the language's own text, typed by its inference.

What the language does not have yet (distributions, reductions over the batch) are built-ins of the same record here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from specgen.check.losses.builtins import LOSS_BUILTINS, WORDS
from specgen.diagnostics import Sink, Span
from specgen.expr import ANYTHING, Binding, Interval, Symbol, Type, Typed, infer, parse
from specgen.expr.builtins.record import Builtin, Param
from specgen.expr.builtins.site import Site
from specgen.expr.printer import Printed, Printer, method
from specgen.expr.types import At, Distribution
from specgen.program.program import (
    Assign,
    Call,
    Callee,
    Carried,
    Effect,
    Input,
    InputKind,
    Output,
    OutputRole,
    Program,
    Region,
    Statement,
)
from specgen.program.walk import read, store, targets

FLOAT = Type("float32", ())
COLUMN = Type("float32", (), col=True)
FLAG = Type("bool", (), col=True)
BOOL = Type("bool", ())
NUMBER = Type("float32", (), "ctor")


@dataclass(frozen=True)
class Text:
    """An expression that stands in no file."""

    text: str

    def span_of(self, start: int, end: int) -> Span:
        return Span("test", 1, start + 1, 1, end + 1)


def builtin(
    name: str,
    params: tuple[str, ...],
    rule: Callable[[Site], Typed | None],
    torch: Callable[[Typed, Printer], Printed],
    reference: Callable[..., Any],
) -> Builtin:
    """A built-in of issues to come; its family is that of what is costly."""
    return Builtin(
        name=name,
        family="loss",
        doc="",
        params=tuple(map(Param, params)),
        infer=rule,
        interval=lambda args, node: ANYTHING,
        torch=torch,
        reference=reference,
        agreement="ulp",
    )


def _over_batch(name: str, torch_name: str) -> Builtin:
    """A reduction over all rows: of a value of each row, one for all."""

    def rule(site: Site) -> Typed | None:
        (x,) = site.values
        return site.node(Type(x.type.dtype, x.type.dims, "const"))

    def show(node: Typed, printer: Printer) -> Printed:
        (x,) = node.args
        shown = printer.logical(x)
        if x.type.dims:
            return method(shown, torch_name, "0")
        return method(method(shown, "flatten"), torch_name, "0")

    return builtin(name, ("x",), rule, show, lambda np, x: getattr(np, torch_name)(x, axis=0))


def _batch_count(node: Typed, printer: Printer) -> Printed:
    (x,) = node.args
    return Printed(f"{printer.text(x)}.shape[0]" if x.type.dims else f"{printer.text(x)}.numel()")


def _log_prob(site: Site) -> Typed | None:
    dist, value = site.values
    assert isinstance(dist.type, Distribution)
    assert (dist.type.event.dtype, dist.type.event.dims) == (value.type.dtype, value.type.dims)
    return site.node(FLOAT)


BUILTINS: dict[str, Builtin] = {
    **LOSS_BUILTINS,
    "batch_mean": _over_batch("batch_mean", "mean"),
    "batch_std": _over_batch("batch_std", "std"),
    "batch_logsumexp": _over_batch("batch_logsumexp", "logsumexp"),
    "batch_count": builtin(
        "batch_count",
        ("x",),
        lambda site: site.node(Type("int64", (), "ctor")),
        _batch_count,
        lambda np, x: len(x),
    ),
    "log_prob": builtin(
        "log_prob",
        ("dist", "value"),
        _log_prob,
        lambda node, printer: method(printer.show(node.args[0]), "log_prob", printer.text(node.args[1])),
        lambda np, dist, value: dist.log_prob(value),
    ),
    "entropy": builtin(
        "entropy",
        ("dist",),
        lambda site: site.node(FLOAT),
        lambda node, printer: method(printer.show(node.args[0]), "entropy"),
        lambda np, dist: dist.entropy(),
    ),
}


class Builder:
    """A program in the making; `path` is that of the declaration."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.scope: dict[str, Binding] = dict(WORDS)
        self.inputs: list[Input] = []
        self.statements: list[Statement] = []
        self._count: dict[str, int] = {}

    def symbol(self, name: str, type: Type, interval: Interval = ANYTHING, **known: Any) -> Symbol:
        """A new symbol, for which the name stands from here on."""
        count = self._count[name] = self._count.get(name, 0) + 1
        path = f"{self.path}.{name}" + (f"~{count}" if count > 1 else "")
        return self.bind(name, Symbol(path, name.replace(".", "_"), type, interval, **known))

    def bind(self, name: str, symbol: Symbol) -> Symbol:
        """Let a name stand for a symbol from here on."""
        self.scope[name] = Binding(symbol.type, symbol.interval, symbol=symbol)
        return symbol

    def input(
        self, name: str, type: Type, kind: InputKind = "data", *, group: str = "", **known: Any
    ) -> Symbol:
        symbol = self.symbol(name, type, **known)
        self.inputs.append(Input(symbol, kind, group))
        return symbol

    def number(self, name: str, dtype: str = "float32") -> Symbol:
        """A parameter between 0 and 1."""
        return self.input(name, Type(dtype, (), "ctor"), "param", interval=Interval(0, 1))

    def expr(self, text: str) -> Typed:
        sink, source = Sink(), Text(text)
        tree = parse(source, sink)
        typed = None if tree is None else infer(tree, self.scope, source, sink, functions=BUILTINS)
        assert typed is not None, (text, [item.message for item in sink.items])
        return self._drawn(typed)

    def let(
        self,
        name: str,
        text: str,
        type: Type | None = None,
        *,
        like: Symbol | None = None,
        named: bool = True,
        **known: Any,
    ) -> Symbol:
        """Add `name = text`, stored as `type`; without one it stays as it is. Unless `named`, no origin is given."""
        typed = self.expr(text)
        symbol = self.symbol(name, type or typed.type, typed.interval, **known)
        value = typed if type is None else store(typed, type, like)
        self.statements.append(Assign(symbol, value, f"{self.path}.{name}" if named else None))
        return symbol

    def call(
        self,
        made: Mapping[str, Type],
        callee: str | Program,
        *args: str,
        receiver: Symbol | None = None,
        effect: Effect = "pure",
        **named: str,
    ) -> tuple[Symbol, ...]:
        """Add a call; `made` are the names and types of what it returns."""
        program = callee if isinstance(callee, Program) else None
        values = tuple(map(self.expr, args))
        pairs = tuple((name, self.expr(text)) for name, text in named.items())
        symbols = tuple(self.symbol(name, type) for name, type in made.items())
        fields = tuple(one.name for one in program.outputs) if program is not None and program.record else ()
        name = program.name if program is not None else str(callee)
        origin = f"{self.path}.{next(iter(made))}"
        target = Callee(name, program, effect, receiver)
        self.statements.append(Call(symbols, target, values, pairs, fields, origin=origin))
        return symbols

    @contextmanager
    def inside(self) -> Iterator[list[Statement]]:
        """The statements that are added in the block are those of a region; names of the block end with it."""
        outer, scope = self.statements, dict(self.scope)
        self.statements = inner = []
        yield inner
        self.statements, self.scope = outer, scope

    def carried(self, name: str, init: Typed, after: Symbol, inner: Symbol, result: bool = True) -> Carried:
        """What a region carries under a name; outside, the name stands for what comes of it."""
        behind = self.symbol(name, inner.type, inner.interval) if result else None
        return Carried(inner, init, after, behind)

    def no_grad(self, body: list[Statement]) -> dict[str, Symbol]:
        """Add a region without gradients; its values, by name, as they are behind it."""
        own = [target for statement in body for target in targets(statement)]
        results = tuple((self.symbol(one.name, one.type, one.interval), one) for one in own)
        origin = f"{self.path}.metrics"
        self.statements.append(Region("no_grad", tuple(body), results=results, origin=origin))
        return {inner.name: outer for outer, inner in results}

    def program(
        self,
        name: str,
        outputs: Mapping[str, Symbol],
        record: str | None = None,
        roles: Mapping[str, OutputRole] | None = None,
    ) -> Program:
        made = tuple(Output(n, s, (roles or {}).get(n, "value"), s.key) for n, s in outputs.items())
        return Program(name, tuple(self.inputs), tuple(self.statements), made, record)

    def _drawn(self, node: Typed) -> Typed:
        """`node` with its draws as inputs."""
        if node.op == "site":
            assert node.site is not None
            count = sum(one.kind == "draw" for one in self.inputs)
            symbol = Symbol(f"{self.path}.draws.{count}", f"draw_{count}", node.type, node.interval)
            self.inputs.append(Input(symbol, "draw", draw=node.site))
            return read(symbol)
        items = tuple(At(self._drawn(item.index)) if isinstance(item, At) else item for item in node.items)
        estimator = self.scope["value_estimate"].symbol if node.op == "value_estimate" else None
        captured = (estimator,) if estimator is not None else ()
        return replace(node, args=tuple(map(self._drawn, node.args)), items=items, captured=captured)


def literal(value: bool | float) -> Typed:
    """A number, or a truth value, as it stands in a program."""
    dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float32"
    return Typed("literal", Type(dtype, (), "lit"), Interval(value, value), text=repr(value), static=value)
