"""Batch renormalisation (Ioffe, 2017, arXiv:1702.03275)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchRenorm1d(nn.Module):
    r"""Normalises features by the statistics of the batch, corrected towards those of all batches so far.

    In training mode features become :math:`\frac{x - \mu_B}{\sigma_B} r + d`, with :math:`r = \sigma_B / \sigma` and
    :math:`d = (\mu_B - \mu) / \sigma` within bounds and without gradients, so that training sees nearly what evaluation does.
    In evaluation mode they become :math:`(x - \mu) / \sigma`. During the first batches it is `torch.nn.BatchNorm1d`.

    Args:
        num_features: how many features, the second dimension of what it is given, `[batch, features, …]`.
        momentum: how far the running statistics move towards those of a batch.
        eps: added to variances.
        max_r: bounds r by `1 / max_r` and `max_r`.
        max_d: bounds d by `-max_d` and `max_d`.
        warmup_steps: before how many batches r is 1 and d is 0.
        smooth: whether both begin to count at once, more with each of these batches.

    Attributes:
        running_mean: of all batches, `[num_features]`.
        running_var: the same of variances, unbiased.
        num_batches_tracked: how many batches there were in training mode.

    Raises:
        ValueError: `max_r` is below 1, `max_d`, `eps` or `warmup_steps` below 0, `momentum` not between 0 and 1.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        num_features: int,
        *,
        momentum: float = 0.01,
        eps: float = 1e-5,
        max_r: float = 3.0,
        max_d: float = 5.0,
        warmup_steps: int = 10000,
        smooth: bool = False,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("max_r", max_r, 1),
            ("max_d", max_d, 0),
            ("eps", eps, 0),
            ("warmup_steps", warmup_steps, 0),
        ):
            if not value >= least:
                raise ValueError(f"{name} is {least} or larger, got {value}")
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum is between 0 and 1, got {momentum}")
        self.num_features = num_features
        self.momentum = momentum
        self.eps = eps
        self.max_r = max_r
        self.max_d = max_d
        self.warmup_steps = warmup_steps
        self.smooth = smooth
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x: Tensor) -> Tensor:
        """The features, normalised, multiplied by `weight` and moved by `bias`.

        Args:
            x: `[batch, features, …]`; in training mode two values of each feature at least.

        Raises:
            ValueError: it has another shape.
        """
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"features are the second dimension, {self.num_features} of them, got shape {list(x.shape)}"
            )
        count = x.numel() // self.num_features
        if self.training and count < 2:
            raise ValueError(
                f"one value of a feature has no variance: got shape {list(x.shape)} in training mode"
            )
        wide = (1, self.num_features, *[1] * (x.ndim - 2))
        std = (self.running_var + self.eps).sqrt()
        if self.training:
            over = [0, *range(2, x.ndim)]
            mean, var = x.mean(over), x.var(over, unbiased=False)
            batch_std = (var + self.eps).sqrt()
            with torch.no_grad():
                share = self._share()
                r = 1 + ((batch_std / std).clamp(1 / self.max_r, self.max_r) - 1) * share
                d = ((mean - self.running_mean) / std).clamp(-self.max_d, self.max_d) * share
                self.running_var.add_(self.momentum * (var * (count / (count - 1)) - self.running_var))
                self.running_mean.add_(self.momentum * (mean - self.running_mean))
                self.num_batches_tracked.add_(1)
            x = (x - mean.view(wide)) / batch_std.view(wide) * r.view(wide) + d.view(wide)
        else:
            x = (x - self.running_mean.view(wide)) / std.view(wide)
        return x * self.weight.view(wide) + self.bias.view(wide)

    def _share(self) -> Tensor:
        """How much r and d count, from 0 to 1."""
        seen = self.num_batches_tracked
        if self.smooth and self.warmup_steps:
            return (seen / self.warmup_steps).clamp(max=1)
        return (seen >= self.warmup_steps).to(self.running_mean.dtype)

    def extra_repr(self) -> str:
        """The number of features, and what bounds the correction."""
        return f"{self.num_features}, momentum={self.momentum}, eps={self.eps}, max_r={self.max_r}, max_d={self.max_d}, warmup_steps={self.warmup_steps}, smooth={self.smooth}"
