"""`GymnasiumVectorEnv`: an `EnvBase` of batch size `(n,)` as a `gymnasium.vector.VectorEnv`. Importing this module imports Gymnasium."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.envs.gym.wrapper import GymWrapper
from specgen_runtime.interop.gymnasium_adapter import GymnasiumAdapter
from specgen_runtime.interop.gymnasium_conversion import row_of
from specgen_runtime.interop.unwrapping import innermost_env
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumVectorEnv"]

_MODES = (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


class GymnasiumVectorEnv(GymnasiumAdapter, VectorEnv[Any, Any, Any]):
    """An environment of batch size `(n,)` as a `gymnasium.vector.VectorEnv`; see `to_gymnasium`.

    Args:
        env: the wrapped environment.
        observation_keys: what is observed.
        autoreset_mode: `SAME_STEP` (the default) or `DISABLED`, as in `metadata["autoreset_mode"]`.

    Raises:
        ValueError: another mode.
    """

    def __init__(
        self,
        env: EnvBase[Any],
        *,
        observation_keys: NestedKey | list[NestedKey] | None = None,
        autoreset_mode: AutoresetMode | str | None = None,
    ) -> None:
        GymnasiumAdapter.__init__(self, env, observation_keys)
        self._mode = AutoresetMode.SAME_STEP if autoreset_mode is None else AutoresetMode(autoreset_mode)
        if self._mode not in _MODES:
            raise ValueError(
                f"autoreset_mode {self._mode.value} is not supported: a batch resets within the step"
                f" ({AutoresetMode.SAME_STEP.value}), or not by itself ({AutoresetMode.DISABLED.value})"
            )
        self.num_envs = env.batch_size[0]
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self.single_observation_space = self._converter.single_observation_space
        self.single_action_space = self._converter.single_action_space
        self.observation_space = self._converter.observation_space
        self.action_space = self._converter.action_space
        self.metadata = {
            **(self._simulator_attribute("metadata") or {}),
            "autoreset_mode": self._mode,
            "reset_mask": True,
        }
        self.render_mode = self._simulator_attribute("render_mode")
        self.spec = self._simulator_attribute("spec")

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, in all environments or in those of `options["reset_mask"]`.

        Args:
            seed: passed to `set_seed`: environments of a batch share their random numbers, or have the seeds
                that follow, as the environment does it. A list must hold successive seeds; or one seed `n`
                times, where each environment has a generator of its own (`SerialEnv`, Gymnasium's vectors).
            options: `"reset_mask"`, a bool array `(n,)`; others are keywords of `EnvBase.reset`, or the
                options of the wrapped Gymnasium environment.

        Raises:
            ValueError: a list of other seeds, or a mask of another shape or without a True.
            TypeError: a mask that is no bool array.
            ResetNeeded: a mask, and no reset of all environments before.
        """
        first, static = self._first_seed(seed)
        given = dict(options or {})
        mask = given.pop("reset_mask", None)
        if mask is not None:
            self._check_mask(mask)
            self._converter.write_reset_mask(self._last_root(), mask)
        super().reset(seed=first)
        if first is not None:
            self._wrapped.set_seed(first, static_seed=static)
        if mask is None:
            root = self._reset_all(given)
            mask = np.ones(self.num_envs, dtype=np.bool_)
        else:
            root = self._wrapped.reset(self._last_root(), **self._reset_arguments(given))
        self._root = root
        self._ended = self._ended & ~mask
        return self._converter.observation(root), self._infos(root, mask)

    def _first_seed(self, seed: int | Sequence[int | None] | None) -> tuple[int | None, bool]:
        """The seed of the first environment, and whether it is that of all."""
        if seed is None or isinstance(seed, int):
            return seed, False
        seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, one for each environment, found {len(seeds)}")
        first = seeds[0]
        if first is None or self.num_envs == 1:
            following = [first] * self.num_envs
        else:
            following = [first + place for place in range(self.num_envs)]
        if seeds == following:
            return first, False
        if seeds == [first] * self.num_envs and isinstance(
            innermost_env(self._wrapped), BatchedEnv | GymWrapper
        ):
            return first, True
        raise ValueError(f"the environments of a batch have successive seeds, found {seeds}")

    def _check_mask(self, mask: Any) -> None:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            found = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise TypeError(f"options['reset_mask'] must be a bool array, found {found}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"options['reset_mask'] must have shape ({self.num_envs},) and select an environment, found"
                f" shape {mask.shape} with {int(mask.sum())} selected"
            )

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take a step in every environment.

        Returns:
            The observations, rewards (float64), terminations, truncations and infos. With `SAME_STEP`,
            environments that are done have started anew: `infos["final_obs"]` and `infos["final_info"]` tell
            what they ended with, `infos["_final_obs"]` which they are.

        Raises:
            ResetNeeded: `reset` has not been called.
            RuntimeError: with `DISABLED`, an environment is done and was not reset.
            ValueError: the actions have another shape than the action space, or a class that it does not have.
        """
        converter, env = self._converter, self._wrapped
        root = self._last_root()
        if self._ended.any():
            places = np.flatnonzero(self._ended).tolist()
            raise RuntimeError(
                f"environments {places} are done: reset them with options={{'reset_mask': ...}}"
            )
        converter.write_action(root, actions)
        if self._mode is AutoresetMode.SAME_STEP:
            transition, root = env.step_and_maybe_reset(root)
        else:
            transition = env.step(root)
            root = env.step_mdp(transition)
        self._root = root
        following = transition.get("next")
        terminated, truncated = converter.ends(following)
        done = terminated | truncated
        infos: dict[str, Any] = {}
        if self._mode is AutoresetMode.DISABLED:
            self._ended = done
        elif done.any():
            infos = self._final(following, done)
        infos |= self._infos(root, np.ones(self.num_envs, dtype=np.bool_))
        rewards = converter.rewards(following).astype(np.float64)
        return converter.observation(root), rewards, terminated, truncated, infos

    def _final(self, following: TensorDictBase, done: Any) -> dict[str, Any]:
        """What the environments that are done ended with, as Gymnasium's `SyncVectorEnv` tells it."""
        observed = self._converter.observation(following)
        last = np.full(self.num_envs, None, dtype=object)
        for place in np.flatnonzero(done).tolist():
            last[place] = row_of(self.observation_space, observed, place)
        return {
            "final_obs": last,
            "_final_obs": done.copy(),
            "final_info": self._infos(following, done),
            "_final_info": done.copy(),
        }

    def _infos(self, root: TensorDictBase, rows: Any) -> dict[str, Any]:
        """The infos of the selected environments: zeros elsewhere, and which they are."""
        masks = self._converter.masks(root)
        return {} if masks is None else _info("action_mask", masks, rows)

    def render(self) -> Any:
        """What the wrapped environment renders.

        Raises:
            NotImplementedError: it can't.
        """
        return self._rendered()

    def close_extras(self, **kwargs: Any) -> None:
        """Close the wrapped environment."""
        self._close_wrapped()


def _info(name: str, values: Any, rows: Any) -> dict[str, Any]:
    if isinstance(values, dict):
        inner: dict[str, Any] = {}
        for key, value in values.items():
            inner |= _info(key, value, rows)
        return {name: inner, f"_{name}": rows.copy()}
    kept = values.copy()
    kept[~rows] = 0
    return {name: kept, f"_{name}": rows.copy()}
