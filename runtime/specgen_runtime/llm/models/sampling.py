"""Sampling of answers, with the log-probability that each token was drawn with."""

from __future__ import annotations

import bisect
import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor, nn

from specgen_runtime.extras import import_extra
from specgen_runtime.llm.models.autocast import autocasting
from specgen_runtime.llm.models.body import check_positions, check_vocabulary, knows_tokens
from specgen_runtime.llm.models.chosen import PLAIN, Warp
from specgen_runtime.llm.models.head import device_of, evaluating, output_head

__all__ = ["Answers", "GenerationSettings", "LogProbsOf", "generate_answers", "single_token"]

LogProbsOf: TypeAlias = Literal["sampled", "tempered", "model"]
"""Of which distribution log-probabilities are: the one that tokens are drawn from, it without truncation, the model's."""

OLDER = {"max_tokens": "max_new_tokens", "n": "num_return_sequences"}
"""Words for settings that other libraries have."""

NEUTRAL: Mapping[str, Any] = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "guidance_scale": 1.0,
    "min_length": 0,
    "min_new_tokens": 0,
    "typical_p": 1.0,
    "min_p": 0.0,
    "top_h": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "num_beams": 1,
    "penalty_alpha": None,
    "bad_words_ids": None,
    "sequence_bias": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "watermarking_config": None,
}
"""Settings of transformers that change what is drawn from, and the value of each that does nothing."""


class Answers(NamedTuple):
    """What was sampled for prompts."""

    tokens: list[Tensor]
    """int64 ``[new tokens]`` each, with the stop token if one was drawn"""
    log_probs: list[Tensor]
    """float32 ``[new tokens]`` each"""
    is_complete: list[bool]
    """whether it ended with a stop token"""


@dataclass(frozen=True)
class GenerationSettings:
    """How a model generates.

    Args:
        warp: what is done to its logits.
        do_sample: False for the likeliest token each time.
        num_samples: answers to each prompt; None for one, without a dimension for it.
        stop: ids that end an answer, besides those of the model and of the tokenizer.
        strings: texts that end an answer where it first contains one of them, which stays in it.
        tokenizer: what tokens are made text with to find them.
        further: what else `transformers` is told.
    """

    warp: Warp = PLAIN
    do_sample: bool = False
    num_samples: int | None = None
    stop: tuple[int, ...] | None = None
    strings: tuple[str, ...] = ()
    tokenizer: Any = field(default=None, compare=False, repr=False)
    further: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any] | None,
        model: Any,
        num_samples: int | None = None,
        tokenizer: Any = None,
    ) -> GenerationSettings:
        """Return the settings that the words of `transformers`, and of other libraries, stand for.

        Args:
            given: ``max_new_tokens`` (or ``max_tokens``), ``num_return_sequences`` (or ``n``), ``do_sample``,
                ``temperature``, ``top_k``, ``top_p``, ``stop`` or ``stop_sequences`` (ids, or strings: where an answer
                first has one, it ends), ``eos_token_id`` (these ids end answers, and no others), and whatever else
                ``model.generate`` takes. A temperature, top-k or top-p without ``do_sample`` means sampling; the
                temperature 0 means none.
            model: whose generation configuration says whether to sample, if nothing else does.
            num_samples: another word for ``num_return_sequences``.
            tokenizer: what strings are made tokens with.

        Raises:
            ValueError: two words for one setting, a number out of range, several samples without sampling, or a
                stop string that is empty, or without a tokenizer.
        """
        rest = dict(given or {})
        for old, name in OLDER.items():
            if old in rest:
                if name in rest:
                    raise ValueError(
                        f"generate_kwargs has {old!r} and {name!r}, which mean the same: remove one"
                    )
                rest[name] = rest.pop(old)
        samples = rest.pop("num_return_sequences", num_samples)
        if num_samples is not None and samples != num_samples:
            raise ValueError(
                f"num_samples is {num_samples}, num_return_sequences {samples}: give one of them"
            )
        warping = {
            name: rest.pop(name) for name in ("temperature", "top_k", "top_p") if rest.get(name) is not None
        }
        sampling = rest.pop("do_sample", None)
        if warping.get("temperature") == 0:
            warping, sampling = {}, False
        if sampling is None:
            config = getattr(model, "generation_config", None)
            sampling = bool(warping) or bool(getattr(config, "do_sample", None))
        if samples is not None and samples < 1:
            raise ValueError(f"num_samples must be >= 1, got {samples}")
        if not sampling and (samples or 1) > 1:
            raise ValueError(
                f"{samples} answers to each prompt need do_sample=True: otherwise they are all the same"
            )
        stop = rest.pop("eos_token_id", None)
        further_stop = [*_listed(rest.pop("stop", None)), *_listed(rest.pop("stop_sequences", None))]
        ids = _stop_ids(model, tokenizer) if stop is None else _listed(stop)
        strings = tuple(one for one in further_stop if _is_text(one, tokenizer))
        ids += [single_token(one, tokenizer) for one in further_stop if one not in strings]
        stop_ids, warp = tuple(dict.fromkeys(ids)), Warp(**warping) if sampling else PLAIN
        return cls(warp, sampling, samples, stop_ids, strings, tokenizer if strings else None, rest)

    def warp_of(self, log_probs_of: LogProbsOf) -> Warp:
        """What is done to logits before log-probabilities are taken."""
        match log_probs_of:
            case "sampled":
                return self.warp
            case "tempered":
                return Warp(self.warp.temperature)
            case "model":
                return PLAIN
        raise ValueError(f"log_probs_of is one of 'sampled', 'tempered', 'model', got {log_probs_of!r}")

    def without_drawing(self) -> GenerationSettings:
        """The settings with which each token is the likeliest; answers that would all be the same are still several."""
        return replace(self, do_sample=False)

    def configuration(self, model: Any, pad: int, *, scorable: bool) -> Any:
        """The generation configuration of `transformers` for this model.

        Args:
            model: the model.
            pad: the id of padding.
            scorable: whether only what a scorer can repeat may change the logits.

        Raises:
            TypeError: the model generates nothing.
            ValueError: something else does, or answers are searched for.
        """
        if getattr(model, "generation_config", None) is None:
            raise TypeError(
                f"{type(model).__name__} generates nothing: load it with its head, by load_model(path) or AutoModelForCausalLM"
            )
        config = copy.deepcopy(model.generation_config)
        unknown = config.update(
            **{"max_length": None} if "max_new_tokens" in self.further else {},
            **self.further,
            do_sample=self.do_sample,
            temperature=1.0 if self.do_sample else None,
            top_k=0 if self.do_sample else None,
            top_p=1.0 if self.do_sample else None,
            num_return_sequences=1,
            eos_token_id=list(self.stop or ()) or None,
            stop_strings=list(self.strings) or None,
            pad_token_id=pad,
            return_dict_in_generate=False,
        )
        if unknown:
            raise ValueError(
                f"generate_kwargs that transformers does not know: {', '.join(map(repr, unknown))}"
            )
        if (config.num_beams or 1) > 1:
            raise ValueError(
                f"num_beams={config.num_beams}: a beam search draws no answers whose probabilities were known; leave it out, "
                "or write num_beams=1"
            )
        changed = {name: getattr(config, name, None) for name in NEUTRAL}
        changed = {name: value for name, value in changed.items() if value not in (None, NEUTRAL[name])}
        if scorable and changed:
            texts = ", ".join(f"{name}={value!r}" for name, value in changed.items())
            raise ValueError(
                f"log-probabilities of tokens that are drawn with {texts} can't be computed again when they are "
                f"scored; switch it off in generate_kwargs ({next(iter(changed))}={NEUTRAL[next(iter(changed))]!r})"
            )
        return config


