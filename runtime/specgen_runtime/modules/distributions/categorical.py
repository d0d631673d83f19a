"""`Categorical`: one of n choices, as an index, in few operations on tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Distribution


class Categorical(TorchCategorical):
    """One of n choices, as an index in int64.

    It is `torch.distributions.Categorical`, and draws the same numbers, without the checks of values, which read every
    parameter and wait for devices.

    Args:
        probs: probabilities up to a factor, shape ``(*batch, n)``. Either these or ``logits``.
        logits: log-probabilities up to a constant, shape ``(*batch, n)``.

    Raises:
        ValueError: if not exactly one of ``probs`` and ``logits`` is given, or it has no dimension.
    """

    num_params: int = 1

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None) -> None:
        if probs is not None and logits is None:
            param = self.probs = probs / probs.sum(-1, keepdim=True)
        elif logits is not None and probs is None:
            param = self.logits = logits.log_softmax(-1)
        else:
            raise ValueError("either `probs` or `logits` must be given, but not both")
        if param.ndim == 0:
            raise ValueError("the parameters must have a dimension for the choices, got a scalar")
        self._param = param
        self._num_events = param.shape[-1]
        Distribution.__init__(self, param.shape[:-1], validate_args=False)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> Categorical:
        """The same with other batch dimensions."""
        new = self.__new__(type(self)) if _instance is None else _instance
        expanded: Categorical = super().expand(torch.Size(batch_shape), _instance=new)  # type: ignore[no-untyped-call]
        return expanded

    @property
    def deterministic_sample(self) -> Tensor:
        """The most likely choice, of equal ones the first."""
        result: Tensor = self.mode
        return result

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Choices, int64 of shape ``(*sample_shape, *batch)``."""
        weights = self._param.detach()
        if self._param is vars(self).get("logits"):  # what `probs` would be, without keeping it
            weights = weights.softmax(-1)
        if weights.ndim != 2:
            weights = weights.reshape(-1, self._num_events)
        if not sample_shape:
            return torch.multinomial(weights, 1, replacement=True).reshape(self._batch_shape)
        shape = torch.Size(sample_shape)
        drawn = torch.multinomial(weights, shape.numel(), replacement=True)
        return drawn.T.reshape(shape + self._batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log-probability of choices of shape ``(*sample, *batch)``, one number for each."""
        index, logits = value.long().unsqueeze(-1), self.logits
        if index.shape[:-1] != logits.shape[:-1]:
            shape = torch.broadcast_shapes(index.shape[:-1], logits.shape[:-1])  # type: ignore[no-untyped-call]
            index, logits = index.expand(*shape, 1), logits.expand(*shape, self._num_events)
        return logits.gather(-1, index).squeeze(-1)


def one_hot(index: Tensor, n: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Vectors of zeros with a one at each index: `torch.nn.functional.one_hot` that does not look at the values.

    Args:
        index: int64, within 0 and ``n - 1``, any shape.
        n: how many entries a vector has.
        dtype: of the vectors.

    Returns:
        Shape ``(*index.shape, n)``.
    """
    return index.new_zeros((*index.shape, n), dtype=dtype).scatter_(-1, index.unsqueeze(-1), 1)


def index_of(value: Tensor) -> Tensor:
    """The index at which one-hot vectors have their one.

    Args:
        value: of any dtype, shape ``(*batch, n)``.

    Returns:
        int64, shape ``batch``.
    """
    return value.to(torch.uint8).argmax(-1) if value.dtype == torch.bool else value.argmax(-1)
