"""Dimensions: numbers, sizes with a name that are numbers only when the code runs, and a rest that may be any."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.expr.symbols import Symbol
    from specgen.expr.types import Typed

LARGEST: Final = 2**40
"""No dimension is larger: more numbers than one value can have on any machine."""

AXES: Final = ("ensemble", "draw")
"""The names that axes can have, in the order in which they stand in front of the batch."""

_Term = tuple[tuple[str, ...], int]


class NamedAxis(int):
    """The place of an axis that has a name, counted from the front of a tensor."""


@dataclass(frozen=True, slots=True)
class Sym:
    """A size with a name, `n`, or a sum of products of such sizes, `2 * n + 1`: never a number.

    Two are equal when they are the same for all numbers that their names can stand for.

    Attributes:
        terms: The names that are multiplied, in order, and how often each product counts.
        low: The smallest number that it can be.
        high: The largest.
    """

    terms: tuple[_Term, ...]
    low: int = field(default=1, compare=False)
    high: int = field(default=LARGEST, compare=False)

    @classmethod
    def named(cls, name: str, low: int = 1, high: int = LARGEST) -> Sym:
        """The size called `name`."""
        return cls((((name,), 1),), low, high)

    @property
    def name(self) -> str | None:
        """The name, where it is nothing but a name."""
        ((names, count), *more) = self.terms
        return names[0] if len(names) == 1 and count == 1 and not more else None

    def __add__(self, other: Dim) -> Dim:
        """The sum, `n + 1`."""
        low, high = limits(other)
        return _made((*self.terms, *_terms(other)), self.low + low, self.high + high)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        """The number with its sign turned, `-n`."""
        return _made(((names, -count) for names, count in self.terms), -self.high, -self.low)

    def __sub__(self, other: Dim) -> Dim:
        """The difference, `n - 1`."""
        return self + -other

    def __rsub__(self, other: Dim) -> Dim:
        """The difference, `1 - n`."""
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        """The product, `n * 2`."""
        ends = [one * two for one in limits(self) for two in limits(other)]
        terms = (
            (tuple(sorted(names + more)), count * times)
            for names, count in self.terms
            for more, times in _terms(other)
        )
        return _made(terms, min(ends), max(ends))

    __rmul__ = __mul__

    def text(self, name: Callable[[str], str]) -> str:
        """The sum as an expression; `name` writes a name."""
        text = ""
        for names, count in self.terms:
            factors = [*([] if names and abs(count) == 1 else [str(abs(count))]), *map(name, names)]
            sign = " - " if count < 0 else " + "
            text += (sign if text else "-" * (count < 0)) + " * ".join(factors)
        return text

    def __str__(self) -> str:
        return self.text(str)

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Rest:
    """Dimensions of which nobody knows how many there are: the `...` of a pattern.

    Attributes:
        of: The role whose dimensions they are; "" where nothing says whose. Rests of one role have as many.
        exact: Whether they have the sizes that the role's have, too.
        rank: How many dimensions the role has, as an argument of the function that reads it.
        named: How many of these its pattern names behind the rest.
        joined: Of dimensions of which some were made one: the first and last of those, counted from the end.
    """

    of: str = ""
    exact: bool = True
    rank: Symbol | None = field(default=None, compare=False)
    named: int = field(default=0, compare=False)
    joined: tuple[Typed, Typed] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "..."

    __repr__ = __str__


Dim = int | Sym
"""A size."""

Sizes = tuple[Dim, ...]
"""The dimensions of a value of which it is known how many there are."""

Dims = tuple[Dim | Rest, ...]
"""The dimensions of a value; at most one of them is a rest."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis in front of the batch. Two of one name are the same only if they are equally long.

    Attributes:
        name: One of `AXES`.
        size: How long it is.
    """

    name: str
    size: Dim

    def __str__(self) -> str:
        return self.name


def merged_axes(*given: Iterable[Axis]) -> tuple[Axis, ...]:
    """The axes of what is computed from several values, in their order; two of one name where they can't meet."""
    found = dict.fromkeys(axis for axes in given for axis in axes)
    return tuple(sorted(found, key=lambda axis: AXES.index(axis.name)))


