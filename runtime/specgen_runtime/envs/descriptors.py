"""The attributes of `EnvBase` that follow one pattern each: its specs, their keys, and its flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import TypeVar

from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.spec_properties import SpecProperties

__all__ = [
    "ActionSpec",
    "DoneSpec",
    "Flag",
    "FullActionSpec",
    "FullDoneSpec",
    "FullRewardSpec",
    "GroupKeys",
    "JoinedSpec",
    "ObservationSpec",
    "RewardSpec",
    "StateSpec",
]

Leaf = TypeVar("Leaf", bound=TensorSpec, covariant=True)
Group = TypeVar("Group", bound=Composite, covariant=True)


class SpecProperty:
    """A spec of an environment as an attribute that can be read and set; the attribute's name says which.

    `full_action_spec` is the composite of all actions, `action_spec` its only leaf where there is just one, and
    either with `_unbatched` is that of one environment of the batch. Likewise for rewards and done flags; of
    observations and states the short name is the composite, too.

    Args:
        doc: what the attribute holds; needed for specs of the whole batch.
    """

    def __init__(self, doc: str | None = None) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.batched_name = name.removesuffix("_unbatched")
        if name != self.batched_name:
            self.__doc__ = f"`{self.batched_name}` of one environment; setting it adds the batch size."
        self.is_group = self.batched_name.startswith("full_")
        self.group = self.batched_name if self.is_group else f"full_{self.batched_name}"
        self.is_leaf = self.batched_name in ("action_spec", "reward_spec", "done_spec")

    def read(self, env: Any) -> Any:
        """The spec as it is now; the composite is taken from its own attribute, which a subclass may override."""
        if env is None:
            return self
        if self.name == self.group:
            return env._group(self.group)
        spec = getattr(env, self.group)
        if self.name != self.batched_name and env._batch_size:
            spec = spec[(0,) * len(env._batch_size)]
        if self.is_leaf:
            leaves = list(spec.values(True, True))
            if len(leaves) == 1 and leaves[0] is not None:
                return leaves[0]
        return spec

    def __set__(self, env: Any, spec: TensorSpec | None) -> None:
        if self.name == self.batched_name:
            env._set_group(self.group, spec)
            return
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"a spec is expected, found {type(spec).__name__}")
        setattr(env, self.batched_name, env._batched(spec))


class HasAction(Protocol[Leaf]):
    """The type of `action_spec`."""

    @property
    def action_spec(self) -> Leaf: ...


class ActionSpec(SpecProperty):
    """`action_spec`."""

    def __get__(self, env: SpecProperties[HasAction[Leaf]], owner: type | None = None) -> Leaf:
        spec: Leaf = self.read(env)
        return spec


class HasFullAction(Protocol[Group]):
    """The type of `full_action_spec`."""

    @property
    def full_action_spec(self) -> Group: ...


class FullActionSpec(SpecProperty):
    """`full_action_spec`."""

    def __get__(self, env: SpecProperties[HasFullAction[Group]], owner: type | None = None) -> Group:
        spec: Group = self.read(env)
        return spec


class HasObservation(Protocol[Group]):
    """The type of `observation_spec` and `full_observation_spec`."""

    @property
    def observation_spec(self) -> Group: ...


class ObservationSpec(SpecProperty):
    """`observation_spec` and `full_observation_spec`."""

    def __get__(self, env: SpecProperties[HasObservation[Group]], owner: type | None = None) -> Group:
        spec: Group = self.read(env)
        return spec


class HasState(Protocol[Group]):
    """The type of `state_spec` and `full_state_spec`."""

    @property
    def state_spec(self) -> Group: ...


class StateSpec(SpecProperty):
    """`state_spec` and `full_state_spec`."""

    def __get__(self, env: SpecProperties[HasState[Group]], owner: type | None = None) -> Group:
        spec: Group = self.read(env)
        return spec


class HasReward(Protocol[Leaf]):
    """The type of `reward_spec`."""

    @property
    def reward_spec(self) -> Leaf: ...


class RewardSpec(SpecProperty):
    """`reward_spec`."""

    def __get__(self, env: SpecProperties[HasReward[Leaf]], owner: type | None = None) -> Leaf:
        spec: Leaf = self.read(env)
        return spec


class HasFullReward(Protocol[Group]):
    """The type of `full_reward_spec`."""

    @property
    def full_reward_spec(self) -> Group: ...


class FullRewardSpec(SpecProperty):
    """`full_reward_spec`."""

    def __get__(self, env: SpecProperties[HasFullReward[Group]], owner: type | None = None) -> Group:
        spec: Group = self.read(env)
        return spec


class HasDone(Protocol[Leaf]):
    """The type of `done_spec`."""

    @property
    def done_spec(self) -> Leaf: ...


class DoneSpec(SpecProperty):
    """`done_spec`."""

    def __get__(self, env: SpecProperties[HasDone[Leaf]], owner: type | None = None) -> Leaf:
        spec: Leaf = self.read(env)
        return spec


class HasFullDone(Protocol[Group]):
    """The type of `full_done_spec`."""

    @property
    def full_done_spec(self) -> Group: ...


class FullDoneSpec(SpecProperty):
    """`full_done_spec`."""

    def __get__(self, env: SpecProperties[HasFullDone[Group]], owner: type | None = None) -> Group:
        spec: Group = self.read(env)
        return spec


class JoinedSpec:
    """A read-only composite of several groups: `input_spec` or `output_spec`, or with `_unbatched` that of one environment.

    Args:
        doc: what the attribute holds.
        parts: the attributes that can be set instead, for the message of the error.
    """

    def __init__(self, doc: str, parts: str) -> None:
        self.__doc__ = doc
        self.parts = parts

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, env: Any, owner: type | None = None) -> Composite:
        if env is None:
            return self  # type: ignore[return-value]  # for documentation
        group = self.name.removeprefix("_").removesuffix("_unbatched")
        spec: Composite = getattr(env._env_layout, group)
        return spec[(0,) * len(env._batch_size)] if "unbatched" in self.name and env._batch_size else spec

    def __set__(self, env: Any, spec: Composite) -> None:
        error = AttributeError if self.name.startswith("_") else RuntimeError
        raise error(f"{self.name} cannot be set; set {self.parts}")


class GroupKeys:
    """The keys of a group, as a list in the order of its spec; the attribute's name says of which.

    Args:
        doc: what the attribute holds.
    """

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self.group = name.removesuffix("_keys")

    def __get__(self, env: Any, owner: type | None = None) -> list[NestedKey]:
        if env is None:
            return self  # type: ignore[return-value]  # for documentation
        return list(getattr(env._env_layout, self.group).keys)

    def __set__(self, env: Any, keys: Any) -> None:
        raise AttributeError(f"{self.group}_keys cannot be set; set {self.group}_spec")


class Flag:
    """An attribute that is True or False, whatever it is set to.

    Args:
        place: the attribute in which it is kept.
        doc: what it says.
    """

    def __init__(self, place: str, doc: str) -> None:
        self.place = place
        self.__doc__ = doc

    def __get__(self, env: Any, owner: type | None = None) -> bool:
        if env is None:
            return self  # type: ignore[return-value]  # for documentation
        value: bool = getattr(env, self.place)
        return value

    def __set__(self, env: Any, value: bool) -> None:
        setattr(env, self.place, bool(value))
