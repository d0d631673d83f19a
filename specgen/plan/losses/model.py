"""The plan of a loss's class: what its template prints."""

from __future__ import annotations

from specgen.code import Code
from specgen.expr.symbols import Key
from specgen.literals import literal
from specgen.plan.model import Argument, CallPlan, Line, RefusalPlan, Text
from specgen.values import dataclass

KeyLists = tuple[tuple[Text, tuple[Text, ...]], ...]
"""Keys as entries of a list, side by side under one condition; an empty condition is none."""


@dataclass(frozen=True)
class LossParamPlan:
    """A parameter of the constructor: its keyword, type and default, and the attributes that it becomes, with their types.

    One that is fixed is no keyword. Of a number `read` is how the constructor reads it, or refuses what is none, and
    `read_where` where it does that; empty for always.
    """

    name: str
    annotation: Text
    default: object
    attributes: tuple[tuple[str, Text], ...]
    fixed: bool
    read: Text = ""
    read_where: str = ""


@dataclass(frozen=True)
class NetworkPlan:
    """A network of the constructor.

    Attributes:
        name: its name.
        target: whether it has target parameters, an expression.
        has_target: whether it may have any.
        qvalue: the action whose values it gives, by the name that `set_keys` takes; empty of others.
        apart: the parameters that other networks train, an expression; empty where there are none.
        members: the parameter that says how many members it has; None of a single network.
        optional: whether it may be left out.
        policy: whether it gives a distribution.
        reparameterized: whether draws from that need gradients.
        plain: whether it may be a module that gives none, which then is certain; else whether it is a module of tensors.
        trains: whether gradients reach its parameters.
        keys: what it says the key of, by the names that `set_keys` takes.
        choices: whether the action whose values it gives makes several choices.
    """

    name: str
    target: str
    has_target: bool
    qvalue: str
    apart: str
    members: str | None
    optional: bool = False
    policy: bool = False
    reparameterized: bool = False
    plain: bool = False
    trains: bool = True
    keys: tuple[tuple[str, str], ...] = ()
    choices: bool = False

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
    """An entry of what `forward` returns: its name and value, and whether there is one only where its term is.

    One `by_part` is a mapping of entries, which is empty of an action of one part.
    """

    name: str
    value: Text
    conditional: bool
    by_part: bool = False


@dataclass(frozen=True)
class PartPlan:
    """What the class computes together.

    Attributes:
        name: its name.
        record: what its pure function returns.
        method: its method, where it has one of its own.
        doc: the documentation of that.
        owner: the variable that holds its terms.
        outputs: the names of its terms and metrics.
        now: the networks that read the data.
        next: those that read the next record.
        networks: those that it calls, but optional ones.
        reads_keys: whether it reads data or calls networks by their keys.
        reads_next: whether it reads the next tensordict.
        values: what the networks give: assignments.
        call: the call of the pure function.
        writes: the fields of the keys that it writes, with those of the terms.
        adapts: the buffers that become other numbers, with the fields of the terms that hold those.
        returns: its terms and metrics.
    """

    name: str
    record: str
    method: str
    doc: tuple[str, ...]
    owner: str
    outputs: tuple[str, ...]
    now: tuple[str, ...]
    next: tuple[str, ...]
    networks: tuple[str, ...]
    reads_keys: bool
    reads_next: bool
    values: tuple[Line, ...]
    call: CallPlan
    writes: tuple[tuple[str, str], ...]
    adapts: tuple[tuple[str, str], ...]
    returns: tuple[ReturnPlan, ...]


@dataclass(frozen=True)
class CoefficientPlan:
    """A parameter that is a buffer.

    Attributes:
        name: the keyword.
        state: the name of the buffer.
        auto: the number that "auto" stands for, an expression; empty where the word is not taken.
        settled: whether "auto" may be settled only when it is read.
        doc: what the property is that reads it, where the buffer has another name; empty elsewhere.
        given: the number or the pair that is registered, an expression.
        none_is, none_where: the number that None stands for, an expression, and where; empty where it stands for none.
        parts: the names of the numbers that it is or may be a pair of.
        true_is: the parameter whose number True stands for; empty where True is no value.
        adapted: whether the loss changes it by itself.
        by_part: whether it may be a number for each part of an action.
    """

    name: str
    state: str
    auto: Text
    settled: bool
    doc: tuple[str, ...]
    given: Text
    none_is: Text = ""
    none_where: str = ""
    parts: tuple[str, ...] = ()
    true_is: str = ""
    adapted: bool = False
    by_part: bool = False


@dataclass(frozen=True)
class LearnablePlan:
    """A number that is learned: its name, and its first value, bounds and whether it is fixed, as expressions.

    Of a logarithm `exponential` is the name of the property that is what it is the logarithm of, `alpha` of `log_alpha`;
    empty elsewhere.
    """

    name: str
    init: Text
    low: Text
    high: Text
    fixed: Text
    exponential: str


