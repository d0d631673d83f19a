"""The numbers of a pipeline: each at a named field is a hyper-parameter, with the range of its field."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping

from specgen.check.model import Parameter
from specgen.check.param_values import COMPARISONS
from specgen.check.pipelines.fields import CONFIG_NAMES, FIELDS, Fact
from specgen.check.pipelines.model import Amount, Setting, SettingKind
from specgen.diagnostics import Note, Sink, Span, suggestion
from specgen.diagnostics.rules import pipeline_numbers as number_rules
from specgen.diagnostics.rules import pipeline_values as value_rules
from specgen.expr import parse, tree
from specgen.schema.load import SchemaFile
from specgen.source import Node, Scalar
from specgen.source.resolve import NONE
from specgen.values import replace

SCHEDULES: Mapping[str, str] = {"linear": "end", "cosine": "end", "exponential": "end"}
"""The functions of a counter that a number may be, each with what its second argument is called."""

_COUNTERS = ("frames", "updates", "progress")
"""What people write expressions of, where a schedule is meant."""


class Numbers:
    """Takes the numbers of one pipeline, as settings of their own or by the names of `params`.

    Attributes:
        unit: what the training counts, and schedules with it: `frames` or `updates`.
        settings: the hyper-parameters so far, by name.
        named: those of `params` that fields name.
    """

    def __init__(self, file: SchemaFile, path: tuple[str, ...], unit: str, sink: Sink) -> None:
        self.file, self.path, self.unit, self.sink = file, path, unit, sink
        self.settings: dict[str, Setting] = {}
        self.named: set[str] = set()
        self._declared: dict[str, Setting] = {}
        self._taken: set[str] = set()
        self._refused: frozenset[str] = frozenset()

    def declare(self, params: Mapping[str, Parameter], refused: frozenset[str]) -> None:
        """Take the `params` of the pipeline, which other fields may name; of those `refused` the mistakes are reported."""
        self._refused = refused
        for name, param in params.items():
            kind: SettingKind = "int" if param.kind == "int" else "float"
            made = Setting(name, kind, param.default, param.doc, param.range, param.span or self._span())
            self._declared[name] = self.settings[name] = made

    def refuses(self, node: Node) -> bool:
        """Whether a value names one of `params` whose mistake is reported where it is declared."""
        return isinstance(node, Scalar) and node.text in self._refused

    def amount(self, *place: str | int, owner: str = "", fact: Fact | None = None) -> Amount | None:
        """The number at a place that may be a schedule; None where there is none, or a wrong one, which is reported.

        Args:
            place: the field, below the pipeline.
            owner: what is put in front of a name that another field has already.
            fact: what is known of the field; by default what `FIELDS` says of its name.
        """
        node = self._node(place)
        if node is None:
            return None
        fact = fact or FIELDS[str(place[-1])]
        if not isinstance(node.value, str):
            setting = self._number(node, fact, owner)
            return None if setting is None else Amount(setting)
        text = node.value.strip()
        if text in self._declared:
            return Amount(self._in_range(self._declared[text], fact, node.span))
        if text in self._refused:
            return None
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            help = suggestion(text, self._declared) or "declare it under `params`, or write a number"
            if text == NONE.lower():
                help = f"leave `{place[-1]}` out if it has none, or write a number"
            self.sink.add(
                number_rules.UNKNOWN_NUMBER.at(node.span, f"there is no parameter `{text}`", help=help)
            )
            return None
        return self._schedule(node, fact, owner)

    def setting(self, *place: str | int, owner: str = "", fact: Fact | None = None) -> Setting | None:
        """The number at a place that stays as it is."""
        found = self.amount(*place, owner=owner, fact=fact)
        if found is None or found.schedule is None:
            return None if found is None else found.setting
        message = f"`{place[-1]}` stays as it is in training, and has no schedule"
        self.sink.add(number_rules.SCHEDULE.at(self._node_span(place), message, help="write a number"))
        return None

    def default(self, name: str, value: float, fact: Fact | None = None, owner: str = "") -> Setting:
        """A hyper-parameter that the schema leaves to its default."""
        return self._kept(fact or FIELDS[name], value, self._span(), owner)

    def truth_value(self, *place: str | int, owner: str, fact: Fact) -> Setting:
        """The truth value at a place."""
        node = self._node(place)
        assert node is not None
        return self._kept(fact, bool(node.value), node.span, owner)

    def exactly(self, setting: Setting, number: int) -> Setting:
        """A setting that another declaration fixes: a configuration has no other number there."""
        made = replace(setting, range=((">=", number), ("<=", number)))
        self.settings[made.name] = made
        return made

    def _span(self) -> Span:
        return self.file.key_span(*self.path)

    def _node(self, place: tuple[str | int, ...]) -> Scalar | None:
        try:
            node = self.file.node(*self.path, *place)
        except KeyError:
            return None
        return node if isinstance(node, Scalar) else None

    def _node_span(self, place: tuple[str | int, ...]) -> Span:
        return self.file.span(*self.path, *place)

    def _number(self, node: Scalar, fact: Fact, owner: str) -> Setting | None:
        number = node.as_int(self.sink) if fact.kind == "int" else node.as_float(self.sink)
        if number is None:
            return None
        for sign, bound in fact.range:
            if not COMPARISONS[sign](number, bound):
                message = f"`{fact.field}` must be {sign} {bound:g}, got {node.text}"
                self.sink.add(value_rules.OUT_OF_RANGE.at(node.span, message, help=fact.help))
                return None
        return self._kept(fact, number, node.span, owner)

    def _in_range(self, setting: Setting, fact: Fact, span: Span) -> Setting:
        """A declared setting, which is to be in the range of each field that names it."""
        self.named.add(setting.name)
        declared = [Note("declared here", setting.span)]
        got = f"and `{setting.name}` is" if setting.name != fact.field else "got"
        got += f" {setting.default}"
        if fact.kind == "int" and setting.default != int(setting.default):
            message = f"`{fact.field}` is a whole number, {got}"
            self.sink.add(value_rules.OUT_OF_RANGE.at(span, message, notes=declared))
            setting = replace(setting, default=int(setting.default) + 1)
        for sign, bound in fact.range:
            if not COMPARISONS[sign](setting.default, bound):
                message = f"`{fact.field}` must be {sign} {bound:g}, {got}"
                self.sink.add(value_rules.OUT_OF_RANGE.at(span, message, notes=declared, help=fact.help))
        wider = _narrowest((*setting.range, *fact.range))
        kind = "int" if fact.kind == "int" else setting.kind
        made = Setting(setting.name, kind, setting.default, setting.doc or fact.doc, wider, setting.span)
        self._declared[made.name] = self.settings[made.name] = made
        return made

    def _kept(self, fact: Fact, number: float, span: Span, owner: str) -> Setting:
        name = fact.name
        taken = self.settings.get(name)
        if taken is not None and taken.span == span:
            return taken
        if taken is not None and fact.shared:
            if taken.default != number:
                message = f"`{name}` is {number:g} here, and {taken.default:g} elsewhere in this pipeline"
                self.sink.add(
                    value_rules.TWO_VALUES.at(
                        span, message, help="say it once: every part that reads it gets the same number"
                    )
                )
            return taken
        if name in self._declared or (taken is not None and not owner):
            self._report_taken(name, fact, span)
            return Setting(name, fact.kind, number, fact.doc, fact.range, span)
        if taken is not None or name in CONFIG_NAMES:
            name = f"{owner}_{name}"
        made = Setting(name, fact.kind, number, fact.doc, fact.range, span)
        self.settings[name] = made
        return made

    def _report_taken(self, name: str, fact: Fact, span: Span) -> None:
        """Report a number whose name one of `params` has."""
        if name not in self._taken:
            self._taken.add(name)
            self.named.add(name)
            message = f"`{name}` is one of `params`, and a number of this pipeline is called so, too"
            notes = [Note("the parameter", self.settings[name].span)]
            help = f"write `{fact.field}: {name}` here, or call the parameter otherwise"
            self.sink.add(number_rules.NAME_TAKEN.at(span, message, notes=notes, help=help))

    def _schedule(self, node: Scalar, fact: Fact, owner: str) -> Amount | None:
        found = Sink()
        expr = parse(node, found)
        if expr is None and node.text.lstrip().startswith("lambda"):
            found = Sink()
            message = f"`{fact.field}` is a number, or a schedule, and no function"
            meant = _falling("first, last") if fact.scheduled else "write a number"
            found.add(number_rules.SCHEDULE.at(node.span, message, help=meant))
        self.sink.extend(found.items)
        if expr is None:
            return None
        if isinstance(expr, tree.Literal | tree.Unary):  # `200_000`, which YAML takes for text
            setting = self.argument(node, expr, fact, owner)
            return None if setting is None else Amount(setting)
        schedules = (*SCHEDULES, "piecewise")
        known = f"a number, one of `params`, or {', '.join(f'`{name}(…)`' for name in schedules)}"
        if not isinstance(expr, tree.Call) or expr.function.path not in schedules:
            help = None
            if isinstance(expr, tree.Call):
                other = _falling("first, last") if fact.scheduled else None
                help = suggestion(expr.function.path, schedules) or other
            if fact.scheduled and not tree.free_names(expr).isdisjoint(_COUNTERS):
                ends = "first, last" if (line := _line(expr)) is None else f"{line[0]:g}, {line[1]:g}"
                help = _falling(ends)
            self.sink.add(number_rules.SCHEDULE.at(node.span, f"`{fact.field}` is {known}", help=help))
            return None
        name = expr.function.path
        if name == "piecewise" and fact.scheduled:
            return self._piecewise(node, expr, fact, owner)
        given = dict(zip(("first", "end", "over"), expr.args, strict=False))
        given |= {one.name: one.value for one in expr.keywords}
        if (name != "piecewise" and not {"first", "end"} <= given.keys() <= {"first", "end", "over"}) or len(
            expr.args
        ) > 3:
            message = f"`{name}` takes its first and its last value, and `over`, the {self.unit} between them"
            self.sink.add(
                number_rules.SCHEDULE.at(node.span, message, help=f"write {name}(1.0, 0.05, over=20_000)")
            )
            return None
        if not fact.scheduled:
            why = f": {fact.stays}" if fact.stays else ""
            message = f"`{fact.field}` stays as it is in training, and has no schedule{why}"
            self.sink.add(number_rules.SCHEDULE.at(node.span, message, help="write a number"))
            return None
        first = self.argument(node, given["first"], fact, owner)
        last = self.argument(node, given["end"], fact.ending(), owner)
        over: Setting | None = None
        if "over" in given:
            over = self.argument(node, given["over"], fact.lasting(self.unit), owner)
            if over is None:
                return None
        if first is None or last is None:
            return None
        return Amount(first, name, (last, over))

    def _piecewise(self, node: Scalar, call: tree.Call, fact: Fact, owner: str) -> Amount | None:
        """Lines between points, which are in the order of their counts."""
        points: list[tuple[Setting, Setting]] = []
        for number, arg in enumerate(call.args, 1):
            if not isinstance(arg, tree.Tuple) or len(arg.items) != 2:
                break
            value_fact = (
                fact if number == 1 else replace(fact.ending(), name=f"{fact.name}_{number}", doc=fact.doc)
            )
            doc = f"{self.unit} at which `{value_fact.name}` is reached"
            at_fact = Fact(f"{fact.name}_{self.unit}_{number}", "int", doc, ((">=", 0.0),))
            at = self.argument(node, arg.items[0], at_fact, owner)
            value = self.argument(node, arg.items[1], value_fact, owner)
            if at is None or value is None:
                return None
            points.append((at, value))
        counts = [at.default for at, _ in points]
        if len(points) < max(2, len(call.args)) or call.keywords or counts != sorted(counts):
            message = f"`piecewise` takes two points `({self.unit}, value)` or more, in the order of their {self.unit}"
            help = "write piecewise((0, 1.0e-3), (50_000, 1.0e-4))"
            self.sink.add(number_rules.SCHEDULE.at(node.span, message, help=help))
            return None
        return Amount(points[0][1], "piecewise", points=tuple(points))

    def argument(self, node: Scalar, expr: tree.Expr, fact: Fact, owner: str = "") -> Setting | None:
        """A number within an expression, such as one that a schedule is called with."""
        span, text = node.span_of(expr.start, expr.end), node.text[expr.start : expr.end]
        if isinstance(expr, tree.Name) and expr.path in self._declared:
            return self._in_range(self._declared[expr.path], fact, span)
        sign = 1
        if isinstance(expr, tree.Unary):
            sign, expr = (-1 if expr.op == "-" else 1), expr.operand
        if not isinstance(expr, tree.Literal) or isinstance(expr.value, bool):
            self.sink.add(
                number_rules.SCHEDULE.at(span, "schedules go from number to number, over a number of frames")
            )
            return None
        number = Scalar(text, "plain", sign * expr.value, span)
        return self._number(number, fact, owner)


def _line(expr: tree.Expr) -> tuple[float, float] | None:
    """The first and the last value of an expression that is a line over `progress`; None of any other."""
    first, middle, last = (_value(expr, progress) for progress in (0.0, 0.5, 1.0))
    if first is None or middle is None or last is None:
        return None
    return (first, last) if math.isclose(2 * middle, first + last, abs_tol=1e-12) else None


def _value(expr: tree.Expr, progress: float) -> float | None:
    """The value of an expression of numbers and `progress`; None of one that reads something else."""
    match expr:
        case tree.Literal(value) if not isinstance(value, bool):
            return value
        case tree.Name("progress"):
            return progress
        case tree.Unary(op, operand):
            signed = _value(operand, progress)
            return None if signed is None else -signed if op == "-" else signed
        case tree.Binary(op, left, right) if op in _OPERATIONS:
            one, other = _value(left, progress), _value(right, progress)
            if one is None or other is None or (op == "/" and other == 0):
                return None
            return float(_OPERATIONS[op](one, other))
        case _:
            return None


_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def _narrowest(range: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
    """The conditions of a range without those that others say already: one bound below, one above."""
    below = max(
        (pair for pair in range if pair[0][0] == ">"),
        key=lambda pair: (pair[1], pair[0] == ">"),
        default=None,
    )
    above = min(
        (pair for pair in range if pair[0][0] == "<"),
        key=lambda pair: (pair[1], pair[0] != "<"),
        default=None,
    )
    return tuple(pair for pair in (below, above) if pair is not None)


def fact_of(param: Parameter, *, nonzero: bool) -> Fact:
    """What is known of a parameter of a loss that becomes a hyper-parameter."""
    kind: SettingKind = "int" if param.kind == "int" else "float"
    range = (*param.range, (">", 0.0)) if nonzero and (">=", 0) in param.range else param.range
    return Fact(
        param.name,
        kind,
        param.doc or f"`{param.name}` of the loss",
        tuple(range),
        shared=param.name == "gamma",
    )


def nearest_divisor(total: int, wanted: float) -> int:
    """The divisor of a number that is nearest to another number."""
    return min((n for n in range(1, total + 1) if total % n == 0), key=lambda n: abs(n - wanted))


def _falling(ends: str) -> str:
    return f"write `linear({ends})`: it falls or rises until the training ends"
