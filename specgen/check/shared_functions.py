"""The functions of a file: they are typed for any sizes that their arguments name, and any declaration may call them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from specgen.check.call_cycles import calling_order
from specgen.check.functions import FunctionBody
from specgen.check.model import CheckedFunction, Parameter
from specgen.check.names import Names
from specgen.check.params import OF_FUNCTIONS, check_params
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import functions as rules
from specgen.expr import Function, Interval, SpecType, Type, parse, parse_type
from specgen.expr.patterns import shaped
from specgen.expr.sizes import Rest
from specgen.expr.tree import calls_in
from specgen.program.torch_text import RECORDS
from specgen.schema.function import Arg, SharedFunction
from specgen.schema.load import SchemaFile
from specgen.source import Mapping as MappingNode
from specgen.source import Node, Scalar
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class SharedFunctions:
    """The functions of its own file and of those that it imports, as a declaration sees them.

    Attributes:
        known: how expressions call them, by name.
        broken: those that have a mistake, which is reported where they stand.
        inherited: those that only a call needs that the declaration inherits, each with what it inherits that of.
    """

    known: Mapping[str, Function] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    inherited: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> dict[str, str]:
        """What nothing else of a declaration can be called, and why."""
        why = "it is a function of this file, or of one that it imports"
        called = {name: f"it is a function that `{base}` calls" for name, base in self.inherited.items()}
        return dict.fromkeys((*self.known, *self.broken), why) | called

    def said_of(self, declaration: Node, found: Sink) -> Sink:
        """What was found in a declaration; of one that calls a function with a mistake, what is certain all the same."""
        return (
            Sink(item for item in found.items if item.severity == "error")
            if self.lost(declaration)
            else found
        )

    def lost(self, declaration: Node) -> bool:
        """Whether a declaration calls one that has a mistake, so that it can't be planned."""
        return bool(self.broken) and any(name in self.broken for name in called_in(declaration))


NO_FUNCTIONS = SharedFunctions()


@dataclass(frozen=True)
class CheckedSharedFunction:
    """A function of a file, ready to print.

    Attributes:
        function: its arguments, statements and documentation.
        numbers: the numbers among its arguments.
        docs: the documentation of each argument.
        domains: the values of tensors that are declared.
    """

    function: CheckedFunction
    numbers: tuple[Parameter, ...]
    docs: Mapping[str, str]
    domains: Mapping[str, Interval]


def check_shared_functions(
    file: SchemaFile, module: str, imported: Mapping[str, Function | None], sink: Sink
) -> tuple[dict[str, CheckedSharedFunction], SharedFunctions]:
    """Check the `functions:` of a file; they may call each other, in whatever order they stand.

    Args:
        file: the loaded file.
        module: its dotted generated module.
        imported: the functions of other files that it sees; None for one with a mistake.
        sink: takes every mistake.

    Returns:
        The functions without mistakes, and what declarations of the file may call.
    """
    declared = file.module.functions
    known = {name: function for name, function in imported.items() if function is not None}
    lost = frozenset(imported.keys() - known.keys())
    checked: dict[str, CheckedSharedFunction] = {}
    for name in calling_order(file, ("functions",), declared, sink):
        callables = known | {one: made.function.function for one, made in checked.items()}
        words = SharedFunctions(callables, frozenset(declared)).words
        words |= dict.fromkeys(RECORDS, "generated code calls something else so")
        broken = lost | (declared.keys() - checked.keys())
        names = Names(sink, words)
        mine = _Checker(file, name, module, names, callables, broken, sink).run(declared[name])
        if mine is not None:
            checked[name] = mine
    sound = {name: checked[name] for name in declared if name in checked}
    known |= {name: one.function.function for name, one in sound.items()}
    return sound, SharedFunctions(known, lost | (declared.keys() - sound.keys()))


