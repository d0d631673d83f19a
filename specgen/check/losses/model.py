"""What the checker proves of a loss and the planner may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from specgen.check.losses.forward import Forward, NetworkCall
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.losses.methods import CheckedMethod
from specgen.check.losses.numbers import CheckedDomain, Coefficient, ParamRead
from specgen.check.model import Parameter, Statement
from specgen.check.network_types import CALLED
from specgen.expr import Binding, Interval, Symbol, Type, Typed, full
from specgen.expr.symbols import Key
from specgen.expr.types import Distribution, Record
from specgen.values import dataclass, replace

TRUTH = Type("bool", (), "ctor")
"""A truth value that is known when a loss is made."""


@dataclass(frozen=True)
class LossNetwork:
    """A network of the constructor.

    Attributes:
        name: the keyword, and the attribute of the loss.
        action: the role of the discrete action that it values, if it values one; with `choices`, a row of values for each choice.
        output: the role of what it writes; of a policy the role whose distribution it gives; empty where it writes several.
        type: the type of that; a `Distribution` of a policy, a `Record` of several entries.
        target: whether it has target parameters: always, never, or as a parameter says.
        apart: whether the networks before it train what it shares with them: always, never, or as a parameter says.
        members: the parameter that says how many members it has; None of a single network.
        doc: one line.
        optional: whether it may be left out.
        plain: of a policy, whether it may be one that gives no distribution, but is certain; else whether it is a module of tensors.
        trains: whether gradients reach its parameters.
        reads: the roles that a module of tensors is called with.
        joined: whether its calls with trained parameters run as one batch.
        buffers: the buffers of it that are constants in expressions, with their types.
        inputs: what it reads unless the network that is given says otherwise: roles, or keys.
        keys: the roles whose keys it says, if it is a policy: of its `sample` and of its `log_prob`.
    """

    name: str
    action: str | None
    output: str
    type: Type
    target: bool | str
    apart: bool | str = False
    members: str | None = None
    doc: str = ""
    optional: bool = False
    plain: bool = False
    joined: bool = False
    trains: bool = True
    reads: tuple[str, ...] = ()
    buffers: Mapping[str, Type] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    keys: Mapping[str, Literal["sample", "log_prob"]] = field(default_factory=dict)
    choices: bool = False

    def random(self, path: str) -> Binding:
        """What `random` asks of a network of the loss at `path` that may be certain: whether it gives a distribution."""
        symbol = Symbol(f"{path}.random.{self.name}", f"random_{self.name}", TRUTH, full("bool"))
        return Binding(TRUTH, full("bool"), what="condition", symbol=symbol)

    def presence(self, path: str) -> Binding:
        """What `given` asks of an optional network of the loss at `path`."""
        symbol = Symbol(f"{path}.networks.{self.name}", self.name, CALLED, full("float32"))
        return Binding(CALLED, full("float32"), what="network", symbol=symbol, optional=True)

    @property
    def policy(self) -> bool:
        """Whether it gives a distribution."""
        return isinstance(self.type, Distribution)

    @property
    def outputs(self) -> tuple[tuple[str, Type], ...]:
        """The roles of the entries that it writes, with their types: none of a policy or a module of tensors, several of a record."""
        if isinstance(self.type, Record):
            return self.type.fields
        return () if self.policy or self.kept else ((self.output, self.type),)

    @property
    def certain(self) -> bool:
        """Whether it is a policy that may be certain."""
        return self.plain and self.policy

    @property
    def kept(self) -> bool:
        """Whether it is a module of tensors, which is kept as it is."""
        return self.plain and not self.policy

    def of_data(self, call: NetworkCall) -> tuple[str, ...]:
        """The roles that a call of a module of tensors reads from the data; other networks say themselves what they read."""
        replaced = {role for role, _ in call.replaced}
        return tuple(role for role in self.reads if role not in replaced)

    @property
    def value(self) -> Type:
        """What a call of it gives: numbers have no trailing 1 there."""
        return replace(self.type, col=False)


@dataclass(frozen=True)
class LossRole:
    """A key that users may rename.

    Attributes:
        name: the role: the name in expressions, and in `set_keys` where `role` says no other.
        key: the default key.
        type: the type in expressions; None for a key that only the estimator or the runtime reads.
        interval: its values.
        after: whether it belongs to the next record, as rewards and done flags do.
        doc: one line.
        role: the name in `set_keys`, where expressions call it otherwise.
        optional: whether the data may lack it.
        when: the condition on parameters under which it is there; None for always.
        missing: what stands for it where the data lack it: a number, or `estimate`, what the value estimator gives.
        mask: whether the class reads from it which samples count, or which don't.
    """

    name: str
    key: Key
    type: Type | None
    interval: Interval
    after: bool
    doc: str = ""
    role: str | None = None
    optional: bool = False
    when: Typed | None = None
    missing: float | Literal["estimate"] | None = None
    mask: Literal["true", "not"] | None = None

    @property
    def accepted(self) -> str:
        """The name in `set_keys`, and in the keys of the loss."""
        return self.role or self.name


@dataclass(frozen=True)
class CheckedModule:
    """An object of the constructor whose methods expressions call.

    Attributes:
        name: the keyword, and the attribute of the loss.
        protocol: what it can do.
        optional: whether it may be left out.
        update: the role of what it is updated by in training; None for what the loss does not change.
        estimated: whether only what the value estimator fills in updates it.
        doc: one line.
        symbol: the object.
    """

    name: str
    protocol: Literal["normalizer", "value_norm"]
    optional: bool
    update: str | None
    estimated: bool
    doc: str
    symbol: Symbol


@dataclass(frozen=True)
class Requirement:
    """A condition on the parameters, and what is said when it does not hold."""

    message: str
    condition: Statement


@dataclass(frozen=True)
class MeansFirst:
    """The means over dimensions of the samples that terms take before the reduction.

    Attributes:
        by: the parameter that says over which.
        dims: these dimensions by its words, counted from the last one, -1; None where nothing is reduced.
    """

    by: str
    dims: Mapping[str, tuple[int, ...] | None]


@dataclass(frozen=True)
class LossClass:
    """The class of a loss, as those know it that extend it.

    `roles` are the names that its `set_keys` takes, with their keys; `methods` have what each is given, `returns` counts
    outputs.
    """

    name: str
    module: str
    roles: Mapping[str, Key]
    properties: frozenset[str] = frozenset()
    methods: tuple[tuple[str, tuple[str, ...]], ...] = ()
    returns: int = 0


@dataclass(frozen=True)
class CheckedLoss:
    """A loss whose networks, keys, types and terms are known to be right.

    Attributes:
        forward: what the networks and distributions give, in order.
        let, terms, metrics, writes, update: the statements of the pure function, over those values.
        each: the metrics of which every sample's value is kept.
        by_part: the metrics that have a number for each part of an action, each with what the entry of a part is called.
        when: the terms and metrics that there are under a condition on parameters only, with that.
        elementwise: the terms of which a sample may have several numbers.
        mask: which samples count.
        masks: which count for a term besides, by its name.
        samples: the dimensions of a sample behind those of the batch, by their names.
        means: over which of them terms take means first; None where they don't.
        functional: whether the class takes the parameters of its networks, unless told otherwise.
        estimators: the value estimators that users may choose, the default first.
        value_role: the role whose key the estimator takes for the value.
        learnables: the numbers that are learned.
        fixed: the parameters that are constants.
        coefficients: the parameters that are buffers, by name.
        domains: the roles of which a spec is known.
        modules: objects of the constructor whose methods it calls.
        parent: the class that its class extends; None of one that extends no declared one.
        methods: the methods that compute one term.
        out_keys: the names of the terms and metrics, in the order in which a call with tensors returns them.
        symbols: what is declared, by its path below the loss: `params.p`, `keys.reward`, `forward.q`.
    """

    name: str
    module: str
    doc: str
    networks: tuple[LossNetwork, ...]
    roles: tuple[LossRole, ...]
    params: tuple[Parameter, ...]
    require: tuple[Requirement, ...] = ()
    forward: tuple[Forward, ...] = ()
    let: tuple[Statement, ...] = ()
    terms: tuple[Statement, ...] = ()
    metrics: tuple[Statement, ...] = ()
    writes: tuple[Statement, ...] = ()
    update: tuple[Statement, ...] = ()
    each: frozenset[str] = frozenset()
    by_part: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, Typed] = field(default_factory=dict)
    elementwise: frozenset[str] = frozenset()
    mask: Statement | None = None
    masks: Mapping[str, Statement] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    means: MeansFirst | None = None
    functional: bool = True
    estimators: tuple[str, ...] = ()
    value_role: str = "value"
    types: dict[str, Type] = field(default_factory=dict)
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    methods: Mapping[str, CheckedMethod] = field(default_factory=dict)
    out_keys: tuple[str, ...] = ()
    learnables: tuple[CheckedLearnable, ...] = ()
    fixed: frozenset[str] = frozenset()
    coefficients: Mapping[str, Coefficient] = field(default_factory=dict)
    domains: tuple[CheckedDomain, ...] = ()
    modules: tuple[CheckedModule, ...] = ()
    parent: LossClass | None = None

    @property
    def networks_by_name(self) -> dict[str, LossNetwork]:
        """The networks, in their order."""
        return {network.name: network for network in self.networks}

    @property
    def param_reads(self) -> tuple[ParamRead, ...]:
        """What expressions read of the parameters, in order."""
        found: list[ParamRead] = []
        for param in self.params:
            kept = self.coefficients.get(param.name)
            if kept is None:
                found.append(
                    ParamRead(self.symbols[f"params.{param.name}"], param, False, absent=param.optional)
                )
                continue
            found.append(ParamRead(kept.nonzero, param, False))
            if kept.parts:
                found += [ParamRead(part.symbol, param, True, part.name) for part in kept.parts]
            else:
                absent = param.optional and not kept.filled
                found.append(ParamRead(kept.symbol, param, True, absent=absent, late=kept.of_domain))
        return tuple(found)

    @property
    def accepted(self) -> Mapping[str, Key]:
        """The names that `set_keys` takes, with their keys."""
        return {role.accepted: role.key for role in self.roles}

    @property
    def properties(self) -> frozenset[str]:
        """The parameters that the class reads by properties: buffers of other names, and what is one of its parent's."""
        inherited = frozenset[str]() if self.parent is None else self.parent.properties
        return inherited | {
            one.name for one in self.coefficients.values() if one.state != one.name or one.of_domain
        }

    @property
    def bounds(self) -> tuple[Symbol, ...]:
        """The bounds of roles that expressions read."""
        return tuple(bound for one in self.domains for bound in (one.low, one.high) if bound is not None)
