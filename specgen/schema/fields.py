"""The models that several declarations share: the strict base model, expressions, specs, parameters and constants."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

Number = int | float
"""A YAML number; ``bool`` is refused where a number is meant (models are strict about it)."""

Nested = Number | list["Nested"]


class Declaration(BaseModel):
    """A node of the language: unknown fields are errors, values are never coerced, objects are immutable."""

    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, populate_by_name=True, strict=True
    )


class DeclaredClass(Declaration):
    """What becomes a class of its name.

    Attributes:
        doc: the class's docstring.
        allow: codes of warnings that are meant here.
    """

    doc: str = ""
    allow: list[str] = Field(default_factory=list)


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (int, float)) else value


Expression = Annotated[str, BeforeValidator(_as_text)]
"""Source text of the expression language; a bare number or truth value is an expression too."""


class Spec(Declaration):
    """The long form of a spec: the same object as the short form, spelt out.

    ``{kind: bounded, shape: [3], dtype: float32, low: -1, high: 1}`` is ``float32[3] in [-1, 1]``.

    Attributes:
        kind: the kind of spec.
        shape: what the short form has in brackets: how many of them there are, without what a one-hot or
            multi kind adds behind.
        dtype: the dtype; left out, it is that of the short form, and float32 for numbers.
        low, high: the bounds: a number, or lists of the shape.
        n: how many classes a ``categorical`` or ``onehot`` has.
        nvec: how many classes each choice of a ``multi_`` kind has.
        doc: one line for the documentation.
    """

    kind: Literal[
        "bounded", "unbounded", "categorical", "onehot", "multi_categorical", "multi_onehot", "binary"
    ]
    shape: list[int | str] = Field(default_factory=list)
    dtype: str | None = None
    low: Any = None
    high: Any = None
    n: int | str | None = None
    nvec: list[int | str] | None = None
    doc: str = ""


def text_or_mapping(value: object) -> str:
    """Which form of a field a value has: `short` (text) or `long` (a mapping)."""
    return "short" if isinstance(value, str) else "long"


SpecField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Spec, Tag("long")], Discriminator(text_or_mapping)
]
"""A spec in its short form (text) or its long form (a mapping)."""


class Param(Declaration):
    """A constructor parameter: a Python number of the generated class, with its range.

    Attributes:
        default: the value when the caller passes none; required unless ``optional``.
        type: ``float``, ``int``, ``bool``, a tensor pattern, or ``enum(a, b)``; inferred from ``default``.
        min, max: closed bounds.
        above, below: open bounds.
        unless: a static truth value; where it is true, the bounds do not hold.
        at_least: another parameter, whose value is the smallest one.
        with_: another optional parameter, without which this one is not given (`with`).
        optional: the parameter may be ``None`` (then ``given(name)`` is false in expressions).
        static: known at build time, so that it may shape types and decide branches.
        per_env: one value for each instance of the batch (a tensor).
        draw: an expression that gives each instance its value, anew at each reset; implies ``per_env``.
        doc: one line for the generated docstring.
    """

    default: Any = None
    type: str | None = None
    min: Number | None = None
    max: Number | None = None
    above: Number | None = None
    below: Number | None = None
    unless: str | None = None
    at_least: str | None = None
    with_: str | None = Field(default=None, alias="with")
    optional: bool = False
    static: bool = False
    per_env: bool = False
    draw: Expression | None = None
    doc: str = ""


def _param_form(value: object) -> str:
    return "long" if isinstance(value, (dict, Param)) else "short"


ParamField = Annotated[
    Annotated[bool | int | float | str, Tag("short")] | Annotated[Param, Tag("long")],
    Discriminator(_param_form),
]
"""A parameter as its bare default, or in full."""


class Const(Declaration):
    """A constant table: ``{type: "int64[5, 2]", value: [[0, 0], …]}``."""

    type: str
    value: Any
    doc: str = ""
