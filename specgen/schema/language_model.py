"""The `models:` section: causal language models of `transformers`, what they read, and what they write."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from specgen.schema.fields import Declaration, DeclaredClass, Number


class CausalLM(Declaration):
    """Where a model comes from.

    Attributes:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        factory: a function that makes the model instead, `package.module:function`.
        dtype: of the parameters; that in which they were saved if left out.
        attention: which implementation of it; the model's own if left out.
    """

    path: str | None = None
    factory: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None
    attention: Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"] | None = (
        None
    )


class Generate(Declaration):
    """How answers are sampled; whether they are is for the use of the model to say.

    Attributes:
        max_new_tokens: the most tokens of an answer.
        temperature: logits are divided by it; 0 takes the likeliest token each time.
        top_k: of how many of the likeliest tokens one is drawn; 0 for all.
        top_p: of the likeliest tokens so many that their probabilities reach it.
        stop: what ends an answer besides the model's own end token: ids of tokens, or texts, where it first has one.
        num_samples: answers to each prompt; one, without a dimension for it, if left out.
    """

    max_new_tokens: int | None = None
    temperature: Number = 1.0
    top_k: int = 0
    top_p: Number = 1.0
    stop: list[int | str] = Field(default_factory=list)
    num_samples: int | None = None


class LanguageModel(DeclaredClass):
    """A causal language model, as a function makes it that is generated for it.

    Attributes:
        like: another model, whose fields hold where this one says nothing.
        causal_lm: where it comes from.
        tokenizer: the folder or the name of the tokenizer; that of the model if left out.
        template: the chat template: one that is known by name, or a file (`….jinja`); the tokenizer's if left out.
        input: what is read: conversations (`history`), `text` or `tokens`.
        generate: how answers are sampled; a model without it only scores.
        pad_output: whether rows are padded to one width; otherwise each is as long as it is.
        padding_side: where the padding is.
        pad_to: the width of all rows, which data of several steps need.
        max_length: sequences are cut to so many tokens.
        device: where the model is put.
        frozen: whether its parameters take no gradients.
        log_probs_key: of the group of log-probabilities that it writes.
    """

    like: str | None = None
    causal_lm: CausalLM | None = None
    tokenizer: str | None = None
    template: str | None = None
    input: Literal["history", "text", "tokens"] | None = None
    generate: Generate | None = None
    pad_output: bool | None = None
    padding_side: Literal["left", "right"] | None = None
    pad_to: int | None = None
    max_length: int | None = None
    device: str | None = None
    frozen: bool | None = None
    log_probs_key: str | None = None
