"""What the checker proves of a loss and the planner may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from specgen.check.losses.forward import Forward
from specgen.check.losses.learnables import CheckedLearnable
from specgen.check.model import Parameter, Statement
from specgen.check.network_types import CALLED
from specgen.expr import Binding, Interval, Symbol, Type, Typed, full
from specgen.expr.symbols import Key
from specgen.expr.types import Distribution
from specgen.values import dataclass


@dataclass(frozen=True)
class LossNetwork:
    """A network of the constructor.

    Attributes:
        name: the keyword, and the attribute of the loss.
        action: the role of the discrete action that it values, if it values one.
        output: the role of what it writes; of a policy the role whose distribution it gives.
        type: the type of that; a `Distribution` of a policy.
        target: whether it has target parameters: always, never, or as a parameter says.
        apart: whether the networks before it train what it shares with them: always, never, or as a parameter says.
        members: the parameter that says how many members it has; None of a single network.
        doc: one line.
        optional: whether it may be left out.
        joined: whether its calls with trained parameters run as one batch.
        buffers: the buffers of it that are constants in expressions, with their types.
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
    joined: bool = False
    buffers: Mapping[str, Type] = field(default_factory=dict)

    def presence(self, path: str) -> Binding:
        """What `given` asks of an optional network of the loss at `path`."""
        symbol = Symbol(f"{path}.networks.{self.name}", self.name, CALLED, full("float32"))
        return Binding(CALLED, full("float32"), what="network", symbol=symbol, optional=True)

    @property
    def policy(self) -> bool:
        """Whether it gives a distribution."""
        return isinstance(self.type, Distribution)

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
class Requirement:
    """A condition on the parameters, and what is said when it does not hold."""

    message: str
    condition: Statement


@dataclass(frozen=True)
class CheckedDomain:
    """A role of which keywords of the constructor say the spec.

    Attributes:
        role: the role.
        keywords: the keywords, of which one is given.
        low, high: its bounds; None where no expression reads them.
        size: how many numbers it has.
    """

    role: str
    keywords: tuple[str, ...]
    low: Symbol | None
    high: Symbol | None
    size: Symbol


@dataclass(frozen=True)
class Coefficient:
    """A parameter that the class keeps as a buffer.

    Attributes:
        name: the parameter.
        state: the name of the buffer.
        auto: the number that the default, the word "auto", stands for; None for a parameter with another default.
        of_domain: whether that number is one of a spec, which may be known only when it is read.
    """

    name: str
    state: str
    auto: Typed | None
    of_domain: bool


@dataclass(frozen=True)
class LossClass:
    """The class of a loss, as those know it that extend it: its name, its dotted module, and its roles."""

    name: str
    module: str
    roles: frozenset[str]


@dataclass(frozen=True)
class CheckedLoss:
    """A loss whose networks, keys, types and terms are known to be right.

    Attributes:
        forward: what the networks and distributions give, in order.
        let, terms, metrics, writes: the statements of the pure function, over those values.
        each: the metrics of which every sample's value is kept.
        when: the terms and metrics that there are under a condition on parameters only, with that.
        elementwise: the terms of which a sample may have several numbers.
        mask: which samples count.
        masks: which count for a term besides, by its name.
        samples: the dimensions of a sample behind those of the batch, by their names.
        estimators: the value estimators that users may choose, the default first.
        value_role: the role whose key the estimator takes for the value.
        learnables: the numbers that are learned.
        fixed: the parameters that are constants.
        coefficients: the parameters that are buffers, by name.
        domains: the roles of which a spec is known.
        parent: the class that its class extends; None of one that extends no declared one.
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
    each: frozenset[str] = frozenset()
    when: Mapping[str, Typed] = field(default_factory=dict)
    elementwise: frozenset[str] = frozenset()
    mask: Statement | None = None
    masks: Mapping[str, Statement] = field(default_factory=dict)
    samples: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    value_role: str = "value"
    types: dict[str, Type] = field(default_factory=dict)
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    learnables: tuple[CheckedLearnable, ...] = ()
    fixed: frozenset[str] = frozenset()
    coefficients: Mapping[str, Coefficient] = field(default_factory=dict)
    domains: tuple[CheckedDomain, ...] = ()
    parent: LossClass | None = None

    @property
    def bounds(self) -> tuple[Symbol, ...]:
        """The bounds of roles that expressions read."""
        return tuple(bound for one in self.domains for bound in (one.low, one.high) if bound is not None)
