"""Generated Python with the names that it reads from outside: those that its module imports or defines."""

from __future__ import annotations

import math

from specgen.literals import literal
from specgen.precedence import ATOM
from specgen.values import dataclass


@dataclass(frozen=True)
class Code:
    """Python text, and what it reads of its module.

    Attributes:
        text: the text.
        uses: the names that its module has to import or define; not arguments, attributes and Python's own functions.
        precedence: that of its outermost operator, where it is an expression.
    """

    text: str
    uses: frozenset[str] = frozenset()
    precedence: int = ATOM

    def __str__(self) -> str:
        return self.text

    def at(self, floor: int) -> str:
        """The text, in parentheses where it binds less than `floor`."""
        return f"({self.text})" if self.precedence < floor else self.text


def using(text: str, *names: str, precedence: int = ATOM) -> Code:
    """Text that reads `names` of its module."""
    return Code(text, frozenset(names), precedence)


def named(name: str) -> Code:
    """A name of the module."""
    return Code(name, frozenset((name,)))


def value_code(value: object) -> Code:
    """The Python expression of a value; see `literal`."""
    return Code(literal(value), _MATH if needs_math(value) else frozenset())


def needs_math(value: object) -> bool:
    """Whether the expression of a value reads `math`: there is an infinity, or no number, among nested numbers."""
    if isinstance(value, (list, tuple)):
        return any(map(needs_math, value))
    return isinstance(value, float) and not math.isfinite(value)


_MATH = frozenset(("math",))
