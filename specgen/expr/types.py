"""The type of an expression, what a name stands for, and the typed tree that inference makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from specgen.diagnostics import Span
from specgen.expr.interval import Interval
from specgen.expr.symbols import Symbol

if TYPE_CHECKING:
    from specgen.expr.builtins.record import Builtin

Level = Literal["lit", "ctor", "const", "batch"]
Dims = tuple[int, ...]
Static = bool | int | float | str
DrawKind = Literal["uniform", "normal", "randint"]

LEVELS: tuple[Level, ...] = ("lit", "ctor", "const", "batch")


class SourceText(Protocol):
    """Text that knows where its characters stand in a file; `source.Scalar` is one."""

    @property
    def text(self) -> str:
        """The decoded text."""
        ...

    def span_of(self, start: int, end: int) -> Span:
        """The file span of the characters from `start` up to `end`."""
        ...


class Size(int):
    """A dimension whose size only the networks of the user know: an integer that is called by its name.

    Inference compares sizes and proves indices with them; a number that no schema writes stands in. Sums and
    products of sizes are sizes, too, so that no message and no generated text takes the number for real.
    """

    name: str

    def __new__(cls, name: str, number: int) -> Size:
        """The size called ``name``; equal only to itself."""
        size = super().__new__(cls, number)
        size.name = name
        return size

    def __add__(self, other: int) -> int:
        """The size of both together, ``n + 1``."""
        return _of_sizes(f"{self} + {other}", int(self) + other)

    def __radd__(self, other: int) -> int:
        """The size of both together, ``1 + n``."""
        return self if other == 0 else _of_sizes(f"{other} + {self}", other + int(self))

    def __sub__(self, other: int) -> int:
        """What is left, ``n - 1``."""
        return _of_sizes(f"{self} - {other}", int(self) - other)

    def __mul__(self, other: int) -> int:
        """That many times, ``n * 2``."""
        return _of_sizes(f"{self} * {other}", int(self) * other)

    def __rmul__(self, other: int) -> int:
        """That many times, ``2 * n``."""
        return self if other == 1 else _of_sizes(f"{other} * {self}", other * int(self))

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return self.name


def _of_sizes(name: str, number: int) -> int:
    return Size(name, number) if isinstance(number, int) else number


@dataclass(frozen=True, slots=True)
class Type:
    """What an expression is for one environment.

    Attributes:
        dtype: A concrete dtype, `str` for the name of an enum member, or a pattern's
            `float | number | any`.
        dims: Feature dimensions; None when the rank is unknown (`float[...]`).
        level: `lit` a number known at build; `ctor` a Python number of the constructor; `const` a
            tensor without batch dimensions; `batch` a tensor with them in front.
        col: Stored with an extra trailing 1, as rewards and dones are.
        stretch: The dimensions that a `None` in an index made: only these broadcast.

    """

    dtype: str
    dims: Dims | None = ()
    level: Level = "batch"
    col: bool = False
    stretch: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def rank(self) -> int:
        """How many feature dimensions there are; 0 when the rank is unknown."""
        return 0 if self.dims is None else len(self.dims)

    @property
    def python(self) -> bool:
        """Whether the value is a Python number, not a tensor."""
        return self.level in ("lit", "ctor")

    def __str__(self) -> str:
        if self.dims is None:
            return f"{self.dtype}[...]"
        return self.dtype + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution(Type):
    """A probability distribution for each row, as a policy gives it.

    It is no number: what takes one says so by this type, and everything that computes refuses it by its dtype.

    Attributes:
        family: Which distribution it is: `categorical`, `normal`, `tanh_normal`.
        event: The type of one sample; log-probabilities are one float32 for each event.
    """

    dtype: str = "distribution"
    family: str
    event: Type

    def __str__(self) -> str:
        return f"{self.family}[{self.event}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Type):
    """Several values under names, such as the data before a step, and after it.

    Attributes:
        fields: Their names and types.
    """

    dtype: str = "record"
    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        return f"record({', '.join(f'{name}: {type}' for name, type in self.fields)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure(Type):
    """What can be called with values by name: a network, a value estimator.

    Attributes:
        params: The names and types of what it takes.
        returns: The names and types of what it gives.
    """

    dtype: str = "callable"
    level: Level = "const"
    params: tuple[tuple[str, Type], ...] = ()
    returns: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        taken, given = (
            ", ".join(f"{name}: {type}" for name, type in pairs) for pairs in (self.params, self.returns)
        )
        return f"({taken}) -> ({given})"


@dataclass(frozen=True, slots=True)
class Binding:
    """What a name stands for: its type, its values, and the value that it is in a program.

    Attributes:
        type: Its type.
        interval: Its values.
        static: The value, when it is known at build; it is printed in place of the name.
        what: The kind of thing, for messages: `state`, `param`, `dim`.
        symbol: The value that it is in a program; None for what is known at build.

    """

    type: Type
    interval: Interval
    static: Static | None = None
    what: str = ""
    symbol: Symbol | None = None


@dataclass(frozen=True, slots=True)
class DrawSite:
    """A random draw: an argument of the pure function, drawn by the adapter around it.

    `uniform` is drawn in [0, 1), `normal` with mean 0 and deviation 1, `randint` from `low`
    up to `high` without it.
    """

    name: str
    kind: DrawKind
    dims: Dims
    dtype: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A typed pure function that a declaration defines, as expressions see it.

    Attributes:
        name: Its name in the language.
        text: The Python name that is printed.
        params: Names and types of its arguments, all of level `batch`.
        result: Its type.
        interval: Its values.
        prefix: Texts passed before the arguments, such as `params`.

    """

    name: str
    text: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    interval: Interval
    prefix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class At:
    """An index item that is an expression: a fixed integer or a computed index."""

    index: Typed


