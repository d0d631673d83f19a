"""Choices of the action whose value is the greatest in the mean, where its distribution is known."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor, nn

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.action_space import (
    ActionSpace,
    ActionSpaceName,
    allowed_values,
    entry,
    find_action_space,
    find_var_nums,
    greedy_action,
    known_leaf,
)
from specgen_runtime.modules.sequences import PlainSequence
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey


class GreatestMean(TensorDictModuleBase):  # type: ignore[misc]
    """Chooses the action whose value is the greatest in the mean; of equal ones, the first.

    A ``"mult-one-hot"`` or ``"multi-categorical"`` action makes several choices, ``n_actions = sum(var_nums)``: that of the greatest mean in each.

    Args:
        what: what it reads of the value of each action, as messages say it.
        action_space: ``"one-hot"``, ``"mult-one-hot"``, ``"categorical"`` or ``"multi-categorical"``; not needed with ``spec``.
        action_value_key: what it reads. Defaults to ``"action_value"``.
        action_mask_key: True where an action is allowed. Defaults to None: all are.
        out_keys: what it writes. Defaults to ``["action", action_value_key]``.
        var_nums: how many values each of several choices has; not needed with ``spec``.
        spec: of the action; gives the encoding and the dtype. Without it actions are int64.

    Raises:
        ValueError: if the encoding or ``var_nums`` are not known, or contradict the spec; if ``out_keys`` are not two.
    """

    def __init__(
        self,
        what: str,
        action_space: ActionSpaceName | None,
        action_value_key: NestedKey | None,
        action_mask_key: NestedKey | None,
        out_keys: Sequence[NestedKey] | None,
        var_nums: Sequence[int] | None,
        spec: TensorSpec | None,
    ) -> None:
        super().__init__()
        spec = own_spec(spec)
        value_key = "action_value" if action_value_key is None else action_value_key
        keys = ["action", value_key] if out_keys is None else list(out_keys)
        if len(keys) != 2:
            raise ValueError(f"out_keys must be the action and the {what}, got {keys}")
        self.what = what
        self.in_keys = [value_key] if action_mask_key is None else [value_key, action_mask_key]
        self.out_keys = keys
        self.action_value_key: NestedKey = value_key
        self.action_mask_key = action_mask_key
        self.action_space: ActionSpace = find_action_space(action_space, spec, action_key=keys[0])
        self.var_nums = find_var_nums(self.action_space, var_nums, spec, action_key=keys[0])
        self.spec = spec
        leaf = known_leaf(spec, keys[0])
        self._dtype = torch.int64 if leaf is None or leaf.dtype is None else leaf.dtype

    @abstractmethod
    def means(self, read: Tensor) -> Tensor:
        """The mean of the value of each action, ``(*batch, n_actions)``.

        Args:
            read: what is known of the value of each action, ``(*batch, n, n_actions)``.

        Raises:
            ValueError: if it has another shape.
        """

    @abstractmethod
    def masked(self, read: Tensor, allowed: Tensor) -> Tensor:
        """What is written of the values: of forbidden actions such that their mean is the least, as losses choose by it.

        Args:
            read: ``(*batch, n, n_actions)``.
            allowed: bool ``(*batch, 1, n_actions)``.
        """

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action, and what was read of the values; of forbidden actions what `masked` makes of it.

        Raises:
            KeyError: if that or the mask is missing.
            ValueError: if it has another shape than is expected.
        """
        owner = type(self).__name__
        read = entry(tensordict, self.action_value_key, owner=owner, role=f"the {self.what}")
        values = self.means(read)
        if values.ndim <= tensordict.batch_dims or values.shape[: tensordict.batch_dims] != tensordict.shape:
            raise ValueError(
                f"{owner}: the {self.what} must have shape (*batch, n, n_actions), {self.action_value_key!r} has"
                f" {tuple(read.shape)} in a batch of {list(tensordict.shape)}"
            )
        if self.action_mask_key is not None:
            mask = entry(tensordict, self.action_mask_key, owner=owner, role="the action mask")
            values, allowed = allowed_values(values, mask)
            read = self.masked(read, allowed.unsqueeze(-2))
        action = greedy_action(values, self.action_space, self._dtype, self.var_nums)
        tensordict.update(dict(zip(self.out_keys, (action, read), strict=True)))
        return tensordict


class GreatestMeanActor(PlainSequence):
    """Networks of what is known of the values of actions, followed by the choice of the greatest mean.

    Args:
        modules: tensordict modules; the last one writes what ``choice`` reads.
        choice: chooses the action.
    """

    def __init__(self, modules: Sequence[nn.Module], choice: GreatestMean) -> None:
        super().__init__(*modules, choice)
        self.action_space: ActionSpace = choice.action_space
        self.var_nums = choice.var_nums
        self.action_value_key: NestedKey = choice.action_value_key
        self._spec = choice.spec

    @property
    def spec(self) -> TensorSpec | None:
        """The spec of the action, as it was given."""
        return self._spec
