"""`GymnasiumEnv`: one of our environments as a `gymnasium.Env`. Importing this module imports Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.interop.door import Door
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(Door, gymnasium.Env[Any, Any]):
    """An environment of batch size `()` as a `gymnasium.Env`; see `to_gymnasium`.

    `render_mode`, `metadata`, `spec` and `render` are those of the Gymnasium environment inside, if there is one.

    Args:
        env: the environment inside.
        observation_keys: what is observed.
    """

    def __init__(
        self, env: EnvBase[Any], *, observation_keys: NestedKey | list[NestedKey] | None = None
    ) -> None:
        Door.__init__(self, env, observation_keys)
        self.observation_space = self._boundary.observation_space
        self.action_space = self._boundary.action_space
        self.metadata = {"render_modes": [], **(self._of_simulator("metadata") or {})}
        self.render_mode = self._of_simulator("render_mode")
        self.spec = self._of_simulator("spec")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start a new episode.

        Args:
            seed: passed to `set_seed`; None goes on with the random numbers there are.
            options: keywords of `EnvBase.reset`, or the options of the Gymnasium environment inside.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._wrapped.set_seed(seed)
        root = self._begin(options)
        return self._boundary.observation(root), self._info(root)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            ResetNeeded: `reset` has not been called.
            ValueError: the action has another shape than the action space, or a class that it does not have.
        """
        boundary, env = self._boundary, self._wrapped
        root = self._started()
        boundary.write_action(root, action)
        transition = env.step(root)
        following = transition.get("next")
        self._root = root = env.step_mdp(transition)
        terminated, truncated = boundary.ends(following)
        return (
            boundary.observation(following),
            float(boundary.rewards(following)),
            bool(terminated),
            bool(truncated),
            self._info(root),
        )

    def _info(self, root: TensorDictBase) -> dict[str, Any]:
        masks = self._boundary.masks(root)
        return {} if masks is None else {"action_mask": masks}

    def render(self) -> Any:
        """What the environment inside renders.

        Raises:
            NotImplementedError: it can't.
        """
        return self._rendered()

    def close(self) -> None:
        """Close the environment inside."""
        self._close_inside()

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{type(self._wrapped).__name__}>>"
