"""Parameters of a loss that its class keeps as buffers, those whose default is computed, and those that may be a pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from specgen.check.losses.conditions import nonzero_name, read_condition
from specgen.check.losses.distributions import PARTS
from specgen.check.losses.domains import Domains
from specgen.check.losses.numbers import Coefficient, CoefficientPart
from specgen.check.losses.when_made import known_when_made
from specgen.check.model import Parameter
from specgen.check.names import Names, refusal
from specgen.check.param_values import range_of
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import loss_domains as rules
from specgen.diagnostics.rules import losses as loss_rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Symbol, Type, Typed, full, infer, parse
from specgen.schema.fields import ParamField
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Auto, Limits, Loss, LossParam
from specgen.values import dataclass, replace

AUTO: Final = "auto"
_NUMBER: Final = Type("float32", (), "const")
"""What a coefficient is in expressions: a tensor, the same for all samples."""
_BY_PART: Final = Type("float32", (PARTS,), "const")
"""What one is that may be a number for each part of an action."""


def without_auto(params: Mapping[str, ParamField]) -> dict[str, ParamField]:
    """The parameters as numbers: one whose default is computed may be left out."""
    return {
        name: param.model_copy(update={"default": None, "optional": True})
        if isinstance(param, LossParam)
        and param.default == AUTO
        and not (param.type or "").startswith("enum")
        else param
        for name, param in params.items()
    }


def fixed_params(params: Mapping[str, ParamField]) -> frozenset[str]:
    """The parameters that are constants of the loss."""
    return frozenset(name for name, one in params.items() if isinstance(one, LossParam) and one.fixed)


def _is_buffer(declared: LossParam) -> bool:
    """Whether a declaration says by itself that a parameter is kept as a buffer."""
    return bool(declared.buffer or declared.auto or declared.parts or declared.true_is or declared.by_part)


@dataclass
class Coefficients:
    """Checks the parameters that are kept as buffers.

    Attributes:
        file, path: where the loss is declared.
        loss: what is declared.
        scope: what expressions read; the parameters that are buffers are tensors there.
        domains: the roles whose specs are known.
        names: the namespace of the loss.
        inherited: the parameters that the class which it extends reads by properties: they stay buffers.
        sink: takes every mistake.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    scope: dict[str, Binding]
    domains: Domains
    names: Names
    inherited: frozenset[str]
    sink: Sink
    _numbers: dict[str, Binding] = field(default_factory=dict)

    def bind(self, params: tuple[Parameter, ...]) -> None:
        """Let expressions read buffers as tensors, and conditions ask whether they were not 0."""
        self._numbers = {param.name: self.scope[param.name] for param in params}
        for param in params:
            if self._declared(param) is not None:
                old = self.scope[param.name]
                assert old.symbol is not None
                declared = self.loss.params[param.name]
                type = _BY_PART if isinstance(declared, LossParam) and declared.by_part else _NUMBER
                kept = replace(old.symbol, type=type, interval=full("float32"))
                self.scope[param.name] = replace(old, type=type, interval=kept.interval, symbol=kept)
                symbol = self._nonzero(param)
                place = self.file.key_span(*self.path, "params", param.name)
                self.names.claim(symbol.name, "condition", place)
                self.scope[nonzero_name(param.name)] = Binding(
                    symbol.type, symbol.interval, what="condition", symbol=symbol
                )

    def checked(self, params: tuple[Parameter, ...]) -> tuple[tuple[Parameter, ...], dict[str, Coefficient]]:
        """The parameters, and those among them that are buffers, by name."""
        made: list[Parameter] = []
        found: dict[str, Coefficient] = {}
        for param in map(self._or_function, params):
            declared = self._declared(param)
            if declared is None:
                made.append(param)
                self._auto_without_expression(param)
                continue
            one = self._coefficient(param, declared)
            if one is None:
                continue
            if one.auto is not None and declared.default == AUTO:
                param = replace(param, default=AUTO, optional=False)
            made.append(param)
            found[param.name] = one
            self._read_as(param, one)
        return tuple(made), found

    def _or_function(self, param: Parameter) -> Parameter:
        """A parameter, which may be a function if it says so."""
        declared = self.loss.params[param.name]
        if not (isinstance(declared, LossParam) and declared.or_function):
            return param
        if param.kind != "enum":
            message = "`or_function` is of words that are kinds of a distance, which a function may be, too"
            self._misfit(param.name, message, "or_function", 'write `type: "enum(l1, l2)"`, or leave it out')
            return param
        return replace(param, or_function=True)

    def _declared(self, param: Parameter) -> LossParam | None:
        """What a parameter declares that is kept as a buffer; None for another one."""
        declared = self.loss.params[param.name]
        if not isinstance(declared, LossParam):
            return LossParam(default=declared, parts=[]) if param.name in self.inherited else None
        return declared if _is_buffer(declared) or param.name in self.inherited else None

    def _nonzero(self, param: Parameter) -> Symbol:
        path = ".".join((*self.path, "nonzero", param.name))
        return Symbol(path, f"has_{param.name}", Type("bool", (), "ctor"), full("bool"))

    def _coefficient(self, param: Parameter, declared: LossParam) -> Coefficient | None:
        """The buffer that a parameter becomes; None after reporting a mistake."""
        if param.kind != "float" and not _is_buffer(declared):
            message = f"`{param.name}` is a buffer of the class that this one extends, a number: type float"
            place = self.file.key_span(*self.path, "params", param.name)
            self.sink.add(schema_rules.WRONG_TYPE.at(place, message, help="give it another name"))
            return None
        if param.kind != "float":
            what = "auto" if declared.auto else "parts" if declared.parts else "true_is"
            what = "buffer" if declared.buffer else "by_part" if declared.by_part else what
            self._misfit(param.name, f"`{what}` is of a number: type float", what)
            return None
        auto = when = None
        if declared.auto is not None:
            if declared.default != AUTO and not (param.optional and declared.default is None):
                message = "`auto` is what `default: auto` stands for, or None of an `optional` parameter"
                help = "write `default: auto`, or leave `auto` out: `auto: drop` where it is inherited"
                self._misfit(param.name, message, "auto", help)
                return None
            if isinstance(declared.auto, Auto):
                when = self._when(param.name, declared)
                if when is None:
                    return None
            auto = self._auto(param.name, ("value",) if isinstance(declared.auto, Auto) else ())
            if auto is None:
                return None
        of_domain = auto is not None and any(".domains." in one.path for one in auto.symbols_read)
        if of_domain and declared.default != AUTO:
            message = (
                "what None stands for is known before the networks are: sizes of roles are of `default: auto`"
            )
            self._misfit(param.name, message, "auto", "write `default: auto`")
            return None
        apart = bool(declared.parts) and declared.buffer == "parts"
        state = declared.buffer if isinstance(declared.buffer, str) and not apart else param.name
        if of_domain and not isinstance(declared.buffer, str):
            state = f"_{param.name}"
        parts = self._parts(param, declared)
        if parts is None or not self._switch_fits(param, declared):
            return None
        other = next((one for one in ("parts", "true_is") if getattr(declared, one)), None)
        first = next(
            (key for key, one in self.loss.params.items() if isinstance(one, LossParam) and one.by_part), None
        )
        if declared.by_part and first != param.name:
            message = f"one parameter of a loss is `by_part`, in whose order `entropies` stand: `{first}` is"
            self._misfit(param.name, message, "by_part")
            return None
        if declared.by_part and (other is not None or declared.default == AUTO or state != param.name):
            message = (
                "`by_part` is of a number that is kept under its own name, and neither a pair nor a word"
            )
            self._misfit(param.name, message, "by_part")
        symbol = self.scope[param.name].symbol
        assert symbol is not None
        nonzero = self._nonzero(param)
        return Coefficient(
            param.name,
            state,
            auto,
            of_domain,
            when,
            symbol,
            nonzero,
            parts,
            declared.true_is,
            apart,
            declared.by_part,
        )

    def _read_as(self, param: Parameter, one: Coefficient) -> None:
        """Let expressions read the parts of a coefficient, or itself, which may be None."""
        if one.parts:
            del self.scope[param.name]
        else:
            absent = param.optional and not one.filled
            self.scope[param.name] = replace(self.scope[param.name], optional=absent)
        for part in one.parts:
            self.scope[part.symbol.name] = Binding(
                _NUMBER, part.symbol.interval, what="parameter", symbol=part.symbol
            )

    def _parts(self, param: Parameter, declared: LossParam) -> tuple[CoefficientPart, ...] | None:
        """The parts of a pair; none of one number, None after reporting a mistake."""
        if not declared.parts:
            return ()
        place = (*self.path, "params", param.name, "parts")
        names = list(declared.parts)
        wrong = next((reason for one in names if (reason := refusal(one))), None)
        if len(names) != 2 or len(set(names)) < 2 or wrong or param.optional:
            message = f"`parts` names the two numbers of a pair, got {', '.join(names) or 'none'}"
            message = (
                f"`parts` is of a number that is always given, and `{param.name}` may be None"
                if (param.optional)
                else message
            )
            help = None if param.optional else "write `parts: [low, high]`"
            self.sink.add(loss_rules.PARAM_FORM.at(self.file.span(*place), message, help=help))
            return None
        made = []
        for one in names:
            name = f"{param.name}_{one}"
            if not self.names.claim(name, "part of a parameter", self.file.span(*place)):
                return None
            limits = declared.parts[one] if isinstance(declared.parts, dict) else Limits()
            more = LossParam(**limits.model_dump())
            symbol = Symbol(".".join((*self.path, "params", name)), name, _NUMBER, full("float32"))
            made.append(CoefficientPart(one, symbol, tuple(dict.fromkeys((*param.range, *range_of(more))))))
        return tuple(made)

    def _switch_fits(self, param: Parameter, declared: LossParam) -> bool:
        """Whether True may stand for another parameter; reported where it may not."""
        name = declared.true_is
        if name is None:
            return True
        place = self.file.span(*self.path, "params", param.name, "true_is")
        other = self.loss.params.get(name)
        number = isinstance(other, float) or (isinstance(other, LossParam) and other.type in (None, "float"))
        if not param.optional or declared.default is not None:
            message = (
                f"`true_is` is of an `optional` parameter, None where False is given; `{param.name}` is none"
            )
            self.sink.add(
                loss_rules.PARAM_FORM.at(place, message, help="write `type: float, optional: true`")
            )
            return False
        if number and name != param.name:
            return True
        message = f"`true_is` names the parameter whose number True stands for; `{name}` is none"
        known = [one for one in self.loss.params if one != param.name]
        self.sink.add(loss_rules.PARAM_FORM.at(place, message, help=suggestion(name, known)))
        return False

    def _when(self, name: str, declared: LossParam) -> Typed | None:
        place = (*self.path, "params", name, "auto")
        if declared.default == AUTO:
            message = (
                "the word `auto` always stands for a number; None of an `optional` parameter may be left"
            )
            help = "leave `when` out, or write `optional: true, default: null`"
            self.sink.add(rules.AUTO.at(self.file.span(*place, "when"), message, help=help))
            return None
        return read_condition(self.file.scalar(*place, "when"), self.scope, self.sink)

    def _auto(self, name: str, inner: tuple[str, ...]) -> Typed | None:
        """What the default stands for: a number of the constructor; None after reporting a mistake."""
        source = self.file.scalar(*self.path, "params", name, "auto", *inner)
        expr = parse(source, self.sink)
        named = None if expr is None else self.domains.sized(expr, source)
        if named is None or not known_when_made(named, source, self.loss, "auto", self.sink):
            return None
        known = {other: replace(one, optional=False) for other, one in self._numbers.items() if other != name}
        typed = infer(named, known | self.domains.sizes, source, self.sink)
        if typed is not None and (not typed.type.python or typed.type.dtype in ("bool", "str")):
            self._misfit(name, f"`auto` is a number of the constructor, this is {typed.type}", "auto")
            return None
        return typed

    def _auto_without_expression(self, param: Parameter) -> None:
        declared = self.loss.params[param.name]
        if isinstance(declared, LossParam) and declared.default == AUTO and param.default is None:
            message = "`default: auto` needs the expression that it stands for"
            self._misfit(param.name, message, "default", "write it under `auto`, as in `auto: -dim(action)`")

    def _misfit(self, name: str, message: str, field: str, help: str | None = None) -> None:
        place = (*self.path, "params", name)
        rule = schema_rules.WRONG_TYPE if field == "buffer" else rules.AUTO
        rule = loss_rules.PARAM_FORM if field in ("parts", "true_is", "by_part", "or_function") else rule
        self.sink.add(rule.at(self.file.span(*place, field), message, help=help))
