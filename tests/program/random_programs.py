"""Random programs: statements of random expressions, calls of other random programs, draws and regions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random

from specgen.expr import Interval, Symbol, Type
from specgen.program.program import Carried, Input, Program, Region
from specgen.program.walk import read
from tests.program.builder import BOOL, COLUMN, FLAG, FLOAT, NUMBER, Builder, literal

VECTOR = Type("float32", (3,))
WHOLE = Type("int64", ())
TYPES = {"F": FLOAT, "V": VECTOR, "B": BOOL, "P": NUMBER, "C": COLUMN, "D": FLAG, "I": WHOLE}
_LEAVES = {
    "F": "0.5 * x",
    "V": "stack(0.1 * x, 0.2 * y, 0.3)",
    "B": "x > 0.1",
    "P": "2.0",
    "C": "r",
    "D": "end",
    "I": "n",
}


@dataclass
class Sample:
    """A random program, and those that it calls."""

    random: Random
    name: str
    depth: int = 1
    kinds: dict[str, str] = field(default_factory=dict)

    def program(self) -> Program | None:
        """The program, or None where nothing came of the seed."""
        builder = Builder(self.name)
        for name, kind in INPUTS.items():
            fixed = kind == "P"
            builder.input(
                name,
                TYPES[kind],
                "param" if fixed else "data",
                group="params" if fixed else "",
                interval=Interval(0, 5) if kind == "I" else Interval(-1, 1),
            )
            self.kinds[name] = kind
        made: list[tuple[Symbol, str]] = []
        for index in range(self.random.randint(4, 9)):
            made += self.statement(builder, index)
        kept = [symbol for symbol, _ in made if symbol.type.level == "batch"]
        if not kept:
            return None
        chosen = self.random.sample(kept, min(4, len(kept)))
        return builder.program(self.name, {symbol.name: symbol for symbol in chosen}, f"Out_{self.name}")

    def statement(self, builder: Builder, index: int) -> list[tuple[Symbol, str]]:
        what = self.random.random()
        if what < 0.12 and self.depth:
            return self.call(builder, index)
        if what < 0.2:
            return self.repeat(builder, index)
        if what < 0.27:
            return self.no_grad(builder, index)
        return self.let(builder, f"v{index}")

    def let(self, builder: Builder, name: str) -> list[tuple[Symbol, str]]:
        kind = self.random.choice("FFVBPCDI")
        text = self.tree(kind, self.random.randint(1, 3))
        stored = self.random.random() < 0.4 and kind != "P"
        before = len(builder.inputs)
        symbol = builder.let(name, text, TYPES[kind] if stored else None, named=self.random.random() < 0.7)
        known = builder.scope[name].type
        if known.level in ("lit", "const") or (known.dims, known.dtype) != (
            TYPES[kind].dims,
            TYPES[kind].dtype,
        ):
            builder.statements.pop()
            del builder.scope[name]
            del builder.inputs[before:]
            return []
        self.kinds[name] = kind
        return [(symbol, kind)]

    def call(self, builder: Builder, index: int) -> list[tuple[Symbol, str]]:
        callee = Sample(self.random, f"{self.name}_callee{index}", self.depth - 1).program()
        if callee is None:
            return []
        args = [self.argument(builder, one, f"d{index}_{at}") for at, one in enumerate(callee.inputs)]
        made = {f"c{index}_{output.name}": output.symbol.type for output in callee.outputs}
        symbols = builder.call(made, callee, *args)
        return [(symbol, "") for symbol in symbols]

    def argument(self, builder: Builder, one: Input, name: str) -> str:
        if one.draw is not None:
            builder.inputs.append(Input(builder.symbol(name, one.symbol.type), "draw", draw=one.draw))
            return name
        kind = INPUTS[one.symbol.name]
        if one.group:
            return one.symbol.name  # a record is handed over whole
        names = [name for name, known in self.kinds.items() if known == kind and name in INPUTS]
        return self.random.choice(names)

    def repeat(self, builder: Builder, index: int) -> list[tuple[Symbol, str]]:
        """A loop that carries a number and a vector, with a flag of finished rows or without one."""
        masked = self.random.random() < 0.5
        inner = {f"l{index}": "F", f"w{index}": "V"} | ({f"m{index}": "D"} if masked else {})
        inits = [
            read(builder.scope[{"F": "x", "V": "v", "D": "end"}[kind]].symbol) for kind in inner.values()
        ]
        with builder.inside() as body:
            saved = dict(self.kinds)
            inside = [builder.symbol(f"{name}_in", TYPES[kind]) for name, kind in inner.items()]
            self.kinds |= {f"{name}_in": kind for name, kind in inner.items()}
            after = []
            for name, kind in inner.items():
                text = self.tree(kind, 2)
                if kind == "D":
                    text = f"{name}_in or ({text})"
                after.append(builder.let(f"{name}_after", text, TYPES[kind], named=False))
            self.kinds = saved
        carried = tuple(
            Carried(symbol, init, behind, builder.symbol(name, symbol.type))
            for symbol, init, behind, name in zip(inside, inits, after, inner, strict=True)
        )
        mask = inside[-1] if masked else None
        region = Region("repeat", tuple(body), carried, count=literal(3), mask=mask, origin=self.name)
        builder.statements.append(region)
        self.kinds |= inner
        return [(one.result, kind) for one, kind in zip(carried, inner.values(), strict=True) if one.result]

    def no_grad(self, builder: Builder, index: int) -> list[tuple[Symbol, str]]:
        with builder.inside() as body:
            saved = dict(self.kinds)
            for part in range(self.random.randint(1, 3)):
                self.let(builder, f"g{index}_{part}")
            self.kinds = saved
        if not body:
            return []
        made = builder.no_grad(body)
        return [(symbol, "") for symbol in made.values()]

    def tree(self, kind: str, depth: int) -> str:
        """A random expression of a kind."""
        pick = self.random.choice
        names = [name for name, known in self.kinds.items() if known == kind]
        if depth == 0 or self.random.random() < 0.2:
            return pick(names) if names else _LEAVES[kind]
        return _KIND.sub(lambda found: self.tree(found.group(), depth - 1), pick(_FORMS[kind]))


INPUTS = {"p": "P", "q": "P", "x": "F", "y": "F", "v": "V", "flag": "B", "r": "C", "end": "D", "n": "I"}

_KIND = re.compile(r"\b[FVBPCDI]\b")
_FORMS: dict[str, list[str]] = {
    "F": [
        "(F + F)",
        "(F * P)",
        "sin(F)",
        "where(B, F, F)",
        "sum(V)",
        "(V)[1]",
        "max(F, F)",
        "mean(V * V)",
        "(F - 0)",
        "(F * 1)",
        "where(True, F, F)",
        "uniform(F - 1.0, F + 1.0)",
        "where(P > 0.2, F, F)",
    ],
    "V": ["(V * F)", "(V - V)", "stack(F, F, F)", "clip(V, -1.0, 1.0)", "cumsum(V)"],
    "B": ["(F > F)", "(B or B)", "(not B)", "any(V > 0.2)", "(B or False)", "(B and True)", "(I >= I)"],
    "P": ["(P * P)", "(P + 1.0)", "(1.0 - 0.5)"],
    "C": ["(C + C)", "where(D, C, C)", "(C * P)", "where(D, 0.0, C)"],
    "D": ["(D or D)", "(C > C)", "(D and D)", "(D or False)"],
    "I": ["(I + 1)", "max(I, I)", "where(B, I, I)"],
}
