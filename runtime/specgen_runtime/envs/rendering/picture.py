"""`Picture`: shapes whose numbers are tensors, drawn to arrays of pixels with Pillow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from specgen_runtime.extras import import_extra

__all__ = ["Choice", "Color", "Image", "Number", "Pair", "Picture"]

Image = NDArray[np.uint8]
"""Pixels, `(*batch, height, width, 3)`."""

Number = Tensor | float
"""A number of each row of a batch: `[*batch]`, or `[*batch, n]` where a shape is drawn `n` times."""

Pair = tuple[Number, Number]

Choice = tuple[Number, Sequence[str]]
"""One of several texts: that at an index."""

Color = str | Choice
"""A name of CSS, or `"#rrggbb"`; or one of several."""

_SMOOTHING = 2
"""So many pixels in each direction are drawn for one that is returned: Pillow does not smooth edges."""

_FARTHEST = 1e5
"""Pixels beyond which it makes no difference where something is; Pillow counts them with few bits."""


class Picture:
    """Shapes in a view, one over the other.

    Args:
        size: the width and the height in pixels.
        x: what is at the left and at the right edge; one number for each row.
        y: what is at the lower and at the upper edge.
        background: the colour behind all shapes.

    Each method adds a shape under a name that messages tell. Its numbers are the same for all rows (a Python number), or
    tensors `[*batch]`, or `[*batch, n]`: then it is drawn `n` times. Widths and heights are in pixels. Shapes are drawn where
    `when` is true, everywhere without it.
    """

    def __init__(self, size: tuple[int, int], *, x: Pair, y: Pair, background: str = "white") -> None:
        self._size = size
        self._background = background
        self._view = _Shape("view", lambda canvas, view: None, {"x": x, "y": y})
        self._shapes: list[_Shape] = []

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height in pixels."""
        return self._size

    def line(
        self,
        name: str,
        *,
        start: Pair,
        end: Pair,
        color: Color = "black",
        width: float = 1,
        when: Number | None = None,
    ) -> None:
        """Add a straight line."""
        args = {"start": start, "end": end, "color": color, "when": when}

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            canvas.line([canvas.pixel(*at["start"]), canvas.pixel(*at["end"])], at["color"], width)

        self._shapes.append(_Shape(name, draw, args))

    def polyline(
        self,
        name: str,
        *,
        x: Tensor,
        y: Tensor,
        color: Color = "black",
        width: float = 1,
        when: Number | None = None,
    ) -> None:
        """Add a line through points, whose coordinates are along the last dimension of `x` and `y`."""

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            canvas.line(list(map(canvas.pixel, at["x"], at["y"])), at["color"], width)

        self._shapes.append(_Shape(name, draw, {"x": x, "y": y, "color": color, "when": when}, points=True))

    def polygon(
        self,
        name: str,
        *,
        x: Tensor,
        y: Tensor,
        color: Color | None = None,
        outline: Color | None = None,
        width: float = 1,
        when: Number | None = None,
    ) -> None:
        """Add the inside of a closed line, as of a polyline; black unless it has a `color` or an `outline`."""
        args = {"x": x, "y": y, "color": _fill(color, outline), "outline": outline, "when": when}

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            canvas.polygon(list(map(canvas.pixel, at["x"], at["y"])), at["color"], at["outline"], width)

        self._shapes.append(_Shape(name, draw, args, points=True))

    def circle(
        self,
        name: str,
        *,
        at: Pair,
        radius: Number,
        color: Color | None = None,
        outline: Color | None = None,
        width: float = 1,
        when: Number | None = None,
    ) -> None:
        """Add a circle around a point; black unless it has a `color` or an `outline`."""
        args = {"at": at, "radius": radius, "color": _fill(color, outline), "outline": outline, "when": when}

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            canvas.circle(at["at"], at["radius"], at["color"], at["outline"], width)

        self._shapes.append(_Shape(name, draw, args))

    def rectangle(
        self,
        name: str,
        *,
        at: Pair,
        size: Pair,
        angle: Number = 0.0,
        color: Color | None = None,
        outline: Color | None = None,
        width: float = 1,
        when: Number | None = None,
    ) -> None:
        """Add a rectangle around a point, turned counterclockwise by `angle` in rad; black unless it has a colour."""
        args = {"at": at, "size": size, "angle": angle, "color": _fill(color, outline), "outline": outline}

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            (x, y), (wide, high) = at["at"], at["size"]
            cos, sin = math.cos(at["angle"]), math.sin(at["angle"])
            sides = [
                (-wide / 2, -high / 2),
                (wide / 2, -high / 2),
                (wide / 2, high / 2),
                (-wide / 2, high / 2),
            ]
            corners = [canvas.pixel(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in sides]
            canvas.polygon(corners, at["color"], at["outline"], width)

        self._shapes.append(_Shape(name, draw, {**args, "when": when}))

    def label(
        self,
        name: str,
        *,
        at: Pair,
        text: str | Choice,
        values: tuple[Number, ...] = (),
        color: Color = "black",
        height: float = 12,
        when: Number | None = None,
    ) -> None:
        """Add a text around a point; each `{}` in it is one of the `values`, whole or with two decimals."""
        args = {"at": at, "text": text, "values": values, "color": color, "when": when}

        def draw(canvas: _Canvas, at: Mapping[str, Any]) -> None:
            said = at["text"]
            for value in at["values"]:
                said = said.replace("{}", f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}", 1)
            canvas.text(at["at"], said, at["color"], height)

        self._shapes.append(_Shape(name, draw, args))

    def draw(self, batch_size: tuple[int, ...]) -> Image:
        """All rows of a batch.

        Returns:
            uint8 `(*batch_size, height, width, 3)`.

        Raises:
            ValueError: a number is not finite, or the view has no extent.
            IndexError: nothing can be chosen by an index.
            ImportError: Pillow is not installed.
        """
        wide, high = self._size
        rows = math.prod(batch_size)
        found = np.empty((rows, high, wide, 3), dtype=np.uint8)
        shapes = [shape.read(batch_size) for shape in self._shapes]
        view = self._view.read(batch_size)
        for row in range(rows):
            (edges,) = view.at(row)
            canvas = _Canvas(self._size, edges["x"], edges["y"], self._background)
            for shape in shapes:
                for args in shape.at(row):
                    shape.shape.draw(canvas, args)
            found[row] = canvas.pixels()
        return found.reshape(*batch_size, high, wide, 3)


def _fill(color: Color | None, outline: Color | None) -> Color | None:
    return "black" if color is None and outline is None else color


@dataclass(frozen=True)
class _Shape:
    """A shape: what draws one of it, and with what; `points` are along the last dimension of its `x` and `y`."""

    name: str
    draw: Callable[[_Canvas, Mapping[str, Any]], None]
    args: Mapping[str, Any]
    points: bool = False

    def read(self, batch_size: tuple[int, ...]) -> _Rows:
        """Its numbers as arrays, a row for each environment."""
        return _Rows(self, {name: self._arrays(value, batch_size) for name, value in self.args.items()})

    def _arrays(self, value: Any, batch_size: tuple[int, ...]) -> Any:
        if isinstance(value, tuple):
            return tuple(self._arrays(each, batch_size) for each in value)
        if isinstance(value, Tensor):
            array = value.detach().cpu().numpy()
            return array.reshape(-1, *array.shape[len(batch_size) :])
        return value


@dataclass(frozen=True)
class _Rows:
    """A shape with its numbers, a row for each environment."""

    shape: _Shape
    arrays: Mapping[str, Any]

    def at(self, row: int) -> list[dict[str, Any]]:
        """What the shapes of one row are drawn with, those left out for which `when` is false."""
        count = max((self._count(name, value) for name, value in self.arrays.items()), default=1)
        drawn = []
        for index in range(count):
            when = self.arrays.get("when")
            if when is None or self._value("when", when, row, index):
                drawn.append(
                    {n: self._value(n, v, row, index) for n, v in self.arrays.items() if n != "when"}
                )
        return drawn

    def _count(self, name: str, value: Any) -> int:
        """How often a number says that the shape is drawn."""
        if isinstance(value, tuple):
            return max((self._count(name, each) for each in value), default=1)
        if not isinstance(value, np.ndarray):
            return 1
        dims = value.shape[1:-1] if self._has_points(name) else value.shape[1:]
        return dims[0] if dims else 1

    def _value(self, name: str, value: Any, row: int, index: int) -> Any:
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], list):
            return self._chosen(name, self._value(name, value[0], row, index), value[1])
        if isinstance(value, tuple):
            return tuple(self._value(name, each, row, index) for each in value)
        if isinstance(value, np.ndarray):
            value = value[row]
            repeated = value.ndim > 1 if self._has_points(name) else value.ndim > 0
            value = value[index] if repeated else value
        if not isinstance(value, str | None) and not np.all(np.isfinite(value)):
            raise ValueError(f"render: `{name}` of `{self.shape.name}` is not finite in row {row}: {value}")
        return value

    def _chosen(self, name: str, index: Any, of: list[str]) -> str:
        if not 0 <= index < len(of):
            raise IndexError(
                f"render: `{name}` of `{self.shape.name}` is chosen by {int(index)}, and there are {len(of)}"
            )
        return of[int(index)]

    def _has_points(self, name: str) -> bool:
        return self.shape.points and name in ("x", "y")


