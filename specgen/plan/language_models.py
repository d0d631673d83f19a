"""A language model as a function that makes it, with the settings of its declaration."""

from __future__ import annotations

from collections.abc import Iterator

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.model import Checked, dotted
from specgen.code import named, using
from specgen.literals import literal
from specgen.plan.docs import wrapped
from specgen.plan.model import Argument, FunctionPlan, Line
from specgen.plan.spec_text import key_text
from specgen.schema.language_model import Generate


def plan_language_model(checked: Checked[CheckedLanguageModel]) -> FunctionPlan:
    """Plan `def policy_model(*, generate=True, device="cuda:0") -> TransformersWrapper`, which loads it at each call."""
    model = checked.value
    device = Argument("device", using("DEVICE_TYPING | None", "DEVICE_TYPING"), literal(model.device))
    keywords = (
        [device]
        if model.generate is None
        else [Argument("generate", "bool", literal(not model.frozen)), device]
    )
    lines = [*_setup(model), Line(f"return {_made(model)}")]
    return FunctionPlan(
        model.maker,
        (),
        named("TransformersWrapper"),
        tuple(_doc(model)),
        tuple(lines),
        keyword_only=tuple(keywords),
        uses=frozenset(_uses(model)),
    )


def _setup(model: CheckedLanguageModel) -> Iterator[Line]:
    """The comparison with what is recorded; the import of a factory, and the model that it makes."""
    if digests := _recorded(model):
        given = "".join(f", {name}={literal(value)}" for name, value in digests.items())
        yield Line(f"check_recorded({literal(model.tokenizer)}{given})")
    if model.factory is None:
        return
    yield Line(f"from {model.factory.module} import {model.factory.name} as factory")
    yield Line("make: Callable[[], nn.Module] = factory")
    yield Line("model = make()")
    if model.frozen:
        yield Line("model.requires_grad_(False)")


def _recorded(model: CheckedLanguageModel) -> dict[str, str]:
    """The digests of the tokenizer and of its chat template, as far as they are recorded and used."""
    folder = model.tokenizer_folder
    if folder is None:
        return {}
    template = folder.template if model.template is None else None
    found = {"tokenizer": folder.tokenizer, "template": None if template is None else template.digest}
    return {name: digest for name, digest in found.items() if digest is not None}


def _made(model: CheckedLanguageModel) -> str:
    arguments = ", ".join(f"{name}={value}" for name, value in _keywords(model))
    if model.factory is not None:
        return f"TransformersWrapper(model, {arguments})"
    return f"TransformersWrapper.from_pretrained({literal(model.path)}, {arguments})"


def _keywords(model: CheckedLanguageModel) -> Iterator[tuple[str, str]]:
    """The keywords of the wrapper and their expressions; what is as the runtime has it is left out."""
    if model.factory is None:
        if model.dtype not in (None, "auto"):
            yield "dtype", literal(model.dtype)
        if model.attention is not None:
            yield "attention", literal(model.attention)
        if model.frozen:
            yield "frozen", "True"
    if model.tokenizer is not None and (model.factory is not None or model.tokenizer != model.path):
        yield "tokenizer", literal(model.tokenizer)
    if model.template is not None and model.template_file:
        yield "chat_template", f"load_template({literal(model.template)})"
    elif model.template is not None:
        yield "chat_template_name", literal(model.template)
    yield "input_mode", literal(model.input)
    yield "generate", "False" if model.generate is None else "generate"
    if model.generate is not None:
        yield "generate_kwargs", literal(dict(_generation(model.generate)))
        if model.generate.num_samples is not None:
            yield "num_samples", literal(model.generate.num_samples)
    yield "return_log_probs", "True"
    yield "pad_output", literal(model.pad_output)
    yield "padding_side", literal(model.padding_side)
    for name in ("pad_to", "max_length"):
        if (width := getattr(model, name)) is not None:
            yield name, literal(width)
    if model.log_probs_key is not None:
        yield "log_probs_key", key_text(model.log_probs_key)
    yield "device", "device"


def _generation(generate: Generate) -> Iterator[tuple[str, object]]:
    """What the wrapper is told of how answers are sampled."""
    if generate.max_new_tokens is not None:
        yield "max_new_tokens", generate.max_new_tokens
    yield "do_sample", generate.temperature > 0
    if generate.temperature > 0:
        yield "temperature", float(generate.temperature)
        yield "top_k", generate.top_k
        yield "top_p", float(generate.top_p)
    # In place of that of the folder, which scored log-probabilities can't repeat.
    yield "repetition_penalty", 1.0
    if generate.stop:
        yield "stop", list(generate.stop)


def _uses(model: CheckedLanguageModel) -> Iterator[str]:
    yield "TransformersWrapper"
    if model.factory is not None:
        yield from ("Callable", "nn")
    if model.template_file:
        yield "load_template"
    if _recorded(model):
        yield "check_recorded"


def _doc(model: CheckedLanguageModel) -> Iterator[str]:
    yield from wrapped(model.doc or f"Return the language model `{model.name}`.")
    yield ""
    origin = model.path if model.factory is None else model.factory.text
    parts = [f"It is {'made by' if model.factory is not None else 'loaded from'} `{origin}` at each call"]
    parts.append(f"reads {_READS[model.input]}")
    parts.append("takes no gradients" if model.frozen else "can be trained")
    if model.log_probs_key is not None:
        parts.append(f"writes its log-probabilities below `{dotted(model.log_probs_key)}`")
    *first, last = parts
    yield from wrapped(f"{', '.join(first)}, and {last}.")
    yield ""
    yield "Args:"
    if model.generate is not None:
        yield "    generate: whether it answers prompts; otherwise it scores what is there."
    yield "    device: where it is put; where it was loaded if None."


_READS = {"history": "conversations", "text": "texts", "tokens": "tokens"}
