"""`ConditionalPolicySwitch`: another policy acts where a condition holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.keys import leaf_name
from specgen_runtime.transforms.base import Transform

__all__ = ["ConditionalPolicySwitch"]


class ConditionalPolicySwitch(Transform):
    """Steps the environment before it once more, with another policy, in the rows where a condition holds.

    After a reset the condition is asked too. What the second step returns takes the place of the first one's: its reward
    is the one that counts. Rows that are done, or that do not step, are left alone; the policy gets only the rows
    that it acts in. Transforms before this one see both steps, those behind it one.

    Args:
        policy: takes the entries of some rows and returns them with an action.
        condition: takes what a step or a reset returned; a truth value, or one for each row, of the batch size.

    Raises:
        TypeError: one of them can't be called.
        RuntimeError: at a call without an environment.
        ValueError: at a call: the condition has another shape.
    """

    policy: Callable[[TensorDictBase], TensorDictBase]

    def __init__(
        self,
        policy: Callable[[TensorDictBase], TensorDictBase],
        condition: Callable[[TensorDictBase], Any],
    ) -> None:
        for name, value in (("policy", policy), ("condition", condition)):
            if not callable(value):
                raise TypeError(f"{name} is a function of a tensordict, got {value!r}")
        super().__init__()
        self.__dict__["policy"] = policy  # it is not a part of the environment
        self.condition = condition

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        rows = self._rows(next_tensordict)
        stepping = tensordict.get("_step", None)
        if stepping is not None:
            rows = rows & stepping.reshape(rows.shape)
        for key, flag in next_tensordict.items(True, True):
            if key == "done" or (isinstance(key, tuple) and len(key) == 2 and leaf_name(key) == "done"):
                rows = rows & ~flag.reshape(*rows.shape, -1).all(-1)
        if not bool(rows.any()):
            return next_tensordict
        before = tensordict.exclude("_step", "next").set("next", next_tensordict)
        second = self._acted(self._env().step_mdp(before), rows)["next"]
        return _where(rows, second, next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        rows = self._rows(tensordict_reset)
        env = self._env()
        masks = [mask for key in env.reset_keys if (mask := tensordict.get(key, None)) is not None]
        if masks:
            reset = torch.zeros_like(rows)
            for mask in masks:
                reset = reset | mask.reshape(*rows.shape, -1).any(-1)
            rows = rows & reset
        if not bool(rows.any()):
            return tensordict_reset
        after = env.step_mdp(self._acted(tensordict_reset.copy(), rows))
        return _where(rows, after, tensordict_reset)

    def _acted(self, root: TensorDictBase, rows: Tensor) -> TensorDictBase:
        """The root with what a step of the policy returned under ``"next"``, in some rows."""
        env = self._env()
        if bool(rows.all()):
            return env.step(self.policy(root))
        acted = self.policy(root[rows])
        for key in env.action_keys:
            chosen = acted.get(key)
            action = (
                env.full_action_spec[key].zero()
                if env.batch_locked
                else chosen.new_zeros((*rows.shape, *chosen.shape[1:]))
            )
            action[rows] = chosen
            root.set(key, action)
        return env.step(root.set("_step", rows))

    def _rows(self, tensordict: TensorDictBase) -> Tensor:
        said = torch.as_tensor(self.condition(tensordict), device=tensordict.device).bool()
        if said.numel() == 1:
            return said.reshape(()).expand(tensordict.batch_size)
        if said.shape == (*tensordict.batch_size, 1):
            said = said.squeeze(-1)
        if said.shape != tensordict.batch_size:
            raise ValueError(
                f"ConditionalPolicySwitch: the condition has the shape {list(said.shape)}, and the batch is"
                f" {list(tensordict.batch_size)}"
            )
        return said

    def _env(self) -> Any:
        env = self.parent
        if env is None:
            raise RuntimeError("ConditionalPolicySwitch steps an environment, and it is part of none")
        return env

    def _derives_done(self) -> bool:
        return False

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        raise RuntimeError("ConditionalPolicySwitch steps an environment: what is recorded can't be stepped")


def _where(rows: Tensor, new: TensorDictBase, old: TensorDictBase) -> TensorDictBase:
    """The entries of the one in some rows, of the other one elsewhere."""
    if bool(rows.all()):
        return new.select(*old.keys(True, True), strict=False)
    merged = old.copy()
    for key, kept in old.items(True, True):
        value = new.get(key, None)
        if isinstance(kept, Tensor) and value is not None:
            mask = rows.reshape(*rows.shape, *(1,) * (kept.ndim - rows.ndim))
            merged.set(key, torch.where(mask, value, kept))
    return merged