@dataclass(frozen=True, slots=True)
class Cut:
    """An index item `start:stop:step`, with ends within the dimension; `whole` prints as `:`."""

    start: int
    stop: int
    step: int

    def whole(self, size: int) -> bool:
        """Whether it keeps all of a dimension of `size`."""
        return (self.start, self.stop, self.step) == (0, size, 1)


@dataclass(frozen=True, slots=True)
class NewAxis:
    """An index item `None`: a new dimension of size 1."""


IndexItem = At | Cut | NewAxis


NO_OPTIONS: dict[str, object] = {}
"""One for all nodes that have none: there are many, and nobody writes to it."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A node of the typed tree: what an expression is, with every cast made explicit.

    Attributes:
        op: `literal`, `name`, `index`, `call` (of a user's function), `cast`, `in_range` (an index that is
            checked when the code runs) or the name of a built-in.
        type: Its type.
        interval: Its values.
        args: The operands, in order.
        options: Settings that are no operands: axis, dtype, shape.
        start: Offset of its first character in the source text.
        end: Offset behind its last character.
        text: The printed text of a `name` or a `literal`.
        static: The value, when it is known at build.
        builtin: The record of a built-in.
        function: The function of a `call`, or the one that an integrator takes.
        items: The items of an `index`.
        site: The random draw that this node reads.
        symbol: The value that a `name` reads; None for one that is known at build.
        captured: The values that a `call` reads besides its arguments, such as parameters.

    """

    op: str
    type: Type
    interval: Interval
    args: tuple[Typed, ...] = ()
    options: Mapping[str, object] = field(default_factory=lambda: NO_OPTIONS)
    start: int = 0
    end: int = 0
    text: str = ""
    static: Static | None = None
    builtin: Builtin | None = None
    function: Function | None = None
    items: tuple[IndexItem, ...] = ()
    site: DrawSite | None = None
    symbol: Symbol | None = None
    captured: tuple[Symbol, ...] = ()

    @property
    def parts(self) -> tuple[Typed, ...]:
        """The operands and the computed indices, from left to right."""
        return self.args + tuple(item.index for item in self.items if isinstance(item, At))

    def nodes(self) -> Iterator[Typed]:
        """This node and every node below it, each before those below it."""
        yield self
        for part in self.parts:
            yield from part.nodes()

    @property
    def draws(self) -> tuple[DrawSite, ...]:
        """The random draws below this node, from left to right."""
        own = () if self.site is None else (self.site,)
        below = tuple(site for part in self.parts for site in part.draws)
        return below + own
