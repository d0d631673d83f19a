"""`PartingTransform`: one entry that the policy writes in place of several that the environment is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from tensordict import TensorDictBase

from specgen_runtime.specs import Composite, Unbounded
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.entries import EntriesTransform
from specgen_runtime.transforms.keys import normal_key
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import TensorSpec

__all__ = ["PartingTransform"]


class PartingTransform(EntriesTransform[Row, InverseRow]):
    """A transform whose inverse may take apart what the policy wrote."""

    _known_parts: dict[NestedKey, torch.Size] | None = None

    def empty_cache(self) -> None:
        """Forget everything derived from the environment."""
        super().empty_cache()
        self.__dict__["_known_parts"] = None

    def _outer_specs(self, key: InverseRow) -> dict[NestedKey, TensorSpec]:
        """The specs of what the policy writes in a repetition, by key."""
        return {}

    def _in_place_of(self, keys: str, keyword: str, given: NestedKey | None, default: NestedKey) -> NestedKey:
        """The key that the policy writes in place of several.

        Args:
            keys: the argument that names these.
            keyword, given: the argument that names the key, and what it was given.
            default: the key without it.

        Raises:
            ValueError: if the key is named, and none of these.
        """
        if given is None:
            return default
        if not self._in_keys_inv:
            raise ValueError(
                f"{type(self).__name__}: {keyword} is what the policy writes in place of {keys}, which are not given"
            )
        return normal_key(given)

    def _together(self, keys: list[NestedKey]) -> list[list[NestedKey]]:
        """Keys that are read together, for the one repetition that there is; none where nobody named any."""
        return [keys] if keys else []

    @contextmanager
    def _parting(self, written: TensorDictBase, made: TensorDictBase, row: InverseRow) -> Iterator[None]:
        """Compute several keys in the block of what the policy wrote in their place, which is as large as they are.

        Args:
            written: what the policy wrote.
            made: takes what the environment is given.
            row: the keys.

        Raises:
            RuntimeError: if what the policy wrote has another shape.
        """
        known = self.parent is not None or self._given is not None
        if known and not self._draws_zeros:
            self._check_parts(written, self._dims_of_parts(made, row), row)
        try:
            yield
        except IndexError as error:
            shapes = ", ".join(
                f"{key!r} {list(written[key].shape)}" for key in self._fields(self._takes, [row])
            )
            parts = self._fields(self._gives, [row])
            raise RuntimeError(
                f"{type(self).__name__} makes {len(parts)} entries of {shapes}, which is too small: {error}"
            ) from error
        if not known:
            self._check_parts(written, self._dims_of_parts(made, row), row)

    def _check_parts(
        self, written: TensorDictBase, wanted: Mapping[NestedKey, torch.Size], row: InverseRow
    ) -> None:
        for key, dims in wanted.items():
            shape = (*written.batch_size, *dims)
            if (value := self._read(written, key, tolerant=True)) is not None and value.shape != shape:
                parts = ", ".join(map(repr, self._fields(self._gives, [row])))
                raise RuntimeError(
                    f"{type(self).__name__} reads {key!r} of the shape {list(value.shape)}, and in place of {parts} stands"
                    f" {list(shape)}"
                )

    def _dims_of_parts(self, made: TensorDictBase, row: InverseRow) -> dict[NestedKey, torch.Size]:
        """The dimensions of what the policy writes in place of several keys; in no environment those of such data."""
        if self.parent is None and self._given is None:
            twin = self.clone()
            parts = {key: made[key] for key in self._fields(self._gives, [row])}
            given = {
                key: Unbounded(shape=one.shape[made.ndim :], dtype=one.dtype) for key, one in parts.items()
            }
            twin.__dict__["_given"] = Composite(given)
            return {key: spec.shape for key, spec in twin._outer_specs(row).items()}
        if self._known_parts is None:
            rank, specs = self._batch_dims(), self._outer_specs(row)
            self.__dict__["_known_parts"] = {key: spec.shape[rank:] for key, spec in specs.items()}
        assert self._known_parts is not None
        return self._known_parts
