"""Greedy policies over the values of discrete actions."""

from __future__ import annotations

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
    choices_of,
    entry,
    find_action_space,
    find_var_nums,
    greedy_action,
    known_leaf,
)
from specgen_runtime.modules.choices import split_choices
from specgen_runtime.modules.sequences import PlainSequence
from specgen_runtime.modules.value_module import value_module
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey


class QValueModule(TensorDictModuleBase):  # type: ignore[misc]
    """Chooses the action of the greatest value; of equal ones, the first.

    A ``"mult-one-hot"`` or ``"multi-categorical"`` action makes several choices: of the values, ``(*batch, sum(var_nums))``, the greatest of each,
    and its value is their sum.

    Reads the action values, shape ``(*batch, n)``, and a bool mask of that shape if ``action_mask_key`` is given.
    Writes the action (``(*batch, n)``; ``(*batch,)`` if categorical; the class of each of k choices, ``(*batch, k)``, if
    "multi-categorical"), the action values (those of forbidden
    actions replaced by the least number) and the value of the action, ``(*batch, 1)``.

    Args:
        action_space: ``"one-hot"``, ``"mult-one-hot"``, ``"categorical"`` or ``"multi-categorical"``; not needed with ``spec``.
        action_value_key: what it reads. Defaults to ``"action_value"``.
        action_mask_key: True where an action is allowed. Defaults to None: all are.
        out_keys: what it writes. Defaults to ``["action", action_value_key, "chosen_action_value"]``.
        var_nums: how many values each of several choices has; not needed with ``spec``.
        spec: of the action; gives the encoding, the dtype and the number of values. Without it actions are int64.
        stacked: choices of n values each have rows of their own, ``(*batch, k, n)``, in the mask and in one-hot actions.

    Raises:
        ValueError: if the encoding or ``var_nums`` are not known, or contradict the spec; if rows are to be of choices that
            have not as many values.
        RuntimeError: if ``out_keys`` are not three with the action value key in the middle.
    """

    def __init__(
        self,
        action_space: ActionSpaceName | None = None,
        action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        var_nums: Sequence[int] | None = None,
        spec: TensorSpec | None = None,
        *,
        stacked: bool = False,
    ) -> None:
        super().__init__()
        spec = own_spec(spec)
        value_key = "action_value" if action_value_key is None else action_value_key
        keys = ["action", value_key, "chosen_action_value"] if out_keys is None else list(out_keys)
        if len(keys) != 3 or keys[1] != value_key:
            raise RuntimeError(f"out_keys must be the action, {value_key!r} and the chosen value, got {keys}")
        self.in_keys = [value_key] if action_mask_key is None else [value_key, action_mask_key]
        self.out_keys = keys
        self.action_mask_key = action_mask_key
        self.action_space: ActionSpace = find_action_space(action_space, spec, action_key=keys[0])
        self.var_nums = find_var_nums(self.action_space, var_nums, spec, action_key=keys[0])
        self.stacked = stacked
        if stacked and (self.var_nums is None or len(set(self.var_nums)) > 1):
            raise ValueError(
                f"rows of one size are of choices that have as many values, got var_nums={self.var_nums}"
            )
        self._spec = spec
        leaf = known_leaf(spec, keys[0])
        self._dtype = torch.int64 if leaf is None or leaf.dtype is None else leaf.dtype
        self._n: int | None = None if leaf is None else _number_of_values(leaf)

    @property
    def spec(self) -> TensorSpec | None:
        """The spec of the action, as it was given."""
        return self._spec

    @property
    def action_value_key(self) -> NestedKey:
        """The key of the action values."""
        key: NestedKey = self.in_keys[0]
        return key

    def allowed_values(self, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """The action values, ``(*batch, n)``, with the least number for actions that are forbidden.

        Args:
            values: of all actions, ``(*batch, n)``.
            mask: bool ``(*batch, n)``, True where an action is allowed; None if all are; with a row for each
                choice if `stacked`.

        Raises:
            ValueError: if the number of action values is not the spec's, or the mask does not fit them.
        """
        if self._n is not None and values.shape[-1] != self._n:
            raise ValueError(
                f"the network gives {values.shape[-1]} action values, the action spec has {self._n} actions"
            )
        if mask is None:
            return values
        return allowed_values(values, mask.flatten(-2) if self.stacked else mask)[0]

    @dispatch(auto_batch_size=False)  # type: ignore[untyped-decorator]
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the action, the action values and the value of the action.

        Raises:
            KeyError: if the action values or the mask are missing.
            ValueError: if the number of action values is not the spec's.
        """
        action_key, value_key, chosen_key = self.out_keys
        values = self.allowed_values(
            entry(tensordict, value_key, owner="QValueModule", role="the action value")
        )
        if self.action_mask_key is not None:
            mask = entry(tensordict, self.action_mask_key, owner="QValueModule", role="the action mask")
            values = self.allowed_values(values, mask)
            tensordict.set(value_key, values)
        action = greedy_action(values, self.action_space, self._dtype, self.var_nums)
        if self.var_nums is None:
            chosen = values.amax(-1, keepdim=True)
        else:
            chosen = torch.cat(
                [one.amax(-1, keepdim=True) for one in split_choices(values, self.var_nums)], -1
            )
            chosen = chosen.sum(-1, keepdim=True)
        if self.stacked and self.action_space == "mult_one_hot":
            assert self.var_nums is not None
            action = action.reshape(*action.shape[:-1], len(self.var_nums), self.var_nums[0])
        tensordict.set(action_key, action)
        tensordict.set(chosen_key, chosen)
        return tensordict


def _number_of_values(leaf: TensorSpec) -> int:
    choices = choices_of(leaf)
    return int(leaf.space.n) if choices is None else sum(choices)  # type: ignore[union-attr]


class QValueActor(PlainSequence):
    """A network of action values followed by the choice of the greatest.

    Args:
        module: from observations to action values, shape ``(*batch, n)``. A plain module is given ``in_keys``; a
            tensordict module must write ``action_value_key``.
        in_keys: what a plain module reads. Defaults to ``["observation"]``.
        spec: of the action, or a composite that holds it under ``action_key``.
        action_space: ``"one-hot"``, ``"mult-one-hot"``, ``"categorical"`` or ``"multi-categorical"``; not needed with ``spec``.
        action_value_key: defaults to ``"action_value"``.
        action_key: defaults to ``"action"``.
        chosen_action_value_key: defaults to ``"chosen_action_value"``.
        action_mask_key: bool, True where an action is allowed. Defaults to None: all are.
        var_nums: how many values each of several choices has; not needed with ``spec``.
        stacked: choices of n values each have rows of their own, ``(*batch, k, n)``, in the mask and in one-hot actions.

    Raises:
        KeyError: if a tensordict module does not write the action values.
        TypeError: if ``module`` is not a module.
        ValueError: if the encoding of the action is not known, or contradicts the spec.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        in_keys: Sequence[NestedKey] | None = None,
        spec: TensorSpec | None = None,
        action_space: ActionSpaceName | None = None,
        action_value_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        chosen_action_value_key: NestedKey | None = None,
        action_mask_key: NestedKey | None = None,
        var_nums: Sequence[int] | None = None,
        stacked: bool = False,
    ) -> None:
        value_key = "action_value" if action_value_key is None else action_value_key
        network = value_module(module, in_keys, value_key)
        if in_keys is not None and list(in_keys) != list(network.in_keys):
            raise ValueError(f"in_keys are {list(in_keys)}, but the module reads {network.in_keys}")
        choice = QValueModule(
            action_space=action_space,
            action_value_key=value_key,
            action_mask_key=action_mask_key,
            out_keys=[
                "action" if action_key is None else action_key,
                value_key,
                "chosen_action_value" if chosen_action_value_key is None else chosen_action_value_key,
            ],
            var_nums=var_nums,
            spec=spec,
            stacked=stacked,
        )
        super().__init__(network, choice)
        self.action_space: ActionSpace = choice.action_space
        self.var_nums = choice.var_nums
        self.action_value_key: NestedKey = value_key
        self._spec = choice.spec

    @property
    def spec(self) -> TensorSpec | None:
        """The spec of the action, as it was given."""
        return self._spec
