"""Shapes by NumPy, for one environment: what is cut out, put together and resized is what torch makes of it, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from specgen.expr import Typed
from specgen.expr.printer import FunctionTexts, Printed, method, tuple_text
from specgen.expr.types import Cut, NewAxis
from specgen.literals import literal
from specgen.precedence import ATOM

VIEWS: Final = frozenset({"[]", "crop", "narrow", "permute"})
"""What gives other places of the same memory."""


def show_shape(node: Typed, show: Callable[[Typed], Printed], texts: FunctionTexts) -> Printed | None:
    """A function of shapes; None where it is none of those, or its sizes are not known.

    Args:
        node: the call.
        show: prints an operand.
        texts: what the function shares that it stands in.
    """
    shower = _SHOWN.get(node.op)
    if shower is None or not all(_is_array(one) for one in (node, *node.args)):
        return None
    return shower(node, [show(arg) for arg in node.args], texts)


def _is_array(node: Typed) -> bool:
    """Whether NumPy's array has the dimensions of the value, and no other."""
    kind = node.type
    known = not kind.python and not kind.open and all(isinstance(size, int) for size in kind.sizes)
    return known and bool(kind.rank) and not kind.col


def _number(setting: object) -> int | None:
    """A setting that is a whole number, and known."""
    if isinstance(setting, Typed):
        setting = setting.static if setting.static is not None else setting.interval.known_size
    return setting if isinstance(setting, int) and not isinstance(setting, bool) else None


def _numbers(node: Typed, *names: str) -> list[int] | None:
    found = [_number(node.options[name]) for name in names]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def _sliced(x: Printed, items: list[str]) -> Printed:
    return Printed(f"{x.at(ATOM)}[{', '.join(items)}]")


def _show_narrow(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    known = _numbers(node, "axis", "start")
    if known is None:
        return None
    axis, start = known
    count, size = node.type.sizes[axis], node.args[0].type.sizes[axis]
    assert isinstance(count, int)
    stop = "" if start + count == size else str(start + count)
    return _sliced(shown[0], [*[":"] * axis, f"{start or ''}:{stop}"])


def _show_crop(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    known = _numbers(node, "top", "left", "rows", "columns")
    if known is None:
        return None
    top, left, rows, columns = known
    return _sliced(shown[0], ["...", f"{top}:{top + rows}", f"{left}:{left + columns}"])


def _show_permute(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    axes = node.options["axes"]
    if not isinstance(axes, tuple) or any(_number(axis) is None for axis in axes):
        return None
    return method(shown[0], "transpose", *map(str, axes))


def _show_index(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    items: list[str] = []
    sizes = iter(node.args[0].type.sizes)
    for item in node.items:
        if isinstance(item, NewAxis):
            items.append("None")
        elif isinstance(item, Cut) and isinstance(item.start, int) and isinstance(item.stop, int):
            stop = "" if item.stop == next(sizes) else str(item.stop)
            items.append(f"{item.start or ''}:{stop}" + (f":{item.step}" if item.step != 1 else ""))
        else:
            return None
    while len(items) > 1 and items[-1] == ":":
        items.pop()
    return _sliced(shown[0], items)


def _show_concat(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    known = _numbers(node, "axis")
    parts = tuple_text(one.text for one in shown)
    return None if known is None else texts.call("row_concat", parts, str(known[0]))


def _show_tile(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    known = _numbers(node, "count", "axis")
    if known is None:
        return None
    count, axis = known
    repeats = ["1"] * node.type.rank
    repeats[axis] = str(count)
    return texts.call("row_tile", shown[0].text, tuple_text(repeats))


def _show_resize(node: Typed, shown: list[Printed], texts: FunctionTexts) -> Printed | None:
    known, how = _numbers(node, "rows", "columns"), node.options["interpolation"]
    if known is None or not isinstance(how, str):
        return None
    return texts.call("row_resized", shown[0].text, *map(str, known), literal(how))


_SHOWN: Final = {
    "[]": _show_index,
    "concat": _show_concat,
    "crop": _show_crop,
    "narrow": _show_narrow,
    "permute": _show_permute,
    "resize": _show_resize,
    "tile": _show_tile,
}
