"""Rewards of conversations: what a reward function is given, what it returns, and how that is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from specgen_runtime.llm.messages import Message

__all__ = ["Reward", "Scores", "scores_of"]


class Scores:
    """Rewards with other numbers to be logged, each one for each conversation.

    Args:
        reward: the rewards, a sequence of numbers or a tensor ``[rows]``.
        **metrics: the other numbers, by name, of the same form.
    """

    def __init__(self, reward: Sequence[float] | Tensor, **metrics: Sequence[float] | Tensor) -> None:
        self.reward = reward
        self.metrics = metrics


class Reward(Protocol):
    """A function that rewards conversations that have ended."""

    def __call__(
        self, answers: Sequence[Sequence[Message]], rows: Sequence[Mapping[str, Any]], /
    ) -> Sequence[float] | Tensor | Scores:
        """Return one reward for each conversation.

        Args:
            answers: the conversations; the last message of each is the last answer.
            rows: of each, the row of the source that it began with.
        """
        ...


def scores_of(result: Any, count: int, metrics: Sequence[str]) -> dict[str, Tensor]:
    """What a reward function returned, as float32 tensors ``[count]``: ``"reward"`` and the metrics.

    Args:
        result: what it returned.
        count: how many conversations it was given.
        metrics: the names of the metrics that it has to give.

    Raises:
        ValueError: other metrics, another number of values, or one that is NaN or infinite; the text says which.
    """
    scores = result if isinstance(result, Scores) else Scores(result)
    if set(scores.metrics) != set(metrics):
        raise ValueError(
            f"the reward function gave the metrics {sorted(scores.metrics)}, and the environment was told of"
            f" {sorted(metrics)}: metrics={tuple(scores.metrics)!r}"
        )
    return {
        name: _values(values, count, name)
        for name, values in {"reward": scores.reward, **scores.metrics}.items()
    }


def _values(values: Any, count: int, name: str) -> Tensor:
    found = torch.as_tensor(values).detach().to(torch.float32)
    if found.shape == (count, 1):
        found = found.squeeze(-1)
    if found.shape != (count,):
        raise ValueError(
            f"the reward function was given {count} conversations and gave {name!r} of shape {list(found.shape)},"
            f" expected [{count}]"
        )
    if not bool(found.isfinite().all()):
        index = int((~found.isfinite()).nonzero()[0])
        raise ValueError(
            f"the reward function gave {name!r} {float(found[index])} for conversation {index}, expected a finite number"
        )
    return found
