"""`RewardBonus`: a bonus on the rewards of a batch, such as novelty."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.modules.normalizers import RunningMeanStd

__all__ = ["RewardBonus"]


class RewardBonus(nn.Module):
    """Adds a bonus to `("next", "reward")` of a batch; the environment's reward stays as `("next", "extrinsic")`.

    With `gamma` the bonus is divided by the standard deviation of its discounted sums so far, which do not end with an
    episode (Burda et al. 2018, section 2.4).

    Args:
        coeff: what the bonus is multiplied with; it may be set anew.
        num_envs: how many environments the batches are of.
        gamma: the discount of the sums; None leaves the bonus as it is.

    Attributes:
        coeff: what the bonus is multiplied with.
        sums: `[num_envs]`, the discounted sum of each environment.
    """

    sums: Tensor

    def __init__(self, coeff: float, *, num_envs: int, gamma: float | None = None) -> None:
        super().__init__()
        self.coeff = coeff
        self.gamma = gamma
        self.statistics = None if gamma is None else RunningMeanStd()
        self.register_buffer("sums", torch.zeros(num_envs))

    @torch.no_grad()
    def forward(self, batch: TensorDictBase, bonus: Tensor) -> None:
        """Change the rewards of a batch.

        Args:
            batch: `[num_envs, time]`, with `("next", "reward")` `[num_envs, time, 1]`.
            bonus: `[num_envs, time]`, one number for each step.

        Raises:
            ValueError: the bonus has another shape than the batch, or the batch is of more or fewer environments.
        """
        if bonus.shape != batch.batch_size or bonus.ndim != 2 or len(bonus) != len(self.sums):
            raise ValueError(
                f"a bonus has the shape of a batch, [{len(self.sums)}, time], found {list(bonus.shape)} for"
                f" {list(batch.batch_size)}"
            )
        if self.gamma is not None and self.statistics is not None:
            sums, found = self.sums, []
            for now in bonus.unbind(1):
                sums = sums * self.gamma + now
                found.append(sums)
            self.sums.copy_(sums)
            self.statistics.update(torch.stack(found))
            bonus = bonus / self.statistics.var.clamp_min(1e-8).sqrt()
        reward = batch.get(("next", "reward"))
        if batch.get(("next", "extrinsic"), None) is None:
            batch.set(("next", "extrinsic"), reward)
        batch.set(("next", "reward"), reward + self.coeff * bonus.unsqueeze(-1).to(reward.dtype))
