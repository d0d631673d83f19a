"""What has to hold of the models of one transform, and between two whose log-probabilities are subtracted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.recorded import check_recorded_pair
from specgen.check.language_models.transforms import ModelTransform
from specgen.check.model import dotted
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import llm_chains as rules
from specgen.expr.symbols import Key


def check_pair(
    transform: ModelTransform,
    models: Mapping[str, CheckedLanguageModel],
    keys: Mapping[str, Key],
    params: Mapping[str, Any],
    span: Callable[[str], Span],
    sink: Sink,
) -> None:
    """Check the models that a transform of a chain is given.

    Args:
        transform: the transform.
        models: its models, by keyword.
        keys: its keys, by keyword.
        params: its other arguments.
        span: where an argument stands.
        sink: takes the mistakes.
    """
    policy, reference = models.get("gen_model"), models.get("ref_model")
    if params.get("use_ray_service") and params.get("detach") is False:
        message = (
            "gradients do not cross the processes of `use_ray_service`, and `detach: false` asks for them"
        )
        sink.add(rules.GRADIENTS_ACROSS_ACTORS.at(span("detach"), message, help="leave one of the two out"))
    if policy is not None and reference is not None and policy.is_same(reference):
        message = f"`{policy.name}` is its own reference: the penalty is always 0"
        help = f"declare a second model: `reference: {{like: {policy.name}, frozen: true}}`"
        sink.add(rules.REFERENCE_IS_POLICY.at(span("ref_model"), message, help=help))
        return
    if policy is not None and reference is not None and policy.frozen and not reference.frozen:
        message = (
            f"`{policy.name}` is frozen, and `{reference.name}`, which can be trained, is to be its reference"
        )
        notes = [Note("said here", policy.place("frozen"))]
        help = f"write `gen_model: {reference.name}, ref_model: {policy.name}`"
        sink.add(rules.TRAINED_REFERENCE.at(span("ref_model"), message, notes=notes, help=help))
        return
    for keyword, model in models.items():
        if needs_history(transform, model, params):
            message = f"`assistant_only` needs conversations, and `{model.name}` reads {model.input}"
            notes = [Note("said here", model.place("input"))]
            help = f"write `input: history` in `{model.name}`, or `assistant_only: false` here"
            sink.add(rules.ASSISTANT_UNKNOWN.at(span(keyword), message, notes=notes, help=help))
        if keyword != "ref_model" or policy is None:  # rows of a reference are those of the policy, or differ
            _check_width(model, span(keyword), sink)
    if reference is not None and not reference.frozen:
        message = f"`{reference.name}` is the reference of `{transform.name}`, and can be trained"
        notes = [Note("it is declared here", reference.span)]
        help = f"write `frozen: true` in `{reference.name}`"
        sink.add(rules.TRAINED_REFERENCE.at(span("ref_model"), message, notes=notes, help=help))
    if policy is not None and policy.generate is None:
        message = f"`{policy.name}` is the policy of `{transform.name}`, and generates nothing"
        notes = [Note("it is declared here", policy.span)]
        help = f"write `generate: {{max_new_tokens: 64}}` in `{policy.name}`, say"
        sink.add(rules.POLICY_WITHOUT_GENERATE.at(span("gen_model"), message, notes=notes, help=help))
    if policy is not None and reference is not None:
        _check_rows(policy, reference, span("ref_model"), sink)
        check_recorded_pair(policy, reference, params.get("estimator"), span, sink)
        gen, ref = keys["gen_log_probs_full_key"], keys["ref_log_probs_full_key"]
        if gen == ref:
            message = f"`{policy.name}` and `{reference.name}` both write `{dotted(gen)}`"
            places = {model.place("log_probs_key") for model in (policy, reference) if model.log_probs_key}
            notes = [
                Note("said here", place) for place in sorted(places, key=lambda one: (one.file, one.line))
            ]
            help = f"write another `log_probs_key` in `{reference.name}`, or `ref_log_probs_full_key` here"
            sink.add(rules.SAME_LOG_PROBS_KEY.at(span("ref_model"), message, notes=notes, help=help))


def needs_history(transform: ModelTransform, model: CheckedLanguageModel, params: Mapping[str, Any]) -> bool:
    """Whether a model that reads no conversations is to say what the assistant said."""
    from_prompt = transform.name == "KLRewardTransform"  # all behind the prompt is the answer
    return bool(params.get("assistant_only")) and model.input != "history" and not from_prompt


def _check_width(model: CheckedLanguageModel, span: Span, sink: Sink) -> None:
    """Rows have a width that all steps share."""
    if model.pad_output and model.pad_to is not None:
        return
    missing = "`pad_to: 512`, say," if model.pad_output else "`pad_output: true`, and `pad_to: 512`, say,"
    message = f"rows of `{model.name}` have no width that all steps share"
    notes = [Note("it is declared here", model.span)]
    help = f"write {missing} in `{model.name}`"
    sink.add(rules.WIDTH_CHANGES.at(span, message, notes=notes, help=help))


def _check_rows(
    policy: CheckedLanguageModel, reference: CheckedLanguageModel, span: Span, sink: Sink
) -> None:
    """Rows of the same form and width, padded at the same side."""
    both = (policy, reference)
    if policy.pad_output != reference.pad_output:
        padded, ragged = both if policy.pad_output else (reference, policy)
        message = f"`{ragged.name}` gives rows that are as long as they are, `{padded.name}` padded ones"
        notes = [Note("padded", padded.place("pad_output")), Note("not padded", ragged.place("pad_output"))]
        help = f"write `pad_output: true` in `{ragged.name}`"
        sink.add(rules.ROWS_DIFFER.at(span, message, notes=notes, help=help))
        return
    if policy.pad_to is not None and policy.pad_to != reference.pad_to:
        shown = "the longest of each batch" if reference.pad_to is None else str(reference.pad_to)
        message = f"rows of `{policy.name}` are {policy.pad_to} wide, those of `{reference.name}` {shown}"
        notes = [Note(f"`{model.name}`", model.place("pad_to")) for model in both]
        help = f"write `pad_to: {policy.pad_to}` in `{reference.name}`"
        sink.add(rules.ROWS_DIFFER.at(span, message, notes=notes, help=help))
    if policy.pad_output and policy.padding_side != reference.padding_side:
        sides = [f"`{model.name}` is padded at the {model.padding_side}" for model in both]
        notes = [Note(side, model.place("padding_side")) for side, model in zip(sides, both, strict=True)]
        help = f"write `padding_side: {policy.padding_side}` in both"
        sink.add(rules.SIDES_DIFFER.at(span, ", ".join(sides), notes=notes, help=help))
