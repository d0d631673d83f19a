"""The transforms of a chain that run language models: how the constructor makes them, and the models that it is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specgen.check.language_models.model import CheckedLanguageModel
from specgen.check.language_models.transforms import FROM_COLLECTOR, ModelInstance
from specgen.code import Code, using, value_code
from specgen.literals import literal
from specgen.plan.model import Argument, CallPlan
from specgen.plan.spec_text import key_text


def model_arguments(models: Iterable[CheckedLanguageModel]) -> tuple[Argument, ...]:
    """The keywords for models: a frozen one is loaded if it is not given."""
    kind = using("TransformersWrapper", "TransformersWrapper")
    optional = using("TransformersWrapper | None", "TransformersWrapper")
    return tuple(
        Argument(model.keyword, optional, "None") if model.frozen else Argument(model.keyword, kind)
        for model in models
    )


def model_docs(models: Iterable[CheckedLanguageModel]) -> Iterator[str]:
    """What the keywords are, for the constructor's documentation."""
    for model in models:
        what = model.doc.rstrip(".") or f"the language model `{model.name}`"
        given = f"None: `{model.maker}()`" if model.frozen else "the one that is trained, or a version of it"
        yield f"{model.keyword}: {what[:1].lower()}{what[1:]}; {given}."


def model_setup(models: Iterable[CheckedLanguageModel]) -> tuple[Code, ...]:
    """The statements that make models those that score, with rows as they are declared."""
    return tuple(
        using(
            f"{model.keyword} = {_default(model)}wrapper_of({model.keyword}, {literal(model.keyword)})"
            f".get_new_version({_as_declared(model)})",
            "wrapper_of",
            *([model.maker] if model.frozen else []),
        )
        for model in models
    )


def _default(model: CheckedLanguageModel) -> str:
    return f"{_loaded(model)} if {model.keyword} is None else " if model.frozen else ""


def _loaded(model: CheckedLanguageModel) -> str:
    """The model as a call loads it, to score."""
    return f"{model.maker}({'generate=False' if model.generate is not None else ''})"


def _as_declared(model: CheckedLanguageModel) -> str:
    given = {
        "generate": False,
        "input_mode": model.input,
        "pad_output": model.pad_output,
        "pad_to": model.pad_to,
        "padding_side": model.padding_side,
    }
    return ", ".join(f"{name}={literal(value)}" for name, value in given.items())


def model_transform(instance: ModelInstance) -> CallPlan:
    """The call of its constructor."""
    return CallPlan(instance.transform.name, tuple(_arguments(instance)))


def _arguments(instance: ModelInstance) -> Iterator[Code]:
    transform, params = instance.transform, instance.params
    for keyword in transform.models:
        model = instance.models.get(keyword)
        if model is None:
            yield Code(f"{keyword}={literal(FROM_COLLECTOR)}")
        elif params.get("use_ray_service"):
            keywords = ", generate=False" if model.generate is not None else ""
            yield using(f"{keyword}_factory=partial({model.maker}{keywords})", "partial", model.maker)
        else:
            yield Code(f"{keyword}={model.keyword}")
    if transform.name == "KLRewardTransform":
        keys = (("reward",), instance.keys["kl_key"], instance.keys["ref_log_probs_key"])
        if keys != (("reward",), ("kl_penalty",), ("ref_log_probs",)):
            yield Code(f"out_keys=[{', '.join(map(key_text, keys))}]")
    for keyword, usual in transform.keys.items():
        if (chosen := instance.keys.get(keyword)) is None:
            continue
        written = transform.name == "KLRewardTransform" and keyword in ("kl_key", "ref_log_probs_key")
        if chosen != tuple((usual or "").split(".")) and not written:
            yield Code(f"{keyword}={key_text(chosen)}")
    for name in instance.given:
        code = value_code(params[name])
        yield using(f"{name}={code}", *code.uses)
