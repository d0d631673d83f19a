"""A section of assignments: parsed, typed and checked in the order written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from specgen.check.model import Statement, identifier
from specgen.check.names import Names
from specgen.check.reads import Assignment, broken_reads, misplaced_reads, unknown_reads
from specgen.check.unread import all_reads, report_unread
from specgen.diagnostics import Sink, Span, as_question, did_you_mean
from specgen.diagnostics.rules import devices as done_rules
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import schema as rules
from specgen.diagnostics.rules import transform_language as language_rules
from specgen.expr import (
    Binding,
    Expr,
    Function,
    Interval,
    SourceText,
    SpecType,
    Symbol,
    Type,
    Typed,
    check_assignable,
    free_names,
    infer,
    parse,
    store,
)
from specgen.expr.builtins.record import Builtin
from specgen.expr.symbols import Key, Time
from specgen.expr.types import Level
from specgen.program.program import ENDING_FLAGS
from specgen.schema.load import SchemaFile, find
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import dataclass, replace


@dataclass(frozen=True)
class Target:
    """A declared key that a section may assign; a shape of ``None`` is taken from the expression.

    Without a spec it is of the type that its expression has.

    Attributes:
        help: what to say where a shape does not fit.
        key: its place in the tensordict.
        time: before the step or after it.
        col: whether it is stored with a trailing 1.
        level: whether each row has one of its own (`batch`), or all have the same.
        settled: whether nothing declares its type, and an earlier section has settled it.
    """

    name: str
    spec: SpecType | None
    help: str = ""
    key: Key | None = None
    time: Time | None = None
    col: bool = False
    level: Level = "batch"
    settled: bool = False


@dataclass(frozen=True)
class Section:
    """Where assignments stand and what they may read.

    Attributes:
        path: the declaration path of the mapping.
        scope: names that expressions may read.
        functions: functions that they may call.
        names: the namespace of the declaration, so that locals shadow nothing.
        expected: what may be assigned, in words.
        broken: declared names and functions whose declaration has a mistake: what assigns, reads or calls them
            is passed over, so that one mistake gives one message.
        undrawn: where nothing random can be drawn, why and what to do instead.
        absent: names that mean something elsewhere in the declaration, with what to say where one is read.
        further: expressions behind the section that read its values, too.
        prove: whether a computed index that may be out of range is a mistake; otherwise it is only noted.
        for_any_key: whether chains compile the expressions anew, for the keys and parameters that they have.
        entries: the assignments, where they do not stand at the path as they are: nobody has written their targets.
    """

    file: SchemaFile
    path: tuple[str, ...]
    scope: Mapping[str, Binding]
    functions: Mapping[str, Function | Builtin]
    names: Names
    expected: str
    broken: frozenset[str] = frozenset()
    absent: Mapping[str, str] = field(default_factory=dict)
    undrawn: str = ""
    further: tuple[Scalar, ...] = ()
    prove: bool = True
    for_any_key: bool = False
    entries: MappingNode | None = None


@dataclass
class SectionResult:
    """The statements of a section and the type that each target got.

    Attributes:
        statements: the assignments, in order.
        types: what each assigned name is.
        values: the values that each assigned name can have, whatever its declared domain is.
        scope: what each name stands for behind the last assignment.
        unproven: where an index stands that may be out of range.
        section, targets, wrong: what was checked.
    """

    statements: tuple[Statement, ...] = ()
    types: dict[str, Type] = field(default_factory=dict)
    values: dict[str, Interval] = field(default_factory=dict)
    scope: dict[str, Binding] = field(default_factory=dict)
    unproven: list[Span] = field(default_factory=list)
    section: Section | None = None
    targets: Mapping[str, Target] = field(default_factory=dict)
    wrong: Mapping[str, str] = field(default_factory=dict)

    @property
    def assigned(self) -> Iterator[tuple[Statement, str]]:
        """Each statement with the dtype of the key that it assigns; "" for a local value."""
        for statement in self.statements:
            target = self.targets.get(statement.target)
            yield statement, "" if target is None or target.spec is None else target.spec.dtype


def check_section(
    section: Section, targets: Mapping[str, Target], wrong: Mapping[str, str], sink: Sink
) -> SectionResult:
    """Check the assignments of a section.

    Args:
        section: the mapping, its place in the file, and what its expressions may read.
        targets: declared keys that may be assigned here, by dotted name.
        wrong: targets that are a known slip, with what to say about each.
        sink: takes every mistake; a statement with a mistake leaves its name undefined but known.
    """
    result = SectionResult(section=section, targets=targets, wrong=wrong)
    node = section.entries or find(section.file.root, section.path)
    if not isinstance(node, MappingNode):
        return result
    scope = dict(section.scope)
    broken = {*section.broken, *(f"next.{name}" for name in section.broken)}
    broken |= {name for name in node.lost if node.key(name) is None}
    statements: list[Statement] = []
    later = {key.text: (key, value) for key, value in node.entries}
    for index, (key, value) in enumerate(node.entries):
        if index:
            later.pop(node.entries[index - 1][0].text, None)
        name = key.text
        if name in broken:
            if isinstance(value, Scalar) and (said := parse(value, sink)) is not None:
                _unknown(section, said, value, scope, broken, node.entries[index + 1 :], sink)
            continue
        if not _target_allowed(section, key, targets, wrong, sink):
            # what was meant is not missing, too
            broken |= {name, *(one for one in _meant(name, targets) if node.key(one) is None)}
            continue
        if not isinstance(value, Scalar):
            continue  # the models have said so already
        expr = parse(value, sink)
        if expr is not None and broken_reads(expr, broken):
            _unknown(section, expr, value, scope, broken, node.entries[index:], sink)
            broken.add(name)
            continue
        if expr is None or misplaced_reads(expr, value, scope.keys(), section.absent, later, sink):
            broken.add(name)
            continue
        typed = infer(
            expr,
            scope,
            value,
            sink,
            functions=section.functions,
            draw_prefix=f"draw_{identifier(name)}",
            prove=section.prove,
            for_any_key=section.for_any_key,
        )
        if typed is None or not may_draw(typed, value, section.undrawn, sink):
            broken.add(name)
            continue
        type_, interval = typed.type, typed.interval
        target = targets.get(name)
        if target is not None and target.spec is None:
            type_ = replace(type_, level="batch")
        elif target is not None and target.spec is not None:
            mine = Sink()
            fits = check_assignable(typed, target.spec, value, mine, name=name)
            if target.settled and not fits:
                bare = name.removeprefix("next.")
                message = f"`{bare}` is {target.spec} after a reset and {typed.type} after a step"
                sink.add(language_rules.TYPE_CHANGES.at(value.span, message))
            else:
                given, wanted = typed.type.dims, target.spec.dims
                # the help is about the first dimension
                about_first = len(given) != len(wanted) or given[:1] != wanted[:1]
                help = target.help if about_first else ""
                sink.extend(replace(item, help=item.help or help or None) for item in mine.items)
            if not fits:
                broken.add(name)
                continue
            dims = typed.type.dims if target.spec.type().open else target.spec.dims
            type_, interval = Type(target.spec.dtype, dims, target.level), store(interval, target.spec.dtype)
        result.types[name] = type_
        result.values[name] = interval
        result.unproven += [
            value.span_of(node.start, node.end) for node in typed.nodes if node.op == "in_range"
        ]
        here = (*section.path, name)
        symbol = (
            Symbol(".".join(here), identifier(name), type_, interval, span=key.span)
            if target is None
            else _stored(target, ".".join(here), type_, interval, key.span)
        )
        scope[name] = Binding(type_, interval, None if target else typed.static, "value", symbol)
        statements.append(made_statement(here, name, expr, value, typed, symbol))
    result.statements = tuple(statements)
    result.scope = scope
    report_unread(
        node,
        [name for name in result.types if name not in targets],
        all_reads((node, *section.further)),
        {*scope, *broken, *section.absent},
        sink,
        meant=targets if section.entries is None else (),
        expected=section.expected,
    )
    return result


def _stored(target: Target, path: str, type: Type, interval: Interval, span: Span) -> Symbol:
    """What a section makes of a declared key."""
    type = replace(type, col=target.col)
    return Symbol(path, identifier(target.name), type, interval, target.time, target.key, span)


def made_statement(
    path: tuple[str, ...], target: str, expr: Expr, source: SourceText, typed: Typed, symbol: Symbol
) -> Statement:
    """The statement at `path`: what it reads, calls and draws follows from its expression."""
    networks = {node.op for node in typed.nodes if node.builtin and node.builtin.family == "network"}
    return Statement(
        target,
        expr,
        source,
        free_names(expr) | networks,
        called(typed),
        bool(typed.draws),
        ".".join(path),
        typed,
        symbol,
    )


def _unknown(
    section: Section,
    expr: Expr,
    value: Scalar,
    scope: Mapping[str, Binding],
    broken: Collection[str],
    behind: Iterable[Assignment],
    sink: Sink,
) -> None:
    """Report the names in an expression that can't be typed, as something in it has a mistake of its own."""
    later = {key.text: (key, assigned) for key, assigned in behind}
    known = {*scope, *broken}
    misplaced_reads(expr, value, known, section.absent, later, sink)
    unknown_reads(expr, value, scope, section.functions, {*broken, *section.absent, *later}, sink)


