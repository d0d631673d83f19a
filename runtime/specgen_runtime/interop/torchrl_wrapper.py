"""`from_torchrl`: a TorchRL environment as an `EnvBase`. Importing this module imports TorchRL."""

from __future__ import annotations

from typing import Any, Self

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.done import pop_reset_masks
from specgen_runtime.envs.layout import Entry
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.interop.group_map import group_map_of
from specgen_runtime.interop.imports import import_torchrl
from specgen_runtime.interop.torchrl_specs import spec_from_torchrl

__all__ = ["TorchRLWrapper", "from_torchrl"]

_Base: Any = import_torchrl("torchrl.envs").EnvBase
_Batched: Any = import_torchrl("torchrl.envs.batched_envs").BatchedEnvBase


def from_torchrl(env: Any) -> EnvBase[Any]:
    """Return an `EnvBase` around a `torchrl.envs.EnvBase`; what `to_torchrl` made is unwrapped.

    Raises:
        TypeError: `env` is not a TorchRL environment, or has a spec that is not known here.
        ValueError: its done spec has leaves that are no done flags, or a spec that contradicts itself.
    """
    from specgen_runtime.interop.torchrl_env import TorchRLEnv

    if not isinstance(env, _Base):
        raise TypeError(f"from_torchrl needs a torchrl.envs.EnvBase, found {type(env).__name__}")
    return env.wrapped if isinstance(env, TorchRLEnv) else TorchRLWrapper(env)


class TorchRLWrapper(EnvBase[D]):
    """A `torchrl.envs.EnvBase` as an `EnvBase`.

    Random actions and seeds are those of the wrapped environment. Its data are checked, and its
    done flags completed by the rules of `EnvBase`.

    Args:
        env: the wrapped environment.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(
            device=env.device,
            batch_size=env.batch_size,
            batch_locked=env.batch_locked,
            allow_done_after_reset=env._allow_done_after_reset,
        )
        self._supports_set_state = bool(getattr(env, "_supports_set_state", False))
        self._env = env
        self._take_specs()

    @property
    def wrapped(self) -> Any:
        """The wrapped environment."""
        return self._env

    @property
    def group_map(self) -> dict[str, list[str]]:
        """The groups of agents, by name.

        Raises:
            AttributeError: there are none.
        """
        return group_map_of(self._env)

    def _take_specs(self) -> None:
        self.full_action_spec = spec_from_torchrl(self._env.full_action_spec)
        self.full_state_spec = spec_from_torchrl(self._env.full_state_spec)
        self.full_observation_spec = spec_from_torchrl(self._env.full_observation_spec)
        self.full_reward_spec = spec_from_torchrl(self._env.full_reward_spec)
        self.full_done_spec = spec_from_torchrl(self._env.full_done_spec)

    def _reset(self, tensordict: D | None, **kwargs: Any) -> TensorDictBase:
        fresh = self._shaped(self._env._reset(tensordict, **kwargs), self._env_layout.done.entries)
        return fresh if tensordict is None else self._with_kept_rows(tensordict, fresh)

    def _with_kept_rows(self, tensordict: D, fresh: Any) -> Any:
        """What TorchRL's `SerialEnv` and `ParallelEnv` return, with what was last observed outside the masks.

        They leave older data there. Other environments have to return the right rows themselves.
        """
        if not self._is_batch():
            return fresh
        masks = pop_reset_masks(tensordict.copy(), self._done_sets, self._device)
        known = [key for key in fresh.keys(True, True) if tensordict.get(key, None) is not None]
        if masks and known:
            kept = tensordict.select(*known)
            merge_reset(kept, fresh.select(*known), masks)
            fresh.update(kept)
        return fresh

    def _is_batch(self) -> bool:
        """Whether it is TorchRL's `SerialEnv` or `ParallelEnv`, transformed or not."""
        inner = self._env
        while inner is not None and not isinstance(inner, _Batched):
            inner = getattr(inner, "base_env", None)
        return inner is not None

    def _steps_rows(self) -> bool:
        return self._is_batch() or super()._steps_rows()

    def _step(self, tensordict: D) -> TensorDictBase:
        return self._shaped(
            self._env._step(tensordict), self._env_layout.reward.entries + self._env_layout.done.entries
        )

    def _shaped(self, result: Any, entries: tuple[Entry, ...]) -> Any:
        """Give rewards and flags the shape of their spec, which TorchRL does not ask of environments."""
        if not isinstance(result, TensorDictBase):
            return result
        for expected in entries:
            value = expected.leaf.find(result)
            shape = (*expected.leaf.batch_of(result.batch_size), *expected.shape)
            if (
                isinstance(value, torch.Tensor)
                and not expected.leaf.items
                and value.shape != shape
                and -1 not in shape
                and value.numel() == torch.Size(shape).numel()
            ):
                result.set(expected.leaf.key, value.reshape(shape))
        return result

    def step_and_maybe_reset(self, tensordict: D) -> tuple[D, D]:
        """Advance by one step, then reset the environments that are done; see `EnvBase`."""
        tensordict = self.step(tensordict)
        following = self.step_mdp(tensordict)
        hooks = getattr(self._env, "_post_step_mdp_hooks", None)
        if hooks is not None:
            tensordict, following = hooks(tensordict, following)
        return tensordict, self.maybe_reset(following)

    def rand_action(self, tensordict: D | None = None) -> D:
        """Write random actions as the wrapped environment draws them."""
        drawn: D = self._env.rand_action(tensordict)
        return drawn

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the wrapped environment.

        Returns:
            The seed for the next environment: what TorchRL says for a batch, the input for a single one.
        """
        following: int | None = self._env.set_seed(seed, static_seed=static_seed)
        return following if self.batch_size else seed

    def _set_seed(self, seed: int | None) -> None:
        self.set_seed(seed)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the wrapped environment, and the specs; in place, returns self."""
        super().to(*args, **kwargs)
        if self._device is not None and self._env.device != self._device:
            self._env = self._env.to(self._device)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """The state of the wrapped environment."""
        state: dict[str, Any] = self._env.state_dict(*args, **kwargs)
        return state

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Restore the state of the wrapped environment."""
        return self._env.load_state_dict(state_dict, *args, **kwargs)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the wrapped environment too."""
        super().close(raise_if_closed=raise_if_closed)
        self._env.close(raise_if_closed=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._env!r})"
