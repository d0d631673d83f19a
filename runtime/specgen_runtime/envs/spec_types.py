"""The types of an environment's specs and keys, for type checkers: how `env.action_spec.n` is known to be an int.

An environment class says them by its second type argument, a class with the attributes of `SpecTypes`. Each spec of
`EnvBase` is a descriptor that reads its type from there, by the protocol that has just that attribute; see
`descriptors.py`. (Keys have a
class with type arguments: pyright would widen the `Literal` of an attribute to `str`.)
"""

from __future__ import annotations

from typing import Protocol

from typing_extensions import TypeVar

from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["KeyTypes", "SpecTypes"]


ActionKey = TypeVar("ActionKey", bound=NestedKey, covariant=True)
RewardKey = TypeVar("RewardKey", bound=NestedKey, covariant=True)
DoneKey = TypeVar("DoneKey", bound=NestedKey, covariant=True)


class KeyTypes(Protocol[ActionKey, RewardKey, DoneKey]):
    """What the keys of an environment are: those of its only action, reward and done flag."""

    @property
    def action_key(self) -> ActionKey: ...  # noqa: D102
    @property
    def reward_key(self) -> RewardKey: ...  # noqa: D102
    @property
    def done_key(self) -> DoneKey: ...  # noqa: D102


class SpecTypes(KeyTypes[NestedKey, NestedKey, NestedKey], Protocol):
    """What each spec and each key of an environment is; as it stands here, all that is known of any environment."""

    @property
    def action_spec(self) -> TensorSpec: ...  # noqa: D102
    @property
    def full_action_spec(self) -> Composite: ...  # noqa: D102
    @property
    def observation_spec(self) -> Composite: ...  # noqa: D102
    @property
    def state_spec(self) -> Composite: ...  # noqa: D102
    @property
    def reward_spec(self) -> TensorSpec: ...  # noqa: D102
    @property
    def full_reward_spec(self) -> Composite: ...  # noqa: D102
    @property
    def done_spec(self) -> TensorSpec: ...  # noqa: D102
    @property
    def full_done_spec(self) -> Composite: ...  # noqa: D102


S = TypeVar("S", bound=SpecTypes, default=SpecTypes, covariant=True)
"""The types of an environment's specs."""

Some = TypeVar("Some", default=SpecTypes, covariant=True)
"""The types of some of them: what one attribute needs to know."""