def may_draw(typed: Typed, source: Scalar, undrawn: str, sink: Sink) -> bool:
    """Whether an expression draws nothing, or stands where it may; reported otherwise."""
    if not undrawn or not typed.draws:
        return True
    while (
        inner := next((part for part in typed.parts if part.draws and part.end > part.start), None)
    ) is not None:
        typed = inner
    span = source.span_of(typed.start, typed.end)
    sink.add(expression_rules.DRAW_MISPLACED.at(span, "nothing random can be drawn here", help=undrawn))
    return False


def called(typed: Typed) -> frozenset[str]:
    """The declared functions that a typed expression calls."""
    return frozenset(node.function.name for node in typed.nodes if node.function is not None)


def _meant(name: str, targets: Collection[str]) -> tuple[str, ...]:
    """The keys that may have been meant by a name that can't be assigned; the likeliest first."""
    whole, _, flag = name.rpartition(".")
    if flag == "done":
        return tuple(
            one for one in (f"{whole}.{ending}".lstrip(".") for ending in ENDING_FLAGS) if one in targets
        )
    moved = f"next.{name.replace('.next.', '.')}"
    if moved in targets:
        return (moved,)
    near = did_you_mean(name, targets) if "." in name else None
    return () if near is None else (near,)


def _target_allowed(
    section: Section, key: Scalar, targets: Mapping[str, Target], wrong: Mapping[str, str], sink: Sink
) -> bool:
    name = key.text
    if name in targets:
        return True
    if name in wrong:
        rule = done_rules.DONE_ALONE if name.rsplit(".", 1)[-1] == "done" else rules.WRONG_TARGET
        sink.add(rule.at(key.span, f"`{name}` can't be assigned here", help=wrong[name]))
        return False
    if "." in name:
        near = next(iter(_meant(name, targets)), None)
        help = as_question(near) if near else f"here one may assign {section.expected}"
        sink.add(rules.WRONG_TARGET.at(key.span, f"`{name}` is no declared key", help=help))
        return False
    return section.names.claim(name, "local value", key.span)
