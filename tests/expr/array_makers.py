"""How the random walk writes what arrays are sorted, summed, put into another order and drawn with."""

from __future__ import annotations

import math

from tests.expr.generate import Generator, Make, Maker
from tests.expr.leaves import DIMS, Dims


def _along(name: str, kinds: str | None = None, *, jumps: bool = False, bound: str = "2") -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        source = g.rng.choice(kinds) if kinds and kind == "i" else kind
        leaf = source in "ub" or (kinds is not None and kind == "i")
        x = (
            g.expression(source, dims, 0, True)
            if leaf
            else g.small(source, dims, depth, exact or jumps, bound)
        )
        axis = g.rng.randrange(-len(dims), len(dims))
        return f"{name}({x})" if len(dims) == 1 and g.rng.random() < 0.3 else f"{name}({x}, axis={axis})"

    return make


def _spread(name: str) -> Make:
    def make(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        if dims == () and g.rng.random() < 0.4:
            shape = g.rng.choice([shape for shape in DIMS if len(shape) == 2])
            return f"{name}({g.small(kind, shape, depth, exact)})"
        shape, axis = g.bigger(dims)
        more = ", correction=1" if name != "logsumexp" and shape[axis] > 1 and g.rng.random() < 0.5 else ""
        return f"{name}({g.small(kind, shape, depth, exact)}, axis={axis}{more})"

    return make


def _reshape(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    count = math.prod(dims)
    shape = g.rng.choice([shape for shape in DIMS if math.prod(shape) == count])
    sizes = list(map(str, dims))
    if sizes and g.rng.random() < 0.5:
        sizes[g.rng.randrange(len(sizes))] = "-1"
    wanted = f"({', '.join(sizes)},)" if sizes else "()"
    # A number of Python has no shape.
    x = g.expression(kind, shape, depth, exact) if shape else g.tensor(kind, shape)
    return f"reshape({x}, {wanted})"


def _permuted(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    turned = dims[::-1]
    if turned in DIMS and g.rng.random() < 0.4:
        return f"permute({g.expression(kind, turned, depth, exact)})"
    # Three axes, of which one is indexed away again.
    inner = g.rng.choice([shape for shape in {dims, turned} if shape in DIMS])
    axes = list(range(3))
    g.rng.shuffle(axes)
    if (tuple(inner[axis - 1] for axis in axes if axis)) != dims:
        axes = [0, 1, 2] if inner == dims else [2, 1, 0]
    parts = [g.expression(kind, inner, depth, exact) for _ in range(2)]
    items = ["0" if axis == 0 else ":" for axis in axes]
    return f"permute(stack({', '.join(parts)}), ({', '.join(map(str, axes))}))[{', '.join(items)}]"


def _flatten(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    shape = g.rng.choice([shape for shape in DIMS if shape and math.prod(shape) == dims[0]])
    last = g.rng.choice([-1, len(shape) - 1])
    return f"flatten({g.expression(kind, shape, depth, exact)}, {g.rng.choice([0, -len(shape)])}, {last})"


def _unflatten(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    count = (math.prod(dims),)
    flat = (
        g.expression(kind, count, depth, exact)
        if count in DIMS
        else f"flatten({g.expression(kind, dims, depth, exact)})"
    )
    sizes = (
        f"({', '.join(map(str, dims))},)" if g.rng.random() < 0.5 else f"dims({g.tensor('f', dims)}, 0, -1)"
    )
    return f"unflatten({flat}, {g.rng.choice([0, -1])}, {sizes})"


def _squeeze(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    places = [place for place in range(len(dims) + 1) if (*dims[:place], 1, *dims[place:]) in DIMS]
    if not places:
        return f"squeeze(unsqueeze({g.tensor(kind, dims)}, 0), 0)"
    place = g.rng.choice(places)
    inner = g.expression(kind, (*dims[:place], 1, *dims[place:]), depth, exact)
    return f"squeeze({inner}, {g.rng.choice([place, place - len(dims) - 1])})"


def _unsqueeze(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    place = dims.index(1)
    inner = (*dims[:place], *dims[place + 1 :])
    x = (
        g.expression(kind, inner, depth, exact)
        if inner in DIMS and inner
        else g.tensor(kind, inner)
        if inner in DIMS
        else ""
    )
    return (
        f"unsqueeze({x}, {g.rng.choice([place, place - len(dims)])})"
        if x
        else g.expression(kind, dims, 0, exact)
    )


def _flip(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = g.rng.choice(
        ["", ", axis=0", f", axis={-len(dims)}", f", axis=({', '.join(map(str, range(len(dims))))},)"]
    )
    return f"flip({g.expression(kind, dims, depth, exact)}{axis})"


def _roll(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    axis = g.rng.randrange(-len(dims), len(dims))
    return f"roll({g.expression(kind, dims, depth, exact)}, {g.rng.choice(['1', '-2', '7', 'p_i'])}, axis={axis})"


def _outer(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    return (
        f"outer({g.expression(kind, dims[:1], depth, exact)}, {g.expression(kind, dims[1:], depth, exact)})"
    )


def _shape_of(dims: Dims) -> str:
    return f", shape=({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def _categorical(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    rows = [shape for shape in DIMS if shape and shape[:-1] in ((), dims)]
    weights = g.rng.choice(rows)
    x = g.positive(g.rng.choice("fd"), weights, depth, exact)
    alike = weights[:-1] == dims and g.rng.random() < 0.5
    return f"categorical({x}{'' if alike else _shape_of(dims)})"


def _poisson(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    rate = g.rng.choice(["3.5", "0", f"abs({g.small('f', g.rng.choice([dims, ()]), depth, exact)})"])
    return f"poisson({rate}{_shape_of(dims)})"


def _permutation(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    return f"permutation({dims[-1]}{_shape_of(dims[:-1])})"


def ranked(dims: Dims) -> bool:
    """Whether there is an axis."""
    return len(dims) > 0


ARRAY_MAKERS: dict[str, Maker] = {
    "var": Maker("fd", _spread("var"), lambda dims: len(dims) < 2),
    "std": Maker("fd", _spread("std"), lambda dims: len(dims) < 2),
    "logsumexp": Maker("fd", _spread("logsumexp"), lambda dims: len(dims) < 2),
    "cumsum": Maker("fdi", _along("cumsum", "iub"), ranked),
    "cumprod": Maker("fdi", _along("cumprod", "iu"), ranked),
    "sort": Maker("fdiu", _along("sort"), ranked),
    "argsort": Maker("i", _along("argsort", "fdiu", jumps=True), ranked),
    "softmax": Maker("fd", _along("softmax"), ranked),
    "log_softmax": Maker("fd", _along("log_softmax"), ranked),
    "reshape": Maker("fdiub", _reshape),
    "permute": Maker("fdiub", _permuted, lambda dims: len(dims) == 2),
    "flatten": Maker("fdiub", _flatten, lambda dims: len(dims) == 1),
    "unflatten": Maker("fdiub", _unflatten, ranked),
    "dims": Maker("fdiub", _unflatten, ranked),
    "squeeze": Maker("fdiub", _squeeze, lambda dims: True),
    "unsqueeze": Maker("fdiub", _unsqueeze, lambda dims: 1 in dims),
    "flip": Maker("fdiub", _flip, ranked),
    "roll": Maker("fdiub", _roll, ranked),
    "outer": Maker("fdi", _outer, lambda dims: len(dims) == 2),
    "categorical": Maker("i", _categorical),
    "poisson": Maker("i", _poisson),
    "permutation": Maker("i", _permutation, ranked),
}
