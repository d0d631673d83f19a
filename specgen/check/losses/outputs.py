"""The terms and metrics of a loss in their forms: when there are such, and what each sample has of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from specgen.check.losses.builtins import OF_LOSSES, which_member
from specgen.check.losses.conditions import Presence, read_condition
from specgen.check.losses.distributions import PARTS
from specgen.check.losses.masks import is_mask
from specgen.check.losses.model import CheckedLoss, Requirement
from specgen.check.losses.numbers import ParamRead
from specgen.check.losses.updates import is_number
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import loss_parts as part_rules
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Typed
from specgen.expr.builtins.table import CALLABLE
from specgen.expr.dtypes import is_float
from specgen.program.conditions import ALWAYS, Condition, condition_of
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, Metric, Term
from specgen.source import Scalar
from specgen.values import dataclass

_FUNCTIONS = OF_LOSSES | CALLABLE


@dataclass
class Outputs:
    """Checks what a loss says of its terms and metrics besides their expressions.

    Attributes:
        file, path, loss: where they stand, and what they say.
        scope: what conditions read.
        sink: takes every mistake.
        when: the conditions found so far, by the name of the term or metric.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    scope: Mapping[str, Binding]
    sink: Sink
    when: dict[str, Typed] = field(default_factory=dict)

    def order(self) -> tuple[str, ...]:
        """The terms and metrics in the order of `out_keys`, those that it does not name behind the others."""
        place = self.file.key_span(*self.path)
        if not self.loss.terms:
            message = f"`{self.path[-1]}` needs `terms`: what is minimised"
            self.sink.add(schema_rules.MISSING_FIELD.at(place, message))
        known = (*self.loss.terms, *self.loss.metrics)
        for index, name in enumerate(self.loss.out_keys):
            place = self.file.span(*self.path, "out_keys", index)
            if name not in known:
                help = suggestion(name, known) or f"there are {', '.join(known)}"
                message = f"`out_keys` names `{name}`, which is neither a term nor a metric"
                self.sink.add(part_rules.OUT_KEY.at(place, message, help=help))
            elif name in self.loss.out_keys[:index]:
                message = f"`out_keys` names `{name}` twice"
                self.sink.add(part_rules.OUT_KEY.at(place, message, help="leave out one of them"))
        return tuple(dict.fromkeys((*self.loss.out_keys, *known)))

    @property
    def each(self) -> frozenset[str]:
        """The metrics of which every sample's value is kept."""
        found = self.loss.metrics.items()
        return frozenset(name for name, one in found if isinstance(one, Metric) and one.each is not None)

    @property
    def by_part(self) -> dict[str, str]:
        """The metrics that have a number for each part of an action, each with what the entry of a part is called."""
        found = self.loss.metrics.items()
        return {name: one.name for name, one in found if isinstance(one, Metric) and one.by_part is not None}

    @property
    def elementwise(self) -> frozenset[str]:
        """The terms of which a sample may have several numbers."""
        return frozenset(n for n, one in self.loss.terms.items() if isinstance(one, Term) and one.elementwise)

    @property
    def masked(self) -> tuple[str, ...]:
        """The terms that say which samples count for them."""
        found = self.loss.terms.items()
        return tuple(name for name, one in found if isinstance(one, Term) and one.mask is not None)

    @property
    def unreadable(self) -> dict[str, str]:
        """The names of terms and metrics, which no expression reads, with what to do instead."""
        help = "give its value a name under `let`, and read that"
        return {name: help for name in (*self.loss.terms, *self.loss.metrics) if name not in _FUNCTIONS}

    def form(self, section: str, name: str) -> bool:
        """Whether an entry says what it is and when it is there; reported where it does not."""
        given = getattr(self.loss, section).get(name)
        here = (*self.path, section, name)
        if isinstance(given, Metric):
            said = [one for one in (given.value, given.each, given.by_part) if one is not None]
            if len(said) != 1:
                message = (
                    f"`{name}` needs one of `value`, which is averaged, `each`, which is kept, and `by_part`"
                )
                self.sink.add(schema_rules.MISSING_FIELD.at(self.file.key_span(*here), message))
                return False
            if given.name != "{}" and not self._names_parts(name, given):
                return False
        if not isinstance(given, (Term, Metric)) or given.when is None:
            return True
        condition = read_condition(self.file.scalar(*here, "when"), self.scope, self.sink)
        if condition is None:
            return False
        self.when[name] = condition
        return True

    def _names_parts(self, name: str, given: Metric) -> bool:
        """Whether `name` of a metric says what entries of parts are called; reported where it does not."""
        here = (*self.path, "metrics", name, "name")
        if given.by_part is None:
            message = f"`{name}` is no metric `by_part`, and has no `name`"
            help = "leave it out"
            self.sink.add(schema_rules.UNKNOWN_FIELD.at(self.file.key_span(*here), message, help=help))
            return False
        if given.name.count("{}") == 1:
            return True
        message = f"`name` of `{name}` has `{{}}` once, for the part of the action"
        help = 'write `name: "{}_entropy"`'
        self.sink.add(schema_rules.WRONG_TYPE.at(self.file.span(*here), message, help=help))
        return False

    def fits(self, section: str, name: str, typed: Typed, source: Scalar) -> bool:
        """Whether a value is what an entry of its section is: reported where it is not."""
        if section == "let" or (section == "metrics" and name not in {*self.each, *self.by_part}):
            return True
        if section == "update":
            return is_number(name, typed, source, self.sink)
        per_sample = typed.type.level == "batch"
        if section == "mask":
            return is_mask(typed, source, self.sink)
        if section == "metrics" and name in self.by_part:
            if per_sample and typed.type.dims == (PARTS,) and not typed.type.axes:
                return True
            message = f"`{name}` is a number for each part of an action, this is {typed.type}"
            instead = f"write `{name}: {{by_part: entropies(dist)}}`, or `{name}: {{each: {source.text}}}`"
            self.sink.add(rules.NOT_PER_SAMPLE.at(source.span, message, help=instead))
            return False
        if section == "metrics":
            if per_sample:
                return True
            message = f"`{name}` keeps one value of each sample, this is the same for all"
            bare = f"write `{name}: {source.text}`"
            self.sink.add(rules.NOT_PER_SAMPLE.at(source.span, message, help=bare))
            return False
        vector = section == "terms" and name in self.elementwise
        one = (vector or typed.type.dims == ()) and not typed.type.axes
        if one and per_sample and is_float(typed.type.dtype):
            return True
        help = "reduce its axes, as in sum(x, axis=-1)" if typed.type.dims else None
        help = which_member(typed) if typed.type.axes else help
        same = ", the same for all samples" if one and not per_sample else ""
        what = "floating-point numbers of each sample" if vector else "one floating-point number per sample"
        message = f"`{name}` is {what}, this is {typed.type}{same}"
        self.sink.add(rules.NOT_PER_SAMPLE.at(source.span, message, help=help))
        return False


