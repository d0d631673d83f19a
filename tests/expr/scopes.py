"""The names of the language's own examples."""

from __future__ import annotations

from specgen.expr import ANYTHING, Binding, Interval, Level, Static, Symbol, Type, full, point
from specgen.expr.sizes import ANY_DIMS


def binding(
    text: str,
    type_: Type,
    values: Interval,
    static: Static | None = None,
    what: str = "",
    items: tuple[int | float, ...] | None = None,
    several: tuple[str, ...] | None = None,
) -> Binding:
    """A value that is printed as `text`."""
    symbol = None if static is not None else Symbol(text, text, type_, values)
    return Binding(type_, values, static, what, symbol, items, several)


def bound(
    text: str,
    dtype: str,
    *dims: int,
    values: Interval | None = None,
    level: Level = "batch",
    static: Static | None = None,
    col: bool = False,
    what: str = "",
) -> Binding:
    return binding(text, Type(dtype, dims, level, col), values or full(dtype), static, what)


def param(name: str, dtype: str = "float32") -> Binding:
    return bound(f"params.{name}", dtype, level="ctor", what="param")


def dim(value: int) -> Binding:
    return Binding(Type("int64", (), "lit"), point(value), value, "dim")


def pattern(text: str, dtype: str = "any", level: Level = "batch") -> Binding:
    return binding(text, Type(dtype, ANY_DIMS, level), ANYTHING)


PENDULUM = {
    **{name: param(name) for name in ("g", "m", "l", "dt")},
    "th": bound("th", "float32", what="state"),
    "thdot": bound("thdot", "float32", values=Interval(-8, 8), what="state"),
    "action": bound("action", "float32", 1, values=Interval(-2, 2)),
    "u": bound("u", "float32", values=Interval(-2, 2)),
    "angle": bound("angle", "float32"),
    "next.thdot": bound("next_thdot", "float32", values=Interval(-8, 8)),
    "done": bound("done", "bool", col=True),
    "reward": bound("reward", "float32", col=True),
    "x64": bound("x64", "float64"),
    "dt64": param("dt64", "float64"),
    "v": bound("v", "float32", 3),
    "A": bound("A", "float32", 3, 4),
    "i": bound("i", "int64", values=Interval(0, 5)),
    "pixels": bound("pixels", "uint8", 4),
    "flag": param("flag", "bool"),
}

GRID = {
    "bonus": param("bonus"),
    "n": dim(3),
    "size": dim(5),
    "moves": bound("moves", "int64", 5, 2, values=Interval(-1, 1), level="const"),
    "pos": bound("pos", "int64", 3, 2, values=Interval(0, 4)),
    "goal": bound("goal", "int64", 3, 2, values=Interval(0, 4)),
    "walls": bound("walls", "bool", 5, 5),
    "cost": bound("cost", "float32", values=Interval(0, 1)),
    "agents.action": bound("agents_action", "int64", 3, values=Interval(0, 4)),
}

FRAMES = {
    **{name: pattern(name) for name in ("frame", "stack", "pad")},
    "next.frame": pattern("next_frame"),
    "padding": bound("params.padding", "str", level="ctor"),
    "same": bound('"same"', "str", level="lit", static="same"),
    "N": bound("params.N", "int64", values=Interval(1, 100), level="ctor"),
    "dim": bound("params.dim", "int64", values=Interval(-10, -1), level="ctor"),
    "padding_value": param("padding_value"),
}

NORM = {
    "x": pattern("x", "number"),
    "reward": pattern("reward", "float"),
    "loc": pattern("loc", "float32", "const"),
    "var": pattern("var", "float32", "const"),
    "eps": param("eps"),
}
