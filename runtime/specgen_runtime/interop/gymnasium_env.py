"""`GymnasiumEnv`: one of our environments as a `gymnasium.Env`. Importing this module imports Gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium
from tensordict import TensorDictBase

from specgen_runtime.envs import EnvBase
from specgen_runtime.interop.gymnasium_boundary import Boundary, simulator
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumEnv"]


class GymnasiumEnv(gymnasium.Env[Any, Any]):
    """An environment of batch size `()` as a `gymnasium.Env`; see `to_gymnasium`.

    `render_mode`, `metadata`, `spec` and `render` are those of the Gymnasium environment inside, if there is one.

    Args:
        env: the environment inside.
        observation_keys: what is observed.
    """

    def __init__(
        self, env: EnvBase[Any], *, observation_keys: NestedKey | list[NestedKey] | None = None
    ) -> None:
        self._wrapped = env
        self._boundary = Boundary(env, observation_keys)
        self._root: TensorDictBase | None = None
        self.observation_space = self._boundary.observation_space
        self.action_space = self._boundary.action_space
        inside = simulator(env)
        self.metadata = {"render_modes": [], **(getattr(inside, "metadata", None) or {})}
        self.render_mode = getattr(inside, "render_mode", None)
        self.spec = getattr(inside, "spec", None)

    @property
    def wrapped(self) -> EnvBase[Any]:
        """The environment inside."""
        return self._wrapped

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
        root = self._wrapped.reset(**self._boundary.reset_arguments(options))
        self._root = root
        return self._boundary.observation(root), self._info(root)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step.

        Raises:
            ResetNeeded: `reset` has not been called.
            ValueError: the action has another shape than the action space, or a class that it does not have.
        """
        boundary, env = self._boundary, self._wrapped
        root = boundary.started(self._root)
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

    def action_masks(self) -> Any:
        """The allowed actions now, as `info["action_mask"]`: where `sb3_contrib` looks for them.

        Raises:
            AttributeError: the environment has no masks.
        """
        masks = self._boundary.masks(self._boundary.started(self._root))
        if masks is None:
            raise AttributeError(f"{type(self._wrapped).__name__} has no action masks")
        return masks

    def render(self) -> Any:
        """What the environment inside renders.

        Raises:
            NotImplementedError: it can't.
        """
        inside = simulator(self._wrapped)
        return super().render() if inside is None else inside.render()

    def close(self) -> None:
        """Close the environment inside."""
        self._wrapped.close(raise_if_closed=False)

    def __str__(self) -> str:
        return f"<{type(self).__name__}<{type(self._wrapped).__name__}>>"
