"""The shape of an environment's generated functions: what a chain has to know to call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from specgen.check.model import CheckedEnv, Entry, Parameter, dotted
from specgen.check.pictures import CheckedRender
from specgen.check.programs.chain_state import EnvPieces
from specgen.expr import DrawSite, Type
from specgen.expr.symbols import Key
from specgen.plan.spec_text import SpecCode
from specgen.program.program import DONE_FLAGS
from specgen.values import dataclass, replace

FLAG_DOCS = {
    "done": "the episode is over",
    "terminated": "it ended",
    "truncated": "it was cut off",
}


@dataclass(frozen=True)
class RecordField:
    """A tensor of a Root or Next record.

    Attributes:
        name: its Python name in the record.
        dotted: its name in the language, without `next.`.
        key: its place in the tensordict.
        type: its type, as stored (flags and rewards are columns).
        doc: one line.
        visible: whether it is an entry of the tensordict (a raw observation behind a transform is not).
        flag: whether it is a done flag.
    """

    name: str
    dotted: str
    key: Key
    type: Type
    doc: str = ""
    visible: bool = True
    flag: bool = False


PassedKind = Literal[
    "record",  # of parameters or tables
    "root",  # a field of Root, by its Python name
    "next",  # a field of Next, by its Python name
    "now",  # an entry before the step, or an action, by its key
    "written",  # a state of the policy as this left it to the step, by its key
    "later",  # an entry after the step, by its key
    "local",  # what the caller has under this name
    "witness",  # a tensor that tells the batch shape and the device
    "draw",  # random numbers
]


@dataclass(frozen=True)
class Passed:
    """What a generated pure function is passed for an argument: a kind, a name or dotted key, and for draws how."""

    kind: PassedKind
    name: str
    draw: DrawSite | None = None


@dataclass(frozen=True)
class Call:
    """A generated pure function: its name, its arguments in order, and the keys of what it returns."""

    name: str
    args: tuple[Passed, ...]
    returns: tuple[Key, ...]
    record: str | None = None


def called_by_chains(call: Call, *, params: bool) -> Call:
    """A function of an environment as chains around it call it: they have tables, and perhaps parameters, of their own."""
    own = {"consts": "env_consts"} | ({"params": "env_params"} if params else {})
    args = (
        replace(arg, name=own.get(arg.name, arg.name)) if arg.kind == "record" else arg for arg in call.args
    )
    return replace(call, args=tuple(args))


@dataclass(frozen=True)
class Picture:
    """What is drawn of a state.

    Attributes:
        render: as it was checked.
        function: what the function is called that makes the picture of its numbers.
        numbers: the function of the numbers; None where all are known at build.
    """

    render: CheckedRender
    function: str
    numbers: Call | None


@dataclass(frozen=True)
class Extra:
    """The spec of a root field that is neither state nor a done flag.

    Attributes:
        spec: as code.
        carried: whether the next step reads it, so that it belongs to the state spec too.
    """

    spec: SpecCode
    carried: bool = False


@dataclass(frozen=True, kw_only=True)
class EnvInterface:
    """What stands in an environment's generated module.

    Attributes:
        env: the checked environment; a chain as one.
        root: the fields of its Root record.
        next: the fields of its Next record.
        reset: its reset function; like all functions None where it has none.
        advance: its step function.
        reward: the function of rewards that no step needs.
        observe: the function of observations.
        inverse: the function from what the policy writes to what Gymnasium is given.
        observations: what is observed, state apart.
        rewards: its rewards.
        params: the parameters of its constructor.
        own_params: whether a chain has parameters besides those of its environment.
        extra: the specs of root fields that are neither state nor done flags, by their place in the tensordict.
        constants: the function of what constant tables alone decide.
        pieces: its programs, for chains around it.
        picture: what is drawn of a state.
        networks: the documentation of the networks that its constructor takes.
        written: the states of policies that its step function takes, behind the actions.
    """

    env: CheckedEnv
    root: tuple[RecordField, ...]
    next: tuple[RecordField, ...]
    reset: Call | None = None
    advance: Call | None = None
    reward: Call | None = None
    observe: Call | None = None
    inverse: Call | None = None
    observations: tuple[Entry, ...] = ()
    rewards: tuple[Entry, ...] = ()
    params: tuple[Parameter, ...] = ()
    own_params: bool = False
    extra: Mapping[Key, Extra] = field(default_factory=dict)
    constants: Call | None = None
    pieces: EnvPieces = field(default_factory=EnvPieces)
    picture: Picture | None = None
    networks: tuple[str, ...] = ()
    written: tuple[Key, ...] = ()

    @property
    def name(self) -> str:
        """The class name."""
        return self.env.name


def entry_field(entry: Entry) -> RecordField:
    """An entry, as a field of records."""
    return RecordField(entry.name, entry.dotted, entry.key, entry.type, entry.doc)


def flag_fields(env: CheckedEnv) -> tuple[RecordField, ...]:
    """The done flags of an environment, as fields of its records."""
    return tuple(
        RecordField(
            "_".join((*prefix, flag)),
            dotted((*prefix, flag)),
            (*prefix, flag),
            Type("bool", env.done_dims[prefix], col=True),
            FLAG_DOCS[flag],
            flag=True,
        )
        for prefix in env.done
        for flag in DONE_FLAGS
    )
