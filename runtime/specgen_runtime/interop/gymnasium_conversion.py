"""`GymnasiumConverter`: the Gymnasium spaces of an environment, and conversion of its values from and to tensordicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.done import DoneSet
from specgen_runtime.envs.gym.actions import action_decoder
from specgen_runtime.envs.gym.values import value_encoder
from specgen_runtime.envs.keys import MissingKeyError, as_tuple, join_key, show_key
from specgen_runtime.interop.unwrapping import innermost_env
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.specs.gymnasium import spec_to_space
from specgen_runtime.transforms.keys import is_private
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumConverter", "row_of"]


class GymnasiumConverter:
    """Converts between the tensordicts of an environment with the batch size `()` or `(n,)` and Gymnasium's values.

    Values of a batch are converted together: there is a loop over its environments only for texts, tuples and
    sequences, which Gymnasium does not keep in arrays.

    Args:
        env: the environment.
        observation_keys: as for `to_gymnasium`.

    Attributes:
        single_observation_space, single_action_space: those of one environment.
        observation_space, action_space: those of the batch; the same for a single environment.

    Raises:
        ValueError: another batch size, environments that differ, several rewards or done flags.
        KeyError: there is no observation of that key.
        NotImplementedError: Gymnasium has no space for a spec.
    """

    def __init__(self, env: EnvBase[Any], observation_keys: NestedKey | list[NestedKey] | None) -> None:
        if len(env.batch_size) > 1:
            raise ValueError(
                f"Gymnasium knows single environments and batches (n,); {type(env).__name__} has the batch size"
                f" {list(env.batch_size)}"
            )
        self._env = env
        self._chosen = observation_keys
        self._size = env.batch_size
        self._reward = self._only_reward()
        self._done = self._only_done()
        self._masks = _mask_keys(env)

        action = env.full_action_spec
        self._action_keys = env.action_keys
        self._single_action = len(self._action_keys) == 1
        acted: TensorSpec = action[self._action_keys[0]] if self._single_action else action
        self.single_action_space, self.action_space = self._spaces(acted, "action")
        self._encode_action = _rows_encoder(acted) if self._size else value_encoder(self.action_space, acted)

        self._observation_key, observed = self._observed(observation_keys)
        self.single_observation_space, self.observation_space = self._spaces(observed, "observation")
        self._decode_observation = (
            _rows_decoder(observed) if self._size else action_decoder(self.observation_space, observed)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # What converts is closures over the spaces: made again.
        return GymnasiumConverter, (self._env, self._chosen)

    def _only_reward(self) -> NestedKey:
        keys = self._env.reward_keys
        leaf = self._env.full_reward_spec_unbatched[keys[0]]
        if len(keys) != 1 or leaf.shape.numel() != 1:
            raise ValueError(
                f"Gymnasium knows one reward, a number; {type(self._env).__name__} has"
                f" {', '.join(f'{show_key(key)} {list(self._env.full_reward_spec_unbatched[key].shape)}' for key in keys)}"
            )
        return keys[0]

    def _only_done(self) -> DoneSet:
        roots = self._env._env_layout.root_sets
        if len(roots) != 1 or roots[0].shape.numel() != 1:
            raise ValueError(
                f"Gymnasium knows one end of an episode; {type(self._env).__name__} has"
                f" {', '.join(f'{show_key(s.done)} {list(s.shape)}' for s in roots)}"
            )
        return roots[0]

    def _observed(self, chosen: NestedKey | list[NestedKey] | None) -> tuple[NestedKey | None, TensorSpec]:
        """The key of what is observed, with its spec; or None and a Composite of several."""
        whole = self._env.full_observation_spec
        if chosen is None:
            keys = self._default_keys()
            chosen = keys[0] if len(keys) == 1 else keys
        several = chosen if isinstance(chosen, list) else [chosen]
        for key in several:
            if whole.get(key, None) is None:
                known = ", ".join(map(show_key, self._env.observation_keys))
                raise MissingKeyError(
                    f"{type(self._env).__name__} has no observation {show_key(key)}; it has {known}"
                )
        if isinstance(chosen, list):
            return None, Composite({key: whole[key] for key in chosen}, shape=self._size)
        return chosen, whole[chosen]

    def _default_keys(self) -> list[NestedKey]:
        env = self._env
        if "observation" in env.observation_keys:
            return ["observation"]
        shown = [key for key in env.observation_keys if not is_private(key)]
        hidden = {*env.state_keys, *(mask for _, mask in self._masks)}
        return [key for key in shown if key not in hidden] or shown

    def _spaces(self, spec: TensorSpec, what: str) -> tuple[Any, Any]:
        """The spaces of one environment and of all."""
        if not self._size:
            space = spec_to_space(spec)
            return space, space
        single: Any = spec
        single = single[0]
        if single.expand(*self._size, *single.shape) != spec:
            raise ValueError(
                f"the environments of a Gymnasium batch are alike; the {what} of {type(self._env).__name__}"
                f" differs from one to the next: {spec!r}"
            )
        space = spec_to_space(single)
        return space, batch_space(space, self._size[0])

    # values

    def write_action(self, root: TensorDictBase, action: Any) -> None:
        """Write Gymnasium's action.

        Raises:
            ValueError: it has another shape than its space, or a class that the space does not have.
            TypeError: it is not made of numbers.
        """
        try:
            encoded = self._encode_action(action)
        except (TypeError, ValueError) as error:
            what = f"the action must be of {self.action_space}, found {action!r}"
            raise (TypeError if isinstance(error, TypeError) else ValueError)(what) from error
        if self._single_action:
            root.set(self._action_keys[0], encoded)
            return
        for key in self._action_keys:
            value = encoded
            for name in as_tuple(key):
                value = value[name]
            root.set(key, value)

    def observation(self, tensordict: TensorDictBase) -> Any:
        """What Gymnasium sees; it shares no memory with the tensordict."""
        key = self._observation_key
        return self._decode_observation(tensordict if key is None else tensordict.get(key))

    def rewards(self, following: TensorDictBase) -> Any:
        """The rewards of all environments: an array of the batch size."""
        return _array(following.get(self._reward)).reshape(self._size)

    def ends(self, following: TensorDictBase) -> tuple[Any, Any]:
        """Which episodes are terminated, and which truncated: bool arrays of the batch size.

        What is done and not said to be terminated was cut off, by a flag of another name or by none.
        """
        flags = self._done
        terminated = _array(following.get(flags.terminated)).reshape(self._size)
        cut = _array(following.get(flags.done)).reshape(self._size) & ~terminated
        if flags.truncated is not None:
            cut |= _array(following.get(flags.truncated)).reshape(self._size)
        return terminated.copy(), cut

    def masks(self, root: TensorDictBase) -> Any:
        """The allowed actions as Gymnasium writes them, int8: an array, or a dict by action if there are several.

        None if the environment has no masks.
        """
        if not self._masks:
            return None
        found = {action: _array(root.get(mask)).astype(np.int8) for action, mask in self._masks}
        if self._single_action:
            return next(iter(found.values()))
        return {".".join(as_tuple(action)): mask for action, mask in found.items()}

    def write_reset_mask(self, root: TensorDictBase, mask: Any) -> None:
        """Write which environments are to be reset: a bool array `(n,)`."""
        rows = torch.from_numpy(mask.copy()).reshape(*self._size, *(1,) * len(self._done.shape))
        root.set(self._done.reset, rows.expand(*self._size, *self._done.shape).to(self._env.device or "cpu"))


def row_of(space: Any, values: Any, place: int) -> Any:
    """One environment's part of the values of a batched space."""
    if isinstance(values, np.ndarray):
        return values[place]
    if isinstance(values, dict):
        return {name: row_of(space[name], value, place) for name, value in values.items()}
    return list(iterate(space, values))[place]


