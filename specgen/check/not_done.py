"""Bounds of the new state after a step that is not done: neither `terminated` nor `truncated` is true."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from specgen.check.statements import SectionResult
from specgen.diagnostics import Sink
from specgen.expr import NUMBERS, Expr, Function, Interval, SourceText, infer
from specgen.expr.builtins.record import Builtin
from specgen.expr.dtypes import is_int
from specgen.expr.tree import Call, Compare, Logic, Name
from specgen.program.program import ENDING_FLAGS
from specgen.values import dataclass

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_EXACT_INTEGERS = 2.0**24
"""Up to here integers are exact in every dtype that they are compared in."""


def bounds_if_not_done(step: SectionResult) -> dict[str, Interval]:
    """The bounds of state keys after a step that is not done.

    Only what is seen at once counts: a flag that compares a `next.` key with something whose values are known, alone
    or joined by `or`, by itself or under a name.
    """
    written = {statement.target: statement for statement in step.statements}
    functions = step.section.functions if step.section is not None else {}
    bounds: dict[str, Interval] = {}
    for flag in ENDING_FLAGS:
        if (statement := written.get(flag)) is None:
            continue
        reader = _FlagReader(step, functions, {name: s.expr for name, s in written.items()}, statement.source)
        for target, low, high in reader.bounds(statement.expr, False):
            name = target.removeprefix("next.")
            bounds[name] = intersection(bounds.get(name, NUMBERS), Interval(low, high))
    return bounds


def intersection(values: Interval, bounds: Interval) -> Interval:
    """The `values` that lie in `bounds`; all of them if none does, as then each step is done."""
    low, high = max(values.low, bounds.low), min(values.high, bounds.high)
    return Interval(low, high, values.nan) if low <= high else values


@dataclass(frozen=True)
class _FlagReader:
    """Reads bounds of `next.` keys off the expression of a done flag."""

    step: SectionResult
    functions: Mapping[str, Function | Builtin]
    written: Mapping[str, Expr]
    source: SourceText

    def bounds(self, expr: Expr, truth: bool) -> Iterator[tuple[str, float, float]]:
        """The bounds of `next.` keys where `expr` is `truth`: their names, lows and highs."""
        match expr:
            case Logic("not", (inner,)):
                yield from self.bounds(inner, not truth)
            case Logic("and" | "or" as joint, operands) if (joint == "and") == truth:
                for operand in operands:
                    yield from self.bounds(operand, truth)
            case Call(Name("all" | "any" as name), (inner,), ()) if (
                name == "all"
            ) == truth and name not in self.functions:
                yield from self.bounds(inner, truth)
            case Name(path) if path in self.written and not path.startswith("next."):
                yield from self.bounds(self.written[path], truth)
            case Compare(ops, operands) if truth or len(ops) == 1:
                for op, left, right in zip(ops, operands, operands[1:], strict=False):
                    sign = op if truth else _OPPOSITE[op]
                    yield from self._bounds_of_comparison(sign, left, right)
                    yield from self._bounds_of_comparison(_SWAPPED[sign], right, left)
            case _:
                pass

    def _bounds_of_comparison(self, sign: str, left: Expr, right: Expr) -> Iterator[tuple[str, float, float]]:
        if (
            not isinstance(left, Name)
            or not left.path.startswith("next.")
            or left.path not in self.step.types
        ):
            return
        other = infer(right, self.step.scope, self.source, Sink(), functions=self.functions, prove=False)
        if other is None:
            return
        low, high = other.interval.low, other.interval.high
        whole = is_int(self.step.types[left.path].dtype)
        if sign in ("<", "<="):
            yield left.path, -math.inf, _next_lower(high) if whole and sign == "<" else high
        elif sign in (">", ">="):
            yield left.path, -_next_lower(-low) if whole and sign == ">" else low, math.inf
        elif sign == "==":
            yield left.path, low, high


def _next_lower(value: float) -> float:
    """The largest whole number below `value`."""
    return math.ceil(value) - 1 if abs(value) < _EXACT_INTEGERS else value
