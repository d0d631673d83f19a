"""`GeneratedTransform`: the base class of generated transforms, around their pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.bound import INPUTS, BoundTransform, InverseRow, Row
from specgen_runtime.transforms.keys import leaf_keys
from specgen_runtime.transforms.offline import replay
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["INPUTS", "GeneratedTransform"]


class GeneratedTransform(BoundTransform[Row, InverseRow]):
    """A thin adapter between tensordicts and the pure functions that a transform was compiled to.

    A generated class says which keys it works on (`_bind`: one record of keys for each repetition) and which
    specs it adds; its `_reset`, `_step` or `_apply_transform` unpack, call a function, and pack.

    Carries live in the tensordict, under their own key. If a later transform of the same environment class_overrides
    that key, `TransformedEnv` gives the carry a private place as well (below ``"_carry"``), which only this
    transform reads.
    """

    _refuses_offline: bool = False

    # ----------------------------------------------------------------- specs

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        """The specs of entries that this transform adds, by key."""
        return {}

    def _mapped_spec(self, spec: TensorSpec) -> TensorSpec:
        """The spec of what `_apply_transform` makes of an entry."""
        return spec

    def _mapped_spec_inv(self, spec: TensorSpec) -> TensorSpec:
        """The spec of what the policy writes where the environment takes `spec`."""
        return spec

    @property
    def _added(self) -> dict[NestedKey, TensorSpec]:
        if self._added_cache is None:
            self._added_cache = self._added_specs()
        return self._added_cache

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Transform mapped observations; add the entries that this transform computes."""
        self._map_specs(observation_spec)
        flags = set(self._fields(self._flags))
        present = leaf_keys(observation_spec)
        for key, spec in self._added.items():
            if key in flags:
                continue
            if key in present:
                raise ValueError(
                    f"{type(self).__name__} adds {key!r}, which is there already; give one another key"
                )
            observation_spec[key] = spec.clone()
        for key, place in self._private.items():
            observation_spec[place] = observation_spec[key].clone()
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Transform mapped rewards."""
        self._map_specs(reward_spec)
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Add the flags that this transform raises."""
        flags = set(self._fields(self._flags))
        for key, spec in self._added.items():
            if key in flags:
                done_spec[key] = spec.clone()
        return done_spec

    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Transform mapped states; add what is carried from step to step."""
        self._map_specs_inv(state_spec)
        for key in self._fields(self._carries):
            state_spec[key] = self._added[key].clone()
        for key, place in self._private.items():
            state_spec[place] = (self._added[key] if key in self._added else self._spec(key)).clone()
        return state_spec

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Transform mapped actions."""
        self._map_specs_inv(action_spec)
        return action_spec

    def _map_specs(self, specs: Composite) -> None:
        if self._sequential:
            return
        present = leaf_keys(specs)
        for in_key, out_key in self._pairs():
            if in_key in present:
                specs[out_key] = self._mapped_spec(specs[in_key])

    def _map_specs_inv(self, specs: Composite) -> None:
        if not self.keys_inv:
            return
        present = leaf_keys(specs)
        for in_key, out_key in self._pairs_inv():
            if in_key in present:
                spec = self._mapped_spec_inv(specs[in_key])
                if out_key != in_key:
                    del specs[in_key]
                specs[out_key] = spec

    # --------------------------------------------------------------- entries

    def _derives_done(self) -> bool:
        return bool(self._flags)

    def _blank(self, key: NestedKey) -> Tensor:
        """A tensor of the shape, dtype and device of one of the added entries."""
        blank: Tensor = self._added[key].zero()
        return blank

    def _require(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """An input.

        Raises:
            KeyError: if it is missing.
        """
        value = self._read(tensordict, key)
        assert value is not None  # `_read` raises when it may not be missing
        return value

    def _recall(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """The value before the step, as it was at this position in the chain."""
        return self._require(tensordict, self._private.get(key, key))

    def _flag(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """A done flag as it is so far: false where nobody has written it."""
        value: Tensor | None = tensordict.get(key, None)
        return self._blank(key) if value is None else value

    def _write(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write an output."""
        tensordict.set(key, value)

    def _keep(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write a value that the next step recalls."""
        tensordict.set(key, value)
        if key in self._private:
            tensordict.set(self._private[key], value)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._refuses_offline:
            raise NotImplementedError(
                f"{type(self).__name__} works in environments only, not on recorded data"
            )
        if self._sequential:
            return replay(self, tensordict)
        return super(GeneratedTransform, self._bound_to(tensordict))._offline(tensordict)

    def _bound_to(self, tensordict: TensorDictBase) -> Self:
        """A copy outside of environments: shapes, dtypes, and keys that nobody chose, are those of recorded data."""
        twin = self.clone()
        twin.__dict__["_data"] = tensordict
        if self.parent is not None:
            twin.__dict__["_bound"] = self.keys
        return twin

    def _stash(self, tensordict: TensorDictBase, key: NestedKey) -> None:
        """Keep the value of an input, as it is at this position in the chain, for the next step."""
        if key in self._private and (value := self._read(tensordict, key, tolerant=True)) is not None:
            tensordict.set(self._private[key], value)
