"""Reading the arguments of collectors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.specs.arguments import as_count, as_device
from specgen_runtime.typing import DEVICE_TYPING

__all__ = [
    "Buffer",
    "as_total",
    "devices",
    "made_env",
    "made_policy",
    "refuse_contradictions",
    "register_collector",
    "steps_of_batch",
    "storage_dims",
    "write_reset_masks",
]


class Buffer(Protocol):
    """What a collector asks of a replay buffer."""

    @property
    def write_count(self) -> int:
        """How many rows were written in all."""
        ...

    def extend(self, data: Any, /) -> Any:
        """Write a batch."""


def devices(common: DEVICE_TYPING | None, *own: DEVICE_TYPING | None) -> list[torch.device | None]:
    """Devices of parts, which are the common one where a part has none of its own."""
    return [
        None if each is None else as_device(each) for each in (common if one is None else one for one in own)
    ]


def as_total(total_frames: int | None) -> float:
    """How many transitions to collect: infinity for None and negative numbers."""
    return math.inf if total_frames is None or total_frames < 0 else int(total_frames)


def made_env(create: Any, kwargs: Mapping[str, Any]) -> EnvBase[Any]:
    """The environment that was given, or that a function makes.

    Raises:
        TypeError: it is none; or there are keywords for an environment that is there.
    """
    if isinstance(create, EnvBase):
        if kwargs:
            raise TypeError(f"create_env_kwargs={dict(kwargs)!r} are for a function, not for an environment")
        return create
    env = create(**kwargs) if callable(create) else create
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"create_env_fn is to be, or to make, an EnvBase, found {type(env).__name__}; from_torchrl and from_gymnasium"
            " make one of other libraries' environments"
        )
    return env


def made_policy(policy: Any, factory: Callable[[], Any] | None) -> Any:
    """The policy that was given, or that a function makes. Raises TypeError if there are both, or it is not callable."""
    if factory is not None:
        if policy is not None:
            raise TypeError("policy and policy_factory exclude each other")
        policy = factory()
    if policy is not None and not callable(policy):
        raise TypeError(f"a policy must be callable, found {type(policy).__name__}")
    return policy


def steps_of_batch(frames: int, environments: int) -> int:
    """How many steps give so many transitions, rounded up with a warning. Raises ValueError if there are none, or no environments."""
    frames = as_count(frames, "frames_per_batch")
    if not environments:
        raise ValueError("the environment has a batch size of 0: there are no environments to collect from")
    steps = -(-frames // environments)
    if steps * environments != frames:
        warnings.warn(
            f"frames_per_batch={frames} is no multiple of the {environments} environments: batches have"
            f" {steps * environments}",
            stacklevel=3,
        )
    return steps


def refuse_contradictions(
    *,
    split_trajs: Any,
    track_traj_ids: Any = True,
    same: Any = False,
    buffer: Any,
    whole: Any,
    random: Any = None,
) -> None:
    """Refuse keywords that exclude each other, by a ValueError."""
    if split_trajs and not track_traj_ids:
        raise ValueError("split_trajs=True needs the numbers of trajectories: leave track_traj_ids")
    if same and buffer is not None:
        raise ValueError("return_same_td=True with a replay buffer: nothing is returned then")
    if whole and (same or split_trajs or random or buffer is not None):
        raise ValueError(
            "whole_episodes=True gives batches of several lengths, of what the policy does: it goes without"
            " return_same_td, split_trajs, init_random_frames and replay_buffer"
        )


def register_collector(collector: Any, *parts: Any) -> None:
    """Tell the policy and the environment who calls them, where they ask for it."""
    for part in parts:
        register = getattr(part, "register_collector", None)
        if callable(register):
            register(collector)


def write_reset_masks(env: EnvBase[Any], root: Any, index: Any) -> torch.Tensor:
    """Write the reset masks of some environments into a root; returns the mask, bool of the batch size."""
    size = env.batch_size
    mask = torch.zeros(size, dtype=torch.bool)
    mask[index] = True
    for s in env._env_layout.root_sets:
        shaped = mask.reshape(*size, *[1] * len(s.shape)).expand(*size, *s.shape)
        root.set(s.reset, shaped.to(env.device or "cpu").clone())
    return mask


def storage_dims(buffer: Any) -> int:
    """How many dimensions of a batch count the elements of a replay buffer."""
    return int(getattr(getattr(buffer, "storage", None), "ndim", 1))
