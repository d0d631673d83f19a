"""Declared pure functions: typed arguments, named intermediate values, one result."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from specgen.check.model import CheckedFunction, Statement, identifier, snake
from specgen.check.names import MADE_FUNCTIONS, Names
from specgen.check.reads import broken_reads, misplaced_reads
from specgen.check.specs import parse_spec
from specgen.check.statements import Section, called, check_section, may_draw
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Function, Type, free_names, full, infer, parse
from specgen.schema.env import Function as Declared
from specgen.schema.load import SchemaFile

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
) -> tuple[tuple[CheckedFunction, ...], dict[str, Function]]:
    """Check the `functions:` of a declaration; each may call those before it.

    What reads names of `broken`, whose mistakes have been reported, is passed over. `absent` are names that a
    function can't read, with what to say.

    Returns:
        The functions to print, and how expressions call them.
    """
    checked: list[CheckedFunction] = []
    callables: dict[str, Function] = {}
    order = list(declared)
    for index, (name, function) in enumerate(declared.items()):
        here = (*path, "functions", name)
        # what calls a function with a mistake is passed over, as what reads a broken name is
        broken |= frozenset(order[:index]) - callables.keys()
        absent = {**absent, **_not_callable(order, index)}
        if name in MADE_FUNCTIONS:
            sink.add(
                rules.NAME_REFUSED.at(
                    file.key_span(*here),
                    f"`{name}` can't be a name: generated code has a function `{snake(path[-1])}_{name}`",
                    help="give this function another name",
                )
            )
            continue
        if not names.claim(name, "function", file.key_span(*here)):
            continue
        inner = names.inner([*fixed, *callables, name])
        args: dict[str, Type] = {}
        for arg in function.args:
            spec = parse_spec(file.scalar(*here, "args", arg), sink, dims)
            if inner.claim(arg, "argument", file.key_span(*here, "args", arg)) and spec is not None:
                args[arg] = spec.type()
        if len(args) != len(function.args):
            continue
        scope = {
            **fixed,
            **{arg: Binding(arg, type_, full(type_.dtype), what="argument") for arg, type_ in args.items()},
        }
        source = file.scalar(*here, "returns")
        let = check_section(
            Section(
                file,
                (*here, "let"),
                scope,
                callables,
                inner,
                "a local value",
                broken,
                absent,
                _UNDRAWN,
                (source,),
            ),
            {},
            {},
            sink,
        )
        if len(let.statements) != len(function.let):
            continue
        for statement in let.statements:
            type_ = let.types[statement.target]
            scope[statement.target] = Binding(
                identifier(statement.target), type_, full(type_.dtype), what="value"
            )
        expr = parse(source, sink)
        if (
            expr is None
            or broken_reads(expr, broken)
            or misplaced_reads(expr, source, scope.keys(), absent, {}, sink)
        ):
            continue
        result = infer(expr, scope, source, sink, functions=callables)
        if result is None or not may_draw(result, source, _UNDRAWN, sink):
            continue
        prefix = (
            ("params",)
            if any(text.startswith("params.") for text in _texts(fixed, let.statements, expr))
            else ()
        )
        callables[name] = Function(
            name,
            f"{snake(path[-1])}_{name}",
            tuple(args.items()),
            Type(result.type.dtype, result.type.dims),
            result.interval,
            prefix,
        )
        checked.append(
            CheckedFunction(
                name,
                callables[name],
                args,
                let.statements,
                Statement(
                    "returns",
                    expr,
                    source,
                    free_names(expr),
                    called(result),
                    False,
                    ".".join((*here, "returns")),
                ),
                function.doc,
                (
                    *((tree, identifier(value)) for value, tree in let.trees.items()),
                    (result, result.type.dtype),
                ),
            )
        )
    return tuple(checked), callables


def _not_callable(order: list[str], index: int) -> dict[str, str]:
    """What to say of calls of functions that stand at `index` or below it."""
    own, *later = order[index:]
    return {
        own: "a function can't call itself: write what it repeats out in full",
        **dict.fromkeys(later, f"a function calls those above it: declare this one above `{own}`"),
    }


def _texts(fixed: Mapping[str, Binding], let: tuple[Statement, ...], expr: object) -> list[str]:
    reads = set().union(*(statement.reads for statement in let)) | set(free_names(expr))  # type: ignore[arg-type]
    return [fixed[name].text for name in reads if name in fixed]
