"""What environments do differently from other `nn.Module`s: `to`, which casts nothing, and `compile`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import torch
from torch import nn

from specgen_runtime.specs.arguments import as_device

__all__ = ["compiled", "device_of", "refuse_casts"]


def device_of(*args: Any, **kwargs: Any) -> torch.device | None:
    """The device in the arguments of `nn.Module.to`, or None if there is none."""
    parse: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue]
    device, *_ = parse(*args, **kwargs)
    return None if device is None else as_device(device)


def refuse_casts(env: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Refuse what would cast a parameter or a buffer of an environment.

    Args:
        env: the environment.
        fn: what would be applied to each of them.

    Raises:
        TypeError: naming the first.
    """
    for name, tensor in (*env.named_parameters(), *env.named_buffers()):
        cast = fn(torch.empty(0, dtype=tensor.dtype, device=tensor.device)).dtype
        if cast is not tensor.dtype:
            raise TypeError(
                f"{type(env).__name__} cannot be cast: {name!r} would be {cast}, and its specs would stay as they"
                f" are. Set them when you make the environment, or cast a part of it that its data do not show"
                f" (env.{name.split('.')[0]}.to(...))"
            )


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
