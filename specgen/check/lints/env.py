"""Environments: state that never changes, and done flags that say something else than was meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from specgen.check.lints.declared import warn_unread_declarations
from specgen.check.lints.draws import warn_one_noise
from specgen.check.lints.flow import Flow, structure_of
from specgen.check.lints.numbers import warn_whole_numbers
from specgen.check.model import CheckedFunction, Declared, Entry, Parameter, Statement, dotted
from specgen.check.specs import NamedSpec
from specgen.check.statements import SectionResult
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import env_lints as rules
from specgen.diagnostics.rules import unread as unread_rules
from specgen.expr.tree import Literal, Logic, Name, names_read, subexpressions
from specgen.program.program import ENDING_FLAGS
from specgen.schema.env import Env
from specgen.schema.load import SchemaFile
from specgen.values import dataclass


@dataclass(frozen=True)
class EnvToLint:
    """An environment whose mistakes are all reported, as its checker knows it.

    Attributes:
        file, path, env: where it is declared, and what it says.
        named: the specs that it may call by name.
        declared: its keys.
        functions: its functions.
        per_env: its parameters that differ between environments.
        reset, step, observe: its behaviour.
        render: what is drawn.
    """

    file: SchemaFile
    path: tuple[str, ...]
    env: Env
    named: Mapping[str, NamedSpec]
    declared: Declared
    functions: tuple[CheckedFunction, ...]
    per_env: Mapping[str, Parameter]
    reset: SectionResult
    step: SectionResult
    observe: SectionResult
    render: SectionResult

    @property
    def flags(self) -> list[str]:
        """Every `terminated` and `truncated` that `step` may assign."""
        return [dotted((*prefix, flag)) for prefix in self.declared.done for flag in ENDING_FLAGS]


def lint_env(parts: EnvToLint, sink: Sink) -> None:
    """Warn of what is legal in an environment with native dynamics and rarely meant."""
    draws = [param.draw for param in parts.per_env.values() if param.draw is not None]
    sections = (parts.reset, parts.step, parts.observe, parts.render)
    statements = [statement for section in sections for statement in section.statements]
    statements += [each for function in parts.functions for each in (*function.let, function.returns)]
    warn_unread_declarations(parts.file, parts.path, parts.env, parts.named, [*statements, *draws], sink)
    without_effect = _without_effect(parts)
    for entry in parts.declared.state:
        if entry.dotted in without_effect:
            _report_no_effect(parts, entry, sink)
    _warn_unread_actions(parts, statements, sink)
    lint = _Lints(parts, sink)
    lint.never_stepped(without_effect)
    lint.time_limits()
    lint.old_state()
    lint.same_flags()
    for section in (parts.reset, parts.step):
        warn_one_noise(section.statements, sink)
    assigned = [(s, "") for function in parts.functions for s in function.let]
    assigned += [(f.returns, f.returns.typed.type.dtype) for f in parts.functions]
    for section in sections:
        assigned += section.assigned
    warn_whole_numbers(parts.file, parts.path, parts.env.params, assigned, sink)


def _without_effect(parts: EnvToLint) -> set[str]:
    """State keys on which no reward, flag, observation or picture depends, now or later.

    Of those that read only each other, the ones that no other of them reads, or all if there is none.
    """
    state = {entry.dotted for entry in parts.declared.state}
    reset, step, observe, render = (
        Flow(part.statements) for part in (parts.reset, parts.step, parts.observe, parts.render)
    )
    read = observe.behind(observe.by_target) | render.behind(render.by_target)
    read |= step.behind([*map(dotted, parts.declared.rewards), *parts.flags])
    effective: set[str] = set()
    while True:
        now = {name for name in state if name in read or f"next.{name}" in read}
        if now == effective:
            break
        effective = now
        read |= step.behind(f"next.{name}" for name in effective) | reset.behind(effective)
    without_effect = state - effective
    unread = {
        name
        for name in without_effect
        if not any(
            {name, f"next.{name}"} & step.behind([f"next.{other}"]) for other in without_effect - {name}
        )
    }
    return unread or without_effect


def _report_no_effect(parts: EnvToLint, entry: Entry, sink: Sink) -> None:
    name = entry.dotted
    stepped = f"next.{name}" in {statement.target for statement in parts.step.statements}
    sink.add(
        unread_rules.NO_EFFECT.at(
            parts.file.key_span(*parts.path, "state", name),
            f"no reward, observation or done flag depends on the state `{name}`"
            if stepped
            else f"nothing reads the state `{name}`",
            help="read it where it was meant, or leave it out; what is kept for a logger only: "
            f"`allow: [{unread_rules.NO_EFFECT.code}]`",
        )
    )


def _warn_unread_actions(parts: EnvToLint, statements: Iterable[Statement], sink: Sink) -> None:
    reads = frozenset[str]().union(*(statement.reads for statement in statements))
    for entry in parts.declared.action:
        if entry.dotted not in reads:
            sink.add(
                unread_rules.NO_EFFECT.at(
                    parts.file.key_span(*parts.path, "action", entry.dotted),
                    f"nothing reads the action `{entry.dotted}`",
                    help="read it under `step`; where there is nothing to choose: "
                    f"`allow: [{unread_rules.NO_EFFECT.code}]`",
                )
            )


class _Lints:
    def __init__(self, parts: EnvToLint, sink: Sink) -> None:
        self.parts = parts
        self.sink = sink
        self.reset = Flow(parts.reset.statements)
        self.step = Flow(parts.step.statements)
        self.observe = Flow(parts.observe.statements)
        self.state = {entry.dotted: entry for entry in parts.declared.state}
        self.actions = {entry.dotted for entry in parts.declared.action}
        self.clocks = {name for name in self.state if self._is_clock(name)}

    def never_stepped(self, without_effect: set[str]) -> None:
        """State keys with the same value in every episode and step."""
        for name in self.state:
            if self._moves(name) or name in without_effect or name not in self.reset.by_target:
                continue
            if not self._same_at_every_reset(name):
                continue
            self.sink.add(
                rules.NEVER_STEPPED.at(
                    self.parts.file.key_span(*self.parts.path, "state", name),
                    f"`{name}` never changes: `step` does not assign `next.{name}`, and `reset` always gives the same",
                    notes=[Note("it is reset here", self._source_span(self.reset.by_target[name]))],
                    help=f"add `next.{name}: …` under `step`; what is always the same is a parameter or a constant",
                )
            )

    def time_limits(self) -> None:
        """`terminated` of a clock that nothing else depends on."""
        for flag in (flag for flag in self.parts.flags if flag.endswith("terminated")):
            behind = self.step.behind([flag], stop=self._others(flag))
            for clock in sorted(self.clocks):
                names = {clock, f"next.{clock}"}
                if not names & behind or not self._same_at_every_reset(clock) or self._matters(clock):
                    continue
                place = next(self._reads_of(names, behind), None)
                if place is None:
                    continue
                truncated = f"{flag.removesuffix('terminated')}truncated"
                self.sink.add(
                    rules.TIME_LIMIT_TERMINATES.at(
                        place,
                        f"`{flag}` depends on `{clock}`, which counts time and which nothing else depends on",
                        help=f"assign `{truncated}`, or leave the limit to `StepCounter: {{max_steps: …}}` in a chain; "
                        f"where the horizon is part of the task, let an observation read `{clock}`",
                    )
                )

    def old_state(self) -> None:
        """Done flags that depend on nothing but the state before the step."""
        fresh = [statement for target, statement in self.step.by_target.items() if target.startswith("next.")]
        own = [(statement, statement.target.removeprefix("next.")) for statement in fresh]
        passed_on = {name for statement in fresh for name in statement.reads}
        parts_of_new = {
            structure_of(part)
            for statement, name in own
            for part in subexpressions(statement.expr)
            if not isinstance(part, Name | Literal) and any(read.path == name for read in names_read(part))
        }
        for flag in self.parts.flags:
            if flag not in self.step.by_target:
                continue
            behind = self.step.behind([flag], stop=[other for other in self.parts.flags if other != flag])
            old = {name for name in behind if name in self.state and self._moves(name)} - self.clocks
            statements = self.step.statements(behind)
            asked = any(name.startswith("next.") for name in behind) or behind & self.actions
            drawn = any(statement.draws for statement in statements)
            shared = any(part.target in passed_on for part in statements if part.target != flag) or any(
                structure_of(part) in parts_of_new
                for statement in statements
                for part in subexpressions(statement.expr)
            )
            if not old or asked or drawn or shared:
                continue
            name = min(old)
            place = next(self._reads_of({name}, behind))
            self.sink.add(
                rules.OLD_STATE_TERMINATES.at(
                    place,
                    f"`{flag}` depends on the state before the step only, so that it comes one step late",
                    help=f"ask the new state: `next.{name}`",
                )
            )

    def same_flags(self) -> None:
        """`terminated` and `truncated` of one set that follow each other."""
        for prefix in self.parts.declared.done:
            pair = [dotted((*prefix, flag)) for flag in ENDING_FLAGS]
            found = [self.step.by_target.get(name) for name in pair]
            first, second = found
            if first is None or second is None:
                continue
            copies = [
                (statement, other)
                for statement, other in ((second, first), (first, second))
                if _holds(statement.expr, other.target)
            ]
            equal = structure_of(first.expr) == structure_of(second.expr) and not isinstance(
                first.expr, Literal
            )
            if not copies and not equal:
                continue
            statement, other = copies[0] if copies else (second, first)
            self.sink.add(
                rules.SAME_FLAG.at(
                    self._source_span(statement),
                    f"`{statement.target}` is true wherever `{other.target}` is",
                    help=f"leave `{statement.target}` out, which is then false; `done` is derived from both"
                    if statement is second
                    else f"assign what ends the task; behind a time limit `{statement.target}` is false",
                )
            )

    # ------------------------------------------------------------------ facts

    def _moves(self, name: str) -> bool:
        """Whether `step` may change a state key."""
        statement = self.step.by_target.get(f"next.{name}")
        return statement is not None and not (
            isinstance(statement.expr, Name) and statement.expr.path == name
        )

    def _is_clock(self, name: str) -> bool:
        """Whether a single number passes on its own, whatever is done and happens."""
        if self.state[name].type.dims or not self._moves(name):
            return False
        behind = self.step.behind([f"next.{name}"])
        others = {other for other in self.state if other != name} | self.actions | set(self.parts.per_env)
        others |= {f"next.{other}" for other in self.state if other != name}
        drawn = any(statement.draws for statement in self.step.statements(behind))
        return name in behind and not behind & others and not drawn

    def _same_at_every_reset(self, name: str) -> bool:
        behind = self.reset.behind([name])
        drawn = any(statement.draws for statement in self.reset.statements(behind))
        return not drawn and not behind & self.parts.per_env.keys()

    def _matters(self, clock: str) -> bool:
        """Whether a reward, an observation or another state key depends on a clock."""
        flags = self.parts.flags
        rewards = self.step.behind(map(dotted, self.parts.declared.rewards), stop=flags)
        others = self.step.behind((f"next.{name}" for name in self.state if name != clock), stop=flags)
        seen = self.observe.behind(self.observe.by_target)
        return bool({clock, f"next.{clock}"} & (rewards | others | seen))

    def _others(self, flag: str) -> list[str]:
        """The `truncated` flags: what `terminated` takes over from them is another mistake."""
        return [name for name in self.parts.flags if name != flag and name.endswith("truncated")]

    def _reads_of(self, names: set[str], behind: Iterable[str]) -> Iterator[Span]:
        """Where the values `behind` something read one of `names`."""
        for statement in self.step.statements(behind):
            if statement.target in names:
                continue
            for read in names_read(statement.expr):
                if read.path in names:
                    yield statement.source.span_of(read.start, read.end)

    def _source_span(self, statement: Statement) -> Span:
        return statement.source.span_of(0, len(statement.source.text))


def _holds(expr: object, name: str) -> bool:
    """Whether `expr` is true wherever the flag `name` is: it is the flag, or joins it with `or`."""
    if isinstance(expr, Name):
        return expr.path == name
    return isinstance(expr, Logic) and expr.op == "or" and any(_holds(part, name) for part in expr.operands)
