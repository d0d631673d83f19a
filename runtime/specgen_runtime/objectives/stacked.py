"""`Stacked`: what one member of an ensemble computes with, of all members at once: their layers as batched products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


class NotStackableError(Exception):
    """A member does something with its tensors that is not known for all members at once."""


class Stacked:
    """A tensor of each member, for the functions of torch whose result for all members is known.

    A member runs as it is written, with these in the place of its parameters, and sees nothing of the dimension of
    the members: layers multiply matrices of all members at once, activations are elementwise, and whatever else the
    member asks of a tensor (its shape, a method) is refused.

    Args:
        each: what the members have, ``[members, ...]``.
    """

    __slots__ = ("each",)

    def __init__(self, each: Tensor) -> None:
        self.each = each

    def __bool__(self) -> bool:
        raise NotStackableError("the truth of a tensor")

    def __eq__(self, other: object) -> bool:
        raise NotStackableError("a comparison")

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        _types: Sequence[type],
        args: Sequence[Any] = (),
        keywords: dict[str, Any] | None = None,
    ) -> Stacked:
        rule = _RULES.get(function)
        if rule is None:
            raise NotStackableError(getattr(function, "__name__", str(function)))
        return Stacked(rule(*args, **(keywords or {})))


def _linear(x: Tensor | Stacked, weight: Tensor | Stacked, bias: Tensor | Stacked | None = None) -> Tensor:
    if not isinstance(weight, Stacked) or not (bias is None or isinstance(bias, Stacked)):
        raise NotStackableError("a layer that members share")
    matrices = weight.each.mT
    inputs = _of_members(x, matrices.shape[0])
    rows = inputs if inputs.ndim == 3 else inputs.reshape(matrices.shape[0], -1, inputs.shape[-1])
    if bias is None:
        outputs = torch.bmm(rows, matrices)
    else:
        outputs = torch.baddbmm(bias.each.unsqueeze(1), rows, matrices)
    return outputs if inputs.ndim == 3 else outputs.view(*inputs.shape[:-1], outputs.shape[-1])


def _cat(tensors: Sequence[Tensor | Stacked], dim: int = 0) -> Tensor:
    if dim >= 0:
        raise NotStackableError("cat along a dimension that is counted from the front")
    members = next(one.each.shape[0] for one in tensors if isinstance(one, Stacked))
    joined = [_of_members(one, members) for one in tensors]
    if any(-dim >= one.ndim for one in joined):
        raise IndexError(f"dimension {dim} is the one of the members")
    return torch.cat(joined, dim)


def _layer_norm(
    x: Tensor | Stacked,
    normalized_shape: list[int],
    weight: Stacked | None = None,
    bias: Stacked | None = None,
    eps: float = 1e-5,
) -> Tensor:
    known = next(one for one in (x, weight, bias) if isinstance(one, Stacked))
    inputs = _of_members(x, known.each.shape[0])
    if len(normalized_shape) >= inputs.ndim:
        raise RuntimeError(f"{normalized_shape} has the dimension of the members")
    outputs = F.layer_norm(inputs, normalized_shape, eps=eps)
    front = (-1,) + (1,) * (inputs.ndim - 1 - len(normalized_shape))
    if weight is not None:
        outputs = outputs * weight.each.view(*front, *normalized_shape)
    return outputs if bias is None else outputs + bias.each.view(*front, *normalized_shape)


def _of_members(x: Tensor | Stacked, members: int) -> Tensor:
    return x.each if isinstance(x, Stacked) else x.expand(members, *x.shape)


def _elementwise(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def rule(x: Stacked, *args: Any, **keywords: Any) -> Tensor:
        return function(x.each, *args, **keywords)

    return rule


_ELEMENTWISE: tuple[Callable[..., Tensor], ...] = (
    torch.exp,
    torch.relu,
    torch.sigmoid,
    torch.tanh,
    F.celu,
    F.elu,
    F.gelu,
    F.hardswish,
    F.hardtanh,
    F.leaky_relu,
    F.logsigmoid,
    F.mish,
    F.relu,
    F.relu6,
    F.selu,
    F.silu,
    F.softplus,
    F.softsign,
    F.tanhshrink,
)
_RULES: dict[Callable[..., Any], Callable[..., Tensor]] = {
    **{function: _elementwise(function) for function in _ELEMENTWISE},
    F.linear: _linear,
    F.layer_norm: _layer_norm,
    torch.cat: _cat,
}
