"""Transforms that learn from the data that pass through them: from which rows, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.buffers import BufferSpec, buffer_name
from specgen_runtime.transforms.held_statistics import StatisticsTransform
from specgen_runtime.transforms.keys import as_tuple, each_key, normal_key
from specgen_runtime.transforms.new_rows import NewRows, reset_mask_above
from specgen_runtime.transforms.reduced_dims import ReducedDims
from specgen_runtime.transforms.shared_statistics import kept_value
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import TensorSpec

__all__ = ["BufferSpec", "LearningTransform"]


class LearningTransform(StatisticsTransform[Row, InverseRow]):
    """A transform that learns its statistics from the data that pass through it.

    At each step and reset it learns from the rows that are new: those that stepped, and those being reset. What
    rows that stand still hold is never counted. Offline it learns nothing.

    Attributes:
        _learns_from: the fields of a record that an update reads.
        _joined: those of several keys that are put behind one another: single numbers are read as vectors of one.
        _learns: whether it learns at steps and resets, at resets, or by `init_stats` and `learn` only.
    """

    _learns_from: tuple[str, ...] = ()
    _joined: tuple[str, ...] = ()
    _learns: Literal["always", "at_reset", "when_called"] = "always"

    _known_rows: NewRows | None

    def _updated(self, held: Mapping[str, Tensor], new_rows: NewRows, *values: Any) -> tuple[Tensor, ...]:
        """The new values of one repetition's statistics, in the order of `_buffer_specs`; `values` of `_learns_from`.

        Of a field of several keys it is a list of tensors.
        """
        raise NotImplementedError

    _updated_row: Callable[..., tuple[Any, ...]] | None = None
    """`_updated` of one environment without a batch, by NumPy: `held`, a `OneRow`, and values; None where that needs torch."""

    def _typed_values(self, new_rows: NewRows, *values: Any) -> Mapping[str, Tensor]:
        """Values of the dtypes and shapes of the statistics that are like what is computed of `values`, as `_updated`."""
        raise NotImplementedError

    def _typed_value(self, spec: BufferSpec, row: Row) -> Tensor:
        fields = [getattr(row, field) for field in self._learns_from]
        specs = {key: self._spec(key) for field in fields for key in each_key(field)}
        shapes = {key: one.shape[self._batch_dims() :] for key, one in specs.items()}
        moment = TensorDict(
            {key: torch.zeros(shapes[key], dtype=one.dtype) for key, one in specs.items()}, []
        )
        values = self._by_field(row, self._seen(moment, row))
        return self._typed_values(NewRows(torch.Size()), *values)[spec.name]

    def _seen(self, moment: TensorDictBase, row: Row) -> list[Tensor]:
        """What an update reads of a moment; of a field of several keys one after the other."""
        fields = [getattr(row, field) for field in self._learns_from]
        return self._as_read(row, [self._needed(moment, key) for each in fields for key in each_key(each)])

    def _as_read(self, row: Row, seen: Sequence[Tensor]) -> list[Tensor]:
        """Entries that an update reads, as it reads them: logically, single numbers that are joined as vectors of one."""
        if not self._logical:
            return list(seen)
        made = []
        left = iter(seen)
        for field in self._learns_from:
            for key in each_key(getattr(row, field)):
                value = next(left)
                value = value.squeeze(-1) if key in self._columns.read else value
                made.append(value.unsqueeze(-1) if field in self._joined and not self._rank(key) else value)
        return made

    def _by_field(self, row: Row, seen: Sequence[Tensor]) -> list[Tensor | list[Tensor]]:
        """What an update reads, `seen` one after the other, by field: of several keys a list."""
        left = iter(seen)
        keys: list[Any] = [getattr(row, field) for field in self._learns_from]
        return [[next(left) for _ in key] if isinstance(key, list) else next(left) for key in keys]

    @property
    def _added(self) -> dict[NestedKey, TensorSpec]:
        """The specs of all entries that this transform writes: bounds follow from statistics that are given alone."""
        given = self._learns == "when_called" and all(spec.init is not None for spec in self._buffer_specs())
        if given:
            return super()._added
        declared, outputs = self._declared, self._shown_and_hidden()
        follow = any(
            name in outputs and getattr(row, name) not in declared
            for row in self.keys
            for name in self._follows
        )
        return {**super()._added, **declared} if follow else declared

    # ---------------------------------------------------------------- learning

    def init_stats(
        self,
        num_iter: int,
        reduce_dim: int | Sequence[int] | None = None,
        cat_dim: int | None = None,
        key: NestedKey | None = None,
        keep_dims: Sequence[int] | None = None,
    ) -> None:
        """Learn from random steps of the environment before this transform.

        Args:
            num_iter: how many steps each environment takes; episodes that end begin anew.
            reduce_dim: the dimensions of an entry of the rollout, ``[*batch, time, *row]``, that share what is learned:
                all of the batch and time, and axes of a row. Default: the batch and time.
            cat_dim: one of them; there is one rollout, so nothing is concatenated.
            key: the entry to learn from, where there are several; default: all.
            keep_dims: some of `reduce_dim`; statistics have all axes of a row, whether named here or not.

        Raises:
            RuntimeError: there is no environment, or the statistics have their values already.
            ValueError: the dimensions are not those of an entry, or do not fit each other.
        """
        dims = ReducedDims(reduce_dim, cat_dim, keep_dims)
        if (env := self.parent) is None:
            raise RuntimeError(f"{type(self).__name__}.init_stats needs an environment; `learn` takes data")
        self._learn_once(env.rollout(num_iter, break_when_any_done=False)["next"], key, dims)

    def learn(self, data: TensorDictBase, key: NestedKey | None = None) -> None:
        """Learn from data, once; all rows and times count alike.

        Args:
            data: the entries of moments; what stands under ``"next"`` does not count.
            key: the entry to learn from; default: all.

        Raises:
            RuntimeError: the transform learns by itself, or has learned already.
            KeyError: an entry is missing.
        """
        self._learn_once(data, key, ReducedDims())

    def _learn_once(self, data: TensorDictBase, key: NestedKey | None, dims: ReducedDims) -> None:
        """Learn from the moments of `data`, which must be all that is learned of `key`."""
        name = type(self).__name__
        if self._learns != "when_called":
            raise RuntimeError(
                f"{name} learns from what passes through it; `forward` applies what it has learned"
            )
        bound = self if self.parent is not None else self._bound_to(data)
        rows = [row for row in bound.keys if key is None or normal_key(key) in row]
        if not rows:
            raise KeyError(f"{name} does not work on {key!r}, but on {', '.join(map(repr, bound.in_keys))}")
        for row in rows:
            missing = [spec for spec in self._buffer_specs() if bound._value(spec, row) is None]
            if not missing:
                raise RuntimeError(f"{name} has its statistics of {row[0]!r} already; they are learned once")
            seen = bound._seen(data, row)
            columns = int(each_key(getattr(row, self._learns_from[0]))[0] in bound._columns.read)
            new, seen = dims.as_rows(seen, data.batch_size, data.device, columns)
            with torch.no_grad():
                values = bound._updated({}, new, *bound._by_field(row, seen))
            for spec, value in zip(self._buffer_specs(), values, strict=True):
                if spec in missing:
                    shape, dtype = bound._shape(spec, row), bound._dtype(spec, row)
                    made = value.detach().to(dtype).expand(shape)
                    bound._statistics.put(buffer_name(spec, row), made)

    def _learn_of(self, moment: TensorDictBase, rows: Callable[[Row, TensorDictBase], NewRows]) -> None:
        """Learn from the rows of a moment that are new; recorded data, and entries that are not there, teach nothing."""
        if self.frozen or self._learns == "when_called" or self._data is not None or self._draws_zeros:
            return  # what specs are found by teaches nothing
        common: dict[str, Tensor] | None = None
        with torch.no_grad():
            for row in self.keys:
                keys = [getattr(row, field) for field in self._learns_from]
                if not self._lacks(moment, *keys):
                    common = self._learn_row(row, rows(row, moment), self._seen(moment, row), common)

    def _learn_row(
        self, row: Row, new: NewRows, seen: Sequence[Tensor], common: dict[str, Tensor] | None
    ) -> dict[str, Tensor]:
        """Learn one repetition, where gradients are off.

        Args:
            row: its keys.
            new: the rows that are new.
            seen: the values that its update reads, those of several keys one after the other.
            common: what is one for all keys, as it was before; None for the first repetition, which learns it.

        Returns:
            What is one for all keys, as it was before.
        """
        statistics = self._statistics
        with statistics.locked():
            buffers = self._buffers_of(row[0])
            held = {spec.name: statistics.values[name] for spec, name in buffers}
            before = {spec.name: held[spec.name] for spec, _ in buffers if spec.each is None}
            if statistics.shared:
                before = {name: value.clone() for name, value in before.items()}
            if not new.size.numel():
                return before
            held_before = held if common is None else {**held, **common}
            values = self._updated(held_before, new, *self._by_field(row, seen))
            learned = None if new.mask is None else new.mask.any()
            for (spec, name), value in zip(buffers, values, strict=True):
                if common is None or spec.each is not None:
                    statistics.put(name, kept_value(value, held[spec.name], learned, seen))
        return before if common is None else common

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        if self._learns != "at_reset":
            self._learn_of(next_tensordict, self._stepped_rows(tensordict))
        return super()._step(tensordict, next_tensordict)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        self._learn_of(tensordict_reset, self._reset_rows(tensordict))
        return super()._reset(tensordict, tensordict_reset)

    def _stepped_rows(self, tensordict: TensorDictBase) -> Callable[[Row, TensorDictBase], NewRows]:
        """The rows that took the step."""
        mask: Tensor | None = peek(tensordict, "_step")

        def rows(row: Row, moment: TensorDictBase) -> NewRows:
            return self._all_rows(moment) if mask is None else NewRows.of(moment, mask)

        return rows

    def _all_rows(self, moment: TensorDictBase) -> NewRows:
        """All rows of a batch, with what was computed of their number before."""
        known = self._known_rows
        if known is None or known.size != moment.batch_size or known.device != moment.device:
            known = self.__dict__["_known_rows"] = NewRows(moment.batch_size, None, moment.device)
        return known

    def _reset_rows(self, tensordict: TensorDictBase) -> Callable[[Row, TensorDictBase], NewRows]:
        """The rows that are being reset: as the root-most mask on the path of each key says."""

        def rows(row: Row, moment: TensorDictBase) -> NewRows:
            path = next((as_tuple(key) for key in each_key(row[0])), ())
            return NewRows.of(moment, reset_mask_above(tensordict, path))

        return rows

    def empty_cache(self) -> None:
        """Forget everything derived from the environment; the statistics stay, by key."""
        super().empty_cache()
        self.__dict__["_known_rows"] = None
