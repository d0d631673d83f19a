"""Whether the state stays in its declared domains, and the mistakes that depend on it.

The domain of a state key is assumed of the state that a step is given. Whether every assignment keeps to it is
proved here, or not: where it is not, nothing is taken for certain that needs the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from specgen.check.model import Entry
from specgen.check.names import Names
from specgen.check.not_done import bounds_if_not_done, intersection
from specgen.check.statements import SectionResult, check_section
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.expr import Interval, SourceText, full
from specgen.values import dataclass, replace

_DECIDED_BY_INTERVALS = (rules.ALWAYS_NAN, rules.NEVER_TRUE)


@dataclass
class _StateValues:
    """The values of state keys, as far as the assignments prove them.

    Attributes:
        before: of each key that a step is given.
        after: of each key that `observe` is given, the last state of an episode included.
        step: the step, checked with these.
        leaving: the assignment by which a key may leave its domain.
    """

    before: dict[str, Interval]
    after: dict[str, Interval]
    step: SectionResult
    leaving: dict[str, SourceText] = field(default_factory=dict)


def report_certain_results(
    found: Sink,
    reset: SectionResult,
    step: SectionResult,
    shown: Sequence[SectionResult],
    state: Iterable[Entry],
    sink: Sink,
) -> None:
    """Report what `step` and the sections behind it found; what is decided by intervals only if it holds for every state that is reached.

    Args:
        found: the mistakes in all, found with the declared domains assumed.
        reset: the fresh state.
        step: one step.
        shown: what is computed of a state: the observations, and what is drawn.
        state: the declared state.
        sink: takes what is certain.
    """
    sink.extend(item for item in found.items if item.rule not in _DECIDED_BY_INTERVALS)
    if all(item.rule not in _DECIDED_BY_INTERVALS for item in found.items):
        return
    known = _state_values(reset, step, state, until_done=True)
    found_again = Sink()
    _rechecked(step, known.before, found_again)
    for result in shown:
        _rechecked(result, known.after, found_again)
    sink.extend(item for item in found_again.items if item.rule in _DECIDED_BY_INTERVALS)


def report_unproven_indices(
    reset: SectionResult,
    step: SectionResult,
    shown: Sequence[SectionResult],
    state: Iterable[Entry],
    sink: Sink,
) -> None:
    """Report indices that are in range only if a state key keeps to a domain that its assignment may leave.

    The end of an episode counts: where `terminated` provably ends it before the key is read again, nothing is said.
    """
    entries = {entry.dotted: entry for entry in state}
    known = _state_values(reset, step, state, until_done=True)
    for result, values in ((step, known.before), *((one, known.after) for one in shown)):
        beyond = {name: values[name] for name in entries if values[name] != entries[name].spec.interval}
        alone = {name: _rechecked(result, {name: interval}).unproven for name, interval in beyond.items()}
        for span in _rechecked(result, beyond).unproven if beyond else ():
            names = [name for name, spans in alone.items() if span in spans] or list(beyond)
            for name in names:
                ends = (entries[name].spec.interval.low, entries[name].spec.interval.high)
                low, high = (str(end) if isinstance(end, int) else f"{end:g}" for end in ends)
                notes = [Note("this assignment may leave that domain", known.leaving[name].span_of(0, 1))]
                if known.before[name] == entries[name].spec.interval:
                    notes.append(Note("`observe` sees the last state of an episode, too"))
                sink.add(
                    rules.INDEX_NEEDS_DOMAIN.at(
                        span,
                        f"the index is in range only if `{name}` is in [{low}, {high}], as it is declared",
                        notes=notes,
                        help=f"keep it there: clip(…, {low}, {high})",
                    )
                )


def proved_values(
    reset: SectionResult, step: SectionResult, shown: Sequence[SectionResult], state: Iterable[Entry]
) -> tuple[dict[str, Interval], SectionResult, tuple[SectionResult, ...]]:
    """The values that state keys, and `next.` state keys, can have, even if an episode is run past its end.

    Returns:
        The values, and `step` and what is computed of a state as they are right for them: an index that needs a domain which the state
        may leave is checked when the code runs.
    """
    entries = tuple(state)
    known = _state_values(reset, step, entries, until_done=False)
    after = {
        f"next.{name}": known.step.values.get(f"next.{name}", known.before[name]) for name in known.before
    }
    grown = any(known.before[entry.dotted] != entry.spec.interval for entry in entries)
    again = tuple(_rechecked(one, known.before) if grown else one for one in shown)
    return known.before | after, known.step, again


def _state_values(
    reset: SectionResult, step: SectionResult, state: Iterable[Entry], *, until_done: bool
) -> _StateValues:
    """What is known of the state's values, from the declared domains that the assignments keep to.

    A key whose assignments may leave an end of its domain has no end there; that can make others leave theirs. A
    NaN counts only where the episode's end does not: most sums of unbounded numbers can be NaN.
    """
    entries = {entry.dotted: entry for entry in state}
    declared = {name: entry.spec.interval for name, entry in entries.items()}
    known = _StateValues(dict(declared), {}, step)
    sources = {s.target: s.source for result in (reset, step) for s in result.statements}
    while True:
        bounds = bounds_if_not_done(known.step) if until_done else {}
        continued = {
            name: intersection(values, bounds[name]).hull(reset.values.get(name, values))
            for name, values in known.before.items()
            if name in bounds
        }
        if continued:
            known.step = _rechecked(step, known.before | continued)
        grown: dict[str, Interval] = {}
        for name, entry in entries.items():
            for target, assigned in _assigned_values(name, reset, known.step):
                if not assigned.within(declared[name]):
                    known.leaving[name] = sources[target]
                if target != name and name in bounds:
                    assigned = intersection(assigned, bounds[name])
                before = grown.get(name, known.before[name])
                wider = _widened(before, assigned, full(entry.spec.dtype))
                if not until_done:
                    wider = wider.with_nan(wider.nan or assigned.nan)
                if wider != before:
                    grown[name] = wider
        if not grown:
            break
        known.before |= grown
        known.step = _rechecked(step, known.before)
    for name, values in known.before.items():
        known.after[name] = values
        for _, assigned in _assigned_values(name, reset, known.step):
            known.after[name] = known.after[name].hull(assigned.with_nan(values.nan))
    return known


def _assigned_values(name: str, reset: SectionResult, step: SectionResult) -> Iterator[tuple[str, Interval]]:
    """What a reset and a step make of a state key: the target that they assign, and its values."""
    for target, result in ((name, reset), (f"next.{name}", step)):
        if target in result.values:
            yield target, result.values[target]


def _widened(known: Interval, assigned: Interval, every: Interval) -> Interval:
    """`known`, without an end that `assigned` goes beyond: doing so again and again comes to an end."""
    low = known.low if assigned.low >= known.low else every.low
    high = known.high if assigned.high <= known.high else every.high
    return Interval(low, high, known.nan)


def _rechecked(
    result: SectionResult, values: Mapping[str, Interval], sink: Sink | None = None
) -> SectionResult:
    """A section, checked with other values of the state; `sink` takes what is found."""
    section = result.section
    if section is None:
        return result
    scope = dict(section.scope)
    for name in values.keys() & scope.keys():
        symbol = scope[name].symbol
        known = None if symbol is None else replace(symbol, interval=values[name])
        scope[name] = replace(scope[name], interval=values[name], symbol=known)
    again = replace(section, scope=scope, names=Names(Sink()), prove=False)
    return check_section(again, result.targets, result.wrong, Sink() if sink is None else sink)
