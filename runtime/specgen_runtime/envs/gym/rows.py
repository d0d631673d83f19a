"""`GymRowSteps`: steps of a generated Gymnasium environment that are computed by NumPy, and become tensors at the end.

A few numbers cost NumPy a third of what they cost torch, and what Gymnasium returns is NumPy's already.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import is_, itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.values import NOT_RAISED, reward_tensor
from specgen_runtime.envs.overrides import method_place
from specgen_runtime.envs.packing import entries_of, flat_td, put
from specgen_runtime.envs.policy import check_action_values
from specgen_runtime.envs.traced import is_traced
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.typing import Array

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.generated import GeneratedGymEnv

__all__ = ["GymRowSteps", "filled_row"]

_METHOD = "_gym_row"
_REPLACED = ("_advance", "_gym_step", "_next_entries", "_read", "_root_entries")
"""What a step of `_METHOD` stands for: whoever writes one of these anew means the steps, too."""

_SIZE = torch.Size(())
_FEW = 32
"""Up to so many classes, Gymnasium's action of each is kept."""


def filled_row(dtype: str, value: float, *dims: int) -> Array:
    """A new array of one value."""
    return _filled(dtype, value, dims).copy()


@cache
def _filled(dtype: str, value: float, dims: tuple[int, ...]) -> Array:
    return np.full(dims, value, dtype)


