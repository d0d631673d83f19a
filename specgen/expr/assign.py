"""Whether an expression may be stored into a key of a declared type."""

from __future__ import annotations

from specgen.diagnostics import Rule, Sink
from specgen.diagnostics.rules import expressions as rules
from specgen.diagnostics.rules import specs as spec_rules
from specgen.expr.builtins.site import joined_open, only_element
from specgen.expr.dtypes import holds, is_abstract, is_float, is_int, join
from specgen.expr.interval import Interval
from specgen.expr.ranges import add, multiply, negate, subtract
from specgen.expr.sizes import product
from specgen.expr.source_text import SourceText
from specgen.expr.spec_types import SpecType, flatten
from specgen.expr.types import Type, Typed


def check_assignable(typed: Typed, target: SpecType, source: SourceText, sink: Sink, *, name: str) -> bool:
    """Whether `typed` may be stored into the key `name` of type `target`; `sink` gets the reasons if not.

    A narrower dtype widens (integers into floats, float32 into float64), a scalar fills a vector
    unless it is a random draw, and values that provably leave the domain are an error.
    """
    check = _Check(typed, target, source, sink, name)
    return check.dtype() and check.shape() and check.domain()


class _Check:
    def __init__(self, typed: Typed, target: SpecType, source: SourceText, sink: Sink, name: str) -> None:
        self._typed = typed
        self._target = target
        self._source = source
        self._sink = sink
        self._name = name

    def dtype(self) -> bool:
        got, wanted = self._typed.type.dtype, self._target.dtype
        text = self._text
        static = self._typed.static
        if is_float(wanted) and isinstance(static, int | float) and not holds(wanted, static):
            message = f"{static:g} is larger than {wanted} holds: it would be infinite"
            return self._fail(rules.LITERAL_RANGE, message, "write inf if infinity is meant")
        if got == wanted or is_abstract(wanted):
            return True
        if got == "str" or wanted == "str":
            return self._fail(rules.WRONG_DTYPE, f"expression is {got}, `{self._name}` is {wanted}")
        if got == "bool":
            numbers = "1.0, 0.0" if is_float(wanted) else "1, 0"
            help = f"write where({text}, {numbers})"
            return self._fail(rules.BOOL_ASSIGNED, f"expression is bool, `{self._name}` is {wanted}", help)
        if wanted == "bool":
            return self._fail(
                rules.WRONG_DTYPE,
                f"expression is {got}, `{self._name}` is bool",
                self._one_hot() or f"write {_not_zero(text)}",
            )
        if is_abstract(got):
            # A pattern is converted when it is stored; integers could not hold its fractions.
            return is_float(wanted) or self._narrowed(got, wanted)
        if self._typed.type.python and got != "float64":
            return self._number(got, wanted)
        if join(got, wanted) == wanted:
            return True
        return self._narrowed(got, wanted)

    def _number(self, got: str, wanted: str) -> bool:
        if is_float(got) and is_int(wanted):
            return self._narrowed(got, wanted)
        static = self._typed.static
        if is_int(wanted) and isinstance(static, int):
            low, high = (
                SpecType("unbounded", wanted).interval.low,
                SpecType("unbounded", wanted).interval.high,
            )
            if not low <= static <= high:
                return self._fail(rules.LITERAL_RANGE, f"{static} is outside {wanted} [{low}, {high}]")
        return True

    def _narrowed(self, got: str, wanted: str) -> bool:
        message = f"`{self._name}` is {wanted} but its expression is {got}"
        if culprit := _widest_name(self._typed, got):
            message += f" (from `{self._source.text[culprit.start : culprit.end]}`)"
        return self._fail(spec_rules.NARROWED, message, f"write {wanted}({self._text})")

    def shape(self) -> bool:
        got, wanted = self._typed.type.dims, self._target.dims
        if self._fills_open(self._typed.type, self._target.type()):
            whole = self._text if self._typed.op == "name" else f"({self._text})"
            help = f"write {whole} * ones_like(x), with a role or an output of these dimensions for x"
            message = f"expression is one number of each row, `{self._name}` is {self._target}"
            return self._fail(rules.SHAPE_MISMATCH, message, help)
        if got == wanted or self._fits_open(self._typed.type, self._target.type()):
            return True
        if got == ():
            slots = product(self._target.type().sizes) if self._typed.draws else 1
            if slots != 1:
                shape = wanted[0] if len(wanted) == 1 else wanted
                message = f"one draw, {slots} slots: `{self._name}` is {self._target}"
                return self._fail(rules.ONE_DRAW, message, f"say shape={shape} in the draw")
            return True
        message = f"expression is {self._typed.type}, `{self._name}` is {self._target}"
        return self._fail(rules.SHAPE_MISMATCH, message, self._one_hot() or self._element())

    def _element(self) -> str | None:
        """How an expression of one element is written as the number that its key is."""
        if self._target.dims or self._target.type().open:
            return None
        dims = self._typed.type.dims
        wide = [node for node in self._typed.nodes if node.type.dims and node.op == "name"]
        at = wide[0] if wide and all(one.text == wide[0].text for one in wide) else self._typed
        written = only_element(at, self._source.text[at.start : at.end]) if at.type.dims == dims else None
        return None if written is None else f"write {written}, the only element"

    def _fills_open(self, got: Type, wanted: Type) -> bool:
        """Whether one number of each row would have to fill the dimensions of a role, which nobody knows."""
        return not got.dims and got.level == "batch" and wanted.rest is not None and bool(wanted.rest.of)

    def _fits_open(self, got: Type, wanted: Type) -> bool:
        """Whether one of them has dimensions that nobody knows, and they may be those of the other."""
        if got.rest is not None and wanted.rest is not None:
            return joined_open(wanted, got) is not None
        rest = wanted.rest or got.rest
        return rest is not None and (not rest.of or not got.dims)

    def domain(self) -> bool:
        if self._target.kind in ("pattern", "like", "unbounded", "text"):
            return True
        allowed = self._target.interval
        if self._by_component() is False:
            return False
        got = self._typed.interval
        if got.disjoint(allowed):
            return self._outside(self._typed, got, allowed)
        reached = attained(self._typed)
        if reached is not None and not reached.within(allowed):
            return self._outside(self._typed, reached, allowed)
        return True

    def _by_component(self) -> bool | None:
        """Each component of a stacked vector against its own bounds; None when that does not apply."""
        low, high = self._target.low, self._target.high
        parts = self._typed.args
        if self._typed.op != "stack" or self._target.dims != (len(parts),):
            return None
        if not isinstance(low, tuple) and not isinstance(high, tuple):
            return None
        lows = list(flatten(low)) if isinstance(low, tuple) else [low] * len(parts)
        highs = list(flatten(high)) if isinstance(high, tuple) else [high] * len(parts)
        for part, least, most in zip(parts, lows, highs, strict=True):
            if not isinstance(least, int | float) or not isinstance(most, int | float):
                continue
            allowed = SpecType("bounded", self._target.dtype, (), least, most).interval
            if part.interval.disjoint(allowed):
                return self._outside(part, part.interval, allowed)
        return True

    def _outside(self, at: Typed, got: Interval, allowed: Interval) -> bool:
        values = (
            f"is {_shown(got.low)}" if got.fixed else f"goes from {_shown(got.low)} to {_shown(got.high)}"
        )
        message = f"expression {values}, `{self._name}` is declared in [{_shown(allowed.low)}, {_shown(allowed.high)}]"
        help = f"widen the domain, or write clip({self._text}, {_shown(allowed.low)}, {_shown(allowed.high)})"
        if self._target.kind in ("onehot", "multi_onehot"):
            help = self._one_hot() or "a one-hot vector has a single 1, and is 0 elsewhere"
        span = self._source.span_of(at.start, at.end)
        self._sink.add(spec_rules.OUTSIDE_DOMAIN.at(span, message, help=help))
        return False

    def _one_hot(self) -> str | None:
        """How a class, or a one-hot vector of other classes, is written for a one-hot target."""
        dims = self._target.dims
        if self._target.kind != "onehot" or not dims:
            return None
        made = next((node for node in self._typed.nodes if node.op == "one_hot"), None)
        index = made.args[0] if made is not None else self._typed
        if index.type.dims not in ((), dims[:-1]) or not (made or is_int(index.type.dtype)):
            return f"a one-hot vector of {dims[-1]} classes has {dims[-1]} places"
        text = self._source.text[index.start : index.end]
        return f"write one_hot({text}, {dims[-1]}){' != 0' if self._target.dtype == 'bool' else ''}"

    @property
    def _text(self) -> str:
        return self._source.text[self._typed.start : self._typed.end]

    def _fail(self, rule: Rule, message: str, help: str | None = None) -> bool:
        span = self._source.span_of(self._typed.start, self._typed.end)
        self._sink.add(rule.at(span, message, help=help))
        return False


