"""What a transform's phases read and assign, and whether they do so completely."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import Phase
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import flow as flow_rules
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms as transform_rules
from specgen.diagnostics.rules import transforms_policy as policy_rules
from specgen.expr import Expr
from specgen.expr.tree import Call, Name, children
from specgen.schema.load import SchemaFile, find
from specgen.schema.transform import Transform
from specgen.source import Mapping as MappingNode

_LIKE = ("zeros_like", "ones_like", "full_like")


def value_reads(expr: Expr) -> frozenset[str]:
    """The names whose value `expr` reads; `zeros_like(x)` reads only the shape and dtype of `x`, `given(x)` nothing."""
    if isinstance(expr, Name):
        return frozenset({expr.path})
    if isinstance(expr, Call) and expr.function.path == "given":
        return frozenset()
    below = children(expr)
    if isinstance(expr, Call) and expr.function.path in _LIKE and below and isinstance(below[0], Name):
        below = below[1:]
    return frozenset(name for child in below for name in value_reads(child))


def computed_of(names: Collection[str], sections: Iterable[SectionResult]) -> frozenset[str]:
    """What is computed of some names in the sections of a transform, without `next.`; also by way of other values."""
    found: set[str] = set()
    for section in sections:
        behind = {*names}
        for statement in section.statements:
            if not statement.reads.isdisjoint(behind):
                behind.add(statement.target)
                found.add(statement.target.removeprefix("next."))
    return frozenset(found)


def check_carries(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, outputs: Iterable[Output], sink: Sink
) -> None:
    """Report names under `carry` of the transform at `path` that are no outputs, or rewards."""
    known = [output.name for output in outputs]
    for index, name in enumerate(transform.carry):
        if name not in known and name not in transform.out:
            sink.add(
                rules.UNKNOWN_DECLARATION.at(
                    file.span(*path, "carry", index),
                    f"no output `{name}` to carry",
                    help=suggestion(name, known),
                )
            )
        elif name in transform.out and transform.out[name].group == "reward":
            sink.add(
                flow_rules.NO_REWARD_YET.at(
                    file.span(*path, "carry", index),
                    f"the reward `{name}` can't be carried: a reset gives none",
                    help=f"carry another output with `hidden: true`, and assign it to `next.{name}` under `step`",
                )
            )


def check_flow(
    file: SchemaFile,
    path: tuple[str, ...],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    sections: Mapping[Phase, SectionResult],
    sink: Sink,
) -> None:
    """Report outputs that are not computed when they must be, and values that nobody has."""
    assigned = {phase: _written(file, (*path, phase)) for phase in sections}
    outputs, roles = list(outputs), list(roles)
    misnamed = _assigns_unknown(file, path, [*outputs, *roles], sections)
    rewards = {role.name for role in roles if {key.rsplit(".")[-1] for key in role.default} == {"reward"}}
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
        elif output.policy:
            _report_policy(file, path, output, stepped, fresh, sink)
        elif misnamed:  # an output may be meant by that, and one mistake gives one message
            continue
        elif not mapped and not stepped:
            _report(
                file,
                path,
                output,
                sink,
                "is never assigned after a step",
                f"add `next.{output.name}: …` to `step`",
            )
        elif not mapped and not fresh and not output.flag and not output.reward:  # a reset gives no reward
            help = f"add `{output.name}: …` to `reset`"
            if output.same and output.each in rewards:
                help = f"write `group: reward` under `out`, `{output.name}`: a reset gives no reward"
            _report(file, path, output, sink, "is never assigned at a reset", help)
    for role in roles:
        if role.inverse and role.name not in assigned["inverse"]:
            sink.add(
                rules.MISSING_ASSIGNMENT.at(
                    file.key_span(*path, "in", role.name),
                    f"nothing under `inverse` assigns `{role.name}`",
                    help=f"add `{role.name}: …` under `inverse`",
                )
            )
    _hidden_is_read(file, path, outputs, sections, sink)
    _flags_only_rise(outputs, sections["step"], sink)
    _nothing_unknown(outputs, sections, sink)


def _assigns_unknown(
    file: SchemaFile,
    path: tuple[str, ...],
    declared: Iterable[Role | Output],
    sections: Mapping[Phase, SectionResult],
) -> bool:
    """Whether a phase assigns a name that is not declared, and that nothing reads: its section reports it."""
    names = {one.name for one in declared}
    read = {name for section in sections.values() for one in section.statements for name in one.reads}
    nodes = [find(file.root, (*path, phase)) for phase in ("reset", "map", "step")]
    targets = [key.text for node in nodes if isinstance(node, MappingNode) for key, _ in node.entries]
    unread = [name for name in targets if name.startswith("next.") or name not in read]
    return any(name.removeprefix("next.") not in names for name in unread)


def _written(file: SchemaFile, path: tuple[str, ...]) -> set[str]:
    """What the phase at `path` assigns, or was meant to: a statement with a mistake is not missing as well."""
    phase = path[-1]
    node = find(file.root, path)
    found = [*(key.text for key, _ in node.entries), *node.lost] if isinstance(node, MappingNode) else []
    names = {name.removeprefix("next.") for name in found}
    return {f"next.{name}" for name in names} if phase == "step" else names


def _hidden_is_read(
    file: SchemaFile,
    path: tuple[str, ...],
    outputs: Iterable[Output],
    sections: Mapping[Phase, SectionResult],
    sink: Sink,
) -> None:
    phases: tuple[Phase, ...] = ("step", "map")
    reading = [statement for phase in phases for statement in sections[phase].statements]
    read = frozenset[str]().union(*(value_reads(statement.expr) for statement in reading))
    for output in outputs:
        if output.hidden and not output.policy and output.name not in read:
            span = file.key_span(*path, "out", output.name)
            message = f"nothing reads `{output.name}`, and nobody sees it"
            help = "read it in `step` or `map`, or leave `hidden` out"
            sink.add(language_rules.HIDDEN_UNREAD.at(span, message, help=help))


def _report_policy(
    file: SchemaFile, path: tuple[str, ...], output: Output, stepped: bool, fresh: bool, sink: Sink
) -> None:
    """Report a state of the policy that a step assigns, or that nothing resets."""
    if stepped:
        span = file.key_span(*path, "step", f"next.{output.name}")
        sink.add(policy_rules.POLICY_STATE.at(span, f"the policy writes `{output.name}`, a step does not"))
    elif not fresh:
        span = file.key_span(*path, "out", output.name)
        help = f"add `{output.name}: …` to `reset`"
        sink.add(policy_rules.POLICY_STATE.at(span, f"nothing resets `{output.name}`", help=help))


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


def _nothing_unknown(outputs: Iterable[Output], sections: Mapping[Phase, SectionResult], sink: Sink) -> None:
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
