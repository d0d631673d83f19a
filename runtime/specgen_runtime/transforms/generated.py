"""`GeneratedTransform`: the base class of generated transforms, around their pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.row_networks import NetworkRows, RowNetwork, row_network
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.bound import INPUTS, InverseRow, Row
from specgen_runtime.transforms.draws import DrawingTransform
from specgen_runtime.transforms.follows import Follows, following_specs
from specgen_runtime.transforms.given_specs import from_given_specs
from specgen_runtime.transforms.keys import as_tuple, leaf_keys, remove, without_next
from specgen_runtime.transforms.offline import replay
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["INPUTS", "GeneratedTransform"]


class GeneratedTransform(DrawingTransform[Row, InverseRow]):
    """A thin adapter between tensordicts and the pure functions that a transform was compiled to.

    A generated class says which keys it works on (`_bind`: one record of keys for each repetition) and which
    specs it adds; its `_reset`, `_step` or `_apply_transform` unpack, call a function, and pack.

    Carries live in the tensordict, under their own key. If a later transform of the same environment rewrites
    that key, `TransformedEnv` gives the carry a private place as well (below ``"_carry"``), which only this
    transform reads.

    Attributes:
        _refuses_offline: whether it works in environments only.
        _follows: the outputs whose specs follow from what is computed, and how.
        _optional: the outputs with specs of their own that some parameters leave out, where specs follow of others.
        _policy: the outputs that the policy writes under ``"next"``.
        _rewards: the outputs that are rewards whatever they are made of.
        _maps: the outputs of maps, each with the input whose group is its own.
        _networks: the networks that it calls, by their keywords.
    """

    _refuses_offline: bool = False
    _follows: ClassVar[Mapping[str, Follows]] = {}
    _optional: tuple[str, ...] = ()
    _policy: tuple[str, ...] = ()
    _rewards: tuple[str, ...] = ()
    _maps: ClassVar[Mapping[str, str]] = {}
    _networks: dict[str, RowNetwork]
    _given_rewards: Composite | None = None  # as `_given`, if they are those of rewards

    def _add_network(self, name: str, module: nn.Module, rows: NetworkRows, *, frozen: bool = False) -> None:
        """Take a network of the constructor: a submodule, which generated code calls on rows.

        Raises:
            TypeError: it is no module.
            ValueError: it has parameters that are not initialised.
        """
        known: dict[str, RowNetwork] = self.__dict__.setdefault("_networks", {})
        known[name] = row_network(self, name, module, rows, frozen=frozen)

    # ----------------------------------------------------------------- specs

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        """The specs of entries that this transform writes, by key, where its declaration says them."""
        return {}

    def _mapped_spec_inv(self, spec: TensorSpec) -> TensorSpec:
        """The spec of what the policy writes where the environment takes `spec`."""
        return spec

    @property
    def _declared(self) -> dict[NestedKey, TensorSpec]:
        if self._declared_cache is None:
            self._declared_cache = self._added_specs()
        return self._declared_cache

    @property
    def _added(self) -> dict[NestedKey, TensorSpec]:
        """The specs of all entries that this transform writes."""
        if self._added_cache is None:
            self._added_cache = {**self._declared, **following_specs(self)}
            for key in self._fields(self._rewards):
                spec = self._added_cache.get(key)
                if spec is not None and len(spec.shape) == len(self._lead(key)):
                    self._added_cache[key] = spec.unsqueeze(-1)
        return self._added_cache

    def _shown_and_hidden(self) -> tuple[str, ...]:
        """The fields of a record that this transform writes."""
        return (*self._writes, *(name for name in self._carries if name not in self._writes))

    def _absent(self) -> tuple[str, ...]:
        """The outputs that do not exist, for the parameters that this transform was given."""
        return tuple(
            name for name in (*self._follows, *self._optional) if name not in self._shown_and_hidden()
        )

    @from_given_specs
    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replace the observations that this transform writes, add what is new and is no reward, drop what goes."""
        flags = set(self._fields(self._flags))
        rewards = self._reward_keys()
        present = leaf_keys(observation_spec)
        replaced = self._replaced()
        for key, spec in self._added.items():
            if key in flags or key in rewards:
                continue
            if key in present and key not in replaced:
                raise ValueError(
                    f"{type(self).__name__} adds {key!r}, which is there already; give one another key"
                )
            observation_spec[key] = spec.clone()
        for key, place in (*self._private.items(), *self._private_inputs.items()):
            observation_spec[place] = self._spec_of(key, place).clone()
        return self._without_dropped(observation_spec)

    @from_given_specs
    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Replace and add the rewards that this transform writes, drop what goes."""
        for key in self._reward_keys():
            reward_spec[key] = self._added[key].clone()
        return self._without_dropped(reward_spec)

    @from_given_specs
    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Add the flags that this transform raises.

        Raises:
            ValueError: if it drops a flag.
        """
        flags = set(self._fields(self._flags))
        present = leaf_keys(done_spec)
        if kept := [key for key in self.dropped_keys if key in present]:
            raise ValueError(
                f"{type(self).__name__} can't drop {', '.join(map(repr, kept))}: done flags say where episodes end"
            )
        for key, spec in self._added.items():
            if key in flags:
                done_spec[key] = spec.clone()
        return done_spec

    @from_given_specs
    def transform_state_spec(self, state_spec: Composite) -> Composite:
        """Transform mapped states; add what is carried from step to step."""
        self._map_specs_inv(state_spec)
        carried = self._fields(self._carries)
        present = leaf_keys(state_spec)
        for key, spec in self._added.items():
            if key in carried or key in present:
                state_spec[key] = spec.clone()
        for key, place in (*self._private.items(), *self._private_inputs.items()):
            state_spec[place] = self._spec_of(key, place).clone()
        return self._without_dropped(state_spec)

    @from_given_specs
    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Transform mapped actions."""
        self._map_specs_inv(action_spec)
        return action_spec

    def _spec_of(self, key: NestedKey, place: NestedKey) -> TensorSpec:
        """The spec of what a private place keeps of `key`: an output, or an input as it arrives."""
        return self._added[key] if self._private.get(key) == place else self._spec(key)

    def _replaced(self) -> set[NestedKey]:
        """The entries that are read, and written anew under the same key."""
        return {*self.out_keys} & {*self._read_keys()}

    def _read_keys(self) -> list[NestedKey]:
        written = self._shown_and_hidden()
        fields: tuple[str, ...] = getattr(self.keys[0], "_fields", ()) if self.keys else ()
        return self._fields(
            tuple(name for name in fields if name not in written and name not in self._absent())
        )

    def _reward_keys(self) -> list[NestedKey]:
        """The rewards among what this transform writes: those declared so, and what a map makes of a reward."""
        found = [key for key in self._fields(self._rewards) if key in self._added]
        mapped = {name: role for name, role in self._maps.items() if name in self._writes}
        env = self.parent
        rewards = self._given_rewards if env is None else env.full_reward_spec
        known = leaf_keys(rewards) if mapped and rewards is not None else ()
        for row in self.keys:
            found += [getattr(row, name) for name, role in mapped.items() if getattr(row, role) in known]
            found += [key for name in self._writes if (key := getattr(row, name)) in known]
        return list(dict.fromkeys(found))

    def _without_dropped(self, specs: Composite) -> Composite:
        for key in self.dropped_keys:
            remove(specs, key)
        return specs

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

    def _row_spec(self, key: NestedKey, dims: Sequence[int] = ()) -> TensorSpec:
        """The spec of an entry of some dimensions, for each row of the batch that it has."""
        device = None if self.parent is None else self.parent.device
        return Unbounded(shape=(*self._lead(key), *dims), device=device)

    def _lead(self, key: NestedKey) -> torch.Size:
        """The batch size of an entry: that of its nest, where there is one."""
        source: Any = self._data if self._given is None else self._given
        if (env := self.parent) is not None:
            source = env.full_observation_spec
        path = as_tuple(key)[:-1]
        nest = None if source is None or not path else source.get(path, None)
        found: torch.Size = torch.Size() if source is None else (source if nest is None else nest).batch_size
        return found

    def _blank(self, key: NestedKey) -> Tensor:
        """A tensor of the shape, dtype and device of one of the added entries."""
        blank: Tensor = self._declared[key].zero()
        return blank

    def _rank(self, key: NestedKey) -> int:
        """How many dimensions an entry has for one environment."""
        if key not in self._ranks:
            env = self.parent
            batch = len(env.batch_size) if env is not None else 0 if self._data is None else self._data.ndim
            self._ranks[key] = len(self._spec(key).shape) - batch
        return self._ranks[key]

    def _require(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """An input.

        Raises:
            KeyError: if it is missing.
        """
        value = self._read(tensordict, key)
        assert value is not None  # `_read` raises when it may not be missing
        return value

    def _leave_to_policy(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, key: NestedKey
    ) -> None:
        """Write what the policy put under ``"next"`` before the step; without that the value stays."""
        written: Tensor | None = tensordict.get(("next", *as_tuple(key)), None)
        next_tensordict.set(key, self._require(tensordict, key) if written is None else written)

    def _recall(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """The value of an output before the step, as it was at this position in the chain."""
        return self._require(tensordict, self._private.get(key, key))

    def _recall_input(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """The value of an input before the step, as it was at this position in the chain."""
        return self._require(tensordict, self._private_inputs.get(key, key))

    def _flag(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """A done flag as it is so far: false where nobody has written it."""
        value: Tensor | None = tensordict.get(key, None)
        return self._blank(key) if value is None else value

    def _write(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write an output; a reward has a trailing 1."""
        if self._rewards and key in self._fields(self._rewards):
            nest = tensordict.get(as_tuple(key)[:-1], None) if isinstance(key, tuple) else tensordict
            if value.ndim == (tensordict if nest is None else nest).ndim:
                value = value.unsqueeze(-1)
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
            return replay(self._without_next(), tensordict)
        bound = self._bound_to(tensordict)
        if type(self)._apply_transform is not Transform._apply_transform:
            super(GeneratedTransform, bound)._offline(tensordict)
        else:
            bound._map_offline(tensordict)
        for moment in _moments(tensordict):
            bound._dropped(moment)
        return tensordict

    def _without_next(self) -> Self:
        """This, or a copy for the keys of a moment if users named some under `"next"` too: a replay writes both."""
        given, named = self._in_keys or [], self._out_keys
        if not any(as_tuple(key)[0] == "next" for key in given):
            return self
        pairs = dict.fromkeys(
            zip(map(without_next, given), map(without_next, given if named is None else named), strict=False)
        )
        twin = self.clone()
        twin._in_keys = [in_key for in_key, _ in pairs]
        twin._out_keys = None if named is None else [out_key for _, out_key in pairs]
        return twin

    def _map_offline(self, tensordict: TensorDictBase) -> None:
        """Map what stands at the root and under ``"next"``; in place."""
        moments = _moments(tensordict)
        for key in self._read_keys():
            if not self._missing_tolerance and all(moment.get(key, None) is None for moment in moments):
                self._require(tensordict, key)  # raises, as it stands nowhere
        for moment in moments:
            self._map(moment, tolerant=True)

    def _bound_to(self, tensordict: TensorDictBase) -> Self:
        """A copy outside of environments: shapes, dtypes, and keys that nobody chose, are those of recorded data."""
        twin = self.clone()
        twin.__dict__["_data"] = tensordict
        if self.parent is not None:
            twin.__dict__["_bound"] = self.keys
        return twin

    def _stash(self, tensordict: TensorDictBase, key: NestedKey) -> None:
        """Keep the value of an input, as it is at this position in the chain, for the next step."""
        place = self._private_inputs.get(key)
        if place is not None and (value := self._read(tensordict, key, tolerant=True)) is not None:
            tensordict.set(place, value)

    def _lacks(self, tensordict: TensorDictBase, *keys: NestedKey | list[NestedKey]) -> bool:
        """Whether one of some entries is missing, as rewards are at a reset."""
        flat = [each for key in keys for each in (key if isinstance(key, list) else [key])]
        return any(tensordict.get(key, None) is None for key in flat)

    def _as_before(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The entries as they are now, whatever is written from here on."""
        return tensordict.copy() if len(self.keys) > 1 or len(self._writes) > 1 else tensordict

    def _dropped(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` without what goes; a nest that becomes empty goes with its last entry."""
        for key in self.dropped_keys:
            remove(tensordict, key)
        return tensordict

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if type(self)._apply_transform is Transform._apply_transform:
            return tensordict
        # All are read before one is written: names may be swapped.
        values = [(out_key, self._read(tensordict, in_key, tolerant)) for in_key, out_key in self._pairs()]
        for out_key, value in values:
            if value is not None:
                tensordict.set(out_key, self._apply_transform(value))
        return tensordict

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self.parent is None and self._data is None:
            return self._bound_to(next_tensordict)._call(next_tensordict)
        return self._dropped(super()._call(next_tensordict))

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._without_rewards(self._dropped(self._map(tensordict_reset, tolerant=True)))

    def _without_rewards(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` without rewards that this transform makes: a reset gives none."""
        for key in self._fields(self._rewards):
            remove(tensordict, key)
        return tensordict


def _moments(tensordict: TensorDictBase) -> list[TensorDictBase]:
    """Where recorded data have the entries of a moment: the root, and what stands under ``"next"``."""
    following: TensorDictBase | None = tensordict.get("next", None)
    return [tensordict] if following is None else [tensordict, following]
