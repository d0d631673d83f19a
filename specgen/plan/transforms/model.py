"""The plan of a transform's class: what its template prints."""

from __future__ import annotations

from specgen.plan.model import Argument, CalledNetworkPlan, CallPlan, FunctionPlan, RefusalPlan, Text
from specgen.plan.transforms.around import AroundPlan
from specgen.plan.transforms.columns import ColumnsPlan
from specgen.plan.transforms.phases import PhaseBlock, PhasePlan
from specgen.values import dataclass


@dataclass(frozen=True)
class EnumClassPlan:
    """An enumeration of the words of a parameter.

    Attributes:
        name: the attribute of the class.
        members: the words, by the names of the members.
    """

    name: str
    members: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TransformParamPlan:
    """A parameter of the constructor.

    Attributes:
        name: its keyword.
        tensor: whether it is a tensor, which is kept as a buffer.
        optional: whether it may be None.
        listed: whether it may be several whole numbers.
        refusals: what must not hold of it.
        initial: whether it only says what buffers begin with.
        rows: the dtype of one of which each row has its own.
        dtypes: whether it is a choice of dtypes, which is kept as its name.
        enum_class: the name of the enumeration of its words, and its members.
    """

    name: str
    tensor: bool
    optional: bool
    listed: bool
    refusals: tuple[RefusalPlan, ...]
    initial: bool = False
    rows: Text | None = None
    dtypes: bool = False
    enum_class: EnumClassPlan | None = None


@dataclass(frozen=True)
class PythonClassPlan:
    """The user's class behind a transform.

    Attributes:
        path: the class as the schema names it.
        module: where it is imported from.
        name: its name there.
        alias: what `_make_python` calls it.
        setup: the record that it is made from.
        protocol: what it has to be.
        params: the call that makes the record of parameters, if there are some.
        inputs: what each method is given.
        carried: what `step` is given of what was returned before.
        written: what `inverse` is given.
        recorded: what `offline` is given.
        methods: what each method returns.
        reads_env: whether it is made with the environment.
        asked: its outputs that are there only where users name them, each with the keyword.
    """

    path: str
    module: str
    name: str
    alias: str
    setup: str
    protocol: str
    params: CallPlan | None
    inputs: CallPlan | None
    carried: CallPlan | None
    written: CallPlan | None
    recorded: CallPlan | None
    methods: tuple[tuple[str, CallPlan], ...]
    reads_env: bool
    asked: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BindingPlan:
    """How the keys of one direction are found.

    Attributes:
        suffix: of the method: `_inv` for the inverse.
        row: the record of one repetition's keys.
        lines: names of the record's fields, each with the expression that lists its keys.
        fields: the fields in their order.
    """

    suffix: str
    row: str
    lines: tuple[tuple[str, Text], ...]
    fields: tuple[str, ...]


@dataclass(frozen=True)
class AddedSpecsPlan:
    """The specs of the entries that are written, where the declaration says them.

    Attributes:
        roles: the inputs that they are like, each as a variable and as a field of the record of keys.
        groups: conditions on parameters and keys (None for what always exists), and names of outputs with the calls that
            make their specs.
    """

    roles: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str | None, tuple[tuple[str, CallPlan], ...]], ...]


@dataclass(frozen=True)
class TensorMapPlan:
    """A map of one tensor to another.

    Attributes:
        value: the name of the argument.
        drawn: what is drawn first: names with expressions.
        call: what the method returns.
    """

    value: str
    call: CallPlan
    drawn: tuple[tuple[str, Text], ...] = ()


@dataclass(frozen=True)
class OuterSpecsPlan:
    """The specs of what the policy writes.

    Attributes:
        row: the record of one repetition's keys.
        roles: what the environment is given, whose specs tell them; as in `AddedSpecsPlan`.
        groups: as in `AddedSpecsPlan`.
    """

    row: Text
    roles: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str | None, tuple[tuple[str, CallPlan], ...]], ...]


@dataclass(frozen=True)
class InversePlan:
    """What becomes of what the policy wrote.

    Attributes:
        specs: the specs of what the policy writes.
        functions: the pure functions.
        alone: the map of one tensor to another, where that is all.
        needed: the keys without which a repetition is passed over, as arguments.
        fetched: what is read first: names with expressions.
        results: the names of what the function returns.
        call: the call.
        stores: the expressions that write the results.
        networks: whether it calls networks.
        several: the field of the keys for which it is called one after another; None where it is called once.
    """

    specs: OuterSpecsPlan
    functions: tuple[FunctionPlan, ...]
    alone: TensorMapPlan | None = None
    needed: str = ""
    fetched: tuple[tuple[str, Text], ...] = ()
    results: tuple[str, ...] = ()
    call: CallPlan | None = None
    stores: tuple[str, ...] = ()
    networks: bool = False
    several: str | None = None


