"""What the recorded folder of a language model says against its settings."""

from __future__ import annotations

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.diagnostics import Sink
from specgen.diagnostics.rules import llm_lock as rules
from specgen.source.model_folders import ModelFolder


def check_recorded(model: CheckedLanguageModel, sink: Sink) -> None:
    """Check a model against what is recorded of its folder and of its tokenizer's; what is not recorded is let pass.

    Args:
        model: the model, whole.
        sink: takes the mistakes.
    """
    weights, tokenizer = model.weights, model.tokenizer_folder
    if weights is not None:
        _check_length(model, weights, sink)
    if tokenizer is None or model.tokenizer is None:
        return
    place = model.place("tokenizer" if "tokenizer" in model.places else "path")
    what = f"the tokenizer of `{model.name}` (`{model.tokenizer}`)"
    if tokenizer.slow and model.input == "history":
        message = f"{what} has no `tokenizer.json`: it does not know where the characters of a token are"
        help = "save it as a fast tokenizer, or write `input: text`"
        sink.add(rules.NO_FAST_TOKENIZER.at(place, message, help=help))
    if weights is not None and (tokenizer.tokens or 0) > (weights.vocab_size or tokenizer.tokens or 0):
        message = f"{what} has {tokenizer.tokens} tokens, the model has numbers for {weights.vocab_size}"
        help = "take the model's own tokenizer, or resize the model and save it"
        sink.add(rules.TOO_FEW_TOKENS.at(place, message, help=help))
    if tokenizer.pad is None and model.pad_output and (tokenizer.tokenizer or tokenizer.slow):
        message = f"rows of `{model.name}` are padded, and {what} has no pad token"
        help = "name one and save the tokenizer, or write `pad_output: false`"
        where = model.place("pad_output")
        sink.add(rules.NO_PAD_TOKEN.at(where, message, help=help))
    elif tokenizer.pad is not None and tokenizer.pad == tokenizer.eos:
        message = f"{what} pads with `{tokenizer.pad}`, its end token"
        help = "give it another pad token and save it, or write `allow: [SG522]`"
        sink.add(rules.PAD_IS_END.at(place, message, help=help))
    template = tokenizer.template
    used = template if model.input == "history" and model.template is None else None
    if used is not None and used.rewrites and not used.generation:
        message = f"{what} has a chat template that rewrites contents, and has no generation blocks"
        help = "turns before the last are not scored: write `template:` with one that has the blocks"
        sink.add(rules.REWRITING_TEMPLATE.at(place, message, help=help))


def _check_length(model: CheckedLanguageModel, weights: ModelFolder, sink: Sink) -> None:
    new = 0 if model.generate is None else model.generate.max_new_tokens or 0
    longest = (model.max_length or 0) + new
    if weights.positions is None or longest <= weights.positions:
        return
    parts = [f"prompts of {model.max_length}"] if model.max_length is not None else []
    parts += [f"answers of {new}"] if new else []
    together = f" are {longest} together," if len(parts) > 1 else ":"
    known = f"`{model.path}` knows {weights.positions} positions"
    message = f"{' and '.join(parts)} tokens{together} {known}"
    place = "max_length" if model.max_length is not None else "generate.max_new_tokens"
    room = weights.positions - new
    help = f"write `max_length: {room}`, or less" if room > 0 else "make answers shorter"
    sink.add(rules.TOO_LONG.at(model.place(place), message, help=help))
