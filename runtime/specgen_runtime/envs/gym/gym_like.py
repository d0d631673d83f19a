"""`GymLikeEnv`: the base of wrappers around simulators with `reset()` and `step(action)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.gym.readers import ReadsInfo
from specgen_runtime.envs.gym.source import checked_frame_skip
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GymLikeEnv"]


class GymLikeEnv(ReadsInfo, EnvBase[D]):
    """A wrapper around a simulator that has `reset()` and `step(action)`, as Gymnasium's environments do.

    A subclass says how the simulator is made (`_build_env`), what its specs are (`_make_specs`, which sets
    `action_spec`, `observation_spec`, `reward_spec`, `done_spec`), how it is seeded (`_set_seed`), and how what it
    returns is to be read (`_output_transform`, `_reset_output_transform`). Attributes that the wrapper has not got are
    looked up in the simulator.

    An observation that is no mapping is the first key of the observation spec; of a mapping, each value is that of
    its key. The reward is encoded by its spec. Done flags may be numbers or arrays.

    Args:
        device: the device of all data; None leaves it open.
        batch_size: the shape of the batch of environments that the simulator runs; `()` for one.
        allow_done_after_reset: whether a freshly reset environment may be done.
        spec_locked: whether specs are locked once they are used.
        frame_skip: how often an action is repeated. Rewards are summed; the end of an episode ends it.
        convert_actions_to_numpy: whether the simulator gets NumPy values; else the tensors as they are.
        **kwargs: for `_build_env`, once `_check_kwargs` has seen them.

    Raises:
        ValueError: `frame_skip` is no integer of 1 or more.
        TypeError: the subclass leaves one of the abstract methods out.
    """

    libname: ClassVar[str] = ""
    git_url: ClassVar[str] = ""
    available_envs: ClassVar[Any] = ()

    _env: Any

    def __init__(
        self,
        *,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | None = None,
        allow_done_after_reset: bool = False,
        spec_locked: bool = True,
        frame_skip: int = 1,
        convert_actions_to_numpy: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
            spec_locked=spec_locked,
        )
        self._frame_skip = checked_frame_skip(frame_skip)
        self._to_numpy = convert_actions_to_numpy
        self._info_dict_reader: list[Any] = []
        self._check_kwargs(kwargs)
        self._env = self._build_env(**kwargs)
        self._make_specs(self._env)
        self._init_env()

    # what a subclass writes

    def _check_kwargs(self, kwargs: dict[str, Any]) -> None:
        """Refuse keyword arguments that `_build_env` cannot take; accepts all."""

    def _build_env(self, **kwargs: Any) -> Any:
        """Make the simulator; returns the keyword argument `env` as it is.

        Raises:
            TypeError: there is no `env`, and the subclass has not written how it is made.
        """
        if set(kwargs) != {"env"}:
            raise TypeError(f"{type(self).__name__} must write _build_env, or be given env=...")
        return kwargs["env"]

    def _make_specs(self, env: Any) -> None:
        """Set the specs of the wrapper from those of the simulator."""
        raise NotImplementedError(f"{type(self).__name__} must write _make_specs")

    def _init_env(self) -> int | None:
        """What the simulator needs before it is used; nothing."""
        return None

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Read what the simulator's `step` returned.

        Returns:
            The observation, the reward, `terminated`, `truncated`, `done` (each flag may be None) and the info.
        """
        raise NotImplementedError(f"{type(self).__name__} must write _output_transform")

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Any]:
        """Read what the simulator's `reset` returned: the observation and the info (or None)."""
        raise NotImplementedError(f"{type(self).__name__} must write _reset_output_transform")

    # the simulator

    @property
    def wrapped(self) -> Any:
        """The simulator."""
        return self._env

    @property
    def frame_skip(self) -> int:
        """How often an action is repeated."""
        return self._frame_skip

    def fast_encoding(self, mode: bool = True) -> None:
        """Has no effect: encoding is checked and fast always."""

    def __getattr__(self, name: str) -> Any:  # type: ignore[override]
        if not name.startswith("__") and "_env" in self.__dict__:
            look_up: Any = super().__getattr__
            try:
                return look_up(name)
            except AttributeError:
                return getattr(self._env, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @contextmanager
    def _keeping_seeds(self) -> Iterator[None]:
        """Steps inside spend no random numbers of torch's, nor seeds that were set and wait for a reset."""
        state = torch.get_rng_state()
        try:
            yield
        finally:
            torch.set_rng_state(state)

    def _readers_changed(self) -> None:
        """Called when info readers come or go."""

    # reset and step

    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        observation, info = self._reset_output_transform(self._env.reset(**kwargs))
        result = TensorDict(self.read_obs(observation), batch_size=self._batch_size, device=self._device)
        return self.read_info(info, result)

    def _step(self, tensordict: D) -> TensorDictBase:
        keys = self.action_keys
        action: Any = tensordict.get(keys[0]) if len(keys) == 1 else tensordict.select(*keys)
        if self._to_numpy:
            action = self.read_action(action)
        total: Any = None
        for _ in range(self._frame_skip):
            outputs = self._output_transform(self._env.step(action))
            observation, reward, terminated, truncated, done, info = outputs
            if reward is not None:
                total = reward if total is None else total + reward
            *flags, ended = self.read_done(terminated, truncated, done)
            if ended:
                break
        return self._transition(self.read_obs(observation), total, flags, info)

    def _transition(
        self, entries: dict[str, Any], reward: Any, flags: Iterable[torch.Tensor], info: Any
    ) -> TensorDictBase:
        """What a step gives: observations, the reward, and those of the three flags that are declared."""
        entries[self.reward_keys[0]] = self.read_reward(reward)  # type: ignore[index]
        for key, flag in zip(("terminated", "truncated", "done"), flags, strict=True):
            if key in self.done_keys:
                entries[key] = flag
        result = TensorDict(entries, batch_size=self._batch_size, device=self._device)
        return self.read_info(info, result)

    # what subclasses may write anew

    def read_action(self, action: Any) -> Any:
        """The action as the simulator takes it: a NumPy value, or a dict of them where there are several.

        Args:
            action: a tensor, or a tensordict where there are several.
        """
        spec = self.full_action_spec
        keys = self.action_keys
        return (spec[keys[0]] if len(keys) == 1 else spec).to_numpy(action)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """Entries of a tensordict for what the simulator observed.

        Raises:
            KeyError: a mapping has a key that the observation spec has not.
            ValueError: a value is not as its spec says.
        """
        specs = self.full_observation_spec
        if not isinstance(observations, Mapping):
            key: Any = next(iter(specs.keys(True, True)))
            return {key: specs[key].encode(observations)}
        found = dict(observations)
        if "state" in found and "observation" not in found and "state" not in specs:
            found["observation"] = found.pop("state")
        return {key: specs[key].encode(value) for key, value in found.items()}

    def read_reward(self, reward: Any) -> Any:
        """The reward as its spec says; None counts as 0."""
        spec = next(iter(self.full_reward_spec.values(True, True)))
        return spec.zero() if reward is None else spec.encode(reward)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]:
        """The flags `terminated`, `truncated` and `done`, and whether any environment is done.

        Args:
            terminated: bool or 0 or 1, an array of them for several environments.
            truncated: likewise; False if it is missing.
            done: taken as `terminated` if that is missing.

        Raises:
            TypeError: neither `terminated` nor `done` is given.
        """
        if terminated is None and done is None:
            raise TypeError("read_done needs terminated (or done), found None: does the episode end or not?")
        shape = (*self._batch_size, 1)
        ended = np.array(done if terminated is None else terminated, dtype=np.bool_).reshape(shape)
        cut = np.zeros(shape, np.bool_) if truncated is None else np.array(truncated, np.bool_).reshape(shape)
        both = ended | cut
        return torch.from_numpy(ended), torch.from_numpy(cut), torch.from_numpy(both), bool(both.any())

    # the rest

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the simulator too, if it can be closed."""
        super().close(raise_if_closed=raise_if_closed)
        close = getattr(self._env, "close", None)
        if close is not None:
            close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self._env}, batch_size={self._batch_size})"
