"""`GeneratedTransform`: the base class of generated transforms, around their pure functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor, nn

from specgen_runtime.envs.keys import next_key
from specgen_runtime.envs.packing import put_checked
from specgen_runtime.row_networks import NetworkRows, RowNetwork, row_network
from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.action_masks import masks_of, refuse_mask
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.follows import following_specs, refuse_shapes
from specgen_runtime.transforms.given_data import reset_from_given_data, step_from_given_data
from specgen_runtime.transforms.given_specs import from_given_specs
from specgen_runtime.transforms.inverse import InverseTransform
from specgen_runtime.transforms.key_finding import INPUTS
from specgen_runtime.transforms.keys import leaf_keys, put_spec, refuse_reset_keys, remove
from specgen_runtime.transforms.methods import refuse_hidden_methods
from specgen_runtime.transforms.offline import map_moments, recorded_moments
from specgen_runtime.transforms.replays import refuse_moments, replay, replays_inversely
from specgen_runtime.transforms.tensor_parameters import refuse_wide_parameters
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import Composite, TensorSpec

__all__ = ["INPUTS", "GeneratedTransform"]


class GeneratedTransform(InverseTransform[Row, InverseRow]):
    """A thin adapter between tensordicts and the pure functions that a transform was compiled to.

    A generated class says which keys it works on (`_bind`: one record of keys for each repetition) and which
    specs it adds; its `_reset`, `_step` or `_apply_transform` unpack, call a function, and pack.

    Carries live in the tensordict, under their own key. If a later transform of the same environment rewrites
    that key, `TransformedEnv` gives the carry a private place as well (below ``"_carry"``), which only this
    transform reads.

    Attributes:
        _refuses_offline: whether it works in environments only.
        _reset_keyword: the attribute that says which masks begin what is carried anew, if users may say so.
        _done_keyword: that which says which flag ends the episodes of recorded data.
        _inverse_keyword: that which says that recorded data are replayed by `inv`, not by `forward`.
        _backward_param: that which says that they are replayed from the end of each episode.
        _policy: the outputs that the policy writes under ``"next"``.
        _networks: the networks that it calls, by their keywords.
        _moment_before: the last moment that it has transformed in no environment, if steps read it.
        _methods: the class behind this one whose methods it has besides its own.
    """

    _refuses_offline: bool = False
    _reset_keyword: str | None = None
    _done_keyword: str | None = None
    _inverse_keyword: str | None = None
    _backward_param: str | None = None
    _policy: tuple[str, ...] = ()
    _methods: type | None = None
    _networks: dict[str, RowNetwork]
    _moment_before: TensorDictBase | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refuse_hidden_methods(cls)
        for name, given in (("_step", step_from_given_data), ("_reset", reset_from_given_data)):
            if name in cls.__dict__:
                setattr(cls, name, given(cls.__dict__[name]))

    def _add_network(self, name: str, module: nn.Module, rows: NetworkRows, *, frozen: bool = False) -> None:
        """Take a network of the constructor: a submodule, which generated code calls on rows.

        Raises:
            TypeError: it is no module.
            ValueError: it has parameters that are not initialised.
        """
        known: dict[str, RowNetwork] = self.__dict__.setdefault("_networks", {})
        known[name] = row_network(self, name, module, rows, frozen=frozen)

    def _cast(self, name: str, dtype: torch.dtype) -> Tensor:
        """A parameter that is a tensor, in the dtype of what it meets."""
        value: Tensor | None = self._buffers.get(name)
        if value is None:
            value = cast("Tensor", getattr(self, name))  # a user has put something else in its place
        return value if value.dtype is dtype else value.to(dtype)

    @property
    def action_masks(self) -> tuple[tuple[NestedKey, NestedKey], ...]:
        """Actions as the policy writes them, each with the observation that tells its allowed values."""
        return masks_of(self.keys, self.keys_inv, self._masks, self._reads) if self._masks else ()

    # ----------------------------------------------------------------- specs

    def _added_specs(self) -> dict[NestedKey, TensorSpec]:
        """The specs of entries that this transform writes, by key, where its declaration says them."""
        return {}

    @property
    def _declared(self) -> dict[NestedKey, TensorSpec]:
        if self._declared_cache is None:
            self._declared_cache = self._added_specs()
            for row in self.keys if self._rewards else ():
                for name in self._rewards:
                    key, role = getattr(row, name), self._beside.get(name)
                    if key in self._declared_cache and (
                        role is None or (self._logical and getattr(row, role) not in self._columns.read)
                    ):
                        self._declared_cache[key] = self._declared_cache[key].unsqueeze(-1)
        return self._declared_cache

    @property
    def _added(self) -> dict[NestedKey, TensorSpec]:
        """The specs of all entries that this transform writes."""
        if self._added_cache is None:
            refuse_reset_keys(self, self._reset_keyword)
            if self.parent is not None:
                refuse_moments(self)
                refuse_wide_parameters(self)
            self._added_cache = {**self._declared, **following_specs(self)}
        return self._added_cache

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
            put_spec(self, observation_spec, key, spec.clone())
        for key in self._moved_keys().intersection(rewards):
            remove(observation_spec, key)
        for key, place in (*self._private.items(), *self._private_inputs.items()):
            observation_spec[place] = self._spec_of(key, place).clone()
        return self._without_dropped(observation_spec)

    @from_given_specs
    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Replace and add the rewards that this transform writes, drop what goes."""
        rewards = self._reward_keys()
        for key in self._moved_keys().difference(rewards):
            remove(reward_spec, key)
        for key in rewards:
            put_spec(self, reward_spec, key, self._added[key].clone())
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
        if moved := self._moved_keys():
            for key in moved.intersection(self._reward_keys()):
                remove(state_spec, key)
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
        if self.parent is not None:
            for action, mask in self.action_masks:
                refuse_mask(type(self).__name__, action, action_spec[action], mask, self._spec(mask))
        return action_spec

    def _spec_of(self, key: NestedKey, place: NestedKey) -> TensorSpec:
        """The spec of what a private place keeps of `key`: an output, or an input as it arrives."""
        return self._added[key] if self._private.get(key) == place else self._spec(key)

    def _replaced(self) -> set[NestedKey]:
        """The entries that are read, and written anew under the same key."""
        return {*self.out_keys} & {*self._read_keys()}

    def _reward_keys(self) -> list[NestedKey]:
        return [key for key in self._new_rewards() if key in self._added]

    def _without_dropped(self, specs: Composite) -> Composite:
        for key in self.dropped_keys:
            remove(specs, key)
        return specs

    def _apply_to(self, in_key: NestedKey, out_key: NestedKey, value: Tensor) -> Tensor:
        columns = self._columns if self._logical else None
        try:
            column = columns is not None and in_key in columns.read
            made = self._apply_transform(value.squeeze(-1) if column else value)
        except (RuntimeError, IndexError) as error:
            refuse_shapes(self, {in_key: value}, error)
        return made.unsqueeze(-1) if columns is not None and out_key in columns.written else made

    # --------------------------------------------------------------- entries

    def _derives_done(self) -> bool:
        return bool(self._flags)

    def _row_spec(self, key: NestedKey, dims: Sequence[int] = ()) -> TensorSpec:
        """The spec of an entry of some dimensions, for each row of the batch that it has."""
        device = None if self.parent is None else self.parent.device
        return Unbounded(shape=(*self._lead(key), *dims), device=device)

    @property
    def carry_keys(self) -> list[NestedKey]:
        """The entries that the next step reads: those of this transform and of the policy."""
        return list(dict.fromkeys([*super().carry_keys, *self._fields(self._policy)]))

    def _set_private(self, index: int, rewritten: Collection[NestedKey]) -> bool:
        for key in self._fields(self._policy):
            if key in rewritten:
                raise ValueError(
                    f"{type(self).__name__} leaves {key!r} to the policy, and a later transform writes or drops it"
                )
        return super()._set_private(index, rewritten)

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._refuses_offline:
            raise NotImplementedError(
                f"{type(self).__name__} works in environments only, not on recorded data"
            )
        if replays_inversely(self) or (self._drops_inverse and not self._writes and not self._drops):
            return tensordict  # all that it does is done by `inv`
        if self._sequential:
            return replay(self, tensordict)
        bound = self._bound_to(tensordict)
        if bound._recorded and bound.keys and not bound.out_keys:
            raise ValueError(
                f"{type(self).__name__}: with these parameters nothing is made of {', '.join(map(repr, bound.in_keys))}"
            )
        if type(self)._apply_transform is not Transform._apply_transform:
            for key in map_moments(tensordict, bound._pairs(), bound._apply_to):
                bound._read(tensordict, key, bound._missing_tolerance)  # raises, unless it may be missing
        else:
            bound._map_offline(tensordict)
        for moment in recorded_moments(tensordict):
            bound._dropped(moment)
        return tensordict

    def _inv_recorded(self, tensordict: TensorDictBase) -> TensorDictBase:
        tensordict = super()._inv_recorded(tensordict)
        return replay(self, tensordict) if replays_inversely(self) else tensordict

    def _map_offline(self, tensordict: TensorDictBase) -> None:
        """Map what stands at the root and under ``"next"``; in place."""
        moments = recorded_moments(tensordict)
        for key in self._read_keys():
            if not self._missing_tolerance and all(moment.get(key, None) is None for moment in moments):
                self._require(tensordict, key)  # raises, as it stands nowhere
        rows, named = self.keys, self._read_keys()
        for moment in moments:
            try:
                self._map(moment, tolerant=True)
            except (RuntimeError, IndexError) as error:
                inputs = {key: moment[key] for key in self._read_keys() if key in moment.keys(True)}
                refuse_shapes(self, inputs, error)
            # A user who names a key under "next" gets that one mapped once.
            self._bound = [
                row
                for row in rows
                if not any(next_key(key) in named for key in self._fields(self._inputs(), [row]))
            ]
        self._bound = rows

    def _bound_to(self, tensordict: TensorDictBase) -> Self:
        """A copy outside of environments: shapes, dtypes, and keys that nobody chose, are those of recorded data."""
        twin = self.clone()
        twin.__dict__["_data"] = tensordict
        if self.parent is not None and not self._recorded:
            twin.__dict__.update(_bound=self.keys, _column_cache=self._columns)
        refuse_wide_parameters(twin)
        return twin

    def _as_before(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The entries as they are now, whatever a map writes from here on."""
        if self._overwrites is None:
            self.__dict__["_overwrites"] = self._reads_what_it_writes()
        return tensordict.copy() if self._overwrites else tensordict

    def _reads_what_it_writes(self) -> bool:
        """Whether a repetition, or a part of one, reads an entry that one before it writes."""
        written: set[NestedKey] = set()
        outputs, inputs = self._shown_and_hidden(), self._inputs()
        for row in self.keys:
            own = self._fields(outputs, [row])
            if not written.isdisjoint(self._fields((*inputs, *outputs), [row])):
                return True
            if len(own) > 1 and not set(own).isdisjoint(self._fields(inputs, [row])):
                return True
            written.update(own)
        return False

    def _dropped(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` without what goes; a nest that becomes empty goes with its last entry."""
        if self._drops:
            for key in self.dropped_keys:
                remove(tensordict, key)
        return tensordict

    def _pairs(self) -> list[tuple[NestedKey, NestedKey]]:
        if (known := self._known_pairs) is None:
            known = self.__dict__["_known_pairs"] = list(super()._pairs())
        return known

    def _map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if type(self)._apply_transform is Transform._apply_transform:
            return tensordict
        seen = self._as_before(tensordict)  # names may be swapped
        for in_key, out_key in self._pairs():
            value = self._read(seen, in_key, tolerant)
            if value is not None:
                put_checked(tensordict, out_key, self._apply_to(in_key, out_key, value))
        return tensordict

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._data is None and self.parent is None:
            if self._recalls:
                return self._next_moment(next_tensordict)
            return self._bound_to(next_tensordict)._call(next_tensordict)
        return self._dropped(self._map(next_tensordict, self._missing_tolerance))

    def _next_moment(self, moment: TensorDictBase) -> TensorDictBase:
        """Transform one moment behind another, in no environment; without one before it begins an episode.

        Raises:
            ValueError: the moment before has another batch size.
        """
        refuse_moments(self)
        if (before := self._moment_before) is None:
            return self._reset(moment, moment)
        if before.batch_size != moment.batch_size:
            raise ValueError(
                f"{type(self).__name__} is given the batch size {list(moment.batch_size)} behind a moment of "
                f"{list(before.batch_size)}; `_reset` begins another episode"
            )
        return self._step(before, moment)

    def empty_cache(self) -> None:
        """Forget everything derived from the environment, and the moment before where there is none."""
        super().empty_cache()
        self.__dict__["_moment_before"] = None

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self.parent is None and self._data is None:
            return self._bound_to(tensordict)._inv_call(tensordict)
        tensordict = super()._inv_call(tensordict)
        for key in self._fields(self._drops_inverse) if self._drops_inverse else ():
            for moment in recorded_moments(tensordict):
                remove(moment, key)
        return tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        if self._data is None and self.parent is None:
            return self._bound_to(tensordict_reset)._reset(tensordict, tensordict_reset)
        return self._without_rewards(self._dropped(self._map(tensordict_reset, tolerant=True)))

    def _without_rewards(self, tensordict: TensorDictBase) -> TensorDictBase:
        """`tensordict` without rewards that this transform makes: a reset gives none."""
        if self._rewards or self._drops:
            moved = self._moved_keys()
            for key in (
                *self._fields(self._rewards),
                *moved.intersection(self._new_rewards() if moved else ()),
            ):
                remove(tensordict, key)
        return tensordict
