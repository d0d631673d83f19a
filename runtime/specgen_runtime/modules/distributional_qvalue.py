"""Greedy policies over distributions of action values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor, nn

from specgen_runtime.modules.action_space import ActionSpaceName, entry
from specgen_runtime.modules.greatest_mean import GreatestMean, GreatestMeanActor
from specgen_runtime.modules.value_module import value_module
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey


class DistributionalDQNnet(TensorDictModuleBase):  # type: ignore[misc]
    """Turns scores of the atoms of each action into log-probabilities: a log-softmax over the last dimension but one.

    Args:
        in_keys: scores, shape `(*batch, n_atoms, n_actions)`. Defaults to `["action_value"]`.
        out_keys: where the log-probabilities go. Defaults to `["action_value"]`.
    """

    def __init__(
        self,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__()
        self.in_keys = ["action_value"] if in_keys is None else list(in_keys)
        self.out_keys = ["action_value"] if out_keys is None else list(out_keys)

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the log-probabilities of the atoms.

        Raises:
            KeyError: scores are missing.
            ValueError: they have fewer than two dimensions.
        """
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            scores = entry(tensordict, in_key, owner="DistributionalDQNnet", role="the scores of atoms")
            if scores.ndim < 2:
                raise ValueError(
                    f"scores must have shape (*batch, n_atoms, n_actions), {in_key!r} has {tuple(scores.shape)}"
                )
            tensordict.set(out_key, scores.log_softmax(-2))
        return tensordict


class DistributionalQValueModule(GreatestMean):
    """Chooses the action whose value is the greatest in the mean; of equal ones, the first.

    A `"mult-one-hot"` or `"multi-categorical"` action makes several choices, `n_actions = sum(var_nums)`: that of the greatest mean in each.

    Reads log-probabilities of the atoms of each action, shape `(*batch, n_atoms, n_actions)`, and a bool mask of shape
    `(*batch, n_actions)` if `action_mask_key` is given. Writes the action (`(*batch, n_actions)`, or `(*batch,)` if
    categorical) and the log-probabilities; of forbidden actions the least atom has all probability, so that
    `DistributionalDQNLoss` chooses none of them.

    Source: "A Distributional Perspective on Reinforcement Learning", Bellemare et al. 2017.

    Args:
        action_space: `"one-hot"`, `"mult-one-hot"`, `"categorical"` or `"multi-categorical"`; not needed with `spec`.
        support: the values of the atoms, shape `(n_atoms,)`.
        action_value_key: what it reads. Defaults to `"action_value"`.
        action_mask_key: True where an action is allowed. Defaults to None: all are.
        out_keys: what it writes. Defaults to `["action", action_value_key]`.
        var_nums: how many values each of several choices has; not needed with `spec`.
        spec: of the action; gives the encoding and the dtype. Without it actions are int64.

    Raises:
        ValueError: the encoding or `var_nums` are not known, or contradict the spec; `support` is not a vector; `out_keys` are not two.
    """

    support: Tensor

    def __init__(
        self,
        action_space: ActionSpaceName | None,
        support: Tensor,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        var_nums: Sequence[int] | None = None,
        spec: TensorSpec | None = None,
    ) -> None:
        what = "log-probabilities of atoms"
        super().__init__(what, action_space, action_value_key, action_mask_key, out_keys, var_nums, spec)
        if support.ndim != 1:
            raise ValueError(f"support must have shape (n_atoms,), got {tuple(support.shape)}")
        self.register_buffer("support", support)

    def means(self, read: Tensor) -> Tensor:
        """The mean of the value of each action, `(*batch, n_actions)`.

        Args:
            read: log-probabilities of the atoms, `(*batch, n_atoms, n_actions)`.

        Raises:
            ValueError: there is another number of atoms than `support` has.
        """
        n_atoms = self.support.shape[0]
        if read.ndim < 2 or read.shape[-2] != n_atoms:
            raise ValueError(
                f"log-probabilities of {n_atoms} atoms must have shape (*batch, {n_atoms}, n_actions),"
                f" {self.action_value_key!r} has {tuple(read.shape)}"
            )
        return (read.exp() * self.support.to(read.device).unsqueeze(-1)).sum(-2)

    def masked(self, read: Tensor, allowed: Tensor) -> Tensor:
        """The log-probabilities, of forbidden actions those of the least atom without doubt."""
        least = torch.full_like(self.support, torch.finfo(read.dtype).min, dtype=read.dtype)
        least = least.index_fill(0, self.support.argmin(), 0.0).to(read.device)
        return torch.where(allowed, read, least.unsqueeze(-1))


class DistributionalQValueActor(GreatestMeanActor):
    """A network of the atoms of action values, their log-softmax, and the choice of the action of the greatest mean.

    Args:
        module: from observations to scores of atoms, shape `(*batch, n_atoms, n_actions)`. A plain module is given
            `in_keys`; a tensordict module must write `action_value_key`.
        support: the values of the atoms, shape `(n_atoms,)`.
        in_keys: what a plain module reads. Defaults to `["observation"]`.
        spec: of the action, or a composite that holds it under `action_key`.
        action_space: `"one-hot"`, `"mult-one-hot"`, `"categorical"` or `"multi-categorical"`; not needed with `spec`.
        action_value_key: defaults to `"action_value"`.
        action_mask_key: bool, True where an action is allowed. Defaults to None: all are.
        make_log_softmax: whether scores have to be turned into log-probabilities; not if `module` is a
            `DistributionalDQNnet`.
        var_nums: how many values each of several choices has; not needed with `spec`.
        action_key: defaults to `"action"`.

    Raises:
        KeyError: a tensordict module does not write the action values.
        TypeError: `module` is not a module.
        ValueError: as `DistributionalQValueModule`.
    """

    support: Tensor

    def __init__(
        self,
        module: nn.Module,
        support: Tensor,
        in_keys: Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        action_space: ActionSpaceName | None = None,
        action_value_key: NestedKey = "action_value",
        action_mask_key: NestedKey | None = None,
        make_log_softmax: bool = True,
        var_nums: Sequence[int] | None = None,
        action_key: NestedKey = "action",
    ) -> None:
        modules = [value_module(module, in_keys, action_value_key)]
        if make_log_softmax and not isinstance(module, DistributionalDQNnet):
            modules.append(DistributionalDQNnet(in_keys=[action_value_key], out_keys=[action_value_key]))
        choice = DistributionalQValueModule(
            action_space=action_space,
            support=support,
            action_value_key=action_value_key,
            action_mask_key=action_mask_key,
            out_keys=[action_key, action_value_key],
            var_nums=var_nums,
            spec=spec,
        )
        super().__init__(modules, choice)
        self.make_log_softmax = make_log_softmax
        self.register_buffer("support", support)
