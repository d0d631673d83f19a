"""Random rollouts of Gymnasium environments, whose rows stay NumPy's until there are no more to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.generated.records import joined_firsts, roots_of, stacked
from specgen_runtime.envs.generated.rollout_steps import RecordBlocks
from specgen_runtime.envs.gym.fast_path import GymFastPath, no_flags
from specgen_runtime.envs.gym.recorder import StepRecorder
from specgen_runtime.envs.gym.values import rewards_tensor
from specgen_runtime.envs.overrides import class_overrides, method_place
from specgen_runtime.envs.packing import entries_of, fast_td
from specgen_runtime.envs.rollout_steps import BlockSteps, RolloutSteps, over_time, root_behind

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv
    from specgen_runtime.envs.rollout import RolloutOptions

__all__ = ["GymSteps", "LiftedGymBlocks", "begins_by_observations"]


@cache
def begins_by_observations(cls: type[GeneratedGymEnv[Any]]) -> bool:
    """Whether the observation of a reset decides all that an episode begins with, and Gymnasium alone when it ends.

    Args:
        cls: of a generated environment. One that writes `_fresh` anew, and not `_gym_firsts`, means the resets by it.
    """
    plain = ("_gym_reset", "_gym_stop")
    return method_place(cls, "_gym_firsts") <= method_place(cls, "_fresh") and not class_overrides(cls, plain)


class GymSteps(RolloutSteps):
    """Collects rows of an environment, or a batch of them, whose random steps can be taken in blocks.

    Args:
        env: a `GymWrapper`, or a batch of some.
        options: of the rollout.
        paths: the fast path of each of its environments.
        keep: told the observations and done flags that the last step gave.
    """

    def __init__(
        self,
        env: EnvBase[Any],
        options: RolloutOptions,
        paths: Sequence[GymFastPath],
        keep: Callable[[dict[str, Tensor]], None] | None = None,
    ) -> None:
        super().__init__(env, options)
        self._paths, self._keep = paths, keep

    def blocks(self, root: Any) -> BlockSteps | None:
        """What takes random actions in blocks; None from a root with further entries, which would have to be repeated."""
        env, first = self.env, self._paths[0]
        if root is not None:
            size = env.batch_size
            fits = {key: (torch.Size((*size, *shape)), dtype) for key, (shape, dtype) in first.fits.items()}
            held = entries_of(root)
            if (
                type(root) is not TensorDict
                or root.device != first.device
                or root.batch_size != size
                or not fits.keys() <= held.keys() <= {*fits, "action"}
                or any(type(value) is not Tensor or value.requires_grad for value in held.values())
                or any((held[key].shape, held[key].dtype) != fit for key, fit in fits.items())
            ):
                return None
        return GymBlocks(env, self._paths, root, self.options, self._keep)


class GymBlocks(BlockSteps):
    """Takes given actions in Gymnasium environments.

    Args:
        env: a single environment, or a batch of them.
        paths: the fast path of each.
        root: the root to start from; None starts new episodes.
        options: of the rollout.
        keep: see `GymSteps`.
    """

    def __init__(
        self,
        env: EnvBase[Any],
        paths: Sequence[GymFastPath],
        root: Any,
        options: RolloutOptions,
        keep: Callable[[dict[str, Tensor]], None] | None,
    ) -> None:
        self.env, self._paths, self._root, self._keep = env, paths, root, keep
        self._firsts: list[tuple[int, Any]] = []
        self._recorder = StepRecorder(
            [path.source for path in paths],
            paths[0].form,
            options.max_steps,
            stops=bool(options.any_stops),
            named=bool(env.batch_size),
        )
        if root is None:
            for place in range(len(paths)):
                self._begin(place, place)

    def _begin(self, place: int, row: int) -> None:
        self._firsts.append((row, np.array(self._paths[place].reset_row())))

    def take(self, actions: tuple[Tensor, ...]) -> None:
        """Take actions `(T, *batch, ...)`; see `BlockSteps.take`."""
        action = actions[0].flatten(0, 1) if self.env.batch_size else actions[0]
        self._recorder.take(self._paths[0].decode_all(action), self._begin)
        self.steps, self.over = self._recorder.steps, self._recorder.over

    def packed(self, actions: tuple[Tensor, ...]) -> TensorDict:
        """All rows as one tensordict; see `BlockSteps.packed`."""
        env, first, count, recorder = self.env, self._paths[0], len(self._paths), self._recorder
        size, device, batched = torch.Size((*env.batch_size, self.steps)), first.device, len(env.batch_size)
        names: list[str | None] = [*[None] * batched, "time"]
        rows = recorder.rows
        roots = np.empty_like(rows)
        roots[count:] = rows[:-count]
        roots[:count] = 0  # replaced below, but what `finish` reads must be in the space
        for row, observation in self._firsts:
            roots[row] = observation
        terminated, truncated = recorder.flags()
        following = {first.key: first.form.finish(rows), "reward": rewards_tensor(recorder.rewards)}
        for flag, column in zip(FLAGS, (terminated | truncated, terminated, truncated), strict=True):
            following[flag] = torch.from_numpy(column)
        root = first.form.finish(roots)
        if batched:  # what is in the order of steps to be in that of environments
            root = over_time(root.view(-1, count, *root.shape[1:]), 1)
            following = {
                name: over_time(column.view(-1, count, *column.shape[1:]), 1)
                for name, column in following.items()
            }
        entries = {first.key: root, **no_flags(*size)}
        if self._root is not None:
            for name, column in entries.items():
                column.select(batched, 0).copy_(self._root.get(name))
        if self._keep is not None:
            self._keep({name: following[name].select(batched, -1).clone() for name in entries})
        entries["action"] = actions[0]
        entries["next"] = fast_td(following, size, device, names)
        return fast_td(entries, size, device, names)


class LiftedGymBlocks(RecordBlocks):
    """Takes given actions in a generated Gymnasium environment; its transforms are computed once over all steps.

    Args:
        env: has the hooks `_gym_stop` and `_gym_lift`, and a row format.
        record: the Root record to start from; None starts with an episode, where all episodes begin by observations.
        root: the tensordict that it was read from, if any.
        options: of the rollout.
    """

    env: GeneratedGymEnv[Any]

    def __init__(self, env: GeneratedGymEnv[Any], record: Any, root: Any, options: RolloutOptions) -> None:
        super().__init__(env, record, root, options)
        assert env._row_format is not None
        self._form = env._row_format
        # What resets gave, where the records of all episodes can be made of that at once.
        self._observed: list[Any] | None = [] if begins_by_observations(type(env)) else None
        if record is None:
            self._firsts.clear()
            self._starts.clear()
            self._begin(0, 0)
        self._recorder = StepRecorder(
            [env._gym_source],
            self._form,
            options.max_steps,
            stops=bool(options.any_stops),
            first_end=None if record is None else env._gym_stop(record),
        )

    def _begin(self, place: int, row: int) -> int | None:
        del place
        self._starts.append(row)
        if self._observed is not None:
            observation, _info = self.env._gym_source.reset({})
            self._observed.append(np.array(self._form.row(observation)))
            return None
        self._firsts.append(self.env._fresh())
        return self.env._gym_stop(self._firsts[-1])

    def _joined_firsts(self) -> Any:
        """The Root records that episodes begin with."""
        env, firsts, observed = self.env, self._firsts, self._observed
        if observed:
            not_done = torch.zeros((len(observed), 1), dtype=torch.bool, device=env.device)
            others = env._gym_firsts(not_done, self._form.finish(np.array(observed)))
            return joined_firsts(firsts[0], others, 0) if firsts else others
        return joined_firsts(firsts[0], stacked(firsts[1:], 0) if len(firsts) > 1 else None, 0)

    def take(self, actions: tuple[Tensor, ...]) -> None:
        """Take actions `(T, ...)`; see `BlockSteps.take`."""
        env = self.env
        given = env._gym_action(actions) if env._gym_inverts else actions
        columns = given if isinstance(given, tuple) else (given,)
        self._recorder.take(env._decode_all(*columns), self._begin)
        self.steps, self.over = self._recorder.steps, self._recorder.over

    def following(self, rollout: TensorDictBase) -> Any:
        """The root behind the last step; see `BlockSteps.following`."""
        return root_behind(self.env, rollout)

    def records(self) -> tuple[Any, Any]:
        """The Root and the Next records of all steps."""
        env, recorder, firsts = self.env, self._recorder, self._joined_firsts()
        terminated, truncated = recorder.flags()
        nexts = env._gym_lift(
            firsts,
            [end - start for start, end in pairwise([*self._starts, self.steps])],
            self._form.finish(recorder.rows),
            env._on_device(rewards_tensor(recorder.rewards)),
            env._on_device(torch.from_numpy(terminated)),
            env._on_device(torch.from_numpy(truncated)),
        )
        return roots_of(firsts, self._starts, nexts, 0), nexts
