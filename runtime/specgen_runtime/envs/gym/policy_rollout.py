"""Rollouts of generated Gymnasium environments by a policy: arrays from step to step, one tensordict at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.data_checks import check_entries, check_tensordict
from specgen_runtime.envs.flat_policy import flat_policy
from specgen_runtime.envs.generated.rollout_steps import RecordSteps
from specgen_runtime.envs.gym.rollout_steps import LiftedGymBlocks, begins_by_observations
from specgen_runtime.envs.gym.rows import GymRowSteps
from specgen_runtime.envs.packing import fast_td
from specgen_runtime.envs.rollout_steps import BlockSteps, FlatRollout
from specgen_runtime.plain_calls import TensorFunction
from specgen_runtime.typing import Array

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv
    from specgen_runtime.envs.rollout import RolloutOptions

__all__ = ["GymRecordSteps"]


class GymRecordSteps(RecordSteps):
    """Collects rows of a generated Gymnasium environment."""

    env: GeneratedGymEnv[Any, Any]

    def blocks(self, root: Any) -> BlockSteps | None:
        """What takes random actions in blocks; None where the state decides which actions are allowed."""
        env = self.env
        lifts = env._gym_lifts and env._row_format is not None and begins_by_observations(type(env))
        if root is not None or not lifts or self.traced or env._action_masks:
            return super().blocks(root)
        self._open()
        return LiftedGymBlocks(env, None, None, self.options)

    def flat(self, root: Any) -> FlatRollout | None:
        """What calls the policy with tensors; None where it has to see the tensordict."""
        env, options = self.env, self.options
        steps = None if self.traced or self.has_more(root) else env._row_steps()
        if steps is None:
            return None
        policy = flat_policy(env._env_layout, options.policy, options.trust_policy)
        known: set[Any] = {*env.observation_keys, *env.done_keys}
        if policy is None or len(policy.out_keys) > 1 or not known.issuperset(policy.in_keys):
            return None
        return GymPolicyRollout(env, steps, policy, root, options)


class GymPolicyRollout(FlatRollout):
    """Calls a policy with what it reads of each root.

    Args:
        env: the environment.
        steps: takes its steps.
        policy: gives the actions.
        root: the tensordict to start from; None starts new episodes.
        options: of the rollout.
    """

    env: GeneratedGymEnv[Any, Any]

    def __init__(
        self,
        env: GeneratedGymEnv[Any, Any],
        steps: GymRowSteps,
        policy: TensorFunction,
        root: TensorDictBase | None,
        options: RolloutOptions,
    ) -> None:
        self.env, self._steps, self._policy, self._options = env, steps, policy, options
        self._root = root
        self._begun: dict[int, dict[str, Any]] = {}
        self._rows: list[dict[str, Any]] = []
        self._actions: list[Tensor] = []

    def rolled_out(self) -> Any:
        """Take all steps; all rows as one tensordict."""
        steps, call, in_keys = self._steps, self._policy.call, self._policy.in_keys
        rows, actions, stops = self._rows, self._actions, bool(self._options.any_stops)
        most, (leaf,) = self._options.max_steps, self.env._action_leaves
        shape, dtype = leaf[1].shape, leaf[1].dtype
        held = self._begun[0] = self._first()
        tensor, take, decode = steps.tensor, steps.take, steps.decode
        while True:
            (action,) = call(*[tensor(key, held[key]) for key in in_keys])
            if type(action) is not Tensor or action.shape != shape or action.dtype is not dtype:
                action = self._checked(action)
            held = take(held, decode(action))
            rows.append(held)
            actions.append(action)
            if len(rows) == most:
                break
            if held["done"]:
                if stops:
                    break
                held = self._begun[len(rows)] = steps.first()
        return self._packed()

    def _first(self) -> dict[str, Any]:
        """The values of the first root."""
        env, root = self.env, self._root
        env._refuse_if_closed()
        env.__dict__["_begun"] = True
        if root is None:
            return self._steps.first()
        check_tensordict(env._env_layout, root, "rollout")
        env._check_root(env._read(root), root, "rollout")
        keys: list[Any] = [*env.observation_keys, *env.done_keys]
        return self._steps.values_of({key: root.get(key).numpy() for key in keys})

    def _checked(self, action: Any) -> Tensor:
        """An action that is not as its spec says: refused in the words of `step`, or in the dtype that is stored."""
        env = self.env
        root = fast_td({env.action_key: action}, env.batch_size, env.device)
        check_entries(env._env_layout, root, env._env_layout.action.entries, "step")
        checked: Tensor = root.get(env.action_key)
        return checked

    def _packed(self) -> Any:
        env, rows, count = self.env, self._rows, len(self._rows)
        size = torch.Size((count,))
        following = {key: self._steps.column(key, [row[key] for row in rows]) for key in rows[0]}
        roots: dict[str, Array] = {}
        for key in self._begun[0]:
            column = following[key]
            root = roots[key] = np.empty_like(column)
            root[1:] = column[:-1]
            for at, first in self._begun.items():
                root[at] = first[key]
        entries = {key: torch.from_numpy(column) for key, column in roots.items()}
        entries[env.action_key] = torch.stack(self._actions)
        names: list[str | None] = ["time"]
        packed = {key: torch.from_numpy(column) for key, column in following.items()}
        entries["next"] = fast_td(packed, size, env.device, names)
        return fast_td(entries, size, env.device, names)
