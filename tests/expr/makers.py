"""How the random walk writes each built-in."""

from __future__ import annotations

from tests.expr.array_makers import ARRAY_MAKERS, ranked
from tests.expr.generate import Generator, Make, Maker
from tests.expr.index_makers import make_index
from tests.expr.leaves import DIMS, KINDS, Dims


def _infix(sign: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        a, b = g.pair(kind, dims, depth, exact)
        return f"{a} {sign} {b}"

    return make


def _divide(sign: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        # Whole quotients and remainders jump, so their operands are exact.
        exact = exact or sign != "/"
        shapes = [dims, dims if g.rng.random() < 0.6 else ()]
        g.rng.shuffle(shapes)
        numerator = g.expression(kind, shapes[0], depth, exact)
        if g.rng.random() < 0.3:
            return f"{numerator if shapes[0] == dims else g.expression(kind, dims, depth, exact)} {sign} 3"
        return f"{numerator} {sign} {g.positive(kind, shapes[1], depth, exact)}"

    return make


def _power(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    if kind in "iu":
        return f"{g.expression(kind, dims, 0, exact)} ** {g.rng.choice('0123')}"
    if g.rng.random() < 0.5:
        return f"{g.small(kind, dims, depth, exact)} ** {g.rng.choice(['2', '3'])}"
    return (
        f"{g.positive(kind, dims, depth, exact)} ** {g.small(kind, g.rng.choice([dims, ()]), depth, exact)}"
    )


def _compare(sign: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        a, b = g.pair(g.rng.choice("fdiu"), dims, depth, True)
        if sign in "<=" and g.rng.random() < 0.2:
            return (
                f"{g.expression('f', dims, 0, True)} < {a} {sign} {b}"
                if "u" not in (a, b)
                else f"{a} {sign} {b}"
            )
        return f"{a} {sign} {b}"

    return make


def _unary(
    name: str, *, jumps: bool = False, operand: str = "small", bound: str = "2", kinds: str | None = None
) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        source = g.rng.choice(kinds) if kinds else kind
        if operand == "positive":
            return f"{name}({g.positive(source, dims, depth, exact or jumps)})"
        return f"{name}({g.small(source, dims, depth, exact or jumps, bound)})"

    return make


def _negative(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    # A negative number is no uint8, but a uint8 tensor has a negative: it wraps.
    return f"-{g.tensor(kind, dims)}" if kind == "u" else f"-{g.expression(kind, dims, depth, exact)}"


def _not(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    return f"not {g.expression('b', dims, depth, exact)}"


def _extreme(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        if len(dims) < 2 and g.rng.random() < 0.4:
            return _reduction(name)(g, kind, dims, depth, exact)
        a, b = g.pair(kind, dims, depth, exact)
        more = f", {g.expression(kind, (), depth, exact)}" if g.rng.random() < 0.3 else ""
        return f"{name}({a}, {b}{more})"

    return make


def _clip(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    a, b = g.pair(kind, dims, depth, exact)
    return f"clip({a}, {b}, {g.expression(kind, g.rng.choice([dims, ()]), depth, exact)})"


def _where(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    a, b = g.pair(kind, dims, depth, exact)
    condition = g.expression("b", g.rng.choice([dims, ()]), depth, True)
    return f"where({condition}, {a}, {b})"


def _reduction(name: str, kinds: str | None = None, *, jumps: bool = False, one: bool = True) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        source = g.rng.choice(kinds) if kinds else kind
        if dims == () and g.rng.random() < 0.4:
            shape = g.rng.choice([shape for shape in DIMS if shape])
            return f"{name}({g.expression(source, shape, depth, exact or jumps)})"
        shape, axis = g.bigger(dims)
        axis = axis if g.rng.random() < 0.5 else axis - len(shape)
        return f"{name}({g.expression(source, shape, depth, exact or jumps)}, axis={axis})"

    return make


def _stack(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = g.rng.randrange(len(dims))
    inner = (*dims[:axis], *dims[axis + 1 :])
    shapes = [inner, *(g.rng.choice([inner, ()]) for _ in range(dims[axis] - 1))]
    g.rng.shuffle(shapes)
    parts = [g.expression(kind, shape, depth, exact) for shape in shapes]
    return f"stack({', '.join(parts)}, axis={g.rng.choice([axis, axis - len(dims)])})"


def _concat(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = next(axis for axis, size in enumerate(dims) if size >= 3)
    rest = [(*dims[:axis], size, *dims[axis + 1 :]) for size in ((1, 1, 1) if dims[axis] == 3 else (1, 3))]
    parts = [g.expression(kind, shape, depth, exact) for shape in rest if shape in DIMS]
    if len(parts) != len(rest):
        part = g.expression(kind, dims, depth, exact)
        return f"concat({part}, {part}, axis={axis})[{', '.join([':'] * axis + [f':{dims[axis]}'])}]"
    return f"concat({', '.join(parts)}, axis={g.rng.choice([axis, axis - len(dims)])})"


def _tile(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = dims.index(3)
    shape = (*dims[:axis], 1, *dims[axis + 1 :])
    if shape not in DIMS:
        return f"tile({g.expression(kind, dims, depth, exact)}, 1, axis={axis})"
    return f"tile({g.expression(kind, shape, depth, exact)}, 3, axis={axis})"


def _narrow(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = g.rng.randrange(len(dims))
    part = g.expression(kind, dims, depth, exact)
    start = g.rng.choice([0, dims[axis]])
    length = "" if start else f", length={dims[axis]}"
    return f"narrow(concat({part}, {part}, axis={axis}), {start}{length}, axis={axis})"


def _select(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = g.rng.randrange(len(dims) + 1)
    parts = [g.expression(kind, dims, depth, exact) for _ in range(3)]
    return f"select(stack({', '.join(parts)}, axis={axis}), {g.rng.randrange(3)}, axis={axis})"


def _size(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    return f"size({g.tensor('f', g.rng.choice([shape for shape in DIMS if shape]))}) + {g.expression('i', dims, depth, exact)}"


def _product(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        shapes: dict[Dims, list[tuple[Dims, Dims]]] = {
            (): [((3,), (3,)), ((1,), (1,))],
            (3,): [((3, 3), (3,)), ((3,), (3, 3)), ((3, 1), (1,)), ((1,), (1, 3))],
            (3, 3): [((3, 3), (3, 3)), ((3, 1), (1, 3))],
            (3, 4): [((3, 3), (3, 4))],
        }
        options = shapes[dims] if name != "dot" else shapes[()]
        left, right = g.rng.choice(options)
        a, b = g.small(kind, left, depth, exact), g.small(kind, right, depth, exact)
        return f"{a} @ {b}" if name == "@" else f"{name}({a}, {b})"

    return make


def _cast_like(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    x = g.small(g.rng.choice("fi" if kind in "ui" else "fdi"), dims, depth, True)
    shown = f"{x} + {g.tensor('i', dims)}" if kind in "fd" else g.tensor(g.rng.choice("iub"), dims)
    return f"cast({shown}, {g.tensor(kind, g.rng.choice(DIMS))})"


def _asked(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        x = g.tensor(g.rng.choice("fdiub"), g.rng.choice(DIMS))
        a, b = g.expression(kind, dims, depth, exact), g.expression(kind, dims, depth, exact)
        return f"where({name}({x}), {a}, {b})"

    return make


def _crop(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    x = g.expression(kind, dims, depth, exact)
    top = g.rng.choice([0, dims[0]])
    return f"crop(concat({x}, {x}), {top}, 0, {dims[0]}, {dims[1]})"


def _resize(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    # Between pixels a whole number may be a half, which rounds either way.
    how = g.rng.choice(["nearest", "bilinear", "bicubic"] if kind in "fd" else ["nearest"])
    shape = g.rng.choice([one for one in DIMS if len(one) == 2])
    return f"resize({g.expression(kind, shape, depth, exact)}, {dims[0]}, {dims[1]}, {how})"


def _one_hot(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    inner = dims[:-1]
    index = g.rng.choice(
        [f"clip({g.tensor('i', inner)} + {g.expression('i', inner, depth, True)}, 0, {dims[-1] - 1})"]
    )
    return f"one_hot({index}, {dims[-1]})"


def _gather(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    shape, axis = g.bigger(dims)
    index = f"clip({g.tensor('i', dims)} + {g.expression('i', dims, depth, True)}, 0, {shape[axis] - 1})"
    axis = axis if g.rng.random() < 0.5 else axis - len(shape)
    x = g.expression(kind, shape, depth, exact)
    return f"gather({x}, {index}, axis={axis})"


def _filled(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        shape = f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
        a = (
            f"{name}({shape}, dtype={KINDS[kind]})"
            if g.rng.random() < 0.7 or len(dims) != 1
            else f"{name}({dims[0]}, {KINDS[kind]})"
        )
        return a if kind in "bu" else f"{a} + {g.expression(kind, dims, depth, exact)}"

    return make


def _full(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    value = {"f": "p_f", "d": "0.1", "i": "p_i", "u": "7", "b": "p_b"}[kind]
    return (
        f"full(({', '.join(map(str, dims))},), {value}, {KINDS[kind]})"
        if dims
        else f"full_like({g.tensor(kind, dims)}, {value})"
    )


def _like(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        return f"{name}({g.expression(kind, dims, depth, exact)})"

    return make


def _full_like(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    value = {"f": "p_f", "d": "0.25", "i": "2", "u": "7", "b": "p_b"}[kind]
    return f"full_like({g.tensor(kind, dims)}, {value})"


def _arange(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    return (
        f"arange({dims[-1]}){'[None, :]' if len(dims) == 2 else ''} + {g.expression('i', dims, depth, exact)}"
    )


def _cast(dtype: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        source = g.rng.choice("fiub" if dtype == "uint8" else "fdiub")
        inner = g.expression(source, dims, 0, True) if source in "ub" else g.small(source, dims, depth, True)
        if dtype in ("uint8", "int8", "int16"):
            # Out of range, conversions differ from machine to machine.
            inner = inner if source in "ub" else f"clip(abs({inner}), 0, 2)"
        return f"{dtype}({inner})" if dtype == KINDS[kind] else f"{KINDS[kind]}({dtype}({inner}))"

    return make


def _draw(text: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        a = g.expression("f", g.rng.choice([dims, ()]), depth, exact)
        shape = f", shape=({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
        return text.format(a=a, shape=shape, dtype=KINDS[kind])

    return make


def _randint(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    shape = f", shape=({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
    high = g.rng.choice(["5", "p_i + 1", f"clip({g.expression('i', dims, depth, True)}, 1, 9)"])
    return f"randint(0, {high}{shape})"


def _integrate(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        y, force = g.small("f", (3,), depth, exact), g.small("f", (), depth, exact)
        dt = g.rng.choice(["0.05", "p_f", "f_0", "c_f_0"])
        text = f"{name}(spring, {y}, {dt}, {force})"
        return text if g.rng.random() < 0.7 else f"spring({y}, {force}) + {text}"

    return make


MAKERS: dict[str, Maker] = {
    "+": Maker("fdiu", _infix("+")),
    "-": Maker("fdiu", _infix("-")),
    "*": Maker("fdi", _infix("*")),
    "/": Maker("fd", _divide("/")),
    "//": Maker("fdiu", _divide("//")),
    "%": Maker("fdiu", _divide("%")),
    "**": Maker("fdiu", _power),
    "neg": Maker("fdiu", _negative),
    **{sign: Maker("b", _compare(sign)) for sign in ("<", "<=", ">", ">=", "==", "!=")},
    "and": Maker("b", _infix("and")),
    "or": Maker("b", _infix("or")),
    "not": Maker("b", _not),
    "abs": Maker("fdi", _unary("abs")),
    "sign": Maker("fdi", _unary("sign", jumps=True)),
    "square": Maker("fdi", _unary("square")),
    "sqrt": Maker("fd", _unary("sqrt", operand="positive")),
    "log": Maker("fd", _unary("log", operand="positive")),
    "log1p": Maker("fd", _unary("log1p", operand="positive")),
    **{name: Maker("fd", _unary(name)) for name in ("exp", "expm1", "sin", "cos", "tanh", "atan")},
    "sigmoid": Maker("fd", _unary("sigmoid")),
    "log_sigmoid": Maker("fd", _unary("log_sigmoid")),
    "softplus": Maker("fd", _unary("softplus")),
    "tan": Maker("fd", _unary("tan", bound="1")),
    "asin": Maker("fd", _unary("asin", bound="0.9")),
    "acos": Maker("fd", _unary("acos", bound="0.9")),
    "atan2": Maker("fd", lambda g, k, d, n, e: f"atan2({g.small(k, d, n, e)}, {g.positive(k, g.rng.choice([d, ()]), n, e)})"),
    **{name: Maker("fdiu", _unary(name, jumps=True)) for name in ("floor", "ceil", "round")},
    "isnan": Maker("b", _unary("isnan", kinds="fd")),
    "isfinite": Maker("b", _unary("isfinite", kinds="fd")),
    "clip": Maker("fdiu", _clip),
    "where": Maker("fdiub", _where),
    "sum": Maker("fd", _reduction("sum"), lambda dims: len(dims) < 2),
    "mean": Maker("f", _reduction("mean", "fib"), lambda dims: len(dims) < 2),
    "prod": Maker("fd", lambda g, k, d, n, e: _reduction("prod")(g, k, d, 0, e), lambda dims: len(dims) < 2),
    "any": Maker("b", _reduction("any", "b"), lambda dims: len(dims) < 2),
    "all": Maker("b", _reduction("all", "b"), lambda dims: len(dims) < 2),
    "min": Maker("fdiu", _extreme("min")),
    "max": Maker("fdiu", _extreme("max")),
    "argmax": Maker("i", _reduction("argmax", "fdiub", jumps=True), lambda dims: len(dims) < 2),
    "argmin": Maker("i", _reduction("argmin", "fdiub", jumps=True), lambda dims: len(dims) < 2),
    "norm": Maker("fd", _reduction("norm"), lambda dims: len(dims) < 2),
    "stack": Maker("fdiub", _stack, ranked),
    "concat": Maker("fdiub", _concat, lambda dims: any(size >= 3 for size in dims)),
    "tile": Maker("fdiub", _tile, lambda dims: 3 in dims),
    "narrow": Maker("fdiub", _narrow, ranked),
    "select": Maker("fdiub", _select),
    "size": Maker("i", _size),
    "[]": Maker("fdiub", make_index),
    "@": Maker("fdi", _product("@"), lambda dims: dims in ((), (3,), (3, 3), (3, 4))),
    "matmul": Maker("fdi", _product("matmul"), lambda dims: dims in ((), (3,), (3, 3), (3, 4))),
    "dot": Maker("fdi", _product("dot"), lambda dims: dims == ()),
    "one_hot": Maker("i", _one_hot, ranked),
    "gather": Maker("fdiub", _gather, lambda dims: len(dims) < 2),
    "zeros": Maker("fdiub", _filled("zeros"), ranked),
    "ones": Maker("fdiub", _filled("ones"), ranked),
    "full": Maker("fdiub", _full),
    "zeros_like": Maker("fdiub", _like("zeros_like")),
    "ones_like": Maker("fdiub", _like("ones_like")),
    "full_like": Maker("fdiub", _full_like),
    "arange": Maker("i", _arange, lambda dims: len(dims) == 1),
    "stop_grad": Maker("fdiub", _like("stop_grad")),
    **{dtype: Maker({v: k for k, v in KINDS.items()}.get(dtype, "i"), _cast(dtype)) for dtype in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")},
    "cast": Maker("fdiub", _cast_like),
    "is_int": Maker("fdiub", _asked("is_int")),
    "is_float": Maker("fdiub", _asked("is_float")),
    "crop": Maker("fdiub", _crop, lambda dims: len(dims) == 2),
    "resize": Maker("fdiu", _resize, lambda dims: len(dims) == 2),
    "uniform": Maker("fd", _draw("uniform({a}, p_f{shape}, dtype={dtype})")),
    "normal": Maker("fd", _draw("normal({a}, 0.5{shape}, dtype={dtype})")),
    "randint": Maker("i", _randint),
    "exponential": Maker("fd", _draw("exponential(abs({a}){shape}, dtype={dtype})")),
    "bernoulli": Maker("b", _draw("bernoulli(0.4{shape})")),
    **ARRAY_MAKERS,
    "rk4": Maker("f", _integrate("rk4"), lambda dims: dims == (3,)),
    "euler": Maker("f", _integrate("euler"), lambda dims: dims == (3,)),
}  # fmt: skip
