"""Standardises advantages and rewards: of the whole batch, of each agent, of each group."""

from __future__ import annotations

import torch
from tensordict.utils import expand_as_right
from torch import Tensor


def standardised(
    x: Tensor,
    *,
    least: float,
    valid: Tensor | None = None,
    groups: Tensor | None = None,
    agent_dim: int | None = None,
) -> Tensor:
    """``x`` minus its mean, divided by its standard deviation.

    Args:
        x: floating point, any shape.
        least: what the standard deviation is at least.
        valid: bool, of the leading dimensions of ``x``: what counts. The others are divided likewise.
        groups: integers, of the leading dimensions of ``x``: each group by itself.
        agent_dim: a dimension of ``x`` whose entries are standardised each by itself.

    Returns:
        In the shape of ``x``. The deviation is the unbiased one of a sample; with ``valid`` and without ``groups``
        that of a population. One number alone becomes 0.

    Raises:
        ValueError: if ``groups`` has more dimensions than ``x``.
    """
    mask = None if valid is None else _expanded("valid", valid, x)
    if groups is not None:
        return _by_group(x, _group_numbers(groups, x, agent_dim), mask, least)
    dims = [dim for dim in range(x.ndim) if agent_dim is None or dim != agent_dim % x.ndim]
    if mask is None:
        count = x.numel() // (1 if agent_dim is None else max(x.shape[agent_dim], 1))
        deviation = x.std(dims, correction=min(1, count - 1), keepdim=True) if count else x
        return (x - x.mean(dims, keepdim=True)) / deviation.clamp_min(least)
    number = mask.sum(dims, keepdim=True).clamp_min(1)
    zero = x.new_zeros(())
    centred = x - torch.where(mask, x, zero).sum(dims, keepdim=True) / number
    variance = torch.where(mask, centred, zero).square().sum(dims, keepdim=True) / number
    return centred / variance.sqrt().clamp_min(least)


def _group_numbers(groups: Tensor, x: Tensor, agent_dim: int | None) -> Tensor:
    numbers = _expanded("the group", groups, x)
    if agent_dim is None:
        return numbers
    agents = x.shape[agent_dim]
    own = torch.arange(agents, device=x.device)
    return numbers * agents + own.view(-1, *(1,) * (x.ndim - agent_dim % x.ndim - 1))


def _by_group(x: Tensor, groups: Tensor, mask: Tensor | None, least: float) -> Tensor:
    number_of = torch.unique(groups, return_inverse=True)[1].reshape(-1)
    flat = x.reshape(-1)
    weight = torch.ones_like(flat) if mask is None else mask.reshape(-1).to(x.dtype)
    length = int(number_of.max()) + 1 if flat.numel() else 0

    def total(values: Tensor) -> Tensor:
        values = torch.where(weight > 0, values, values.new_zeros(()))
        return flat.new_zeros(length).index_add(0, number_of, values)

    count = total(weight)
    centred = flat - (total(flat) / count.clamp_min(1))[number_of]
    deviation = (total(centred.square()) / (count - 1).clamp_min(1)).sqrt().clamp_min(least)
    return (centred / deviation[number_of]).reshape(x.shape)


def _expanded(name: str, leading: Tensor, x: Tensor) -> Tensor:
    """A tensor of the leading dimensions of ``x`` (and perhaps a trailing 1) in the shape of ``x``."""
    if leading.ndim > x.ndim:
        raise ValueError(
            f"{name} of shape {tuple(leading.shape)} does not fit values of shape {tuple(x.shape)}"
        )
    expanded: Tensor = expand_as_right(leading, x)
    return expanded
