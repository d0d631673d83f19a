"""Rollouts of generated Gymnasium environments, by a policy or at random: arrays from step to step, one tensordict at the end."""

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
from specgen_runtime.envs.packing import fast_td, put
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
        if not (self.traced or env._action_masks):
            if root is None and env._gym_lifts and env._row_format and begins_by_observations(type(env)):
                self._open()
                return LiftedGymBlocks(env, None, None, self.options)
            if not env._gym_lifts and (steps := self._steps(root)) is not None:
                return GymRowBlocks(env, steps, root, self.options)
        return super().blocks(root)

    def flat(self, root: Any) -> FlatRollout | None:
        """What calls the policy with tensors; None where it has to see the tensordict."""
        env, options = self.env, self.options
        steps = self._steps(root) if env._one_action and not self.traced else None
        if steps is None:
            return None
        policy = flat_policy(env._env_layout, options.policy, options.trust_policy)
        known: set[Any] = {*env.observation_keys, *env.done_keys}
        if policy is None or len(policy.out_keys) > 1 or not known.issuperset(policy.in_keys):
            return None
        return GymPolicyRollout(env, steps, policy, root, options)

    def _steps(self, root: Any) -> GymRowSteps | None:
        return None if self.has_more(root) else self.env._row_steps()


class GymRowBlocks(BlockSteps):
    """Takes given actions by NumPy.

    Args:
        env: the environment.
        steps: takes its steps.
        root: the tensordict to start from; None starts new episodes.
        options: of the rollout.

    Attributes:
        held: the values of the root that the next step starts from.
    """

    env: GeneratedGymEnv[Any, Any]

    def __init__(
        self,
        env: GeneratedGymEnv[Any, Any],
        steps: GymRowSteps,
        root: TensorDictBase | None,
        options: RolloutOptions,
    ) -> None:
        self.env, self._row_steps = env, steps
        self._read, self._most, self._stops = env._gym_row_reads, options.max_steps, bool(options.any_stops)
        self._rows: list[dict[str, Any]] = []
        self._large: dict[str, Array] | None = None
        self.held = self._first(root)
        self._begun = {0: self.held}

    def _first(self, root: TensorDictBase | None) -> dict[str, Any]:
        """The values of the first root."""
        env = self.env
        env._refuse_if_closed()
        env.__dict__["_begun"] = True
        if root is None:
            return self._row_steps.first()
        check_tensordict(env._env_layout, root, "rollout")
        env._check_root(env._read(root), root, "rollout")
        keys: list[Any] = [*env.observation_keys, *env.done_keys]
        return self._row_steps.values_of({key: root.get(key).numpy() for key in keys})

    def take(self, actions: tuple[Tensor, ...]) -> None:
        """Take actions `(T, ...)`; see `BlockSteps.take`."""
        for action in zip(*(column.unbind(0) for column in actions), strict=True):
            self.advance(action)
            if self.over:
                break

    def advance(self, actions: tuple[Tensor, ...]) -> None:
        """Take a step by its actions."""
        held, rows, steps = self.held, self._rows, self._row_steps
        held = self.held = steps.take([held[key] for key in self._read], steps.decode(actions))
        if self._large is None:
            known = None if self._stops else self._most
            self._large = {key: steps.room(key, known) for key in held if steps.is_large(key)}
        at = len(rows)
        # Copied while it is in the processor's cache, and to use its memory again.
        for key, room in self._large.items():
            if at == len(room):
                room = self._large[key] = steps.resized(room, 2 * at)
            room[at] = held[key]
            held[key] = room[at]
        rows.append(held)
        count = self.steps = len(rows)
        if held["done"]:
            if self._stops:
                self.over = True
            elif count < self._most:
                self.held = self._begun[count] = steps.first()

    def packed(self, actions: tuple[Tensor, ...]) -> TensorDictBase:
        """All rows as one tensordict; see `BlockSteps.packed`."""
        env, rows, count = self.env, self._rows, self.steps
        size = torch.Size((count,))
        large, steps = self._large or {}, self._row_steps
        following = {
            key: steps.resized(large[key], count)
            if key in large
            else steps.column(key, [row[key] for row in rows])
            for key in rows[0]
        }
        roots: dict[str, Array] = {}
        for key in self._begun[0]:
            column = following[key]
            root = roots[key] = np.empty_like(column)
            root[1:] = column[:-1]
            for at, first in self._begun.items():
                root[at] = first[key]
        entries = {key: torch.from_numpy(column) for key, column in roots.items()}
        names: list[str | None] = ["time"]
        packed = {key: torch.from_numpy(column) for key, column in following.items()}
        entries["next"] = fast_td(packed, size, env.device, names)
        packed_rows = fast_td(entries, size, env.device, names)
        for path, action in zip(env._action_paths, actions, strict=True):
            put(packed_rows, path, action)
        return packed_rows


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

    def rolled_out(self) -> Any:
        """Take all steps; all rows as one tensordict."""
        blocks = GymRowBlocks(self.env, self._steps, self._root, self._options)
        call, in_keys, tensor = self._policy.call, self._policy.in_keys, self._steps.tensor
        most, (leaf,) = self._options.max_steps, self.env._action_leaves
        shape, dtype = leaf[1].shape, leaf[1].dtype
        actions: list[Tensor] = []
        while blocks.steps < most and not blocks.over:
            held = blocks.held
            (action,) = call(*[tensor(key, held[key]) for key in in_keys])
            if type(action) is not Tensor or action.shape != shape or action.dtype is not dtype:
                action = self._checked(action)
            blocks.advance((action,))
            actions.append(action)
        return blocks.packed((torch.stack(actions),))

    def _checked(self, action: Any) -> Tensor:
        """An action that is not as its spec says: refused in the words of `step`, or in the dtype that is stored."""
        env = self.env
        root = fast_td({env.action_key: action}, env.batch_size, env.device)
        check_entries(env._env_layout, root, env._env_layout.action.entries, "step")
        checked: Tensor = root.get(env.action_key)
        return checked
