"""Random well-typed expressions, as text, made from the table of built-ins.

Each maker writes one call of one built-in around random operands of the types that it takes. The
walk is driven by a `random.Random`, which hypothesis hands out, so failures shrink.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specgen.expr.builtins.table import TABLE
from tests.expr.leaves import DIMS, Dims


@dataclass
class Generator:
    """Writes expressions; `exact` operands are computed to the same bits by torch and NumPy."""

    rng: random.Random
    makers: Mapping[str, Maker]

    def expression(self, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        if depth <= 0 or self.rng.random() < 0.15:
            return self.leaf(kind, dims)
        makers = [
            maker
            for name, maker in self.makers.items()
            if kind in maker.kinds and (not exact or TABLE[name].agreement == "bit") and maker.fits(dims)
        ]
        maker = self.rng.choice(makers)
        return f"({maker.make(self, kind, dims, depth - 1, exact)})"

    def leaf(self, kind: str, dims: Dims) -> str:
        tail = "x".join(map(str, dims)) or "0"
        choices = [f"{kind}_{tail}", f"{kind}_{tail}", f"k_{kind}_{tail}", f"c_{kind}_{tail}"]
        if dims == ():
            literals = {
                "f": ["0.5", "-1.25", "1", "p_f"],
                "d": [],
                "i": ["1", "2", "p_i"],
                "u": ["3"],
                "b": ["True", "p_b"],
            }
            choices += literals[kind]
        return self.rng.choice(choices)

    def tensor(self, kind: str, dims: Dims) -> str:
        tail = "x".join(map(str, dims)) or "0"
        return self.rng.choice([f"{kind}_{tail}", f"k_{kind}_{tail}", f"c_{kind}_{tail}"])

    def pair(self, kind: str, dims: Dims, depth: int, exact: bool) -> tuple[str, str]:
        """Two operands that meet in `dims`: one may be a scalar."""
        shapes = [dims, dims if self.rng.random() < 0.6 else ()]
        self.rng.shuffle(shapes)
        a, b = (self.expression(kind, shape, depth, exact) for shape in shapes)
        return a, b

    def small(self, kind: str, dims: Dims, depth: int, exact: bool, bound: str = "2") -> str:
        """An operand whose values are not too large for what is done with it."""
        low = "0" if kind == "u" else f"-{bound}"
        return f"clip({self.expression(kind, dims, depth, exact)}, {low}, {bound})"

    def positive(self, kind: str, dims: Dims, depth: int, exact: bool) -> str:
        inner = (
            self.small(kind, dims, depth, exact) if kind != "u" else self.expression(kind, dims, depth, exact)
        )
        return f"(clip(abs({inner}), 0, 2) + {'0.5' if kind in 'fd' else '1'})"

    def bigger(self, dims: Dims) -> tuple[Dims, int]:
        """A shape that becomes `dims` without the returned axis."""
        options = [
            (shape, axis)
            for shape in DIMS
            for axis in range(len(shape))
            if (*shape[:axis], *shape[axis + 1 :]) == dims
        ]
        return self.rng.choice(options)


Make = Callable[[Generator, str, Dims, int, bool], str]


@dataclass(frozen=True)
class Maker:
    """How to write one built-in: for which kinds of result and which shapes."""

    kinds: str
    make: Make
    fits: Callable[[Dims], bool] = lambda dims: True
