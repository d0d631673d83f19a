"""Optional parameters and roles: what may be missing is read only where a condition says that it is there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from specgen.check.conditions import ALWAYS, may_be_absent
from specgen.check.model import Parameter, Statement
from specgen.check.statements import SectionResult
from specgen.check.transforms.branches import parts_of_rows
from specgen.check.transforms.draws import taken_draws
from specgen.check.transforms.entries import Output, Role, role_of
from specgen.check.transforms.flow import value_reads
from specgen.check.transforms.model import sizes_of
from specgen.diagnostics import Sink, Span
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.diagnostics.rules import transforms as rules
from specgen.expr import Typed
from specgen.expr.sizes import Sym, names_in
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_offline import Recursion

_NO_MOMENTS = (
    "add a role that is always there, `reward: {each: [reward]}`, say: it tells how many moments there are"
)
_LIKE_ROWS = "write `zeros_like(x)`, `ones_like(x)` or `full_like(x, …)` of what is always there"
_SAME_OF_ROWS = "write a condition on what is always there: `x < x` is false, `not (x < x)` true"
_NONE_THERE = (
    "add a role that is always there, `reward: {each: env.reward}`, say: what is learned belongs to its key"
)


def check_optional_roles(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, roles: Iterable[Role], sink: Sink
) -> None:
    """Report optional roles that the transform at `path` can't do without."""
    roles = list(roles)
    always = [role for role in roles if not role.inverse and not role.may_be_missing]
    for role in roles:
        here = (*path, "in", role.name)
        if not role.optional:
            continue
        if role.inverse and role.default:
            sink.add(
                language_rules.OPTIONAL_NEEDED.at(
                    file.key_span(*here, "optional"),
                    f"`{role.name}` is what the environment is given, which it always needs",
                    help="leave `optional` out, or let users name the keys: `each: []`",
                )
            )
        elif role.may_be_missing:
            if role.form == "each" and any(entry.startswith("env.") for entry in role.default):
                message = f"`{role.name}` goes along with `{role.paired}`, and nobody knows which key of a group is missing"
                help = "name the keys that it stands for"
                sink.add(
                    language_rules.OPTIONAL_NEEDED.at(file.key_span(*here, "optional"), message, help=help)
                )
            for span, what in _needing(file, path, transform, role, roles):
                sink.add(
                    language_rules.OPTIONAL_NEEDED.at(
                        span,
                        f"`{role.name}` may be missing, and {what} it",
                        help="leave `optional` out, or name a role that is always there",
                    )
                )
            for field, there, help in (
                ("buffers", bool(transform.buffers) and not always, _NONE_THERE),
                (
                    "offline",
                    isinstance(transform.offline, Recursion) and transform.python is None and not always,
                    _NO_MOMENTS,
                ),
            ):
                if there:
                    message = f"a key that may be missing is not available yet beside `{field}`"
                    span = file.key_span(*here, "optional")
                    sink.add(schema_rules.NOT_AVAILABLE.at(span, message, help=help))


def _needing(
    file: SchemaFile, path: tuple[str, ...], transform: Transform, role: Role, roles: Iterable[Role]
) -> Iterator[tuple[Span, str]]:
    """Where something needs a role in all repetitions, and what does."""
    for other in roles:
        here = (*path, "in", other.name)
        if other.form == "flag" and other.beside == role.name:
            yield file.span(*here, "of"), f"`{other.name}` is the flag of"
        elif other.beside == role.name:
            yield file.span(*here, "beside"), f"`{other.name}` stands beside"
        if other.paired == role.name:
            yield file.span(*here, "with"), f"`{other.name}` goes along with"
        if other.shaped_as == role.name:
            yield file.span(*here, "type"), f"`{other.name}` has the dimensions of"
    for action, mask in transform.masks.items():
        if mask == role.name:
            yield file.span(*path, "masks", action), f"what of `{action}` is allowed is in"
    for name, buffer in transform.buffers.items():
        if buffer.each == role.name:
            yield file.span(*path, "buffers", name, "each"), f"`{name}` is learned for"


