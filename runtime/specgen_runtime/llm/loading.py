"""Models and tokenizers of `transformers` from folders or hubs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from specgen_runtime.extras import import_extra
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["load_model", "load_template", "load_tokenizer"]


def load_model(
    path: str,
    *,
    dtype: torch.dtype | str = "auto",
    attention: str | None = None,
    device: DEVICE_TYPING | None = None,
    frozen: bool = False,
    **further: Any,
) -> nn.Module:
    """Return a causal model in evaluation mode.

    Args:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        dtype: of its parameters; ``"auto"`` for the one that they were saved in.
        attention: which implementation: ``"eager"``, ``"sdpa"``, ``"flash_attention_2"``; None for the model's own.
        device: where it is put.
        frozen: whether its parameters take no gradients.
        **further: what else `AutoModelForCausalLM.from_pretrained` takes.

    Raises:
        ImportError: transformers is not installed.
    """
    transformers = import_extra("transformers", "language models", "llm")
    implementation = {} if attention is None else {"attn_implementation": attention}
    loaded = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=dtype, **implementation, **further)
    model = cast("nn.Module", loaded).eval()
    if device is not None:
        model = model.to(device)
    return model.requires_grad_(False) if frozen else model


def load_tokenizer(path: str, **further: Any) -> Any:
    """Return a tokenizer, with its chat template.

    One that was saved as nothing but its ``tokenizer.json`` is loaded as that: `AutoTokenizer` goes by the family of
    the model in the same folder, and may cut texts otherwise.

    Args:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        **further: what else `AutoTokenizer.from_pretrained` takes.

    Raises:
        ImportError: transformers is not installed.
    """
    transformers = import_extra("transformers", "language models", "llm")
    config = Path(path) / "tokenizer_config.json"
    saved_as = (
        json.loads(config.read_text(encoding="utf-8")).get("tokenizer_class") if config.is_file() else None
    )
    generic = saved_as in ("PreTrainedTokenizerFast", "TokenizersBackend")
    kind = transformers.PreTrainedTokenizerFast if generic else transformers.AutoTokenizer
    return kind.from_pretrained(path, **further)


def load_template(path: str) -> str:
    """Return the chat template that a file has, as text.

    Args:
        path: the file, in UTF-8.

    Raises:
        FileNotFoundError: there is none.
    """
    return Path(path).read_text(encoding="utf-8")
