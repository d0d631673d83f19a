"""Stacks of leaf specs that differ."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.specs import (
    Bounded,
    TensorSpec,
)

MASK = torch.tensor([True, False, True])


def stack(*specs: TensorSpec, dim: int = 0) -> Any:
    made: Any = torch.stack
    return made(list(specs), dim)


def bounds(dim: int = 0) -> Any:
    return stack(Bounded(0, 1, (3,)), Bounded(0, 2, (3,)), dim=dim)


def sizes() -> Any:
    return stack(Bounded(0, torch.tensor([1.0, 2.0])), Bounded(0, torch.tensor([3.0, 4.0, 5.0])))
