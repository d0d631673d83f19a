"""The type of an expression, what a name stands for, and the typed tree that inference makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, cast

from specgen.expr.interval import Interval
from specgen.expr.sizes import Axis, Dim, Dims, Rest, Sizes, quotient
from specgen.expr.symbols import Symbol
from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.expr.builtins.record import Builtin

Level = Literal["lit", "ctor", "const", "batch"]
Static = bool | int | float | str
DrawKind = Literal["uniform", "normal", "randint"]

LEVELS: tuple[Level, ...] = ("lit", "ctor", "const", "batch")


@dataclass(frozen=True, slots=True)
class Type:
    """What an expression is for one environment.

    Attributes:
        dtype: A concrete dtype, `str` for the name of an enum member, or a pattern's
            `float | number | any`.
        dims: Feature dimensions: numbers, named sizes, and at most one `...` where their number is not known.
        level: `lit` a number known at build; `ctor` a Python number of the constructor; `const` a
            tensor without batch dimensions; `batch` a tensor with them in front.
        col: Stored with an extra trailing 1, as rewards and dones are.
        broadcastable: The dimensions that a `None` in an index made: only these broadcast.
        axes: The named axes in front of the batch, such as the members of an ensemble, in their order.

    """

    dtype: str
    dims: Dims = ()
    level: Level = "batch"
    col: bool = False
    broadcastable: frozenset[int] = field(default=frozenset(), compare=False)
    axes: tuple[Axis, ...] = ()

    @property
    def open(self) -> bool:
        """Whether nobody knows how many feature dimensions there are."""
        return bool(self.dims) and self.rest is not None

    @property
    def rest(self) -> Rest | None:
        """The dimensions of which nobody knows how many there are; None where that is known."""
        return next((size for size in self.dims if isinstance(size, Rest)), None)

    @property
    def sizes(self) -> Sizes:
        """The feature dimensions, of a type that is not open."""
        assert not self.open, self
        return cast("Sizes", self.dims)

    @property
    def shape(self) -> tuple[int, ...]:
        """The feature dimensions of what an environment has: numbers that are known at build."""
        assert all(isinstance(size, int) for size in self.dims), self
        return cast("tuple[int, ...]", self.dims)

    @property
    def front(self) -> Sizes:
        """The dimensions in front of the rest; all where there is none."""
        return self._known(self.dims)

    @property
    def back(self) -> Sizes:
        """The dimensions behind the rest; all where there is none."""
        return self._known(self.dims[::-1])[::-1]

    @staticmethod
    def _known(dims: Dims) -> Sizes:
        found = []
        for size in dims:
            if isinstance(size, Rest):
                break
            found.append(size)
        return tuple(found)

    @property
    def rank(self) -> int:
        """How many feature dimensions there are; of an open type how many there are at least."""
        return len(self.dims) - self.open

    @property
    def python(self) -> bool:
        """Whether the value is a Python number, not a tensor."""
        return self.level in ("lit", "ctor")

    def __str__(self) -> str:
        each = "".join(f" for each of `{axis}`" for axis in self.axes)
        return self.dtype + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "") + each


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
        items: The numbers of a list that is known at build.
        choices: The words of which it is one, where that is known.
        several: The names of the values that it stands for, which `*xs` writes one after the other; empty where
            nobody knows how many there are, None for one value.
        optional: Whether it may be missing, so that `given` may ask for it.

    """

    type: Type
    interval: Interval
    static: Static | None = None
    what: str = ""
    symbol: Symbol | None = None
    items: tuple[int | float, ...] | None = None
    several: tuple[str, ...] | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def options(self) -> Mapping[str, object]:
        """What the typed name says besides its type and values."""
        known = {"items": self.items, "choices": self.choices or None, "optional": self.optional or None}
        return {name: value for name, value in known.items() if value is not None} or NO_OPTIONS


