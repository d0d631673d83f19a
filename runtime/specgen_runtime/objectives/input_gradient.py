"""Derivatives of what a network gives to what it reads, which penalties of losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVarTuple, cast

import torch
from torch import Tensor

Inputs = TypeVarTuple("Inputs")


def input_gradient(function: Callable[[*Inputs], Tensor], *inputs: *Inputs) -> Tensor:
    """The derivative of the number that a function gives for each sample, to its inputs.

    Args:
        function: of the inputs; one number for each sample, which depends on the inputs of that sample alone.
        inputs: any shape; several are vectors for each sample, ``[..., n]``.

    Returns:
        The shape of the input; of several, ``[..., the sum of n]``, in their order. It has gradients to what `function` reads
        unless they are switched off.
    """
    tensors, of_each = cast("tuple[Tensor, ...]", inputs), cast("Callable[..., Tensor]", function)
    if torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None:
        # autograd can be neither compiled nor mapped, and this can't move the statistics of a network
        places = tuple(range(len(tensors)))
        found = torch.func.grad(lambda *values: of_each(*values).sum(), argnums=places)(*tensors)
    else:
        kept = torch.is_grad_enabled()
        with torch.enable_grad():
            # own tensors: an input may be computed from another one
            own = [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in tensors]
            found = torch.autograd.grad(
                of_each(*own).sum(), own, create_graph=kept, allow_unused=True, materialize_grads=True
            )
    return found[0] if len(found) == 1 else torch.cat(found, -1)
