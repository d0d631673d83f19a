"""`VTrace`: off-policy corrected targets and advantages."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Unpack

import torch
from tensordict import TensorDictBase
from tensordict.nn import CompositeDistribution
from torch import Tensor, nn

from specgen_runtime.objectives.composites import composite_log_prob
from specgen_runtime.objectives.hold_out import hold_out_net
from specgen_runtime.objectives.keys import listed, required
from specgen_runtime.objectives.modes import over_sequences
from specgen_runtime.objectives.value.advantages import AdvantageEstimatorBase
from specgen_runtime.objectives.value.functional.vtrace import vtrace_advantage_estimate
from specgen_runtime.objectives.value.options import EstimatorOptions, checked_discount, checked_numbers
from specgen_runtime.typing import NestedKey


class VTrace(AdvantageEstimatorBase):
    """The V-trace target and advantage, see `vtrace_advantage_estimate`.

    The action in the data is weighed by its probability under ``actor_network`` now, against the log-probability that
    the data hold (``tensor_keys.sample_log_prob``, of the policy that took it; one number for each step).

    Args:
        gamma: the discount, one number in [0, 1]. If the data hold ``steps_to_next_obs``, it is raised to that power.
        actor_network: the policy, with ``get_dist``. It is no child of the estimator, and gets no gradients.
        rho_thresh: the most that a weight counts in an error, at least 0.
        c_thresh: the most that it counts in carrying errors back, at least 0.
        average_adv: standardise the advantage, of the batch or of each group; the target is left as it is.
        time_dim: the batch dimension of time.
        **options: see `ValueEstimatorBase`.

    Raises:
        TypeError: if ``actor_network`` has no distribution.
        ValueError: if ``gamma`` is not one number in [0, 1], or a threshold is negative.
    """

    gamma: Tensor
    rho_thresh: Tensor
    c_thresh: Tensor
    actor_network: Any
    _least_deviation = 1e-5

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        actor_network: nn.Module,
        rho_thresh: float | Tensor = 1.0,
        c_thresh: float | Tensor = 1.0,
        average_adv: bool = False,
        time_dim: int | None = None,
        **options: Unpack[EstimatorOptions],
    ) -> None:
        super().__init__(**options)
        if not hasattr(actor_network, "get_dist"):
            raise TypeError(
                f"actor_network must be a policy with a distribution (get_dist), got {type(actor_network).__name__}"
            )
        self.actor_network = actor_network
        self.register_buffer("gamma", checked_discount("gamma", gamma, self._device, scalar=True))
        for name, value in (("rho_thresh", rho_thresh), ("c_thresh", c_thresh)):
            threshold = checked_numbers(name, value, self._device)
            if not (threshold >= 0).all():
                raise ValueError(f"{name} must be at least 0, got {value}")
            self.register_buffer(name, threshold)
        self.average_adv = average_adv
        self.time_dim = time_dim

    @property
    def in_keys(self) -> list[NestedKey]:
        """What calling it reads."""
        actor = [*self.actor_network.in_keys, *self.actor_network.dist_sample_keys]
        return list(dict.fromkeys([*super().in_keys, *actor, self._tensor_keys.sample_log_prob]))

    def _standardises(self) -> bool:
        return self.average_adv

    def _estimate(
        self, steps: TensorDictBase, value: Tensor, next_value: Tensor, time: int
    ) -> tuple[Tensor, Tensor]:
        reward = self._signal(steps, "reward")
        return vtrace_advantage_estimate(
            self._discount(self.gamma, steps, reward),
            self._per_value("the log-probability under actor_network", self._log_prob(steps), value),
            self._per_value("sample_log_prob", self._stored_log_prob(steps), value),
            value,
            next_value,
            reward,
            self._signal(steps, "done"),
            self._signal(steps, "terminated"),
            self.rho_thresh,
            self.c_thresh,
            time,
        )

    def _log_prob(self, steps: TensorDictBase) -> Tensor:
        """Of the action in the data, under the policy now."""
        actor = self.actor_network
        with hold_out_net(actor) if torch.is_grad_enabled() else nullcontext(), over_sequences():
            dist = actor.get_dist(steps.select(*actor.in_keys, strict=False))
        actions = list(actor.dist_sample_keys)
        if isinstance(dist, CompositeDistribution):
            held = steps.get(actions[0], None) if len(actions) == 1 else None
            parts = held if isinstance(held, TensorDictBase) else steps.select(*actions, strict=False)
            return composite_log_prob(dist, parts)
        action = required(steps, actions[0], owner=type(self).__name__, role="the action")
        log_prob: Tensor = dist.log_prob(action)
        return log_prob

    def _stored_log_prob(self, steps: TensorDictBase) -> Tensor:
        key = self._tensor_keys.sample_log_prob
        stored = steps.get(key, None)
        if isinstance(stored, Tensor):
            return stored
        if isinstance(stored, TensorDictBase):  # of a composite action, one entry for each part
            parts = [part.reshape(*steps.batch_size, -1).sum(-1) for part in stored.values(True, True)]
            return torch.stack(parts).sum(0)
        raise KeyError(
            f"VTrace: the log-probability of the action {key!r} is not in the tensordict; it holds {listed(steps)}"
        )

    def _per_value(self, name: str, log_prob: Tensor, value: Tensor) -> Tensor:
        if log_prob.numel() != value.numel():
            raise RuntimeError(
                f"VTrace: {name} has shape {tuple(log_prob.shape)} and the value {tuple(value.shape)}: there must be "
                "one number for each value"
            )
        return log_prob.reshape(value.shape)
