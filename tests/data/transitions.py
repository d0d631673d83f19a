"""Data of environments for tests of replay buffers."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict


def episodes(count: int, first: int, ndim: int) -> TensorDict:
    """`transitions` with the numbers of their episodes; of three environments, time behind them, where `ndim` is 2."""
    data = transitions(count, first, (3,) if ndim == 2 else ())
    number = torch.arange(first, first + count).reshape(count, *[1] * (ndim - 1)).expand(data.shape)
    data["episode"] = number // 7
    data["is_init"] = (number % 7 == 0).unsqueeze(-1)
    return data.transpose(0, 1).contiguous() if ndim == 2 else data


def transitions(count: int, first: int = 0, batch: tuple[int, ...] = ()) -> TensorDict:
    """Steps `[count, *batch]` whose observations count them from `first`; an episode ends at each seventh."""
    shape = (count, *batch)
    number = torch.arange(first, first + count).reshape(count, *[1] * len(batch)).expand(shape)
    where = (
        torch.arange(torch.Size(batch).numel()).reshape(batch)
        if batch
        else torch.zeros((), dtype=torch.int64)
    )
    done = (number % 7 == 6).unsqueeze(-1)
    return TensorDict(
        {
            "observation": (number * 100 + where).float().unsqueeze(-1),
            "action": torch.nn.functional.one_hot(number % 3, 3),
            "next": {
                "observation": (number * 100 + 100 + where).float().unsqueeze(-1),
                "reward": number.float().unsqueeze(-1),
                "done": done,
                "terminated": done,
                "truncated": torch.zeros_like(done),
            },
        },
        shape,
    )


def numbers(data: Any) -> list[int]:
    """The numbers of steps."""
    return [int(value) // 100 for value in data["observation"].flatten()]