def attained(typed: Typed) -> Interval | None:
    """The values that really occur, for literals, draws and sums and products of them; else None.

    An interval may hold more than what occurs, so that it leaves a domain proves nothing. The ends
    of a draw do occur, and one draw does not depend on another.
    """
    if typed.static is not None and not isinstance(typed.static, str | bool):
        return Interval(typed.static, typed.static)
    if typed.op == "cast":
        return attained(typed.args[0])
    if typed.op == "site":
        return typed.interval if typed.site is not None and typed.site.kind != "normal" else None
    parts = [attained(arg) for arg in typed.args]
    found = tuple(part for part in parts if part is not None)
    if not parts or len(found) < len(parts):
        return None
    if typed.op == "uniform":
        return Interval(found[0].low, found[1].high)
    if typed.op in ("randint", "permutation"):
        return typed.interval
    rules_ = {"+": add, "-": subtract, "*": multiply, "neg": negate}
    rule = rules_.get(typed.op)
    return None if rule is None else rule(found, typed)


def _widest_name(typed: Typed, dtype: str) -> Typed | None:
    """The first name whose dtype made the whole expression `dtype`."""
    if typed.op == "name" and typed.type.dtype == dtype:
        return typed
    for part in typed.parts:
        if found := _widest_name(part, dtype):
            return found
    return None


def _not_zero(text: str) -> str:
    return f"{text} != 0"


def _shown(value: float) -> str:
    return f"{value:.6g}"
