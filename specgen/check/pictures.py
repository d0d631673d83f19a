"""What is drawn of a state, checked."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.model import Statement
from specgen.program.names import underscored
from specgen.values import dataclass


@dataclass(frozen=True)
class NumberOf:
    """A number of a picture: the target of the statement that computes it."""

    target: str


@dataclass(frozen=True)
class Picked:
    """One of several colours or texts: that at an index."""

    index: NumberOf
    of: tuple[str, ...]


ShapeArg = NumberOf | Picked | tuple[NumberOf, ...] | str | float
"""What a shape is drawn with."""


@dataclass(frozen=True)
class CheckedShape:
    """A shape of a picture: its name, what it is, and what it is drawn with, by keyword."""

    name: str
    kind: str
    args: tuple[tuple[str, ShapeArg], ...]


@dataclass(frozen=True)
class CheckedRender:
    """How a state is drawn.

    Attributes:
        statements: what computes the numbers, intermediate values first.
        size: the width and the height in pixels.
        x: what is at the left and at the right edge.
        y: what is at the lower and at the upper edge.
        background: the colour behind the shapes.
        fps: how many pictures a second a video shows.
        shapes: what is drawn, in order.
    """

    statements: tuple[Statement, ...]
    size: tuple[int, int]
    x: tuple[NumberOf, NumberOf]
    y: tuple[NumberOf, NumberOf]
    background: str
    fps: int
    shapes: tuple[CheckedShape, ...]


def numbers_of(render: CheckedRender) -> Iterator[NumberOf]:
    """All numbers that a picture is made of."""
    yield from (*render.x, *render.y)
    for shape in render.shapes:
        for _, arg in shape.args:
            match arg:
                case NumberOf():
                    yield arg
                case Picked():
                    yield arg.index
                case tuple():
                    yield from arg


def field_names(render: CheckedRender) -> dict[str, str]:
    """What the numbers that are not known at build are called in the record of all, by their targets, in order."""
    numbers = {number.target for number in numbers_of(render)}
    names: dict[str, str] = {}
    for statement in render.statements:
        if statement.target in numbers and statement.typed.static is None:
            names[statement.target] = underscored(statement.name, names.values())
    return names
