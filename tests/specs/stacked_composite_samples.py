"""Composites that differ, and stacks of them."""

from __future__ import annotations

from typing import Any

import torch
from specgen_runtime.specs import (
    Bounded,
    Categorical,
    Composite,
    OneHot,
    Unbounded,
)


def items(batch: tuple[int, ...] = ()) -> list[Composite]:
    """Two that share "obs" of one size, "act" of other classes, "pos" of other sizes, and "in", which differs."""
    return [
        Composite(
            {
                "obs": Bounded(0, 1, (*batch, 3)),
                "act": Categorical(3, batch),
                "pos": Unbounded((*batch, 2)),
                ("in", "x"): Unbounded((*batch, 1)),
                ("in", "left"): Bounded(0, 5, (*batch, 1)),
            },
            shape=batch,
        ),
        Composite(
            {
                "right": OneHot(4, (*batch, 4)),
                "obs": Bounded(0, 1, (*batch, 3)),
                "act": Categorical(5, batch),
                "pos": Unbounded((*batch, 4)),
                ("in", "x"): Unbounded((*batch, 1)),
            },
            shape=batch,
        ),
    ]


def stack(specs: list[Any], dim: int = 0) -> Any:
    return torch.stack(specs, dim)


def pair(batch: tuple[int, ...] = (), dim: int = 0) -> Any:
    return stack(items(batch), dim)
