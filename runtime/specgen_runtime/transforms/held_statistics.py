"""Statistics that a transform holds: their values for each key, who may change them, and how they are kept."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.buffers import BufferSpec, buffer_name
from specgen_runtime.transforms.generated import GeneratedTransform
from specgen_runtime.transforms.keys import each_key
from specgen_runtime.transforms.shared_statistics import NotLearnedError, Statistics
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["StatisticsTransform"]


class StatisticsTransform(GeneratedTransform[Row, InverseRow]):
    """A transform that holds statistics, shared by all rows and episodes.

    The state dict has them under ``<buffer>|<key>`` (nested keys joined by ``|``), from when the keys are known or loaded.

    Attributes:
        _values_of: parameters that have the value of a statistic, by its name, where none was given and one key is learned.
    """

    _values_of: ClassVar[Mapping[str, str]] = {}
    _statistics: Statistics
    _bound_names: set[str]
    _known_buffers: dict[Any, tuple[tuple[BufferSpec, str], ...]]

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        in_keys_inv: Sequence[NestedKey] | None = None,
        out_keys_inv: Sequence[NestedKey] | None = None,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        self._statistics = Statistics()

    if not TYPE_CHECKING:  # attributes have types of their own

        def __getattr__(self, name: str) -> Any:
            value = super().__getattr__(name)
            if value is None and name in self._values_of:
                learned = self._learned_of(self._values_of[name])
                return learned[0] if len(learned) == 1 else None
            return value

    def _learned_of(self, name: str) -> list[Tensor]:
        """The values of a statistic, of all keys that have one."""
        values = self._statistics.values
        return [value for key, value in values.items() if key.partition("|")[0] == name]

    def _buffer_specs(self) -> tuple[BufferSpec, ...]:
        """The statistics."""
        raise NotImplementedError

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
        """Learn again; returns this transform.

        Raises:
            RuntimeError: the statistics are those of other environments, which this one only reads.
        """
        if self._statistics.borrowed:
            raise RuntimeError(
                f"{type(self).__name__} reads the statistics that other environments learn: `unfreeze` one of these, or take"
                " `frozen_copy()`, which has its own"
            )
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
            RuntimeError: the keys are not known yet, a statistic has no value, or environments of this process only read them.
        """
        if self.container is None and not self._statistics.values:
            raise RuntimeError(f"put {type(self).__name__} into an environment first: it says the keys")
        if self.container is not None:
            self._bind_values()
        self._statistics.share()
        return self

    # ------------------------------------------------------------------ values

    def _row_of(self, key: NestedKey | list[NestedKey]) -> Row:
        """The keys of the repetition that an entry belongs to."""
        first = [row for row in self.keys if key in each_key(row[0]) or key == row[0]]
        return first[0] if first else next(row for row in self.keys if key in row)

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

    def _typed_value(self, spec: BufferSpec, row: Row) -> Tensor:
        """A value of the dtype and shape of a statistic that is like what is computed of the entries."""
        raise NotImplementedError

    def _shape(self, spec: BufferSpec, row: Row) -> torch.Size:
        """The shape of a statistic: that of an entry without the batch, or of one number."""
        if spec.like:
            return self._typed_value(spec, row).shape
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
        if spec.like:
            return self._typed_value(spec, row).dtype
        dtype = self._spec(getattr(row, spec.each or "")).dtype
        assert dtype is not None  # of a leaf
        return dtype

    # ----------------------------------------------------------------- storage

    def empty_cache(self) -> None:
        """Forget everything derived from the environment; the statistics stay, by key."""
        super().empty_cache()
        self.__dict__.update(_bound_names=set(), _known_buffers={})

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
