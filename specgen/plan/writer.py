"""Printing a run of statements as the body of a pure function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specgen.check.model import Statement, identifier
from specgen.diagnostics import Sink
from specgen.expr import Binding, DrawSite, Function, SpecType, Type, Typed, infer, store, to_torch
from specgen.plan.model import Line

TORCH_DTYPES = {
    "bool": "torch.bool",
    "uint8": "torch.uint8",
    "int8": "torch.int8",
    "int16": "torch.int16",
    "int32": "torch.int32",
    "int64": "torch.int64",
    "float32": "torch.float32",
    "float64": "torch.float64",
}


class Writer:
    """Turns checked statements into lines, inferring each where it now stands.

    The same statement can be printed in several functions, where its operands have other texts and
    other stored forms (a done flag is a column in a record and plain inside the step).

    Attributes:
        place: a tensor that the function has, on whose device constants are made that read no tensor.
        placed: whether there are such constants, so that the function needs `place`.
    """

    def __init__(
        self,
        scope: Mapping[str, Binding],
        functions: Mapping[str, Function],
        place: Binding | None = None,
    ) -> None:
        self.scope: dict[str, Binding] = dict(scope)
        self.functions = functions
        self.place = place
        self.placed = False
        self.lines: list[Line] = []
        self.draws: list[DrawSite] = []

    def typed(self, statement: Statement) -> Typed:
        """Infer a statement in the present scope; the checker has proved that it is right.

        An index that relies on a domain which the state may leave is checked when the code runs.
        """
        sink = Sink()
        prefix = f"draw_{identifier(statement.target)}"
        taken = {site.name for site in self.draws}
        while True:
            typed = infer(
                statement.expr,
                self.scope,
                statement.source,
                sink,
                functions=self.functions,
                draw_prefix=prefix,
                prove=False,
            )
            if typed is None:
                raise AssertionError(
                    f"checked statement {statement.path} no longer types: {list(map(str, sink.items))}"
                )
            if taken.isdisjoint(site.name for site in typed.draws):
                self.draws += typed.draws
                return typed
            prefix += "_"  # the second draw for `x` is called as the first for `x_2` is

    def assign(
        self,
        statement: Statement,
        *,
        type: Type | None = None,
        name: str | None = None,
        like: Binding | None = None,
        fills: tuple[int, ...] = (),
        column: bool = False,
    ) -> Typed:
        """Add `name = expression`; a declared `type` casts, and fills the batch when the value has none.

        A single value is repeated along the dimensions that it `fills`. A `column` has the trailing 1 that it is
        stored with, if it is a value of each environment.
        """
        typed = self.typed(statement)
        name = name or identifier(statement.target)
        if fills and typed.type.dims == ():
            type = Type(typed.type.dtype, fills)
        if column and typed.type.level == "batch":
            type = replace(type or typed.type, col=True)
        if type is None:
            constant = typed.static is None and typed.type.level == "const" and not _reads_tensor(typed)
            self.placed |= constant
            text = to_torch(typed, like=self.place if constant else None)
            binding = Binding(name, typed.type, typed.interval, static=typed.static, what="value")
            if typed.static is not None:
                # a value known at build is printed where it is read
                self.scope[statement.target] = binding
                return typed
        else:
            text = stored_text(typed, type, like)
            binding = Binding(name, type, store(typed.interval, type.dtype), what="value")
        self.lines.append(Line(f"{name} = {text}", statement.path))
        self.scope[statement.target] = binding
        return typed


def _reads_tensor(typed: Typed) -> bool:
    """Whether a tensor is read, on whose device a new one is made."""
    own = typed.op in ("name", "site") and not typed.type.python
    return own or any(_reads_tensor(part) for part in typed.parts)


def stored_text(typed: Typed, type: Type, like: Binding | None = None) -> str:
    """The text of a value in the dtype, shape and stored form of `type`, with batch dimensions.

    `like` is a batched tensor for values that read none: it tells the batch shape and the device.
    """
    text = to_torch(typed, cast=type.dtype, dims=type.dims, col=type.col, like=like)
    spread = typed.type.level != "batch" or typed.type.dims != type.dims
    # expanded, all rows are one in memory: writing into one of them would write into all
    return f"{text}.clone()" if spread and ".expand(" in text and not typed.type.python else text


def draw_text(site: DrawSite) -> str:
    """The adapter's call that makes a draw."""
    dims = f"({', '.join(map(str, site.dims))}{',' if len(site.dims) == 1 else ''})"
    dtype = TORCH_DTYPES[site.dtype]
    if site.kind == "randint":
        return f"self._randint({site.low}, {site.high}, {dims}, {dtype})"
    return f"self._{site.kind}({dims}, {dtype})"


def shape_text(batch: str, dims: tuple[int, ...]) -> str:
    """A shape for a docstring: `[*batch, 3]`."""
    return f"[{', '.join([batch, *map(str, dims)])}]"


def domain_text(spec: SpecType) -> str:
    """The domain of a spec in words, or nothing when it is everything."""
    if spec.kind == "categorical":
        return f" in 0..{(spec.n or 0) - 1}"
    if spec.kind == "onehot":
        return " one-hot"
    if spec.kind == "multi_categorical":
        return " in " + ", ".join(f"0..{count - 1}" for count in spec.nvec)
    if spec.kind == "multi_onehot":
        return f" one-hot {' + '.join(map(str, spec.nvec))}"
    if spec.kind == "bounded":
        return f" in [{bound_text(spec.low)}, {bound_text(spec.high)}]"
    return ""


def bound_text(bound: object) -> str:
    """A bound of a domain in words."""
    if isinstance(bound, (list, tuple)):
        return f"[{', '.join(map(bound_text, bound))}]"
    if isinstance(bound, float):
        return f"{bound:g}"
    return "2**63 - 1" if bound == 2**63 - 1 else str(bound)
