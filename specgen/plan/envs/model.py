"""The plan of an environment's class, or of a chain's: what its template prints."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.code import Code
from specgen.expr.symbols import Key
from specgen.plan.model import Argument, CalledNetworkPlan, CallPlan, FunctionPlan, Text
from specgen.plan.spec_text import CompositeCode, SpecCode
from specgen.values import dataclass


@dataclass(frozen=True)
class ParamPlan:
    """A parameter of the constructor, and how it is read into the record.

    Attributes:
        name: the keyword.
        annotation: its type.
        default: its value when none is passed.
        limits: what must hold of a value: keywords of the method that reads it.
        shape: of its value for each environment; None for a number.
        dtype: of its value for each environment.
        drawn: whether each reset draws it where the constructor is given none.
    """

    name: str
    annotation: Text
    default: object
    limits: tuple[tuple[str, float], ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    drawn: bool = False


@dataclass(frozen=True)
class TablePlan:
    """A constant table."""

    name: str
    value: object
    dtype: str


@dataclass(frozen=True)
class ConstsPlan:
    """The attribute that holds constant tables, the record that they are in, and the tables."""

    attribute: str
    record: Code
    tables: tuple[TablePlan, ...]


@dataclass(frozen=True)
class SpecsPlan:
    """The specs of an environment in their groups.

    Attributes:
        flags: the specs that done flags share, by the local name that the group of done flags reads.
        action: the group of actions.
        observation: the group of observations, state included.
        state: the keys of the observations that a step reads.
        reward: the group of rewards.
        done: the group of done flags; None where they are those that `EnvSpecs` has unless told others.
    """

    flags: tuple[tuple[str, SpecCode], ...]
    action: CompositeCode
    observation: CompositeCode
    state: tuple[Key, ...]
    reward: CompositeCode
    done: CompositeCode | None


@dataclass(frozen=True)
class EntryPlan:
    """An entry of what a hook returns: its value, an expression or a call, or the entries of a group.

    One without a name stands for all entries of a dict.
    """

    name: str | None
    value: Text | CallPlan = ""
    group: tuple[EntryPlan, ...] = ()


@dataclass(frozen=True)
class EntriesPlan:
    """What `_root_entries` or `_next_entries` computes first, by local name, and returns."""

    computed: tuple[tuple[str, CallPlan], ...]
    entries: tuple[EntryPlan, ...]


@dataclass(frozen=True)
class PicturePlan:
    """The method that draws a state.

    Attributes:
        function: the function of the picture.
        numbers: the call of the function of the numbers that it is given; None where all are known.
        fps: how many pictures a second a video shows.
    """

    function: Code
    numbers: CallPlan | None
    fps: int


@dataclass(frozen=True)
class GymPlan:
    """The Gymnasium environment behind a class.

    Attributes:
        id: of `gymnasium.make`, with the module that registers it where Gymnasium itself does not.
        max_episode_steps: its time limit.
        kwargs: declared keywords of `gymnasium.make`.
        observed: the names of what a reset returns: one observation, or one for each key of a Dict space.
        stepped: the names of what a step returns of them; None where the step function takes the steps.
        lifts: whether rollouts make tensors once for all steps.
        row_reads: the keys of the root that a step of NumPy's reads.
        inverse: what it is given, of what the policy writes; None where it is given that.
        several: whether it takes several actions, the parts of a Dict or a Tuple.
    """

    id: str
    max_episode_steps: int | None
    kwargs: Mapping[str, object]
    observed: tuple[str, ...]
    stepped: tuple[str, ...] | None
    lifts: bool = False
    row_reads: tuple[str, ...] = ()
    inverse: CallPlan | None = None
    several: bool = False


@dataclass(frozen=True)
class PythonPlan:
    """The user's class behind an environment.

    Attributes:
        env: the name of the environment whose Protocol it satisfies.
        form: the runtime's class around it.
        path: the class as the schema names it.
        module: where it is imported from.
        name: its name there.
        alias: what `_make_python` calls it.
        stateful: whether an object is one instance, which keeps its state.
        setup: what it is made from: fields of its record, with an expression or the call that makes a record.
    """

    env: str
    form: str
    path: str
    module: str
    name: str
    alias: str
    stateful: bool
    setup: tuple[tuple[str, Text | CallPlan], ...]


@dataclass(frozen=True)
class UserFunctionPlan:
    """A function of the user's that a class imports when it is made.

    Attributes:
        role: what it is to the class: `source`, `reward`, `tools`.
        path: the function as the schema names it.
        module: where it is imported from.
        name: its name there.
        protocol: the Protocol that it satisfies.
    """

    role: str
    path: str
    module: str
    name: str
    protocol: str


class EnvClassPlan:
    """What all plans of classes of environments have."""

    name: str

    @property
    def data(self) -> str:
        """The name of its typed tensordicts."""
        return f"{self.name}Data"

    @property
    def types(self) -> str:
        """The name of the types of its specs."""
        return f"{self.name}Specs"


@dataclass(frozen=True)
class ChatEnvPlan(EnvClassPlan):
    """The class of an environment of conversations.

    Attributes:
        name: its name.
        doc: its documentation.
        init_doc: that of its constructor.
        keywords: those of its constructor.
        functions: the functions of the user's.
        row_fields: the types of the fields that the reward reads of a row.
        options: what the runtime's class is told besides.
    """

    name: str
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    keywords: tuple[Argument, ...]
    functions: tuple[UserFunctionPlan, ...]
    row_fields: Mapping[str, str]
    options: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class ComposedChainPlan(EnvClassPlan):
    """The class of a chain whose transforms are objects around its environment.

    Attributes:
        name: its name.
        doc: its documentation.
        init_doc: that of its constructor.
        networks: the keywords of its constructor that take networks.
        models: those that take language models.
        setup: statements that make these what the transforms are given.
        keywords: the other ones, which are those of the environment.
        env: the call that makes the environment.
        transforms: the calls that make the transforms, in order.
    """

    name: str
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    networks: tuple[Argument, ...]
    models: tuple[Argument, ...]
    setup: tuple[Text, ...]
    keywords: tuple[Argument, ...]
    env: CallPlan
    transforms: tuple[CallPlan, ...]


@dataclass(frozen=True)
class LearnerPlan:
    """A transform of a chain that learns.

    Attributes:
        name: the field that holds its statistics.
        position: its index in the chain.
        made: the call that constructs it.
        entries: one row of each entry that it works on, as nested dicts.
        columns: those entries whose rows are stored with a trailing 1.
        networks: the networks that it calls, each with the chain's keyword of it.
        follows: its parameters that are those of the chain, each with that one's name.
    """

    name: str
    position: int
    made: CallPlan
    entries: Code
    columns: list[str | Key]
    networks: tuple[tuple[str, str], ...] = ()
    follows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class UnfusedPlan:
    """What a chain is made of.

    Attributes:
        env_class: the class of its environment.
        transforms: the calls that make its transforms.
    """

    env_class: Code
    transforms: tuple[CallPlan, ...]


@dataclass(frozen=True)
class EnvironmentPlan(EnvClassPlan):
    """The class of an environment, or of a chain around one.

    Attributes:
        template: which template prints it.
        name: its name.
        doc: its documentation.
        init_doc: that of its constructor.
        params_record: the record of its parameters; None if it has none.
        env_params: that of the environment's, for a chain that has others besides.
        params: its parameters.
        consts: its constant tables; a chain keeps those of its environment too.
        groups: the agents of each group.
        masks: the keys of actions, and of the observations that mask them.
        columns: the observations that are stored with a trailing 1 which is no dimension of theirs.
        written: the keys of the states of policies that a step is given behind the actions.
        specs: its specs.
        root: its Root record.
        next: its Next record.
        fields: the keys of the fields of Root, in order; None where each is the field's own name.
        constants: the record of what is computed of constant tables alone, and the call that makes it.
        fresh: what `_fresh` returns; None where the base class makes the record.
        advance: what `_advance` returns; None likewise.
        root_entries: what `_root_entries` returns; None where the entries are the fields of the record.
        next_entries: what `_next_entries` returns; None where that is what `_root_entries` makes of the Next record.
        picture: what draws a state, if anything does.
        gym: the Gymnasium environment behind it, if there is one.
        python: the user's class behind it, if there is one.
        parent: the template of the environment that a chain is around.
        env_class: the class of that environment, where its specs tell what is behind the chain.
        learned: the record of what transforms of a chain have learned; None for nothing.
        learners: those transforms.
        methods: further methods.
        networks: those that the transforms of a chain call.
        objects: the names of the objects of classes that they call, with the calls that make the transforms.
        made_with: the parameters that those objects are made with, each with the transform of one.
        unfused: what a chain is made of; None for an environment.
        acts_in_resets: whether a reset draws random actions.
        recalled: the observations that a step of a chain reads as they were before it, which no state says, each with the
            transform that does.
    """

    template: str
    name: str
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    params_record: Code | None
    env_params: Code | None
    params: tuple[ParamPlan, ...]
    consts: tuple[ConstsPlan, ...]
    groups: Mapping[str, list[str]]
    masks: tuple[tuple[Key, Key], ...]
    columns: tuple[Key, ...]
    written: tuple[Key, ...]
    specs: SpecsPlan
    root: str
    next: str
    fields: tuple[Key, ...] | None
    constants: tuple[Code, CallPlan] | None
    fresh: CallPlan | None
    advance: CallPlan | None
    root_entries: EntriesPlan | None
    next_entries: EntriesPlan | None
    picture: PicturePlan | None = None
    gym: GymPlan | None = None
    python: PythonPlan | None = None
    parent: str | None = None
    env_class: Code | None = None
    learned: Code | None = None
    learners: tuple[LearnerPlan, ...] = ()
    methods: tuple[FunctionPlan, ...] = ()
    networks: tuple[CalledNetworkPlan, ...] = ()
    objects: tuple[tuple[str, CallPlan], ...] = ()
    made_with: tuple[tuple[str, str], ...] = ()
    unfused: UnfusedPlan | None = None
    acts_in_resets: bool = False
    recalled: tuple[tuple[Key, str], ...] = ()
