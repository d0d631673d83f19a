"""How the random walk writes indices, fixed and computed, on any axis."""

from __future__ import annotations

from tests.expr.generate import Generator
from tests.expr.leaves import DIMS, Dims


def make_index(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str:
    way = g.rng.random()
    if way < 0.3:
        shape, axis = g.bigger(dims) if len(dims) < 2 else (dims, 0)
        if shape != dims:
            at = g.rng.randrange(-shape[axis], shape[axis])
            return f"{g.expression(kind, shape, depth, exact)}[{', '.join([':'] * axis + [str(at)])}]"
    if way < 0.8:
        computed = g.rng.choice((_computed_index, _any_axis_index))(g, kind, dims, depth, exact)
        if computed is not None:
            return computed
    if dims and 1 in dims and dims != (1,):
        axis = dims.index(1)
        inner = (*dims[:axis], *dims[axis + 1 :])
        items = [":"] * len(dims)
        items[axis] = "None"
        # Only a new axis stretches; this one stays what it is.
        return f"{g.expression(kind, inner, depth, exact)}[{', '.join(items)}]"
    if dims in ((3, 4), (3, 3)):
        row, column = (
            g.expression(kind, (3,), depth, exact),
            g.expression(kind, (dims[1],), depth, exact) if dims[1] == 3 else "",
        )
        if column and kind != "b":
            return f"min({row}[:, None], {column}[None, :])"
    if dims:
        return f"{g.expression(kind, dims, depth, exact)}[{'..., ' if g.rng.random() < 0.5 else ''}::1]"
    return f"{g.expression(kind, (3,), depth, exact)}[-1]"


def _computed_index(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str | None:
    options = [
        (table, used) for table in DIMS for used in (1, 2) if len(table) >= used and min(table[:used]) >= 3
    ]
    fitting = [
        (table, used, dims[: len(dims) - (len(table) - used)])
        for table, used in options
        if dims[len(dims) - (len(table) - used) :] == table[used:] and len(dims) >= len(table) - used
    ]
    fitting = [entry for entry in fitting if entry[2] in DIMS]
    if not fitting:
        return None
    table, used, inner = g.rng.choice(fitting)
    indices = [f"clip({g.expression('i', inner, depth, True)}, 0, 2)" for _ in range(used)]
    if all("i_" not in index for index in indices):
        indices[0] = g.tensor("i", inner)
    if used == 2 and inner != () and g.rng.random() < 0.3:
        indices[g.rng.randrange(2)] = g.rng.choice(["1", "-1", "i_0"])
        if not any("x".join(map(str, inner)) in index for index in indices):
            indices[0] = f"i_{'x'.join(map(str, inner))}"
            indices[1] = "i_0"
    return f"{g.tensor(kind, table)}[{', '.join(indices)}]"


def _any_axis_index(g: Generator, kind: str, dims: Dims, depth: int, exact: bool) -> str | None:
    """Computed indices on any axes, beside slices, fixed positions and new axes."""
    for _ in range(60):
        table, text = _table(g, kind)
        inner = g.rng.choice(
            [(), *(d for d in DIMS if d and any(d == dims[a : a + len(d)] for a in range(3)))]
        )
        items: list[str] = []
        result: list[int] = []
        places: list[int] = []
        for size in table:
            if g.rng.random() < 0.1:
                items.append("None")
                result.append(1)
            way = g.rng.choice(("whole", "whole", "part", "fixed", "computed", "computed"))
            if way in ("whole", "part"):
                items.append(":" if way == "whole" else "-1:")
                result.append(size if way == "whole" else 1)
                continue
            if way == "computed" and inner and not any("clip" in items[place] for place in places):
                result += inner
            places.append(len(items))
            computed = f"clip({g.tensor('i', inner)} + {g.expression('i', inner, 0, True)}, 0, {size - 1})"
            items.append(computed if way == "computed" else str(g.rng.randrange(-size, size)))
        joined = not places or places[-1] - places[0] == len(places) - 1
        if any("clip" in item for item in items) and (joined or not inner) and tuple(result) == dims:
            return f"{text}[{', '.join(items)}]"
    return None


def _table(g: Generator, kind: str) -> tuple[Dims, str]:
    dims = g.rng.choice([d for d in DIMS if d])
    if len(dims) < 2 or g.rng.random() < 0.4:
        return dims, g.tensor(kind, dims)
    axis = g.rng.randrange(3)
    text = f"stack({g.tensor(kind, dims)}, {g.tensor(kind, dims)}, axis={axis})"
    return (*dims[:axis], 2, *dims[axis:]), text
