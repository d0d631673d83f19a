"""Parameters whose dtype is too coarse for the steps of an optimizer."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from specgen_runtime.dtypes import dtype_name

__all__ = ["warn_of_coarse_parameters"]

_COARSE = (torch.bfloat16, torch.float16)


def warn_of_coarse_parameters(model: nn.Module, lr: float) -> None:
    """Warn if steps of `lr` up and down leave most parameters that learn as they are.

    A step is rounded away where a parameter is so much larger that the step is below half of its last binary digit.

    Args:
        model: whose parameters in bfloat16 and float16 are looked at.
        lr: about how much an optimizer such as Adam moves each of them.
    """
    coarse = [one.detach() for one in model.parameters() if one.requires_grad and one.dtype in _COARSE]
    if not coarse:
        return
    share = sum(_staying(one, lr) for one in coarse) / sum(one.numel() for one in coarse)
    if share > 0.5:
        name = dtype_name(coarse[0].dtype)
        warnings.warn(
            f"steps of about lr={lr:g} leave {share:.0%} of the parameters of {type(model).__name__} as they are, which are"
            f" {name}: load it in float32 (`dtype: float32` in its `causal_lm`)",
            stacklevel=2,
        )


def _staying(values: Tensor, step: float) -> int:
    """How many numbers are rounded to themselves, whether a step is added or taken away."""
    return int(((values + step == values) & (values - step == values)).sum())
