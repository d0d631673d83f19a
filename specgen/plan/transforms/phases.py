"""The plans of what a transform's class does for each record of keys: calls of pure functions, in order."""

from __future__ import annotations

from specgen.plan.model import CallPlan, Text
from specgen.values import dataclass

Value = Text | CallPlan


@dataclass(frozen=True)
class PhaseBlock:
    """A call of a pure function.

    Attributes:
        when: the condition on parameters and keys under which it exists.
        fetched: what is read first: names with expressions.
        results: the names of what it returns; empty where that is yielded.
        call: the call.
        stores: the expressions that keep or write the results.
    """

    when: str | None
    fetched: tuple[tuple[str, Value], ...]
    results: tuple[str, ...]
    call: CallPlan
    stores: tuple[str, ...]


@dataclass(frozen=True)
class PhasePlan:
    """A reset, step or map, for each row of keys.

    Attributes:
        target: the tensordict that it writes into.
        blocks: the calls, in order.
        left: expressions of a step that let what the policy wrote stand, each with the condition under which they exist.
        flags: likewise expressions that write flags which nothing assigns.
        stashes: fields of the row that the next step recalls.
        end: what it returns.
        source: the tensordict that `map` reads from, where that is another.
        needed: the fields of the row without which `map` passes a repetition over.
        learns: the method that says which rows are new, for a transform that learns.
        locked: whether nobody may learn between what it reads of the statistics and what it learns itself.
        drawn: what is read and drawn before the calls: names with expressions.
    """

    target: str
    blocks: tuple[PhaseBlock, ...]
    left: tuple[tuple[str | None, str], ...] = ()
    flags: tuple[tuple[str | None, str], ...] = ()
    stashes: tuple[str, ...] = ()
    end: str = ""
    source: str | None = None
    needed: tuple[str, ...] = ()
    learns: str | None = None
    locked: bool = False
    drawn: tuple[tuple[str, Text], ...] = ()
