"""`EnvBase.compile`: a step by `torch.compile`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import torch

__all__ = ["compiled"]


def compiled(step: Callable[..., Any], warmup: int, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A step that is compiled after some calls.

    Args:
        step: a bound method.
        warmup: how many calls run as they are written.
        kwargs: of `torch.compile`.
    """
    later = torch.compile(step, **kwargs)
    calls = chain(repeat(step, warmup), repeat(later))
    return (lambda tensordict: next(calls)(tensordict)) if warmup else later
