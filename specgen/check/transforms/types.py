"""The types of a transform's roles and outputs, and what follows from the expressions for those not declared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from specgen.check.model import Parameter, Statement
from specgen.check.statements import SectionResult
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.images import entry_itself, image_of, joined
from specgen.check.transforms.model import AROUND_PHASES, CheckedTransform, Phase
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transform_language as rules
from specgen.expr import (
    Interval,
    SpecType,
    Symbol,
    Type,
    Typed,
    check_assignable,
    free_names,
    parse,
    patterns,
)
from specgen.expr.sizes import ANY_DIMS
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import replace


def role_types(roles: Iterable[Role]) -> dict[str, Type]:
    """The type of each role, whatever key it stands for."""
    roles = list(roles)
    found: dict[str, Type] = {}
    # `[...x]` are the dimensions of another role, which comes first.
    for role in sorted(roles, key=lambda role: (role.form == "flag", role.shaped_as is not None)):
        if role.form == "flag" and role.beside in found:
            found[role.name] = Type("bool", found[role.beside].dims)
            continue
        found[role.name] = patterns.role_type(role.spec, role.name, rank_symbol(role), found)
    return {role.name: found[role.name] for role in roles}


def rank_symbol(role: Role) -> Symbol:
    """How many dimensions the key of a role has, for axes that are counted from the front."""
    return Symbol(f"rank.{role.name}", f"{role.name}_rank", Type("int64", (), "ctor"), Interval(0, 64))


def output_type(output: Output, roles: Mapping[str, Type]) -> Type:
    """The type of an output, whatever key its role stands for; that of its role where nothing is known yet."""
    if output.inferred is not None:
        return output.inferred
    role = None if output.each is None else roles[output.each]
    if output.dtype is not None:
        if output.dims is None:
            return Type(output.dtype, () if role is None else role.dims)
        spec = SpecType("pattern", output.dtype, output.dims)
        return patterns.output_type(spec, output.name, role or Type(output.dtype, ()), roles)
    if output.like is not None:
        return roles[output.like]
    return Type("any", ANY_DIMS) if role is None else role


def spec_of(type_: Type, interval: tuple[float, float] | None = None) -> SpecType:
    """The type of a target."""
    if interval is None:
        return SpecType("pattern", type_.dtype, type_.dims)
    return SpecType("bounded", type_.dtype, type_.dims, *interval)


def settled(
    outputs: Iterable[Output],
    phase: Phase,
    section: SectionResult,
    roles: Mapping[str, Type],
    sink: Sink,
) -> tuple[Output, ...]:
    """The outputs with the types that a phase gives to those that have none; numbers of no role are reported."""

    def one(output: Output) -> Output:
        if phase in ("map", "step") and output.each is None and output.like is None:
            report_reading_nothing(output, phase, section.statements, sink)
        known = output.declared or output.inferred is not None or output.inverse
        if known or phase not in ("reset", "map"):
            return output
        if output.name not in section.types:
            # What nothing computes is reported; until then it is as its role.
            return replace(output, like=output.each) if phase == "map" and output.each else output
        statement = next(one for one in section.statements if one.target == output.name)
        if statement.typed.type.level != "batch" and output.each is not None:
            # A number in each place of its role: of the role's dtype if that holds it.
            wanted = spec_of(roles[output.each])
            fits = check_assignable(statement.typed, wanted, statement.source, Sink(), name=output.name)
            return (
                replace(output, like=output.each)
                if fits
                else replace(output, dtype=statement.typed.type.dtype)
            )
        if statement.typed.type.level != "batch":
            sink.add(
                rules.UNDECLARED_TYPE.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{output.name}` is a number here, of no key's dimensions: declare its type",
                    help=f"write `type: …` under `out`, `{output.name}`",
                )
            )
        return replace(output, inferred=section.types[output.name])

    return tuple(map(one, outputs))


def report_reading_nothing(output: Output, phase: Phase, statements: Iterable[Statement], sink: Sink) -> None:
    """Report an output that follows no role and has a type, where a phase computes it of nothing that a row has."""
    target = f"next.{output.name}" if phase == "step" else output.name
    for one in statements:
        if one.target == target and one.typed.type.level != "batch" and output.declared:
            span = one.source.span_of(0, len(one.source.text))
            message = f"`{target}` reads nothing of a row"
            sink.add(schema_rules.WRONG_TYPE.at(span, message, help="read a role, or an output that does"))


def pending_reads(file: SchemaFile, path: tuple[str, ...], pending: set[str], sink: Sink) -> frozenset[str]:
    """Report statements whose value has the type of what they are still to define.

    Args:
        file: where the phase at `path` stands.
        pending: the outputs without a type.

    Returns:
        The targets of these statements.
    """
    node = find(file.root, path)
    found: set[str] = set()
    written = {key.text for key, _ in node.entries} if isinstance(node, MappingNode) else set()
    assigned: set[str] = set()
    for key, value in node.entries if isinstance(node, MappingNode) else ():
        expr = parse(value, Sink()) if isinstance(value, Scalar) else None
        read = frozenset[str]() if expr is None else free_names(expr)
        for name in sorted(read & (pending - assigned)):
            found.add(key.text)
            if name not in written:
                continue  # why it has no type has been said
            sink.add(
                rules.UNDECLARED_TYPE.at(
                    value.span,
                    f"`{path[-1]}` reads `{name}` itself: declare its type",
                    help=f"write `type: …` under `out`, `{name}`",
                )
            )
        assigned.add(key.text)
    return frozenset(found)


def check_static(params: Iterable[Parameter], sections: Mapping[Phase, SectionResult], sink: Sink) -> None:
    """Report parameters that shape a type, and may change."""
    changing = {param.name for param in params if not param.static}
    said: set[str] = set()
    for section in sections.values():
        for statement in section.statements:
            for node in statement.typed.nodes:
                for option, shaping in node.options.items():
                    if not isinstance(shaping, Typed) or (node.op, option) == ("select", "index"):
                        continue  # which element is taken shapes nothing
                    for name in _parameters(shaping) & changing - said:
                        said.add(name)
                        bare = statement.target.removeprefix("next.")
                        sink.add(
                            rules.NOT_STATIC.at(
                                statement.source.span_of(shaping.start, shaping.end),
                                f"the shape of `{bare}` depends on `{name}`",
                                help=f"say `static: true` of `{name}`",
                            )
                        )


def _parameters(shaping: Typed) -> set[str]:
    """The parameters that a number is computed of."""
    symbols = [node.symbol for node in shaping.nodes if node.op == "name" and node.symbol is not None]
    return {symbol.name for symbol in symbols if ".params." in symbol.path}


def with_images(
    outputs: Iterable[Output], sections: Mapping[Phase, SectionResult], learned: Collection[str]
) -> tuple[Output, ...]:
    """The outputs with what their expressions say of their values; nothing, where they read what is always learned."""
    made = []
    for output in outputs:
        read = _reads(output, sections, learned)
        if not (read and output.declared):
            output = _with_image(output, sections)
            output = replace(output, image="interval") if read else output
        made.append(output)
    return tuple(made)


def _reads(output: Output, sections: Mapping[Phase, SectionResult], learned: Collection[str]) -> bool:
    """Whether an output is computed of what is learned: its values are not known when specs are made."""
    behind = [one for phase in ("reset", "step", "map") for one in sections[phase].statements]
    if output.inverse or not (output.declared or output.each is None):
        return False
    return any(not one.reads.isdisjoint(learned) for one in behind)


def _with_image(output: Output, sections: Mapping[Phase, SectionResult]) -> Output:
    """The output with how its values follow, where nothing declares them."""
    if output.interval is not None or output.inverse:
        return output
    found = []
    for phase, target in (("map", output.name), ("reset", output.name), ("step", f"next.{output.name}")):
        statements = sections[phase].statements  # type: ignore[index]
        index = next((i for i, one in enumerate(statements) if one.target == target), None)
        if index is not None and (phase == "map" or not output.declared):
            found.append((statements[index], statements[:index]))
    if not found:
        return output
    values = found[0][0].typed.interval
    for statement, _ in found[1:]:
        values = values.hull(statement.typed.interval)
    images = [image_of(statement.typed, before) for statement, before in found]
    image = images[0] if len(found) == 1 else joined(images)
    source = None
    if len(found) == 1 and image == "same":
        entry = entry_itself(found[0][0].typed, {one.symbol: one.typed for one in found[0][1]})
        source = None if entry is None else entry.name
    return replace(output, image=image, values=values, source=source)


_WRAPPERS = {"spread", "cast"}
"""What several values may be wrapped in before a function takes them."""


def joins_only(transform: CheckedTransform, role: Role) -> bool:
    """Whether a role of several keys stands in `concat` only, where single numbers are vectors of one."""
    return taken_by(transform, role) == {"concat"}


def taken_by(transform: CheckedTransform, role: Role) -> set[str]:
    """The functions that take all keys of a role of several."""
    phases: tuple[Phase, ...] = ("reset", "step", "map", *AROUND_PHASES)
    statements = [one for phase in phases for one in transform.phase(phase)] + [*transform.update]
    statements += transform.buffer_types
    names = {
        node.op
        for one in statements
        for node in one.typed.nodes
        for arg in node.args
        for part in (arg, *(arg.args if arg.op in _WRAPPERS else ()))
        if part.several and _stands_for(part, role)
    }
    return names - _WRAPPERS


def _stands_for(several: Typed, role: Role) -> bool:
    return several.symbol is not None and several.symbol.name in (role.name, f"next_{role.name}")