def check_absent(
    file: SchemaFile,
    path: tuple[str, ...],
    params: Iterable[Parameter],
    roles: Iterable[Role],
    outputs: Iterable[Output],
    sections: Mapping[str, SectionResult],
    sink: Sink,
) -> None:
    """Report what the transform at `path` reads of parameters that may not have been given, and of keys that may be missing."""
    roles, outputs = list(roles), list(outputs)
    untyped = _check_types(file, path, roles, outputs, sink)
    _check_draws(roles, sections, sink)
    _check_outputs(outputs, sections, sink)
    _check_numbers({role.name for role in roles if role.may_be_missing}, sections, sink)
    conditions = {one.name: None for one in roles} | {one.name: one.when for one in outputs}
    missing = {role.name for role in roles if role.may_be_missing}
    needed = {param.name: {param.name} for param in params if param.optional} | {
        name: {name} for name in missing
    }
    needed |= {f"{prefix}.{name}": names for name, names in needed.items() for prefix in ("next", "acc")}
    needed |= {name: {role.name} for name, (role, _) in sizes_of(roles).items() if role.name in missing}
    for phase, section in sections.items():
        by_target = {statement.target: statement for statement in section.statements}
        for target in by_target:
            learned = phase == "update" and target.startswith("next.")
            alone = phase in ("count", target)  # a part of `around` that is one expression
            if target.removeprefix("next.") not in conditions and not (learned or alone):
                continue  # a local value is as conditional as what reads it
            when = conditions.get(target.removeprefix("next."))
            given = frozenset[str]() if when is None else when.given
            given |= {target} & missing  # a fold of what is missing is left out
            for statement in _behind(by_target, target, conditions):
                lost = untyped.get(target.removeprefix("next."), frozenset())
                for name in sorted(may_be_absent(statement.expr, needed, given)):
                    if needed[name] <= lost:
                        continue  # said of its type
                    said = "may be missing" if name in missing else "may not have been given"
                    sink.add(
                        rules.MAY_BE_ABSENT.at(
                            statement.source.span_of(0, len(statement.source.text)),
                            f"`{name}` {said}",
                            help=_read_where(name, target, outputs),
                        )
                    )


def _read_where(name: str, target: str, outputs: Iterable[Output]) -> str:
    """What to do about a value that is read for `target`, and may not be there."""
    branch = f"read it in a branch of `where(given({name}), …, …)`"
    written = any(output.name == target.removeprefix("next.") for output in outputs)
    return f"declare the output with `when: given({name})`, or {branch}" if written else branch


def _check_types(
    file: SchemaFile, path: tuple[str, ...], roles: Iterable[Role], outputs: Iterable[Output], sink: Sink
) -> Mapping[str, frozenset[str]]:
    """Report outputs whose declared type is that of a role, or has sizes of one, whose key may be missing; return these."""
    roles, found = list(roles), dict[str, frozenset[str]]()
    missing = {role.name for role in roles if role.may_be_missing}
    sizes = {name: role.name for name, (role, _) in sizes_of(roles).items() if role.name in missing}
    for output in outputs:
        named = {
            sizes[name]
            for size in output.dims or ()
            if isinstance(size, Sym)
            for name in names_in(size)
            if name in sizes
        }
        named |= {output.like} & missing if output.like is not None else set()
        found[output.name] = frozenset(named) - (frozenset() if output.when is None else output.when.given)
        for name in sorted(found[output.name]):
            sink.add(
                rules.MAY_BE_ABSENT.at(
                    file.span(*path, "out", output.name, "type"),
                    f"`{name}` may be missing, and then `{output.name}` has no type",
                    help=f"declare the output with `when: given({name})`",
                )
            )
    return found