def report_missing(loss: CheckedLoss, scope: Mapping[str, Binding], sink: Sink) -> None:
    """Report reads of what may be missing: optional parameters, keys and networks, and keys under a condition."""
    presence = Presence(sink, tuple(map(_condition, loss.require)))
    for param in loss.param_reads:
        if param.absent:
            presence.may_be_missing(scope[param.name])
            presence.known += _given_where(loss, param, presence)
    for role in loss.roles:
        if role.optional and role.name in scope:
            presence.may_be_missing(scope[role.name])
        if role.when is not None and (found := scope.get(role.name)) and found.symbol is not None:
            presence.there[found.symbol] = condition_of(role.when)
    for one in loss.learnables:
        if one.when is not None:
            presence.there[one.symbol] = condition_of(one.when)
    for module in loss.modules:
        if module.optional:
            presence.may_be_missing(scope[module.name])
    optional = {network.name for network in loss.networks if network.optional}
    for made in loss.forward:
        if made.network in optional:
            presence.there[made.symbol] = presence.given(scope[made.network])
    for statement in loss.let:
        presence.value(statement.symbol, statement.typed)
    if loss.mask is not None:
        presence.output("mask", loss.mask.typed, loss.mask.source, ALWAYS)
    for name, mask in loss.masks.items():
        under = condition_of(loss.when[name]) if name in loss.when else ALWAYS
        presence.output(name, mask.typed, mask.source, under)
    for section in (loss.terms, loss.metrics, loss.writes, loss.update):
        presence.statements(section, loss.when)


def _given_where(loss: CheckedLoss, one: ParamRead, presence: Presence) -> tuple[Condition, ...]:
    """What is known of a buffer that may be None: it is there where it is not 0, and where its default is computed."""
    kept = loss.coefficients.get(one.name)
    if kept is None:
        return ()
    there = presence.there[kept.symbol]
    asked = Typed(
        "name", kept.nonzero.type, kept.nonzero.interval, text=kept.nonzero.name, symbol=kept.nonzero
    )
    cases = [asked] if kept.auto_when is None else [asked, kept.auto_when]
    return tuple(~condition_of(case) | there for case in cases)


def _condition(requirement: Requirement) -> Condition:
    return condition_of(requirement.condition.typed)