def unlike(axes: Iterable[Axis]) -> tuple[Axis, Axis] | None:
    """Two axes of one name, which are not equally long."""
    seen: dict[str, Axis] = {}
    for axis in axes:
        other = seen.setdefault(axis.name, axis)
        if other != axis:
            return other, axis
    return None


ANY_DIMS: Final[Dims] = (Rest(),)
"""The dimensions `...` of what may have any."""


def named_size(name: str, low: float, high: float) -> Dim:
    """The size called `name`, which is between two numbers: one of them where they are equal."""
    least, most = int(max(low, 1)), int(min(high, LARGEST))
    return least if least == most else Sym.named(name, least, most)


def limits(size: Dim) -> tuple[int, int]:
    """The smallest and the largest number that a size can be."""
    return (size.low, size.high) if isinstance(size, Sym) else (size, size)


def divided(size: Dim, divisor: Dim) -> Dim | None:
    """`size / divisor` where that is a size whatever the numbers are; None where nothing says so."""
    if isinstance(divisor, int):
        if any(count % divisor for _, count in _terms(size)):
            return None
        low, high = limits(size)
        return _made(
            ((names, count // divisor) for names, count in _terms(size)), low // divisor, high // divisor
        )
    if len(divisor.terms) > 1:
        return 1 if size == divisor else None
    ((by, times),) = divisor.terms
    terms: list[_Term] = []
    for names, count in _terms(size):
        left = list(names)
        for name in by:
            if name not in left:
                return None
            left.remove(name)
        if count % times:
            return None
        terms.append((tuple(left), count // times))
    return _made(terms, 1, max(1, limits(size)[1]))


def quotient(a: Dim, b: Dim) -> Dim:
    """`a // b`: what is left of it, or a size of its own that is called so."""
    exact = divided(a, b)
    if exact is not None:
        return exact
    (low, high), (least, most) = limits(a), limits(b)
    ends = [x // y for x, y in ((low, least), (low, most), (high, least), (high, most)) if y]
    shown = [str(one) if isinstance(one, int) or one.name else f"({one})" for one in (a, b)]
    return Sym.named(f"({shown[0]} // {shown[1]})", min(ends), max(ends))


def at_most(size: Dim, other: Dim) -> bool:
    """Whether `size <= other` whatever numbers the names stand for."""
    return limits(other - size)[0] >= 0


def may_be_at_most(size: Dim, other: Dim) -> bool:
    """Whether `size <= other` for some numbers at least; where a named size is too small, torch raises."""
    return limits(other - size)[1] >= 0


def product(sizes: Iterable[Dim]) -> Dim:
    """The product of sizes; 1 of none."""
    result: Dim = 1
    for size in sizes:
        result = result * size
    return result


def replaced(size: Dim, known: Mapping[str, Dim]) -> Dim:
    """`size` with other sizes in place of names."""
    total: Dim = 0
    for names, count in _terms(size):
        total = total + product((count, *(known.get(name, Sym.named(name)) for name in names)))
    return total


def names_in(size: Dim) -> tuple[str, ...]:
    """The names that a size is made of, each once, in order."""
    return tuple(dict.fromkeys(name for names, _ in _terms(size) for name in names))


def _terms(size: Dim) -> tuple[_Term, ...]:
    if isinstance(size, Sym):
        return size.terms
    return (((), size),) if size else ()


def _made(terms: Iterable[_Term], low: int, high: int) -> Dim:
    total: dict[tuple[str, ...], int] = {}
    for names, count in terms:
        total[names] = total.get(names, 0) + count
    left = sorted(((names, count) for names, count in total.items() if count), key=_order)
    if not left or (not left[-1][0] and len(left) == 1):
        return left[0][1] if left else 0
    return Sym(tuple(left), low, high)


def _order(term: _Term) -> tuple[bool, tuple[str, ...]]:
    """Products of names in the order of the alphabet, the plain number last."""
    return not term[0], term[0]
