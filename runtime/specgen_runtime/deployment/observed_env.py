"""`ObservedEnv`: the specs of an environment that is elsewhere, with the transforms of a training around it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard

from torch import Tensor, equal

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.batched.base import BatchedEnv
from specgen_runtime.envs.batched.serial import SerialEnv
from specgen_runtime.envs.generated.env import GeneratedEnv
from specgen_runtime.envs.generated.learning import LearningChain
from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.envs.wrapping import WrappingEnv
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.compose import Compose, leaves
from specgen_runtime.transforms.env import TransformedEnv
from specgen_runtime.transforms.held_statistics import StatisticsTransform
from specgen_runtime.transforms.unfused import Unfused
from specgen_runtime.transforms.vec_norm import VecNormV2
from specgen_runtime.typing import DEVICE_TYPING, Entries

__all__ = ["ObservedEnv", "learned_apart", "observed"]


class ObservedEnv(GeneratedEnv[Any, Any]):
    """The specs of an environment that nobody steps here: what it observes is given to those who ask.

    Args:
        specs: of one instance.
        group_map: its groups of agents.
        batch_size: how many are observed side by side.
        device: of the data.
        batch_locked: whether there are never more of them, in front of the batch size.
    """

    def __init__(
        self,
        specs: EnvSpecs,
        group_map: dict[str, list[str]],
        *,
        batch_size: Sequence[int],
        device: DEVICE_TYPING | None,
        batch_locked: bool = True,
    ) -> None:
        super().__init__(batch_size=batch_size, device=device)
        self._batch_locked = batch_locked
        self._known_specs = specs
        self.__dict__["group_map"] = group_map
        self._build()

    def _specs(self) -> EnvSpecs:
        return self._known_specs.to(self.device)

    def _read(self, tensordict: Entries) -> Any:
        return ()

    def _fresh(self) -> NoReturn:
        raise RuntimeError(
            "what this environment observes is given by DeployedPolicy's caller: nobody resets it"
        )

    def _advance(self, root: Any, actions: tuple[Any, ...]) -> NoReturn:
        raise RuntimeError(
            "what this environment observes is given by DeployedPolicy's caller: nobody steps it"
        )


def observed(
    env: EnvBase[Any, Any],
    batch_size: Sequence[int],
    device: DEVICE_TYPING | None,
    *,
    batch_locked: bool = True,
) -> TransformedEnv[Any]:
    """The transforms of an environment as objects, with copies of what they have learned, around an `ObservedEnv`.

    Raises:
        TypeError: `env` runs in other processes, or a transform can't be copied.
    """
    specs, group_map, transforms = _taken_apart(env)
    base = ObservedEnv(specs, group_map, batch_size=batch_size, device=device, batch_locked=batch_locked)
    return TransformedEnv(base, Compose(*map(_of_its_own, transforms)))


def learned_apart(env: EnvBase[Any, Any]) -> set[int]:
    """The places, among the transforms of `observed`, of those that the environments of a `SerialEnv` have learned apart."""
    while isinstance(env, WrappingEnv):
        env = env.base_env
    if not isinstance(env, SerialEnv):
        return set()
    first, *others = (_taken_apart(one)[2] for one in env.envs)
    return {
        place
        for place, one in enumerate(first)
        if any(place < len(other) and not _same(one, other[place]) for other in others)
    }


def _same(one: Transform, other: Transform) -> bool:
    """Whether what two transforms hold is equal; what is no number is taken to be."""
    mine, others = one.state_dict(), other.state_dict()
    pairs = [(value, others.get(key)) for key, value in mine.items()]
    return all(equal(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor))


def _taken_apart(env: EnvBase[Any, Any]) -> tuple[EnvSpecs, dict[str, list[str]], list[Transform]]:
    """The specs of one instance of the environment inside, its groups of agents, and the transforms around it."""
    if isinstance(env, WrappingEnv):
        specs, group_map, transforms = _taken_apart(env.base_env)
        own = leaves(env.transform) if isinstance(env, TransformedEnv) else ()
        return specs, group_map, [*transforms, *own]
    if isinstance(env, SerialEnv):
        return _taken_apart(env.envs[0])
    if isinstance(env, BatchedEnv):
        raise TypeError(
            f"DeployedPolicy: the transforms of a {type(env).__name__} are in other processes: give it one of the"
            " environments, with the statistics of the training"
        )
    if isinstance(env, GeneratedEnv) and (unfused := getattr(env, "_unfused", None)) is not None:
        parts: Unfused = unfused()
        for place, transform in enumerate(parts.transforms):
            learned = env.transforms[str(place)] if _learns(env, place) else None
            if isinstance(transform, StatisticsTransform) and isinstance(learned, StatisticsTransform):
                transform._statistics = learned._statistics
        return parts.env_class._specs(env), env.group_map, list(parts.transforms)  # type: ignore[attr-defined]
    if isinstance(env, GeneratedEnv):
        return env._specs(), env.group_map, []
    return _specs_of(env), getattr(env, "group_map", {}), []


def _learns(env: GeneratedEnv[Any, Any], place: int) -> TypeGuard[LearningChain[Any, Any]]:
    """Whether a chain keeps what its transform at a place has learned."""
    return isinstance(env, LearningChain) and str(place) in env.transforms


def _specs_of(env: EnvBase[Any, Any]) -> EnvSpecs:
    """The specs of one instance of an environment that is written by hand, or by another library."""
    rows = (0,) * len(env.batch_size)
    groups = (
        env.full_action_spec,
        env.full_observation_spec,
        env.full_reward_spec,
        env.full_done_spec,
        env.full_state_spec,
    )
    return EnvSpecs(*(group[rows] if rows else group for group in groups))


def _of_its_own(transform: Transform) -> Transform:
    """A copy that shares nothing, and whose statistics stay as they are now.

    Raises:
        TypeError: it can't be copied.
    """
    if isinstance(transform, StatisticsTransform) or (
        isinstance(transform, VecNormV2) and transform.stateful
    ):
        transform = transform.frozen_copy()
    try:
        return copy.deepcopy(transform.clone())
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"DeployedPolicy: {type(transform).__name__} holds what can't be copied ({error}); a class whose objects may be"
            " used by several at once says so: def __deepcopy__(self, memo): return self"
        ) from error