class GymRowSteps:
    """Takes steps by the `_gym_row` of an environment.

    Args:
        env: a generated environment with one action and one observation, whose keys are flat and whose data are on
            the CPU.
    """

    def __init__(self, env: GeneratedGymEnv[Any, Any]) -> None:
        self._env, self._source, self._device = env, env._gym_source, env.device
        layout, form = env._env_layout, env._row_format
        assert form is not None
        ((self._action, spec),) = env._action_leaves
        self._spec, self._action_shape, self._action_dtype = spec, spec.shape, spec.dtype
        self._actions = _actions_of_classes(env, spec)
        self._fits = [(e.leaf.key, e.shape, e.dtype) for e in layout.state.entries + layout.done.entries]
        self._rewards: tuple[Any, ...] = layout.reward.keys
        self._own = 1 + len(layout.observation.keys) + len(layout.done.keys)
        self._shape, self._dtype = form.shape, form.fits
        # Those of them that can have gradients.
        self._floats = [
            place
            for place, (_, _, dtype) in enumerate(self._fits)
            if dtype is not None and (dtype.is_floating_point or dtype.is_complex)
        ]
        # Of the last step: the tensors that the next one reads if it goes on from there, where they are, their arrays.
        self._pick = itemgetter(*(key for key, _, _ in self._fits))
        self._tensors: tuple[Tensor, ...] = ()
        self._places: list[int] = []
        self._arrays: Mapping[str, Array] = {}

    @classmethod
    def of(cls, env: GeneratedGymEnv[Any, Any]) -> GymRowSteps | None:
        """The steps of an environment; None where its class has no `_gym_row`, or takes other steps by now."""
        places = {name: method_place(type(env), name) for name in (_METHOD, *_REPLACED)}
        if places[_METHOD] != min(places.values()) or not env.__dict__.keys().isdisjoint(places):
            return None
        if env._row_format is None or env._off_cpu or not env._flat or len(env._action_leaves) != 1:
            return None
        if len(env.done_keys) < 2:
            return None
        return cls(env)

    def write_next(self, tensordict: Any) -> dict[str, Tensor] | None:
        """Take a step and write `"next"`; returns its entries. None, and nothing done, if this needs the general way.

        Raises:
            ValueError: the action is outside its spec, or Gymnasium gave what its space does not have.
        """
        env = self._env
        if not env._takes_fast_path(tensordict) or is_traced():
            return None
        held = entries_of(tensordict)
        action = held.get(self._action)
        if (
            type(action) is not Tensor
            or action.shape != self._action_shape
            or action.dtype is not self._action_dtype
        ):
            return None
        arrays = self._held(held)
        if arrays is None:
            return None
        rows = self.take(arrays, self._given(action))
        entries = dict(zip(rows, map(torch.from_numpy, rows.values()), strict=True))
        self._tensors, self._arrays = self._pick(entries), rows
        self._places = list(map(Tensor.data_ptr, self._tensors))
        put(tensordict, "next", flat_td(entries, _SIZE, self._device))
        return entries

    def take(self, held: Mapping[str, Array], action: Any) -> dict[str, Array]:
        """Take a step: what `"next"` holds.

        Args:
            held: the state and done flags before it.
            action: Gymnasium's.

        Raises:
            ValueError: Gymnasium gave what its space does not have.
        """
        env = self._env
        observation, reward, terminated, truncated, _info = self._source.env.step(action)
        alike = type(observation) is np.ndarray and observation.dtype is self._dtype
        return env._gym_row(
            held,
            observation.copy()
            if alike and observation.shape == self._shape
            else env._encode_all(observation).numpy(),
            np.array((reward,), np.float32) if isinstance(reward, float) else reward_tensor(reward).numpy(),
            np.array((True,)) if terminated else NOT_RAISED.copy(),
            np.array((True,)) if truncated else NOT_RAISED.copy(),
        )

    def _held(self, held: Mapping[str, Any]) -> Mapping[str, Array] | None:
        """The arrays of what the step before gave; None if one is not there, or not as the specs say."""
        try:
            tensors = self._pick(held)
        except KeyError:
            return None
        if len(self._tensors) == len(tensors) and all(map(is_, tensors, self._tensors)):
            # What we made ourselves fits, unless somebody has given the tensor other memory or a gradient since.
            moved = list(map(Tensor.data_ptr, tensors)) != self._places
            if not moved and True not in [tensors[place].requires_grad for place in self._floats]:
                return self._arrays
        found: dict[Any, Array] = {}
        for tensor, (key, shape, dtype) in zip(tensors, self._fits, strict=True):
            if (
                type(tensor) is not Tensor
                or tensor.shape != shape
                or tensor.dtype is not dtype
                or tensor.requires_grad
            ):
                return None
            found[key] = tensor.numpy()
        return found

    def decode(self, action: Tensor) -> Any:
        """Gymnasium's action, of a tensor as declared.

        Raises:
            ValueError: it is not in its space.
        """
        if self._actions:
            place = action.item()
            if 0 <= place < len(self._actions):
                return self._actions[int(place)]
        if self._env._gym_inverts:
            return self._given(action)
        return self._env._decode(action)

    def _given(self, action: Tensor) -> Any:
        """Gymnasium's action, of one that is in its spec.

        Raises:
            ValueError: it is not.
        """
        if self._actions and self._spec.mask is None:
            place = action.item()
            if 0 <= place < len(self._actions):
                return self._actions[int(place)]
        env = self._env
        check_action_values(env._env_layout, env._action_leaves, (action,))
        return env._decode(env._gym_action((action,)) if env._gym_inverts else action)

    def first(self) -> dict[str, Array]:
        """Start an episode: the entries of its root."""
        return {key: value.numpy() for key, value in self._env._root_entries(self._env._fresh()).items()}

    def following(self, tensordict: Any, entries: dict[str, Tensor]) -> Any:
        """The root behind a step: the entries of `"next"` but the reward, or those of a new episode, over the root's.

        Args:
            tensordict: the root, with `"next"`.
            entries: of `"next"`.
        """
        env = self._env
        if self._arrays["done"]:  # of the step that was just taken
            entries = env._root_entries(env._fresh())
        root = {**entries_of(tensordict), **entries}
        del root["next"]
        for key in self._rewards:
            root.pop(key, None)
        if len(root) > self._own:  # containers are not shared
            for name, value in root.items():
                root[name] = value if isinstance(value, Tensor) else value.copy()
        return flat_td(root, _SIZE, self._device)


def _actions_of_classes(env: GeneratedGymEnv[Any, Any], spec: Any) -> list[Any]:
    """Gymnasium's action of each class, where an action is one of a few classes, as Gymnasium has it."""
    if env._gym_inverts or type(spec) is not Categorical or spec.shape != () or spec.n > _FEW:
        return []
    return [env._decode(torch.tensor(place, dtype=spec.dtype)) for place in range(spec.n)]
