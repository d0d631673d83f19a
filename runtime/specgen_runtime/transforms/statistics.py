"""Transforms that learn from the data that pass through them: their statistics, and who may change them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import peek
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.buffers import BufferSpec, buffer_name
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.keys import as_tuple, each_key, normal_key
from specgen_runtime.transforms.new_rows import NewRows, reset_mask_above
from specgen_runtime.transforms.reduced_dims import ReducedDims
from specgen_runtime.transforms.shared_statistics import NotLearnedError, Statistics, kept_value
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import TensorSpec

__all__ = ["BufferSpec", "LearningTransform"]


class LearningTransform(GeneratedTransform[Row, InverseRow]):
    """A transform that keeps statistics, shared by all rows and episodes.

    At each step and reset it learns from the rows that are new: those that stepped, and those being reset. What
    rows that stand still hold is never counted. Offline it learns nothing.

    The state dict has the statistics under ``<buffer>|<key>`` (nested keys joined by ``|``), from when the keys are known
    or loaded.

    Attributes:
        _learns_from: the fields of a record that an update reads.
        _learns: whether it learns at steps and resets, at resets, or by `init_stats` and `learn` only.
    """

    _learns_from: tuple[str, ...] = ()
    _learns: Literal["always", "at_reset", "when_called"] = "always"

    _statistics: Statistics
    _bound_names: set[str]
    _known_buffers: dict[Any, tuple[tuple[BufferSpec, str], ...]]
    _known_rows: NewRows | None

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._statistics = Statistics()

    def _buffer_specs(self) -> tuple[BufferSpec, ...]:
        """The statistics."""
        raise NotImplementedError

    def _updated(self, held: Mapping[str, Tensor], new_rows: NewRows, *values: Tensor) -> tuple[Tensor, ...]:
        """The new values of one repetition's statistics, in the order of `_buffer_specs`; `values` of `_learns_from`."""
        raise NotImplementedError

    @property
    def _added(self) -> dict[NestedKey, TensorSpec]:
        """The specs of all entries that this transform writes: bounds follow from statistics that are given alone."""
        given = self._learns == "when_called" and all(spec.init is not None for spec in self._buffer_specs())
        return super()._added if given else self._declared

    # ---------------------------------------------------------------- learning

    @property
    def initialized(self) -> bool:
        """Whether all statistics have values: given, learned or loaded."""
        held = self._statistics.values
        return all(
            spec.init is not None or buffer_name(spec, row) in held
            for row, spec in product(self.keys, self._buffer_specs())
        )

    @property
    def frozen(self) -> bool:
        """Whether the statistics stay as they are."""
        return self._statistics.frozen

    def freeze(self) -> Self:
        """Let the statistics stay as they are, here and in copies that share them; returns this transform."""
        self._statistics.frozen = True
        return self

    def unfreeze(self) -> Self:
        """Learn again; returns this transform."""
        self._statistics.frozen = False
        return self

    def frozen_copy(self) -> Self:
        """A copy of its own, in no environment, whose statistics stay as they are now."""
        if self.container is not None:
            self._bind_values()
        twin = self.clone()
        twin._statistics = copy.deepcopy(self._statistics)
        return twin.freeze()

    def share_memory(self) -> Self:
        """Put the statistics where processes share them: what one learns, all know.

        Environments in other processes get this object, or a copy made behind this call.

        Raises:
            RuntimeError: the keys are not known yet, or a statistic has no value.
        """
        if self.container is None and not self._statistics.values:
            raise RuntimeError(f"put {type(self).__name__} into an environment first: it says the keys")
        if self.container is not None:
            self._bind_values()
        self._statistics.share()
        return self

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
            keys = [getattr(row, field) for field in self._learns_from]
            seen = [bound._require(data, one) for one in keys]
            columns = int(each_key(keys[0])[0] in bound._columns.read)
            new, seen = dims.as_rows(seen, data.batch_size, data.device, columns)
            with torch.no_grad():
                values = bound._updated({}, new, *seen)
            for spec, value in zip(self._buffer_specs(), values, strict=True):
                if spec in missing:
                    shape, dtype = bound._shape(spec, row), bound._dtype(spec, row)
                    made = value.detach().to(dtype).expand(shape)
                    bound._statistics.put(buffer_name(spec, row), made)

    def _learn_of(self, moment: TensorDictBase, rows: Callable[[Row, TensorDictBase], NewRows]) -> None:
        """Learn from the rows of a moment that are new; recorded data, and entries that are not there, teach nothing."""
        if self.frozen or self._learns == "when_called" or self._data is not None:
            return
        common: dict[str, Tensor] | None = None
        with torch.no_grad():
            for row in self.keys:
                keys = [getattr(row, field) for field in self._learns_from]
                if not self._lacks(moment, *keys):
                    seen = [self._require(moment, key) for key in keys]
                    common = self._learn_row(row, rows(row, moment), seen, common)

    def _learn_row(
        self, row: Row, new: NewRows, seen: Sequence[Tensor], common: dict[str, Tensor] | None
    ) -> dict[str, Tensor]:
        """Learn one repetition, where gradients are off.

        Args:
            row: its keys.
            new: the rows that are new.
            seen: the values that its update reads.
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
            values = self._updated(held if common is None else {**held, **common}, new, *seen)
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

    # ------------------------------------------------------------------ values

    def _row_of(self, key: NestedKey | list[NestedKey]) -> Row:
        """The keys of the repetition that an entry belongs to."""
        return next(row for row in self.keys if key in row or any(key in each_key(one) for one in row))

    def _held(self, key: NestedKey | list[NestedKey]) -> Mapping[str, Tensor]:
        """The statistics of an entry: one state of them, whoever changes them meanwhile."""
        statistics = self._statistics
        with statistics.locked():
            held = {spec.name: statistics.values[name] for spec, name in self._buffers_of(key)}
            return {name: value.clone() for name, value in held.items()} if statistics.shared else held

    def _buffers_of(self, key: NestedKey | list[NestedKey]) -> tuple[tuple[BufferSpec, str], ...]:
        """The statistics of the repetition of an entry, which all have values, with their names in state dicts."""
        entry = tuple(key) if isinstance(key, list) else key
        known = self._known_buffers.get(entry)
        if known is None:
            row = self._row_of(key)
            for spec in (specs := self._buffer_specs()):
                self._refuse_unlearned(spec, row)
            known = tuple((spec, buffer_name(spec, row)) for spec in specs)
            self._known_buffers[entry] = known
        return known

    def _bind_values(self) -> None:
        """Begin the statistics of all keys, or compare those that were loaded with them."""
        for row, spec in product(self.keys, self._buffer_specs()):
            self._value(spec, row)

    def _refuse_unlearned(self, spec: BufferSpec, row: Row) -> None:
        if self._value(spec, row) is None:
            raise NotLearnedError(
                f"{type(self).__name__} has no {spec.name!r} of {row[0]!r} yet: give it, call `init_stats(num_iter)` "
                "in an environment or `learn(data)`, or load a state dict"
            )

    def _value(self, spec: BufferSpec, row: Row) -> Tensor | None:
        """The value of a statistic, which begins when it is first asked for; None if it has none."""
        name = buffer_name(spec, row)
        value = self._statistics.values.get(name)
        if name in self._bound_names:
            return value
        shape = self._shape(spec, row)
        if value is None and spec.init is not None:
            device = source.device if (source := self._told_by()) is not None else None
            init = torch.as_tensor(spec.init, dtype=self._dtype(spec, row), device=device)
            try:
                value = self._statistics.values[name] = init.expand(shape).clone()
            except RuntimeError as error:
                raise ValueError(
                    f"{type(self).__name__} begins {spec.name!r} of {row[0]!r} with the shape {list(init.shape)}, but a "
                    f"row of it has {list(shape)}"
                ) from error
        if value is not None:
            if value.shape != shape:
                raise ValueError(
                    f"{type(self).__name__} has {name!r} of the shape {list(value.shape)}, but a row of {row[0]!r} asks "
                    f"for {list(shape)}"
                )
            self._bound_names.add(name)
        return value

    def _shape(self, spec: BufferSpec, row: Row) -> torch.Size:
        """The shape of a statistic: that of an entry without the batch, or of one number."""
        if not spec.shaped or spec.each is None:
            return torch.Size()
        source = self._told_by()
        assert source is not None  # keys are bound to the one or the other
        key = getattr(row, spec.each)
        shape = self._spec(key).shape[len(source.batch_size) :]
        return shape[:-1] if key in self._columns.read else shape

    def _told_by(self) -> EnvBase | TensorDictBase | None:
        """What tells shapes and dtypes: the environment before this transform, or data."""
        return self.parent if self._data is None else self._data

    def _dtype(self, spec: BufferSpec, row: Row) -> torch.dtype:
        if spec.dtype is not None:
            return spec.dtype
        dtype = self._spec(getattr(row, spec.each or "")).dtype
        assert dtype is not None  # of a leaf
        return dtype

    # ----------------------------------------------------------------- storage

    def empty_cache(self) -> None:
        """Forget everything derived from the environment; the statistics stay, by key."""
        super().empty_cache()
        self.__dict__.update(_bound_names=set(), _known_buffers={}, _known_rows=None)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Statistics move with the module, and keep their dtype: in float32 they would stop counting.
        for name, value in self._statistics.values.items():
            self._statistics.values[name] = value.to(fn(value).device)
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.container is not None:
            self._bind_values()
        with self._statistics.locked():
            values = self._statistics.values.items()
            destination.update((prefix + name, value.detach().clone()) for name, value in values)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if self.container is not None:
            self._bind_values()
        specs = {spec.name: spec for spec in self._buffer_specs()}
        loaded = {
            key.removeprefix(prefix): value
            for key, value in state_dict.items()
            if key.startswith(prefix) and key.removeprefix(prefix).split("|")[0] in specs
        }
        unexpected_keys[:] = [key for key in unexpected_keys if key.removeprefix(prefix) not in loaded]
        missing_keys += [prefix + name for name in self._statistics.values if name not in loaded]
        dtypes = {name: specs[name.split("|")[0]].dtype for name in loaded}
        problems = self._statistics.load(loaded, dtypes)
        error_msgs += [f"{prefix + name!r} has {problem}" for name, problem in problems.items()]
