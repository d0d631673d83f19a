"""What losses ask of their value estimator: targets, and what stands for advantages that the data lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek
from specgen_runtime.objectives.keys import listed
from specgen_runtime.objectives.value import ValueEstimatorBase
from specgen_runtime.typing import NestedKey


def with_estimates(
    tensordict: TensorDictBase,
    keys: Sequence[NestedKey],
    estimator: ValueEstimatorBase,
    target_params: TensorDictBase | None,
) -> TensorDictBase:
    """The data with ``keys``, by the value estimator without gradients where they are missing.

    Args:
        tensordict: the data, which are not written to.
        keys: what the estimator writes.
        estimator: has a network of its own, or reads the values in the data.
        target_params: parameters of that network for the next states, if there are others.

    Raises:
        KeyError: they are missing, and so is what they would be estimated from.
    """
    if peek(tensordict, "next") is None:
        missing = " and ".join(repr(key) for key in keys if peek(tensordict, key) is None)
        raise KeyError(
            f"{missing} is not in the tensordict, nor 'next', of which {type(estimator).__name__} would estimate it;"
            f" it holds {listed(tensordict)}"
        )
    there = {key: value for key in keys if (value := peek(tensordict, key)) is not None}
    with torch.no_grad():
        data = estimator(tensordict.copy(), target_params=target_params)
    for key, value in there.items():
        data.set(key, value)
    estimated: TensorDictBase = data
    return estimated


def estimate_each(estimate: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The target of each of several numbers of the next state, such as quantiles of its value, each by itself.

    Args:
        estimate: from one number of each sample, ``[*batch]``, to its target.
        values: ``[*batch, n]``.

    Returns:
        ``[*batch, n]``.
    """
    each: Tensor = torch.vmap(estimate, in_dims=-1, out_dims=-1)(values)
    return each


def estimate_in(tensordict: TensorDictBase, estimator: ValueEstimatorBase) -> Callable[[Tensor], Tensor]:
    """The estimator as a function from the value of each sample's next state, ``[*batch]``, to its target."""

    def value_estimate(next_value: Tensor) -> Tensor:
        return estimator.value_estimate(tensordict, next_value=next_value.unsqueeze(-1)).squeeze(-1)

    return value_estimate
