"""Layers of models that are run again in the backward pass, while the model is in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from specgen_runtime.llm.models.head import evaluating, parts_of

__all__ = ["checkpointing"]


@contextmanager
def checkpointing(model: nn.Module) -> Iterator[None]:
    """Have the layers of a model keep no activations, if its user has asked for that.

    A model of `transformers` (``gradient_checkpointing_enable()``) does it in training mode only, which has dropout. Here
    its layers do it in evaluation mode, in which they also run in the backward pass.

    Args:
        model: of `transformers`. One that keeps its activations is left as it is, and so is any without gradients.
    """
    layers = (
        [layer for layer in dict.fromkeys(parts_of(model)) if _checkpoints(layer)]
        if torch.is_grad_enabled()
        else []
    )
    for layer in layers:
        layer.__dict__["forward"] = _run_again(layer, layer.forward)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def _checkpoints(layer: nn.Module) -> bool:
    """Whether a module is a layer that its user wants to be run again."""
    names = {kind.__name__ for kind in type(layer).__mro__}
    return "GradientCheckpointingLayer" in names and bool(getattr(layer, "gradient_checkpointing", False))


def _run_again(layer: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
    def evaluated(*inputs: Any, **keywords: Any) -> Any:
        with evaluating(layer):  # in the backward pass, too, when the model has its own mode again
            return forward(*inputs, **keywords)

    def run(*inputs: Any, **keywords: Any) -> Any:
        return checkpoint(evaluated, *inputs, use_reentrant=False, preserve_rng_state=False, **keywords)

    return run
