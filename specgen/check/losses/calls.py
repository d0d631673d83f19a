"""A call of a network in an expression of a loss: which network, with which parameters, and which record it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specgen.check.losses.forward import NetworkCall, Record, Variant
from specgen.check.losses.model import LossNetwork
from specgen.diagnostics import Rule, Sink, did_you_mean, suggestion
from specgen.diagnostics.rules import loss_values as value_rules
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules.loss_modules import PLAIN
from specgen.expr import SourceText, Type, tree
from specgen.expr.tree import Expr
from specgen.values import dataclass

RECORDS: Final[Mapping[str, Record]] = {"now": "now", "next": "next"}
"""What networks read, by its name in expressions."""

_VARIANTS: Final[Mapping[str, Variant]] = {
    "": "live",
    "frozen": "frozen",
    "target": "target",
    "stored": "stored",
}


@dataclass(frozen=True)
class CallReader:
    """Reads calls of networks in one expression.

    Attributes:
        networks: the declared networks.
        broken: networks whose declaration is wrong; calls of them are not reported again.
        roles: what networks may read instead of data.
        source: the text of the expression.
        sink: takes every mistake.
    """

    networks: Mapping[str, LossNetwork]
    broken: frozenset[str]
    roles: Mapping[str, Type | None]
    source: SourceText
    sink: Sink

    def read(self, expr: tree.Call) -> NetworkCall | None:
        """The call, without what stands for data; None after reporting a mistake."""
        name, _, variant = expr.function.path.partition(".")
        evaluated = variant.split(".")[-1] == "eval"
        variant = variant.removesuffix("eval").rstrip(".") if evaluated else variant
        network = self.networks.get(name)
        if name in self.broken:
            return None
        if network is None:
            known = (
                suggestion(name, self.networks) or f"the networks are {', '.join(self.networks) or 'none'}"
            )
            self._error(rules.UNKNOWN_NETWORK, expr.function, f"unknown network `{name}`", known)
            return None
        if variant not in _VARIANTS:
            near = did_you_mean(variant, (*tuple(_VARIANTS)[1:], "eval"))
            meant = f"{name}.{near}" if near else f"{name}, {name}.frozen or {name}.target"
            message = f"a network has no `{variant}` parameters"
            meant += ".eval" * evaluated
            self._error(rules.NETWORK_CALL, expr.function, message, f"write {meant}")
            return None
        record = expr.args[0].path if len(expr.args) == 1 and isinstance(expr.args[0], tree.Name) else ""
        if record not in RECORDS:
            message = f"`{name}` is called with `now` or `next`"
            self._error(rules.NETWORK_CALL, expr, message, f"write {expr.function.path}(now)")
            return None
        for keyword in expr.keywords:
            if keyword.name not in self.roles:
                message = f"`{keyword.name}` is no role that `{name}` could read"
                known = suggestion(keyword.name, self.roles) or f"the roles are {', '.join(self.roles)}"
                at = tree.Name(keyword.name, keyword.start, keyword.start + len(keyword.name))
                self._error(rules.NETWORK_CALL, at, message, known)
                return None
        if variant == "stored" and (not network.policy or expr.keywords):
            what = ", which reads nothing else" if network.policy else f"; `{name}` is no policy"
            message = f"`.stored` is the distribution that a policy wrote into the data{what}"
            self._error(value_rules.STORED, expr, message, f"write {name}.frozen({record})")
            return None
        if variant == "target" and network.target is False:
            message = f"`{name}` has no target parameters"
            self._error(rules.NO_TARGET, expr.function, message, f"add `target: true` to `{name}`")
            return None
        if network.kept and (evaluated or (variant == "frozen" and network.trains)):
            message = f"`{name}` is a module of tensors, which is called as it is"
            help = f"write {name}({record})" + ("" if evaluated else ", and stop_grad around it")
            self._error(PLAIN, expr.function, message, help)
            return None
        kind = _VARIANTS[variant] if network.trains or variant else "frozen"
        return NetworkCall(name, kind, RECORDS[record], (), evaluated)

    def _error(self, rule: Rule, at: Expr, message: str, help: str | None) -> None:
        self.sink.add(rule.at(self.source.span_of(at.start, at.end), message, help=help))
