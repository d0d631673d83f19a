"""`Door`: what our environments have in common behind Gymnasium's and Stable-Baselines3's interfaces."""

from __future__ import annotations

from typing import Any

from gymnasium import Env
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.interop.boundary import Boundary
from specgen_runtime.interop.inside import innermost, simulator
from specgen_runtime.typing import NestedKey

__all__ = ["Door"]


class Door:
    """An environment of ours, where it is, and what of it looks the same to each library.

    A class that mixes this in calls `Door.__init__`: the libraries' constructors pass nothing on.

    Args:
        env: the environment inside.
        observation_keys: what is observed, as for `to_gymnasium`.

    Raises:
        ValueError, KeyError, NotImplementedError: as `Boundary`.
    """

    def __init__(self, env: EnvBase[Any], observation_keys: NestedKey | list[NestedKey] | None) -> None:
        self._wrapped = env
        self._boundary = Boundary(env, observation_keys)
        self._root: TensorDictBase | None = None

    @property
    def wrapped(self) -> EnvBase[Any]:
        """The environment inside."""
        return self._wrapped

    def action_masks(self) -> Any:
        """The allowed actions now, int8, as `info["action_mask"]`: where `sb3_contrib` looks for them.

        Raises:
            AttributeError: the environment has no masks.
            ResetNeeded: `reset` has not been called.
        """
        masks = self._boundary.masks(self._started())
        if masks is None:
            raise AttributeError(f"{type(self._wrapped).__name__} has no action masks")
        return masks

    def _started(self) -> TensorDictBase:
        """The root.

        Raises:
            ResetNeeded: there is none: `reset` has not been called.
        """
        if self._root is None:
            raise ResetNeeded("call reset before step")
        return self._root

    def _begin(self, options: dict[str, Any] | None) -> TensorDictBase:
        """Start new episodes everywhere."""
        self._root = root = self._wrapped.reset(**self._reset_arguments(options))
        return root

    def _reset_arguments(self, options: dict[str, Any] | None) -> dict[str, Any]:
        """The keywords of `EnvBase.reset` for Gymnasium's options.

        They are the keywords themselves, but where a Gymnasium environment is inside, which takes options.
        """
        if not options:
            return {}
        return (
            {"options": options} if isinstance(simulator(self._wrapped), Env | VectorEnv) else dict(options)
        )

    def _of_simulator(self, name: str) -> Any:
        """An attribute of the Gymnasium environment inside, of the first one if there are several; else None."""
        inside = simulator(self._wrapped)
        if inside is not None:
            return getattr(inside, name, None)
        found = self._of_each(name)
        return found[0] if isinstance(found, list) else None

    def _of_each(self, name: str) -> Any:
        """What the environments of a `SerialEnv`, or its like, have under a name; None if they don't."""
        inside = innermost(self._wrapped)
        return getattr(inside, name, None) if isinstance(inside, BatchedEnv) else None

    def _rendered(self) -> Any:
        """What the environment inside renders; a list where there are several.

        Raises:
            NotImplementedError: it can't.
        """
        inside = simulator(self._wrapped)
        render = self._of_each("render") if inside is None else inside.render
        if render is None:
            raise NotImplementedError(f"{type(self._wrapped).__name__} can't be rendered")
        return render()

    def _close_inside(self) -> None:
        self._wrapped.close(raise_if_closed=False)
