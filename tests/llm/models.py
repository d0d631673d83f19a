"""A tiny tokenizer and small random causal models, made here: nothing is read from a hub."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

FAMILIES = ("gpt2", "opt", "llama", "qwen2", "gemma2")
"""Families of models that differ in positions (learned, with an offset, rotary), tied and soft-capped heads, windows."""

CHATML = """\
{%- for message in messages %}
{%- if message['role'] == 'assistant' -%}
{{ '<|im_start|>assistant\\n' }}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}
{%- else -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}"""
"""A chat template with markers around what an assistant says and its end of turn."""

SPECIAL = ("<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
TEXT = "You are a helpful assistant. Hello, how are you? I'm well! What's the weather? user system tool the answer is 42 "


@cache
def _byte_pairs() -> str:
    """The state of a byte-level tokenizer of 320 ids, trained once."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        show_progress=False,
        special_tokens=list(SPECIAL),
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([TEXT * 4], trainer)
    state: str = tokenizer.to_str()
    return state


def tiny_tokenizer(
    template: str | None = CHATML,
    *,
    pad: str | None = "<pad>",
    eos: str = "<|im_end|>",
    padding_side: str = "left",
    end_of_answer: bool = False,
) -> Any:
    """Return a fast byte-level tokenizer; ids 0 to 4 are `SPECIAL`.

    Args:
        template: its chat template.
        pad: its pad token; None for a tokenizer without one.
        eos: its end token; the end of turn of the template unless said.
        padding_side: `left` or `right`.
        end_of_answer: whether encoding appends the end token, as some tokenizers do.
    """
    backend = tokenizers.Tokenizer.from_str(_byte_pairs())
    if end_of_answer:
        backend.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"$A {eos}", special_tokens=[(eos, backend.token_to_id(eos))]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=pad, bos_token="<s>", eos_token=eos, padding_side=padding_side
    )
    tokenizer.chat_template = template
    return tokenizer


def tiny_model(
    family: str, tokenizer: Any = None, *, seed: int = 0, attention: str = "eager", **config: Any
) -> nn.Module:
    """Return a random float32 model in evaluation mode, with two layers of 16 units and weights that matter.

    Args:
        family: one of `FAMILIES`.
        tokenizer: whose ids it knows (with a few spare ones); None for 64 ids.
        seed: of its weights.
        attention: `eager` or `sdpa`.
        **config: fields of its configuration instead of these.
    """
    ids = {"vocab_size": 64 if tokenizer is None else len(tokenizer) + 3}
    if tokenizer is not None:
        ids |= {
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        }
    else:
        ids |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    rotary: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.4,
    }
    match family:
        case "gpt2":
            kind = transformers.GPT2Config
            fields = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 512, "initializer_range": 0.4}
        case "opt":
            kind = transformers.OPTConfig
            fields = {
                "hidden_size": 16,
                "ffn_dim": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "max_position_embeddings": 512,
                "word_embed_proj_dim": 16,
                "init_std": 0.4,
            }
        case "llama":
            kind, fields = transformers.LlamaConfig, rotary
        case "qwen2":
            kind, fields = transformers.Qwen2Config, rotary
        case "gemma2":
            kind = transformers.Gemma2Config
            fields = rotary | {
                "head_dim": 4,
                "sliding_window": 8,
                "query_pre_attn_scalar": 4,
                "final_logit_softcapping": 5.0,
                "attn_logit_softcapping": 10.0,
            }
        case _:
            raise ValueError(f"no family {family!r}; they are {', '.join(FAMILIES)}")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        configuration = kind(**{**ids, **fields, **config})
        model: nn.Module = transformers.AutoModelForCausalLM.from_config(
            configuration, attn_implementation=attention, dtype=torch.float32
        )
        for parameter in model.parameters():
            if parameter.ndim == 1:  # biases and scales that are not where they start
                parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model.eval()
