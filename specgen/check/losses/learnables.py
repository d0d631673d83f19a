"""`learnable`: numbers that an optimizer changes together with the networks of a loss."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.conditions import read_condition
from specgen.check.losses.when_made import known_when_made
from specgen.check.names import Names, refused
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import schema as rules
from specgen.expr import Binding, Symbol, Type, Typed, full, infer, parse
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Learnable, Loss
from specgen.values import dataclass, replace

LEARNED = Type("float32", (), "const")
"""What a learned number is in expressions: a tensor, the same for all samples."""


@dataclass(frozen=True)
class CheckedLearnable:
    """A number that is learned.

    Attributes:
        name: its name.
        init, low, high: its first value and its bounds, over parameters.
        fixed: whether it stays as it is: always, never, or as a parameter says.
        when: the condition on parameters under which there is one; None for always.
        through: whether the gradient goes through its bounds; else the number itself is moved between them.
        doc: one line.
        symbol: its value.
    """

    name: str
    init: Typed
    low: Typed | None
    high: Typed | None
    fixed: bool | str
    when: Typed | None
    through: bool
    doc: str
    symbol: Symbol

    @property
    def binding(self) -> Binding:
        """What expressions read under its name."""
        return Binding(LEARNED, full("float32"), what="learnable", symbol=self.symbol)

    @property
    def reads(self) -> frozenset[str]:
        """The parameters that it needs."""
        values = [value for value in (self.init, self.low, self.high, self.when) if value is not None]
        flags = frozenset([self.fixed] if isinstance(self.fixed, str) else [])
        return flags | {symbol.name for value in values for symbol in value.symbols_read}

    @property
    def bounded(self) -> bool:
        """Whether it may have bounds."""
        return self.low is not None or self.high is not None


@dataclass(frozen=True)
class Learnables:
    """Checks the learned numbers of one loss.

    Attributes:
        file, path, loss: where the loss is declared, and what it says.
        params: what expressions read: its parameters.
        names: the namespace of the loss.
        sink: takes every mistake.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    params: Mapping[str, Binding]
    names: Names
    sink: Sink

    def checked(self) -> tuple[CheckedLearnable, ...]:
        """Those whose declaration is right."""
        given = self.loss.learnable.items()
        return tuple(one for name, made in given if (one := self._one(name, made)) is not None)

    def _one(self, name: str, given: Learnable) -> CheckedLearnable | None:
        here = (*self.path, "learnable", name)
        span = self.file.key_span(*here)
        if name in LOSS_ATTRIBUTES:
            self.sink.add(refused(name, "every loss has it", "learnable", span))
            return None
        if not self.names.claim(name, "learnable", span):
            return None
        if given.init is None:
            message = f"`{name}` needs `init`, its first value"
            self.sink.add(rules.MISSING_FIELD.at(span, message, help="write `init: 0.0`"))
            return None
        if given.bound is not None and given.low is None and given.high is None:
            message = f"`bound` says how `{name}` is kept between `low` and `high`, and it has neither"
            place = self.file.span(*here, "bound")
            self.sink.add(rules.WRONG_TYPE.at(place, message, help="give it bounds, or leave `bound` out"))
            return None
        texts = {"init": given.init, "low": given.low, "high": given.high}
        values = {field: self._number(*here, field) for field, text in texts.items() if text is not None}
        when = None
        if given.when is not None:
            when = read_condition(self.file.scalar(*here, "when"), self.params, self.sink)
        sound = self._flag(given.fixed, *here, "fixed") and (when is not None or given.when is None)
        init = values["init"]
        if init is None or None in values.values() or not sound:
            return None
        low, high = values.get("low"), values.get("high")
        if low is not None and high is not None and low.interval.low > high.interval.high:
            message = f"the lower bound of `{name}` is above its upper one, whatever the parameters are"
            self.sink.add(
                rules.PARAM_OUT_OF_RANGE.at(
                    self.file.span(*here, "low"), message, help="exchange `low` and `high`"
                )
            )
            return None
        return CheckedLearnable(
            name,
            init,
            low,
            high,
            given.fixed,
            when,
            given.bound == "pass",
            given.doc,
            Symbol(".".join(here), name, LEARNED, full("float32"), span=span),
        )

    def _number(self, *place: str) -> Typed | None:
        """A number that the constructor computes; None after reporting that it is something else."""
        source = self.file.scalar(*place)
        expr = parse(source, self.sink)
        # where a parameter of a bound is None, there is no such bound
        known = {name: replace(one, optional=False) for name, one in self.params.items()}
        sound = expr is not None and known_when_made(expr, source, self.loss, place[-1], self.sink)
        typed = infer(expr, known, source, self.sink) if expr is not None and sound else None
        if typed is None:
            return None
        if not typed.type.python or typed.type.dtype in ("bool", "str"):
            message = f"`{place[-1]}` is a number of the constructor, this is {typed.type}"
            self.sink.add(expression_rules.WRONG_DTYPE.at(source.span, message))
            return None
        return typed

    def _flag(self, value: bool | str, *place: str) -> bool:
        """Whether a field is a truth value or the name of a parameter that is one; else it is reported."""
        if isinstance(value, bool):
            return True
        found = self.params.get(value)
        if found is not None and found.type.dtype == "bool":
            return True
        message = f"`{place[-1]}` names a parameter that is true or false; there is no truth value `{value}`"
        flags = [name for name, one in self.params.items() if one.type.dtype == "bool"]
        help = suggestion(value, flags) or f"declare it: `params: {{{value}: false}}`"
        self.sink.add(rules.UNKNOWN_DECLARATION.at(self.file.span(*place), message, help=help))
        return False
