"""The specs of a Gymnasium environment, and its data on their way to and from tensordicts."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from specgen_runtime.envs.gym.actions import action_decoder
from specgen_runtime.envs.gym.pixels import shows_pixels
from specgen_runtime.envs.gym.values import Convert, value_encoder
from specgen_runtime.specs import Categorical, Composite, TensorSpec, Unbounded
from specgen_runtime.specs.gymnasium import space_kind, space_to_spec
from specgen_runtime.specs.stacks.values import join
from specgen_runtime.specs.values import to_spec_array
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.gym.wrapper import GymWrapper

__all__ = ["GymConverter", "gym_specs"]

_TOGETHER = ("Box", "Discrete", "MultiBinary")
"""Kinds of spaces whose batched space describes the values of a batch as the spec does."""


def gym_specs(
    env: Any, categorical: bool, device: torch.device | None, batch_size: torch.Size, pixels: bool
) -> dict[str, Composite]:
    """All specs of a Gymnasium environment, by the names of an environment's attributes.

    Args:
        env: single or vectorised.
        categorical: indices instead of one-hot vectors.
        device: of the specs.
        batch_size: of the environment.
        pixels: whether a single observation is called `pixels`.
    """

    def named(name: str, which: str) -> Composite:
        spec = _batch_spec(env, which, categorical, device, batch_size)
        if space_kind(_single(env, which)) == "Dict":
            whole: Any = spec
            return whole  # type: ignore[no-any-return]
        return Composite({name: spec}, shape=batch_size, device=device)

    images = pixels and space_kind(_single(env, "observation_space")) != "Dict"
    flag = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool, device=device)
    rewards = _reward_space(env)
    if rewards is None:
        reward: TensorSpec = Unbounded(shape=(*batch_size, 1), dtype=torch.float32, device=device)
    else:
        reward = space_to_spec(rewards, device=device)
        if reward.shape[: len(batch_size)] != batch_size or reward.ndim == len(batch_size):
            reward = reward.reshape(1) if not reward.ndim else reward
            reward = reward.expand(*batch_size, *reward.shape)
    flags = {name: flag.clone() for name in ("done", "terminated", "truncated")}
    return {
        "full_action_spec": named("action", "action_space"),
        "full_observation_spec": named("pixels" if images else "observation", "observation_space"),
        "full_reward_spec": Composite(reward=reward, shape=batch_size, device=device),
        "full_done_spec": Composite(flags, shape=batch_size, device=device),
    }


def _single(env: Any, which: str) -> Any:
    """A space of one environment."""
    return getattr(env, f"single_{which}", None) or getattr(env, which)


def _reward_space(env: Any) -> Any:
    """The space of the rewards, where an environment has one: for several of them."""
    found = getattr(env, "__dict__", {}).get("reward_space")
    if found is None and hasattr(env, "get_wrapper_attr"):
        try:
            found = env.get_wrapper_attr("reward_space")
        except AttributeError:
            found = None
    return found


def _batch_spec(
    env: Any, which: str, categorical: bool, device: torch.device | None, batch_size: torch.Size
) -> TensorSpec:
    def read(single: Any, batched: Any) -> TensorSpec:
        kind = space_kind(single)
        if kind == "Dict":
            inner = {name: read(part, batched.spaces[name]) for name, part in single.spaces.items()}
            return Composite(inner, shape=batch_size, device=device)
        if not batch_size or kind in _TOGETHER:
            return space_to_spec(batched, categorical_action_encoding=categorical, device=device)
        spec = space_to_spec(single, categorical_action_encoding=categorical, device=device)
        return spec.expand(*batch_size, *spec.shape)

    return read(_single(env, which), getattr(env, which))


class GymConverter:
    """Values between an environment's spaces and specs; made when first used, and again when specs change.

    Args:
        env: the environment.
    """

    def __init__(self, env: GymWrapper[Any]) -> None:
        self._of = env
        self.forget()

    def forget(self) -> None:
        """The specs have changed."""
        self._encode: Convert | None = None
        self._encode_one: Convert | None = None
        self._decode: Convert | None = None
        self._reward_spec: TensorSpec | None = None
        self._action_key: NestedKey | None = None

    def encode(self, observation: Any) -> dict[str, Any]:
        """Entries for an observation, of all environments if there are several."""
        if self._encode is None:
            self._encode = self._encoder(several=bool(self._of.batch_size))
        entries: dict[str, Any] = self._encode(observation)
        return entries

    def encode_one(self, observation: Any) -> dict[str, Any]:
        """Entries for an observation of one environment of several."""
        if self._encode_one is None:
            self._encode_one = self._encoder(several=False)
        entries: dict[str, Any] = self._encode_one(observation)
        return entries

    def _encoder(self, several: bool) -> Convert:
        env = self._of
        single = _single(env._env, "observation_space")
        specs = env._env_layout.observation.spec
        if env.batch_size and not several:
            specs = specs[(0,) * len(env.batch_size)]
        batched = env._env.observation_space if several else single
        if space_kind(single) == "Dict":
            whole = Composite({name: specs[name] for name in single.spaces}, shape=specs.shape)
            return _batch_encoder(single, batched, whole, several)
        key = "pixels" if env.from_pixels and shows_pixels(single) else "observation"
        encode = _batch_encoder(single, batched, specs[key], several)
        return lambda observation: {key: encode(observation)}

    def action_of(self, tensordict: Any) -> Any:
        """The action in a root: a tensor, or a tensordict if there are several."""
        if self._action_key is None:
            self._action_key = self._find_action_key()
        return tensordict.get(self._action_key) if self._action_key else tensordict

    def _find_action_key(self) -> NestedKey:
        """The key of the action, which users may have renamed; empty if there are several."""
        env = self._of
        if space_kind(_single(env._env, "action_space")) == "Dict":
            return ()
        return "action" if "action" in env.full_action_spec.keys() else env.action_key  # noqa: SIM118

    def decode(self, action: Any) -> Any:
        """The action as Gymnasium takes it."""
        if self._decode is None:
            env = self._of
            single, batched = _single(env._env, "action_space"), env._env.action_space
            spec: Any = env._env_layout.action.spec
            key = self._find_action_key()
            spec = spec[key] if key else spec
            self._decode = _batch_decoder(single, batched, spec, bool(env.batch_size))
        return self._decode(action)

    def reward(self, reward: Any) -> torch.Tensor:
        """The reward as its spec says."""
        if self._reward_spec is None:
            self._reward_spec = next(iter(self._of._env_layout.reward.spec.values(True, True)))
        spec = self._reward_spec
        dtype = spec.dtype
        assert dtype is not None
        tensor = to_spec_array(np.asarray(reward), dtype, "the reward").reshape(spec.shape)
        return tensor if spec.device is None else tensor.to(spec.device)


def _batch_encoder(single: Any, batched: Any, spec: Any, several: bool) -> Convert:
    """`value_encoder`, for a batch of values if there are several."""
    kind = space_kind(single)
    if not several or kind in _TOGETHER:
        return value_encoder(batched, spec)
    if kind == "Dict":
        inner = {
            name: _batch_encoder(part, batched.spaces[name], spec[name], True)
            for name, part in single.spaces.items()
        }
        return lambda value: {name: encode(value[name]) for name, encode in inner.items()}
    iterate = importlib.import_module("gymnasium.vector.utils").iterate
    encode_one = value_encoder(single, spec[0])
    return lambda value: join([encode_one(part) for part in iterate(batched, value)], 0)


def _batch_decoder(single: Any, batched: Any, spec: Any, several: bool) -> Convert:
    """`action_decoder`, for a batch of actions if there are several."""
    if not several or space_kind(single) in _TOGETHER:
        return action_decoder(batched, spec)
    utils = importlib.import_module("gymnasium.vector.utils")
    decode_one = action_decoder(single, spec[0])

    def decode(action: Any) -> Any:
        values = [decode_one(part) for part in action.unbind(0)]
        return utils.concatenate(single, values, utils.create_empty_array(single, len(values)))

    return decode
