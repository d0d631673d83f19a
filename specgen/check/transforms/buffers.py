"""What a transform learns: its buffers, and the section `update` that assigns them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from specgen.check.model import Parameter, Statement, identifier
from specgen.check.names import Names
from specgen.check.statements import Section, SectionResult, Target, check_section
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.flow import computed_of
from specgen.check.transforms.model import CheckedBuffer, Phase
from specgen.check.transforms.roles import read_elsewhere
from specgen.check.transforms.types import role_types
from specgen.diagnostics import Diagnostic, Sink, Span, suggestion
from specgen.diagnostics.rules import schema as schema_rules
from specgen.diagnostics.rules import transforms_buffers as rules
from specgen.expr import Binding, Function, SpecType, Symbol, Type, full, parse_type
from specgen.expr.builtins.batch import BATCH
from specgen.expr.builtins.record import Builtin
from specgen.expr.dtypes import is_abstract, is_float
from specgen.expr.sizes import ANY_DIMS
from specgen.expr.tree import Name
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_buffers import Buffer
from specgen.values import dataclass

_UNDRAWN = "`update` draws nothing: what is learned follows from what was seen"


@dataclass
class Buffers:
    """The buffers of a transform.

    Attributes:
        checked: those without a mistake.
        scope: what they are in expressions.
        symbols: the same, by path below the transform.
        lost: the names of those with a mistake in the expression that they are like.
    """

    checked: tuple[CheckedBuffer, ...] = ()
    scope: dict[str, Binding] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()


def check_buffers(
    file: SchemaFile,
    path: tuple[str, ...],
    transform: Transform,
    roles: Iterable[Role],
    params: Iterable[Parameter],
    names: Names,
    sink: Sink,
) -> Buffers:
    """Check `buffers` of the transform at `path`."""
    by_name = {role.name: role for role in roles}
    known = {param.name: param for param in params}
    result = Buffers()
    for name, buffer in transform.buffers.items():
        here = (*path, "buffers", name)
        if not names.claim(name, "buffer", file.key_span(*here)):
            continue
        checked = _buffer(file, here, buffer, by_name, known, sink)
        if checked is None:
            continue
        if checked.optional and transform.learns == "always":
            sink.add(
                rules.OPTIONAL_BUFFER.at(
                    file.key_span(*here, "optional"),
                    f"`{name}` may have no value, and is learned from the first step on",
                    help="write `learns: when_called`, or give it an `init` that always has a value",
                )
            )
        counted_in_float32(file, here, checked, sink)
        symbol = Symbol(".".join(here), identifier(name), checked.type, full(checked.type.dtype))
        result.checked += (checked,)
        result.symbols[f"buffers.{name}"] = symbol
        result.scope[name] = Binding(symbol.type, symbol.interval, what="buffer", symbol=symbol)
    return result


def counted_in_float32(file: SchemaFile, here: tuple[str, ...], buffer: CheckedBuffer, sink: Sink) -> None:
    """Warn of a buffer whose counts and sums stop growing."""
    if buffer.type.dtype in ("float32", "float16"):
        instead = f"like(float64({buffer.like_text}))" if buffer.like_text else "float64"
        sink.add(
            rules.COUNTED_IN_FLOAT32.at(
                file.span(*here, "type"),
                f"`{buffer.name}` is {buffer.type.dtype}, in which counts and sums stop growing",
                help=f"write {instead}, or int64 for a count",
            )
        )


def unfit_init(file: SchemaFile, here: tuple[str, ...], buffer: CheckedBuffer) -> Diagnostic | None:
    """What is wrong with a number that a buffer begins with."""
    dtype = buffer.type.dtype
    if not isinstance(buffer.init, float) or is_float(dtype) or is_abstract(dtype):
        return None
    return rules.BUFFER_ASSIGNED.at(
        file.span(*here, "init"),
        f"`{buffer.name}` is {dtype}, {buffer.init} is not",
        help="write a whole number, or declare it float64",
    )


def _buffer(
    file: SchemaFile,
    here: tuple[str, ...],
    buffer: Buffer,
    roles: Mapping[str, Role],
    params: Mapping[str, Parameter],
    sink: Sink,
) -> CheckedBuffer | None:
    name = here[-1]

    def refuse(span: Span, message: str, help: str | None) -> None:
        sink.add(rules.BUFFER_ASSIGNED.at(span, message, help=help))

    if buffer.each is not None and buffer.each not in roles:
        help = suggestion(buffer.each, roles) or f"the roles are {', '.join(roles) or 'none'}"
        span = file.span(*here, "each")
        sink.add(schema_rules.UNKNOWN_DECLARATION.at(span, f"no role `{buffer.each}`", help=help))
        return None
    role = None if buffer.each is None else roles[buffer.each]
    if role is not None and role.form not in ("each", "key"):
        span, message = file.span(*here, "each"), f"`{role.name}` stands for several keys at once"
        refuse(span, message, "leave `each` out: what is learned of them together is one")
        return None
    spec = parse_type(file.scalar(*here, "type"), sink)
    if spec is None:
        return None
    span = file.span(*here, "type")
    of_expression = spec.like is not None and not isinstance(spec.like_expr, Name)
    shaped = spec.like is not None or spec.shape == ANY_DIMS
    if shaped and role is None and not of_expression:
        several = next((one.name for one in roles.values() if one.form == "all"), None)
        each = next((one.name for one in roles.values() if one.form in ("each", "key")), "x")
        help = f"say of which: `each: {each}`"
        if several is not None:
            help = f"say of which, or of what: `type: like(float64(concat(*{several}, axis=-1)))`"
        refuse(span, f"`{buffer.type}` has the dimensions of a role", help)
        return None
    if spec.like is not None and not of_expression and (role is None or spec.like != role.name):
        refuse(
            span, f"`{name}` follows `{buffer.each}`, so it can be like nothing else", f"like({buffer.each})"
        )
        return None
    if not shaped and spec.shape != ():
        help = f"write `{spec.dtype}[...]` for the dimensions of the role, or `{spec.dtype}` for one number"
        refuse(span, f"a buffer of the type `{buffer.type}` is not available yet", help)
        return None
    if spec.like is None and is_abstract(spec.dtype):
        refuse(span, f"`{spec.dtype}` is no dtype", "write float64, int64 or like(x)")
        return None
    dtype = role.pattern if spec.like is not None and role is not None else spec.dtype
    dims = role_types(roles.values())[role.name].dims if shaped and role is not None else ()
    if of_expression:
        dtype, dims = "any", ANY_DIMS
    if isinstance(buffer.init, str):
        param = params.get(buffer.init)
        if param is None and buffer.init in file.module.transforms[here[1]].params:
            return None  # whose mistake is reported
        if param is None:
            help = (
                suggestion(buffer.init, params) or "write a number, a truth value or the name of a parameter"
            )
            refuse(file.span(*here, "init"), f"no parameter `{buffer.init}`", help)
            return None
        if param.optional and not buffer.optional:
            refuse(
                file.span(*here, "init"),
                f"`{param.name}` may not have been given, and then `{name}` has no value",
                "say `optional: true` and `learns: when_called`, or let the parameter be required",
            )
            return None
    checked = CheckedBuffer(
        name,
        None if role is None else role.name,
        Type(dtype, dims, "const"),
        None if spec.like is not None else spec.dtype,
        shaped,
        buffer.init,
        buffer.optional,
        buffer.doc,
        spec.like if of_expression else None,
    )
    if (unfit := unfit_init(file, here, checked)) is not None:
        sink.add(unfit)
        return None
    return checked


def check_update(
    file: SchemaFile,
    path: tuple[str, ...],
    roles: Iterable[Role],
    fixed: Mapping[str, Binding],
    buffers: Buffers,
    callables: Mapping[str, Function | Builtin],
    names: Names,
    sink: Sink,
) -> tuple[SectionResult, dict[str, Symbol]]:
    """Check `update` of the transform at `path`; with its result, what its expressions are given, by path."""
    roles = list(roles)
    scope, types = {**fixed, **buffers.scope}, role_types(roles)
    symbols: dict[str, Symbol] = {}
    elsewhere = read_elsewhere(roles, step=False)
    for role in roles:
        if role.may_be_missing:
            keys = ", ".join(role.default)
            elsewhere[role.name] = (
                f"no update learns from a key that may be missing beside others, as `{role.name}` may: let a transform of its "
                f"own learn, which reads `{role.name}: {{each: [{keys}], optional: true}}` and does nothing without it"
            )
        if role.inverse or role.form == "flag" or role.acted or role.may_be_missing:
            continue
        place, type_ = f"update.in.{role.name}", types[role.name]
        symbol = Symbol(".".join((*path, place)), identifier(role.name), type_, full(type_.dtype), "now")
        symbols[place] = symbol
        several = () if role.form == "all" else None
        scope[role.name] = Binding(type_, symbol.interval, what="role", symbol=symbol, several=several)
    targets = {}
    for buffer in buffers.checked:
        spec = SpecType("pattern", buffer.type.dtype, buffer.type.dims)
        targets[f"next.{buffer.name}"] = Target(f"next.{buffer.name}", spec, level="const")
    wrong = {buffer.name: f"assign its new value: `next.{buffer.name}`" for buffer in buffers.checked}
    section = Section(
        file,
        (*path, "update"),
        scope,
        {**BATCH, **callables},
        names,
        "`next.` and a buffer, as `buffers` declares it",
        broken=buffers.lost,
        undrawn=_UNDRAWN,
        absent=elsewhere,
    )
    before = sink.errors
    result = check_section(section, targets, wrong, sink)
    if sink.errors > before:
        return result, symbols
    for statement in result.statements:
        if statement.target in targets and statement.typed.type.level == "batch":
            sink.add(
                rules.BUFFER_ASSIGNED.at(
                    statement.source.span_of(0, len(statement.source.text)),
                    f"`{statement.target}` is one for all rows, this differs from row to row",
                    help="take `batch_mean(…)` or `batch_sum(…)` of it",
                )
            )
    assigned = {statement.target for statement in result.statements}
    for buffer in buffers.checked:
        if f"next.{buffer.name}" not in assigned:
            sink.add(
                rules.BUFFER_ASSIGNED.at(
                    file.key_span(*path, "buffers", buffer.name),
                    f"nothing under `update` assigns `next.{buffer.name}`",
                    help=f"add `next.{buffer.name}: …` under `update`, or make it a parameter",
                )
            )
    return result, symbols


def check_positions(transform: Transform, reset: Iterable[Statement], buffers: Buffers, sink: Sink) -> None:
    """Report a reset that asks for the positions of rows where they tell nothing apart."""
    for statement in reset:
        if not any(node.op == "batch_rank" for node in statement.typed.nodes):
            continue
        span = statement.source.span_of(0, len(statement.source.text))
        if not buffers.checked:
            message = "positions among the rows that are being reset begin anew at each reset"
            help = "add them to a buffer that `update` raises by `batch_count()`, with `learns: at_reset`"
            sink.add(rules.BATCH_MISPLACED.at(span, message, help=help))
        elif transform.offline is not False:
            message = "recorded data are replayed at all times at once, where no row is before another"
            sink.add(rules.BATCH_MISPLACED.at(span, message, help="write `offline: false`"))
        return


def declared_where_learned(
    file: SchemaFile,
    path: tuple[str, ...],
    outputs: Iterable[Output],
    sections: Mapping[Phase, SectionResult],
    buffers: Buffers,
    sink: Sink,
) -> None:
    """Report outputs that are computed of what is learned, and say no type, where a role has it or no value shows it."""
    read = computed_of(buffers.scope, sections.values())
    unlearned = any(buffer.optional for buffer in buffers.checked)
    for output in outputs:
        if output.name not in read or output.declared or output.inverse:
            continue
        if output.each is not None or unlearned:
            like = f"`type: like({output.each})`" if output.each is not None else "`type: float32`, say"
            sink.add(
                rules.BUFFER_ASSIGNED.at(
                    file.key_span(*path, "out", output.name),
                    f"`{output.name}` is computed of what is learned, and has no type",
                    help=f"declare it, {like}: nothing is learned when specs are made",
                )
            )
