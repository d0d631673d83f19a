"""The names that random expressions read."""

from __future__ import annotations

from specgen.expr import Binding, Function, Interval, Type
from tests.expr.scopes import binding

Dims = tuple[int, ...]
DIMS: tuple[Dims, ...] = ((), (1,), (3,), (4,), (3, 1), (1, 3), (3, 4), (3, 3))
KINDS = {"f": "float32", "d": "float64", "i": "int64", "u": "uint8", "b": "bool"}
RANGES = {
    "f": Interval(-2.0, 2.0),
    "d": Interval(-2.0, 2.0),
    "i": Interval(0, 2),
    "u": Interval(0, 9),
    "b": Interval(0, 1),
}


def names() -> dict[str, Binding]:
    """Every leaf: `f_3x4` a batched tensor, `k_f_3` a constant one, `c_f_3` a `col`, `p_f` a parameter."""
    scope: dict[str, Binding] = {}
    for kind, dtype in KINDS.items():
        values = RANGES[kind]
        for dims in DIMS:
            tail = "x".join(map(str, dims)) or "0"
            for prefix, level, col in (("", "batch", False), ("k_", "const", False), ("c_", "batch", True)):
                name = f"{prefix}{kind}_{tail}"
                scope[name] = binding(name, Type(dtype, dims, level, col), values)  # type: ignore[arg-type]
        if kind in "fib":
            scope[f"p_{kind}"] = binding(f"params.{kind}", Type(dtype, (), "ctor"), values)
    return scope


FUNCTIONS = {
    "spring": Function(
        "spring",
        "spring",
        (("y", Type("float32", (3,))), ("force", Type("float32", ()))),
        Type("float32", (3,)),
        Interval(float("-inf"), float("inf"), True),
        ("params",),
    )
}
