"""The function that makes a picture of its numbers: shape after shape."""

from __future__ import annotations

from specgen.check.pictures import CheckedRender, NumberOf, Picked, ShapeArg, field_names
from specgen.code import Code, named, value_code
from specgen.expr import Static
from specgen.literals import literal
from specgen.plan.model import Argument, FunctionPlan, Line


def picture_function(name: str, render: CheckedRender, record: str | None) -> FunctionPlan:
    """The function called `name`: it is given the `record` of the numbers that are not known; None for nothing."""
    known = _Known(render)
    size, background = literal(render.size), literal(render.background)
    edges = _joined(("x=", known.arg(render.x), ", y=", known.arg(render.y)))
    lines = [
        _line(("picture = Picture(size=", size, ", ", edges, ", background=", background, ")"), "Picture")
    ]
    for shape in render.shapes:
        given = [part for name, value in shape.args for part in (f", {name}=", known.arg(value))]
        lines.append(_line((f"picture.{shape.kind}({literal(shape.name)}", *given, ")")))
    lines.append(Line("return picture"))
    args = () if record is None else (Argument("numbers", named(record)),)
    uses = frozenset[str]().union(*(line.text.uses for line in lines if isinstance(line.text, Code)))
    doc = ("The picture that shows these numbers, for any leading dimensions.",)
    return FunctionPlan(name, args, named("Picture"), doc, tuple(lines), uses=uses)


class _Known:
    """How each number is written: those that are known at build as they are, the others as fields of the record."""

    def __init__(self, render: CheckedRender) -> None:
        self._numbers = {
            one.target: value_code(_as_stored(one.typed.static, one.symbol.type.dtype))
            for one in render.statements
            if one.typed.static is not None
        }
        fields = field_names(render).items()
        self._numbers |= {target: Code(f"numbers.{field}") for target, field in fields}

    def arg(self, value: ShapeArg) -> Code:
        """What a shape is drawn with, as an expression."""
        match value:
            case NumberOf():
                return self._numbers[value.target]
            case Picked():
                return _joined(("(", self.arg(value.index), ", ", literal(list(value.of)), ")"))
            case tuple():
                parts = [part for each in value for part in (self.arg(each), ", ")]
                return _joined(("(", *(parts if len(value) == 1 else parts[:-1]), ")"))
            case _:
                return value_code(value)


def _line(parts: tuple[str | Code, ...], *uses: str) -> Line:
    text = _joined(parts)
    return Line(Code(text.text, text.uses | frozenset(uses)))


def _joined(parts: tuple[str | Code, ...]) -> Code:
    uses = frozenset[str]().union(*(part.uses for part in parts if isinstance(part, Code)))
    return Code("".join(map(str, parts)), uses)


def _as_stored(value: Static | None, dtype: str) -> Static | None:
    """A number that is known, as its dtype holds it."""
    return float(value) if dtype == "float32" and isinstance(value, (int, float)) else value
