"""Which declared function calls which: an order to check them in, and the cycles that there can't be."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import schema as rules
from specgen.expr import parse
from specgen.expr.tree import names_read_or_called
from specgen.schema.env import Function
from specgen.schema.function import SharedFunction
from specgen.schema.load import SchemaFile


def calling_order(
    file: SchemaFile,
    path: tuple[str, ...],
    declared: Mapping[str, Function] | Mapping[str, SharedFunction],
    sink: Sink,
) -> list[str]:
    """The declared functions, each behind those that it calls.

    Args:
        file: where they are declared.
        path: where `functions:` stands.
        declared: the functions, by name.
        sink: gets one diagnostic for each cycle; the functions on it are left out.
    """
    calls = {name: _calls(file, (*path, name), function, declared) for name, function in declared.items()}
    while True:
        try:
            return list(TopologicalSorter(calls).static_order())
        except CycleError as error:
            # graphlib's cycle leads from the called to the caller, and back to where it began
            cycle = list(reversed(error.args[1][1:]))
            first = min(range(len(cycle)), key=lambda index: list(declared).index(cycle[index]))
            cycle = cycle[first:] + cycle[:first]
            _report(cycle, calls, sink)
            # what calls a function of the cycle from outside is still in the order: it may have other mistakes
            calls = {
                name: {called: span for called, span in found.items() if called not in cycle}
                for name, found in calls.items()
                if name not in cycle
            }


def _calls(
    file: SchemaFile,
    here: tuple[str, ...],
    function: Function | SharedFunction,
    declared: Mapping[str, Function] | Mapping[str, SharedFunction],
) -> dict[str, Span]:
    """The functions that one calls, or gives to an integrator, with the place where it first does."""
    found: dict[str, Span] = {}
    for inner in (*(("let", name) for name in function.let), ("returns",)):
        source = file.scalar(*here, *inner)
        expr = parse(source, Sink())  # its mistakes are reported where it is checked
        for name in names_read_or_called(expr) if expr is not None else ():
            if name.path in declared:
                found.setdefault(name.path, source.span_of(name.start, name.end))
    return found


def _report(cycle: list[str], calls: Mapping[str, Mapping[str, Span]], sink: Sink) -> None:
    links = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    spans = [calls[caller][called] for caller, called in links]
    route = ", which calls ".join(f"`{called}`" for _, called in links)
    sink.add(
        rules.CALL_CYCLE.at(
            spans[0],
            f"`{cycle[0]}` calls {'itself' if len(cycle) == 1 else route}",
            notes=[
                Note(f"`{caller}` calls `{called}`", span)
                for (caller, called), span in list(zip(links, spans, strict=True))[1:]
            ],
            help="write what is repeated out in full: an expression has no loops",
        )
    )
