"""Functions as they are printed: their arguments and lines, and the names of their module that these read."""

from __future__ import annotations

from specgen.code import Code
from specgen.expr import DrawSite
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.program.program import Callee, Input
from specgen.values import dataclass


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A statement of a function; it may span lines. `origin` is the declaration that it comes from."""

    text: str
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class PrintedArgument:
    """An argument: its name, its type, and the input that it is (None for a record of several)."""

    name: str
    annotation: Code
    input: Input | None = None


@dataclass(frozen=True, slots=True)
class PrintedFunction:
    """A program as a function.

    Attributes:
        name: Its name.
        args: Its arguments; records first.
        keyword_only: Its arguments behind `*`.
        lines: Its body.
        returns: What it returns.
        uses: The names of its module that its body reads.
    """

    name: str
    args: tuple[PrintedArgument, ...]
    keyword_only: tuple[PrintedArgument, ...]
    lines: tuple[PrintedLine, ...]
    returns: Code
    uses: frozenset[str]


def key_text(key: Key) -> str:
    """A key as data are asked for it."""
    return literal(key[0] if len(key) == 1 else key)


def told(callee: Callee, uses: set[str]) -> list[str]:
    """What a callee is told before its arguments: the entry that it is about, or what it draws; `uses` gets names."""
    if callee.draw is not None:
        uses.add("torch")
        return [draw_arguments(callee.draw)]
    return [] if callee.about is None else [key_text(callee.about)]


def draw_arguments(site: DrawSite) -> str:
    """The arguments of the method that draws: ends of whole numbers, the dimensions of a row, the dtype."""
    shape = (*site.dims, 1) if site.col else site.dims
    dims = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
    ends = [str(site.low), str(site.high)] if site.kind == "randint" else []
    return ", ".join([*ends, dims, f"torch.{site.dtype}"])
