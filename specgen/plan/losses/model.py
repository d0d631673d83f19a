"""The plan of a loss's class: what its template prints."""

from __future__ import annotations

from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.model import CallPlan, Line, RefusalPlan, Text
from specgen.values import dataclass


@dataclass(frozen=True)
class LossParamPlan:
    """A parameter of the constructor: its keyword, type and default, and the type of the attribute, if it is one.

    One that is fixed is no keyword.
    """

    name: str
    annotation: Text
    default: object
    attribute: Text
    fixed: bool


@dataclass(frozen=True)
class NetworkPlan:
    """A network of the constructor.

    Attributes:
        name: its name.
        target: whether it has target parameters, an expression.
        has_target: whether it may have any.
        qvalue: whether it gives a value for each action.
        apart: the parameters that other networks train, an expression; empty where there are none.
        members: the parameter that says how many members it has; None of a single network.
        optional: whether it may be left out.
        policy: whether it gives a distribution.
        reparameterized: whether draws from that need gradients.
        plain: whether it may be a module that gives none, which then is certain; else whether it is a module of tensors.
        trains: whether gradients reach its parameters.
    """

    name: str
    target: str
    has_target: bool
    qvalue: bool
    apart: str
    members: str | None
    optional: bool = False
    policy: bool = False
    reparameterized: bool = False
    plain: bool = False
    trains: bool = True

    @property
    def certain(self) -> bool:
        """Whether it is a policy that may be certain."""
        return self.policy and self.plain

    @property
    def kept(self) -> bool:
        """Whether it is kept as it is."""
        return self.plain and not self.policy

    @property
    def given(self) -> str:
        """What the constructor takes of it, as an expression."""
        if not self.policy or self.plain:
            return "network" if self.qvalue else self.name
        drawn = ", reparameterized=True" if self.reparameterized else ""
        return f"as_policy({self.name}, {literal(self.name)}, type(self).__name__{drawn})"

    @property
    def annotation(self) -> str:
        """What the constructor takes: of an ensemble also one module for each member."""
        given = "nn.Module | list[nn.Module]" if self.members else "nn.Module"
        return f"{given} | None = None" if self.optional else given


@dataclass(frozen=True)
class ReturnPlan:
    """An entry of what `forward` returns: its name and value, and whether there is one only where its term is."""

    name: str
    value: Text
    conditional: bool


@dataclass(frozen=True)
class CoefficientPlan:
    """A parameter that is a buffer.

    Attributes:
        name: the keyword.
        state: the name of the buffer.
        auto: the number that "auto" stands for, an expression; empty where the word is not taken.
        settled: whether "auto" may be settled only when it is read.
        doc: what the property is that reads it, where the buffer has another name; empty elsewhere.
    """

    name: str
    state: str
    auto: Text
    settled: bool
    doc: tuple[str, ...]


@dataclass(frozen=True)
class LearnablePlan:
    """A number that is learned: its name, and its first value, bounds and whether it is fixed, as expressions."""

    name: str
    init: Text
    low: Text
    high: Text
    fixed: Text


@dataclass(frozen=True)
class ModulePlan:
    """An object of the constructor: its keyword, its protocol, and whether it may be left out."""

    name: str
    protocol: Text
    optional: bool


@dataclass(frozen=True)
class LossPlan:
    """The class of a loss.

    Attributes:
        name: its name.
        parent: the class that it extends; empty where that is no declared one.
        drops_roles: whether it lacks a role that this class has.
        doc: its documentation.
        init_doc: that of its constructor.
        forward_doc: that of `forward`.
        roles: the names that `set_keys` takes, with their keys.
        features: how many dimensions the entries of roles have behind those of the batch.
        estimators: the value estimators that users may choose, the default first.
        value_role: the role whose key the estimator takes for the value.
        out_keys: the names of its terms and metrics.
        trained: the networks and numbers that each term trains.
        networks: its networks.
        params: its parameters.
        refusals: what the constructor refuses, in order.
        keywords: those that say what the values of roles are.
        bounds: the roles whose bounds are buffers, with the keywords that say them.
        coefficients: the parameters that are buffers.
        modules: the objects of the constructor.
        learnables: the numbers that are learned.
        in_keys: the keys that it reads, as entries of a list.
        further_keys: those that it reads where they are there.
        estimated: those that the value estimator fills where they are not.
        reads_next: whether `forward` reads the next tensordict.
        updates: the updates of these objects, each with the condition under which it is made.
        values: what the networks give: assignments.
        call: the call of the pure function.
        writes: the fields of the keys that it writes, with those of the terms.
        returns: terms and metrics.
        masks: masks that the data hold: a variable, what reads it, which samples count by it, and whether it may be None.
        left_out: those that are not always there, with the condition under which they are.
        returned: the type of a call with tensors.
        functional: whether its networks may be left as they are.
        scalars: whether it returns numbers that are one for the batch.
    """

    name: str
    parent: str
    drops_roles: bool
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    forward_doc: tuple[str, ...]
    roles: tuple[tuple[str, Key], ...]
    features: tuple[tuple[str, int], ...]
    estimators: tuple[str, ...]
    value_role: str
    out_keys: list[str]
    trained: dict[str, tuple[str, ...]]
    networks: tuple[NetworkPlan, ...]
    params: tuple[LossParamPlan, ...]
    refusals: tuple[RefusalPlan, ...]
    keywords: tuple[str, ...]
    bounds: tuple[tuple[str, tuple[str, ...]], ...]
    coefficients: tuple[CoefficientPlan, ...]
    modules: tuple[ModulePlan, ...]
    learnables: tuple[LearnablePlan, ...]
    in_keys: tuple[Text, ...]
    further_keys: tuple[Text, ...]
    estimated: tuple[Text, ...]
    reads_next: bool
    updates: tuple[tuple[str, Text], ...]
    values: tuple[Line, ...]
    call: CallPlan
    writes: tuple[tuple[str, str], ...]
    returns: tuple[ReturnPlan, ...]
    masks: tuple[tuple[str, Text, str, bool], ...]
    left_out: tuple[tuple[str, Text], ...]
    returned: str
    functional: bool
    scalars: bool

    @property
    def settles(self) -> bool:
        """Whether a parameter may be settled only when it is read."""
        return "action_spec" in self.keywords and any(one.settled for one in self.coefficients)

    @property
    def buffered(self) -> frozenset[str]:
        """The parameters that are buffers."""
        return frozenset(one.name for one in self.coefficients)

    @property
    def actions(self) -> bool:
        """Whether a network gives a value for each action."""
        return any(network.qvalue for network in self.networks)