def _mask_keys(env: EnvBase[Any]) -> tuple[tuple[NestedKey, NestedKey], ...]:
    """Actions with the observations that tell which are allowed: declared ones, or those named `action_mask`."""
    observed, inner = set(env.observation_keys), innermost_env(env)
    declared = inner.__dict__.get("_action_masks", getattr(type(inner), "_action_masks", ()))
    if declared:
        return tuple(pair for pair in declared if pair[1] in observed)
    beside = [(key, join_key((*as_tuple(key)[:-1], "action_mask"))) for key in env.action_keys]
    whole = env.full_observation_spec
    return tuple(pair for pair in beside if pair[1] in observed and whole[pair[1]].dtype is torch.bool)


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _in_arrays(space: Any) -> bool:
    """Whether the values of a space are arrays, or dicts of them."""
    if isinstance(space, spaces.Dict):
        return all(map(_in_arrays, space.spaces.values()))
    return isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary)


def _rows_decoder(spec: TensorSpec) -> Callable[[Any], Any]:
    """The function from the values of a batch to those of its batched space.

    Where values are arrays, those of the batched space are those of the space of the whole spec.
    """
    whole = spec_to_space(spec)
    if _in_arrays(whole):
        return action_decoder(whole, spec)
    one: Any = spec
    single = spec_to_space(one[0])
    decode = action_decoder(single, one[0])
    count = spec.shape[0]

    def rows(values: Any) -> Any:
        decoded = [decode(value) for value in values.unbind(0)]
        out: Any = create_empty_array(single, count)
        return concatenate(single, decoded, out)

    return rows


def _rows_encoder(spec: TensorSpec) -> Callable[[Any], Any]:
    """The function from the values of a batched space to those of a batch: the inverse of `_rows_decoder`."""
    whole = spec_to_space(spec)
    if _in_arrays(whole):
        return value_encoder(whole, spec)
    raise NotImplementedError(f"actions of a batch have to be arrays: no VectorEnv for {spec!r}")