class _Canvas:
    """One picture while it is drawn, larger than it will be."""

    def __init__(
        self, size: tuple[int, int], x: Sequence[float], y: Sequence[float], background: str
    ) -> None:
        if x[0] == x[1] or y[0] == y[1]:
            raise ValueError(
                f"render: the view from {x[0]} to {x[1]} and from {y[0]} to {y[1]} shows nothing"
            )
        image = import_extra("PIL.Image", "rendering needs Pillow", "render")
        self._fonts = import_extra("PIL.ImageFont", "rendering needs Pillow", "render")
        drawing = import_extra("PIL.ImageDraw", "rendering needs Pillow", "render")
        self._image = image.new("RGB", (size[0] * _SMOOTHING, size[1] * _SMOOTHING), background)
        self._draw = drawing.Draw(self._image)
        self._left, self._bottom = float(x[0]), float(y[0])
        self._across = size[0] * _SMOOTHING / (float(x[1]) - float(x[0]))
        self._up = size[1] * _SMOOTHING / (float(y[1]) - float(y[0]))
        self._high = size[1] * _SMOOTHING

    def pixels(self) -> Image:
        """The picture, smoothed."""
        return np.asarray(self._image.reduce(_SMOOTHING), dtype=np.uint8)

    def pixel(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is; the centre of the first pixel is 0."""
        across = (float(x) - self._left) * self._across - 0.5
        down = self._high - (float(y) - self._bottom) * self._up - 0.5
        return _near(across), _near(down)

    def line(self, points: list[tuple[float, float]], color: str, width: float) -> None:
        """A line through points."""
        self._draw.line(points, fill=color, width=round(width * _SMOOTHING), joint="curve")

    def polygon(
        self, points: list[tuple[float, float]], color: str | None, outline: str | None, width: float
    ) -> None:
        """A closed line, or its inside, or both."""
        if color is not None:
            self._draw.polygon(points, fill=color)
        if outline is not None:
            self.line([*points, *points[:2]], outline, width)

    def circle(
        self, at: Sequence[float], radius: float, color: str | None, outline: str | None, width: float
    ) -> None:
        """A circle; an ellipse where the view has other scales across and up."""
        (x, y), wide, high = self.pixel(*at), abs(radius * self._across), abs(radius * self._up)
        box = tuple(map(_near, (x - wide, y - high, x + wide, y + high)))
        self._draw.ellipse(box, fill=color, outline=outline, width=round(width * _SMOOTHING))

    def text(self, at: Sequence[float], text: str, color: str, height: float) -> None:
        """A text around a point."""
        font = self._fonts.load_default(height * _SMOOTHING)
        self._draw.text(self.pixel(*at), text, fill=color, font=font, anchor="mm")


def _near(pixels: float) -> float:
    return min(max(pixels, -_FARTHEST), _FARTHEST)
