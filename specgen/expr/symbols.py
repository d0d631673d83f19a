"""What a name stands for in a program: one value, whatever text it will be printed as."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from specgen.diagnostics import Span
from specgen.expr.interval import ANYTHING, Interval
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.expr.types import Type

Key = tuple[str, ...]
"""The place of an entry in a tensordict."""

Time = Literal["now", "next"]
"""Before a step, or after it."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """One value of a program. Two symbols are equal when their paths are; the rest is what is known of the value.

    Attributes:
        path: Where it is defined, as a declaration path; a version behind `~` tells assignments to one name apart:
            `chains.A.transforms[1].step.next.step_count`.
        name: What a printer would like to call it.
        type: Its type.
        interval: The values it can have.
        time: Before or after the step, for what stands in the data.
        key: Its place in the tensordict, for what stands in the data.
        span: Where the file defines it.
        alias: What a printer would like to call it where `name` is taken.
    """

    path: str
    name: str = field(compare=False)
    type: Type = field(compare=False)
    interval: Interval = field(default=ANYTHING, compare=False)
    time: Time | None = field(default=None, compare=False)
    key: Key | None = field(default=None, compare=False)
    span: Span | None = field(default=None, compare=False)
    alias: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"%{self.path}"

    def __eq__(self, other: object) -> bool:
        return self.path == other.path if isinstance(other, Symbol) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.path)


def in_spec_order(keys: Iterable[Key]) -> list[Key]:
    """Keys in the order in which a spec has them, where the keys of a group are together."""
    firsts: dict[Key, int] = {}
    keys = list(keys)
    for index, key in enumerate(keys):
        for end in range(1, len(key) + 1):
            firsts.setdefault(key[:end], index)
    return sorted(keys, key=lambda key: [firsts[key[:end]] for end in range(1, len(key) + 1)])
