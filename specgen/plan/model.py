"""The plan: flat records of finished strings, which the templates only have to print.

Everything that can be decided is decided before a plan exists. A plan knows Python, but nothing about
environments, transforms or losses: each of those is planned as records, functions and classes.
"""

from __future__ import annotations

from specgen.code import Code
from specgen.values import dataclass

Text = str | Code
"""An expression or annotation: one that reads names of its module says so."""


@dataclass(frozen=True)
class Line:
    """A statement of a function body.

    Attributes:
        text: the statement; it may span lines (the formatter lays it out).
        origin: the declaration path it comes from, printed as a comment above when it changes.
    """

    text: Text
    origin: str | None = None


@dataclass(frozen=True)
class Argument:
    """`name: annotation = default`."""

    name: str
    annotation: Text
    default: Text | None = None

    @property
    def text(self) -> str:
        """The argument as a signature writes it."""
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class FunctionPlan:
    """A function or method; `uses` are the names of its module that its body reads.

    The arguments of a `positional` one have no names for those who call it.
    """

    name: str
    args: tuple[Argument, ...]
    returns: Text
    doc: tuple[str, ...]
    body: tuple[Line, ...]
    keyword_only: tuple[Argument, ...] = ()
    method: bool = False
    uses: frozenset[str] = frozenset()
    positional: bool = False

    @property
    def signature(self) -> str:
        """Everything between the parentheses."""
        parts = ["self"] if self.method else []
        parts += [argument.text for argument in self.args]
        if self.positional and self.args:
            parts.append("/")
        if self.keyword_only:
            parts += ["*", *(argument.text for argument in self.keyword_only)]
        return ", ".join(parts)


@dataclass(frozen=True)
class Field:
    """A field of a record, with the line that documents it."""

    name: str
    annotation: Text
    default: Text | None = None
    doc: str = ""


@dataclass(frozen=True)
class RecordPlan:
    """A `NamedTuple`."""

    name: str
    doc: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class TypedDictPlan:
    """The type of a dict: `base` is `TypedDict`, or the type of one with fewer keys."""

    name: str
    base: Code
    doc: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class AliasPlan:
    """Another name of a record, for one that has the same fields."""

    name: str
    record: str
    doc: tuple[str, ...]


@dataclass(frozen=True)
class RefusalPlan:
    """A condition under which the constructor raises a ValueError, and its message, as expressions."""

    condition: Text
    message: str


@dataclass(frozen=True)
class CallPlan:
    """A call of a pure function as a method writes it: its name, and an expression for each argument."""

    function: str
    args: tuple[Text, ...]


@dataclass(frozen=True)
class CalledNetworkPlan:
    """A network of the constructor.

    Attributes:
        name: its keyword.
        rows: the call that says what it reads and gives.
        frozen: whether it stays as it is.
        of: the transform of a chain that calls it.
    """

    name: str
    rows: CallPlan
    frozen: bool
    of: str = ""


@dataclass(frozen=True)
class ProtocolPlan:
    """A Protocol: its documentation, and the methods that it asks for."""

    name: str
    doc: tuple[str, ...]
    methods: tuple[FunctionPlan, ...]


@dataclass(frozen=True)
class KeyType:
    """The type of keys: each part is one of some names."""

    parts: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class KeyedType:
    """What a typed tensordict or composite holds under keys: the types of the keys, and of the values."""

    keys: tuple[KeyType, ...]
    value: Text


@dataclass(frozen=True)
class DataPlan:
    """A tensordict type that knows its keys, for type checkers; at run time another name of `TensorDict`.

    Attributes:
        name: its name.
        doc: its documentation.
        within: names that stand in groups only.
        types: what it holds.
    """

    name: str
    doc: str
    within: tuple[str, ...]
    types: tuple[KeyedType, ...]


@dataclass(frozen=True)
class SpecTypesPlan:
    """The types of an environment's specs and keys, for type checkers.

    Attributes:
        name: its name.
        doc: its documentation.
        keys: the types of the only action, reward and done flag; None where there are several.
        bases: the base class of each group of specs, with its type arguments.
    """

    name: str
    doc: str
    keys: tuple[KeyType | None, ...]
    bases: tuple[tuple[str, tuple[KeyedType, ...]], ...]
