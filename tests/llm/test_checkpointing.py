"""Scores of models whose layers are run again in the backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.llm import TransformersWrapper
from tensordict import TensorDict
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


@pytest.mark.peers
def test_torchrl_checkpoints_only_with_dropout() -> None:
    """In evaluation mode its layers keep their activations; in training mode, where they don't, there is dropout."""
    llm = pytest.importorskip("torchrl.modules.llm")
    tokenizer = tiny_tokenizer()
    model: Any = tiny_model("llama", tokenizer, attention_dropout=0.5)
    model.gradient_checkpointing_enable()
    layer = next(module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
    runs: list[bool] = []
    next(layer.children()).register_forward_pre_hook(lambda *_: runs.append(layer.training))
    keywords: dict[str, Any] = {"input_mode": "tokens", "generate": False, "pad_output": True}
    theirs = llm.TransformersWrapper(model, tokenizer=tokenizer, return_log_probs=True, **keywords)
    mine = TransformersWrapper(model, tokenizer=tokenizer, **keywords)
    tokens = torch.arange(4, 12).repeat(2, 1)

    def scored(wrapper: Any) -> tuple[Tensor, list[bool]]:
        mask = torch.ones_like(tokens).bool()
        data = TensorDict({"tokens": {"full": tokens}, "masks": {"all_attention_mask": mask}}, [2])
        runs.clear()
        found: Tensor = wrapper(data)["log_probs", "full"]
        found.sum().backward()
        return found.detach(), list(runs)

    scored(mine)  # probes
    values, kept = scored(theirs.eval())
    model.train()
    dropped, again = scored(theirs)
    ours, ours_again = scored(mine)
    assert (kept, again, ours_again) == ([False], [True, True], [False, False])
    torch.testing.assert_close(ours[:, 1:], values[:, 1:])
    assert (dropped - values)[:, 1:].abs().max() > 0.01
