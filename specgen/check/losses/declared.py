"""What a loss declares before its expressions: parameters, networks, keys, the estimator."""

from __future__ import annotations

from dataclasses import field

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.builtins import WORDS
from specgen.check.losses.coefficients import Coefficients, without_auto
from specgen.check.losses.conditions import random_of, read_condition
from specgen.check.losses.distributions import policy_type
from specgen.check.losses.domains import Domains
from specgen.check.losses.estimators import estimators, missing
from specgen.check.losses.learnables import CheckedLearnable, Learnables
from specgen.check.losses.masks import mask_of_key
from specgen.check.losses.model import LossNetwork, LossRole
from specgen.check.losses.modules import Modules
from specgen.check.losses.names import data_key_refusal
from specgen.check.losses.network_fields import fields_fit
from specgen.check.losses.numbers import Coefficient
from specgen.check.losses.qvalue_actions import action_type, values_fit
from specgen.check.model import Parameter
from specgen.check.names import Names, refusal, refused, shortened
from specgen.check.network_types import network_type
from specgen.check.params import OF_LOSSES, check_params
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Expr, Interval, SourceText, Symbol, Type, Typed, full, tree
from specgen.expr.sizes import Axis, named_size
from specgen.expr.tree import subexpressions
from specgen.expr.types import Record
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Estimator, Loss, LossKey, Network
from specgen.values import dataclass, replace

_SIGNALS = {
    "reward": Type("float32", (), col=True),
    "done": Type("bool", (), col=True),
    "terminated": Type("bool", (), col=True),
    "truncated": Type("bool", (), col=True),
}
_NONE = Binding(Type("str"), full("bool"))


