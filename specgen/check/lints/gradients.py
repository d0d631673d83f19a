"""Which networks the gradient of an expression of a loss reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from specgen.check.losses.forward import (
    Alias,
    Choice,
    Chosen,
    Draw,
    DrawnLogProb,
    Forward,
    ForwardValue,
    Gradient,
    Joint,
    NetworkCall,
    Noise,
    Output,
    Read,
    Split,
)
from specgen.check.model import Statement
from specgen.expr import Expr
from specgen.expr.tree import Binary, Call, Compare, Index, Literal, Logic, Name, children

_NO_GRADIENT = frozenset(
    {
        "stop_grad",
        "argmax",
        "argmin",
        "argsort",
        "one_hot",
        "floor",
        "ceil",
        "round",
        "sign",
        "any",
        "all",
        "bool",
    }
    | {"uint8", "int8", "int16", "int32", "int64"}
)
"""Functions through which no gradient goes."""

_SELECTING = {"where": 1, "gather": 0}
"""Functions whose other arguments only choose: the first that gets a gradient, to the last or itself."""


class Gradients:
    """The network calls behind the values of one loss.

    Args:
        let: its intermediate values.
        forward: what its networks compute.
    """

    def __init__(self, let: Iterable[Statement], forward: Iterable[Forward]) -> None:
        self._let = {statement.target: statement.expr for statement in let}
        self._forward: dict[str, tuple[NetworkCall, ...]] = {}
        self._trained: dict[str, tuple[NetworkCall, ...]] = {}
        self._values: dict[str, ForwardValue] = {}
        for made in forward:
            self._values[made.name] = made.value
            self._forward[made.name] = tuple(self._calls_of(made.value, trained=False))
            self._trained[made.name] = tuple(self._calls_of(made.value, trained=True))

    def calls(self, names: Collection[str] | None = None) -> tuple[NetworkCall, ...]:
        """The network calls that `names` stand for; all without an argument."""
        wanted = self._forward if names is None else [name for name in self._forward if name in names]
        return tuple(call for name in wanted for call in self._forward[name])

    def of(self, expr: Expr, record: str | None = None) -> frozenset[NetworkCall]:
        """The calls with trained parameters that a gradient of `expr` reaches, perhaps of one record only."""
        found = frozenset(call for name in self._names(expr) for call in self._trained.get(name, ()))
        return frozenset(call for call in found if call.variant == "live" and record in (None, call.record))

    def reaches(self, expr: Expr, names: Collection[str]) -> list[str]:
        """Those of some values that a gradient of `expr` reaches."""
        found = self._names(expr)
        return [name for name in names if name in found]

    def trained(self, expr: Expr) -> frozenset[str]:
        """The names of networks whose parameters a gradient of `expr` reaches, and all others that it goes through."""
        return frozenset(call.network for call in self.of(expr)) | self._names(expr)

    def passes(self, expr: Expr, target: str, part: Expr) -> bool:
        """Whether a gradient of `expr` goes through `part` of the statement of `target`, a value or a term."""
        own = self._let.get(target)
        if own is None:
            return any(below is part for below in self._followed(expr))
        inside = any(below is part for below in self._followed(own))
        return inside and target in self._names(expr)

    def _calls_of(self, value: ForwardValue, *, trained: bool) -> Iterator[NetworkCall]:
        """The network calls behind a value of the class; those that its gradient reaches."""
        known = self._trained if trained else self._forward
        match value:
            case NetworkCall():
                yield value
                parts: tuple[ForwardValue, ...] = tuple(part for _, part in value.replaced)
            case Alias(name) | DrawnLogProb(name):
                yield from known.get(name, ())
                made = self._values.get(name)
                # the log-probability of a draw without gradients has one all the same
                parts = (
                    (made.distribution,) if isinstance(value, DrawnLogProb) and isinstance(made, Draw) else ()
                )
            case Draw():
                parts = () if trained and value.kind == "sample" else (value.distribution,)
            case Read():
                parts = (value.distribution, *value.given)
            case Joint():
                parts = value.calls
            case Split():
                parts = (value.run,)
            case Output() | Gradient():
                parts = (value.of,)
            case Noise():
                parts = ()
            case Chosen():
                parts = (value.value,)
            case Choice():
                parts = (value.then, value.otherwise)
            case _:
                parts = ()
        for part in parts:
            yield from self._calls_of(part, trained=trained)

    def _names(self, expr: Expr) -> frozenset[str]:
        """The names through which a gradient of `expr` goes, those behind values included."""
        found: set[str] = set()
        pending = [expr]
        while pending:
            for part in self._followed(pending.pop()):
                name = part.function if isinstance(part, Call) else part
                if isinstance(name, Name) and name.path not in found:
                    found.add(name.path)
                    if name.path in self._let:
                        pending.append(self._let[name.path])
        return frozenset(found)

    def _followed(self, expr: Expr) -> Iterator[Expr]:
        """`expr` and what is below it that gets a gradient."""
        if isinstance(expr, Literal | Compare | Logic) or (isinstance(expr, Binary) and expr.op == "//"):
            return
        yield expr
        below: tuple[Expr, ...] = children(expr)
        if isinstance(expr, Call):
            name = expr.function.path
            if name in _NO_GRADIENT:
                return
            if name in _SELECTING:
                first = _SELECTING[name]
                below = expr.args[first:] if first else expr.args[:1]
        elif isinstance(expr, Index):
            below = (expr.value,)
        for part in below:
            yield from self._followed(part)