@dataclass(frozen=True)
class ModulePlan:
    """An object of the constructor: its keyword, its protocol, and whether it may be left out."""

    name: str
    protocol: Text
    optional: bool


@dataclass(frozen=True)
class MethodPlan:
    """A method that computes one term, or one value of what it is given.

    Attributes:
        name: its name.
        computes: the term, or the value.
        doc: its documentation.
        args: its arguments, where it is given values.
        modes: whether it says of itself that it runs in the modes of losses; those whose names end in `loss` do so anyway.
        values: what it computes of its arguments, before what it returns.
        returns: what it computes of these; None of a method that reads the data.
        column: whether it gives that a trailing 1.
        conditional: whether parameters may leave the term out.
        overrides: what type checkers are told of one that is called in another way than that of the class above.
    """

    name: str
    computes: str
    doc: tuple[str, ...]
    args: tuple[Argument, ...] = ()
    modes: bool = False
    values: tuple[Line, ...] = ()
    returns: CallPlan | Text | None = None
    column: bool = False
    conditional: bool = False
    overrides: str = ""


@dataclass(frozen=True)
class LossPlan:
    """The class of a loss.

    Attributes:
        name: its name.
        parent: the class that it extends; empty where that is no declared one.
        own_roles: whether its roles, or their keys, are others than those of this class.
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
        ranges: the numbers that are attributes, with their limits, as a mapping; None where there are none.
        reads_rows: whether it reads sequences of tokens, whose rows may be of different lengths.
        evaluated: the networks that are called in evaluation mode.
        networks: its networks.
        params: its parameters.
        refusals: what the constructor refuses, in order.
        keywords: those that say what the values of roles are.
        bounds: the roles whose bounds are buffers, with the keywords that say them.
        coefficients: the parameters that are buffers.
        asked: those that are asked whether they were not 0, with the attributes that say so.
        modules: the objects of the constructor.
        supports: refusals of buffers of networks that are no support, though terms are projected on them.
        learnables: the numbers that are learned.
        in_keys: the keys that it reads: entries of a list, with the condition under which they are read, if there is one.
        further_keys: those that it reads where they are there.
        estimated: those that the value estimator fills where they are not.
        parts: what it computes, in order.
        updates: the updates of these objects, each with the condition under which it is made.
        updates_estimates: whether one of these is of what the value estimator filled in alone.
        methods: methods that compute one term, or one value of what they are given.
        masks: masks that the data hold: a variable, what reads it, which samples count by it, and whether it may be None.
        left_out: those that are not always there, with the condition under which they are.
        parts_of: the policy the names of whose action's parts it keeps; empty where it needs none.
        returned: the type of a call with tensors.
        returns_otherwise: whether that is another one than that of the class above.
        functional: whether its networks may be left as they are.
        by_default: whether it takes their parameters unless told otherwise.
        means_first: the dimensions of samples over which terms take means before the reduction, by the words of a
            parameter; None where they take none.
        scalars: whether it returns numbers that are one for the batch.
    """

    name: str
    parent: str
    own_roles: bool
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
    ranges: Code | None
    reads_rows: bool
    evaluated: tuple[str, ...]
    networks: tuple[NetworkPlan, ...]
    params: tuple[LossParamPlan, ...]
    refusals: tuple[RefusalPlan, ...]
    keywords: tuple[str, ...]
    bounds: tuple[tuple[str, tuple[str, ...]], ...]
    coefficients: tuple[CoefficientPlan, ...]
    asked: tuple[tuple[str, str], ...]
    modules: tuple[ModulePlan, ...]
    supports: tuple[Text, ...]
    learnables: tuple[LearnablePlan, ...]
    in_keys: KeyLists
    further_keys: KeyLists
    estimated: KeyLists
    parts: tuple[PartPlan, ...]
    updates: tuple[tuple[str, Text], ...]
    updates_estimates: bool
    methods: tuple[MethodPlan, ...]
    masks: tuple[tuple[str, Text, str, bool], ...]
    left_out: tuple[tuple[str, Text], ...]
    parts_of: str
    returned: str
    returns_otherwise: bool
    functional: bool
    by_default: bool
    means_first: dict[str, tuple[int, ...] | None] | None
    scalars: bool

    @property
    def reads_next(self) -> bool:
        """Whether its networks, or those of an estimator, may read the next record."""
        return bool(self.estimators) or any(part.next for part in self.parts)

    @property
    def writes(self) -> bool:
        """Whether it writes into the data."""
        return any(part.writes for part in self.parts)

    @property
    def ensembles(self) -> bool:
        """Whether a network has members."""
        return any(network.members is not None for network in self.networks)

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

    @property
    def choices(self) -> bool:
        """Whether actions may make several choices: their values come from one network."""
        return any(network.qvalue and not network.members for network in self.networks)
