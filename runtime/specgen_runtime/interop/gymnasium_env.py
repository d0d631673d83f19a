"""`GymnasiumEnv`: an `EnvBase` of batch size `()` as a `gymnasium.Env`. Importing this module imports Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.interop.gymnasium_adapter import GymnasiumAdapter
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(GymnasiumAdapter, gymnasium.Env[Any, Any]):
    """An environment of batch size `()` as a `gymnasium.Env`; see `to_gymnasium`.

    `render_mode`, `metadata`, `spec` and `render` are those of the wrapped Gymnasium environment, if there is one.

    Args:
        env: the wrapped environment.
        observation_keys: what is observed.
    """

    def __init__(
        self, env: EnvBase[Any], *, observation_keys: NestedKey | list[NestedKey] | None = None
    ) -> None:
        GymnasiumAdapter.__init__(self, env, observation_keys)
        self.observation_space = self._converter.observation_space
        self.action_space = self._converter.action_space
        self.metadata = {"render_modes": [], **(self._simulator_attribute("metadata") or {})}
        self.render_mode = self._simulator_attribute("render_mode")
        self.spec = self._simulator_attribute("spec")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: passed to `set_seed`; None goes on with the random numbers there are.
            options: keywords of `EnvBase.reset`, or the options of the wrapped Gymnasium environment.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._wrapped.set_seed(seed)
        root = self._reset_all(options)
        return self._converter.observation(root), self._info(root)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            ResetNeeded: `reset` has not been called.
            ValueError: the action has another shape than the action space, or a class that it does not have.
        """
        converter, env = self._converter, self._wrapped
        root = self._last_root()
        converter.write_action(root, action)
        transition = env.step(root)
        following = transition.get("next")
        self._root = root = env.step_mdp(transition)
        terminated, truncated = converter.ends(following)
        return (
            converter.observation(following),
            float(converter.rewards(following)),
            bool(terminated),
            bool(truncated),
            self._info(root),
        )

    def _info(self, root: TensorDictBase) -> dict[str, Any]:
        masks = self._converter.masks(root)
        return {} if masks is None else {"action_mask": masks}

    def render(self) -> Any:
        """What the wrapped environment renders.

        Raises:
            NotImplementedError: it can't.
        """
        return self._rendered()

    def close(self) -> None:
        """Close the wrapped environment."""
        self._close_wrapped()

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{type(self._wrapped).__name__}>>"
