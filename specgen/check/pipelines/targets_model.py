"""How the target parameters of a pipeline follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Amount, Setting


@dataclass(frozen=True)
class TargetUpdates:
    """How targets of a loss follow: `soft` by a fraction, `hard` every so many updates.

    Attributes:
        amount: the fraction, or how many updates.
        every: updates that lie between two of its steps; None for a step in each.
        loss: the attribute of the loss.
        part: that of the updater.
        networks: the loss's networks whose targets they are; empty for all.
    """

    kind: Literal["soft", "hard"]
    amount: Amount
    every: Setting | None
    loss: str
    part: str
    networks: tuple[str, ...] = ()