@torch.no_grad()
def generate_answers(
    model: nn.Module,
    prompts: Sequence[Tensor],
    settings: GenerationSettings,
    *,
    pad: int = 0,
    log_probs_of: LogProbsOf = "sampled",
    scorable: bool = True,
    max_rows: int | None = None,
    autocast: torch.dtype | None = None,
    asked: Sequence[bool] | None = None,
) -> Answers:
    """Return answers to prompts, those to one prompt behind each other.

    An answer ends with the first stop token, or where it first has a stop string. Ids of padding that are drawn before are tokens as others.

    Args:
        model: of `transformers`; it runs in evaluation mode.
        prompts: int64 ``[tokens]`` each, on any device, where the answers come back.
        settings: how.
        pad: the id of padding.
        log_probs_of: of which distribution the log-probabilities are.
        scorable: whether only what a scorer can repeat may change the logits.
        max_rows: how many answers are made at once; None for all.
        autocast: the precision of what is before the head; None for that of the parameters.
        asked: of each prompt, whether anybody reads the answers; those to others are one token, which the model does not
            make. None for all.

    Raises:
        RuntimeError: the model gives logits that are NaN.
        ValueError: a prompt has no token, or one that the model does not know; or `GenerationSettings.configuration` refuses the settings.
    """
    empty = [row for row, prompt in enumerate(prompts) if not len(prompt)]
    if empty:
        raise ValueError(f"the prompts of the rows {empty} have no token: there is nothing to go on from")
    if prompts and not knows_tokens(model, torch.cat(list(prompts))):
        together = nn.utils.rnn.pad_sequence(list(prompts), batch_first=True)
        check_vocabulary(model, together, torch.ones_like(together, dtype=torch.bool))
    processors = import_extra("transformers.generation.logits_process", "language models", "llm")
    config = settings.configuration(model, pad, scorable=scorable)
    check_positions(model, max(map(len, prompts), default=0) + (config.max_new_tokens or 1) - 1)
    asked = [True] * len(prompts) if asked is None else asked
    wanted = [prompt for prompt, one in zip(prompts, asked, strict=True) if one]
    repeated = [prompt for prompt in wanted for _ in range(settings.num_samples or 1)]
    step = max_rows or max(1, len(repeated))
    answers = Answers([], [], [])
    with evaluating(model), autocasting(model, output_head(model), autocast):
        for start in range(0, len(repeated), step):
            rows = [row.to(device_of(model)) for row in repeated[start : start + step]]
            ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad, padding_side="left")
            lengths = torch.tensor([len(row) for row in rows], device=ids.device)
            attention = torch.arange(ids.shape[1] - 1, -1, -1, device=ids.device) < lengths[:, None]
            recorder = _Recorder(settings.warp, settings.warp_of(log_probs_of))
            try:
                sequences = cast("Any", model).generate(
                    input_ids=ids,
                    attention_mask=attention.long(),
                    generation_config=config,
                    logits_processor=processors.LogitsProcessorList([recorder]),
                    tokenizer=settings.tokenizer,
                )
            except RuntimeError as error:
                recorder.check(type(model).__name__, error)
                raise
            new = sequences[:, ids.shape[1] :]
            log_probs = recorder.log_probs(sequences)
            stops = torch.isin(new, torch.tensor(settings.stop or (), dtype=new.dtype, device=new.device))
            ends = torch.where(stops.any(1), stops.int().argmax(1) + 1, new.shape[1]).tolist()
            for row, end in enumerate(ends):
                if settings.strings:
                    end = _end_of_text(new[row, :end], settings)
                home = repeated[start + row].device
                answers.tokens.append(new[row, :end].to(home))
                answers.log_probs.append(log_probs[row, :end].to(home))
                answers.is_complete.append(bool(stops[row, end - 1]))
    if all(asked):
        return answers
    token = (settings.stop or (pad,))[0]
    return _between(answers, prompts, asked, settings.num_samples or 1, token)


