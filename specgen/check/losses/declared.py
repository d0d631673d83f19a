"""What a loss declares before its expressions: parameters, networks, keys, the estimator."""

from __future__ import annotations

from dataclasses import field, replace

from specgen.check.attributes import LOSS_ATTRIBUTES
from specgen.check.losses.builtins import WORDS
from specgen.check.losses.coefficients import Coefficients, without_auto
from specgen.check.losses.conditions import random_of, read_condition
from specgen.check.losses.distributions import policy_type
from specgen.check.losses.domains import Domains
from specgen.check.losses.estimators import estimators, missing
from specgen.check.losses.learnables import CheckedLearnable, Learnables
from specgen.check.losses.masks import mask_of_key
from specgen.check.losses.model import Coefficient, LossNetwork, LossRole
from specgen.check.losses.modules import Modules
from specgen.check.losses.names import data_key_refusal
from specgen.check.model import Parameter
from specgen.check.names import Names, refusal, refused, shortened
from specgen.check.network_types import network_type
from specgen.check.params import OF_LOSSES, check_params
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import losses as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.expr import Binding, Interval, Symbol, Type, Typed, full
from specgen.schema.load import SchemaFile
from specgen.schema.loss import Estimator, Loss, LossKey, Network
from specgen.values import dataclass

_SIGNALS = {
    "reward": Type("float32", (), col=True),
    "done": Type("bool", (), col=True),
    "terminated": Type("bool", (), col=True),
    "truncated": Type("bool", (), col=True),
}
_OF_FUNCTIONAL = ("qvalue", "ensemble", "target", "apart", "optional")
"""Fields of networks whose parameters a loss takes."""
_NONE = Binding(Type("str"), full("bool"))


