"""`GymnasiumAdapter`: what `GymnasiumEnv`, `GymnasiumVectorEnv` and `BatchVecEnv` (Stable-Baselines3) share."""

from __future__ import annotations

from typing import Any

from gymnasium import Env
from gymnasium.error import ResetNeeded
from gymnasium.vector import VectorEnv
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.interop.gymnasium_conversion import GymnasiumConverter
from specgen_runtime.interop.unwrapping import innermost_env, simulator
from specgen_runtime.typing import NestedKey

__all__ = ["GymnasiumAdapter"]


class GymnasiumAdapter:
    """Holds an `EnvBase`, its current root tensordict, and the converter between its tensordicts and Gymnasium's values.

    A class that mixes this in calls `GymnasiumAdapter.__init__`: the libraries' constructors pass nothing on.

    Args:
        env: the wrapped environment.
        observation_keys: what is observed, as for `to_gymnasium`.

    Raises:
        ValueError, KeyError, NotImplementedError: as `GymnasiumConverter`.
    """

    def __init__(self, env: EnvBase[Any], observation_keys: NestedKey | list[NestedKey] | None) -> None:
        self._wrapped = env
        self._converter = GymnasiumConverter(env, observation_keys)
        self._root: TensorDictBase | None = None

    @property
    def wrapped(self) -> EnvBase[Any]:
        """The wrapped environment."""
        return self._wrapped

    def action_masks(self) -> Any:
        """The allowed actions now, int8, as `info["action_mask"]`: where `sb3_contrib` looks for them.

        Raises:
            AttributeError: the environment has no masks.
            ResetNeeded: `reset` has not been called.
        """
        masks = self._converter.masks(self._last_root())
        if masks is None:
            raise AttributeError(f"{type(self._wrapped).__name__} has no action masks")
        return masks

    def _last_root(self) -> TensorDictBase:
        """The root tensordict that the last reset or step returned.

        Raises:
            ResetNeeded: `reset` has not been called.
        """
        if self._root is None:
            raise ResetNeeded("call reset before step")
        return self._root

    def _reset_all(self, options: dict[str, Any] | None) -> TensorDictBase:
        """Reset all environments and keep the root that they return."""
        self._root = root = self._wrapped.reset(**self._reset_arguments(options))
        return root

    def _reset_arguments(self, options: dict[str, Any] | None) -> dict[str, Any]:
        """The keywords of `EnvBase.reset` for Gymnasium's options.

        They are the keywords themselves, unless a Gymnasium environment is wrapped, which takes options.
        """
        if not options:
            return {}
        return (
            {"options": options} if isinstance(simulator(self._wrapped), Env | VectorEnv) else dict(options)
        )

    def _simulator_attribute(self, name: str) -> Any:
        """An attribute of the wrapped Gymnasium environment, of the first one if there are several; else None."""
        gymnasium_env = simulator(self._wrapped)
        if gymnasium_env is not None:
            return getattr(gymnasium_env, name, None)
        found = self._attribute_of_each(name)
        return found[0] if isinstance(found, list) else None

    def _attribute_of_each(self, name: str) -> Any:
        """What the environments of a `SerialEnv`, or its like, have under a name; None if they don't."""
        inner = innermost_env(self._wrapped)
        return getattr(inner, name, None) if isinstance(inner, BatchedEnv) else None

    def _rendered(self) -> Any:
        """What the wrapped environment renders; a list where there are several.

        Raises:
            NotImplementedError: it can't.
        """
        renderer = simulator(self._wrapped)
        render = self._attribute_of_each("render") if renderer is None else renderer.render
        if render is None:
            raise NotImplementedError(f"{type(self._wrapped).__name__} can't be rendered")
        return render()

    def _close_wrapped(self) -> None:
        self._wrapped.close(raise_if_closed=False)
