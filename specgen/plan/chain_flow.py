"""Who writes which entry of a chain, and in what order: the versions of every key."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from specgen.check.chain_model import ChainKey, CheckedChain, Instance, Row
from specgen.check.model import dotted

Time = Literal["root", "next"]
Place = tuple[float, float]
"""A position in a chain: the index of a transform, and a place within what it does."""

START: Place = (-1, 0)
END: Place = (math.inf, 0)


@dataclass(frozen=True)
class Write:
    """One write of an entry.

    Attributes:
        place: when it happens, in the order of the chain.
        entry: the entry as it is afterwards.
        instance, row, output, phase: the statement of a transform that computes it, or
        raised_by: the dotted flag that raises it (`done` by `truncated`).
    """

    place: Place
    entry: ChainKey
    instance: Instance | None = None
    row: Row | None = None
    output: str = ""
    phase: Literal["reset", "step", "map"] = "map"
    raised_by: str | None = None


class Versions:
    """All writes of a chain, by time and key."""

    def __init__(self, chain: CheckedChain) -> None:
        self._writes: dict[tuple[Time, str], list[Write]] = {}
        self._done = chain.env.value.done
        self._entries = dict(chain.entries)
        for instance in chain.instances:
            for index, row in enumerate(instance.rows):
                self._add_row(instance, index, row)

    def last(self, time: Time, key: str, before: Place) -> Write | None:
        """The last write of `key` before a place; ``None`` when it is as the environment gave it."""
        found = [write for write in self._writes.get((time, key), ()) if write.place < before]
        return found[-1] if found else None

    def writes(self, time: Time, key: str) -> list[Write]:
        """All writes of a key, in order."""
        return self._writes.get((time, key), [])

    def _add_row(self, instance: Instance, index: int, row: Row) -> None:
        for phase, times in (("reset", ("root",)), ("step", ("next",)), ("map", ("root", "next"))):
            targets = {s.target.removeprefix("next.") for s in instance.statements(phase, row)}  # type: ignore[arg-type]
            for name, entry in row.outputs.items():
                if name not in targets:
                    continue
                for time in times:
                    if time == "root" and entry.group == "reward":
                        continue
                    place = (instance.position, index)
                    self._append(time, Write(place, entry, instance, row, name, phase))  # type: ignore[arg-type]
                    if time == "next" and entry.group == "done" and instance.derives_done:
                        self._raise(place, entry)

    def _raise(self, place: Place, flag: ChainKey) -> None:
        """A raised flag raises `done` beside it, and the flags of nested groups with theirs."""
        level, name = flag.key[:-1], flag.key[-1]
        later = iter(range(1, 1000))
        for target in self._raised(level, name):
            entry = self._entries[target]
            self._append(
                "next", Write((place[0], 1000 + place[1] + next(later) / 1000), entry, raised_by=flag.dotted)
            )

    def _raised(self, level: tuple[str, ...], name: str) -> Iterator[str]:
        yield dotted((*level, "done"))
        for deeper in self._done:
            if len(deeper) > len(level) and deeper[: len(level)] == level:
                if (flag := dotted((*deeper, name))) in self._entries:
                    yield flag
                yield dotted((*deeper, "done"))

    def _append(self, time: Time, write: Write) -> None:
        # what a flag raises comes behind all that the transform writes itself, of other keys too
        insort(self._writes.setdefault((time, write.entry.dotted), []), write, key=lambda other: other.place)