@dataclass(frozen=True)
class _Checker:
    file: SchemaFile
    name: str
    module: str
    names: Names
    callables: Mapping[str, Function]
    broken: frozenset[str]
    sink: Sink

    def run(self, declared: SharedFunction) -> CheckedSharedFunction | None:
        """The function; ``None`` if it has a mistake."""
        path = ("functions", self.name)
        if not declared.args:
            message = f"`{self.name}` takes no tensor, so that nothing tells the rows of its result"
            self.sink.add(
                rules.FUNCTION_ARGUMENT.at(
                    self.file.key_span(*path, "args"), message, help="write the number where it is meant"
                )
            )
            return None
        numbers, fixed = check_params(self.file, path, declared.params, OF_FUNCTIONS, self.names, self.sink)
        numbers = tuple(sorted(numbers, key=lambda one: not one.required))
        found = {arg: self._argument((*path, "args", arg), given) for arg, given in declared.args.items()}
        args = {arg: one for arg, one in found.items() if one is not None}
        body = FunctionBody(
            self.file, path, self.names, fixed, self.callables, self.broken, {}, self.sink, {}
        )
        if len(args) < len(declared.args) or len(numbers) < len(declared.params):
            return None
        made = body.check(declared, self.name, {arg: kind for arg, (kind, _) in args.items()}, _domains(args))
        if made is None or not self._gives_what_is_declared(declared, made):
            return None
        function = replace(
            made.function,
            params=(*made.function.params, *((one.name, one.type) for one in numbers)),
            module=self.module,
            domains=(*(domain for _, domain in args.values()), *map(_range, numbers)),
            defaults=tuple(one.default for one in numbers if not one.required),
        )
        docs = {arg: given.doc for arg, given in declared.args.items() if isinstance(given, Arg)}
        docs |= {one.name: one.doc for one in numbers}
        return CheckedSharedFunction(replace(made, function=function), numbers, docs, _domains(args))

    def _argument(self, here: tuple[str, ...], given: str | Arg) -> tuple[Type, Interval | None] | None:
        """The type of a tensor, and its declared values; ``None`` after reporting what is wrong."""
        place = (*here, "type") if isinstance(given, Arg) else here
        claimed = self.names.claim(here[-1], "argument", self.file.key_span(*here))
        spec = parse_type(self.file.scalar(*place), self.sink, {})
        if spec is None or not claimed or not self._is_complete(place, spec):
            return None
        kind = spec.type()
        kind = Type(kind.dtype, shaped(kind.dims, here[-1], (), {}))
        return kind, None if spec.low is None and spec.kind in (
            "pattern",
            "unbounded",
            "binary",
        ) else spec.interval

    def _is_complete(self, place: tuple[str, ...], spec: SpecType) -> bool:
        """Whether a type says the dimensions of one row, and a dtype that can be computed with."""
        span, help = self.file.span(*place), None
        if spec.kind in ("like", "text") or spec.dtype in ("any", "number"):
            message = f"`{spec.dtype}` is no type that a function computes with"
            help = "write float, or a dtype"
        elif any(isinstance(size, Rest) for size in spec.dims):
            message = "`...` has nothing to say: a function is for any number of leading dimensions"
            help = "name the dimensions that it computes with, as in float[n]"
        else:
            return True
        self.sink.add(rules.FUNCTION_ARGUMENT.at(span, message, help=help))
        return False

    def _gives_what_is_declared(self, declared: SharedFunction, made: CheckedFunction) -> bool:
        """Whether the result has the type that is declared; reported where it has not."""
        if declared.type is None:
            return True
        place = ("functions", self.name, "type")
        spec = parse_type(self.file.scalar(*place), self.sink, {})
        if spec is None or not self._is_complete(place, spec):
            return False
        wanted, got, values = spec.type(), made.function.result, made.function.interval
        message = ""
        if (wanted.dtype, wanted.dims) != (got.dtype, got.dims):
            message = f"`{self.name}` gives {got}, not {wanted}"
        elif spec.low is not None and not (
            spec.interval.low <= values.low and values.high <= spec.interval.high
        ):
            message = f"`{self.name}` may give anything in [{values.low:g}, {values.high:g}]"
        if message:
            self.sink.add(
                rules.FUNCTION_RESULT.at(self.file.span(*place), message, help=f"write type: {got}")
            )
        return not message


def _domains(args: Mapping[str, tuple[Type, Interval | None]]) -> dict[str, Interval]:
    return {name: domain for name, (_, domain) in args.items() if domain is not None}


def called_in(node: Node) -> Iterator[str]:
    """The functions that the expressions below a node call."""
    if isinstance(node, MappingNode):
        for _, value in node.entries:
            yield from called_in(value)
    elif isinstance(node, Scalar) and "(" in node.text and (expr := parse(node, Sink())) is not None:
        yield from (call.function.path for call in calls_in(expr))


def _range(number: Parameter) -> Interval | None:
    return number.interval if number.range else None