def _check_outputs(outputs: Iterable[Output], sections: Mapping[str, SectionResult], sink: Sink) -> None:
    """Report what reads an output where it may not exist."""
    declared = {one.name: one for one in outputs}
    for phase in ("reset", "step", "map", "offline.step"):
        statements = sections[phase].statements if phase in sections else ()
        by_target = {statement.target: statement for statement in statements}
        for target in by_target:
            reader = declared.get(target.removeprefix("next."))
            if reader is None:
                continue
            when = reader.when or ALWAYS
            for statement in _behind(by_target, target, declared):
                read = value_reads(statement.expr)
                names = {name.removeprefix("next.").removeprefix("acc.") for name in read}
                for name in sorted(names & declared.keys()):
                    other = declared[name].when or ALWAYS
                    if when.implies(other):
                        continue
                    mine = "always" if when.always else f"with `{when}`"
                    theirs, help = f"with `{other}`", "compute what both need as a value of its own"
                    if name in other.given:  # an output that is `optional`: no `when` of another one says so
                        theirs = "where users give its key"
                    else:
                        help = f"give both one `when`, or {help}"
                    sink.add(
                        rules.MAY_BE_ABSENT.at(
                            statement.source.span_of(0, len(statement.source.text)),
                            f"`{name}` exists {theirs}, and `{reader.name}` {mine}",
                            help=help,
                        )
                    )


def _check_draws(roles: Iterable[Role], sections: Mapping[str, SectionResult], sink: Sink) -> None:
    """Report draws of the shape of a role whose key may be missing."""
    missing = {role.name for role in roles if role.may_be_missing}
    for section in sections.values():
        for statement in section.statements:
            for site in taken_draws(statement.typed):
                if (name := role_of(site.like)) in missing:
                    sink.add(
                        language_rules.OPTIONAL_NEEDED.at(
                            statement.source.span_of(0, len(statement.source.text)),
                            f"`{name}` may be missing, and a draw has the shape of it",
                            help="draw `like=` a role that is always there, or with `shape=`",
                        )
                    )


def _check_numbers(missing: Collection[str], sections: Mapping[str, SectionResult], sink: Sink) -> None:
    """Report what stands in for a key that is missing, where nothing that is there has the shape of that."""
    for phase, section in sections.items():
        for statement in section.statements:
            nodes = list(statement.typed.nodes)
            # a part of `around` that is one expression is one for each choice of keys
            parts = parts_of_rows(statement.typed, missing, counts=phase == "reset_steps")
            apart = [end for when, end in parts if when.of_keys and statement.target == phase]
            names = [one for one in nodes if one.op == "name" and one.type.level == "batch"]
            there = [one.type for one in names if role_of(one.symbol) not in missing]
            sizes = {size for type_ in there for size in type_.dims}
            for node in nodes:
                if node.op != "where" or node.type.level != "batch" or not _asks_for(missing, node.args[0]):
                    continue
                for branch in node.args[1:]:
                    known = there and all(isinstance(size, int) or size in sizes for size in node.type.dims)
                    if branch.type.level == "batch" or known or any(branch is end for end in apart):
                        continue
                    text = statement.source.text[branch.start : branch.end]
                    sink.add(
                        language_rules.OPTIONAL_NEEDED.at(
                            statement.source.span_of(branch.start, branch.end),
                            f"nothing here has the shape of `{text}` where the key is missing",
                            help=_SAME_OF_ROWS if branch.type.dtype == "bool" else _LIKE_ROWS,
                        )
                    )


def _asks_for(missing: Collection[str], condition: Typed) -> bool:
    """Whether a condition asks for one of the keys that may be missing."""
    return any(node.op == "given" and role_of(node.args[0].symbol) in missing for node in condition.nodes)


def _behind(
    by_target: Mapping[str, Statement], target: str, outputs: Mapping[str, object]
) -> list[Statement]:
    """The statement of an output and those of the local values that it uses."""
    found: dict[str, Statement] = {}
    pending = [target]
    while pending:
        name = pending.pop()
        if name in found or name not in by_target:
            continue
        if name != target and name.removeprefix("next.") in outputs:
            continue
        found[name] = by_target[name]
        pending += by_target[name].reads
    return list(found.values())
