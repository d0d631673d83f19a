"""The values of an action that makes several choices: cut into those of each, put into rows, or joined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad


def split_choices(values: Tensor, var_nums: Sequence[int]) -> tuple[Tensor, ...]:
    """The entries of each choice, ``(*, n_k)``, of a tensor ``(*, sum(var_nums))``.

    Raises:
        ValueError: if the last dimension has another size.
    """
    if values.shape[-1] != sum(var_nums):
        raise ValueError(
            f"choices of {list(var_nums)} values have {sum(var_nums)} entries in all, got shape {tuple(values.shape)}"
        )
    return torch.split(values, list(var_nums), -1)


def values_by_choice(values: Tensor, var_nums: Sequence[int]) -> Tensor:
    """The values of each choice in a row of its own.

    Args:
        values: of each value of each choice, ``(*, sum(var_nums))``.
        var_nums: how many values each choice has.

    Returns:
        ``(*, len(var_nums), max(var_nums))``; choices of fewer values have the least number of the dtype behind theirs.

    Raises:
        ValueError: as `split_choices`.
    """
    choices, most = split_choices(values, var_nums), max(var_nums)
    least = torch.finfo(values.dtype).min
    return torch.stack(
        [
            one if one.shape[-1] == most else pad(one, (0, most - one.shape[-1]), value=least)
            for one in choices
        ],
        -2,
    )


def joint_values(values: Tensor, var_nums: Sequence[int]) -> Tensor:
    """The value of each joint action: the sum of the values of its choices.

    Args:
        values: of each value of each choice, ``(*, sum(var_nums))``.
        var_nums: how many values each choice has.

    Returns:
        ``(*, prod(var_nums))``; the last choice varies fastest.

    Raises:
        ValueError: as `split_choices`.
    """
    first, *others = split_choices(values, var_nums)
    for other in others:
        first = (first.unsqueeze(-1) + other.unsqueeze(-2)).flatten(-2)
    return first


def joint_log_probs(log_probs: Tensor, var_nums: Sequence[int]) -> Tensor:
    """The distribution of the return of each joint action: the mixture, in equal parts, of those of its choices.

    Its mean is the mean of the choices' means, so that the joint action of the greatest mean makes the choices of the
    greatest mean.

    Args:
        log_probs: of the atoms of each value of each choice, ``(*, n_atoms, sum(var_nums))``.
        var_nums: how many values each choice has.

    Returns:
        ``(*, n_atoms, prod(var_nums))``; the last choice varies fastest.

    Raises:
        ValueError: as `split_choices`.
    """
    first, *others = split_choices(log_probs, var_nums)
    for other in others:
        first = torch.logaddexp(first.unsqueeze(-1), other.unsqueeze(-2)).flatten(-2)
    return first - math.log(len(var_nums))
