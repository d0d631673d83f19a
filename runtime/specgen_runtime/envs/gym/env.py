"""`GymEnv`: Gymnasium environments by name."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import torch

from specgen_runtime.envs.base import D
from specgen_runtime.envs.gym.pixels import shows_pixels, with_pixels
from specgen_runtime.envs.gym.source import checked_frame_skip, repeating
from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.specs.gymnasium import import_gymnasium
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GymEnv"]


class GymEnv(GymWrapper[D]):
    """A Gymnasium environment by its id, made with `gymnasium.make`; see `GymWrapper` for its data.

    Gymnasium's environment checker is off unless `disable_env_checker=False`.

    Args:
        env_name: such as `"CartPole-v1"`.
        categorical_action_encoding: indices instead of one-hot vectors for discrete spaces.
        num_envs: how many run side by side, in processes of their own (`gymnasium.vector.AsyncVectorEnv`): the
            batch size is `(num_envs,)`. 0 is a single environment and no batch size. Where processes are
            spawned, a script needs `if __name__ == "__main__":`.
        from_pixels: observe rendered images as `pixels`, uint8 `(H, W, 3)`; `render_mode` is `"rgb_array"` then.
        pixels_only: images take the place of the observation. Means nothing without `from_pixels`.
        frame_skip: how often an action is repeated. An environment that repeats actions itself (it takes an argument
            `frameskip`, as Atari's do) is told to do so, 1 included, unless `frameskip` is given.
        device: the device of all data; None leaves it open (tensors are on the CPU).
        batch_size: may say what the environment's is.
        allow_done_after_reset: whether a freshly reset environment may be done.
        convert_actions_to_numpy: whether Gymnasium gets NumPy values; else the tensors as they are.
        missing_obs_value: see `GymWrapper`.
        backend: `"gymnasium"`; there is no other.
        num_workers: with more than 1, the result is a `ParallelEnv` of as many of these environments.
        **gym_kwargs: passed to `gymnasium.make`.

    Raises:
        ImportError: Gymnasium is not installed, or `backend` is another library.
        ValueError: see `GymWrapper`; `num_envs` is negative or `num_workers` 0; `frame_skip` and `frameskip` are both given.
    """

    def __new__(cls, *args: Any, num_workers: int = 1, **kwargs: Any) -> Self:
        """Make one environment, or a `ParallelEnv` of several."""
        if num_workers > 1:
            from specgen_runtime.envs.batched.parallel import ParallelEnv

            several: Any = ParallelEnv(num_workers, partial(cls, *args, **kwargs))
            return several  # type: ignore[no-any-return]  # not an instance of cls: Python calls no `__init__`
        return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        env_name: str,
        *,
        categorical_action_encoding: bool = False,
        num_envs: int = 0,
        from_pixels: bool = False,
        pixels_only: bool = True,
        frame_skip: int = 1,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | None = None,
        allow_done_after_reset: bool = False,
        convert_actions_to_numpy: bool = True,
        missing_obs_value: Any = float("nan"),
        backend: str | None = None,
        num_workers: int = 1,
        **gym_kwargs: Any,
    ) -> None:
        if num_workers != 1:  # more than one were handled by `__new__`
            raise ValueError(f"num_workers must be 1 or more, found {num_workers}")
        skip = checked_frame_skip(frame_skip)
        if num_envs < 0:
            raise ValueError(f"num_envs must be 0 or more, found {num_envs}")
        if backend not in (None, "gymnasium"):
            raise ImportError(f"backend must be 'gymnasium', found {backend!r}")
        gymnasium = import_gymnasium()
        gym_kwargs.setdefault("disable_env_checker", True)
        if from_pixels:
            gym_kwargs.setdefault("render_mode", "rgb_array")
        if isinstance(env_name, str) and env_name.startswith("ALE/"):
            _register_atari(gymnasium)
        if _skips_itself(gymnasium, env_name):
            if skip > 1 and "frameskip" in gym_kwargs:
                raise ValueError("frame_skip and frameskip are both given; they mean the same")
            gym_kwargs.setdefault("frameskip", skip)
            skip = 1
        # A process that is spawned does not know what was registered here: it gets the whole specification.
        named: Any = gymnasium.spec(env_name) if num_envs and isinstance(env_name, str) else env_name
        make: Callable[[], Any] = partial(gymnasium.make, named, **gym_kwargs)
        if num_envs:
            one = partial(_make_one, make, skip, from_pixels, pixels_only)
            mode = gymnasium.vector.AutoresetMode.DISABLED
            env = gymnasium.vector.AsyncVectorEnv([one] * num_envs, autoreset_mode=mode)
            skip = 1
        else:
            env = make()
        super().__init__(
            env,
            categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            frame_skip=skip,
            device=device,
            batch_size=batch_size,
            allow_done_after_reset=allow_done_after_reset,
            convert_actions_to_numpy=convert_actions_to_numpy,
            missing_obs_value=missing_obs_value,
        )
        self.env_name = env_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}(env={self.env_name}, batch_size={self._batch_size}, device={self._device})"


def _make_one(make: Callable[[], Any], skip: int, from_pixels: bool, pixels_only: bool) -> Any:
    """An environment of a vector environment."""
    env = make()
    if skip > 1:
        env.step = repeating(env.step, skip)
    if from_pixels and not shows_pixels(env.observation_space):
        env = with_pixels(env, pixels_only)
    return env


def _skips_itself(gymnasium: Any, env_name: Any) -> bool:
    """Whether an environment takes an argument `frameskip`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `make` will warn
            spec = gymnasium.spec(env_name) if isinstance(env_name, str) else env_name
        if "frameskip" in spec.kwargs:
            return True
        entry = spec.entry_point
        creator = gymnasium.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry
        return "frameskip" in inspect.signature(creator).parameters
    except (gymnasium.error.Error, AttributeError, ImportError, TypeError, ValueError):
        return False  # `make` says what is wrong with the id


def _register_atari(gymnasium: Any) -> None:
    """Make Atari's ids known, if they can be."""
    try:
        gymnasium.register_envs(importlib.import_module("ale_py"))
    except ImportError:
        return
