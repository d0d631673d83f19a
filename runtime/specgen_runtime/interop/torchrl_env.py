"""`to_torchrl`: an `EnvBase` as a TorchRL environment. Importing this module imports TorchRL."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.done import governing_set, pop_reset_masks
from specgen_runtime.envs.keys import show_key
from specgen_runtime.envs.overrides import overrides_rand_action
from specgen_runtime.envs.stepping import finish_reset
from specgen_runtime.interop.group_map import group_map_of
from specgen_runtime.interop.imports import import_torchrl
from specgen_runtime.interop.torchrl_specs import spec_to_torchrl

__all__ = ["TorchRLEnv", "to_torchrl"]

_Base: Any = import_torchrl("torchrl.envs").EnvBase


def to_torchrl(env: EnvBase[Any]) -> Any:
    """Return a `torchrl.envs.EnvBase` around an environment; what `from_torchrl` made is unwrapped.

    Raises:
        TypeError: `env` is not an `EnvBase`, or has a spec that TorchRL has no class for.
    """
    from specgen_runtime.interop.torchrl_wrapper import TorchRLWrapper

    if not isinstance(env, EnvBase):
        raise TypeError(f"to_torchrl needs an EnvBase, found {type(env).__name__}")
    if isinstance(env, TorchRLWrapper):
        return env.wrapped
    _warn_of_unreset_observations(env)
    # Else random actions are draws of the action spec, as TorchRL's are, with the same numbers.
    own = bool(getattr(env, "_action_masks", ())) or overrides_rand_action(env)
    return RandomActionEnv(env) if own else TorchRLEnv(env)


def _warn_of_unreset_observations(env: EnvBase[Any]) -> None:
    sets = env._done_sets
    alone = [show_key(key) for key in env.observation_keys if governing_set(key, sets) is None]
    if alone:
        warnings.warn(
            f"TorchRL does not reset {', '.join(alone)} when an episode ends, only what stands beside or below done"
            f" flags; give {type(env).__name__} done flags at the root",
            stacklevel=4,
        )


class TorchRLEnv(_Base):  # type: ignore[misc]
    """An `EnvBase` as a `torchrl.envs.EnvBase`.

    Steps, resets and seeds are those of the wrapped environment, with its checks. TorchRL merges partial resets,
    resets what is done, and draws random actions from the action spec: transforms may change what an action is.

    Args:
        env: the wrapped environment.
    """

    def __init__(self, env: EnvBase[Any]) -> None:
        super().__init__(
            device=env.device,
            batch_size=env.batch_size,
            allow_done_after_reset=env._allow_done_after_reset,
        )
        # TorchRL keeps it on the class, where the next instance would change it.
        self.__dict__["_batch_locked"] = env.batch_locked
        self._supports_set_state = env._supports_set_state
        self._wrapped = env
        self.is_closed = env.is_closed
        self._take_specs()

    @property
    def wrapped(self) -> EnvBase[Any]:
        """The wrapped environment."""
        env: EnvBase[Any] = self._wrapped
        return env

    @property
    def group_map(self) -> dict[str, list[str]]:
        """The groups of agents, by name.

        Raises:
            AttributeError: there are none.
        """
        return group_map_of(self.wrapped)

    @property
    def render(self) -> Any:
        """The method `render` of the wrapped environment, for TorchRL's recorders.

        Raises:
            AttributeError: it has none.
        """
        wrapped: Any = self.wrapped
        return wrapped.render

    def _take_specs(self) -> None:
        env = self.wrapped
        self.full_action_spec = spec_to_torchrl(env.full_action_spec)
        self.full_state_spec = spec_to_torchrl(env.full_state_spec)
        self.full_observation_spec = spec_to_torchrl(env.full_observation_spec)
        self.full_reward_spec = spec_to_torchrl(env.full_reward_spec)
        self.full_done_spec = spec_to_torchrl(env._env_layout.done.spec)  # with the flags that follow

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        env = self.wrapped
        env._refuse_if_closed()
        if tensordict is None:
            return env.reset(**kwargs)
        # TorchRL keeps the rows outside the masks itself, and need not have passed their entries.
        masks = pop_reset_masks(tensordict.copy(), env._done_sets, env.device)
        fresh = env._reset(tensordict.copy(), **kwargs)
        return finish_reset(env, None, fresh, masks)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        request = tensordict.copy()
        stepping = request.pop("_step", None)
        following: TensorDictBase = self.wrapped.step(request).get("next")
        if stepping is None or bool(stepping.all()):
            return following
        # The rows that are not to step stay where they are; what a root does not have is zero, as in TorchRL.
        staying = self._skip_tensordict(request.exclude("next"))
        kept: TensorDictBase = torch.where(stepping.reshape(following.batch_size), following, staying)
        return kept

    def _set_seed(self, seed: int | None) -> None:
        self.wrapped.set_seed(seed)

    def register_collector(self, collector: Any) -> None:
        """Tell the wrapped environment, too, which collector runs it: its transforms may ask for the policy."""
        super().register_collector(collector)
        tell: Any = getattr(self.wrapped, "register_collector", None)
        if tell is not None:
            tell(collector)

    def to(self, *args: Any, **kwargs: Any) -> TorchRLEnv:
        """Move the wrapped environment, and the specs; in place, returns self."""
        env = self.wrapped.to(*args, **kwargs)
        if env.device is not None:
            super().to(env.device)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The state of the wrapped environment."""
        return self.wrapped.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Restore the state of the wrapped environment."""
        return self.wrapped.load_state_dict(state_dict, *args, **kwargs)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the wrapped environment; `raise_if_closed` is passed on."""
        self.wrapped.close(raise_if_closed=raise_if_closed)
        self.is_closed = True

    def __del__(self) -> None:
        """Leave the wrapped environment open: others may hold it too."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wrapped!r})"


class RandomActionEnv(TorchRLEnv):
    """A `TorchRLEnv` that draws random actions itself: only those that its mask allows, or by its own `rand_action`.

    TorchRL refuses to draw random actions where a transform changes actions of such an environment.
    """

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write random actions as the wrapped environment draws them."""
        drawn: TensorDictBase = self.wrapped.rand_action(tensordict)
        return drawn
