"""Whether the settings of a language model go together."""

from __future__ import annotations

import math

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.diagnostics import Note, Sink
from specgen.diagnostics.rules import llm as rules
from specgen.schema.language_model import Generate


def check_settings(model: CheckedLanguageModel, sink: Sink) -> None:
    """Check what a model says, and what it has from the one that it is like.

    Args:
        model: the model, whole.
        sink: takes the mistakes.
    """
    _check_source(model, sink)
    _check_widths(model, sink)
    if model.generate is not None:
        _check_generate(model, model.generate, sink)


def _check_source(model: CheckedLanguageModel, sink: Sink) -> None:
    name = model.name
    if model.path is None and model.factory is None:
        message = f"nothing says where `{name}` comes from"
        help = 'write `causal_lm: {path: checkpoints/mine}`, or `{factory: "package.module:function"}`'
        sink.add(rules.MODEL_SETTINGS.at(model.place("causal_lm"), message, help=help))
        return
    if model.path is not None and model.factory is not None:
        message = f"`{name}` comes from a path and from a factory"
        sink.add(rules.MODEL_SETTINGS.at(model.place("factory"), message, help="leave one of them out"))
        return
    for field in ("path", "tokenizer"):
        value: str | None = getattr(model, field)
        if field in model.places and value is not None and not value.strip():
            sink.add(rules.MODEL_SETTINGS.at(model.place(field), f"the {field} of `{name}` is empty"))
    if model.factory is not None:
        for field in ("dtype", "attention"):
            if getattr(model, field) is not None:
                message = f"`{model.factory.text}` makes `{name}`, and says its {field} itself"
                sink.add(rules.MODEL_SETTINGS.at(model.place(field), message, help=f"leave out `{field}`"))
    if model.tokenizer is None and model.input != "tokens":
        message = f"`{name}` reads {_READS[model.input]} and has no tokenizer"
        help = "write `tokenizer:` with a folder or a name of the hub; a factory has none"
        sink.add(rules.NO_TOKENIZER.at(model.span, message, help=help))


_READS = {"history": "conversations", "text": "texts"}


def _check_widths(model: CheckedLanguageModel, sink: Sink) -> None:
    for field in ("pad_to", "max_length"):
        if (value := getattr(model, field)) is not None and value < 1:
            message = f"`{field}` of `{model.name}` is {value}: a sequence has at least one token"
            sink.add(rules.MODEL_SETTINGS.at(model.place(field), message))
            return
    if model.pad_to is None:
        return
    if not model.pad_output:
        note = Note("rows are as long as they are", model.places.get("pad_output"))
        message = f"`pad_to: {model.pad_to}` is the width of rows that are padded, and those of `{model.name}` are not"
        sink.add(
            rules.MODEL_SETTINGS.at(
                model.place("pad_to"), message, notes=[note], help="write `pad_output: true`"
            )
        )
    elif model.max_length is not None and model.max_length > model.pad_to:
        message = f"sequences of {model.max_length} tokens do not fit in {model.pad_to}"
        notes = [Note("the width of rows", model.place("pad_to"))]
        help = f"write `max_length: {model.pad_to}`, or less"
        sink.add(rules.MODEL_SETTINGS.at(model.place("max_length"), message, notes=notes, help=help))
    elif model.generate is not None and (model.generate.max_new_tokens or 0) >= model.pad_to:
        message = (
            f"answers of {model.generate.max_new_tokens} tokens leave no room for a prompt in {model.pad_to}"
        )
        notes = [Note("the width of rows", model.place("pad_to"))]
        help = "make `pad_to` wider, or answers shorter"
        sink.add(
            rules.MODEL_SETTINGS.at(model.place("generate.max_new_tokens"), message, notes=notes, help=help)
        )
    else:
        _check_room(model, model.pad_to, sink)


def _check_room(model: CheckedLanguageModel, width: int, sink: Sink) -> None:
    new = 0 if model.generate is None else model.generate.max_new_tokens or 0
    if not new or model.max_length is None or model.max_length + new <= width:
        return
    longest = model.max_length + new
    message = (
        f"prompts of {model.max_length} and answers of {new} tokens are {longest} together, more than {width}"
    )
    notes = [Note("the width of rows", model.place("pad_to"))]
    help = f"write `max_length: {width - new}`, or less, or `pad_to: {longest}`"
    sink.add(rules.NO_ROOM.at(model.place("max_length"), message, notes=notes, help=help))


def _check_generate(model: CheckedLanguageModel, generate: Generate, sink: Sink) -> None:
    faults: dict[str, str] = {}
    for name in ("max_new_tokens", "num_samples"):
        if (value := getattr(generate, name)) is not None and value < 1:
            faults[name] = f"is {value}: it must be at least 1"
    if not (math.isfinite(generate.temperature) and generate.temperature >= 0):
        faults["temperature"] = f"is {generate.temperature}: it must be 0, for the likeliest token, or more"
    elif generate.temperature == 0 and (generate.num_samples or 1) > 1:
        faults["num_samples"] = f"is {generate.num_samples}: all answers at temperature 0 are the same"
    if generate.top_k < 0:
        faults["top_k"] = f"is {generate.top_k}: it must be at least 1, or 0 for all tokens"
    if not 0 < generate.top_p <= 1:
        faults["top_p"] = f"is {generate.top_p}: it must be a share of the probability, above 0 and at most 1"
    if any(one == "" or (isinstance(one, int) and one < 0) for one in generate.stop):
        faults["stop"] = "must have ids from 0 on, and texts that are not empty"
    for name, fault in faults.items():
        place = model.place(f"generate.{name}")
        sink.add(rules.MODEL_SETTINGS.at(place, f"`{name}` of `{model.name}` {fault}"))
