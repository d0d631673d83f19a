"""The bonuses that a pipeline adds to the reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specgen.values import dataclass

if TYPE_CHECKING:
    from specgen.check.pipelines.model import Amount, Setting


@dataclass(frozen=True)
class PipelineBonus:
    """A bonus on the reward.

    Attributes:
        name: its name.
        loss: the name of the loss that it comes from.
        metric: the metric of that.
        coeff: what it is multiplied with.
        gamma: the discount of the sums by whose deviation it is divided; None where it is not.
        num_envs: how many environments there are.
    """

    name: str
    loss: str
    metric: str
    coeff: Amount
    gamma: Setting | None
    num_envs: Setting
