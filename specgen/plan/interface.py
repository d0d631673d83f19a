"""The shape of an environment's generated functions: what a chain has to know to call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specgen.check.model import CheckedEnv, Entry, Parameter, dotted
from specgen.check.programs.chain_state import EnvPieces
from specgen.expr import Type
from specgen.expr.symbols import Key
from specgen.plan.spec_text import SpecCode
from specgen.program.program import DONE_FLAGS

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


RECORD, ROOT, NEXT = "record:", "root:", "next:"
"""In front of an argument that is a record (`record:params`), or a field of Root or Next by its Python name.

No key has a colon in it: `root.x` is the key of an entry in a group that is called `root`.
"""


@dataclass(frozen=True)
class Call:
    """A generated pure function: its name, its arguments in order, and the names of what it returns.

    An argument is a record, a field of Root or Next (see `RECORD`), or the key of an entry or action: `x`, `next.x`.
    """

    name: str
    args: tuple[str, ...]
    returns: tuple[str, ...]
    record: str | None = None


@dataclass(frozen=True)
class Extra:
    """The spec of a root field that is neither state nor a done flag.

    Attributes:
        spec: as code.
        carried: whether the next step reads it, so that it belongs to the state spec too.
    """

    spec: SpecCode
    carried: bool = False


@dataclass(frozen=True)
class EnvInterface:
    """What stands in an environment's generated module."""

    env: CheckedEnv
    root: tuple[RecordField, ...]
    next: tuple[RecordField, ...]
    reset: Call | None
    advance: Call | None
    reward: Call | None
    observe: Call | None
    reset_draws: tuple[str, ...] = ()
    advance_draws: tuple[str, ...] = ()
    observations: tuple[Entry, ...] = ()
    rewards: tuple[Entry, ...] = ()
    params: tuple[Parameter, ...] = ()
    extra: Mapping[str, Extra] = field(default_factory=dict)
    constants: Call | None = None
    pieces: EnvPieces = field(default_factory=EnvPieces)

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
