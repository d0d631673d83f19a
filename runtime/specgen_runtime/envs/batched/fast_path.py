"""`BatchFastPath`: steps a whole batch at once, rather than handing each environment its row and stacking the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tensordict import TensorDict, TensorDictBase

__all__ = ["BatchFastPath"]


class BatchFastPath(ABC):
    """Takes commands for all environments at once; gives what they give row by row, bit by bit.

    Tells the batch's `LastOutputs` what the environments gave.
    """

    @abstractmethod
    def takes(self, tensordict: TensorDict) -> bool:
        """Whether a root needs none of the general way's special cases or errors."""

    @abstractmethod
    def reset(self) -> TensorDictBase:
        """Start new episodes in all environments: the root."""

    @abstractmethod
    def step(self, tensordict: TensorDict) -> TensorDictBase:
        """Take a step: `"next"`."""

    @abstractmethod
    def step_and_maybe_reset(self, tensordict: TensorDict) -> tuple[TensorDictBase, TensorDictBase]:
        """Take a step, reset what is done: `"next"` and the root."""
