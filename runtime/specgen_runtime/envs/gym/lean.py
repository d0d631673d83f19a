"""`LeanPath`: the short way through a wrapped environment with one observation and one action, both tensors.

What it gives is what the general way gives, bit by bit. Steps pack their results without checking them a second
time; random rollouts draw all actions first and make tensors once for all steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.gym.actions import action_decoder, actions_decoder
from specgen_runtime.envs.gym.rollout import Stretch, run_steps
from specgen_runtime.envs.gym.slabs import SlabPlan, slab_plan
from specgen_runtime.envs.gym.values import (
    reward_tensor,
    rewards_tensor,
    value_encoder,
)
from specgen_runtime.envs.packing import entries_of, fast_td, overlay, put
from specgen_runtime.specs.gymnasium import NOT_ARRAYS, space_kind
from specgen_runtime.specs.stacks.stacked import Stacked

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = ["LeanPath", "lean_path"]

_SIZE = torch.Size(())
_FLAGS = ("done", "terminated", "truncated")
_NO = np.zeros(1, dtype=np.bool_)
_FIRST_DRAW = 64


def lean_path(env: GymWrapper[Any]) -> LeanPath | None:
    """The short way for `env`, or None if there is none: its specs were changed, or say more than it handles."""
    device = env.device
    if env.batch_size or (device is not None and device.type != "cpu"):
        return None
    actions = dict(env._env_layout.action.spec.items())
    observations = dict(env._env_layout.observation.spec.items())
    rewards = dict(env._env_layout.reward.spec.items())
    if list(actions) != ["action"] or len(observations) != 1 or list(rewards) != ["reward"]:
        return None
    source, reward = env._gym_source, rewards["reward"]
    if reward.shape != (1,) or reward.dtype is not torch.float32 or set(env.done_keys) != set(_FLAGS):
        return None
    ((key, observed),) = observations.items()
    action = actions["action"]
    spaces = source.env.observation_space, source.env.action_space
    if any(space_kind(space) in NOT_ARRAYS for space in spaces):
        return None
    if isinstance(action, Stacked) or env.check_finite:
        return None
    plan = slab_plan(spaces[0], observed)
    return None if plan is None else LeanPath(env, key, plan, observed, action)


class LeanPath:
    """The short way through one environment.

    Args:
        env: the environment.
        key: the key of its observation.
        plan: how its observations are kept.
        observed: the observation's spec.
        action: the action's spec.
    """

    def __init__(self, env: GymWrapper[Any], key: str, plan: SlabPlan, observed: Any, action: Any) -> None:
        self._source = env._gym_source
        self._device = env.device
        self._key = key
        self._plan = plan
        self._action = action
        self._shape, self._dtype = action.shape, action.dtype
        spaces = self._source.env.observation_space, self._source.env.action_space
        self._encode = value_encoder(spaces[0], observed)
        self._decode = action_decoder(spaces[1], action)
        self._decode_all = actions_decoder(spaces[1], action)
        flag = (torch.Size((1,)), torch.bool)
        self._fits = {key: (observed.shape, observed.dtype), **dict.fromkeys(_FLAGS, flag)}
        self.done = False
        """Whether the last step ended the episode."""

    # one step

    def takes(self, tensordict: Any) -> bool:
        """Whether an argument needs none of the general way's special cases or errors."""
        return (
            type(tensordict) is TensorDict and not tensordict.batch_size and tensordict.device == self._device
        )

    def first(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Start an episode: the entries of the root."""
        observation, _info = self._source.reset(kwargs)
        new = torch.from_numpy
        return {
            self._key: self._encode(observation),
            "done": new(_NO.copy()),
            "terminated": new(_NO.copy()),
            "truncated": new(_NO.copy()),
        }

    def step(self, action: Tensor) -> dict[str, Any]:
        """Take an action: the entries of `"next"`."""
        source, plan, new = self._source, self._plan, torch.from_numpy
        step = source.env.step if source.frame_skip == 1 else source.stepper()
        observation, reward, terminated, truncated, _info = step(self._decode(action))
        alike = type(observation) is np.ndarray and observation.dtype is plan.fits
        entries = {
            self._key: new(observation.copy())
            if alike and observation.shape == plan.shape
            else self._encode(observation),
            "reward": reward_tensor(reward),
        }
        if terminated or truncated:
            self.done = True
            entries["done"] = new(np.ones(1, dtype=np.bool_))
            entries["terminated"] = new(np.array((bool(terminated),)))
            entries["truncated"] = new(np.array((bool(truncated),)))
        else:
            self.done = False
            entries["done"] = new(_NO.copy())
            entries["terminated"] = new(_NO.copy())
            entries["truncated"] = new(_NO.copy())
        return entries

    def write_next(self, tensordict: Any) -> dict[str, Any] | None:
        """Write `"next"` into a root, and return its entries; None, and nothing done, if this needs the general way."""
        if not self.takes(tensordict):
            return None
        held = entries_of(tensordict)
        action = held.get("action")
        if (
            type(action) is not Tensor
            or action.shape != self._shape
            or action.dtype is not self._dtype
            or "next" in held
        ):
            return None
        entries = self.step(action)
        put(tensordict, "next", fast_td(entries, _SIZE, self._device))
        return entries

    def following(self, tensordict: Any, entries: dict[str, Any]) -> TensorDict:
        """The root after a transition: the entries of `"next"` but the reward, over those of the root."""
        result = dict(entries_of(tensordict))
        del result["next"]
        if all(isinstance(value, Tensor) for value in result.values()):
            result.update(entries)
        else:  # containers are not shared with the root before
            result = overlay(tensordict, entries)
        result.pop("reward", None)
        return fast_td(result, _SIZE, self._device)

    def root(self, kwargs: dict[str, Any]) -> TensorDict:
        """Start an episode: the root."""
        return fast_td(self.first(kwargs), _SIZE, self._device)

    # random rollouts

    def only_root(self, begin: Any) -> bool:
        """Whether a root holds what the environment does and no more, which would have to be repeated."""
        if not self.takes(begin) or not self._fits.keys() <= entries_of(begin).keys():
            return False
        for key, value in entries_of(begin).items():
            if type(value) is not Tensor or key not in (self._key, "action", *_FLAGS):
                return False
            shape, dtype = self._fits.get(key, (value.shape, value.dtype))
            if value.shape != shape or value.dtype is not dtype:
                return False
        return True

    def roll(self, max_steps: int, begin: Any, any_stops: bool) -> TensorDict:
        """Random steps, drawn in blocks, exactly as they would be drawn one by one.

        Args:
            max_steps: the most steps.
            begin: the root to start from, or None: reset first.
            any_stops: whether to stop at the end of the episode.
        """
        firsts: list[Any] = []
        starts: list[int] = []
        done_before = 0

        def reset(at: int) -> None:
            firsts.append(self._row(self._source.reset({})[0]))
            starts.append(done_before + at)

        def episode(at: int) -> None:
            if at:
                reset(at)

        if begin is None:
            reset(0)
        parts: list[Stretch] = []
        actions: list[Tensor] = []
        while True:
            wanted = max_steps - done_before
            if any_stops:
                wanted = min(wanted, max(_FIRST_DRAW, 2 * done_before))
            before = torch.get_rng_state()
            drawn = self._action.rand_sequence(wanted)
            after = torch.get_rng_state()
            part = run_steps(self._source, self._decode_all(drawn), self._plan, episode, any_stops)
            taken = len(part.rewards)
            if taken < wanted:
                drawn = self._undrawn(before, after, taken, drawn)
            parts.append(part)
            actions.append(drawn)
            done_before += taken
            if done_before == max_steps or (any_stops and part.over):
                break
        whole = parts[0] if len(parts) == 1 else _joined(parts)
        action = actions[0] if len(actions) == 1 else torch.cat(actions)
        return self._packed(whole, action, begin, firsts, starts)

    def _row(self, observation: Any) -> Any:
        plan = self._plan
        if (
            type(observation) is np.ndarray
            and observation.dtype is plan.fits
            and observation.shape == plan.shape
        ):
            return observation.copy()
        return plan.admit(observation)

    def _undrawn(self, before: Tensor, after: Tensor, taken: int, drawn: Tensor) -> Tensor:
        """Put torch's generator where drawing only the actions that were taken leaves it, and return these.

        Args:
            before: its state before the draw.
            after: its state after the draw.
            taken: how many actions were taken.
            drawn: all of them.
        """
        if not torch.equal(torch.get_rng_state(), after):
            # The environment draws from it too, and what it drew must not be drawn again.
            self._source.draws_torch = True
        else:
            torch.set_rng_state(before)
            self._action._skip_draws(taken)
        return drawn[:taken].clone()

    def _packed(
        self, whole: Stretch, action: Tensor, begin: Any, firsts: list[Any], starts: list[int]
    ) -> TensorDict:
        """The tensordict of a rollout, with time in front."""
        rows = whole.rows
        steps = len(rows)
        roots = np.empty_like(rows)
        roots[1:] = rows[:-1]
        for at, first in zip(starts, firsts, strict=True):
            roots[at] = first
        new = torch.from_numpy
        size = torch.Size((steps,))
        names: list[str | None] = ["time"]
        following = {
            self._key: self._plan.finish(rows),
            "reward": rewards_tensor(whole.rewards),
            "done": new(whole.ended | whole.cut),
            "terminated": new(whole.ended),
            "truncated": new(whole.cut),
        }
        if begin is not None:
            roots[0] = 0  # replaced below, but what `finish` reads must be in the space
        entries = {
            self._key: self._plan.finish(roots),
            **{flag: new(np.zeros((steps, 1), dtype=np.bool_)) for flag in _FLAGS},
        }
        if begin is not None:
            for name, column in entries.items():
                column[0] = begin.get(name)
        entries["action"] = action
        entries["next"] = fast_td(following, size, self._device, names)
        return fast_td(entries, size, self._device, names)


def _joined(parts: list[Stretch]) -> Stretch:
    return Stretch(
        np.concatenate([part.rows for part in parts]),
        [reward for part in parts for reward in part.rewards],
        np.concatenate([part.ended for part in parts]),
        np.concatenate([part.cut for part in parts]),
        parts[-1].over,
    )
