"""`GymFastPath`: steps a Gymnasium environment with one observation and one action, both tensors, without checks.

What it gives is what the general way gives, bit by bit; spaces and specs are looked at once, not at each step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.gym.actions import action_decoder, actions_decoder
from specgen_runtime.envs.gym.row_format import RowFormat, row_format
from specgen_runtime.envs.gym.values import NOT_RAISED, reward_tensor, value_encoder
from specgen_runtime.envs.packing import entries_of, fast_td, overlay, put
from specgen_runtime.specs.gymnasium import NOT_ARRAYS, space_kind
from specgen_runtime.specs.stacks.stacked import Stacked

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = ["GymFastPath", "no_flags"]

_SIZE = torch.Size(())


def no_flags(*size: int) -> dict[str, Tensor]:
    """The three done flags, False, of shape `(*size, 1)`."""
    return {flag: torch.from_numpy(np.zeros((*size, 1), dtype=np.bool_)) for flag in FLAGS}


class GymFastPath:
    """Steps one Gymnasium environment.

    Args:
        env: the environment.
        key: the key of its observation.
        form: how observations are kept in rollouts.
        observed: the observation's spec.
        action: the action's spec.

    Attributes:
        source: the environment that is stepped.
        key, form: as given.
        fits: shape and dtype of what a root has to hold, by key.
        action_fits: shape and dtype of actions.
        decode: from an action to Gymnasium's.
        decode_all: from actions `(T, ...)` to the list of Gymnasium's.
        done: whether the last step ended the episode.
    """

    def __init__(self, env: GymWrapper[Any], key: str, form: RowFormat, observed: Any, action: Any) -> None:
        self._env, self.source = env, env._gym_source
        self.device = env.device
        self.key, self.form = key, form
        self.spaces = self.source.env.observation_space, self.source.env.action_space
        self.decode = action_decoder(self.spaces[1], action)
        self.decode_all = actions_decoder(self.spaces[1], action)
        self.action_fits = action.shape, action.dtype
        self.fits = {key: (observed.shape, observed.dtype)}
        self.fits.update(dict.fromkeys(FLAGS, (torch.Size((1,)), torch.bool)))
        self.done = False
        self._encode = value_encoder(self.spaces[0], observed)

    @classmethod
    def of(cls, env: GymWrapper[Any]) -> GymFastPath | None:
        """The fast path of an environment, or None if its specs were changed, or say more than fits here."""
        device = env.device
        if env.batch_size or env.check_finite or (device is not None and device.type != "cpu"):
            return None
        layout = env._env_layout
        groups = layout.action, layout.observation, layout.reward
        actions, observations, rewards = (dict(group.spec.items()) for group in groups)
        if list(actions) != ["action"] or len(observations) != 1 or list(rewards) != ["reward"]:
            return None
        reward, action = rewards["reward"], actions["action"]
        if reward.shape != (1,) or reward.dtype is not torch.float32 or set(env.done_keys) != set(FLAGS):
            return None
        ((key, observed),) = observations.items()
        inner = env._gym_source.env
        kinds = [space_kind(space) for space in (inner.observation_space, inner.action_space)]
        if isinstance(action, Stacked) or any(kind in NOT_ARRAYS for kind in kinds):
            return None
        form = row_format(inner.observation_space, observed)
        return None if form is None else cls(env, key, form, observed, action)

    def _takes(self, tensordict: Any) -> bool:
        """Whether an argument needs none of the general way's special cases or errors."""
        return (
            type(tensordict) is TensorDict and not tensordict.batch_size and tensordict.device == self.device
        )

    def reset(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Start an episode: the entries of the root."""
        observation, _info = self.source.reset(kwargs)
        self._env.__dict__["_begun"] = True
        return {self.key: self._encode(observation), **no_flags()}

    def reset_row(self) -> Any:
        """Start an episode: its first observation as a row; not a copy."""
        observation, _info = self.source.reset({})
        self._env.__dict__["_begun"] = True
        return self.form.row(observation)

    def step(self, action: Tensor) -> dict[str, Any]:
        """Take an action: the entries of `"next"`."""
        source, form, new = self.source, self.form, torch.from_numpy
        observation, reward, terminated, truncated, _info = source.step(self.decode(action))
        alike = type(observation) is np.ndarray and observation.dtype is form.fits
        entries = {
            self.key: new(observation.copy())
            if alike and observation.shape == form.shape
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
            entries["done"] = new(NOT_RAISED.copy())
            entries["terminated"] = new(NOT_RAISED.copy())
            entries["truncated"] = new(NOT_RAISED.copy())
        return entries

    def write_next(self, tensordict: Any) -> dict[str, Any] | None:
        """Write `"next"` into a root, and return its entries; None, and nothing done, if this needs the general way."""
        if not self._takes(tensordict):
            return None
        held = entries_of(tensordict)
        action = held.get("action")
        if type(action) is not Tensor or (action.shape, action.dtype) != self.action_fits or "next" in held:
            return None
        entries = self.step(action)
        put(tensordict, "next", self.packed(entries))
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
        return self.packed(result)

    def packed(self, entries: dict[str, Any]) -> TensorDict:
        """The tensordict of some entries."""
        return fast_td(entries, _SIZE, self.device)
