"""`TransformersWrapper`: a causal model of `transformers` that generates answers or scores them, on tensordicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, cast, get_args

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor, nn

from specgen_runtime.envs.exploration import ExplorationType, exploration_type
from specgen_runtime.llm.conversations.answers import message_of
from specgen_runtime.llm.conversations.entries import Sequences, behind_prompts, chats_at, written_to
from specgen_runtime.llm.models.batching import CallBatcher
from specgen_runtime.llm.models.body import can_pack, scorable, score_tokens, states_before
from specgen_runtime.llm.models.chosen import Chosen
from specgen_runtime.llm.models.distribution import TokenDistribution
from specgen_runtime.llm.models.head import Scorer, find_scorer
from specgen_runtime.llm.models.inputs import SAID, Inputs, wrapper_keywords
from specgen_runtime.llm.models.layout import InputMode, Layout, within
from specgen_runtime.llm.models.loading import load_model, load_pair
from specgen_runtime.llm.models.sampling import GenerationSettings, LogProbsOf, generate_answers
from specgen_runtime.random_state import drawing_from
from specgen_runtime.typing import DEVICE_TYPING, NestedKey

__all__ = ["TransformersWrapper"]

T = TypeVar("T")


class TransformersWrapper(TensorDictModuleBase):  # type: ignore[misc]
    """A causal model of `transformers` that reads conversations, texts or tokens.

    With ``generate`` it reads prompts and writes answers, as a policy does; otherwise it reads whole sequences and
    writes the log-probability of each token. Tokens are int64 and log-probabilities float32: ``[*batch, time]``, or
    rows as long as they are (`pad_output`). A log-probability is exactly 0.0 where there is none: for the first token
    of a sequence, and for padding.

    Reads, of ``(mode, "prompt")`` or ``(mode, "full")``: `History` objects or lists of messages; one string for each
    row; or tokens, whose mask of what is no padding is at ``("masks", "all_attention_mask")`` or `attention_mask_key`, that of
    prompts beside whole sequences at the latter; without a mask, nothing is padding.

    Writes ``tokens.full``, ``masks.all_attention_mask`` and ``log_probs.full``, and of conversations
    ``masks.all_assistant_mask``. Generating, it writes ``tokens.prompt``, ``tokens.response`` and
    ``log_probs.response`` besides, and the conversations or texts with their answers; ``log_probs.full`` and the
    assistant's mask are of the answer alone then: what was sampled.

    It draws from its attribute `generator`, else from torch's default one; under `set_exploration_type("deterministic")`, as
    evaluations are, each token is the likeliest. It generates nothing for rows that ``"_step"`` says do not step.

    Args:
        model: the model, or a path that `load_model` takes; the tokenizer is that of the path, then, unless given.
        tokenizer: of `transformers`, or a path; needed but for tokens. None: what the model's `get_tokenizer` gives, or
            the one that is where it was loaded from.
        input_mode: what is read.
        input_key: where; None for ``(mode, "prompt")`` or ``(mode, "full")``.
        attention_mask_key: where else the mask of tokens may be.
        generate: whether to generate answers.
        generate_kwargs: how; see `GenerationSettings.of`. Scoring, it says of which distribution log-probabilities are.
        tokenizer_kwargs: of conversations: what `render_batch` takes, and variables of the template; of texts: what the
            tokenizer does. `max_length`, `padding_side` and templates in it are those below; `padding` is `pad_output`'s.
        pad_output: whether tensors are padded.
        pad_model_input: whether the model is run on padded tensors (None: yes); False packs sequences behind each
            other, if the model keeps them apart.
        inplace: False to write to a copy, ``"empty"`` to an empty tensordict; otherwise to what was read.
        device: where the model is moved; inputs may be elsewhere.
        layout: of rows: None or `torch.strided`.
        num_samples: answers to each prompt: the batch has a further dimension. Needs sampling.
        chat_template_name: the name of a template for conversations.
        chat_template: a template for conversations.
        return_log_probs: None to do so if it does not generate.
        history_key: of conversations.
        text_key: of texts.
        tokens_key: of tokens.
        masks_key: of masks.
        log_probs_key: of log-probabilities.
        batching: whether calls that several threads make at the same time are run as one batch; None: with
            `min_batch_size`. Data have one batch dimension at most, then.
        min_batch_size: how many rows such a batch waits for.
        max_batch_size: how many rows are run at once.
        batching_timeout: how many seconds it waits for them; then it runs those that are there.
        prefer_tokens: whether tokens in the data that were sampled are scored instead of rendered conversations: None
            if they are there with the assistant's mask; True requires them; False renders. Generating, whether a
            prompt that goes on from them keeps them.
        padding_side: of prompts and whole sequences; answers alone are padded on the right.
        pad_to: the width of padded tensors; None for the longest row's.
        max_length: longer conversations and texts are cut, prompts at their beginning, others where the tokenizer says;
            tokens in the data stay as they are.
        log_probs_of: of which distribution log-probabilities are: ``"sampled"``, the one that tokens are drawn from;
            ``"tempered"``, with its temperature only; or ``"model"``.
        max_tokens: how many tokens are run at once when sequences are scored; None for all.
        with_entropy: whether distributions (`get_dist`) compute entropies in the run that computes log-probabilities;
            False does so in a run of its own, when one is asked for.
        assistant_only: whether scoring is of the assistant's tokens alone, where their mask is known; 0.0 stands for others.
        autocast: the precision of what is before the head, sampling and scoring, such as ``torch.bfloat16``; None for that
            of the parameters. Head, log-probabilities and gradients have theirs.

    Raises:
        TypeError: the model is none.
        ValueError: keywords contradict each other, or there is no tokenizer.
    """

    def __init__(
        self,
        model: nn.Module | str,
        *,
        tokenizer: Any = None,
        input_mode: InputMode = "history",
        input_key: NestedKey | None = None,
        attention_mask_key: NestedKey = "attention_mask",
        generate: bool = True,
        generate_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        pad_output: bool = False,
        pad_model_input: bool | None = None,
        inplace: bool | Literal["empty"] | None = None,
        device: DEVICE_TYPING | None = None,
        layout: torch.layout | None = None,
        num_samples: int | None = None,
        chat_template_name: str | None = None,
        chat_template: str | None = None,
        return_log_probs: bool | None = None,
        history_key: NestedKey = "history",
        text_key: NestedKey = "text",
        tokens_key: NestedKey = "tokens",
        masks_key: NestedKey = "masks",
        log_probs_key: NestedKey = "log_probs",
        batching: bool | None = None,
        min_batch_size: int | None = None,
        max_batch_size: int | None = None,
        batching_timeout: float = 10.0,
        prefer_tokens: bool | None = None,
        padding_side: Literal["left", "right"] = "left",
        pad_to: int | None = None,
        max_length: int | None = None,
        log_probs_of: LogProbsOf = "sampled",
        max_tokens: int | None = None,
        with_entropy: bool = True,
        assistant_only: bool = False,
        autocast: torch.dtype | None = None,
    ) -> None:
        given = {key: value for key, value in locals().items() if key not in ("self", "model", "__class__")}
        super().__init__()
        given |= wrapper_keywords(tokenizer_kwargs, generate=generate)
        chat_template, chat_template_name, padding_side, max_length, pad_to = (given[name] for name in SAID)
        model, tokenizer = load_pair(model, tokenizer, needs_tokenizer=input_mode != "tokens")
        given["tokenizer"] = tokenizer
        if input_mode not in get_args(InputMode):
            raise ValueError(f"input_mode must be one of 'history', 'text', 'tokens', got {input_mode!r}")
        if tokenizer is None and input_mode != "tokens":
            raise ValueError(f"input_mode={input_mode!r} needs a tokenizer; only tokens are read without one")
        if batching is False and min_batch_size is not None:
            raise ValueError(
                f"min_batch_size={min_batch_size} is of calls that are put together: batching=True"
            )
        if autocast not in (None, torch.bfloat16, torch.float16):
            raise ValueError(f"autocast is torch.bfloat16 or torch.float16, got {autocast!r}")
        if layout not in (None, torch.strided):
            raise ValueError(
                f"rows are lists of strided tensors, got layout={layout}; or set pad_output=True"
            )
        if generate and pad_model_input is False:
            raise ValueError(
                "prompts are padded when answers are generated: pad_model_input=False is for scoring"
            )
        if not generate and return_log_probs is False:
            raise ValueError("return_log_probs must be True when generate=False: the model would do nothing")
        given["num_samples"] = num_samples = num_samples if generate else None
        self.model = model if device is None else model.to(device)
        self.tokenizer: Any = tokenizer
        self.input_mode, self.generate, self.pad_output = input_mode, generate, pad_output
        self.return_log_probs = not generate if return_log_probs is None else return_log_probs
        self.settings = GenerationSettings.of(generate_kwargs, model, num_samples, tokenizer)
        self.num_samples = self.settings.num_samples if generate else None
        self.warp = self.settings.warp_of(log_probs_of)
        self.log_probs_of: LogProbsOf = log_probs_of
        self.tokenizer_kwargs: dict[str, Any] = given["tokenizer_kwargs"]
        self.chat_template, self.chat_template_name = chat_template, chat_template_name
        self.pad_model_input = pad_model_input is not False
        self.inplace, self.layout, self.prefer_tokens = inplace, layout, prefer_tokens
        self.padding_side, self.pad_to, self.max_length = padding_side, pad_to, max_length
        self.max_batch_size, self.max_tokens = max_batch_size, max_tokens
        self.batching = batching or min_batch_size is not None
        self._batcher = (
            CallBatcher(min_batch_size or 1, max_batch_size, batching_timeout) if self.batching else None
        )
        self.history_key, self.text_key, self.tokens_key = history_key, text_key, tokens_key
        self.masks_key, self.log_probs_key = masks_key, log_probs_key
        self.attention_mask_key = attention_mask_key
        pad = getattr(tokenizer, "pad_token_id", None)
        self.keys = Layout(
            *(history_key, text_key, tokens_key, masks_key, log_probs_key),
            padded=pad_output,
            side=padding_side,
            width=pad_to,
            pad_id=int(pad if pad is not None else (self.settings.stop or (0,))[0]),
        )
        container = {"history": history_key, "text": text_key, "tokens": tokens_key}[input_mode]
        part = "prompt" if generate else "full"
        self.input_key = within(container, part) if input_key is None else input_key
        self.inputs = Inputs(
            *(input_mode, generate, self.input_key, attention_mask_key, self.keys, tokenizer),
            *(chat_template, chat_template_name, self.tokenizer_kwargs, max_length, prefer_tokens),
        )
        self.optional_in_keys = self.inputs.optional_keys
        self.in_keys = [self.input_key, *self.optional_in_keys]
        self.out_keys = self.keys.written(input_mode, generate=generate, log_probs=self.return_log_probs)
        self.with_entropy, self.assistant_only = with_entropy, assistant_only
        self.autocast = autocast
        self.generator: torch.Generator | None = None
        self._given = given
        self._scorer: Scorer | None = None
        self._packs: bool | None = None

    @classmethod
    def from_pretrained(
        cls,
        path: str,
        *,
        dtype: torch.dtype | str = "auto",
        attention: str | None = None,
        frozen: bool = False,
        device: DEVICE_TYPING | None = None,
        **keywords: Any,
    ) -> Self:
        """Make it of a folder that `save_pretrained` wrote, or of a name of the hub; see `load_model`.

        Args:
            path: of the model, and of the tokenizer unless one is given.
            dtype: of the parameters.
            attention: which implementation.
            frozen: whether the parameters take no gradients.
            device: where the model is put.
            **keywords: as the class takes them.
        """
        model = load_model(path, dtype=dtype, attention=attention, device=device, frozen=frozen)
        return cls(model, **{"tokenizer": path, **keywords})

    def get_new_version(self, **keywords: Any) -> Self:
        """Return a wrapper of the same model with other keywords, such as ``generate=False``."""
        made = type(self)(self.model, **{**self._given, **keywords})
        if made.autocast == self.autocast:
            made._scorer, made._packs = self._scorer, self._packs
        return made

    @property
    def generate_kwargs(self) -> dict[str, Any]:
        """How it generates, as it was said; `get_new_version(generate_kwargs=...)` generates otherwise."""
        return dict(self._given["generate_kwargs"] or {})

    @property
    def scorer(self) -> Scorer:
        """What scores tokens with the model, found by a probe when it is first asked for."""
        if self._scorer is None or not self._scorer.is_of(self.model):
            self._scorer, self._packs = find_scorer(self.model, self.autocast), None
        return self._scorer

    @property
    def packs(self) -> bool:
        """Whether sequences are run packed: if that was asked for, and a probe says that the model can."""
        if not self.pad_model_input and (self._packs is None or self._scorer is None):
            self._packs = can_pack(self.scorer)
        return not self.pad_model_input and bool(self._packs)

    def score(self, sequences: Sequences, scored: Tensor, *, entropy: bool = False) -> Chosen:
        """Return the log-probabilities of tokens as `generate_kwargs` and `log_probs_of` say; see `score_tokens`.

        Args:
            sequences: the tokens, ``[rows, width]``.
            scored: bool ``[rows, width]``, those that are asked for.
            entropy: whether entropies are computed, too.
        """
        return self._run(score_tokens, sequences, scored, warp=self.warp, entropy=entropy)

    def states_before(self, sequences: Sequences, scored: Tensor) -> Tensor:
        """Return what the logits of scored tokens are made of, ``[n, width]``, row by row; see `states_before`.

        Args:
            sequences: the tokens, ``[rows, width]``.
            scored: bool ``[rows, width]``, at least one token, each with a predecessor.
        """
        return self._run(states_before, sequences, scored)

    def _run(self, how: Callable[..., T], sequences: Sequences, scored: Tensor, **options: Any) -> T:
        options |= {"packed": self.packs, "max_tokens": self.max_tokens, "max_rows": self.max_batch_size}
        return how(self.scorer, sequences.ids, sequences.attention, scored, **options)

    def sequences(self, tensordict: TensorDictBase) -> Sequences:
        """Return the tokens of what is read, with the assistant's mask where it is known; see `Inputs.sequences`."""
        return self.inputs.sequences(tensordict)

    def forward(
        self, tensordict: TensorDictBase, *, tensordict_out: TensorDictBase | None = None
    ) -> TensorDictBase:
        """Generate answers, or score sequences: see the class.

        Args:
            tensordict: what is read.
            tensordict_out: what is written to, unless `inplace` says it.
        """
        out = written_to(tensordict, tensordict_out, self.inplace, self.num_samples)
        run = self._answer if self.generate else self._scored
        if self._batcher is None:
            return run(tensordict, out)
        if tensordict.batch_dims > 1:
            raise ValueError(f"batching=True takes one batch dimension at most, got {list(tensordict.shape)}")
        rows = tensordict.unbind(0) if tensordict.batch_dims else (tensordict,)
        read = [row.select(*self.in_keys, strict=False) for row in rows]
        made = self._batcher(lambda data: run(data, written_to(data, None, "empty", self.num_samples)), read)
        return out.update(torch.stack(list(made)) if tensordict.batch_dims else made[0])

    def _scored(self, data: TensorDictBase, out: TensorDictBase) -> TensorDictBase:
        found = self.sequences(data)
        said = found.assistant if self.assistant_only else None
        scored = self.score(found, found.attention if said is None else said & found.attention)
        self.keys.write_scores(out, found, scored.log_probs)
        return out

    def _answer(self, data: TensorDictBase, out: TensorDictBase) -> TensorDictBase:
        found = self.sequences(data)
        likeliest = exploration_type() in (ExplorationType.DETERMINISTIC, ExplorationType.MODE)
        with drawing_from(self.generator):
            answers = generate_answers(
                self.model,
                found.rows(),
                self.settings.without_drawing() if likeliest else self.settings,
                pad=self.keys.pad_id,
                log_probs_of=self.log_probs_of,
                scorable=self.return_log_probs,
                max_rows=self.max_batch_size,
                autocast=self.autocast,
                asked=None if (steps := data.get("_step", None)) is None else steps.flatten().tolist(),
            )

        def repeated(rows: Sequence[T]) -> list[T]:
            return [row for row in rows for _ in range(self.num_samples or 1)]

        self.keys.write_answers(out, repeated(found.rows()), answers, log_probs=self.return_log_probs)
        if found.text is not None:
            replies = [self.tokenizer.decode(row) for row in answers.tokens]
            self.keys.write_texts(out, repeated(found.text), replies)
        if self.input_mode == "history":
            messages = [
                message_of(row, complete, self.tokenizer, self.chat_template, self.chat_template_name)
                for row, complete in zip(answers.tokens, answers.is_complete, strict=True)
            ]
            self.keys.write_messages(out, repeated(chats_at(data, self.input_key)), messages)
        return out

    def get_dist(self, tensordict: TensorDictBase, **_keywords: Any) -> TokenDistribution:
        """Return the distributions that tokens are from, those of answers: nothing is run until something is asked.

        Where the data have no mask of what the assistant said, answers are what follows ``tokens.prompt``, if tokens
        are read and it is there, or else all tokens that have a predecessor.

        Args:
            tensordict: what is read; tokens ``[*batch, time]`` keep their places.

        Raises:
            ValueError: the wrapper generates.
        """
        if self.generate:
            raise ValueError(
                "a wrapper with generate=True reads prompts: get_new_version(generate=False) scores"
            )
        found = self.sequences(tensordict)
        asked = found.assistant
        if asked is None and self.input_mode == "tokens":
            asked = behind_prompts(tensordict, within(self.tokens_key, "prompt"), found)
        scored = scorable(found.attention if asked is None else asked, found.attention)
        shape = (*tensordict.batch_size, found.ids.shape[-1])

        def run(entropy: bool) -> Chosen:
            log_probs, entropies = self.score(found, scored, entropy=entropy)
            return Chosen(log_probs.reshape(shape), None if entropies is None else entropies.reshape(shape))

        masks = found.attention.reshape(shape), scored.reshape(shape)
        return TokenDistribution(found.ids.reshape(shape), *masks, run, self.with_entropy)

    def log_prob(self, tensordict: TensorDictBase) -> Tensor:
        """Return the log-probabilities of whole sequences, ``[*batch, time]``; nothing is written."""
        return cast("Tensor", self(tensordict.copy()).get(within(self.log_probs_key, "full")))

    def __getstate__(self) -> dict[str, Any]:
        # which are found anew where it is unpickled
        return {**self.__dict__, "_scorer": None, "_packs": None}
