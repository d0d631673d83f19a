"""Rewards of conversations: the function that each names, what that reads of a source's row; and what is behind an
environment of conversations."""

from __future__ import annotations

from collections.abc import Mapping

from specgen.check.model import identifier
from specgen.check.names import key_refusal, refused
from specgen.check.python_source import python_source
from specgen.check.sources import PythonSource
from specgen.diagnostics import Sink, suggestion
from specgen.diagnostics.rules import llm as rules
from specgen.diagnostics.rules import schema as schema_rules
from specgen.schema.load import SchemaFile
from specgen.settings import identifier_fault
from specgen.values import dataclass

_PLAIN = ("str", "int", "float", "bool", "messages", "any")
LISTS = {f"list[{kind}]": kind for kind in _PLAIN}
"""Lists that a field of a row can be, and the type of their items."""

FIELD_TYPES = (*_PLAIN, *LISTS)
"""What a field of a row can be."""

PROMPT_TYPES = ("str", "messages", "any")
"""What the field that holds what is asked can be."""

_ANNOTATIONS = frozenset({"str", "int", "float", "bool", "Any", "Message", "Sequence"})
"""What the annotations of fields read, so that no field can be called so."""


@dataclass(frozen=True)
class CheckedReward:
    """A reward function as the schema declares it.

    Attributes:
        name: its name under `rewards:`.
        module: the generated module of the file that declares it.
        doc: its documentation.
        python: the user's function.
        reads: the fields of a row that it reads, and the type of each, one of `FIELD_TYPES`.
        metrics: the other numbers that it gives.
    """

    name: str
    module: str
    doc: str
    python: PythonSource
    reads: Mapping[str, str]
    metrics: tuple[str, ...]

    @property
    def protocol(self) -> str:
        """The name of its Protocol."""
        return reward_protocol(self.name)

    @property
    def row(self) -> str:
        """The name of the type of the rows that it reads; there is one if it reads anything."""
        return f"{self.protocol}Row"


@dataclass(frozen=True)
class ChatSource:
    """What is behind an environment of conversations.

    Attributes:
        source: the user's function that gives the rows; None where the constructor or a reset is given them.
        prompt: the field of a row that holds what is asked, and the key that holds the row.
        system: the first message, if there is one.
        group: how many conversations are about one prompt.
        max_turns: the most answers in a conversation; None for no limit.
        reward: the declared reward; None for rewards of 0.
        tools: the user's function that says what follows an answer.
        input: what models read and write: `history` or `text`.
        template: the name of the chat template that makes texts.
    """

    source: PythonSource | None
    prompt: str
    system: str | None
    group: int
    max_turns: int | None
    reward: CheckedReward | None
    tools: PythonSource | None
    input: str
    template: str | None


def reward_protocol(name: str) -> str:
    """What the Protocol of a reward is called: `ExactMatchReward` for `exact_match`."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Reward"


def check_rewards(file: SchemaFile, module: str, sink: Sink) -> dict[str, CheckedReward]:
    """Check the rewards of a file; those with mistakes are left out."""
    found: dict[str, CheckedReward] = {}
    for name, reward in file.module.rewards.items():
        mine = Sink()
        path = ("rewards", name)
        source = python_source(file.scalar(*path, "python"), module, mine, "function", "function")
        _check_fields(file, path, reward.reads, mine)
        _check_metrics(file, path, reward.metrics, mine)
        sink.extend(mine.items)
        if not mine.has_errors:
            doc = " ".join(reward.doc.split())
            found[name] = CheckedReward(name, module, doc, source, dict(reward.reads), tuple(reward.metrics))
    return found


def _check_fields(file: SchemaFile, path: tuple[str, ...], reads: Mapping[str, str], sink: Sink) -> None:
    for name, kind in reads.items():
        reason = identifier_fault(name) or ("an annotation reads it" if name in _ANNOTATIONS else None)
        if reason:
            sink.add(refused(name, reason, "field", file.key_span(*path, "reads", name)))
        if kind not in FIELD_TYPES:
            message = f"`{kind}` is no type of a field of a row"
            help = suggestion(kind, FIELD_TYPES) or f"one of {', '.join(_PLAIN)}, or list[…] of one"
            sink.add(rules.FIELD_TYPE.at(file.span(*path, "reads", name), message, help=help))


def _check_metrics(file: SchemaFile, path: tuple[str, ...], metrics: list[str], sink: Sink) -> None:
    for index, name in enumerate(metrics):
        span = file.span(*path, "metrics", index)
        reason = "a metric is one word" if "." in name else key_refusal(name, foreign=True)
        if reason := reason or ("it is what the metrics stand beside" if name == "reward" else None):
            sink.add(refused(name, reason, "metric", span))
        elif metrics.index(name) < index:
            message = f"the metric `{identifier(name)}` is listed twice"
            sink.add(schema_rules.NAME_TAKEN.at(span, message, help="list it once"))