def _between(
    answers: Answers, prompts: Sequence[Tensor], asked: Sequence[bool], samples: int, token: int
) -> Answers:
    """Answers with those to prompts that were not asked for between them: one token, of log-probability 0."""
    made = zip(*answers, strict=True)
    rows: list[tuple[Tensor, Tensor, bool]] = []
    for prompt, one in zip(prompts, asked, strict=True):
        nothing = prompt.new_full((1,), token), torch.zeros(1, device=prompt.device), True
        rows += [next(made) if one else nothing for _ in range(samples)]
    tokens, log_probs, complete = zip(*rows, strict=True)
    return Answers([*tokens], [*log_probs], [*complete])


class _Recorder:
    """A processor of logits that warps them, and notes the log-probability of each token one call later.

    It keeps the logits of one step. Processors that are passed to transformers run before its own warpers: what
    tokens are drawn from is only known to a processor that does all of the warping.

    Args:
        warp: what is done to logits before tokens are drawn.
        noted: what is done to logits before log-probabilities are taken.
    """

    def __init__(self, warp: Warp, noted: Warp) -> None:
        self._warp, self._noted = warp, noted
        self._last: Tensor | None = None
        self._log_probs: list[Tensor] = []

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        self._note(ids)
        warped = self._warp(logits)
        self._last = warped if self._noted == self._warp else self._noted(logits)
        return warped

    def log_probs(self, sequences: Tensor) -> Tensor:
        """Float32 ``[rows, new tokens]``, when all is drawn."""
        self._note(sequences)
        return torch.stack(self._log_probs, 1)

    def check(self, name: str, error: RuntimeError) -> None:
        """Raise a RuntimeError in place of one that comes of logits which are NaN."""
        if self._last is not None and bool(self._last.isnan().any()):
            why = "of which nothing can be drawn: its weights are, or an input is"
            raise RuntimeError(f"{name} gives logits that are NaN, {why}") from error

    def _note(self, ids: Tensor) -> None:
        if self._last is not None:
            drawn = ids[:, -1:]
            self._log_probs.append(self._last.log_softmax(-1).gather(-1, drawn).squeeze(-1))


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Ids that end answers: those of the model's generation configuration and of the tokenizer."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return [*_listed(configured), *_listed(getattr(tokenizer, "eos_token_id", None))]


def single_token(token: int | str, tokenizer: Any) -> int:
    """The id of a token: itself, or that of a string.

    Raises:
        ValueError: the string is not one token.
    """
    if isinstance(token, int):
        return token
    ids = _encoded(token, tokenizer) if tokenizer is not None else []
    if len(ids) != 1:
        count = len(ids) or "none without a tokenizer"
        raise ValueError(f"a string is to be one token here, got {token!r}, which is {count}")
    return int(ids[0])


def _is_text(stop: int | str, tokenizer: Any) -> bool:
    """Whether what ends answers is a string of several tokens, or may be part of some.

    Raises:
        ValueError: it is empty.
    """
    if stop == "":
        raise ValueError("a stop string has a letter at least, got ''")
    return isinstance(stop, str) and tokenizer is not None and len(_encoded(stop, tokenizer)) != 1


def _encoded(text: str, tokenizer: Any) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def _end_of_text(ids: Tensor, settings: GenerationSettings) -> int:
    """How many tokens there are up to the first with which their text has a stop string; all if it has none."""

    def found(count: int) -> bool:
        text = settings.tokenizer.decode(ids[:count])
        return any(string in text for string in settings.strings)

    if not found(len(ids)):
        return len(ids)
    return bisect.bisect_left(range(1, len(ids) + 1), True, key=found) + 1


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
