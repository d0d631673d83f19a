"""One call of a built-in while its type is inferred: its operands, its settings, and how to complain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Protocol

from specgen.diagnostics import Rule
from specgen.diagnostics.rules import expressions as rules
from specgen.expr.builtins.named_axes import among, axes_of_node, axes_that_differ, left_of
from specgen.expr.builtins.record import Builtin
from specgen.expr.conversions import common_dtype, convert
from specgen.expr.dtypes import INT_RANGES, holds, is_int, is_number
from specgen.expr.interval import Interval, full, store
from specgen.expr.sizes import ANY_DIMS, Dim, Dims, Rest, unlike
from specgen.expr.types import (
    LEVELS,
    NO_OPTIONS,
    DrawKind,
    DrawSite,
    Function,
    Level,
    Static,
    Type,
    Typed,
)
from specgen.values import dataclass, replace


class Context(Protocol):
    """What a call needs of the expression around it."""

    @property
    def float_dtype(self) -> str:
        """The dtype of draws that say none."""
        ...

    @property
    def prove(self) -> bool:
        """Whether a computed index without a proof that it is in range is a mistake; else the code checks it."""
        ...

    @property
    def for_any_key(self) -> bool:
        """Whether the expression is also compiled for keys and parameters that nobody knows."""
        ...

    def error(self, rule: Rule, start: int, end: int, message: str, help: str | None = None) -> None:
        """Report a mistake in the characters from `start` up to `end`."""
        ...

    def written(self, node: Typed) -> str:
        """The source text of a node."""
        ...

    def next_draw(self) -> str:
        """The name of the next draw."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """A call: `values` are its operands, `options` its settings by parameter name."""

    builtin: Builtin
    context: Context
    values: tuple[Typed, ...]
    options: dict[str, object] = field(default_factory=dict)
    function: Function | None = None
    start: int = 0
    end: int = 0

    def fail(self, rule: Rule, message: str, *, at: Typed | None = None, help: str | None = None) -> None:
        """Report a mistake at `at`, or at the whole call."""
        start, end = (self.start, self.end) if at is None else (at.start, at.end)
        self.context.error(rule, start, end, message, help)

    def written(self, node: Typed) -> str:
        """The source text of an operand."""
        return self.context.written(node)

    def node(
        self,
        type_: Type,
        args: Sequence[Typed] | None = None,
        *,
        static: Static | None = None,
        draw: DrawSite | None = None,
        **options: object,
    ) -> Typed:
        """The typed node of this call; its interval follows from the interval rule and the dtype."""
        operands = self.values if args is None else tuple(args)
        if any(arg.type.axes for arg in operands):
            every = axes_of_node(type_, operands)
            if (two := unlike(every)) is None:
                operands = tuple([among(arg, every) for arg in operands])
            else:
                self.fail(rules.SHAPE_MISMATCH, axes_that_differ(*two))
                every = operands[0].type.axes
            type_ = replace(type_, axes=left_of(every, operands[0].type.axes, options.get("axis")))

        def made(values: Interval) -> Typed:
            return Typed(
                self.builtin.name,
                type_,
                values,
                operands,
                options or NO_OPTIONS,
                self.start,
                self.end,
                static=static,
                builtin=self.builtin,
                function=self.function,
                site=draw,
            )

        if static is not None and not isinstance(static, str):
            interval = Interval(static, static)
        else:
            interval = self.builtin.interval(
                tuple([arg.interval for arg in operands]), made(full(type_.dtype))
            )
        # Numbers of Python are float64 whatever dtype they will take.
        stored = "float64" if type_.python and type_.dtype == "float32" else type_.dtype
        return made(store(interval, stored))

    def draw(
        self, kind: DrawKind, dims: Dims, dtype: str, low: int | None = None, high: int | None = None
    ) -> DrawSite:
        """A new random draw."""
        like = self.options.get("like")
        name = self.context.next_draw()
        if not isinstance(like, Typed):
            return DrawSite(name, kind, dims, dtype, low, high)
        symbol = like.symbol if like.op == "name" else None
        return DrawSite(name, kind, dims, dtype, low, high, symbol, like.type.col)

    def joined(self, values: Sequence[Typed], *, bools: bool = False) -> str | None:
        """The dtype that `values` have in common; reports what has none.

        Args:
            values: The operands.
            bools: Whether operands that are all truth values are allowed.

        """
        if bools and all(value.type.dtype == "bool" for value in values):
            return "bool"
        if bools and all(value.type.dtype == "str" for value in values):
            return "str"
        if bools and any(value.type.dtype == "any" for value in values):
            strong = {value.type.dtype for value in values if not value.type.python}
            if len(strong) == 1:
                return "any"
        for value in values:
            if not is_number(value.type.dtype):
                self._not_a_number(value)
                return None
        dtype = common_dtype(values)
        if dtype is None:
            self.fail(rules.WRONG_DTYPE, "these have no dtype in common")
            return None
        return dtype if self._literals_fit(values, dtype) else None

    def _not_a_number(self, value: Typed) -> None:
        text = self.written(value)
        kinds = {"bool": "a truth value", "str": "a word", "any": "of any dtype"}
        kind = kinds.get(value.type.dtype, f"a {value.type.dtype}")
        verb = "compared" if self.builtin.name in ("<", "<=", ">", ">=", "==", "!=") else "calculated with"
        help = f"write where({text}, 1.0, 0.0)" if value.type.dtype == "bool" else None
        if help is not None and value.type.dims:
            help = f"the class of a one-hot is argmax({text}); for numbers write where({text}, 1.0, 0.0)"
        self.fail(
            rules.WRONG_DTYPE, f"`{text}` is {kind} and cannot be {verb} as a number", at=value, help=help
        )

    def _literals_fit(self, values: Sequence[Typed], dtype: str) -> bool:
        sound = True
        if not is_int(dtype) and all(value.type.python for value in values):
            return sound  # numbers among themselves are float64
        for value in values:
            if not value.type.python or value.static is None or isinstance(value.static, str):
                continue
            if not holds(dtype, value.static):
                if dtype in INT_RANGES:
                    low, high = INT_RANGES[dtype]
                    message = f"{value.static} is outside {dtype} [{low}, {high}]"
                    help = "convert the tensor first, as in int64(x)"
                else:
                    message = f"{value.static:g} is larger than {dtype} holds: it would be infinite"
                    help = "convert the tensor first, as in float64(x), or write inf"
                self.fail(rules.LITERAL_RANGE, message, at=value, help=help)
                sound = False
        return sound

    def cast(self, values: Sequence[Typed], dtype: str) -> tuple[Typed, ...]:
        """`values` with every tensor converted to `dtype`; numbers take the dtype that they meet."""
        return tuple(
            value if value.type.python or value.several else convert(value, dtype) for value in values
        )

    def spread(self, values: Sequence[Typed], shape: Type) -> tuple[Typed, ...]:
        """`values` with one number of each environment made ready to meet dimensions that nobody knows."""
        rest = shape.rest
        if rest is None:
            return tuple(values)
        return tuple(
            value
            if rest.rank is None or value.type.dims or value.type.level != "batch"
            else _spread(value, shape.dims)
            for value in values
        )

    def unified(self, values: Sequence[Typed]) -> Type | None:
        """The shape and level of an elementwise operation; its dtype is left `bool`.

        A scalar goes with everything. Shapes with dimensions must be equal but for dimensions that
        a `None` made; a constant that has such dimensions meets the last ones of a value. Reports shapes that do not
        fit.
        """
        level = highest(values)
        ranked = [value for value in values if value.type.dims != ()]
        if not ranked:
            return Type("bool", (), level)
        if any(value.type.open for value in ranked):
            return self._unified_open(ranked, level)
        most = max(value.type.rank for value in ranked)
        fewer = [value for value in ranked if value.type.rank < most and _meets_last(value)]
        first, *others = [value for value in ranked if all(value is not one for one in fewer)]
        dims, broadcastable = list(first.type.sizes), set(first.type.broadcastable)
        for value in others:
            other = value.type.sizes
            if len(other) != len(dims):
                self._mismatch(first, value)
                return None
            for axis, (here, there) in enumerate(zip(dims, other, strict=True)):
                open_here, open_there = axis in broadcastable, axis in value.type.broadcastable
                if open_there:
                    continue
                if open_here:
                    dims[axis] = there
                    broadcastable.discard(axis)
                elif here != there:
                    self._mismatch(first, value)
                    return None
        shape: Type | None = Type("bool", tuple(dims), level, broadcastable=frozenset(broadcastable))
        for value in fewer:
            shape = None if shape is None else met(shape, value.type)
            if shape is None:
                self._mismatch(first, value)
                return None
        return shape

    def _unified_open(self, ranked: Sequence[Typed], level: Level) -> Type | None:
        """The shape of values of which some have dimensions that nobody knows: constants meet their last ones."""
        first = next(value for value in ranked if value.type.open)
        joined: Type | None = first.type
        for value in ranked:
            assert joined is not None
            if value.type.open:
                joined = joined_open(joined, value.type)
            else:
                joined = met(joined, value.type) if _meets_last(value) else None
            if joined is None:
                self._mismatch(first, value)
                return None
        assert joined is not None
        dims, broadcastable = joined.dims, joined.broadcastable
        for value in self.values:
            rest = Type("bool", dims).rest
            if rest and rest.of and not rest.rank and not value.type.dims and value.type.level == "batch":
                self._mismatch(first, value)
                return None
        return Type("bool", dims, level, broadcastable=broadcastable)

    def _mismatch(self, a: Typed, b: Typed) -> None:
        shapes = f"`{self.written(a)}` is {a.type} and `{self.written(b)}` is {b.type}"
        help = "make the shapes equal, or say where a dimension is new: x[:, None]"
        single = next((one for one in (a, b) if only_element(one, self.written(one)) is not None), None)
        if single is not None:
            help = f"write {only_element(single, self.written(single))} for the only element"
        if a.type.rest is not None and b.type.rest is not None and a.type.rest.of != b.type.rest.of:
            shapes = f"`{self.written(a)}` and `{self.written(b)}` have dimensions of their own"
            help = (
                f"declare one of them with the dimensions of the other: {b.type.dtype}[...{a.type.rest.of}]"
            )
        self.fail(rules.SHAPE_MISMATCH, f"shapes do not fit: {shapes}", help=help)


def only_element(value: Typed, written: str) -> str | None:
    """How the element is written of a value that has one; None if it has several, or no dimensions."""
    dims = value.type.dims
    if not dims or value.type.open or any(size != 1 for size in dims):
        return None
    zeros = ", ".join("0" for _ in dims)
    return f"{written if value.op in ('name', 'call', 'index') else f'({written})'}[{zeros}]"


def _spread(value: Typed, dims: Dims) -> Typed:
    """One number of each environment, with as many new dimensions behind the batch as `dims` has."""
    rest = next(size for size in dims if isinstance(size, Rest))
    assert rest.rank is not None
    rank = Typed("name", Type("int64", (), "ctor"), Interval(0, 64), text=rest.rank.name, symbol=rest.rank)
    options = {"rank": rank, "more": len(dims) - 1 - rest.named}
    kind = Type(value.type.dtype, dims, value.type.level)
    return Typed("spread", kind, value.interval, (value,), options, value.start, value.end)


def _meets_last(value: Typed) -> bool:
    """Whether a value says by its new dimensions that it meets the last ones of a value with more of them."""
    return value.type.level != "batch" and bool(value.type.broadcastable)


def joined_open(a: Type, b: Type) -> Type | None:
    """The shape of two values with a rest, where they can be the same; what is not exact is checked later."""
    one, two = a.rest, b.rest
    assert one is not None
    assert two is not None
    if not one.of or not two.of:
        if one.of or (not two.of and a.dims == b.dims):
            return a
        return b if two.of else replace(a, dims=ANY_DIMS, broadcastable=frozenset())
    if one.of != two.of or len(a.dims) - one.named != len(b.dims) - two.named:
        return None
    if len(a.front) == len(b.front) and len(a.back) == len(b.back):
        sizes = _met_sizes(a.dims, a.broadcastable, b.dims, b.broadcastable)
        if sizes is not None or (one.exact and two.exact):
            return None if sizes is None else replace(a, dims=sizes[0], broadcastable=sizes[1])
    elif one.exact and two.exact:
        return None
    rest = replace(one, exact=False, named=one.named - len(a.dims) + 1)
    return replace(a, dims=(rest,), broadcastable=frozenset())


def _met_sizes(
    dims: Dims, broadcastable: frozenset[int], others: Dims, open: frozenset[int]
) -> tuple[Dims, frozenset[int]] | None:
    """Dimensions that meet one by one, where only those that a `None` made are another size; None where they differ."""
    made: list[Dim | Rest] = []
    for place, (here, there) in enumerate(zip(dims, others, strict=True)):
        if isinstance(here, Rest) and isinstance(there, Rest):
            made.append(here if here.exact else there)
        elif here == there or place in open:
            made.append(here)
        elif place in broadcastable:
            made.append(there)
        else:
            return None
    return tuple(made), broadcastable & open


def met(value: Type, constant: Type) -> Type | None:
    """The shape of a value with a rest and a constant that its last dimensions meet; None where it does not fit."""
    back, sizes = value.back, constant.sizes
    if len(sizes) > len(back):
        return None
    first = len(value.dims) - len(sizes)
    own = frozenset(place - first for place in value.broadcastable if place >= first)
    found = _met_sizes(back[len(back) - len(sizes) :], own, sizes, constant.broadcastable)
    if found is None:
        return None
    ahead = frozenset(place for place in value.broadcastable if place < first)
    left = frozenset(place + first for place in found[1])
    return replace(value, dims=(*value.dims[:first], *found[0]), broadcastable=ahead | left)


def highest(values: Sequence[Typed]) -> Level:
    """The highest level: one batched operand makes the result batched."""
    return max((value.type.level for value in values), key=LEVELS.index, default="lit")
