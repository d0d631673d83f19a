"""What losses draw without a distribution: noise in the shape of a tensor, and some members of an ensemble.

All is drawn from torch's default generator, which stands for that of the loss while a loss runs.
"""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor


def normal_like(like: Tensor) -> Tensor:
    """Standard normal numbers in the shape, dtype and device of a tensor, without gradients.

    Args:
        like: any shape.
    """
    return torch.randn_like(like, requires_grad=False)


def uniform_like(like: Tensor, low: float, high: float, *, n: int | None = None) -> Tensor:
    """Numbers between ``low`` and ``high``, every one as likely, in the dtype and on the device of a tensor.

    Args:
        like: any shape.
        low, high: the ends.
        n: how many are drawn for each number of ``like``; None for one.

    Returns:
        The shape of ``like``, or ``[n, *like.shape]``; without gradients.
    """
    shape = like.shape if n is None else (n, *like.shape)
    drawn = torch.rand(shape, dtype=like.dtype, device=like.device)
    return low + (high - low) * drawn


def bernoulli_of(data: TensorDictBase, p: float) -> Tensor:
    """A truth value for each sample, true with probability ``p``.

    Args:
        data: the samples.
        p: between 0 and 1.

    Returns:
        bool, ``[*batch]``, on the device of the data.
    """
    device = data.device
    if device is None:
        device = next((one.device for one in data.values(True, True) if isinstance(one, Tensor)), None)
    return torch.rand(data.batch_size, device=device) < p


def chosen_members(values: Tensor, k: int) -> Tensor:
    """What ``k`` members of an ensemble give, drawn without replacement and in their order.

    Args:
        values: what all members give, shape ``[members, ...]``.
        k: how many are chosen, the same for all that follows the first dimension.

    Returns:
        Shape ``[k, ...]``.

    Raises:
        ValueError: if there are fewer than ``k`` members.
    """
    return values.index_select(0, _numbers(values.shape[0], k, values.device))


def drawn_members(parameters: TensorDictBase, k: int) -> Tensor:
    """The numbers of ``k`` members of an ensemble, as `chosen_members` draws them: int64, ``[k]``.

    Args:
        parameters: those of all members, ``[members, ...]`` each.
        k: how many are drawn.

    Raises:
        ValueError: if there are fewer than ``k`` members.
    """
    one = next(value for value in parameters.values(True, True) if isinstance(value, Tensor))
    return _numbers(one.shape[0], k, one.device)


def _numbers(members: int, k: int, device: torch.device) -> Tensor:
    if k > members:
        raise ValueError(f"{k} members can't be chosen of {members}")
    return torch.randperm(members, device=device)[:k].sort().values
