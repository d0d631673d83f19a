"""Parameters that are integers only because their default is written without a point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from specgen.check.model import identifier
from specgen.check.statements import SectionResult
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import expression_lints as rules
from specgen.expr import Typed
from specgen.expr.dtypes import CONCRETE, is_float, is_int
from specgen.schema.fields import Param
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode

Use = Literal["float", "int", "either"]
Tree = tuple[Typed, str]
"""A typed expression, and what it is assigned to: the dtype of a key, or the name of a local value."""


def warn_whole_numbers(
    file: SchemaFile,
    path: tuple[str, ...],
    params: Mapping[str, Any],
    sections: Iterable[SectionResult],
    others: Iterable[Tree],
    sink: Sink,
    prefix: str = "params.",
) -> None:
    """Warn of parameters without a type whose default is a whole number, where all that they meet are floats.

    Args:
        file: where they are declared.
        path: the declaration.
        params: all its parameters.
        sections: the expressions that may read them.
        others: more such expressions.
        sink: takes the warnings.
        prefix: what their printed text has in front of the name.
    """
    written = {name for name, given in params.items() if _untyped_int(given)}
    if not written:
        return
    trees = [*others]
    for section in sections:
        for name, tree in section.trees.items():
            target = section.targets.get(name)
            trees.append((tree, identifier(name) if target is None else target.spec.dtype))
    for name in params:
        if name not in written:
            continue
        per_env = isinstance(params[name], Param) and params[name].per_env
        if set(_uses(name if per_env else f"{prefix}{name}", trees)) - {"either"} == {"float"}:
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


def _uses(text: str, trees: list[Tree], followed: frozenset[str] = frozenset()) -> Iterator[Use]:
    """How the value that is printed as `text` is used."""
    for tree, target in trees:
        for above in _paths(tree, text, ()):
            use = _use(above)
            if use is not None or target in CONCRETE:
                yield use or ("float" if is_float(target) else "int")
            elif target not in followed:
                yield from _uses(target, trees, followed | {target})


def _paths(node: Typed, text: str, above: tuple[Typed, ...]) -> Iterator[tuple[Typed, ...]]:
    """For each place where a name is read, the nodes from the whole expression down to it."""
    here = (*above, node)
    if node.op == "name" and node.text == text:
        yield here
    for part in node.parts:
        yield from _paths(part, text, here)


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
