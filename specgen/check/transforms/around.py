"""`around`: how a transform steps the environment before it, checked for whatever keys it will get."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.model import Statement, identifier
from specgen.check.names import Names
from specgen.check.statements import Section, Target, check_section, made_statement, may_draw
from specgen.check.transforms.around_flow import check_around_flow, joins_keys, stacked_outputs
from specgen.check.transforms.draws import check_draws
from specgen.check.transforms.entries import Output, Role
from specgen.check.transforms.model import Around, Phase, sizes_of
from specgen.check.transforms.names import NTH
from specgen.check.transforms.types import report_reading_nothing
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import around as rules
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Expr, Function, Interval, SpecType, Symbol, Type, full, infer, parse
from specgen.expr.builtins.record import Builtin
from specgen.expr.sizes import Rest
from specgen.expr.symbols import Key, Time
from specgen.expr.tree import Binary, Call, Name, names_read_or_called
from specgen.schema.load import SchemaFile
from specgen.schema.transform import Transform
from specgen.schema.transform_around import Around as DeclaredAround
from specgen.source import Scalar
from specgen.values import dataclass, replace

_KINDS = ("repeat", "skip", "reset_steps")
_BELONGS = {**dict.fromkeys(("until", "fold", "collect", "taken"), "repeat"), "at_most": "reset_steps"}
"""The fields that go with one kind only."""

_OF_ONE = "declare the type of one repetition: a chain puts the number of repetitions in front"
_UNDRAWN = "what a repetition does follows from its values: draw in the environment, into a state key"


@dataclass
class AroundChecker:
    """Checks `around` of one transform.

    Attributes:
        file, path: where the transform is declared.
        transform: its declaration.
        roles, outputs: what it reads and writes.
        types: what each of them is.
        fixed: its parameters.
        callables: its networks and functions of files, as expressions call them.
        names: what is called something in it.
        symbols: takes what expressions are given, by its path below the transform.
        sink: takes every mistake.
    """

    file: SchemaFile
    path: tuple[str, ...]
    transform: Transform
    roles: tuple[Role, ...]
    outputs: tuple[Output, ...]
    types: Mapping[str, Type]
    fixed: Mapping[str, Binding]
    callables: Mapping[str, Function | Builtin]
    names: Names
    symbols: dict[str, Symbol]
    sink: Sink

    def run(self) -> Around | None:
        """What `around` says; None where it says nothing, or something wrong."""
        declared = self.transform.around
        if declared is None:
            return None
        here = (*self.path, "around")
        given = [kind for kind in _KINDS if getattr(declared, kind) is not None]
        if len(given) != 1:
            self.sink.add(
                rules.AROUND_KINDS.at(
                    self.file.key_span(*self.path, "around"),
                    "`around` has exactly one of `repeat`, `skip` and `reset_steps`",
                    help="declare another transform for the other" if given else "say what it does",
                )
            )
            return None
        kind = given[0]
        if not self._alone(declared, kind) or joins_keys(
            self.file, self.path, declared, self.roles, self.sink
        ):
            return None
        before = self.sink.errors
        self.names.claim(NTH, "number of the repetition", self.file.key_span(*here))
        sections = {phase: statements for phase in self._parts(declared) if (statements := self._part(phase))}
        count = self._count(kind, sections)
        check_around_flow(
            self.file, self.path, self.transform, declared, (self.roles, self.outputs), self.sink
        )
        if self.sink.errors > before:
            return None
        stacked = stacked_outputs(self.roles, self.outputs, sections.get("collect", ()), self.sink)
        sections["collect"] = tuple(one for one in sections.get("collect", ()) if one.target not in stacked)
        for output in (one for one in self.outputs if one.each is None):
            report_reading_nothing(output, "collect", sections["collect"], self.sink)
        if self.sink.errors > before:
            return None
        folds = sections.get("fold", ())
        return Around(
            kind=kind,  # type: ignore[arg-type]
            count=count,
            sections={phase: statements for phase, statements in sections.items() if statements},
            stacked=stacked,
            sums=tuple(one.target for one in folds if _combines(one.expr, one.target, "+")),
            extremes=tuple(one.target for one in folds if _combines(one.expr, one.target, "max", "min")),
            taken=declared.taken,
        )

    def _alone(self, declared: DeclaredAround, kind: str) -> bool:
        """Whether nothing stands beside `around`, or in it, that belongs elsewhere."""
        wrong = 0
        for phase in ("reset", "step"):
            if getattr(self.transform, phase) and not wrong:
                wrong += 1
                self.sink.add(
                    rules.AROUND_KINDS.at(
                        self.file.key_span(*self.path, phase),
                        f"`{phase}` can't stand beside `around`",
                        help="declare two transforms and put both into the chain",
                    )
                )
        for field, owner in _BELONGS.items():
            if getattr(declared, field) and owner != kind:
                wrong += 1
                self.sink.add(
                    rules.AROUND_KINDS.at(
                        self.file.key_span(*self.path, "around", field),
                        f"`{field}` goes with `{owner}`, and this is `{kind}`",
                        help="leave it out",
                    )
                )
        if declared.action is not None and kind == "skip":
            wrong += 1
            self.sink.add(
                rules.AROUND_KINDS.at(
                    self.file.key_span(*self.path, "around", "action"),
                    "a step that is left out has no action",
                    help="leave it out",
                )
            )
        return not wrong

    def _parts(self, declared: DeclaredAround) -> Iterator[Phase]:
        """The parts of `around` that are given and hold expressions; `random` is none."""
        phases: tuple[Phase, ...] = ("until", "fold", "collect", "skip", "reset_steps")
        yield from (phase for phase in phases if getattr(declared, phase))
        if isinstance(declared.action, dict):
            yield "action"

    # ------------------------------------------------------------------ parts

    def _part(self, phase: Phase) -> tuple[Statement, ...]:
        scope = self._scope(phase)
        absent = self._absent(phase)
        if phase in ("until", "skip", "reset_steps"):
            statement = self._one(phase, scope, absent)
            if statement is None:
                return ()
            wanted = "int64" if phase == "reset_steps" else "bool"
            return (statement,) if self._of_rows(phase, statement, wanted) else ()
        targets: dict[str, Target] = {}
        wrong: dict[str, str] = {}
        for role in self.roles:
            fits = role.inverse if phase == "action" else not role.inverse and phase == "fold"
            if fits:
                targets[role.name] = Target(role.name, _spec(self.types[role.name]))
            else:
                wrong[role.name] = f"`{role.name}` is read here"
            if fits and role.form == "all":
                del targets[role.name]
                wrong[role.name] = (
                    f"`{role.name}` stands for several keys: one that is folded is declared with `each:`, "
                    "and folded for each of its keys"
                )
            wrong[f"next.{role.name}"] = f"write it bare: `{role.name}`"
        for output in self.outputs:
            if phase == "collect" and not output.inverse:
                targets[output.name] = Target(output.name, _spec(self.types[output.name]), _OF_ONE)
            else:
                wrong[output.name] = f"`{output.name}` is no target of `{phase}`"
        expected = {"fold": "a role", "collect": "an output", "action": "an inverse role"}[phase]
        section = Section(
            self.file,
            (*self.path, "around", phase),
            scope,
            self.callables,
            self.names,
            expected,
            absent=absent,
            undrawn=_UNDRAWN,
        )
        return check_section(section, targets, wrong, self.sink).statements

    def _one(self, field: str, scope: Mapping[str, Binding], absent: Mapping[str, str]) -> Statement | None:
        """A field that is one expression, as a statement that defines what the field is called."""
        here = (*self.path, "around", field)
        source = self.file.scalar(*here)
        expr = parse(source, self.sink)
        if expr is None or self._reads_absent(expr, source, absent):
            return None
        drawn = f"draw_{field}"
        typed = infer(
            expr, scope, source, self.sink, functions=self.callables, draw_prefix=drawn, for_any_key=True
        )
        undrawn = "" if field == "reset_steps" else _UNDRAWN
        if typed is None or not may_draw(typed, source, undrawn, self.sink):
            return None
        symbol = Symbol(".".join(here), field, typed.type, typed.interval, span=source.span)
        statement = made_statement(here, field, expr, source, typed, symbol)
        before = self.sink.errors
        check_draws([statement], (), self.sink)
        return statement if self.sink.errors == before else None

    def _reads_absent(self, expr: Expr, source: Scalar, absent: Mapping[str, str]) -> bool:
        found = [name for name in names_read_or_called(expr) if name.path in absent]
        for name in found:
            folded = name.path == NTH or name.path.startswith("acc.")
            elsewhere = rules.NOTHING_FOLDED if folded else expression_rules.UNDEFINED
            skipped = absent[name.path] == _NEXT_OF_SKIP
            self.sink.add(
                (rules.SKIP_READS_NEXT if skipped else elsewhere).at(
                    source.span_of(name.start, name.end),
                    f"`{name.path}` is not known here",
                    help=absent[name.path],
                )
            )
        return bool(found)

    def _of_rows(self, field: str, statement: Statement, dtype: str) -> bool:
        """Whether an expression gives one value for each row."""
        type_, source = statement.typed.type, statement.source
        span = source.span_of(0, len(source.text))
        if type_.dtype != dtype:
            what = "a number of steps" if dtype == "int64" else "a truth value"
            message = f"`{field}` is {what} for each row, this is {type_}"
            self.sink.add(schema_rules.WRONG_TYPE.at(span, message))
        elif type_.dims and not any(isinstance(dim, Rest) for dim in type_.dims):
            self.sink.add(
                schema_rules.WRONG_TYPE.at(
                    span,
                    f"`{field}` is one value for each row, this has dimensions {list(type_.dims)}",
                    help="write `any(…)` or `all(…)` of it" if dtype == "bool" else "write `max(…)` of it",
                )
            )
        elif type_.level != "batch" and dtype == "bool":
            help = f"read a role, or leave `{field}` out"
            self.sink.add(schema_rules.WRONG_TYPE.at(span, f"`{field}` reads nothing of a row", help=help))
        else:
            return True
        return False

    def _count(self, kind: str, sections: Mapping[Phase, tuple[Statement, ...]]) -> Statement | None:
        """`repeat` or `at_most`: a number that the constructor knows."""
        if kind == "skip":
            return None
        field = "repeat" if kind == "repeat" else "at_most"
        here = (*self.path, "around", field)
        if kind == "reset_steps" and self.transform.around is not None and not self.transform.around.at_most:
            self.sink.add(
                rules.AT_MOST.at(
                    self.file.key_span(*self.path, "around", "reset_steps"),
                    "`at_most` is missing: how many steps there may be",
                    help="add `at_most`, a number that `reset_steps` never exceeds",
                )
            )
            return None
        sizes = sizes_of(self.roles)
        fixed = {name: binding for name, binding in self.fixed.items() if name not in sizes}
        statement = self._one(field, fixed, dict.fromkeys(sizes, _SIZE_COUNTED.format(field)))
        if statement is None:
            return None
        span = self.file.span(*here)
        type_, values = statement.typed.type, statement.typed.interval
        if type_.dtype != "int64" or not type_.python:
            self.sink.add(schema_rules.WRONG_TYPE.at(span, f"`{field}` is a whole number, this is {type_}"))
            return None
        least = 1 if kind == "repeat" else 0
        if values.high < least or (isinstance(statement.expr, Name) and values.low < least):
            self.sink.add(
                schema_rules.WRONG_TYPE.at(
                    span,
                    f"`{field}` is at least {least}, this may be {values.low}",
                    help=f"give its parameter `min: {least}`",
                )
            )
            return None
        if self.transform.around is not None and self.transform.around.collect:
            self._refuse_changing(statement)
        steps = sections.get("reset_steps", ())
        if steps and steps[0].typed.interval.low > values.high:
            self.sink.add(
                rules.AT_MOST.at(
                    span,
                    f"`reset_steps` is at least {steps[0].typed.interval.low}, more than `at_most` allows",
                )
            )
        return statement

    def _refuse_changing(self, count: Statement) -> None:
        """Report a number of repetitions that shapes what is collected, and may change."""
        for name in names_read_or_called(count.expr):
            param = self.transform.params.get(name.path)
            if param is not None and not getattr(param, "static", False):
                self.sink.add(
                    rules.NOT_STATIC.at(
                        count.source.span_of(name.start, name.end),
                        f"the shape of what is collected depends on `{name.path}`",
                        help=f"give `{name.path}` `static: true`",
                    )
                )

    # ----------------------------------------------------------------- scopes

    def _scope(self, phase: Phase) -> dict[str, Binding]:
        scope = dict(self.fixed)
        repeats = phase in ("until", "fold", "collect")
        folded = self.transform.around.fold if self.transform.around is not None else {}
        for role in self.roles:
            if role.inverse or phase == "action":
                continue
            self._give(scope, phase, role.name, (role.name,), "now", self.types[role.name])
            if repeats:
                self._give(scope, phase, f"next.{role.name}", (role.name,), "next", self.types[role.name])
            several = () if role.form == "all" and phase != "collect" else None  # each is collected as it is
            for name in (role.name, f"next.{role.name}") if repeats else (role.name,):
                scope[name] = replace(scope[name], several=several, optional=role.may_be_missing)
            if phase == "fold" and role.name in folded:
                acc = f"acc.{role.name}"
                self._give(scope, phase, acc, ("acc", role.name), "now", self.types[role.name])
                scope[acc] = replace(scope[acc], optional=role.may_be_missing)
        if phase == "action":
            for output in self.outputs:
                if output.inverse:
                    type_ = self.types[output.name]
                    self._give(scope, phase, output.name, (output.name,), "now", type_)
        if repeats or phase == "action":
            self._give(scope, phase, NTH, None, None, Type("int64", (), "ctor"), Interval(0, 2**31))
        return scope

    def _give(
        self,
        scope: dict[str, Binding],
        phase: Phase,
        name: str,
        key: Key | None,
        time: Time | None,
        type_: Type,
        interval: Interval | None = None,
    ) -> None:
        place = f"{phase}.in.{name}"
        values = full(type_.dtype) if interval is None else interval
        made = Symbol(f"{'.'.join(self.path)}.{place}", identifier(name), type_, values, time, key)
        self.symbols[place] = made
        scope[name] = Binding(type_, values, what="role", symbol=made)

    def _absent(self, phase: Phase) -> dict[str, str]:
        """Names that mean something in another part."""
        absent: dict[str, str] = {}
        for role in self.roles:
            absent[f"acc.{role.name}"] = (
                "`acc.` is what `fold` has combined so far: it is read in `fold` only"
            )
            if phase == "skip":
                absent[f"next.{role.name}"] = _NEXT_OF_SKIP
            if phase == "action":
                absent |= dict.fromkeys((role.name, f"next.{role.name}"), _RETURNED)
        if phase in ("skip", "reset_steps"):
            absent[NTH] = "`nth` is the number of a repetition: there is one where steps are repeated"
        known = self._scope(phase)
        return {name: help for name, help in absent.items() if name not in known}


_SIZE_COUNTED = (
    "`{}` is a number that the constructor knows: declare an `int` parameter, and pass it the size"
)
_RETURNED = "an action is made of what the policy writes, outputs that follow an inverse role: let it write what is read"
_NEXT_OF_SKIP = "whether a row steps is decided before the step: read the bare name"


def _combines(expr: Expr, name: str, *operations: str) -> bool:
    """Whether an expression is `acc.x` and `next.x`, combined by one of some operations."""
    operands: tuple[Expr, ...] = ()
    if isinstance(expr, Binary) and expr.op in operations:
        operands = (expr.left, expr.right)
    elif isinstance(expr, Call) and expr.function.path in operations and not expr.keywords:
        operands = expr.args
    read = {operand.path for operand in operands if isinstance(operand, Name)}
    return len(operands) == 2 and read == {f"acc.{name}", f"next.{name}"}


def _spec(type_: Type) -> SpecType:
    return SpecType("pattern", type_.dtype, type_.dims)
