"""Network calls in the expressions of a loss: found, checked, and put before the terms.

A call that reads the data alone is a value there. One that reads what the terms compute, `critic(now, action=u)`, is a
function of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from specgen.check.loss_builtins import which_member
from specgen.check.loss_model import (
    Alias,
    Choice,
    Forward,
    LossNetwork,
    NetworkCall,
    NetworkValue,
    Record,
    Variant,
)
from specgen.check.network_types import called_network, network_node
from specgen.diagnostics import Rule, Sink, did_you_mean, suggestion
from specgen.diagnostics.rules import losses as rules
from specgen.expr import SourceText, Type, Typed, tree
from specgen.expr.builtins.record import Builtin
from specgen.expr.builtins.site import Site
from specgen.expr.tree import Expr, free_names
from specgen.program.names import numbered
from specgen.values import dataclass

_VARIANTS: dict[str, Variant] = {"": "live", "frozen": "frozen", "target": "target"}
_RECORDS: dict[str, Record] = {"now": "now", "next": "next"}


@dataclass
class NetworkCalls:
    """Takes the network calls out of the expressions of one loss, in order.

    Attributes:
        networks: the declared networks.
        roles: what the networks may read instead of the data, with its type where that is known.
        flags: the parameters, on which a choice between networks may depend.
        taken: the names that the declaration gives.
        sink: takes every mistake.
        broken: networks whose declaration is wrong; calls of them are not reported again.
        forward: what the networks compute, found so far.
        called: the networks that are called.
        targets: those whose target copy is called.
    """

    networks: Mapping[str, LossNetwork]
    roles: Mapping[str, Type | None]
    flags: frozenset[str]
    taken: frozenset[str]
    sink: Sink
    broken: frozenset[str] = frozenset()
    forward: list[Forward] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    targets: set[str] = field(default_factory=set)
    _known: dict[NetworkCall, str] = field(default_factory=dict)
    _failed: bool = False

    def whole(self, name: str, expr: Expr, source: SourceText, path: str) -> Forward | None:
        """The statement ``name: expr`` if it is a network call, or a choice between such by a condition."""
        value = self._value(expr, source, choice=False)
        if value is None:
            return None
        network = self._network_of(value)
        made = Forward(name, self._reused(value), network, self.networks[network].value, path)
        self.forward.append(made)
        if isinstance(value, NetworkCall):
            self._known.setdefault(value, name)
        return made

    def replaced(self, expr: Expr, source: SourceText, path: str) -> Expr | None:
        """``expr`` with names in the place of its network calls; None after reporting a mistake in one."""
        self._failed = False
        result = self._replace(expr, source, path)
        return None if self._failed else result

    def _replace(self, expr: Expr, source: SourceText, path: str) -> Expr:
        match expr:
            case tree.Call() if self._is_network(expr):
                call = self._call(expr, source)
                if call is None:
                    return expr
                if call not in self._known:
                    name = self._known[call] = numbered(
                        call.name, self.taken | {made.name for made in self.forward}
                    )
                    self.forward.append(
                        Forward(name, call, call.network, self.networks[call.network].value, path)
                    )
                made = tree.Name(self._known[call], expr.start, expr.end)
                if not call.replaced:
                    return made
                values = tuple(self._replace(keyword.value, source, path) for keyword in expr.keywords)
                return tree.Call(made, values, (), expr.start, expr.end)
            case tree.Call(tree.Name("given"), (tree.Name(),)):
                return expr
            case tree.Name() if expr.path in self.broken:
                self._failed = True
                return expr
            case tree.Name() if expr.path.split(".")[0] in self.networks:
                help = f"write {expr.path}(now) or {expr.path}(next)"
                self._error(
                    rules.NETWORK_CALL, source, expr, f"`{expr.path}` is a network, not a value", help
                )
                return expr
            case tree.Literal() | tree.Name() | tree.Spread():
                return expr
            case tree.Call():
                return replace(
                    expr,
                    args=tuple(self._replace(arg, source, path) for arg in expr.args),
                    keywords=tuple(
                        replace(keyword, value=self._replace(keyword.value, source, path))
                        for keyword in expr.keywords
                    ),
                )
            case tree.Index():
                value = self._replace(expr.value, source, path)
                return replace(
                    expr, value=value, items=tuple(self._item(item, source, path) for item in expr.items)
                )
            case tree.Unary():
                return replace(expr, operand=self._replace(expr.operand, source, path))
            case tree.Binary():
                left, right = self._replace(expr.left, source, path), self._replace(expr.right, source, path)
                return replace(expr, left=left, right=right)
            case tree.Compare() | tree.Logic():
                return replace(
                    expr, operands=tuple(self._replace(part, source, path) for part in expr.operands)
                )
            case tree.Tuple():
                return replace(expr, items=tuple(self._replace(part, source, path) for part in expr.items))

    def _item(
        self, item: Expr | tree.Slice | tree.Axis | tree.Rest, source: SourceText, path: str
    ) -> Expr | tree.Slice | tree.Axis | tree.Rest:
        # The ends of a slice are known at build: no network can stand there.
        return (
            item
            if isinstance(item, tree.Slice | tree.Axis | tree.Rest)
            else self._replace(item, source, path)
        )

    def _value(self, expr: Expr, source: SourceText, *, choice: bool) -> NetworkValue | None:
        """What a network call, or a choice between network calls, is; None if the expression is something else."""
        if isinstance(expr, tree.Call) and self._is_network(expr):
            return None if expr.keywords else self._call(expr, source)
        if isinstance(expr, tree.Name) and choice:
            return Alias(expr.path) if any(made.name == expr.path for made in self.forward) else None
        if isinstance(expr, tree.Call) and _is_where(expr) and free_names(expr.args[0]) <= self.flags:
            then = self._value(expr.args[1], source, choice=True)
            otherwise = self._value(expr.args[2], source, choice=True)
            if then is not None and otherwise is not None:
                return Choice(expr.args[0], source, then, otherwise)
        return None

    def _reused(self, value: NetworkValue) -> NetworkValue:
        """The value with calls that were made before replaced by their names."""
        if isinstance(value, Choice):
            return replace(value, then=self._reused(value.then), otherwise=self._reused(value.otherwise))
        if isinstance(value, NetworkCall) and value in self._known:
            return Alias(self._known[value])
        return value

    def _network_of(self, value: NetworkValue) -> str:
        match value:
            case NetworkCall():
                return value.network
            case Alias():
                return next(made.network for made in self.forward if made.name == value.name)
            case Choice():
                return self._network_of(value.then)

    def _is_network(self, call: tree.Call) -> bool:
        """Whether a call is meant for a network: by its name, or because it reads a record."""
        name = call.function.path.split(".")[0]
        if name in self.networks or name in self.broken:
            return True
        return len(call.args) == 1 and isinstance(call.args[0], tree.Name) and call.args[0].path in _RECORDS

    def _call(self, expr: tree.Call, source: SourceText) -> NetworkCall | None:
        name, _, variant = expr.function.path.partition(".")
        network = self.networks.get(name)
        if name in self.broken:
            self._failed = True
            return None
        if network is None:
            known = (
                suggestion(name, self.networks) or f"the networks are {', '.join(self.networks) or 'none'}"
            )
            self._error(rules.UNKNOWN_NETWORK, source, expr.function, f"unknown network `{name}`", known)
            return None
        if variant not in _VARIANTS:
            near = did_you_mean(variant, ("target", "frozen"))
            meant = f"{name}.{near}" if near else f"{name}, {name}.frozen or {name}.target"
            message = f"a network has no `{variant}` parameters"
            self._error(rules.NETWORK_CALL, source, expr.function, message, f"write {meant}")
            return None
        record = expr.args[0].path if len(expr.args) == 1 and isinstance(expr.args[0], tree.Name) else ""
        if record not in _RECORDS:
            message = f"`{name}` is called with `now` or `next`"
            self._error(rules.NETWORK_CALL, source, expr, message, f"write {expr.function.path}(now)")
            return None
        for keyword in expr.keywords:
            if keyword.name not in self.roles:
                message = f"`{keyword.name}` is no role that `{name}` could read"
                known = suggestion(keyword.name, self.roles) or f"the roles are {', '.join(self.roles)}"
                at = tree.Name(keyword.name, keyword.start, keyword.start + len(keyword.name))
                self._error(rules.NETWORK_CALL, source, at, message, known)
                return None
        if variant == "target":
            if network.target is False:
                message = f"`{name}` has no target parameters"
                self._error(
                    rules.NO_TARGET, source, expr.function, message, f"add `target: true` to `{name}`"
                )
                return None
            self.targets.add(name)
        self.called.add(name)
        replaced = tuple(keyword.name for keyword in expr.keywords)
        return NetworkCall(name, _VARIANTS[variant], _RECORDS[record], replaced)

    def _error(self, rule: Rule, source: SourceText, at: Expr, message: str, help: str) -> None:
        self._failed = True
        self.sink.add(rule.at(source.span_of(at.start, at.end), message, help=help))


def network_function(made: Forward, roles: Mapping[str, Type | None]) -> Builtin:
    """How expressions call a network that reads what they compute: one argument for each role."""
    return called_network(made.name, made.replaced, "", lambda site: _infer(site, made, roles))


def _infer(site: Site, made: Forward, roles: Mapping[str, Type | None]) -> Typed | None:
    for value, name in zip(site.values, made.replaced, strict=True):
        kind, wanted = value.type, roles[name]
        if kind.level != "batch":
            message = f"`{name}` is one value per sample, `{site.written(value)}` is the same for all"
            site.fail(rules.NETWORK_CALL, message, at=value)
            return None
        if kind.axes:
            message = f"`{name}` is one value per sample, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALL, message, at=value, help=which_member(value))
            return None
        if wanted is not None and (kind.dtype, len(kind.dims)) != (wanted.dtype, len(wanted.dims)):
            message = f"`{made.network}` reads {wanted} as `{name}`, `{site.written(value)}` is {kind}"
            site.fail(rules.NETWORK_CALL, message, at=value)
            return None
    return network_node(site, made.symbol, made.type)


def _is_where(expr: tree.Call) -> bool:
    return expr.function.path == "where" and len(expr.args) == 3 and not expr.keywords
