"""`EntriesTransform`: reads and writes the entries of a record, with the trailing 1 that rewards and flags are stored with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek, put_checked
from specgen_runtime.envs.stepping import written_by_policy
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.columns import Columns, columns_of, row_shape
from specgen_runtime.transforms.draws import DrawingTransform
from specgen_runtime.transforms.keys import (
    as_tuple,
    each_key,
    leaf_keys,
    normal_key,
)
from specgen_runtime.transforms.offline import moment_keys
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import Composite, TensorSpec
    from specgen_runtime.transforms.follows import Follows

__all__ = ["EntriesTransform"]


class EntriesTransform(DrawingTransform[Row, InverseRow]):
    """A transform whose records say which entries it reads and writes.

    Attributes:
        _follows: the outputs whose specs follow from what is computed, and how.
        _optional: the outputs with specs of their own that some parameters leave out.
        _rewards: the outputs that are rewards whatever they are made of.
        _maps: the outputs of maps, each with the input whose group is its own.
        _beside: other outputs, and inputs that stand beside others, each with the input whose dimensions it has.
        _logical: whether it depends on axes: rewards, done flags and what is made of them are read without their
            trailing 1, and get it back.
        _shapes: the dimensions of the inputs that can't have any, as their patterns say them.
        _meets, _meets_inverse: its parameters that are tensors, each with the input that it meets, to a row of which it
            broadcasts; and with what the environment is given.
    """

    _follows: ClassVar[Mapping[str, Follows]] = {}
    _optional: tuple[str, ...] = ()
    _rewards: tuple[str, ...] = ()
    _maps: ClassVar[Mapping[str, str]] = {}
    _beside: ClassVar[Mapping[str, str]] = {}
    _logical: bool = False
    _shapes: ClassVar[Mapping[str, str]] = {}
    _meets: ClassVar[Mapping[str, str]] = {}
    _meets_inverse: ClassVar[Mapping[str, str]] = {}
    _columns_in_front: frozenset[NestedKey] = frozenset()  # of recorded data: what those in front wrote
    _given_rewards: Composite | None = None  # as `_given`, if they are those of rewards

    @property
    def _declared(self) -> dict[NestedKey, TensorSpec]:
        """The specs of entries that this transform writes, by key, where its declaration says them."""
        raise NotImplementedError

    def _shown_and_hidden(self) -> tuple[str, ...]:
        """The fields of a record that this transform writes."""
        return (*self._writes, *(name for name in self._carries if name not in self._writes))

    def _keys_of(self, output: str) -> list[NestedKey]:
        """The keys of an output, none if it does not exist."""
        return self._fields((output,)) if output in self._shown_and_hidden() else []

    def _absent(self) -> tuple[str, ...]:
        """The outputs that do not exist, for the parameters that this transform was given."""
        return tuple(
            name for name in (*self._follows, *self._optional) if name not in self._shown_and_hidden()
        )

    def _inputs(self) -> tuple[str, ...]:
        """The fields of a record that this transform reads from others."""
        outputs = {*self._shown_and_hidden(), *self._absent()}
        fields: tuple[str, ...] = getattr(self.keys[0], "_fields", ()) if self.keys else ()
        return tuple(name for name in fields if name not in outputs)

    def _read_keys(self) -> list[NestedKey]:
        return self._fields(self._inputs())

    def _moved_keys(self) -> set[NestedKey]:
        """The entries that go and whose keys are given to others, as where names are swapped."""
        return {*self._fields(self._drops)}.intersection(self.out_keys) if self._drops else set()

    def _new_rewards(self) -> list[NestedKey]:
        """The rewards among what this transform writes: those declared so, and what a map makes of a reward."""
        found = self._fields(self._rewards)
        mapped = {name: role for name, role in self._maps.items() if name in self._writes}
        env = self.parent
        rewards = self._given_rewards if env is None else env.full_reward_spec
        known = leaf_keys(rewards) if mapped and rewards is not None else ()
        moved = self._moved_keys()
        for row in self.keys:
            for name, role in mapped.items():
                found += each_key(getattr(row, name) if getattr(row, role) in known else None)
            found += [
                key for name in self._writes if (key := getattr(row, name)) in known and key not in moved
            ]
        return list(dict.fromkeys(found))

    @property
    def _columns(self) -> Columns:
        if self._column_cache is None:
            self._column_cache = columns_of(self) if self._logical else Columns(frozenset(), frozenset())
        return self._column_cache

    def _columns_behind(self, columns: frozenset[NestedKey]) -> frozenset[NestedKey]:
        """The entries with a trailing 1 that is no dimension of theirs, from those before this transform."""
        return columns.difference(self.out_keys) | self._column_outputs(columns)

    def _column_outputs(self, columns: frozenset[NestedKey]) -> frozenset[NestedKey]:
        """The outputs that have the trailing 1 of their input, or of a flag."""
        found = set(self._fields(self._flags))
        written = self._shown_and_hidden()
        for row in self.keys:
            for output, role in (*self._maps.items(), *self._beside.items()):
                if output in written and getattr(row, role) in columns:
                    found.update(each_key(getattr(row, output)))
        return frozenset(found)

    def _lead(self, key: NestedKey) -> torch.Size:
        """The batch size of an entry: that of its nest, where there is one."""
        source: Any = self._data if self._given is None else self._given
        if (env := self.parent) is not None:
            source = env.full_observation_spec
        path = as_tuple(key)[:-1]
        nest = None if source is None or not path else source.get(path, None)
        found: torch.Size = torch.Size() if source is None else (source if nest is None else nest).batch_size
        return found

    def _batch_dims(self) -> int:
        """How many dimensions the batch has: of the environment before this transform, or of recorded data."""
        if (env := self.parent) is not None:
            return len(env.batch_size)
        return 0 if self._data is None else self._data.ndim

    def _rank(self, key: NestedKey) -> int:
        """How many dimensions an entry has for one environment."""
        if key not in self._ranks:
            self._ranks[key] = len(row_shape(self, key))
        return self._ranks[key]

    # --------------------------------------------------------------- entries

    def _blank(self, key: NestedKey) -> Tensor:
        """A tensor of the shape, dtype and device of one of the added entries."""
        blank: Tensor = self._declared[key].zero(self._in_front)
        return blank.squeeze(-1) if self._logical and key in self._columns.written else blank

    def _needed(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        value = self._read(tensordict, key)
        assert value is not None  # `_read` raises when it may not be missing
        return value

    def _require(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """An input.

        Raises:
            KeyError: if it is missing.
        """
        value = self._needed(tensordict, key)
        return value.squeeze(-1) if self._logical and key in self._columns.read else value

    def _vectors(
        self, tensordict: TensorDictBase, keys: list[NestedKey], *, recalled: bool = False
    ) -> list[Tensor]:
        """Inputs that are put behind one another, or what they were before the step: single numbers as vectors of one."""
        read = self._recall_input if recalled else self._require
        found = [read(tensordict, key) for key in keys]
        return [
            value if self._rank(key) else value.unsqueeze(-1) for key, value in zip(keys, found, strict=True)
        ]

    def _leave_to_policy(
        self, tensordict: TensorDictBase, next_tensordict: TensorDictBase, key: NestedKey
    ) -> None:
        """Write what the policy put under ``"next"`` before the step; without that the value stays."""
        preset = written_by_policy(self.parent, tensordict)
        written: Tensor | None = None if preset is None else preset.get(key, None)
        put_checked(next_tensordict, key, self._read(tensordict, key) if written is None else written)

    def _recall(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """The value of an output before the step, as it was at this position in the chain."""
        value = self._needed(tensordict, self._private.get(key, key))
        return value.squeeze(-1) if self._logical and key in self._columns.written else value

    def _recall_input(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """The value of an input before the step, as it was at this position in the chain."""
        value = self._needed(tensordict, self._private_inputs.get(key, key))
        return value.squeeze(-1) if self._logical and key in self._columns.read else value

    def _flag(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """A done flag as it is so far: false where nobody has written it."""
        value: Tensor | None = peek(tensordict, key)
        if value is None:
            return self._blank(key)
        return value.squeeze(-1) if self._logical and key in self._columns.written else value

    def _for_rows(self, name: str, size: torch.Size, dtype: torch.dtype | None = None) -> Tensor:
        """A parameter of which each row may have its own.

        Args:
            name: the parameter, which broadcasts to the batch size of the environment; for recorded data alone it has
                their first dimensions.
            size: the batch size of the rows.
            dtype: a dtype in which it is read, if it is one of floats.

        Returns:
            The value of each row, ``[*size]``.

        Raises:
            ValueError: if the rows are others than those that it has values for.
        """
        value: Tensor = getattr(self, name)
        env = self.parent
        batch = size[: value.ndim] if env is None else env.batch_size
        try:
            value = value.expand(batch)
        except RuntimeError:
            raise ValueError(
                f"{type(self).__name__} has {name!r} of the shape {list(value.shape)}, and a batch of {list(batch)}"
            ) from None
        if dtype is not None and dtype.is_floating_point:
            value = value.to(dtype)
        return value.reshape((*value.shape, *(1,) * (len(size) - value.ndim))).expand(size)

    def _flag_keys(self, env: EnvBase | None, keys: Sequence[NestedKey], flag: str) -> list[NestedKey]:
        """The flag of the root-most done set on the path of each key: in an environment, or in the data that are given.

        Raises:
            KeyError: if no done set on the path of a key has it.
        """
        known: Collection[NestedKey] | None = None if self._data is None else moment_keys(self._data)
        known = known if env is None else leaf_keys(env.full_done_spec)
        found: list[NestedKey] = []
        for key in keys:
            path = as_tuple(key)
            places = [normal_key((*path[:depth], flag)) for depth in range(len(path))]
            place = places[0] if known is None else next((one for one in places if one in known), None)
            if place is None:
                raise KeyError(
                    f"{type(self).__name__} reads {flag!r} of {key!r}, and nothing on its path has that flag"
                )
            found.append(place)
        return found

    def _ended(self, tensordict: TensorDictBase, key: NestedKey, like: NestedKey) -> Tensor:
        """A done flag, for each element of an input: bool, of the shape that the input is read with."""
        flag, shape = self._require(tensordict, key), self._require(tensordict, like).shape
        return flag.reshape((*flag.shape, *(1,) * (len(shape) - flag.ndim))).expand(shape)

    def _write(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write an output."""
        column = self._logical and key in self._columns.written
        put_checked(tensordict, key, value.unsqueeze(-1) if column else value)

    def _keep(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write a value that the next step recalls."""
        value = value.unsqueeze(-1) if self._logical and key in self._columns.written else value
        put_checked(tensordict, key, value)
        if key in self._private:
            put_checked(tensordict, self._private[key], value)

    def _just_written(self, tensordict: TensorDictBase, key: NestedKey) -> Tensor:
        """What has just been written."""
        value: Tensor = tensordict.get(key)
        return value.squeeze(-1) if self._logical and key in self._columns.written else value

    def _stash(self, tensordict: TensorDictBase, key: NestedKey | None) -> None:
        """Keep the value of an input, as it is at this position in the chain, for the next step."""
        place = None if key is None else self._private_inputs.get(key)
        if (
            key is not None
            and place is not None
            and (value := self._read(tensordict, key, tolerant=True)) is not None
        ):
            put_checked(tensordict, place, value)

    def _lacks(self, tensordict: TensorDictBase, *keys: NestedKey | list[NestedKey] | None) -> bool:
        """Whether one of some entries is missing, as rewards are at a reset."""
        return any(peek(tensordict, each) is None for key in keys for each in each_key(key))
