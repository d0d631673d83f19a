"""What a transform's phases read and assign, and whether they do so completely."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specgen.check.statements import SectionResult
from specgen.check.transform_model import Output, Role
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.expr import Expr
from specgen.expr.tree import Binary, Call, Name, Unary, children, free_names
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode

_LIKE = ("zeros_like", "ones_like", "full_like")
_MONOTONE = (
    "cast",
    "float32",
    "float64",
    "clip",
    "tanh",
    "exp",
    "log",
    "sqrt",
    "atan",
    "floor",
    "ceil",
    "round",
)


def value_reads(expr: Expr) -> frozenset[str]:
    """The names whose value `expr` reads; `zeros_like(x)` reads only the shape and dtype of `x`."""
    if isinstance(expr, Name):
        return frozenset({expr.path})
    below = children(expr)
    if isinstance(expr, Call) and expr.function.path in _LIKE and below and isinstance(below[0], Name):
        below = below[1:]
    return frozenset(name for child in below for name in value_reads(child))


def monotone_in(expr: Expr, name: str) -> bool:
    """Whether `expr` rises or falls with each element of `name` and changes no dimension.

    True only for what is seen at once: `name` occurs once on every path, below arithmetic with what does not
    contain it and below functions that rise.
    """
    if isinstance(expr, Name):
        return expr.path == name
    if isinstance(expr, Unary):
        return monotone_in(expr.operand, name)
    if isinstance(expr, Binary):
        left, right = name in free_names(expr.left), name in free_names(expr.right)
        if left and right:
            return False
        if expr.op in ("+", "-", "*"):
            return monotone_in(expr.left if left else expr.right, name)
        return expr.op == "/" and left and monotone_in(expr.left, name)
    if isinstance(expr, Call) and expr.args:
        if expr.function.path == "where" and len(expr.args) == 3:
            condition, *branches = expr.args
            return name not in free_names(condition) and all(monotone_in(branch, name) for branch in branches)
        others = (*expr.args[1:], *(keyword.value for keyword in expr.keywords))
        return (
            expr.function.path in _MONOTONE
            and not any(name in free_names(other) for other in others)
            and monotone_in(expr.args[0], name)
        )
    return False


def check_flow(
    file: SchemaFile,
    path: tuple[str, ...],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    sections: Mapping[str, SectionResult],
    sink: Sink,
) -> None:
    """Report outputs that are not computed when they must be, and values that nobody has."""
    assigned = {phase: _written(file, (*path, phase)) for phase in sections}
    outputs = list(outputs)
    for output in [o for o in outputs if o.name in assigned["map"]][1:]:
        sink.add(
            rules.NOT_AVAILABLE.at(
                file.key_span(*path, "map", output.name),
                "a second output of `map` is not available yet",
                help="declare two transforms and put both into the chain",
            )
        )
    for output in outputs:
        if output.inverse:
            continue
        mapped = output.name in assigned["map"]
        stepped = f"next.{output.name}" in assigned["step"]
        fresh = output.name in assigned["reset"]
        if mapped and (stepped or fresh):
            _report(
                file, path, output, sink, "is assigned by `map` and by `reset` or `step`", "keep one of them"
            )
        elif not mapped and not stepped:
            _report(
                file,
                path,
                output,
                sink,
                "is never assigned after a step",
                f"add `next.{output.name}: …` to `step`",
            )
        elif not mapped and not fresh and not output.flag:
            _report(
                file, path, output, sink, "is never assigned at a reset", f"add `{output.name}: …` to `reset`"
            )
    for role in roles:
        if role.inverse and role.name not in assigned["inverse"]:
            sink.add(
                rules.MISSING_ASSIGNMENT.at(
                    file.key_span(*path, "in", role.name),
                    f"nothing under `inverse` assigns `{role.name}`",
                    help=f"add `{role.name}: …` under `inverse`",
                )
            )
    _one_kind(file, path, assigned, sink)
    _flags_only_rise(outputs, sections["step"], sink)
    _nothing_unknown(outputs, sections, sink)


def _written(file: SchemaFile, path: tuple[str, ...]) -> set[str]:
    """What the phase at `path` assigns, or was meant to: a statement with a mistake is not missing as well."""
    phase = path[-1]
    node = find(file.root, path)
    names = (
        {key.text.removeprefix("next.") for key, _ in node.entries}
        if isinstance(node, MappingNode)
        else set()
    )
    return {f"next.{name}" for name in names} if phase == "step" else names


def _one_kind(file: SchemaFile, path: tuple[str, ...], assigned: Mapping[str, set[str]], sink: Sink) -> None:
    """A transform either maps one output or steps; mixtures are for two transforms."""
    if assigned["map"] and (assigned["step"] or assigned["reset"]):
        sink.add(
            rules.NOT_AVAILABLE.at(
                file.key_span(*path, "map"),
                "`map` beside `step` or `reset` in one transform is not available yet",
                help="declare two transforms and put both into the chain",
            )
        )


def _report(
    file: SchemaFile, path: tuple[str, ...], output: Output, sink: Sink, what: str, help: str
) -> None:
    sink.add(
        rules.MISSING_ASSIGNMENT.at(
            file.key_span(*path, "out", output.name), f"output `{output.name}` {what}", help=help
        )
    )


def _flags_only_rise(outputs: Iterable[Output], step: SectionResult, sink: Sink) -> None:
    flags = {f"next.{output.name}" for output in outputs if output.flag}
    for statement in step.statements:
        if statement.target not in flags:
            continue
        rises = getattr(statement.expr, "op", None) == "or" and any(
            isinstance(operand, Name) and operand.path == statement.target
            for operand in children(statement.expr)
        )
        if not rises:
            sink.add(
                transform_rules.FLAG_FALLS.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{statement.target}` may only be raised",
                    help=f"write `{statement.target} or …`",
                    notes=["an episode that the environment has ended stays ended"],
                )
            )


def _nothing_unknown(outputs: Iterable[Output], sections: Mapping[str, SectionResult], sink: Sink) -> None:
    """A step may read outputs before the step only where they are carried; a reset has no value before it."""
    plain = {output.name for output in outputs if not output.carry}
    every = {output.name for output in outputs}
    defined: set[str] = set()
    for statement in sections["reset"].statements:
        for name in sorted(value_reads(statement.expr) & (every - defined)):
            sink.add(
                transform_rules.NO_VALUE.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{name}` has no value yet at a reset",
                    help=f"`zeros_like({name})` takes only its shape and dtype",
                )
            )
        defined.add(statement.target)
    for statement in sections["step"].statements:
        for name in sorted(value_reads(statement.expr) & plain):
            sink.add(
                transform_rules.NO_VALUE.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{name}` is not carried from one step to the next",
                    help=f"add it to `carry`, or write `next.{name}`",
                )
            )
