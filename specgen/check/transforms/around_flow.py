"""What `around` reads and assigns, and what it leaves out: outputs and actions, rewards that get lost."""

from __future__ import annotations

from collections.abc import Iterable

from specgen.check.model import Statement
from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.flow import value_reads
from specgen.check.transforms.model import Around
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import around as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import parse
from specgen.expr.tree import Name, Spread, subexpressions
from specgen.program.program import DONE_FLAGS
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_around import Around as DeclaredAround
from specgen.values import replace


def check_around_flow(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    declared: DeclaredAround,
    names: tuple[Iterable[Role], Iterable[Output]],
    sink: Sink,
) -> None:
    """Report outputs and actions that nothing assigns, and values that get lost."""
    roles, outputs = names
    assigned = {"map": transform.map, "collect": declared.collect, "taken": (declared.taken,)}
    known = [output.name for output in outputs if not output.inverse]
    if declared.taken is not None and declared.taken not in known:
        sink.add(
            schema_rules.UNKNOWN_DECLARATION.at(
                file.span(*path, "around", "taken"),
                f"no output `{declared.taken}` for the number of repetitions",
                help=suggestion(declared.taken, known) or "declare it under `out`, as `int64[...]`",
            )
        )
    for output in outputs:
        if output.inverse:
            continue
        by = [field for field, names in assigned.items() if output.name in names]
        if len(by) != 1:
            what = (
                f"is assigned by {' and by '.join(f'`{field}`' for field in by)}"
                if by
                else "is never assigned"
            )
            places = "`map`, or to `collect`" if declared.repeat is not None else "`map`"
            help = "keep one of them" if by else f"add `{output.name}: …` to {places}"
            span = file.key_span(*path, "out", output.name)
            sink.add(schema_rules.MISSING_ASSIGNMENT.at(span, f"output `{output.name}` {what}", help=help))
    acted = declared.action if isinstance(declared.action, dict) else {}
    for role in roles:
        if role.inverse and role.name not in acted and role.name not in transform.inverse:
            sink.add(
                schema_rules.MISSING_ASSIGNMENT.at(
                    file.key_span(*path, "in", role.name),
                    f"nothing assigns `{role.name}`",
                    help=f"add `action: {{{role.name}: …}}` to `around`",
                )
            )
    if isinstance(declared.action, str) and (declared.action != "random" or declared.repeat is not None):
        sink.add(
            schema_rules.WRONG_TYPE.at(
                file.span(*path, "around", "action"),
                "`action` is an expression for each inverse role"
                + (", or `random`" if declared.reset_steps is not None else ""),
            )
        )
    for role in roles:
        if role.name in declared.fold and any(
            entry.rsplit(".", 1)[-1] in DONE_FLAGS for entry in role.default
        ):
            sink.add(
                schema_rules.WRONG_TARGET.at(
                    file.key_span(*path, "around", "fold", role.name),
                    "done flags are those of the last repetition",
                    help="leave it out; `until` stops rows",
                )
            )
    if declared.repeat is not None and not sink.has_errors:
        _warn_of_lost_reward(file, path, declared, roles, sink)


def _warn_of_lost_reward(
    file: SchemaFile, path: tuple[str, ...], declared: DeclaredAround, roles: Iterable[Role], sink: Sink
) -> None:
    rewards = [
        role.name
        for role in roles
        if role.default and all(entry.rsplit(".", 1)[-1] == "reward" for entry in role.default)
    ]
    if not any(name in declared.fold for name in rewards):
        sink.add(
            rules.REWARD_LOST.at(
                file.key_span(*path, "around"),
                "only the last repetition's reward is returned",
                help="add a role for the reward, and `fold: {reward: acc.reward + next.reward}`",
            )
        )


def following_their_roles(transform: Transform, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
    """The outputs; what is collected, and has no type of its own, has that of its role."""
    collected = {} if transform.around is None else transform.around.collect
    return tuple(
        replace(output, like=output.each) if output.name in collected and not output.declared else output
        for output in outputs
    )


def recalled_by_around(around: Around | None, names: Iterable[str]) -> tuple[str, ...]:
    """The names whose value before the step `around` reads."""
    if around is None or around.kind == "reset_steps":
        return ()
    statements = [one for phase, section in around.sections.items() if phase != "action" for one in section]
    return tuple(name for name in names if any(name in value_reads(one.expr) for one in statements))


def around_sections(around: Around | None) -> dict[str, SectionResult]:
    """The parts of `around` as sections, for what looks at all of a transform's statements."""
    if around is None:
        return {}
    found = {str(phase): SectionResult(statements) for phase, statements in around.sections.items()}
    if around.count is not None:
        found["count"] = SectionResult((around.count,))
    return found


def joins_keys(
    file: SchemaFile, path: tuple[str, ...], declared: DeclaredAround, roles: Iterable[Role], sink: Sink
) -> bool:
    """Whether `collect` joins the keys of an `all:` role, which is reported: each of them is collected as it is."""
    several = {name for role in roles if role.form == "all" for name in (role.name, f"next.{role.name}")}
    before = sink.errors
    for output in declared.collect:
        source = file.scalar(*path, "around", "collect", output)
        expr = parse(source, Sink())
        for spread in () if expr is None else subexpressions(expr):
            if isinstance(spread, Spread) and spread.value.path in several:
                role = spread.value.path.removeprefix("next.")
                sink.add(
                    rules.COLLECTED_KEYS.at(
                        source.span_of(spread.start, spread.end),
                        f"`{role}` stands for several keys, of which each is collected as it is",
                        help=f'declare `{output}: {{each: {role}, name: "{{}}s"}}`, collect `{output}: next.{role}`, '
                        "and join what is collected in a transform behind this one",
                    )
                )
    return sink.errors > before


def stacked_outputs(
    roles: Iterable[Role], outputs: Iterable[Output], collect: Iterable[Statement], sink: Sink
) -> dict[str, str]:
    """The outputs that collect each of several keys as it is, with the role that stands for these."""
    several = {role.name for role in roles if role.form == "all"}
    collected = {statement.target: statement for statement in collect}
    found: dict[str, str] = {}
    for output in outputs:
        statement = collected.get(output.name)
        if statement is None or output.each is None or output.each not in several:
            continue
        if not (isinstance(statement.expr, Name) and statement.expr.path == f"next.{output.each}"):
            sink.add(
                rules.COLLECTED_KEYS.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{output.each}` stands for several keys, of which each is collected as it is",
                    help=f"write `{output.name}: next.{output.each}`",
                )
            )
        found[output.name] = output.each
    return found
