"""Rollouts of environments whose episodes are cut after a number of steps: as the environment itself rolls out in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.flat_policy import flat_policy
from specgen_runtime.envs.overrides import overrides
from specgen_runtime.envs.rollout import RolloutOptions, run_rollout
from specgen_runtime.envs.rollout_steps import FlatRollout, RolloutSteps, root_behind
from specgen_runtime.envs.traced import is_traced

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.transforms.env import TransformedEnv

__all__ = ["LimitedSteps"]

_OF_THE_LIMIT = ("_call", "_reset", "_step", "forward")
"""What a rollout goes past, if a subclass writes it anew, or somebody sets it on an object."""


class LimitedSteps(RolloutSteps):
    """Collects rows of a `TransformedEnv` whose only transform is a `StepLimit`."""

    env: TransformedEnv[Any]

    def whole(self, root: Any) -> FlatRollout | None:
        """The rollout; None where steps are taken one by one: for who sees them, or needs more than one done set."""
        env, options = self.env, self.options
        base: EnvBase[Any] = env.base_env
        layout = base._env_layout
        flags = {*FLAGS}
        if (
            not options.whole_only
            or is_traced()
            or overrides(env)
            or overrides(env.transform, _OF_THE_LIMIT)
            or base.check_finite
            or {*base.done_keys} != flags
            or {*env.done_keys} != flags
            or any(-1 in entry.shape for entry in layout.observation.entries + layout.state.entries)
        ):
            return None
        if options.policy is not None:
            actions = layout.action.keys
            if len(actions) != 1 or not isinstance(actions[0], str):
                return None
            policy = flat_policy(env._env_layout, options.policy, options.trust_policy)
            known: set[Any] = {*base.observation_keys, *flags}
            if policy is None or len(policy.out_keys) > 1 or not known.issuperset(policy.in_keys):
                return None
        if not env.batch_size.numel() or (root is not None and not _is_counted(env, root)):
            return None
        limit: Any = env.transform
        return _LimitedRollout(env, limit.max_steps, root, options)


def _is_counted(env: TransformedEnv[Any], root: Any) -> bool:
    """Whether a root has the count of steps as the environment writes it; of another, stepping tells what is wrong."""
    if type(root) is not TensorDict:
        return False
    count = root.get("step_count", None)
    return (
        isinstance(count, Tensor)
        and count.dtype == torch.int64
        and count.shape == (*env.batch_size, 1)
        and (env.device is None or count.device == env.device)
    )


class _LimitedRollout(FlatRollout):
    """Rolls the environment out until the first of its episodes may have lasted long enough, again and again.

    Args:
        env: the environment with the limit.
        max_steps: the limit.
        root: the tensordict to start from; None starts new episodes.
        options: of the rollout.
    """

    env: TransformedEnv[Any]

    def __init__(self, env: TransformedEnv[Any], max_steps: int, root: Any, options: RolloutOptions) -> None:
        self.env, self._limit, self._root, self._options = env, max_steps, root, options

    def rolled_out(self) -> Any:
        """Take all steps; all rows as one tensordict."""
        env, options, root, left = self.env, self._options, self._root, self._options.max_steps
        parts: list[Any] = []
        while True:
            part = self._until_the_limit(root, left)
            parts.append(part)
            left -= part.batch_size[-1]
            over = options.any_stops and bool(part.get("next").get("done").select(env.ndim, -1).any())
            if over or not left:
                break
            root = root_behind(env, part)
        if len(parts) == 1:
            return parts[0]
        joined: Any = torch.cat(parts, env.ndim)
        joined.names = [*[None] * env.ndim, "time"]
        return joined

    def _until_the_limit(self, root: Any, left: int) -> TensorDictBase:
        """The rows from a root up to where an episode may be cut, and at most `left` of them."""
        env, options, count = self.env, self._options, None
        if root is not None:
            count = root.get("step_count")
            root = root.exclude("step_count")
        longest = 0 if count is None else int(count.max())
        part: Any = run_rollout(
            env.base_env,
            RolloutOptions(
                max(1, min(left, self._limit - longest)),
                options.policy,
                auto_reset=root is None,
                any_stops=options.any_stops,
                return_contiguous=options.return_contiguous,
                tensordict=root,
                trust_policy=options.trust_policy,
            ),
        )
        following = part.get("next")
        counts = _counts(following.get("done"), count, env.ndim)
        part.set("step_count", counts)
        counts = counts + 1
        following.set("step_count", counts)
        if longest + part.batch_size[-1] >= self._limit:
            cut = counts >= self._limit
            for flag in ("truncated", "done"):
                following.set(flag, following.get(flag) | cut)
        return part


def _counts(done: Tensor, count: Tensor | None, time: int) -> Tensor:
    """How many steps episodes have had before each step.

    Args:
        done: of the steps, `(*batch, T, 1)`.
        count: the same of the first step, `(*batch, 1)`; None is 0.
        time: its dimension.
    """
    steps = done.shape[time]
    numbers = torch.arange(1, steps + 1, device=done.device).unsqueeze(-1)
    begun = torch.cummax(torch.where(done, numbers, 0), time).values.narrow(time, 0, steps - 1)
    zero = torch.zeros_like(done.narrow(time, 0, 1), dtype=torch.int64)
    begun = torch.cat((zero, begun), time)
    counts = numbers - 1 - begun
    return counts if count is None else counts + torch.where(begun == 0, count.unsqueeze(time), 0)