@dataclass(frozen=True, slots=True)
class DrawSite:
    """A random draw: an argument of the pure function, drawn by the adapter around it.

    `uniform` is drawn in [0, 1), `normal` with mean 0 and deviation 1, `randint` from `low`
    up to `high` without it.

    Attributes:
        like: The value of the same shape that `like=` names.
        col: Whether it has a trailing 1, as that value.
    """

    name: str
    kind: DrawKind
    dims: Dims
    dtype: str
    low: int | None = None
    high: int | None = None
    like: Symbol | None = field(default=None, compare=False)
    col: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A typed pure function that a declaration defines, as expressions see it.

    Attributes:
        name: Its name in the language.
        text: The Python name that is printed.
        params: Names and types of its arguments: tensors, of level `batch`, then numbers of Python.
        result: Its type.
        interval: Its values.
        prefix: Texts passed before the arguments, such as `params`.
        module: The generated module that it stands in, where declarations of other modules may call it; names among
            its sizes, and the dtype `float`, are then what a call makes of them.
        domains: The values that each argument may have; None for any.
        defaults: What numbers are that a call leaves out, from the last one back.

    """

    name: str
    text: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    interval: Interval
    prefix: tuple[str, ...] = ()
    module: str = ""
    domains: tuple[Interval | None, ...] = ()
    defaults: tuple[bool | int | float, ...] = ()

    @property
    def used(self) -> str:
        """The name that code which calls it says that it uses: with its module, where it has one."""
        return f"{self.module}:{self.text}" if self.module else self.text


@dataclass(frozen=True, slots=True)
class At:
    """An index item that is an expression: a fixed integer or a computed index."""

    index: Typed


@dataclass(frozen=True, slots=True)
class Cut:
    """An index item `start:stop:step`, with ends within the dimension; `whole` prints as `:`."""

    start: Dim
    stop: Dim
    step: int

    @property
    def length(self) -> Dim:
        """How many elements are kept."""
        length = self.stop - self.start
        return quotient(length + (self.step - 1), self.step)

    def slice_of(self, size: Dim) -> slice:
        """What it is in a dimension that has another number of elements wherever it is `size`."""
        assert isinstance(self.start, int)
        behind = self.stop - size
        if isinstance(self.stop, int) and not isinstance(size, int):
            return slice(self.start, self.stop, self.step)
        assert isinstance(behind, int)
        return slice(self.start, behind or None, self.step)

    def whole(self, size: Dim) -> bool:
        """Whether it keeps all of a dimension of `size`."""
        return (self.start, self.stop, self.step) == (0, size, 1)


@dataclass(frozen=True, slots=True)
class NewAxis:
    """An index item `None`: a new dimension of size 1."""


@dataclass(frozen=True, slots=True)
class Others:
    """An index item `...` for the dimensions that nobody knows, which stay as they are."""


IndexItem = At | Cut | NewAxis | Others


def settings(options: Iterable[object]) -> list[Typed]:
    """The expressions among settings, also those in a tuple of several."""
    found: list[Typed] = []
    for value in options:
        if isinstance(value, Typed):
            found.append(value)
        elif isinstance(value, tuple):
            found += [one for one in value if isinstance(one, Typed)]
    return found


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
    _parts: tuple[Typed, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _symbols_read: tuple[Symbol, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _nodes: tuple[Typed, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def parts(self) -> tuple[Typed, ...]:
        """The operands, the computed indices, and the settings that are expressions, from left to right."""
        if self._parts is not None:
            return self._parts
        parts = self.args
        if self.items:
            parts += tuple([item.index for item in self.items if isinstance(item, At)])
        if self.options:
            parts += tuple(settings(self.options.values()))
        object.__setattr__(self, "_parts", parts)
        return parts

    @property
    def symbols_read(self) -> tuple[Symbol, ...]:
        """The symbols that it reads, each once, from left to right, with those that a called function reads by itself."""
        if self._symbols_read is not None:
            return self._symbols_read
        if self.op == "name":
            found = (self.symbol,) if self.symbol is not None and self.static is None else self.captured
        else:
            found = sum((part.symbols_read for part in self.parts), self.captured)
            found = tuple(dict.fromkeys(found)) if len(found) > 1 else found
        object.__setattr__(self, "_symbols_read", found)
        return found

    @property
    def nodes(self) -> tuple[Typed, ...]:
        """This node and every node below it, each before those below it."""
        if self._nodes is not None:
            return self._nodes
        found = sum((part.nodes for part in self.parts), (self,))
        object.__setattr__(self, "_nodes", found)
        return found

    @property
    def several(self) -> bool:
        """Whether it is a tuple of values, of which nobody knows how many there are."""
        return "several" in self.options

    @property
    def draws(self) -> tuple[DrawSite, ...]:
        """The random draws below this node, from left to right."""
        own = () if self.site is None else (self.site,)
        below = tuple(site for part in self.parts for site in part.draws)
        return below + own