@dataclass(frozen=True)
class LearnsPlan:
    """What a transform learns.

    Attributes:
        buffers: the calls that declare its buffers.
        when: at steps and resets (`always`), at resets, or by `init_stats` and `learn` only.
        reads: the fields of a record that an update needs.
        call: the call of the function that computes the new values.
        single: whether it returns one value instead of a tuple.
        joined: the fields of several keys whose values are put behind one another, single numbers as vectors of one.
        types: the call that computes values of the types of buffers which are like expressions; None where none is.
        typed: the names of these buffers.
        values: the type of what the calls are given: a field of several keys gives a list.
        values_of: parameters whose values are learned where they are not given, each with the buffer.
        row: the call that computes the new values of one environment by NumPy; None where that needs torch.
    """

    buffers: tuple[CallPlan, ...]
    when: str
    reads: tuple[str, ...]
    call: CallPlan
    single: bool
    joined: tuple[str, ...] = ()
    types: CallPlan | None = None
    typed: tuple[str, ...] = ()
    values: str = "Tensor"
    values_of: tuple[tuple[str, str], ...] = ()
    row: CallPlan | None = None


@dataclass(frozen=True)
class RecursionPlan:
    """A recursion over recorded data.

    Attributes:
        at: where its outputs are written; None for the default, under `next`.
        backward: whether it begins at the end.
        open: whether data may end without `done`.
        blocks: the calls, in order; what comes before the first moment in front of what is given it. None where a class
            is called.
    """

    at: str | None
    backward: bool
    open: bool
    blocks: tuple[PhaseBlock, ...]


@dataclass(frozen=True)
class TransformPlan:
    """The class of a transform.

    Attributes:
        name: its name.
        doc: its documentation.
        init_doc: that of its constructor.
        rows: the records of its keys: for outputs, and for the inverse if it has one.
        reads: the inputs whose keys users choose.
        groups: class attributes that name fields of a row; whether the constructor adds to them; the names.
        grown: conditions on parameters under which the constructor adds to such attributes.
        follows: outputs whose spec follows from what is computed, as the text of a class attribute.
        columns: what it does with the trailing 1 of rewards and done flags.
        recorded: whether its keys are those of recorded data.
        sequential: whether it goes from step to step.
        invertible: whether it has an inverse.
        args: the arguments of the constructor.
        keys: those of them that the base class takes, each with the expression that it is given.
        names: keywords that name keys, each with what is kept.
        params: its parameters.
        networks: those that it calls.
        python: the user's class that says what happens.
        meets: its parameters that are tensors, each with the role that it meets, as the text of a class attribute; forwards
            and backwards.
        of_each: `keys` or `keys_inv`, and how many of outputs users list for each of an input, where it is not one: a number,
            or code in the constructor.
        bindings: how keys are found, forwards and backwards.
        chosen_names: properties that list the keys of an output whose name users choose, each with the output.
        added_specs: the specs of what is written.
        reset_keyword: the keyword by which users name masks; None without one.
        named_reset_keys: what is kept of them.
        done_keyword: the keyword by which users name the flag of episodes; None without one.
        named_done_key: what is kept of it.
        inverse_keyword: the keyword by which users say that data are transformed on the way into a replay buffer.
        backward_param: the parameter with which recorded data are replayed from the end; None without one.
        derives_done: the expression that says whether ending an episode sets `done`; None for the base class's.
        reset: what happens at a reset.
        step: what happens at a step.
        tensor_map: what happens to one tensor at any moment.
        map: what happens at any moment, where it is more than that.
        inverse: what happens to what the environment takes.
        around: how it steps the environment before it.
        recursion: what is computed of recorded data, and nowhere else.
        learns: what it learns.
        refuses_offline: whether recorded data are refused.
        masks: pairs of fields of its records: an action, and what is allowed of it.
        renamed_inverse: pairs of fields of its inverse records: what the environment is given, and the same as the policy
            wrote it.
        methods: the class whose methods it has besides its own, as its module calls it.
    """

    name: str
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    rows: tuple[Text, ...]
    reads: tuple[str, ...]
    groups: tuple[tuple[str, bool, tuple[str, ...]], ...]
    grown: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...]
    follows: Text | None
    columns: ColumnsPlan
    recorded: bool
    sequential: bool
    invertible: bool
    args: tuple[str, ...]
    annotations: tuple[Argument, ...]
    keys: tuple[tuple[str, str], ...]
    names: tuple[tuple[str, Text], ...]
    params: tuple[TransformParamPlan, ...]
    meets: tuple[str, str]
    of_each: tuple[tuple[str, int | str], ...]
    bindings: tuple[BindingPlan, ...]
    chosen_names: tuple[tuple[str, str], ...]
    added_specs: AddedSpecsPlan | None
    reset_keyword: str | None
    named_reset_keys: Text | None
    done_keyword: str | None
    named_done_key: Text | None
    inverse_keyword: str | None
    backward_param: str | None
    derives_done: str | None
    reset: PhasePlan | None
    step: PhasePlan | None
    tensor_map: TensorMapPlan | None
    map: PhasePlan | None
    inverse: InversePlan | None
    around: AroundPlan | None = None
    recursion: RecursionPlan | None = None
    refuses_offline: bool = False
    masks: tuple[tuple[str, str], ...] = ()
    renamed_inverse: tuple[tuple[str, str], ...] = ()
    learns: LearnsPlan | None = None
    networks: tuple[CalledNetworkPlan, ...] = ()
    python: PythonClassPlan | None = None
    methods: Text | None = None

    @property
    def base(self) -> str:
        """The class that it extends."""
        if self.around is not None:
            return str(self.around.base)
        if self.recursion is not None:
            return "RecursionTransform" if self.python is None else "PythonRecursion"
        if self.python is not None:
            return "PythonTransform"
        return "GeneratedTransform" if self.learns is None else "LearningTransform"
