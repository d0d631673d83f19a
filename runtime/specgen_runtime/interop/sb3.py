"""`BatchVecEnv`: an `EnvBase` of batch size `(n,)` as Stable-Baselines3's `VecEnv`. Importing this module imports Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.interop.gymnasium_adapter import GymnasiumAdapter
from specgen_runtime.interop.gymnasium_conversion import row_of
from specgen_runtime.interop.imports import import_sb3
from specgen_runtime.typing import NestedKey

__all__ = ["BatchVecEnv"]

_VecEnv: Any = import_sb3("stable_baselines3.common.vec_env").VecEnv


class BatchVecEnv(GymnasiumAdapter, _VecEnv):  # type: ignore[misc]
    """An environment of batch size `(n,)` as a `VecEnv`; see `to_sb3`.

    Environments that are done start anew within the step; `infos` then have `"terminal_observation"`. The batch
    steps as one: `get_attr` and `env_method` give the same answer for each environment.

    Args:
        env: the wrapped environment.
        observation_keys: what is observed.

    Raises:
        ValueError: the batch size is not `(n,)`.
    """

    def __init__(
        self, env: EnvBase[Any], *, observation_keys: NestedKey | list[NestedKey] | None = None
    ) -> None:
        if len(env.batch_size) != 1:
            raise ValueError(
                f"to_sb3 needs the batch size (n,), found {list(env.batch_size)}; Stable-Baselines3 takes"
                " to_gymnasium(env) for a single environment"
            )
        GymnasiumAdapter.__init__(self, env, observation_keys)
        self._actions: Any = None
        _VecEnv.__init__(
            self,
            env.batch_size[0],
            self._converter.single_observation_space,
            self._converter.single_action_space,
        )

    def reset(self) -> Any:
        """Start new episodes everywhere, with the seed that `seed` was given and the options of `set_options`."""
        if self._seeds[0] is not None:
            self._wrapped.set_seed(self._seeds[0])
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ValueError("the environments of a batch are reset together: their options can't differ")
        root = self._reset_all(options)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return self._converter.observation(root)

    def step_async(self, actions: Any) -> None:
        """Keep the actions `(n, ...)` for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Take the step.

        Returns:
            Observations, rewards float32 `(n,)`, dones bool `(n,)`, and a dict for each environment.

        Raises:
            ResetNeeded: `reset` has not been called.
            ValueError: the actions have another shape than the action space, or a class that it does not have.
        """
        converter = self._converter
        root = self._last_root()
        converter.write_action(root, self._actions)
        transition, root = self._wrapped.step_and_maybe_reset(root)
        self._root = root
        following = transition.get("next")
        terminated, truncated = converter.ends(following)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        if done.any():
            observed = converter.observation(following)
            for place in np.flatnonzero(done).tolist():
                infos[place] = {
                    "TimeLimit.truncated": bool(truncated[place] and not terminated[place]),
                    "terminal_observation": row_of(converter.observation_space, observed, place),
                }
        rewards = converter.rewards(following).astype(np.float32)
        return converter.observation(root), rewards, done, infos

    def close(self) -> None:
        """Close the wrapped environment."""
        self._close_wrapped()

    def get_images(self) -> Any:
        """The frames of all environments, where the wrapped environment renders them.

        Raises:
            NotImplementedError: it can't.
        """
        return self._rendered()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the wrapped environment, once for each index.

        Raises:
            AttributeError: there is none.
        """
        if attr_name == "render_mode":
            value = self._simulator_attribute("render_mode")
        else:
            value = getattr(self._wrapped, attr_name)
        return [value for _ in self._places(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the wrapped environment.

        Raises:
            ValueError: not for all environments: they are one.
        """
        if len(self._places(indices)) != self.num_envs:
            raise ValueError("the environments of a batch are one: set attributes for all of them")
        setattr(self._wrapped, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the wrapped environment, once; its result is given for each index.

        `action_masks` gives each environment's row of the masks, as `sb3_contrib` asks for them.

        Raises:
            AttributeError: there is no such method.
        """
        places = self._places(indices)
        if method_name == "action_masks":
            masks = self.action_masks()
            return [_row(masks, place) for place in places]
        result = getattr(self._wrapped, method_name)(*method_args, **method_kwargs)
        return [result for _ in places]

    def has_attr(self, attr_name: str) -> bool:
        """Whether the wrapped environment has an attribute; `action_masks` if it has masks."""
        if attr_name == "action_masks":
            return bool(self._converter._masks)
        return bool(super().has_attr(attr_name))

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for each index: no environment is wrapped in a Gymnasium wrapper."""
        return [False for _ in self._places(indices)]

    def _places(self, indices: Any) -> list[int]:
        places: Iterable[int] = self._get_indices(indices)
        return list(places)


def _row(masks: Any, place: int) -> Any:
    if isinstance(masks, dict):
        return {action: mask[place] for action, mask in masks.items()}
    return masks[place]
