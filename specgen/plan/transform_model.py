"""The plan of a transform's class: what its template prints."""

from __future__ import annotations

from dataclasses import dataclass

from specgen.plan.model import Argument, CallPlan, Text
from specgen.plan.transform_around import AroundPlan


@dataclass(frozen=True)
class LimitPlan:
    """What must hold of an argument, and the message where it does not, as an expression."""

    condition: Text
    message: str


@dataclass(frozen=True)
class TransformParamPlan:
    """A parameter of the constructor.

    Attributes:
        name: its keyword.
        tensor: whether it is a tensor, which is kept as a buffer.
        optional: whether it may be None.
        limits: what must hold of it.
        adds: the attributes of the class that grow where it is given, each with the names it gains.
    """

    name: str
    tensor: bool
    optional: bool
    limits: tuple[LimitPlan, ...]
    adds: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class OutputKeys:
    """The keys of an output.

    Attributes:
        name: its name.
        made: what makes each from the key of its input; None where it is the same.
        keyword: the keyword of the constructor that names them instead, if there is one.
    """

    name: str
    made: CallPlan | None
    keyword: str | None


@dataclass(frozen=True)
class BindingPlan:
    """How the keys of one direction are found.

    Attributes:
        suffix: of the method: `_inv` for the inverse.
        row: the record of one repetition's keys.
        role: the name of the input.
        args: the arguments of `_select`.
        outputs: the keys of the outputs.
    """

    suffix: str
    row: str
    role: str
    args: tuple[Text, ...]
    outputs: tuple[OutputKeys, ...]


@dataclass(frozen=True)
class AddedSpecsPlan:
    """The specs of the entries that are written.

    Attributes:
        role: the input that they follow.
        groups: the outputs that always exist, then those that need an optional parameter: its name, and
            names of outputs with the calls that make their specs.
    """

    role: str
    groups: tuple[tuple[str | None, tuple[tuple[str, CallPlan], ...]], ...]


@dataclass(frozen=True)
class PhaseBlock:
    """A call of a pure function in a reset or step.

    Attributes:
        when: the optional parameter that it needs.
        fetched: what is read first: names with expressions.
        results: the names of what it returns.
        call: the call.
        stores: the expressions that keep or write the results.
    """

    when: str | None
    fetched: tuple[tuple[str, str], ...]
    results: tuple[str, ...]
    call: CallPlan
    stores: tuple[str, ...]


@dataclass(frozen=True)
class PhasePlan:
    """A reset or step, for each row of keys.

    Attributes:
        target: the tensordict that it writes into.
        blocks: the calls, in order.
        flags: expressions that write flags which nothing assigns, each with the optional parameter it needs.
        stashes: fields of the row that the next step recalls.
    """

    target: str
    blocks: tuple[PhaseBlock, ...]
    flags: tuple[tuple[str | None, str], ...]
    stashes: tuple[str, ...]


@dataclass(frozen=True)
class MapPlan:
    """A map of one tensor to another, and the spec of the result.

    Attributes:
        value: the name of the argument.
        call: what the method returns.
        spec: the call that makes the mapped spec.
    """

    value: str
    call: CallPlan
    spec: CallPlan


@dataclass(frozen=True)
class RecursionPlan:
    """A recursion over recorded data.

    Attributes:
        at: where its outputs are written; None for the default, under `next`.
        backward: whether it begins at the end.
        open: whether data may end without `done`.
        fetched: what is read first: names with expressions.
        calls: the names of what is returned, with the calls.
        results: the names of the outputs.
    """

    at: str | None
    backward: bool
    open: bool
    fetched: tuple[tuple[str, str], ...]
    calls: tuple[tuple[tuple[str, ...], CallPlan], ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class TransformPlan:
    """The class of a transform.

    Attributes:
        name: its name.
        doc: its documentation.
        init_doc: that of its constructor.
        rows: the records of its keys: for outputs, and for the inverse if it has one.
        reads: the name of the input that is read from the data.
        groups: class attributes that name fields of a row; whether the constructor adds to them; the names.
        sequential: whether it goes from step to step.
        invertible: whether it has an inverse.
        args: the arguments of the constructor.
        keys: those of them that the base class takes.
        names: those of them that name an output.
        params: its parameters.
        bindings: how keys are found, forwards and backwards.
        added_specs: the specs of what is written.
        derives_done: the expression that says whether ending an episode sets `done`; None for the base class's.
        reset: what happens at a reset.
        step: what happens at a step.
        map: what happens at any moment.
        inverse: what happens to what the environment takes.
        around: how it steps the environment before it.
        recursion: what is computed of recorded data, and nowhere else.
        refuses_offline: whether recorded data are refused.
    """

    name: str
    doc: tuple[str, ...]
    init_doc: tuple[str, ...]
    rows: tuple[Text, ...]
    reads: str | None
    groups: tuple[tuple[str, bool, tuple[str, ...]], ...]
    sequential: bool
    invertible: bool
    args: tuple[Argument, ...]
    keys: tuple[str, ...]
    names: tuple[str, ...]
    params: tuple[TransformParamPlan, ...]
    bindings: tuple[BindingPlan, ...]
    added_specs: AddedSpecsPlan | None
    derives_done: str | None
    reset: PhasePlan | None
    step: PhasePlan | None
    map: MapPlan | None
    inverse: MapPlan | None
    around: AroundPlan | None = None
    recursion: RecursionPlan | None = None
    refuses_offline: bool = False

    @property
    def base(self) -> str:
        """The class that it stands on."""
        if self.around is not None:
            return str(self.around.base)
        return "GeneratedTransform" if self.recursion is None else "RecursionTransform"
