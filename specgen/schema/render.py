"""The `render:` section of an environment: the shapes that show a state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from specgen.schema.fields import Declaration, Expression, Number, text_or_mapping


def _two(value: list[Any]) -> list[Any]:
    if len(value) != 2:
        raise PydanticCustomError("two_items", "Input should be a list of two items")
    return value


Pair = Annotated[list[Expression], AfterValidator(_two)]
"""Two expressions: a position, a size, or the two ends of an axis."""


class Choice(Declaration):
    """One of several colours or texts: that at `index`, counted from 0."""

    index: Expression
    of: list[str]


ChoiceField = Annotated[
    Annotated[str, Tag("short")] | Annotated[Choice, Tag("long")], Discriminator(text_or_mapping)
]
"""A colour or text, or one of several."""


class View(Declaration):
    """What part of the plane is seen: the values of `x` at the left and right edge, of `y` at the lower and upper one."""

    x: Pair
    y: Pair


class Shape(Declaration):
    """What all shapes have: each may be drawn only `when` a condition holds."""

    when: Expression | None = None


class Line(Shape):
    """A straight line; its `width` is in pixels."""

    kind: Literal["line"]
    from_: Pair = Field(alias="from")
    to: Pair
    color: ChoiceField = "black"
    width: Number = 1


class Polyline(Shape):
    """A line through points whose coordinates are along the last dimension of `x` and `y`."""

    kind: Literal["polyline"]
    x: Expression
    y: Expression
    color: ChoiceField = "black"
    width: Number = 1


class Filled(Shape):
    """What the shapes with an inside have: it is filled with `color`, and has an `outline` of `width` pixels."""

    color: ChoiceField | None = None
    outline: ChoiceField | None = None
    width: Number = 1


class Polygon(Filled):
    """The inside of a closed line through points, as those of a polyline."""

    kind: Literal["polygon"]
    x: Expression
    y: Expression


class Circle(Filled):
    """A circle around `at`."""

    kind: Literal["circle"]
    at: Pair
    radius: Expression


class Rectangle(Filled):
    """A rectangle with its centre `at` a point, turned by `angle` (in rad, counterclockwise)."""

    kind: Literal["rectangle"]
    at: Pair
    size: Pair
    angle: Expression = "0"


class Label(Shape):
    """A text with its centre `at` a point; each `{}` in it is one of the `values`, `height` is in pixels."""

    kind: Literal["label"]
    at: Pair
    text: ChoiceField
    values: list[Expression] = Field(default_factory=list)
    color: ChoiceField = "black"
    height: Number = 12


ShapeField = Annotated[
    Line | Polyline | Polygon | Circle | Rectangle | Label,
    Field(discriminator="kind"),
]
"""A shape, by its `kind`."""


class Render(Declaration):
    """How a state is drawn.

    Attributes:
        view: what part of the plane is seen.
        size: the width and the height of the picture in pixels.
        background: the colour behind all shapes.
        fps: how many pictures a second a video shows.
        let: named intermediate values.
        shapes: what is drawn, by name, one over the other.
    """

    view: View
    size: Annotated[list[int], AfterValidator(_two)] = Field(default_factory=lambda: [400, 400])
    background: str = "white"
    fps: int = 30
    let: dict[str, Expression] = Field(default_factory=dict)
    shapes: dict[str, ShapeField]
