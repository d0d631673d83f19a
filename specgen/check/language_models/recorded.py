"""What the recorded folder of a language model says against its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import CheckedEnv
from specgen.diagnostics import Note, Sink, Span
from specgen.diagnostics.rules import llm_lock as rules
from specgen.source.model_folders import ModelFolder

_FAMILIES = ("llama", "deepseek", "falcon", "dialogpt", "qwen")
"""The families that the runtime tells by words in names, the first one that is found."""


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
    if template is None and tokenizer.tokenizer and model.input == "history" and model.template is None:
        family = next((name for name in _FAMILIES if name in model.tokenizer.lower()), "chatml_format")
        message = f"{what} has no chat template: conversations are rendered as `{family}`"
        help = f"write `template: {family}` if that is meant, or a file with the one that the model knows"
        sink.add(rules.NO_CHAT_TEMPLATE.at(place, message, help=help))
    if used is not None and used.rewrites and not used.generation:
        message = f"{what} has a chat template that rewrites contents, and has no generation blocks"
        help = "turns before the last are not scored: write `template:` with one that has the blocks"
        sink.add(rules.REWRITING_TEMPLATE.at(place, message, help=help))


def check_recorded_tokenizers(
    policy: CheckedLanguageModel, reference: CheckedLanguageModel, here: Span, sink: Sink
) -> bool:
    """Whether two models read the same tokens, as far as that is recorded; reported at `here` where they don't."""
    both = (policy, reference)
    tokenizers = {
        one.tokenizer for one in (model.tokenizer_folder for model in both) if one and one.tokenizer
    }
    if len(tokenizers) < 2:
        return True
    message = (
        f"`{policy.name}` and `{reference.name}` have different tokenizers: "
        "what one says of a token is of another one for the other"
    )
    notes = [Note(f"`{model.name}`", model.place(_tokenizer_field(model))) for model in both]
    help = (
        f"take models of one family, or write `tokenizer: {policy.tokenizer}` in both if they were trained so"
    )
    sink.add(rules.TOKENIZERS_DIFFER.at(here, message, notes=notes, help=help))
    return False


def check_recorded_pair(
    policy: CheckedLanguageModel,
    reference: CheckedLanguageModel,
    estimator: object,
    span: Callable[[str], Span],
    sink: Sink,
) -> None:
    """Check that two models whose log-probabilities are subtracted read the same tokens.

    Args:
        policy: the one.
        reference: the other.
        estimator: of the penalty.
        span: where an argument stands.
        sink: takes the mistakes.
    """
    sizes = [model.weights.vocab_size if model.weights else None for model in (policy, reference)]
    if estimator == "full" and None not in sizes and sizes[0] != sizes[1]:
        message = f"`{policy.name}` has numbers for {sizes[0]} tokens, `{reference.name}` for {sizes[1]}"
        help = "resize one of the models and save it, or write `estimator: k1`"
        sink.add(rules.VOCABULARIES_DIFFER.at(span("estimator"), message, help=help))
    here = span("ref_model")
    if not check_recorded_tokenizers(policy, reference, here, sink):
        return
    both = (policy, reference)
    names = f"`{policy.name}` and `{reference.name}`"
    notes = [Note(f"`{model.name}`", model.place(_tokenizer_field(model))) for model in both]
    named = {model.template for model in both}
    own = {model.tokenizer_folder and model.tokenizer_folder.template for model in both}
    # a template with a name may be the one that a tokenizer has as its own, and so may a file
    certain = not any(model.template_file for model in both)
    known = set() if not certain else named if None not in named else own if named == {None} else set()
    if "tokens" not in (model.input for model in both) and len(known) > 1 and None not in known:
        message = f"{names} have different chat templates: a conversation is two texts"
        help = "write the same `template:` in both"
        sink.add(rules.TEMPLATES_DIFFER.at(here, message, notes=notes, help=help))


def _tokenizer_field(model: CheckedLanguageModel) -> str:
    return next((field for field in ("template", "tokenizer") if field in model.places), "path")


def check_roles(
    env: CheckedEnv, models: Mapping[str, CheckedLanguageModel], span: Callable[[str], Span], sink: Sink
) -> None:
    """Check that chat templates know the roles of the messages in an environment of conversations.

    Args:
        env: the environment.
        models: those that read its conversations, by keyword.
        span: where a keyword stands.
        sink: takes the mistakes.
    """
    if env.chat is None:
        return
    roles = ["user", "assistant"] if env.chat.system is None else ["system", "user", "assistant"]
    for keyword, model in models.items():
        folder = model.tokenizer_folder if model.template is None and model.input == "history" else None
        template = None if folder is None else folder.template
        refused = [role for role in roles if template is not None and role in template.refuses]
        if refused:
            message = (
                f"the chat template of `{model.name}` refuses the `{refused[0]}` messages of `{env.name}`"
            )
            notes = [Note("whose template it is", model.place(_tokenizer_field(model)))]
            help = (
                f"leave out `system` in `{env.name}`, or write another `template:` in `{model.name}`"
                if refused[0] == "system"
                else f"write another `template:` in `{model.name}`"
            )
            sink.add(rules.ROLE_REFUSED.at(span(keyword), message, notes=notes, help=help))
            return


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
