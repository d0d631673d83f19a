"""Derivatives of what a network gives to what it reads, which penalties of losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVarTuple, cast

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
    if _traced():
        places = tuple(range(len(tensors)))
        return _joined(torch.func.grad(lambda *values: of_each(*values).sum(), argnums=places)(*tensors))
    kept = torch.is_grad_enabled()
    with torch.enable_grad():
        own = _variables(tensors)
        return _joined(_gradients(of_each(*own).sum(), own, kept=kept))


def member_gradients(function: Callable[[*Inputs], Tensor], *inputs: *Inputs) -> Tensor:
    """The derivatives of the numbers that each member of an ensemble gives for each sample, to the inputs.

    Args:
        function: of the inputs; ``[members, ...]``, one number of each member for each sample, which depends on the inputs of
            that sample alone.
        inputs: as those of `input_gradient`, of which all members get the same.

    Returns:
        Of each member what `input_gradient` gives: ``[members, ...]`` with the shape of that behind it.
    """
    tensors, of_each = cast("tuple[Tensor, ...]", inputs), cast("Callable[..., Tensor]", function)
    if _traced():
        with_pull: Any = torch.func.vjp(lambda *values: _sums(of_each(*values)), *tensors)
        sums, pulled = with_pull
        return torch.stack(
            [_joined(pulled(one)) for one in torch.eye(len(sums), dtype=sums.dtype, device=sums.device)]
        )
    kept = torch.is_grad_enabled()
    with torch.enable_grad():
        own = _variables(tensors)
        sums = _sums(of_each(*own))
        return torch.stack([_joined(_gradients(one, own, kept=kept, again=True)) for one in sums.unbind()])


def _traced() -> bool:
    """Whether autograd can't be used: it can be neither compiled nor mapped. `torch.func` can, and moves no statistics."""
    return torch.compiler.is_compiling() or torch._C._functorch.maybe_current_level() is not None


def _sums(numbers: Tensor) -> Tensor:
    """That of each member."""
    return numbers.reshape(len(numbers), -1).sum(-1)


def _variables(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The inputs as tensors of their own: one may be computed from another one."""
    return [x.view_as(x) if x.requires_grad else x.detach().requires_grad_() for x in tensors]


def _gradients(number: Tensor, of: list[Tensor], *, kept: bool, again: bool = False) -> tuple[Tensor, ...]:
    """The derivatives of a number: with gradients of their own if `kept`, and `again` where the graph is used once more.

    They are 0 to what it does not depend on, as those of `torch.func`.
    """
    if not number.requires_grad:
        return tuple(map(torch.zeros_like, of))
    return torch.autograd.grad(
        number, of, create_graph=kept, retain_graph=kept or again, allow_unused=True, materialize_grads=True
    )


def _joined(gradients: tuple[Tensor, ...]) -> Tensor:
    return gradients[0] if len(gradients) == 1 else torch.cat(gradients, -1)
