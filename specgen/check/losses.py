"""Losses: networks, keys, parameters and every term, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from specgen.check.loss_builtins import LATER, LOSS_BUILTINS
from specgen.check.loss_model import (
    CheckedLoss,
    Choice,
    LossNetwork,
    LossRole,
    NetworkValue,
    Requirement,
    Size,
)
from specgen.check.loss_networks import NetworkCalls
from specgen.check.loss_params import check_loss_params
from specgen.check.model import Checked, Statement, identifier
from specgen.check.names import Names
from specgen.check.specs import NamedSpec
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import expressions as expression_rules
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import (
    Binding,
    Expr,
    Interval,
    Type,
    Typed,
    free_names,
    full,
    infer,
    parse,
    parse_type,
    tree,
)
from specgen.expr.dtypes import is_float
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Estimator, Loss, LossKey
from specgen.source import Mapping as MappingNode
from specgen.source import Scalar

__all__ = ["CheckedLoss", "check_loss"]

ESTIMATORS = ("td0",)
_ESTIMATORS_LATER = ("td1", "td_lambda", "gae", "vtrace")
_SIGNALS = {
    "reward": Type("float32", (), col=True),
    "done": Type("bool", (), col=True),
    "terminated": Type("bool", (), col=True),
    "truncated": Type("bool", (), col=True),
}
_SIZE = re.compile(r"[A-Za-z_]\w*")


def check_loss(
    file: SchemaFile, name: str, module: str, named: Mapping[str, NamedSpec], sink: Sink
) -> Checked[CheckedLoss] | None:
    """Check one loss.

    Args:
        file: where it is declared.
        name: its name under `losses:`.
        module: the generated module that it goes to, dotted.
        named: the specs that may be called by name; losses read tensors of networks, so none is.
        sink: takes every mistake.

    Returns:
        The checked loss, or ``None`` when there were errors.
    """
    mine = Sink()
    loss = _Checker(file, name, module, file.module.losses[name], mine).run()
    sink.extend(mine.items)
    return None if mine.has_errors else Checked(loss)


@dataclass
class _Checker:
    file: SchemaFile
    name: str
    module: str
    loss: Loss
    sink: Sink

    def run(self) -> CheckedLoss:
        self.path = ("losses", self.name)
        self.names = Names(self.sink)
        self._refuse_unavailable()
        params, self.scope = check_loss_params(self.file, self.path, self.loss.params, self.names, self.sink)
        flags = frozenset(param.name for param in params)
        require = self._requirements()
        networks = self._networks()
        roles = self._roles(networks)
        self._bind_roles(roles)
        estimator = self._estimator()
        self.functions = {
            name: builtin
            for name, builtin in LOSS_BUILTINS.items()
            if name != "value_estimate" or estimator is not None
        }
        self.calls = NetworkCalls({network.name: network for network in networks}, flags, self.sink)
        self.types: dict[str, Type] = {}
        self.broken: set[str] = set()
        let = self._section("let")
        terms = self._section("terms")
        metrics = self._section("metrics")
        writes = self._section("writes", roles)
        if not self.loss.terms:
            place = self.file.key_span(*self.path)
            self.sink.add(
                schema_rules.MISSING_FIELD.at(place, f"`{self.name}` needs `terms`: what is minimised")
            )
        if not self.sink.has_errors:
            self._targets_used(networks)
        return CheckedLoss(
            name=self.name,
            module=self.module,
            doc=" ".join(self.loss.doc.split()),
            networks=networks,
            roles=roles,
            params=params,
            require=require,
            forward=tuple(self.calls.forward),
            let=let,
            terms=terms,
            metrics=metrics,
            writes=writes,
            estimator=estimator,
            types=self.types,
        )

    def _refuse_unavailable(self) -> None:
        for field in ("learnable", "samples", "mask"):
            if getattr(self.loss, field):
                self._later(f"`{field}` is", field)
        for name, network in self.loss.networks.items():
            if network.policy is not None:
                self._later("networks that are policies are", "networks", name, "policy")
            if network.ensemble is not None:
                self._later("ensembles are", "networks", name, "ensemble")

    def _later(self, what: str, *place: str) -> None:
        self.sink.add(
            schema_rules.NOT_AVAILABLE.at(
                self.file.key_span(*self.path, *place),
                f"{what} not available yet in losses",
                help="subclass specgen_runtime.LossModule by hand for now",
            )
        )

    def _networks(self) -> tuple[LossNetwork, ...]:
        made = []
        for index, (name, network) in enumerate(self.loss.networks.items()):
            here = (*self.path, "networks", name)
            if not self.names.claim(name, "network", self.file.key_span(*here)) or network.policy is not None:
                continue
            if len(network.out) != 1:
                self.sink.add(
                    schema_rules.WRONG_TYPE.at(
                        self.file.key_span(*here),
                        f"`{name}` needs `out` with one key and its type, has {len(network.out)}",
                    )
                )
                continue
            (output,) = network.out
            type_ = self._type((*here, "out", output), start=1_000_003 + 1000 * index)
            target = network.target
            if isinstance(target, str) and self.scope.get(target, _NONE).type.dtype != "bool":
                self.sink.add(
                    schema_rules.UNKNOWN_DECLARATION.at(
                        self.file.span(*here, "target"),
                        f"`target` is true, false or a parameter that is; there is no truth value `{target}`",
                        help=suggestion(target, self.scope),
                    )
                )
                continue
            if type_ is not None and network.qvalue is not None and type_.rank != 1:
                message = (
                    f"the action values of `{name}` are a vector, one for each action; `{output}` is {type_}"
                )
                self.sink.add(
                    schema_rules.WRONG_TYPE.at(
                        self.file.span(*here, "out", output), message, help='write "float32[n]"'
                    )
                )
                continue
            if type_ is not None:
                made.append(LossNetwork(name, network.qvalue, output, type_, target, network.doc))
        return tuple(made)

    def _type(self, here: tuple[str, ...], start: int) -> Type | None:
        """A declared type; dimensions may be names of sizes that only the user's networks know."""
        source = self.file.scalar(*here)
        _, bracket, inside = source.text.partition("[")
        sizes = (
            {name: Size(name, start + index) for index, name in enumerate(_SIZE.findall(inside))}
            if bracket
            else {}
        )
        spec = parse_type(source, self.sink, sizes)
        if spec is None:
            return None
        if spec.shape == (1,):
            # One number with a trailing 1, as rewards and state values are stored.
            return Type(spec.dtype, (), col=True)
        named = {int(size): size for size in sizes.values()}
        return Type(spec.dtype, tuple(named.get(size, size) for size in spec.shape))

    def _roles(self, networks: tuple[LossNetwork, ...]) -> tuple[LossRole, ...]:
        made = []
        actions = {network.action: network for network in networks if network.action is not None}
        outputs = {network.output: network for network in networks}
        for name, given in self.loss.keys.items():
            here = (*self.path, "keys", name)
            if not self.names.claim(name, "key", self.file.key_span(*here)):
                continue
            declared = given if isinstance(given, LossKey) else LossKey(key=given)
            type_, interval = _SIGNALS.get(name), None
            if declared.type is not None:
                type_ = self._type((*here, "type"), start=2_000_003)
            if (network := actions.get(name)) is not None:
                (size,) = network.type.dims or (1,)
                type_, interval = Type("int64"), Interval(0, size - 1)
            made.append(
                LossRole(
                    name,
                    tuple(declared.key.split(".")),
                    type_,
                    interval or full(type_.dtype if type_ else "float32"),
                    name in _SIGNALS,
                    declared.doc,
                )
            )
        known = [role.name for role in made]
        for network in networks:
            if network.action is not None and network.action not in known:
                self._unknown_role(network.action, known, "networks", network.name, "qvalue")
        for name, network in outputs.items():
            if name not in known and self.names.claim(
                name, "key", self.file.key_span(*self.path, "networks", network.name, "out", name)
            ):
                made.append(
                    LossRole(name, (name,), None, full("float32"), False, f"written by {network.name}")
                )
        return tuple(made)

    def _unknown_role(self, name: str, known: list[str], *place: str, key: bool = False) -> None:
        span = self.file.key_span(*self.path, *place) if key else self.file.span(*self.path, *place)
        help = suggestion(name, known) or f"declare `{name}` under `keys`"
        self.sink.add(rules.UNKNOWN_ROLE.at(span, f"`{name}` is no key of `{self.name}`", help=help))

    def _bind_roles(self, roles: tuple[LossRole, ...]) -> None:
        for role in roles:
            if role.type is not None:
                self.scope[role.name] = Binding(role.name, role.type, role.interval, what="key")

    def _estimator(self) -> str | None:
        given = self.loss.value_estimator
        if given is None:
            return None
        name = given.default if isinstance(given, Estimator) else given
        place = (*self.path, "value_estimator", *(("default",) if isinstance(given, Estimator) else ()))
        if name in _ESTIMATORS_LATER:
            self.sink.add(
                schema_rules.NOT_AVAILABLE.at(
                    self.file.span(*place), f"the value estimator `{name}` is not available yet"
                )
            )
        elif name not in ESTIMATORS:
            help = suggestion(name, ESTIMATORS) or f"the estimators are {', '.join(ESTIMATORS)}"
            self.sink.add(
                rules.UNKNOWN_ESTIMATOR.at(
                    self.file.span(*place), f"unknown value estimator `{name}`", help=help
                )
            )
        if isinstance(given, Estimator) and given.value is not None and given.value not in self.loss.let:
            self.sink.add(
                expression_rules.UNDEFINED.at(
                    self.file.span(*self.path, "value_estimator", "value"),
                    f"`{given.value}` is no value under `let`",
                    help=suggestion(given.value, self.loss.let),
                )
            )
        return name

    def _requirements(self) -> tuple[Requirement, ...]:
        made = []
        for message in self.loss.require:
            source = self.file.scalar(*self.path, "require", message)
            expr = parse(source, self.sink)
            typed = None if expr is None else infer(expr, self.scope, source, self.sink)
            if expr is None or typed is None:
                continue
            if typed.type.dtype != "bool" or not typed.type.python:
                self.sink.add(
                    expression_rules.WRONG_DTYPE.at(
                        source.span, f"a requirement is a truth value of parameters, not {typed.type}"
                    )
                )
                continue
            made.append(Requirement(message, self._statement("require", message, expr, source)))
        return tuple(made)

    def _section(self, section: str, roles: tuple[LossRole, ...] = ()) -> tuple[Statement, ...]:
        path = (*self.path, section)
        node = self.file.node(*path) if getattr(self.loss, section) else None
        made: list[Statement] = []
        if not isinstance(node, MappingNode):
            return ()
        for key, value in node.entries:
            if not isinstance(value, Scalar) or not self._target(section, key, roles):
                self.broken.add(key.text)
                continue
            statement = self._assignment(section, key.text, value)
            if statement is not None:
                made.append(statement)
        return tuple(made)

    def _target(self, section: str, key: Scalar, roles: tuple[LossRole, ...]) -> bool:
        """Whether something may be called so here."""
        name = key.text
        if section == "writes":
            if name in (known := [role.name for role in roles]):
                return True
            self._unknown_role(name, known, "writes", name, key=True)
            return False
        if name in LOSS_BUILTINS or name in LATER:
            self.sink.add(
                schema_rules.NAME_REFUSED.at(
                    key.span, f"`{name}` can't be a name: it is a function of losses"
                )
            )
            return False
        if section == "terms" and not name.startswith("loss"):
            self.sink.add(
                rules.TERM_NAME.at(
                    key.span, f"the term `{name}` would not be minimised", help=f"call it `loss_{name}`"
                )
            )
            return False
        return self.names.claim(
            name, {"let": "value", "terms": "term", "metrics": "metric"}[section], key.span
        )

    def _assignment(self, section: str, name: str, source: Scalar) -> Statement | None:
        expr = parse(source, self.sink)
        # What reads a value that is wrong already is not reported again.
        if expr is None or free_names(expr) & self.broken or self._uses_later(expr, source):
            self.broken.add(name)
            return None
        path = ".".join((*self.path, section, name))
        if section == "let" and (forward := self.calls.whole(name, expr, source, path)) is not None:
            if self._choice_sound(forward.value, forward.type, source):
                self._bind(name, forward.type)
            else:
                self.broken.add(name)
            return None
        known = len(self.calls.forward)
        rewritten = self.calls.replaced(expr, source, path)
        for made in self.calls.forward[known:]:
            self._bind(made.name, made.type)
        typed = None if rewritten is None else self._typed(rewritten, source)
        if rewritten is None or typed is None or not self._fits(section, name, typed, source):
            self.broken.add(name)
            return None
        self.types[name] = typed.type
        if section == "let":
            what = Binding(identifier(name), typed.type, typed.interval, static=typed.static, what="value")
            self.scope[name] = what
        return self._statement(section, name, rewritten, source)

    def _typed(self, expr: Expr, source: Scalar) -> Typed | None:
        if "value_estimate" not in self.functions:
            for call in _calls(expr):
                if call.function.path == "value_estimate":
                    span = source.span_of(call.start, call.end)
                    help = "declare `value_estimator: td0`"
                    self.sink.add(rules.NO_ESTIMATOR.at(span, "this loss has no value estimator", help=help))
                    return None
        return infer(expr, self.scope, source, self.sink, functions=self.functions)

    def _uses_later(self, expr: Expr, source: Scalar) -> bool:
        found = [call.function for call in _calls(expr) if call.function.path in LATER]
        for function in found:
            span = source.span_of(function.start, function.end)
            self.sink.add(schema_rules.NOT_AVAILABLE.at(span, f"`{function.path}` is not available yet"))
        return bool(found)

    def _choice_sound(self, value: NetworkValue, type: Type, source: Scalar) -> bool:
        """Whether the condition of a choice is a truth value and both sides are of one type."""
        if not isinstance(value, Choice):
            return True
        condition = infer(value.condition, self.scope, source, self.sink)
        if condition is None:
            return False
        if condition.type.dtype != "bool":
            span = source.span_of(condition.start, condition.end)
            self.sink.add(
                expression_rules.WRONG_DTYPE.at(span, f"the condition is a truth value, not {condition.type}")
            )
            return False
        return self._choice_sound(value.then, type, source) and self._choice_sound(
            value.otherwise, type, source
        )

    def _fits(self, section: str, name: str, typed: Typed, source: Scalar) -> bool:
        if section == "let" or section == "metrics":
            return True
        if typed.type.dims == () and typed.type.level == "batch" and is_float(typed.type.dtype):
            return True
        help = "reduce its axes, as in sum(x, axis=-1)" if typed.type.dims else None
        message = f"`{name}` is one floating-point number per sample, this is {typed.type}"
        self.sink.add(rules.NOT_PER_SAMPLE.at(source.span, message, help=help))
        return False

    def _bind(self, name: str, type: Type) -> None:
        self.types[name] = type
        self.scope[name] = Binding(name, type, full(type.dtype), what="value")

    def _statement(self, section: str, name: str, expr: Expr, source: Scalar) -> Statement:
        called = frozenset(call.function.path for call in _calls(expr))
        return Statement(
            name, expr, source, free_names(expr), called, False, ".".join((*self.path, section, name))
        )

    def _targets_used(self, networks: tuple[LossNetwork, ...]) -> None:
        for network in networks:
            if network.target is not False and network.name not in self.calls.targets:
                if rules.UNUSED_TARGET.code in self.loss.allow:
                    continue
                self.sink.add(
                    rules.UNUSED_TARGET.at(
                        self.file.key_span(*self.path, "networks", network.name, "target"),
                        f"nothing calls `{network.name}.target`",
                        help=f"call {network.name}.target(next), or remove `target`",
                    )
                )


_NONE = Binding("", Type("str"), full("bool"))


def _calls(expr: Expr) -> list[tree.Call]:
    """Every function call in an expression."""
    own = [expr] if isinstance(expr, tree.Call) else []
    return own + [call for child in tree.children(expr) for call in _calls(child)]
