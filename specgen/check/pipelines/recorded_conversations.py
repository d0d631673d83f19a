"""Conversations that were recorded: the function that gives them, the reference that a loss compares with, and who learns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specgen.check.language_models.recorded import check_recorded_tokenizers
from specgen.check.losses.model import CheckedLoss, LossRole
from specgen.check.model import dotted
from specgen.check.pipelines.data_model import OnPolicyData, PipelineData, RecordedData
from specgen.check.pipelines.losses import is_on_policy
from specgen.check.pipelines.model import PipelineLoss, Setting
from specgen.check.pipelines.visible import Scopes
from specgen.check.python_source import python_source
from specgen.check.unseen import unseen
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import llm as llm_rules
from specgen.diagnostics.rules import llm_chains as chain_rules
from specgen.diagnostics.rules import pipeline_language_models as model_rules
from specgen.diagnostics.rules import pipelines as rules
from specgen.expr.symbols import Key
from specgen.schema.load import SchemaFile
from specgen.schema.pipeline_data import Recorded

_LOG_PROBS = "log_probs"
"""What the key of another model's log-probabilities ends with: `next.ref_log_probs.full`, `next.teacher_log_probs.full`."""

_OF_TEACHER: Key = ("next", "teacher_log_probs", "full")
"""Where losses read what a teacher says, which makes a model's own answers data, too."""


def read_conversations(
    file: SchemaFile,
    path: tuple[str, ...],
    declared: Recorded,
    module: str,
    scopes: Scopes,
    batch_size: Setting,
    sink: Sink,
) -> RecordedData | None:
    """The recorded conversations of the pipeline at `path`; None after reporting a mistake.

    Args:
        file: where the pipeline is declared.
        path: the pipeline in it.
        declared: its data, with `conversations`.
        module: the generated module that it goes to, dotted.
        scopes: what its names mean.
        batch_size: conversations of an update.
        sink: takes every mistake.
    """
    here, mine = (*path, "data", "recorded"), Sink()
    if declared.path is not None:
        message = "data are in a folder (`path`), or what a function gives (`conversations`)"
        mine.add(rules.CHOICE.at(file.key_span(*here, "path"), message, help="leave one of the two out"))
    source = python_source(file.scalar(*here, "conversations"), module, mine, "function", "conversations")
    reference, sound = None, True
    if (name := declared.ref_model) is not None:
        span = file.span(*here, "ref_model")
        models = scopes.at(span).models
        checked = models.get(name)
        if name not in models:
            mine.add(unseen("model", name, ("models",), models, span, rule=llm_rules.UNKNOWN_MODEL))
        elif checked is None:
            sound = False  # its mistakes are said where it is declared
        elif not checked.value.frozen:
            message = f"`{name}` is the reference of recorded conversations, and can be trained"
            notes = [Note("it is declared here", checked.value.span)]
            help = f"write `frozen: true` in `{name}`"
            mine.add(chain_rules.TRAINED_REFERENCE.at(span, message, notes=notes, help=help))
        else:
            reference = checked.value
    sink.extend(mine.items)
    return (
        RecordedData(batch_size, conversations=source, ref_model=reference)
        if sound and not mine.has_errors
        else None
    )


def check_recorded_conversations(
    file: SchemaFile,
    path: tuple[str, ...],
    losses: Sequence[PipelineLoss],
    data: PipelineData,
    sink: Sink,
) -> None:
    """Report losses of language models whose data are others, and references that are missing, or that nothing reads.

    Args:
        file: where the pipeline is declared.
        path: the pipeline in it.
        losses: its losses, with their networks.
        data: where the data come from.
        sink: takes every mistake.
    """
    if (loss := imitating(losses, data)) is not None:
        message = f"`{loss.loss.name}` makes likelier what others said in conversations that were recorded"
        help = 'write `recorded: {conversations: "package.module:function", batch_size: 16}`'
        span = file.key_span(*path, "data")
        sink.add(model_rules.RECORDED_CONVERSATIONS.at(span, message, help=help))
    if not isinstance(data, RecordedData):
        return
    for loss in losses:
        for network in loss.networks:
            model = network.language_model
            if model is not None and model.log_probs_key not in (None, ("log_probs",)):
                message = f"`{loss.loss.name}` reads `log_probs.full`, and `{model.name}` writes `{dotted(model.log_probs_key)}.full`"
                notes = [Note("said here", model.place("log_probs_key"))]
                help = f"leave out `log_probs_key` of `{model.name}`"
                sink.add(rules.NO_WRITER.at(network.span, message, notes=notes, help=help))
    here = (*path, "data", "recorded")
    reading = [(loss, role, key) for loss in losses for role, key in _reading(loss)]
    if data.ref_model is None:
        for loss, role, key in reading:
            message = f"`{loss.loss.name}` reads `{dotted(key)}`, {role.doc.split(';')[0]}, and nobody writes it before"
            help = "write `ref_model: …` beside `conversations`, with a frozen model of `models`"
            sink.add(rules.NO_WRITER.at(loss.span, message, help=help))
        return
    span = file.span(*here, "ref_model")
    if not reading and not sink.has_errors:  # with mistakes in a loss it is open what that reads
        message = f"nothing reads what `{data.ref_model.name}` says of recorded conversations"
        help = "leave it out, or write `kl_to_ref_coeff: 0.1`, say, in the loss"
        sink.add(model_rules.UNREAD_REFERENCE.at(span, message, help=help))
    for loss in losses:
        for network in loss.networks:
            if (model := network.language_model) is not None:
                check_recorded_tokenizers(model, data.ref_model, span, sink)


def imitating(losses: Sequence[PipelineLoss], data: PipelineData | None) -> PipelineLoss | None:
    """A loss of a language model that needs recorded conversations, where the data are other ones."""
    if data is None or isinstance(data, RecordedData):
        return None
    for loss in losses:
        talks = any(one.language_model is not None for one in loss.networks)
        taught = is_taught(loss.loss) and isinstance(data, OnPolicyData)
        if talks and not taught and not is_on_policy(loss):
            return loss
    return None


def is_taught(loss: CheckedLoss) -> bool:
    """Whether a loss brings a model near to a teacher, whose answers or its own it may be given."""
    return any(_key(role) == _OF_TEACHER for role in loss.roles)


def reference_key(losses: Sequence[PipelineLoss]) -> Key:
    """Where losses read what a reference says of recorded conversations; that of `SFTLoss` where none does."""
    return next((key for loss in losses for _, key in _reading(loss)), ("next", "ref_log_probs", "full"))


def _reading(loss: PipelineLoss) -> Iterator[tuple[LossRole, Key]]:
    """The roles of a loss that are log-probabilities of a reference, where it reads them, and their keys."""
    for role in loss.loss.roles:
        key = _key(role)
        other = len(key) == 3 and key[0] == "next" and key[1].endswith(_LOG_PROBS) and key[2] == "full"
        if other and role.name not in loss.unread and not role.optional:
            yield role, key


def _key(role: LossRole) -> Key:
    """Where a loss reads a role, from the root of its data."""
    return ("next", *role.key) if role.after else role.key
