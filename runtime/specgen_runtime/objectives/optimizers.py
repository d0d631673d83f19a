"""`group_optimizers`: several optimizers as one."""

from __future__ import annotations

import torch


def group_optimizers(*optimizers: torch.optim.Optimizer | None) -> torch.optim.Optimizer:
    """One optimizer that does what several of one class do, such as those of an actor, a critic and a temperature.

    Each keeps its options, as a group of parameters, and what it knows of them, such as Adam's moments. None are left out.

    Raises:
        ValueError: if there are none, or if they are of several classes.
    """
    given = [one for one in optimizers if one is not None]
    classes = {type(one).__name__: type(one) for one in given}
    if len(classes) != 1:
        raise ValueError(f"optimizers of one class can be grouped, got {', '.join(classes) or 'none'}")
    (kind,) = classes.values()
    grouped = kind([dict(group) for one in given for group in one.param_groups])  # type: ignore[call-arg]
    for one in given:
        grouped.state.update(one.state)
    return grouped
