"""Parameters that are integers only because their default is written without a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from specgen.check.model import Statement
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expression_lints as rules
from specgen.expr import Typed
from specgen.expr.dtypes import CONCRETE, is_float, is_int
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode

Use = Literal["float", "int", "either"]
Assigned = tuple[Statement, str]
"""A statement, and the dtype of what it stores; "" for a local value."""


def warn_whole_numbers(
    file: SchemaFile,
    path: tuple[str, ...],
    params: Mapping[str, Any],
    statements: Iterable[Assigned],
    sink: Sink,
) -> None:
    """Warn of parameters without a type whose default is a whole number, where all that they meet are floats.

    Args:
        file: where they are declared.
        path: the declaration.
        params: all its parameters.
        statements: what may read them.
        sink: takes the warnings.
    """
    written = {name for name, given in params.items() if _untyped_int(given)}
    if not written:
        return
    assigned = [*statements]
    for name in params:
        if name not in written:
            continue
        per_env = isinstance(params[name], Param) and params[name].per_env
        places = [".".join((*path, one, name)) for one in (("reset", "state") if per_env else ("params",))]
        if {use for place in places for use in _uses(place, assigned)} - {"either"} == {"float"}:
            node = find(file.root, (*path, "params", name))
            default = node.get("default") if isinstance(node, MappingNode) else node
            span = default.span if default is not None else file.span(*path, "params", name)
            given = params[name].default if isinstance(params[name], Param) else params[name]
            sink.add(
                rules.WHOLE_NUMBERS_ONLY.at(
                    span,
                    f"`{name}` takes whole numbers only, and is read among floating-point numbers",
                    help=f"write {given}.0, or `type: int` if whole numbers are meant",
                )
            )


def _untyped_int(given: object) -> bool:
    if isinstance(given, Param):
        return given.type is None and _is_int(given.default)
    return _is_int(given)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _uses(path: str, assigned: list[Assigned], followed: frozenset[str] = frozenset()) -> Iterator[Use]:
    """How the value that is defined at `path` is used."""
    for statement, dtype in assigned:
        for above in _paths(statement.typed, path, ()):
            use = _use(above)
            if use is not None or dtype in CONCRETE:
                yield use or ("float" if is_float(dtype) else "int")
            elif (behind := statement.symbol.path) not in followed:
                yield from _uses(behind, assigned, followed | {behind})


def _paths(node: Typed, path: str, above: tuple[Typed, ...]) -> Iterator[tuple[Typed, ...]]:
    """For each place where a value is read, the nodes from the whole expression down to it."""
    here = (*above, node)
    if node.symbol is not None and node.symbol.path == path:
        yield here
    for part in node.parts:
        yield from _paths(part, path, here)


def _use(path: tuple[Typed, ...]) -> Use | None:
    """What the value at the end of `path` meets first that is no number of the text; None where it meets nothing."""
    below = path[-1]
    for node in reversed(path[:-1]):
        if node.op == "index" and below not in node.args:
            return "int"
        if node.op in ("cast", "randint", "call", "**", "arange", "one_hot"):
            return "float" if node.op == "cast" and _unwritten(node, below) else "int"
        others = [part for part in node.args if part is not below and part.type.dtype != "bool"]
        if any(is_float(part.type.dtype) for part in others):
            return "float"
        if any(is_int(part.type.dtype) and not part.type.python for part in others):
            return "int"
        if is_float(node.type.dtype) or node.type.dtype == "bool":
            return "either"
        below = node
    return None


def _unwritten(cast: Typed, below: Typed) -> bool:
    """Whether nobody wrote a conversion: the value meets floats."""
    return (cast.start, cast.end) == (below.start, below.end) and is_float(cast.type.dtype)
