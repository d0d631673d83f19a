"""What the class of a loss computes of the values that a method is given: reads of a distribution, and draws from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specgen.check.losses.forward import (
    Alias,
    Choice,
    Draw,
    DrawnLogProb,
    Forward,
    NetworkBuffer,
    Read,
    parts_of,
)
from specgen.check.losses.model import CheckedLoss
from specgen.values import dataclass


@dataclass(frozen=True)
class OfGiven:
    """Values of the class that a method needs.

    Attributes:
        computed: those that are computed of what it is given, in their order.
        more: the names of those that need more than that: a network, or the data.
        read: the names of what it is given and reads for them.
    """

    computed: tuple[Forward, ...]
    more: tuple[str, ...]
    read: frozenset[str]


def of_given(loss: CheckedLoss, wanted: Iterable[str], given: Collection[str]) -> OfGiven:
    """What the class computes for a method.

    Args:
        loss: the loss.
        wanted: the names of the values that the method needs.
        given: the names of those that it is given.
    """
    beyond: set[str] = set()
    for value in loss.forward:
        if value.name not in given and (not _is_of_values(value) or not beyond.isdisjoint(_names(value))):
            beyond.add(value.name)
    more = tuple(name for name in wanted if name in beyond)
    needed, read = set(wanted) - beyond, set[str]()
    computed = []
    for value in reversed(loss.forward):
        if value.name in needed and value.name in given:
            read.add(value.name)
        elif value.name in needed:
            computed.append(value)
            needed |= _names(value)
    return OfGiven(tuple(reversed(computed)), more, frozenset(read))


def given_names(loss: CheckedLoss, method: str) -> dict[str, str]:
    """The values of the class that a method is given, by their first names, with its arguments."""
    named = {made.symbol: made for made in loss.forward}
    by_name = {made.name: made for made in loss.forward}
    found = {}
    for argument, symbol in loss.methods[method].given:
        made = named.get(symbol)
        while made is not None and isinstance(made.value, Alias):
            made = by_name[made.value.name]
        if made is not None:
            found[made.name] = argument
    return found


def _names(made: Forward) -> set[str]:
    """The values that a value is computed of."""
    parts = list(parts_of(made.value))
    return {one.name for one in parts if isinstance(one, Alias)} | {
        one.draw for one in parts if isinstance(one, DrawnLogProb)
    }


def _is_of_values(made: Forward) -> bool:
    """Whether a value is computed of other values alone: it runs no network, and reads no data."""
    known = Alias | Choice | Draw | DrawnLogProb | NetworkBuffer | Read
    return all(isinstance(part, known) for part in parts_of(made.value))
