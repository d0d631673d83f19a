"""The two observations that hindsight is about, what was achieved and the goal: where they come from, and what changes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specgen.check.chains.model import CheckedChain, Instance, Row
from specgen.check.model import CheckedEnv, Entry, dotted
from specgen.values import dataclass


@dataclass(frozen=True)
class Goal:
    """What was achieved, or the goal, from the environment through its chain.

    Attributes:
        key: what it is called behind the chain, as the language writes it.
        names: what it is called in front of each transform, and behind the last one.
        changed: the transforms that make other values of it, in order.
        origin: what the environment gives of it; None where a transform has made it of something else.
    """

    key: str
    names: tuple[str, ...]
    changed: tuple[Instance, ...]
    origin: Entry | None


def goal_of(declared: CheckedEnv | CheckedChain, key: str) -> Goal:
    """Follow an observation back to the environment.

    Args:
        declared: the environment, or the chain over it.
        key: what it is called there.
    """
    if not isinstance(declared, CheckedChain):
        return Goal(key, (key,), (), declared.returned.get(key))
    names, changed = [key], list[Instance]()
    for instance in reversed(declared.instances):
        name, row = names[-1], next(_writing(instance, names[-1]), None)
        source = None if row is None else copied_from(row, name)
        if row is not None and source is None:
            changed.append(instance)
        names.append(name if source is None else source)
    names.reverse()
    known = all(names[one.position] in one.entries for one in changed)
    origin = declared.env.value.returned.get(names[0]) if known else None
    return Goal(key, tuple(names), tuple(reversed(changed)), origin)


def _writing(instance: Instance, name: str) -> Iterator[Row]:
    """The repetitions of a transform that write an entry."""
    for row in instance.rows:
        if any(entry.dotted == name for entry in row.outputs.values()):
            yield row


def copied_from(row: Row, name: str) -> str | None:
    """The key of the entry that one of the outputs of a transform is, as it is; None of one that it computes."""
    outputs = {out for out, entry in row.outputs.items() if entry.dotted == name}
    inputs = {entry.key for entry in row.inputs.values()}
    found = set[str]()
    for statement in (one for statements in row.bound.values() for one in statements):
        if statement.target.removeprefix("next.") in outputs:
            value = statement.typed
            key = None if value.op != "name" or value.symbol is None else value.symbol.key
            if key is None or key not in inputs:
                return None
            found.add(dotted(key))
    return found.pop() if len(found) == 1 else None


def made_of_goals(declared: CheckedEnv | CheckedChain, goal: Goal) -> Mapping[str, str]:
    """What transforms make of the goal besides itself, each with which one does."""
    if not isinstance(declared, CheckedChain):
        return {}
    made, others = {goal.names[0]}, dict[str, str]()
    for instance in declared.instances:
        before, behind = goal.names[instance.position], goal.names[instance.position + 1]
        for row in instance.rows:
            if made & {entry.dotted for entry in row.inputs.values()}:
                for entry in row.outputs.values():
                    itself = entry.dotted == behind and (before != behind or before in made)
                    made.add(entry.dotted)
                    if not itself:
                        others[entry.dotted] = instance.described(declared.name)
    return others
