"""Indices that are proved by a domain which the environment itself may leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from specgen.check.model import Entry, Statement
from specgen.check.names import Names
from specgen.check.statements import SectionResult, Target, check_section
from specgen.diagnostics import Diagnostic, Note, Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import Binding, SpecType, full
from specgen.expr.dtypes import is_int

_FLAGS = ("terminated", "truncated")


def report_trusted(
    reset: SectionResult,
    step: SectionResult,
    observe: SectionResult,
    state: Iterable[Entry],
    sink: Sink,
) -> None:
    """Report indices that are in range only if a state key keeps to a domain that its assignment may leave.

    A key that the end of the episode depends on is left alone: it may be what keeps it in its domain.
    """
    beyond = {name.removeprefix("next."): source for name, source in (reset.beyond | step.beyond).items()}
    guarded = _behind(step.statements)
    loose = {
        entry.dotted: entry
        for entry in state
        if is_int(entry.spec.dtype) and entry.dotted in beyond and entry.dotted not in guarded
    }
    if not loose:
        return
    for result in (step, observe):
        for name, entry in loose.items():
            for item in _unproven(result, entry):
                low, high = entry.spec.interval.low, entry.spec.interval.high
                sink.add(
                    rules.INDEX_TRUSTS.at(
                        item.span,
                        f"the index is in range only if `{name}` is in [{low}, {high}], as it is declared",
                        notes=[Note("this assignment may leave that domain", beyond[name].span_of(0, 1))],
                        help=f"keep it there: clip(…, {low}, {high})",
                    )
                )


def _unproven(result: SectionResult, entry: Entry) -> list[Diagnostic]:
    """What can't be proved in a section if nothing is known of the values of a state key."""
    section = result.section
    if section is None:
        return []
    name, unknown = entry.dotted, full(entry.spec.dtype)
    scope: dict[str, Binding] = dict(section.scope)
    if name in scope:
        scope[name] = replace(scope[name], interval=unknown)
    targets: Mapping[str, Target] = {
        key: replace(target, spec=SpecType("unbounded", entry.spec.dtype, entry.spec.dims))
        if key == f"next.{name}"
        else target
        for key, target in result.targets.items()
    }
    found = Sink()
    check_section(replace(section, scope=scope, names=Names(Sink())), targets, {}, found)
    return [item for item in found.items if item.rule is rules.INDEX_UNPROVEN]


def _behind(statements: Iterable[Statement]) -> frozenset[str]:
    """The state keys that the done flags are computed from, without `next.`."""
    reads = {statement.target: statement.reads for statement in statements}
    pending = [target for target in reads if target.rsplit(".", 1)[-1] in _FLAGS]
    found: set[str] = set()
    while pending:
        for name in reads.get(pending.pop(), ()):
            if name not in found:
                found.add(name)
                pending.append(name)
    return frozenset(name.removeprefix("next.") for name in found)
