"""Gymnasium environments as `EnvBase`: `GymEnv` by name, `GymWrapper` around an instance."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.envs.gym.values import action_decoder, value_encoder
from specgen_runtime.specs import Categorical, Composite, Unbounded
from specgen_runtime.specs.gymnasium import import_gymnasium, space_kind, space_to_spec
from specgen_runtime.typing import DEVICE_TYPING

__all__ = ["GymEnv", "GymWrapper"]


class GymWrapper(EnvBase[D]):
    """A single Gymnasium environment as `EnvBase`.

    Reads `action`; gives `observation` (the names of the space, for a Dict), `reward` float32 `(1,)`, and
    `done`, `terminated`, `truncated` bool `(1,)`.

    Args:
        env: a Gymnasium environment.
        categorical_action_encoding: indices instead of one-hot vectors for discrete spaces.
        device: the device of all data; None leaves it open (tensors are on the CPU).

    Raises:
        TypeError: `env` has no `action_space` and `observation_space`, or a space that no spec describes.
    """

    def __init__(
        self,
        env: Any,
        *,
        categorical_action_encoding: bool = False,
        device: DEVICE_TYPING | None = None,
    ) -> None:
        if not all(hasattr(env, name) for name in ("action_space", "observation_space", "reset", "step")):
            raise TypeError(f"GymWrapper needs a Gymnasium environment, found {type(env).__name__}")
        super().__init__(device=device)
        self._env = env
        self._seed: int | None = None
        self._categorical = categorical_action_encoding
        self._build_specs()

    @property
    def wrapped(self) -> Any:
        """The Gymnasium environment."""
        return self._env

    def _build_specs(self) -> None:
        def entries_of(name: str, space: Any) -> Any:
            spec = space_to_spec(space, categorical_action_encoding=self._categorical, device=self._device)
            return spec if space_kind(space) == "Dict" else Composite({name: spec}, device=self._device)

        flags = {
            name: Categorical(2, shape=(1,), dtype=torch.bool, device=self._device)
            for name in ("done", "terminated", "truncated")
        }
        self.action_spec = entries_of("action", self._env.action_space)
        self.observation_spec = entries_of("observation", self._env.observation_space)
        self.reward_spec = Unbounded(shape=(1,), dtype=torch.float32, device=self._device)
        self.full_done_spec = Composite(flags, device=self._device)
        self._build_converters()

    def _build_converters(self) -> None:
        self._single_action = space_kind(self._env.action_space) != "Dict"
        action: Any = self.full_action_spec
        if self._single_action:
            action = action["action"]
        self._decode = action_decoder(self._env.action_space, action)
        observed: Any = self.full_observation_spec
        if space_kind(self._env.observation_space) != "Dict":
            observed = observed["observation"]
        self._encode = value_encoder(self._env.observation_space, observed)

    def __getstate__(self) -> dict[str, Any]:
        # The converters are closures over the spaces: made again from the specs.
        return {name: value for name, value in self.__dict__.items() if name not in ("_decode", "_encode")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore: Any = super().__setstate__
        restore(state)
        self._build_converters()

    def _move_specs(self, device: torch.device) -> None:
        super()._move_specs(device)
        self._build_specs()

    def _entries(self, observation: Any) -> dict[str, Any]:
        encoded = self._encode(observation)
        return encoded if isinstance(encoded, dict) else {"observation": encoded}

    def _reset(self, tensordict: TensorDictBase | None, **kwargs: Any) -> TensorDict:
        seed, self._seed = self._seed, None
        if seed is not None and kwargs.get("seed") is None:
            kwargs["seed"] = seed
        observation, _info = self._env.reset(**kwargs)
        return TensorDict(self._entries(observation), device=self._device)

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        action = tensordict.get("action") if self._single_action else tensordict
        observation, reward, terminated, truncated, _info = self._env.step(self._decode(action))
        ended, cut = bool(terminated), bool(truncated)
        return TensorDict(
            {
                **self._entries(observation),
                "reward": torch.tensor([float(reward)], dtype=torch.float32),
                "done": torch.tensor([ended or cut]),
                "terminated": torch.tensor([ended]),
                "truncated": torch.tensor([cut]),
            },
            device=self._device,
        )

    def _set_seed(self, seed: int | None) -> None:
        """The next reset passes the seed on; later resets continue from it, as Gymnasium's own do."""
        self._seed = seed

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the Gymnasium environment too."""
        super().close(raise_if_closed=raise_if_closed)
        self._env.close()


class GymEnv(GymWrapper[D]):
    """A Gymnasium environment by its id, made with `gymnasium.make`.

    Args:
        id: such as `"CartPole-v1"`.
        categorical_action_encoding: indices instead of one-hot vectors for discrete spaces.
        device: the device of all data; None leaves it open (tensors are on the CPU).
        **gym_kwargs: passed to `gymnasium.make`.

    Raises:
        ImportError: Gymnasium is not installed.
    """

    def __init__(
        self,
        id: str,
        *,
        categorical_action_encoding: bool = False,
        device: DEVICE_TYPING | None = None,
        **gym_kwargs: Any,
    ) -> None:
        super().__init__(
            import_gymnasium().make(id, **gym_kwargs),
            categorical_action_encoding=categorical_action_encoding,
            device=device,
        )
