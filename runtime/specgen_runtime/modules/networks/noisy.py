"""Linear layers with learned noise on their weights."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from specgen_runtime.envs.exploration import ExplorationType, exploration_type
from specgen_runtime.typing import DEVICE_TYPING


class NoisyLinear(nn.Linear):
    """A linear layer whose weights and bias are `mu + sigma * epsilon`, with mu and sigma learned and epsilon drawn.

    Epsilon is the outer product of two vectors `sign(x) sqrt(|x|)`, x standard normal ("Noisy Networks for
    Exploration", Fortunato et al. 2017, equations 10 and 11). It is drawn when the layer is made and by `reset_noise`,
    never by a call. Without noise the layer computes with mu alone.

    Args:
        in_features: size of the input's last dimension.
        out_features: size of the output's last dimension.
        bias: whether there is a bias, with its own noise.
        device: of the parameters.
        dtype: of the parameters.
        std_init: sigma is this, divided by the square root of `in_features` (weights) or `out_features` (bias).
        use_exploration_type: noise where the exploration type is RANDOM; False: noise in training mode.
    """

    weight_epsilon: Tensor
    bias_epsilon: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features = int(in_features)
        self.out_features = int(out_features)
        self.std_init = std_init
        self.use_exploration_type = use_exploration_type is None or use_exploration_type

        def empty(*shape: int) -> Tensor:
            return torch.empty(shape, device=device, dtype=dtype)

        self.weight_mu = nn.Parameter(empty(self.out_features, self.in_features))
        self.weight_sigma = nn.Parameter(empty(self.out_features, self.in_features))
        self.register_buffer("weight_epsilon", empty(self.out_features, self.in_features))
        self.bias_mu = nn.Parameter(empty(self.out_features)) if bias else None
        if bias:
            self.bias_sigma = nn.Parameter(empty(self.out_features))
            self.register_buffer("bias_epsilon", empty(self.out_features))
        self.reset_parameters()
        self.reset_noise()

    def reset_parameters(self) -> None:
        """Draw mu, and set sigma to what it is at first."""
        with torch.no_grad():
            bound = 1 / math.sqrt(self.in_features)
            self.weight_mu.uniform_(-bound, bound)
            self.weight_sigma.fill_(self.std_init / math.sqrt(self.in_features))
            if self.bias_mu is not None:
                self.bias_mu.uniform_(-bound, bound)
                self.bias_sigma.fill_(self.std_init / math.sqrt(self.out_features))

    def reset_noise(self) -> None:
        """Draw epsilon again; the paper does that after each step of the optimizer."""
        columns = self._signed_roots(self.in_features)
        rows = self._signed_roots(self.out_features)
        self.weight_epsilon.copy_(rows.outer(columns))
        if self.bias_mu is not None:
            self.bias_epsilon.copy_(rows)

    def _signed_roots(self, size: int) -> Tensor:
        x = torch.randn(size, device=self.weight_mu.device)
        return x.sign() * x.abs().sqrt()

    def _is_noisy(self) -> bool:
        return exploration_type() is ExplorationType.RANDOM if self.use_exploration_type else self.training

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weights of the next call, `(out_features, in_features)`."""
        if not self._is_noisy():
            return self.weight_mu
        return self.weight_mu + self.weight_sigma * self.weight_epsilon

    @property
    def bias(self) -> Tensor | None:  # type: ignore[override]
        """The bias of the next call, `(out_features,)`, or None."""
        if self.bias_mu is None or not self._is_noisy():
            return self.bias_mu
        return self.bias_mu + self.bias_sigma * self.bias_epsilon


class NoisyLazyLinear(LazyModuleMixin, NoisyLinear):
    """A `NoisyLinear` whose `in_features` is that of its first call.

    Args:
        out_features: size of the output's last dimension.
        bias: as `NoisyLinear`, and so are the others.
        device: of the parameters.
        dtype: of the parameters.
        std_init: of sigma.
        use_exploration_type: noise by the exploration type; False: by the training mode.
    """

    cls_to_become = NoisyLinear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DEVICE_TYPING | None = None,
        dtype: torch.dtype | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
    ) -> None:
        super().__init__(0, 0, False, device, dtype, std_init, use_exploration_type)
        self.out_features = int(out_features)
        parameter, buffer = (
            partial(cast("Any", kind), device=device, dtype=dtype)
            for kind in (UninitializedParameter, UninitializedBuffer)
        )
        self.weight_mu = parameter()
        self.weight_sigma = parameter()
        self.register_buffer("weight_epsilon", buffer())
        if bias:
            self.bias_mu = parameter()
            self.bias_sigma = parameter()
            self.register_buffer("bias_epsilon", buffer())

    def reset_parameters(self) -> None:
        """As `NoisyLinear`; nothing before the first call."""
        if self.in_features:
            super().reset_parameters()

    def reset_noise(self) -> None:
        """As `NoisyLinear`; nothing before the first call."""
        if self.in_features:
            super().reset_noise()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make the parameters for an input of shape `(*batch, in_features)`."""
        if not self.has_uninitialized_params():
            return
        self.in_features = input.shape[-1]
        made: Any
        for made in (self.weight_mu, self.weight_sigma, self.weight_epsilon):
            made.materialize((self.out_features, self.in_features))
        if self.bias_mu is not None:
            for made in (self.bias_mu, self.bias_sigma, self.bias_epsilon):
                made.materialize((self.out_features,))
        self.reset_parameters()
        self.reset_noise()


def reset_noise(layer: nn.Module) -> None:
    """Draw the noise of a noisy layer again; nothing for other layers. For `module.apply(reset_noise)`."""
    if isinstance(layer, NoisyLinear):
        layer.reset_noise()
