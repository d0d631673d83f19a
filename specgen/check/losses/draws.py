"""The draws of losses that are of no distribution: noise in the shape of a value, and a choice among members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from specgen.check.losses.distributions import UNTYPED
from specgen.check.losses.forward import Bernoulli, Chosen, Count, ForwardValue, Noise
from specgen.check.losses.values import ForwardValues
from specgen.diagnostics import Rule, Sink
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.expr import Binding, SourceText, Type, infer, tree
from specgen.expr.dtypes import is_float
from specgen.expr.tree import Expr
from specgen.expr.types import Distribution
from specgen.values import dataclass

DRAW_FUNCTIONS: Final = {
    "normal_like": "normal_like(x)",
    "bernoulli": "bernoulli(p)",
    "uniform": "uniform(low, high, like=x, n=k)",
    "choose": "choose(x, k, axis=ensemble)",
}
"""How the functions are called that draw without a distribution."""

_TAKES: Final = {
    "normal_like": (1, (), ()),
    "bernoulli": (1, (), ()),
    "uniform": (2, ("like",), ("n",)),
    "choose": (2, ("axis",), ()),
}
"""How many arguments they take by place, and the names of those that they need besides, and of those that they may take."""


def is_draw(call: tree.Call) -> bool:
    """Whether a call is of one of these functions."""
    return call.function.path in DRAW_FUNCTIONS


def drawn_for(call: tree.Call) -> tuple[Expr, ...]:
    """The value in whose shape a call of one of these functions draws, or of whose members it chooses some; perhaps none."""
    if call.function.path == "bernoulli":
        return ()
    if call.function.path != "uniform":
        return call.args[:1]
    return tuple(one.value for one in call.keywords if one.name == "like")


@dataclass(frozen=True)
class DrawReader:
    """Reads draws in one expression.

    Attributes:
        scope: what expressions read.
        source: the text of the expression.
        sink: takes every mistake.
    """

    scope: Mapping[str, Binding]
    source: SourceText
    sink: Sink

    def draw(
        self, call: tree.Call, value: ForwardValue | None, values: ForwardValues, site: int
    ) -> Noise | Bernoulli | Chosen | None:
        """The draw that a call is; None after reporting a mistake.

        Args:
            call: the call.
            value: what it is drawn for; None where that is computed by expressions.
            values: what is known of the values of the class.
            site: the number of the draw.
        """
        name = call.function.path
        takes, needs, may = _TAKES[name]
        given = [one.name for one in call.keywords]
        extra = [one for one in given if one not in needs]
        twice = len(given) > len(set(given))
        if len(call.args) != takes or twice or not set(needs) <= set(given) or not set(extra) <= set(may):
            self._fail(value_rules.DRAW, call, f"`{name}` is called as {DRAW_FUNCTIONS[name]}", None)
            return None
        if name == "bernoulli":
            return self._bernoulli(call.args[0], site)
        if value is None:
            message = f"`{name}` takes data, or what a network or a draw gives, and this is computed of them"
            self._fail(value_rules.DRAW, drawn_for(call)[0], message, None)
            return None
        type = values.type_of(value)
        return (
            self._chosen(call, value, type, site)
            if name == "choose"
            else self._noise(call, value, type, site)
        )

    def _noise(self, call: tree.Call, value: ForwardValue, type: Type, site: int) -> Noise | None:
        (like,) = drawn_for(call)
        if isinstance(type, Distribution) or not is_float(type.dtype):
            what = "has no type" if type.dtype == UNTYPED.dtype else f"is {type}"
            message = f"noise has the shape of floating-point numbers, `{self._written(like)}` {what}"
            self._fail(value_rules.DRAW, like, message, None)
            return None
        if call.function.path == "normal_like":
            return Noise(value, site)
        count = self.count(next((one.value for one in call.keywords if one.name == "n"), None), "n")
        ends = [self._end(end) for end in call.args]
        known = [end for end in ends if end is not None]
        if count is False or len(known) < len(ends):
            return None
        low, high = known
        if low.typed.interval.low > high.typed.interval.high:
            first, last = map(self._written, call.args)
            message = f"the draw is from `low` up to `high`, and `{first}` is greater than `{last}`"
            self._fail(value_rules.DRAW, call.args[1], message, f"write uniform({last}, {first}, …)")
            return None
        return Noise(value, site, (low, high), count)

    def _end(self, expr: Expr) -> Count | None:
        """An end of what is drawn, a number of parameters; None after reporting that it is none."""
        typed = infer(expr, self.scope, self.source, self.sink)
        if typed is None:
            return None
        if typed.type.python and typed.type.dtype not in ("bool", "str"):
            return Count(expr, self.source, typed)
        message = f"an end of a draw is a number, or computed from parameters; `{self._written(expr)}` is {typed.type}"
        self._fail(value_rules.DRAW, expr, message, "draw between 0 and 1, and scale that")
        return None

    def _chosen(self, call: tree.Call, value: ForwardValue, type: Type, site: int) -> Chosen | None:
        axis = call.keywords[0].value
        if not isinstance(axis, tree.Name) or axis.path != "ensemble":
            self._fail(value_rules.DRAW, axis, "`choose` chooses members: axis=ensemble", None)
            return None
        if "ensemble" not in map(str, type.axes):
            message = f"`{self._written(call.args[0])}` is {type}: it has no axis `ensemble`"
            self._fail(value_rules.DRAW, call.args[0], message, None)
            return None
        count = self.count(call.args[1], "k")
        return None if count is False or count is None else Chosen(value, count, site)

    def _bernoulli(self, expr: Expr, site: int) -> Bernoulli | None:
        """The truth values that a call draws for the samples; None after reporting a mistake."""
        typed = infer(expr, self.scope, self.source, self.sink)
        if typed is None:
            return None
        if typed.type.python and typed.interval.low >= 0 and typed.interval.high <= 1:
            return Bernoulli(Count(expr, self.source, typed), site)
        message = f"`{self._written(expr)}` is not known to be a probability, a number of parameters"
        help = "declare it: `params: {fraction: {default: 0.25, min: 0, max: 1}}`"
        self._fail(value_rules.DRAW, expr, message, help)
        return None

    def count(self, expr: Expr | None, name: str) -> Count | Literal[False] | None:
        """A number of draws, the argument `name`; False after reporting that it is none."""
        if expr is None:
            return None
        typed = infer(expr, self.scope, self.source, self.sink)
        if typed is None:
            return False
        if typed.type.dtype == "int64" and typed.type.python and typed.interval.low >= 1:
            return Count(expr, self.source, typed)
        message = (
            f"`{name}` is how many are drawn, a whole number of at least 1, and this is not known to be one"
        )
        help = "declare it: `params: {n_draws: {default: 1, min: 1}}`"
        self._fail(value_rules.DISTRIBUTION if name == "n" else value_rules.DRAW, expr, message, help)
        return False

    def _written(self, expr: Expr) -> str:
        return self.source.text[expr.start : expr.end]

    def _fail(self, rule: Rule, at: Expr, message: str, help: str | None) -> None:
        self.sink.add(rule.at(self.source.span_of(at.start, at.end), message, help=help))
