"""The plan: flat records of finished strings, which the templates only have to print.

Everything that can be decided is decided before a plan exists. A plan knows Python, but nothing about
environments, transforms or losses: each of those is planned as records, functions and classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from specgen.imported import Import


@dataclass(frozen=True)
class Line:
    """A statement of a function body.

    Attributes:
        text: the statement; it may span lines (the formatter lays it out).
        origin: the declaration path it comes from, printed as a comment above when it changes.
    """

    text: str
    origin: str | None = None


@dataclass(frozen=True)
class Argument:
    """`name: annotation = default`."""

    name: str
    annotation: str
    default: str | None = None

    @property
    def text(self) -> str:
        """The argument as a signature writes it."""
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default is not None else "")


@dataclass(frozen=True)
class FunctionPlan:
    """A function or method; `rest` is its `**keywords`, in full."""

    name: str
    args: tuple[Argument, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[Line, ...]
    keyword_only: tuple[Argument, ...] = ()
    method: bool = False
    decorators: tuple[str, ...] = ()
    rest: str | None = None

    @property
    def signature(self) -> str:
        """Everything between the parentheses."""
        parts = ["self"] if self.method else []
        parts += [argument.text for argument in self.args]
        if self.keyword_only:
            parts += ["*", *(argument.text for argument in self.keyword_only)]
        if self.rest is not None:
            parts.append(self.rest)
        return ", ".join(parts)


@dataclass(frozen=True)
class Field:
    """A field of a record, with the line that documents it."""

    name: str
    annotation: str
    default: str | None = None
    doc: str = ""


@dataclass(frozen=True)
class RecordPlan:
    """A `NamedTuple`."""

    name: str
    doc: tuple[str, ...]
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ClassPlan:
    """A class: documentation, attributes, methods; `typing_only` lines go under `if TYPE_CHECKING`."""

    name: str
    bases: tuple[str, ...]
    doc: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    methods: tuple[FunctionPlan, ...] = ()
    typing_only: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()


@dataclass(frozen=True)
class TypingPlan:
    """A class that exists for type checkers only.

    Attributes:
        name: its name.
        doc: its documentation.
        base: its base class, with type arguments.
        fields: its attributes.
        runtime: what its name stands for at run time; None for a name that is not there then.
    """

    name: str
    doc: tuple[str, ...]
    base: str
    fields: tuple[Field, ...] = ()
    runtime: str | None = None


Item = RecordPlan | FunctionPlan | ClassPlan | TypingPlan


@dataclass(frozen=True)
class ModulePlan:
    """A generated module: what it imports and what stands in it, in order.

    Attributes:
        path: the file, relative to the package.
        source: the schema it comes from, without its ending.
        doc: its documentation.
        imports: what it imports.
        items: what stands in it.
        exports: its public classes, which its package shows too.
        functions: its public functions, which only the module itself shows.
    """

    path: str
    source: str
    doc: tuple[str, ...]
    imports: frozenset[Import]
    items: tuple[Item, ...]
    exports: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
