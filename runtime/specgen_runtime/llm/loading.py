"""Models and tokenizers of `transformers` from folders or hubs."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from specgen_runtime.extras import import_extra
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["load_model", "load_tokenizer"]


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

    Args:
        path: a folder that `save_pretrained` wrote, or a name of the hub.
        **further: what else `AutoTokenizer.from_pretrained` takes.

    Raises:
        ImportError: transformers is not installed.
    """
    transformers = import_extra("transformers", "language models", "llm")
    return transformers.AutoTokenizer.from_pretrained(path, **further)
