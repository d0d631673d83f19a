"""`GymWrapper`: a Gymnasium environment, single or vectorised, as `EnvBase`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.base import D
from specgen_runtime.envs.gym.available import AvailableEnvs
from specgen_runtime.envs.gym.convert import GymConverter, gym_specs
from specgen_runtime.envs.gym.fast_path import GymFastPath
from specgen_runtime.envs.gym.gym_like import GymLikeEnv
from specgen_runtime.envs.gym.pixels import shows_pixels, with_pixels
from specgen_runtime.envs.gym.rollout_steps import GymSteps
from specgen_runtime.envs.gym.source import GymSource, checked_frame_skip
from specgen_runtime.envs.gym.vector import VectorSource, is_vector
from specgen_runtime.envs.overrides import STEP_METHODS, overrides
from specgen_runtime.envs.packing import holds, peek
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.rollout import RolloutOptions
from specgen_runtime.envs.rollout_steps import RolloutSteps
from specgen_runtime.specs.gymnasium import import_gymnasium
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GymWrapper"]

_HOOKS = STEP_METHODS | {"read_action", "read_obs", "read_reward", "read_done", "read_info"}
"""What the fast path would go past, if a subclass writes it anew, or somebody sets it on an object."""


class GymWrapper(GymLikeEnv[D]):
    """A Gymnasium environment as `EnvBase`; a vectorised one has the batch size `(n,)`.

    Reads `action`; gives `observation` (`pixels` for images, the names of the space for a Dict), `reward` float32
    `(1,)` (or as the environment's `reward_space` says), and `done`, `terminated`, `truncated` bool `(1,)`. What it
    has no attribute for is looked up in the Gymnasium environment: `env.render()`, `env.spec`.

    A vectorised environment gives the same transitions whatever its autoreset mode: the last observation of an
    episode is in `"next"`, and environments begin anew where `reset` (with a `_reset` mask) says so. One that
    is done and not reset stays where it is, with reward 0.

    Args:
        env: a `gymnasium.Env` or `gymnasium.vector.VectorEnv`.
        categorical_action_encoding: indices instead of one-hot vectors for discrete spaces.
        from_pixels: add rendered images as `pixels`, uint8 `(H, W, 3)`; the environment needs a `render_mode`.
        pixels_only: with `from_pixels`, images take the place of the observation.
        frame_skip: how often an action is repeated. Rewards are summed; the end of an episode ends it. Inside
            vector environments that is done by `GymEnv(..., num_envs=n, frame_skip=k)`.
        device: the device of all data; None leaves it open (tensors are on the CPU).
        batch_size: may say what the environment's is.
        allow_done_after_reset: whether a freshly reset environment may be done.
        convert_actions_to_numpy: whether Gymnasium gets NumPy values; else the tensors as they are.
        missing_obs_value: what stands for the last observation of an episode where a vector environment that
            resets by itself does not tell it; NaN counts as 0 among integers.

    Raises:
        TypeError: `env` is no Gymnasium environment, or has a space that no spec describes.
        ValueError: `frame_skip` is no integer of 1 or more, or cannot be done here; there is nothing to render;
            `batch_size` is another.
    """

    _path: GymFastPath | None
    _path_known: bool
    _supports_partial_steps = True

    libname: ClassVar[str] = "gymnasium"
    git_url: ClassVar[str] = "https://github.com/Farama-Foundation/Gymnasium"
    available_envs: ClassVar[Any] = AvailableEnvs()

    def __init__(
        self,
        env: Any,
        categorical_action_encoding: bool = False,
        *,
        from_pixels: bool = False,
        pixels_only: bool = False,
        frame_skip: int = 1,
        device: DEVICE_TYPING | None = None,
        batch_size: torch.Size | tuple[int, ...] | list[int] | None = None,
        allow_done_after_reset: bool = False,
        convert_actions_to_numpy: bool = True,
        missing_obs_value: Any = float("nan"),
    ) -> None:
        if not all(hasattr(env, name) for name in ("action_space", "observation_space", "reset", "step")):
            raise TypeError(
                f"{type(self).__name__} needs a Gymnasium environment, found {type(env).__name__}"
            )
        skip = checked_frame_skip(frame_skip)
        several = is_vector(env)
        if several and (skip > 1 or (from_pixels and not shows_pixels(env.single_observation_space))):
            raise ValueError(
                "frame_skip and from_pixels change single environments, not a vector environment; wrap those in it,"
                " or use GymEnv(id, num_envs=..., ...)"
            )
        size = torch.Size((env.num_envs,) if several else ())
        if batch_size is not None and tuple(batch_size) != size:
            raise ValueError(f"batch_size is {list(batch_size)}, that of the environment is {list(size)}")
        super().__init__(
            device=device,
            batch_size=size,
            allow_done_after_reset=allow_done_after_reset,
            frame_skip=skip,
            convert_actions_to_numpy=convert_actions_to_numpy,
            env=env,
            categorical_action_encoding=categorical_action_encoding,
            from_pixels=from_pixels,
            pixels_only=pixels_only,
            missing_obs_value=missing_obs_value,
        )

    def _build_env(  # type: ignore[override]  # the constructor is the one that calls it
        self,
        *,
        env: Any,
        categorical_action_encoding: bool,
        from_pixels: bool,
        pixels_only: bool,
        missing_obs_value: Any,
    ) -> Any:
        """The Gymnasium environment, rendered if images are asked for."""
        shown = shows_pixels(env.single_observation_space if self._batch_size else env.observation_space)
        self.from_pixels = from_pixels or shown
        self.pixels_only = pixels_only
        self._categorical = categorical_action_encoding
        self._missing = missing_obs_value
        self._last: Any = None
        return with_pixels(env, pixels_only) if from_pixels and not shown else env

    def _make_specs(self, env: Any) -> None:
        self._gym_source = GymSource(env, self._frame_skip)
        specs = gym_specs(env, self._categorical, self._device, self._batch_size, self.from_pixels)
        for name, spec in specs.items():
            setattr(self, name, spec)
        self._build_converters()

    def _build_converters(self) -> None:
        self._forget_fast_path()
        self._converter = GymConverter(self)
        self._vector = None
        if self._batch_size:
            self._vector = VectorSource(
                self._env, self._converter.encode, self._converter.encode_one, self._missing
            )

    # the environment inside

    @property
    def lib(self) -> ModuleType:
        """The `gymnasium` module."""
        module: ModuleType = import_gymnasium()
        return module

    @staticmethod
    def get_library_name(env: Any) -> str:
        """The name of the library whose spaces an environment has: `"gymnasium"`.

        Raises:
            ImportError: they are another library's.
        """
        if not isinstance(getattr(env, "action_space", None), import_gymnasium().Space):
            raise ImportError(f"the spaces of {env} are not Gymnasium's")
        return "gymnasium"

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in _HOOKS or name == "_check_finite":
            self._forget_fast_path()

    def __getstate__(self) -> dict[str, Any]:
        # The converters are closures over the spaces: made again from the specs.
        made = ("_path", "_path_known", "_converter", "_vector")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore: Any = super().__setstate__
        restore(state)
        self._build_converters()

    def _set_group(self, name: str, spec: Any) -> None:
        super()._set_group(name, spec)
        if "_converter" in self.__dict__:
            self._converter.forget()
            self._forget_fast_path()

    def _move_specs(self, device: torch.device) -> None:
        super()._move_specs(device)
        self._converter.forget()
        self._forget_fast_path()
        self._last = None

    def _forget_fast_path(self) -> None:
        """Something has changed that decides whether there is a fast path."""
        self.__dict__["_path"], self.__dict__["_path_known"] = None, False

    def _readers_changed(self) -> None:
        self._forget_fast_path()

    @contextmanager
    def _keeping_seeds(self) -> Iterator[None]:
        seed, seeds = self._gym_source.seed, None if self._vector is None else list(self._vector.seeds)
        with super()._keeping_seeds():
            try:
                yield
            finally:
                self._gym_source.seed = seed
                if self._vector is not None and seeds is not None:
                    self._vector.seeds = seeds

    def _fast_path(self) -> GymFastPath | None:
        """What steps and resets this environment without checks, if that can be."""
        if not self._path_known:
            self._path_known = True
            if self._to_numpy and not self._info_dict_reader and not overrides(self, _HOOKS):
                self._path = GymFastPath.of(self)
        return self._path

    # reset

    def reset(self, tensordict: D | None = None, *, set_state: bool | None = None, **kwargs: Any) -> D:
        """Start a new episode; see `EnvBase.reset`. Further keyword arguments go to Gymnasium."""
        if tensordict is None and set_state is None and not self._closed:
            path = self._path or self._fast_path()
            if path is not None:
                root: Any = path.packed(path.reset(kwargs))
                return root  # type: ignore[no-any-return]
        return super().reset(tensordict, set_state=set_state, **kwargs)

    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        if self._vector is not None:
            return self._reset_vector(self._vector, tensordict, kwargs)
        observation, info = self._gym_source.reset(kwargs)
        result = TensorDict(self.read_obs(observation), batch_size=self._batch_size, device=self._device)
        return self.read_info(info, result)

    def _reset_vector(self, source: VectorSource, tensordict: Any, kwargs: dict[str, Any]) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        entries, info = source.reset(None if mask is None else mask.reshape(-1).cpu().numpy(), kwargs)
        result = TensorDict(entries, batch_size=self._batch_size, device=self._device)
        result = self.read_info(info, result)
        if mask is not None and self._last is not None and not bool(mask.all()):
            result.update(self._env_layout.done.spec.zero())
            kept = self._last.select(*self.observation_keys, *self.done_keys)
            merge_reset(kept, result, {self._done_sets[0]: mask})
            result = kept
        else:
            self._complete_dones(result)
        self._last = result
        return result.copy()

    def _set_seed(self, seed: int | None) -> None:
        """The next reset passes the seed on; later resets continue from it, as Gymnasium's own do."""
        if seed is not None and seed < 0:
            raise ValueError(f"Gymnasium's seeds are 0 or more, found {seed}")
        if self._vector is None:
            self._gym_source.seed = seed
        elif seed is not None:
            self._vector.seeds = [seed + at for at in range(self._vector.count)]

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the environment; see `EnvBase.set_seed`.

        The environments of a vector environment get `seed`, `seed + 1`, ..., as Gymnasium gives them, or all
        the same if `static_seed`.

        Returns:
            The first seed that is free; the input for a single environment, or if `static_seed`.
        """
        first = super().set_seed(seed, static_seed)
        if self._vector is None or first is None:
            return first
        if static_seed:
            self._vector.seeds = [first] * self._vector.count
            return first
        return first + self._vector.count

    # steps

    def step(self, tensordict: D) -> D:
        """Advance by one step; see `EnvBase.step`."""
        if not self._closed and not holds(tensordict, "_step"):
            path = self._path or self._fast_path()
            if path is not None and path.write_next(tensordict) is not None:
                return tensordict
        return super().step(tensordict)

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset if it ended the episode; see `EnvBase`."""
        if not self._closed and not holds(tensordict, "_step"):
            path = self._path or self._fast_path()
            if path is not None:
                entries = path.write_next(tensordict)
                if entries is not None:
                    root: Any = path.following(tensordict, path.reset({}) if path.done else entries)
                    return tensordict, root
        return super().step_and_maybe_reset(tensordict)

    def _step(self, tensordict: D) -> TensorDictBase:
        action: Any = self._converter.action_of(tensordict)
        if self._to_numpy:
            action = self.read_action(action)
        if self._vector is not None:
            return self._step_vector(self._vector, action, peek(tensordict, "_step"))
        observation, reward, terminated, truncated, info = self._gym_source.stepper()(action)
        entries = self.read_obs(observation)
        return self._transition(entries, reward, self.read_done(terminated, truncated)[:3], info)

    def _step_vector(self, source: VectorSource, action: Any, mask: torch.Tensor | None) -> TensorDictBase:
        over = source.over
        if mask is not None:
            source.check_left_out(~mask.cpu().numpy())
        entries, reward, terminated, truncated, info = source.step(action)
        result = self._transition(entries, reward, self.read_done(terminated, truncated)[:3], info)
        if over.any() and self._last is not None:
            last = self._last.copy().update(self._env_layout.reward.spec.zero())
            mask = torch.from_numpy(over).reshape(-1, 1).to(result.device or "cpu")
            merge_reset(result, last, {self._done_sets[0]: mask})
        self._last = result
        return result.copy()

    # what subclasses may write anew

    def read_action(self, action: Any) -> Any:
        """The action as Gymnasium takes it; `action` is a tensor, or a tensordict where there are several.

        Raises:
            ValueError: a class outside its space, or a vector that is not one-hot.
        """
        return self._converter.decode(action)

    def read_obs(self, observations: Any) -> dict[str, Any]:
        """Entries of a tensordict for what Gymnasium observed.

        Raises:
            ValueError: it is not in its space.
        """
        return self._converter.encode(observations)

    def read_reward(self, reward: Any) -> torch.Tensor:
        """The reward as its spec says."""
        return self._converter.reward(reward)

    # rollouts and the rest

    def _rollout_steps(self, options: RolloutOptions) -> RolloutSteps:
        path = None
        if options.policy is None and options.whole_only and not self._closed:
            path = self._fast_path()
        return super()._rollout_steps(options) if path is None else GymSteps(self, options, [path])