@dataclass
class Declared:
    """The declarations of one loss, checked in the order of dependence.

    Attributes:
        file, path, loss: where they stand, and what they say.
        names: the namespace of the loss.
        sink: takes every mistake.
        inherited: the parameters that the class which it extends reads by properties.
        params: the constructor keywords.
        learnables: the numbers that are learned.
        scope: what expressions read: parameters, words and keys.
        networks, roles: those whose declaration is right.
        coefficients: the parameters that are buffers, by name.
        domains: the roles of which a spec is known.
        modules: the objects of the constructor whose methods expressions call.
        estimators: the value estimators that users may choose, the default first; none where there is none.
        value_role: the role whose key the estimator takes for the value.
    """

    file: SchemaFile
    path: tuple[str, ...]
    loss: Loss
    names: Names
    sink: Sink
    inherited: frozenset[str] = frozenset()
    params: tuple[Parameter, ...] = ()
    learnables: tuple[CheckedLearnable, ...] = ()
    scope: dict[str, Binding] = field(default_factory=dict)
    networks: tuple[LossNetwork, ...] = ()
    roles: tuple[LossRole, ...] = ()
    estimators: tuple[str, ...] = ()
    coefficients: dict[str, Coefficient] = field(default_factory=dict)
    value_role: str = "value"

    def __post_init__(self) -> None:
        self.domains = Domains(self.file, self.path, self.sink)
        self.modules = Modules(self.file, self.path, self.loss.modules, self.names, self.sink)

    def check(self) -> None:
        """Check them all."""
        given = without_auto(self.loss.params)
        self.params, scope = check_params(self.file, self.path, given, OF_LOSSES, self.names, self.sink)
        self.scope = {**WORDS, **scope}
        learnables = Learnables(self.file, self.path, self.loss, scope, self.names, self.sink)
        self.learnables = learnables.checked()
        self.scope |= {one.name: one.binding for one in self.learnables}
        self.networks = tuple(
            replace(one, inputs=tuple(self.loss.networks[one.name].in_)) for one in self._networks()
        )
        for network in self.networks:
            if network.optional:
                self.scope[network.name] = network.presence(".".join(self.path))
            if network.certain:
                self.scope[random_of(network.name)] = network.random(".".join(self.path))
        self.modules.declare()
        self.scope |= self.modules.scope
        declaration = (self.file, self.path, self.loss)
        coefficients = Coefficients(
            *declaration, self.scope, self.domains, self.names, self.inherited, self.sink
        )
        coefficients.bind(self.params)
        self.roles = self._roles(self.networks)
        self.modules.updated(self.roles)
        for role in self.roles:
            if role.type is not None:
                place = (*self.path, "keys", role.name)
                symbol = Symbol(
                    ".".join(place),
                    role.name,
                    role.type,
                    role.interval,
                    "next" if role.after else "now",
                    role.key,
                    self.file.key_span(*place),
                )
                self.scope[role.name] = Binding(
                    role.type, role.interval, what="key", symbol=symbol, optional=role.optional
                )
        self.domains.declare(self.loss, self.roles, self.networks)
        for name, domain in self.domains.found.items():
            for index, word in domain.places:
                self.names.claim(word, "keyword", self.file.span(*self.path, "keys", name, "domain", index))
        self.scope |= self.domains.bounds
        self.params, self.coefficients = coefficients.checked(self.params)
        roles = [role.name for role in self.roles]
        self.estimators = estimators(self.file, self.path, self.loss, self.networks, roles, self.sink)
        estimator = self.loss.value_estimator
        if isinstance(estimator, Estimator) and estimator.value in roles:
            self.value_role = next(role.accepted for role in self.roles if role.name == estimator.value)

    @property
    def computed(self) -> frozenset[str]:
        """The parameters that other parameters read: computed defaults, and what True stands for."""
        kept = self.coefficients.values()
        made = [typed for one in kept for typed in (one.auto, one.auto_when) if typed is not None]
        switches = frozenset(one.true_is for one in kept if one.true_is is not None)
        return switches | {symbol.name for typed in made for symbol in typed.symbols_read}

    def readable(self, expr: Expr, source: SourceText) -> Expr | None:
        """An expression with names in the place of bounds, in which no pair is read as one number; else None."""
        for part in subexpressions(expr):
            kept = self.coefficients.get(part.path) if isinstance(part, tree.Name) else None
            if kept is not None and kept.parts:
                names = " or ".join(part.symbol.name for part in kept.parts)
                message = f"`{kept.name}` may be a pair of numbers"
                span = source.span_of(part.start, part.end)
                self.sink.add(rules.PARAM_FORM.at(span, message, help=f"read {names}"))
                return None
        return self.domains.bounded(expr, source) if self.modules.fits(expr, source) else None

    @property
    def read_as(self) -> dict[str, str]:
        """The parameters whose values expressions read under other names, by those."""
        kept = self.coefficients.values()
        found = {part.symbol.name: one.name for one in kept for part in one.parts}
        return found | {one.nonzero.name: one.name for one in kept}

    @property
    def flags(self) -> frozenset[str]:
        """What conditions ask for: parameters, their words, what may be left out, policies that may be certain."""
        words = {word for param in self.params for word in param.choices if self.scope[word].what == "word"}
        found = words | {param.name for param in self.params}
        found |= {one.name for one in self.networks if one.optional}
        found |= {random_of(one.name) for one in self.networks if one.certain}
        return frozenset(found | {one.name for one in self.modules.checked if one.optional})

    def _networks(self) -> tuple[LossNetwork, ...]:
        made = []
        for name, network in self.loss.networks.items():
            here = (*self.path, "networks", name)
            if name in LOSS_ATTRIBUTES:
                self.sink.add(refused(name, "every loss has it", "network", self.file.key_span(*here)))
                continue
            if not self.names.claim(name, "network", self.file.key_span(*here)):
                continue
            if not fields_fit(self.file, here, self.loss, self.sink):
                continue
            if network.policy is not None:
                made += self._policy(name, network)
                continue
            if len(network.out) > 1:
                made += self._record(name, network)
                continue
            (output,) = network.out
            type_ = self._type((*here, "out", output))
            target, apart = self._copies(name, network)
            if type_ is not None and not values_fit(self.file, here, network, type_, self.sink):
                continue
            if type_ is not None:
                members = self._members(network.ensemble, *here, "ensemble")
                if members is not None:
                    values = self.scope.get(members, _NONE).interval
                    axis = Axis("ensemble", named_size(members, values.low, values.high))
                    type_ = replace(type_, axes=(axis,))
                made.append(
                    LossNetwork(
                        name,
                        network.qvalue,
                        output,
                        type_,
                        target,
                        apart,
                        members,
                        network.doc,
                        network.optional,
                        joined=network.joined,
                        plain=network.plain is True,
                        trains=network.trains,
                        reads=tuple(network.in_) if network.plain is True else (),
                        buffers=self._buffers(network, *here, "buffers"),
                        choices=network.choices,
                    )
                )
        return tuple(sorted(made, key=lambda one: one.optional))  # the constructor's last, also of a child

    def _record(self, name: str, network: Network) -> list[LossNetwork]:
        """A network that writes several entries; none after reporting a mistake."""
        here = (*self.path, "networks", name)
        found = [(role, self._type((*here, "out", role))) for role in network.out]
        fields = tuple((role, type_) for role, type_ in found if type_ is not None)
        target, apart = self._copies(name, network)
        if len(fields) < len(found):
            return []
        record = Record(fields=fields)
        doc, optional, trains = network.doc, network.optional, network.trains
        return [LossNetwork(name, None, "", record, target, apart, None, doc, optional, trains=trains)]

    def _buffers(self, network: Network, *here: str) -> dict[str, Type]:
        """The buffers of a network that expressions read, with their types."""
        types = {name: self._type((*here, name)) for name in network.buffers}
        return {
            name: replace(type, level="const", col=False)
            for name, type in types.items()
            if type is not None and self.names.claim(name, "buffer", self.file.key_span(*here, name))
        }

    def _copies(self, name: str, network: Network) -> tuple[bool | str, bool | str]:
        """When a network has target parameters, and when networks before it train what they share."""
        here = (*self.path, "networks", name)
        target = self._truth_value(network.target, *here, "target")
        apart = self._truth_value(network.apart, *here, "apart")
        if apart is not False and network is next(iter(self.loss.networks.values())):
            message = f"`apart` is of what `{name}` shares with a network before it, and it is the first one"
            help = "declare it behind the network that trains what they share"
            self.sink.add(schema_rules.WRONG_TYPE.at(self.file.key_span(*here, "apart"), message, help=help))
        return target, apart

    def _policy(self, name: str, network: Network) -> list[LossNetwork]:
        """A network that gives a distribution over a role; none after reporting a mistake."""
        here, role = (*self.path, "networks", name), network.policy or ""
        if role not in self.loss.keys:
            self.unknown_role(role, list(self.loss.keys), *here[2:], "policy")
            return []
        valued = next((one for one in self.loss.networks.items() if one[1].qvalue == role), None)
        event, actions = None, None
        if valued is not None and len(valued[1].out) == 1:
            values = self._type((*self.path, "networks", valued[0], "out", next(iter(valued[1].out))))
            actions = None if values is None or values.rank < 1 else values.sizes[-1]
        else:
            given = self.loss.keys[role]
            if isinstance(given, LossKey) and given.type is not None:
                event = self._type((*self.path, "keys", role, "type"))
        target, apart = self._copies(name, network)
        return [
            LossNetwork(
                name,
                None,
                role,
                policy_type(event, actions),
                target,
                apart,
                None,
                network.doc,
                network.optional,
                plain=network.plain == "delta",
                trains=network.trains,
                keys=network.keys,
            )
        ]

    def _members(self, param: str | None, *place: str) -> str | None:
        """The parameter that says how many members an ensemble has; None where there is none."""
        found = next((one for one in self.params if one.name == param), None)
        if param is None or (found is not None and found.type.dtype == "int64" and found.interval.low >= 1):
            return param
        message = f"`ensemble` is the parameter that says how many members there are; `{param}` is none, or may be 0"
        help = f"declare it: `params: {{{param}: {{default: 2, min: 1}}}}`"
        self.sink.add(schema_rules.UNKNOWN_DECLARATION.at(self.file.span(*place), message, help=help))
        return param

    def _truth_value(self, value: bool | str, *place: str) -> bool | str:
        """A field that is a truth value or names a parameter that is one."""
        if isinstance(value, bool) or self.scope.get(value, _NONE).type.dtype == "bool":
            return value
        field = place[-1]
        self.sink.add(
            schema_rules.UNKNOWN_DECLARATION.at(
                self.file.span(*place),
                f"`{field}` is true, false or a parameter that is; there is no truth value `{value}`",
                help=suggestion(value, self.scope) or f"declare it: `params: {{{value}: true}}`",
            )
        )
        return True

    def _type(self, here: tuple[str, ...]) -> Type | None:
        """A declared type; dimensions may be names of sizes that only the user's networks know."""
        spec = network_type(self.file, here, self.sink)
        if spec is None:
            return None
        if spec.shape == (1,):
            # One number with a trailing 1, as rewards and state values are stored.
            return Type(spec.dtype, (), col=True)
        return Type(spec.dtype, spec.shape)

    def _roles(self, networks: tuple[LossNetwork, ...]) -> tuple[LossRole, ...]:
        made = []
        actions = {network.action: network for network in networks if network.action is not None}
        outputs: dict[str, tuple[str, Type | None]] = {
            one.output: (one.name, None) for one in networks if one.policy
        }
        outputs |= {role: (one.name, type) for one in networks for role, type in one.outputs}
        for name, given in self.loss.keys.items():
            here = (*self.path, "keys", name)
            if not self.names.claim(name, "key", self.file.key_span(*here)):
                continue
            declared = given if isinstance(given, LossKey) else LossKey(key=given)
            if not declared.key:
                message, help = f"`{'.'.join(here)}` needs a field `key`", f"write `key: {name}`"
                self.sink.add(schema_rules.MISSING_FIELD.at(self.file.key_span(*here), message, help=help))
                declared = declared.model_copy(update={"key": name})  # what reads it is no second mistake
            if reason := data_key_refusal(declared.key):
                place = (*here, "key") if isinstance(given, LossKey) else here
                message = f"`{shortened(declared.key)}` can't be a key: {reason}"
                self.sink.add(schema_rules.NAME_REFUSED.at(self.file.span(*place), message))
                continue
            if declared.role is not None and (reason := refusal(declared.role, foreign=True)):
                self.sink.add(refused(declared.role, reason, "key", self.file.span(*here, "role")))
                continue
            type_, interval = _SIGNALS.get(name), None
            if declared.type is not None:
                type_ = self._type((*here, "type"))
            elif type_ is None and name in outputs:
                type_ = outputs[name][1]
            if (network := actions.get(name)) is not None:
                said = type_ if declared.type is not None else None
                type_ = action_type(self.file, self.path, self.loss, name, said, network, self.sink)
                interval = Interval.indices(network.type.sizes[-1])
            made.append(
                LossRole(
                    name,
                    tuple(declared.key.split(".")),
                    type_,
                    interval or full(type_.dtype if type_ else "float32"),
                    name in _SIGNALS,
                    declared.doc,
                    declared.role,
                    declared.optional,
                    None if declared.when is None else self._condition(*here, "when"),
                    missing(self.file, here, self.loss, declared, type_, self.sink),
                    mask_of_key(self.file, here, declared, type_, self.sink),
                )
            )
        known = [role.name for role in made]
        for one in networks:
            if one.action is not None and one.action not in known:
                self.unknown_role(one.action, known, "networks", one.name, "qvalue")
        renamed = [role.role for role in made]
        for name, (writer, _) in outputs.items():
            if name in renamed or name in known:
                continue
            span = self.file.key_span(*self.path, "networks", writer, "out", name)
            if self.names.claim(name, "key", span):
                made.append(LossRole(name, (name,), None, full("float32"), False, f"written by {writer}"))
        return tuple(made)

    def _condition(self, *place: str) -> Typed | None:
        return read_condition(self.file.scalar(*place), self.scope, self.sink)

    def unknown_role(self, name: str, known: list[str], *place: str, key: bool = False) -> None:
        """Report a role that is not declared, at a value (or a key) below the loss."""
        span = self.file.key_span(*self.path, *place) if key else self.file.span(*self.path, *place)
        defaults = {
            given.key if isinstance(given, LossKey) else given: role for role, given in self.loss.keys.items()
        }
        help = suggestion(name, known) or f"declare `{name}` under `keys`"
        if name in defaults:
            help = f"write the role whose key it is: `{defaults[name]}`"
        self.sink.add(rules.UNKNOWN_ROLE.at(span, f"`{name}` is no key of `{self.path[-1]}`", help=help))
