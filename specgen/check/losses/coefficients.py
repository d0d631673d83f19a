"""Parameters of a loss that its class keeps as buffers, and those whose default is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specgen.check.losses.domains import Domains
from specgen.check.losses.model import Coefficient
from specgen.check.losses.when_made import known_when_made
from specgen.check.model import Parameter
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import loss_domains as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Typed, full, infer, parse
from specgen.schema.fields import ParamField
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Loss, LossParam
from specgen.values import dataclass

AUTO = "auto"


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


@dataclass
class Coefficients:
    """Checks the parameters that are kept as buffers.

    Attributes:
        file, path: where the loss is declared.
        loss: what is declared.
        scope: what expressions read; the parameters that are buffers are tensors there.
        domains: the roles whose specs are known.
        sink: takes every mistake.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    scope: dict[str, Binding]
    domains: Domains
    sink: Sink

    def checked(self, params: tuple[Parameter, ...]) -> tuple[tuple[Parameter, ...], dict[str, Coefficient]]:
        """The parameters, and those among them that are buffers, by name."""
        numbers = {param.name: self.scope[param.name] for param in params}
        made: list[Parameter] = []
        found: dict[str, Coefficient] = {}
        for param in params:
            declared = self.loss.params[param.name]
            if not isinstance(declared, LossParam) or not (declared.buffer or declared.auto):
                made.append(param)
                if isinstance(declared, LossParam) and declared.default == AUTO and param.default is None:
                    self._misfit(
                        param.name, "`default: auto` needs the expression that it stands for", "default"
                    )
                continue
            if param.kind != "float":
                what = "auto" if declared.auto else "buffer"
                self._misfit(param.name, f"`{what}` is of a number: type float", what)
                continue
            auto = None
            if declared.auto is not None:
                if declared.default != AUTO:
                    self._misfit(param.name, "`auto` is what `default: auto` stands for", "auto")
                    continue
                auto = self._auto(param.name, numbers)
                if auto is None:
                    continue
                param = replace(param, default=AUTO, optional=False)
            of_domain = auto is not None and any(".domains." in one.path for one in auto.symbols_read)
            state = declared.buffer if isinstance(declared.buffer, str) else param.name
            if of_domain and not isinstance(declared.buffer, str):
                state = f"_{param.name}"
            made.append(param)
            found[param.name] = Coefficient(param.name, state, auto, of_domain)
            old = self.scope[param.name]
            kind = replace(old.type, level="const")
            symbol = replace(old.symbol, type=kind) if old.symbol is not None else None
            self.scope[param.name] = replace(
                old, type=kind, interval=full("float32"), symbol=symbol, optional=param.optional
            )
        return tuple(made), found

    def _auto(self, name: str, numbers: Mapping[str, Binding]) -> Typed | None:
        """What the default stands for: a number of the constructor; None after reporting a mistake."""
        source = self.file.scalar(*self.path, "params", name, "auto")
        expr = parse(source, self.sink)
        named = None if expr is None else self.domains.sized(expr, source)
        if named is None or not known_when_made(named, source, self.loss, "auto", self.sink):
            return None
        known = {other: replace(one, optional=False) for other, one in numbers.items() if other != name}
        typed = infer(named, known | self.domains.sizes, source, self.sink)
        if typed is not None and (not typed.type.python or typed.type.dtype in ("bool", "str")):
            self._misfit(name, f"`auto` is a number of the constructor, this is {typed.type}", "auto")
            return None
        return typed

    def _misfit(self, name: str, message: str, field: str) -> None:
        place = (*self.path, "params", name)
        rule = schema_rules.WRONG_TYPE if field == "buffer" else rules.AUTO
        self.sink.add(rule.at(self.file.span(*place, field), message))
