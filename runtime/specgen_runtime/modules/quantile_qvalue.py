"""Greedy policies over quantiles of action values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from specgen_runtime.modules.action_space import ActionSpaceName
from specgen_runtime.modules.greatest_mean import GreatestMean, GreatestMeanActor
from specgen_runtime.modules.value_module import value_module
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey


class QuantileQValueModule(GreatestMean):
    """Chooses the action whose quantiles have the greatest mean; of equal ones, the first.

    A `"mult-one-hot"` or `"multi-categorical"` action makes several choices, `n_actions = sum(var_nums)`: that of the greatest mean in each.

    Reads quantiles of the value of each action, shape `(*batch, n_quantiles, n_actions)`, at evenly spaced probabilities
    `(i + 0.5) / n_quantiles`, and a bool mask of shape `(*batch, n_actions)` if `action_mask_key` is given. Writes the action
    (`(*batch, n_actions)`, or `(*batch,)` if categorical) and the quantiles; of forbidden actions these are the least number, so
    that `QRDQNLoss` chooses none of them.

    Source: "Distributional Reinforcement Learning with Quantile Regression", Dabney et al. 2018.

    Args:
        action_space: `"one-hot"`, `"mult-one-hot"`, `"categorical"` or `"multi-categorical"`; not needed with `spec`.
        action_value_key: what it reads. Defaults to `"action_value"`.
        action_mask_key: True where an action is allowed. Defaults to None: all are.
        out_keys: what it writes. Defaults to `["action", action_value_key]`.
        var_nums: how many values each of several choices has; not needed with `spec`.
        spec: of the action; gives the encoding and the dtype. Without it actions are int64.

    Raises:
        ValueError: the encoding or `var_nums` are not known, or contradict the spec; `out_keys` are not two.
    """

    def __init__(
        self,
        action_space: ActionSpaceName | None = None,
        *,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        var_nums: Sequence[int] | None = None,
        spec: TensorSpec | None = None,
    ) -> None:
        super().__init__(
            "quantiles", action_space, action_value_key, action_mask_key, out_keys, var_nums, spec
        )

    def means(self, read: Tensor) -> Tensor:
        """The mean of the value of each action, `(*batch, n_actions)`.

        Args:
            read: quantiles, `(*batch, n_quantiles, n_actions)`.

        Raises:
            ValueError: they have fewer than two dimensions.
        """
        if read.ndim < 2:
            raise ValueError(
                "quantiles must have shape (*batch, n_quantiles, n_actions),"
                f" {self.action_value_key!r} has {tuple(read.shape)}"
            )
        return read.mean(-2)

    def masked(self, read: Tensor, allowed: Tensor) -> Tensor:
        """The quantiles, of forbidden actions the least number."""
        return torch.where(allowed, read, torch.finfo(read.dtype).min)


class QuantileQValueActor(GreatestMeanActor):
    """A network of quantiles of action values followed by the choice of the action of the greatest mean.

    Args:
        module: from observations to quantiles, shape `(*batch, n_quantiles, n_actions)`. A plain module is given `in_keys`; a
            tensordict module must write `action_value_key`.
        in_keys: what a plain module reads. Defaults to `["observation"]`.
        spec: of the action, or a composite that holds it under `action_key`.
        action_space: `"one-hot"`, `"mult-one-hot"`, `"categorical"` or `"multi-categorical"`; not needed with `spec`.
        action_value_key: defaults to `"action_value"`.
        action_key: defaults to `"action"`.
        action_mask_key: bool, True where an action is allowed. Defaults to None: all are.
        var_nums: how many values each of several choices has; not needed with `spec`.

    Raises:
        KeyError: a tensordict module does not write the action values.
        TypeError: `module` is not a module.
        ValueError: as `QuantileQValueModule`.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        action_space: ActionSpaceName | None = None,
        action_value_key: NestedKey = "action_value",
        action_key: NestedKey = "action",
        action_mask_key: NestedKey | None = None,
        var_nums: Sequence[int] | None = None,
    ) -> None:
        choice = QuantileQValueModule(
            action_space,
            action_value_key=action_value_key,
            action_mask_key=action_mask_key,
            out_keys=[action_key, action_value_key],
            var_nums=var_nums,
            spec=spec,
        )
        super().__init__([value_module(module, in_keys, action_value_key)], choice)
