"""What the checker proves of a loss and the planner may rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from specgen.check.loss_learnables import CheckedLearnable
from specgen.check.model import Parameter, Statement
from specgen.check.network_types import CALLED
from specgen.expr import Binding, Interval, SourceText, Symbol, Type, Typed, full
from specgen.expr.symbols import Key
from specgen.expr.tree import Expr
from specgen.values import dataclass

Variant = Literal["live", "frozen", "target"]
Record = Literal["now", "next"]


@dataclass(frozen=True)
class LossNetwork:
    """A network of the constructor.

    Attributes:
        name: the keyword, and the attribute of the loss.
        action: the role of the discrete action that it values, if it values one.
        output: the role of what it writes.
        type: the type of that.
        target: whether it has target parameters: always, never, or as a parameter says.
        apart: whether the networks before it train what it shares with them: always, never, or as a parameter says.
        members: the parameter that says how many members it has; None of a single network.
        doc: one line.
        optional: whether it may be left out.
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

    def presence(self, path: str) -> Binding:
        """What `given` asks of an optional network of the loss at `path`."""
        symbol = Symbol(f"{path}.networks.{self.name}", self.name, CALLED, full("float32"))
        return Binding(CALLED, full("float32"), what="network", symbol=symbol, optional=True)

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
class NetworkCall:
    """`network(now)`, `network.frozen(next)`, `network.target(next, action=…)`, …

    Attributes:
        network, variant, record: which network it is, with which parameters, and what it reads.
        replaced: the roles of what it reads instead, from what is computed here.
    """

    network: str
    variant: Variant
    record: Record
    replaced: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """A name for its value, where the declaration gives none; where it reads what is computed, for the function."""
        variant = "" if self.variant == "live" else f"_{self.variant}"
        behind = "".join(f"_{role}" for role in ("of", *self.replaced)) if self.replaced else ""
        return f"{self.network}{variant}_{self.record}{behind}"


@dataclass(frozen=True)
class Alias:
    """The value of an earlier network call, by its name."""

    name: str


@dataclass(frozen=True)
class Choice:
    """One of two network values, as a condition on the parameters says; only that one is computed.

    `typed` is the condition as it was proved right.
    """

    condition: Expr
    source: SourceText
    then: NetworkCall | Alias | Choice
    otherwise: NetworkCall | Alias | Choice
    typed: Typed | None = None


NetworkValue = NetworkCall | Alias | Choice


@dataclass(frozen=True)
class Forward:
    """What networks give the terms: a value, `name: value_network(now)`, or a function of what is replaced."""

    name: str
    value: NetworkValue
    network: str
    type: Type
    path: str

    @property
    def symbol(self) -> Symbol:
        """The value."""
        loss = ".".join(self.path.split(".")[:2])
        type = CALLED if self.replaced else self.type
        return Symbol(f"{loss}.forward.{self.name}", self.name, type, full(self.type.dtype))

    @property
    def replaced(self) -> tuple[str, ...]:
        """The roles that it is a function of; none for a value."""
        return self.value.replaced if isinstance(self.value, NetworkCall) else ()


@dataclass(frozen=True)
class Requirement:
    """A condition on the parameters, and what is said when it does not hold."""

    message: str
    condition: Statement


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
        forward: what the networks compute, in order.
        let, terms, metrics, writes: the statements of the pure function, over those values.
        each: the metrics of which every sample's value is kept.
        when: the terms and metrics that there are under a condition on parameters only, with that.
        elementwise: the terms of which a sample may have several numbers.
        mask: which samples count.
        masks: which count for a term besides, by its name.
        samples: the dimensions of a sample behind those of the batch, by their names.
        estimators: the value estimators that users may choose, the default first.
        learnables: the numbers that are learned.
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
    types: dict[str, Type] = field(default_factory=dict)
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    learnables: tuple[CheckedLearnable, ...] = ()
    parent: LossClass | None = None
