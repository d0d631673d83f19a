"""Scores of models whose layers are run again in the backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from tests.llm.conversations import conversations
from tests.llm.models import FAMILIES, tiny_model, tiny_tokenizer

DROPPED: dict[str, dict[str, Any]] = {
    "gpt2": {"resid_pdrop": 0.5, "attn_pdrop": 0.5},
    "opt": {"dropout": 0.5, "attention_dropout": 0.5},
}


def scored(family: str, again: bool) -> tuple[Tensor, dict[str, Tensor], int]:
    """Log-probabilities, gradients, and how often the first layer has run in the backward pass."""
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model(family, tokenizer, **DROPPED.get(family, {"attention_dropout": 0.5})).train()
    if again:
        model.gradient_checkpointing_enable()
    policy = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    policy(conversations())  # probes
    layer = next(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    runs: list[bool] = []
    next(layer.children()).register_forward_pre_hook(
        lambda *_: runs.append(any(m.training for m in layer.modules()))
    )
    found = policy(conversations())["log_probs", "full"]
    before = len(runs)
    found.sum().backward()
    assert not any(runs), "layers run in evaluation mode"
    assert all(module.training for module in model.modules())
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return found.detach(), gradients, len(runs) - before


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_and_gradients_are_the_same(family: str) -> None:
    (values, gradients, kept), (other, others, again) = scored(family, False), scored(family, True)
    torch.testing.assert_close(other, values)
    assert others.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(others[name], gradient, msg=name)
    assert (kept, again) == (0, 1)


def test_without_gradients_layers_run_once() -> None:
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer)
    model.gradient_checkpointing_enable()
    policy = TransformersWrapper(model, tokenizer=tokenizer, generate=False, pad_output=True)
    with torch.no_grad():
        assert not policy(conversations())["log_probs", "full"].requires_grad
    assert all("forward" not in layer.__dict__ for layer in model.modules())