@dataclass
class Declared:
    """The declarations of one loss, checked in the order of dependence.

    Attributes:
        file, path, loss: where they stand, and what they say.
        names: the namespace of the loss.
        sink: takes every mistake.
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
        self.networks = self._networks()
        for network in self.networks:
            if network.optional:
                self.scope[network.name] = network.presence(".".join(self.path))
            if network.certain:
                self.scope[random_of(network.name)] = network.random(".".join(self.path))
        self.modules.declare()
        self.scope |= self.modules.scope
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
        coefficients = Coefficients(self.file, self.path, self.loss, self.scope, self.domains, self.sink)
        self.params, self.coefficients = coefficients.checked(self.params)
        roles = [role.name for role in self.roles]
        self.estimators = estimators(self.file, self.path, self.loss, self.networks, roles, self.sink)
        estimator = self.loss.value_estimator
        if isinstance(estimator, Estimator) and estimator.value in roles:
            self.value_role = next(role.accepted for role in self.roles if role.name == estimator.value)

    @property
    def computed(self) -> frozenset[str]:
        """The parameters that computed defaults read."""
        made = (one.auto for one in self.coefficients.values() if one.auto is not None)
        return frozenset(symbol.name for typed in made for symbol in typed.symbols_read)

    @property
    def flags(self) -> frozenset[str]:
        """What conditions ask for: parameters, networks and modules that may be left out, policies that may be certain."""
        found = {param.name for param in self.params}
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
            if network.policy is not None:
                made += self._policy(name, network)
                continue
            if network.plain and not self._fits_plain(name, network):
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
            type_ = self._type((*here, "out", output))
            target, apart = self._copies(name, network)
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
                members = self._members(network.ensemble, *here, "ensemble")
                if members is not None:
                    type_ = replace(type_, axes=("ensemble",))
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
                        network.plain is True,
                        network.trains,
                        tuple(network.in_),
                    )
                )
        return tuple(made)

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
        for unfit in ("out", "qvalue", "ensemble"):
            if getattr(network, unfit):
                message = f"`{name}` gives a distribution over `{role}`, and has no `{unfit}`"
                help = f"leave out `{unfit}`, or `policy`"
                self.sink.add(
                    schema_rules.WRONG_TYPE.at(self.file.key_span(*here, unfit), message, help=help)
                )
                return []
        valued = next((one for one in self.loss.networks.items() if one[1].qvalue == role), None)
        event, actions = None, None
        if valued is not None and len(valued[1].out) == 1:
            values = self._type((*self.path, "networks", valued[0], "out", next(iter(valued[1].out))))
            actions = None if values is None or values.rank != 1 else values.sizes[0]
        else:
            given = self.loss.keys[role]
            if isinstance(given, LossKey) and given.type is not None:
                event = self._type((*self.path, "keys", role, "type"))
        target, apart = self._copies(name, network)
        made = policy_type(event, actions)
        if network.plain is True:
            message = f"`{name}` is a policy: `plain: delta` says that it may be certain"
            self.sink.add(
                rules.PLAIN.at(self.file.span(*here, "plain"), message, help="write `plain: delta`")
            )
            return []
        plain, trains = network.plain == "delta", network.trains
        return [
            LossNetwork(
                name, None, role, made, target, apart, None, network.doc, network.optional, plain, trains
            )
        ]

    def _fits_plain(self, name: str, network: Network) -> bool:
        """Whether a network can be a module of tensors: reported where it can't."""
        here, help = (*self.path, "networks", name), None
        wrong = next((field for field in _OF_FUNCTIONAL if getattr(network, field)), None)
        unknown = next((role for role in network.in_ if role not in self.loss.keys), None)
        if network.plain == "delta":
            message, help = (
                f"`{name}` is no policy, of which `plain: delta` is",
                "declare `policy` in the place of `out`",
            )
            place = self.file.span(*here, "plain")
        elif wrong is not None:
            message = f"`{name}` is a module of tensors, which is kept as it is, and has no `{wrong}`"
            place = self.file.key_span(*here, wrong)
        elif unknown is not None or not network.in_:
            message = f"`{name}` is called with the tensors of the keys under `in`: "
            message += "there is none" if unknown is None else f"`{unknown}` is no key"
            known = suggestion(unknown or "", self.loss.keys)
            unknown = unknown or "observation"
            help = known or f'declare it: `keys: {{{unknown}: {{key: {unknown}, type: "float32[n]"}}}}`'
            place = self.file.span(*here, "in")
        else:
            return True
        self.sink.add(rules.PLAIN.at(place, message, help=help))
        return False

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
        outputs = {network.output: network for network in networks}
        for name, given in self.loss.keys.items():
            here = (*self.path, "keys", name)
            if not self.names.claim(name, "key", self.file.key_span(*here)):
                continue
            declared = given if isinstance(given, LossKey) else LossKey(key=given)
            if not declared.key:
                message = f"`{'.'.join(here)}` needs a field `key`"
                self.sink.add(schema_rules.MISSING_FIELD.at(self.file.key_span(*here), message))
                continue
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
            elif type_ is None and name in outputs and not outputs[name].policy:
                type_ = outputs[name].type
            if (network := actions.get(name)) is not None:
                (size,) = network.type.sizes
                type_, interval = Type("int64"), Interval.indices(size)
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
                    self._condition(declared, *here),
                    missing(self.file, here, self.loss, declared, type_, self.sink),
                    mask_of_key(self.file, here, declared, type_, self.sink),
                )
            )
        known = [role.name for role in made]
        for network in networks:
            if network.action is not None and network.action not in known:
                self.unknown_role(network.action, known, "networks", network.name, "qvalue")
        renamed = [role.role for role in made]
        for name, network in outputs.items():
            if name in renamed or (network.plain and not network.policy):
                continue
            if name not in known and self.names.claim(
                name, "key", self.file.key_span(*self.path, "networks", network.name, "out", name)
            ):
                made.append(
                    LossRole(name, (name,), None, full("float32"), False, f"written by {network.name}")
                )
        return tuple(made)

    def _condition(self, declared: LossKey, *here: str) -> Typed | None:
        """The condition on parameters under which a key is there."""
        if declared.when is None:
            return None
        return read_condition(self.file.scalar(*here, "when"), self.scope, self.sink)

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
