"""Declared pure functions: typed arguments, named intermediate values, one result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from types import MappingProxyType

from specgen.check.call_cycles import calling_order
from specgen.check.model import CheckedFunction, Statement, snake
from specgen.check.names import MADE_FUNCTIONS, Names
from specgen.check.reads import broken_reads, misplaced_reads, unknown_reads
from specgen.check.specs import parse_spec
from specgen.check.statements import Section, SectionResult, check_section, made_statement, may_draw
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Function, Interval, Level, Symbol, Type, full, infer, parse
from specgen.schema.env import Function as Declared
from specgen.schema.function import SharedFunction
from specgen.schema.load import SchemaFile
from specgen.values import dataclass, replace

_RECORDS: dict[Level, str] = {"ctor": "params", "const": "consts"}
"""The records that functions are passed, by the level of what is read of them."""
_UNDRAWN = "functions are pure: draw where the function is called, and pass the number on"


def check_functions(
    file: SchemaFile,
    path: tuple[str, ...],
    declared: Mapping[str, Declared],
    dims: Mapping[str, int],
    fixed: Mapping[str, Binding],
    names: Names,
    sink: Sink,
    broken: frozenset[str] = frozenset(),
    absent: Mapping[str, str] = MappingProxyType({}),
    shared: Mapping[str, Function] = MappingProxyType({}),
) -> tuple[tuple[CheckedFunction, ...], dict[str, Function]]:
    """Check the `functions:` of a declaration; they may call each other, in whatever order they stand.

    What reads names of `broken`, whose mistakes have been reported, is passed over. `absent` are names that a
    function can't read, with what to say; `shared` are the functions of files, which they may call, too.

    Returns:
        The functions to print, and how expressions call them.
    """
    claimed = [
        name for name in declared if _claimed(file, (*path, "functions", name), names, snake(path[-1]), sink)
    ]
    inner = names.inner([*fixed, *claimed])
    checked: dict[str, CheckedFunction] = {}
    for name in calling_order(file, (*path, "functions"), declared, sink):
        # what calls a function with a mistake is passed over, as what reads a broken name is
        lost = broken | (declared.keys() - checked.keys())
        callables = {name: function.function for name, function in checked.items()}
        here, within = (*path, "functions", name), inner.copy()
        args = _args(file, here, declared[name], dims, within, sink)
        body = FunctionBody(file, here, within, fixed, {**shared, **callables}, lost, absent, sink)
        if name not in claimed or len(args) < len(declared[name].args):
            continue
        if (function := body.check(declared[name], f"{snake(path[-1])}_{name}", args)) is not None:
            checked[name] = function
    sound = [checked[name] for name in declared if name in checked]
    return tuple(sound), {**shared, **{function.name: function.function for function in sound}}


def _args(
    file: SchemaFile,
    path: tuple[str, ...],
    declared: Declared,
    dims: Mapping[str, int],
    names: Names,
    sink: Sink,
) -> dict[str, Type]:
    args: dict[str, Type] = {}
    for arg in declared.args:
        here = (*path, "args", arg)
        spec = parse_spec(file.scalar(*here), sink, dims)
        if names.claim(arg, "argument", file.key_span(*here)) and spec is not None:
            args[arg] = spec.type()
    return args


def _claimed(file: SchemaFile, here: tuple[str, ...], names: Names, env: str, sink: Sink) -> bool:
    """Whether a function can be called as it is."""
    name = here[-1]
    if name in MADE_FUNCTIONS:
        sink.add(
            rules.NAME_REFUSED.at(
                file.key_span(*here),
                f"`{name}` can't be a name: generated code has a function `{env}_{name}`",
                help="give this function another name",
            )
        )
        return False
    return names.claim(name, "function", file.key_span(*here))


@dataclass(frozen=True)
class FunctionBody:
    """Where a function stands, and what its expressions may read and call.

    Attributes:
        here: the path of its declaration.
        names: its names; those of its arguments are taken.
        fixed: what it may read besides its arguments.
        callables: what it may call.
        broken: names whose mistakes have been reported: what reads them is passed over.
        absent: names that it can't read, with what to say.
        records: the records that it is passed, by the level of what it reads of them.
    """

    file: SchemaFile
    here: tuple[str, ...]
    names: Names
    fixed: Mapping[str, Binding]
    callables: Mapping[str, Function]
    broken: frozenset[str]
    absent: Mapping[str, str]
    sink: Sink
    records: Mapping[Level, str] = field(default_factory=lambda: _RECORDS)

    def check(
        self,
        declared: Declared | SharedFunction,
        text: str,
        args: Mapping[str, Type],
        domains: Mapping[str, Interval] = MappingProxyType({}),
    ) -> CheckedFunction | None:
        """The function, which generated code calls `text`; ``None`` if it has a mistake.

        Args:
            declared: what it says.
            text: its Python name.
            args: the types of its arguments.
            domains: the values of those that may not have any.
        """
        scope = dict(self.fixed)
        symbols: dict[str, Symbol] = {}
        for arg, type_ in args.items():
            values = domains.get(arg) or full(type_.dtype)
            place = ".".join((*self.here, "in", arg))
            span = self.file.key_span(*self.here, "args", arg)
            symbols[arg] = Symbol(place, arg, type_, values, span=span)
            scope[arg] = Binding(type_, values, what="argument", symbol=symbols[arg])
        let = self._let(scope)
        if len(let.statements) != len(declared.let):
            return None
        for statement in let.statements:
            known = let.scope[statement.target]
            scope[statement.target] = replace(known, interval=full(known.type.dtype))
        source = self.file.scalar(*self.here, "returns")
        expr = parse(source, self.sink)
        if expr is None or misplaced_reads(expr, source, scope.keys(), self.absent, {}, self.sink):
            return None
        if broken_reads(expr, self.broken):
            unknown_reads(expr, source, scope, self.callables, self.broken, self.sink)
            return None
        result = infer(expr, scope, source, self.sink, functions=self.callables)
        if result is None or not may_draw(result, source, _UNDRAWN, self.sink):
            return None
        here = (*self.here, "returns")
        symbol = Symbol(
            ".".join(here),
            "returns",
            Type(result.type.dtype, result.type.dims),
            result.interval,
            span=self.file.key_span(*here),
        )
        returns = made_statement(here, "returns", expr, source, result, symbol)
        function = Function(
            self.here[-1],
            text,
            tuple(args.items()),
            symbol.type,
            result.interval,
            self._records((*let.statements, returns)),
        )
        return CheckedFunction(self.here[-1], function, args, let.statements, returns, declared.doc, symbols)

    def _let(self, scope: Mapping[str, Binding]) -> SectionResult:
        section = Section(
            self.file,
            (*self.here, "let"),
            scope,
            self.callables,
            self.names,
            "a local value",
            self.broken,
            self.absent,
            _UNDRAWN,
            (self.file.scalar(*self.here, "returns"),),
        )
        return check_section(section, {}, {}, self.sink)

    def _records(self, statements: Iterable[Statement]) -> tuple[str, ...]:
        """`params` and `consts`, where the function reads them, itself or through those that it calls."""
        found: set[str] = set()
        for statement in statements:
            read = {self.fixed[name].type.level for name in statement.reads if name in self.fixed}
            found |= {record for level, record in self.records.items() if level in read}
            found.update(*(self.callables[name].prefix for name in statement.calls))
        return tuple(record for record in _RECORDS.values() if record in found)
