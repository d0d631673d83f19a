"""The `render:` section: the numbers of its shapes, checked as one section of assignments, and what is no number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

from specgen.check.colors import COLORS, is_color
from specgen.check.names import refusal, refused
from specgen.check.pictures import CheckedRender, CheckedShape, NumberOf, Picked, ShapeArg
from specgen.check.statements import Section, SectionResult, Target, check_section
from specgen.diagnostics import Sink, Span, suggestion
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import render as rules
from specgen.expr import Interval, SpecType
from specgen.expr.sizes import ANY_DIMS
from specgen.schema.load import SchemaFile
from specgen.schema.render import Choice, Render
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar
from specgen.values import dataclass, replace

UNDRAWN: Final = "a picture is a function of the state: draw under `reset` or `step`, into a state key"
_LARGEST: Final = 4096
_AXES: Final = ("x", "y")
_ENDS: Final = {"x": ("left", "right"), "y": ("bottom", "top")}
_POINTS: Final = {"polyline": 2, "polygon": 3}
"""How many points the shapes have at least whose coordinates are along a dimension."""

_PLACEHOLDER = re.compile(r"\{\}")


Place = tuple[str | int, ...]
"""Where something stands below the section."""


def _entries(
    file: SchemaFile, path: tuple[str, ...], render: Render, numbers: Mapping[str, Place]
) -> MappingNode:
    """All expressions of the section at `path` as one section of assignments: `let`, then a target for each number.

    The numbers of a view are `view.left`, `view.right`, `view.bottom` and `view.top`, those of a shape have its name
    in front: `cart.at.x`, `cart.angle`, `tiles.color`.
    """
    let = file.node(*path, "let") if render.let else None
    entries = list(let.entries) if isinstance(let, MappingNode) else []
    for target, place in numbers.items():
        value = file.node(*path, *place)
        assert isinstance(value, Scalar)
        entries.append((Scalar(target, "plain", target, value.span), value))
    lost = let.lost if isinstance(let, MappingNode) else frozenset[str]()
    return MappingNode(tuple(entries), file.span(*path), lost)


def _targets(numbers: Mapping[str, Place]) -> dict[str, Target]:
    """What each number of the section has to be: float32 of any shape, truth values for `when`, whole numbers to choose."""
    targets = {}
    for target, place in numbers.items():
        dtype = "bool" if place[-1] == "when" else "int64" if place[-1] == "index" else "float32"
        targets[target] = Target(target, SpecType("pattern", dtype, ANY_DIMS))
    return targets


def check_render(
    section: Section, render: Render | None, sink: Sink
) -> tuple[SectionResult, CheckedRender | None]:
    """Check a `render:` section.

    Args:
        section: where it stands, and what its expressions may read.
        render: what it says; None where there is none.
        sink: takes every mistake.

    Returns:
        Its assignments, and what is drawn of them: None where there is a mistake.
    """
    if render is None:
        return SectionResult(), None
    mine = Sink()
    numbers = dict(_numbers(render))
    section = replace(section, entries=_entries(section.file, section.path, render, numbers))
    result = check_section(section, _targets(numbers), {}, mine)
    check = _Check(section.file, section.path, render, numbers, result, mine)
    check.plain()
    check.numbers()
    sink.extend(mine.items)
    if mine.has_errors or not numbers.keys() <= result.types.keys():
        return result, None
    view = {axis: (NumberOf(f"view.{low}"), NumberOf(f"view.{high}")) for axis, (low, high) in _ENDS.items()}
    shapes = tuple(
        CheckedShape(name, shape.kind, _args(name, shape)) for name, shape in render.shapes.items()
    )
    size = (render.size[0], render.size[1])
    return result, CheckedRender(
        result.statements, size, view["x"], view["y"], render.background, render.fps, shapes
    )


def _numbers(render: Render) -> Iterator[tuple[str, Place]]:
    """The target of each number of the section, and its place below it."""
    for axis, ends in _ENDS.items():
        for index, end in enumerate(ends):
            yield f"view.{end}", ("view", axis, index)
    for name, shape in render.shapes.items():
        for field, value in _given(shape):
            here = ("shapes", name, field)
            if isinstance(value, Choice):
                yield f"{name}.{field}", (*here, "index")
            elif field == "values":
                yield from ((f"{name}.value.{i}", (*here, i)) for i in range(len(value)))
            elif isinstance(value, list):
                yield from ((f"{name}.{field}.{axis}", (*here, i)) for i, axis in enumerate(_AXES))
            elif field not in _NO_NUMBERS:
                yield f"{name}.{field}", here


_LOOKS: Final = ("color", "outline", "width", "when")
_NO_NUMBERS: Final = frozenset({"kind", "color", "outline", "text", "width", "height"})
"""The fields of shapes that are no expressions, unless one of several is chosen."""


def _given(shape: Any) -> Iterator[tuple[str, Any]]:
    """The fields that a shape was given, by the names that they have in a schema; where it is drawn first."""
    kind: Any = type(shape)
    for name, alias in _in_order(kind):
        if name in shape.model_fields_set:
            yield alias, getattr(shape, name)


@cache
def _in_order(kind: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """The fields of a kind of shape, where it is drawn first, and the names that they have in a schema."""
    fields = kind.model_fields
    return tuple(
        (name, fields[name].alias or name) for name in sorted(fields, key=lambda name: name in _LOOKS)
    )


def _args(name: str, shape: Any) -> tuple[tuple[str, ShapeArg], ...]:
    """What draws a shape, by keyword."""
    args: list[tuple[str, ShapeArg]] = []
    for field, value in _given(shape):
        arg: ShapeArg
        if field == "kind":
            continue
        if isinstance(value, Choice):
            arg = Picked(NumberOf(f"{name}.{field}"), tuple(value.of))
        elif field == "values":
            arg = tuple(NumberOf(f"{name}.value.{i}") for i in range(len(value)))
        elif isinstance(value, list):
            arg = tuple(NumberOf(f"{name}.{field}.{axis}") for axis in _AXES)
        elif field in _NO_NUMBERS:
            arg = value
        else:
            arg = NumberOf(f"{name}.{field}")
        args.append(({"from": "start", "to": "end"}.get(field, field), arg))
    return tuple(args)


@dataclass(frozen=True)
class _Check:
    """What is checked of a section besides its expressions."""

    file: SchemaFile
    path: tuple[str, ...]
    render: Render
    places: Mapping[str, Place]
    result: SectionResult
    sink: Sink

    def plain(self) -> None:
        """What is no expression: names, colours, sizes, texts."""
        for index, pixels in enumerate(self.render.size):
            self._in_range("a size in pixels", pixels, 1, _LARGEST, ("size", index))
        self._in_range("the number of pictures a second", self.render.fps, 1, 1000, ("fps",))
        self._color(self.render.background, ("background",))
        for name, shape in self.render.shapes.items():
            here = ("shapes", name)
            if (reason := refusal(name, foreign=True)) is not None:
                self.sink.add(refused(name, reason, "shape", self.file.key_span(*self.path, *here)))
            for field, value in _given(shape):
                if field in ("color", "outline"):
                    self._color(value, (*here, field))
                if field in ("width", "height"):
                    self._in_range(f"a {field} in pixels", value, 1, _LARGEST, (*here, field))
                if isinstance(value, Choice) and not value.of:
                    span = self.file.span(*self.path, *here, field, "of")
                    self.sink.add(
                        rules.RANGE.at(span, "there is nothing to choose from", help="list what there is")
                    )
            if shape.kind == "label":
                self._placeholders(shape, here)

    def numbers(self) -> None:
        """Shapes of numbers, what is chosen, and the view."""
        for axis, ends in _ENDS.items():
            for index, end in enumerate(ends):
                if self._dims(f"view.{end}"):
                    message = f"the view's `{axis}` is from one number to another, this has shape {self._shown(f'view.{end}')}"
                    self.sink.add(rules.COUNT.at(self.file.span(*self.path, "view", axis, index), message))
            low, high = (self._static(f"view.{end}") for end in ends)
            if low is not None and low == high:
                span = self.file.span(*self.path, "view", axis)
                self.sink.add(
                    rules.RANGE.at(
                        span, f"the view's `{axis}` is from {low:g} to {high:g}: nothing can be seen"
                    )
                )
        for name, shape in self.render.shapes.items():
            self._counts(name, shape)
            for field, value in _given(shape):
                if isinstance(value, Choice):
                    self._chosen(f"{name}.{field}", len(value.of), ("shapes", name, field))

    def _color(self, value: str | Choice, place: Place) -> None:
        several = [] if isinstance(value, str) else list(enumerate(value.of))
        colors = (
            [(place, value)] if isinstance(value, str) else [((*place, "of", i), one) for i, one in several]
        )
        for where, color in colors:
            if not is_color(color):
                span = self.file.span(*self.path, *where)
                help = (
                    suggestion(color, COLORS) or 'a colour is a name of CSS, as in `steelblue`, or "#rrggbb"'
                )
                self.sink.add(rules.NO_COLOR.at(span, f"`{color}` is no colour", help=help))

    def _in_range(self, what: str, value: float, low: int, high: int, place: Place) -> None:
        if not low <= value <= high:
            span = self.file.span(*self.path, *place)
            self.sink.add(rules.RANGE.at(span, f"{what} is from {low} to {high}, this is {value:g}"))

    def _placeholders(self, shape: Any, here: tuple[str, ...]) -> None:
        """Each text has a `{}` for each value."""
        texts = shape.text.of if isinstance(shape.text, Choice) else [shape.text]
        for index, text in enumerate(texts):
            chosen = ("of", index) if isinstance(shape.text, Choice) else ()
            count = len(_PLACEHOLDER.findall(text))
            if count != len(shape.values):
                self.sink.add(
                    rules.PLACEHOLDERS.at(
                        self.file.span(*self.path, *here, "text", *chosen),
                        f"the text has {_counted(count, 'place')} for values, and there are {len(shape.values)}",
                        help="each `{}` is one of the `values`, in order",
                    )
                )

    def _counts(self, name: str, shape: Any) -> None:
        """A shape's numbers are single ones, or have one dimension: then it is drawn once for each element."""
        counts: dict[int | str, Span] = {}
        points: dict[int | str, Span] = {}
        least = _POINTS.get(shape.kind)
        for target, place in self.places.items():
            if place[:2] != ("shapes", name):
                continue
            if target not in self.result.types:
                continue
            span = self.file.span(*self.path, *place)
            dims = self._dims(target)
            if least is not None and place[-1] in _AXES and len(place) == 3:
                if not dims or (isinstance(dims[-1], int) and dims[-1] < least):
                    message = f"`{place[-1]}` of a {shape.kind} has {least} points or more, this has shape {self._shown(target)}"
                    self.sink.add(
                        rules.COUNT.at(span, message, help="put the coordinates side by side: stack(…)")
                    )
                    return
                points.setdefault(dims[-1], span)
                dims = dims[:-1]
            if len(dims) > 1:
                message = (
                    f"a shape is repeated over one dimension at most, this has shape {self._shown(target)}"
                )
                self.sink.add(
                    rules.COUNT.at(span, message, help="make it one: flatten(…), or read an element")
                )
                return
            if dims:
                counts.setdefault(dims[0], span)
        for found, what in ((points, "points"), (counts, "repetitions")):
            if len(found) > 1:
                first, second, *_ = found
                message = f"`{name}` has {second} {what} here and {first} elsewhere"
                self.sink.add(rules.COUNT.at(found[second], message))

    def _chosen(self, target: str, count: int, place: Place) -> None:
        """An index is proved to be that of something."""
        values = self.result.values.get(target)
        if values is not None and count and not values.within(Interval(0, count - 1)):
            self.sink.add(
                expression_rules.INDEX_UNPROVEN.at(
                    self.file.span(*self.path, *place, "index"),
                    f"the index is not proven to be in 0..{count - 1}",
                    help=f"clip(…, 0, {count - 1})",
                )
            )

    def _dims(self, target: str) -> tuple[Any, ...]:
        found = self.result.types.get(target)
        return (found.dims or ()) if found is not None else ()

    def _shown(self, target: str) -> str:
        return str(list(self._dims(target)))

    def _static(self, target: str) -> float | None:
        found: Mapping[str, Any] = {one.target: one.typed.static for one in self.result.statements}
        value = found.get(target)
        return float(value) if isinstance(value, (int, float)) else None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
