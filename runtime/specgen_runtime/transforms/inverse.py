"""`InverseTransform`: what a policy writes in place of what the environment is given, and the specs of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.envs.packing import put_checked
from specgen_runtime.specs import Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, Unbounded
from specgen_runtime.specs.values import equal
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.bound import InverseRow, Row
from specgen_runtime.transforms.columns import check_pattern
from specgen_runtime.transforms.entries import EntriesTransform
from specgen_runtime.transforms.key_finding import INPUTS, OUTPUTS
from specgen_runtime.transforms.keys import each_key, leaf_keys, put_spec, remove
from specgen_runtime.transforms.like import box_of
from specgen_runtime.transforms.outer import Joining, TensorMap, followed, is_bounded
from specgen_runtime.transforms.parting import parting
from specgen_runtime.transforms.tensor_parameters import refuse_wide_parameters_of_inverse
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase
    from specgen_runtime.specs import TensorSpec

__all__ = ["InverseTransform"]

_MOST_DIMS = 16
"""No entry of recorded data has more dimensions behind the batch's, where these alone tell its shape."""

_KINDS: dict[str, type[Any]] = {
    "categorical": Categorical,
    "onehot": OneHot,
    "multi_categorical": MultiCategorical,
    "multi_onehot": MultiOneHot,
}


class InverseTransform(EntriesTransform[Row, InverseRow]):
    """A transform whose inverse reads what the specs of the environment say: bounds, shapes, numbers of classes.

    A subclass writes `_outer_specs`, and `_inv_apply_transform` or `_inverse_map`.

    Attributes:
        _inverse_shapes: the dimensions of what the environment is given, where it can't have any, as patterns say them.
        _unknown_inverse: whether networks or a class compute the inverse, which run for no spec.
    """

    _inverse_shapes: ClassVar[Mapping[str, str]] = {}
    _unknown_inverse: bool = False
    _known_inner: dict[NestedKey, Tensor]
    _known_bounds: dict[NestedKey, tuple[Tensor, Tensor]]
    _known_classes: dict[NestedKey, tuple[int, ...]]
    _known_parts: dict[NestedKey, torch.Size] | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._known_inner, self._known_bounds, self._known_classes, self._known_parts = {}, {}, {}, None
        self._recorded_batch: torch.Size | None = None  # while recorded data of another batch size are turned

    def empty_cache(self) -> None:
        """Forget everything derived from the environment."""
        super().empty_cache()
        self.__dict__.update(_known_inner={}, _known_bounds={}, _known_classes={}, _known_parts=None)

    def _inverse_map(self, tensordict: TensorDictBase, tolerant: bool) -> TensorDictBase:
        if type(self)._inv_apply_transform is Transform._inv_apply_transform:
            return tensordict
        # All are read before one is written: names may be swapped.
        values = [(inner, self._read(tensordict, outer, tolerant)) for inner, outer in self._pairs_inv()]
        for inner, value in values:
            if value is not None:
                put_checked(tensordict, inner, self._inv_apply_transform(value))
        return tensordict

    def _inv_recorded(self, tensordict: TensorDictBase) -> TensorDictBase:
        refuse_wide_parameters_of_inverse(self, tensordict)
        env = self.parent
        if env is None or env.batch_size == tensordict.batch_size:
            return super()._inv_recorded(tensordict)
        self.__dict__.update(_known_inner={}, _recorded_batch=tensordict.batch_size)
        try:
            return super()._inv_recorded(tensordict)
        finally:
            self.__dict__.update(_known_inner={}, _recorded_batch=None)

    def _inwards(self, outer: TensorDictBase) -> TensorDictBase:
        """What the environment is given where the policy wrote `outer`, which may lack some of it."""
        return self._inverse_map(outer, True)

    # ------------------------------------------------------------------- specs

    def _outer_specs(self, key: InverseRow) -> dict[NestedKey, TensorSpec]:
        """The specs of what the policy writes in a repetition, by key."""
        return {}

    def _map_specs_inv(self, specs: Composite) -> None:
        if type(self)._outer_specs is InverseTransform._outer_specs:
            return  # the policy writes what the environment takes
        present = leaf_keys(specs)
        given: set[NestedKey] = set()
        added: dict[NestedKey, TensorSpec] = {}
        refuse_wide_parameters_of_inverse(self)
        for row in self.keys_inv:
            keys = self._fields(self._gives, [row])
            given.update(keys)
            if keys[0] in present:  # what is taken stands where the first entry that is given does
                self._check_patterns(row)
                specs_of_row = self._outer_specs(row)
                self._check_inverse(keys, specs_of_row, specs.shape)
                added |= specs_of_row
        for key in added:
            if key in present and key not in given:
                raise ValueError(
                    f"{type(self).__name__} takes {key!r}, which is there already; give one another key"
                )
        for key, spec in added.items():
            put_spec(self, specs, key, spec)
        # Last, so that a group has what takes their place, and stays with its agents' dimension.
        for key in present:
            if key in given and key not in added:
                remove(specs, key)

    def _check_patterns(self, row: InverseRow) -> None:
        """Check the dimensions of what the environment is given in a repetition; raises as `check_pattern` does."""
        sizes: dict[str, tuple[int, NestedKey]] = {}
        for field, pattern in self._inverse_shapes.items():
            for key in each_key(getattr(row, field)):
                dims = self._spec(key, INPUTS).shape[self._batch_dims() :]
                check_pattern(self, key, dims, pattern.split(", ") if pattern else [], sizes)

    def _check_inverse(
        self, keys: Sequence[NestedKey], taken: Mapping[NestedKey, TensorSpec], batch: torch.Size
    ) -> None:
        """Check that what is computed of what the policy writes is what the environment takes.

        Raises:
            ValueError: if it has another shape or dtype, or nothing takes the place of an entry.
        """
        if not taken:
            raise ValueError(
                f"{type(self).__name__}: with these parameters nothing takes the place of {keys[0]!r}"
            )
        if self._unknown_inverse:
            return
        outer = TensorDict({}, batch)
        for key, spec in taken.items():
            outer.set(key, spec.zero())
        with self._drawing_zeros():
            made = self._inwards(outer)
        for key in keys:
            value, spec = self._require(made, key), self._spec(key, INPUTS)
            if (value.shape, value.dtype) != (spec.shape, spec.dtype):
                raise ValueError(
                    f"{type(self).__name__} makes {value.dtype} {list(value.shape)} of what the policy writes, and"
                    f" {key!r} is {spec.dtype} {list(spec.shape)}"
                )

    def _outer_spec(
        self,
        inner: NestedKey,
        outer: NestedKey,
        image: Literal["structural", "monotone", "interval"],
        outwards: TensorMap | None = None,
        dtype: torch.dtype | None = None,
    ) -> TensorSpec:
        """The spec of what the policy writes under `outer`, from that of what the environment takes; see `followed`."""

        def joining(values: list[Tensor]) -> Tensor:
            return values[0] if outwards is None else outwards(values[0])

        return self._joined_spec([inner], outer, image, joining, dtype)

    def _joined_spec(
        self,
        inner: Sequence[NestedKey],
        outer: NestedKey,
        image: Literal["structural", "monotone", "interval"],
        outwards: Joining,
        dtype: torch.dtype | None = None,
    ) -> TensorSpec:
        """As `_outer_spec`, of what stands in place of several keys."""

        def inwards(value: Tensor) -> list[Tensor]:
            with self._drawing_zeros():
                made = self._inwards(TensorDict({}, []).set(outer, value))
                return [self._require(made, key) for key in inner]

        try:
            return followed([self._spec(key, INPUTS) for key in inner], outwards, inwards, image, dtype)
        except (ValueError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and len(inner) == 1:
                raise
            keys = ", ".join(map(repr, inner))
            raise ValueError(f"{type(self).__name__} can't be applied to {keys}: {error}") from error

    # ----------------------------------------------------------------- values

    def _give(self, tensordict: TensorDictBase, key: NestedKey, value: Tensor) -> None:
        """Write what networks or a class made of what the policy wrote; they run for no spec, so it is checked here.

        Raises:
            RuntimeError: if it has another shape or dtype than what the environment takes.
        """
        if (env := self.parent) is not None:
            spec = self._spec(key, INPUTS)
            # data may have another batch size than the environment
            shape = (*tensordict.batch_size, *spec.shape[len(env.batch_size) :])
            if (value.shape, value.dtype) != (shape, spec.dtype):
                raise RuntimeError(
                    f"{type(self).__name__} makes {value.dtype} {list(value.shape)} of what the policy writes, and"
                    f" {key!r} is {spec.dtype} {list(shape)}"
                )
        self._write(tensordict, key, value)

    def _parting(
        self, written: TensorDictBase, made: TensorDictBase, row: InverseRow
    ) -> AbstractContextManager[None]:
        """Where several keys are computed of what the policy wrote in their place; see `parting`."""
        return parting(self, written, made, row)

    def _dims_of_parts(self, row: InverseRow) -> dict[NestedKey, torch.Size]:
        """The dimensions of what the policy writes in place of several keys."""
        if self._known_parts is None:
            rank, specs = self._batch_dims(), self._outer_specs(row)
            self.__dict__["_known_parts"] = {key: spec.shape[rank:] for key, spec in specs.items()}
        assert self._known_parts is not None
        return self._known_parts

    def _inner(self, key: NestedKey, *, unread: bool = False) -> Tensor:
        """A tensor of the shape, dtype and device of what the environment is given.

        Args:
            key: what it is given.
            unread: whether parameters stand in for its shape, so that outside of environments any tensor does.

        Raises:
            RuntimeError: it is part of no environment that could tell.
        """
        if self.parent is None and self._given is None:
            if unread:
                return torch.zeros(())
            raise RuntimeError(
                f"{type(self).__name__} is part of no environment that could tell the spec of {key!r}, which its inverse"
                " makes: call it behind one, TransformedEnv(env, transform).transform.inv(...)"
            )
        if key not in self._known_inner:
            blank = self._spec(key, INPUTS).zero()
            if self._recorded_batch is not None:
                blank = blank.new_zeros((*self._recorded_batch, *blank.shape[self._batch_dims() :]))
            self._known_inner[key] = blank
        return self._known_inner[key]

    def _inner_dtype(self, key: NestedKey) -> torch.dtype:
        """The dtype of what the environment is given; of recorded data that of what the policy wrote."""
        data = self._data
        if self.parent is not None or self._given is not None or data is None:
            return self._inner(key).dtype
        row = next(row for row in self.keys_inv if key in self._fields(self._gives, [row]))
        written = (data.get(one, None) for one in self._fields(self._takes, [row]))
        return next((value.dtype for value in written if value is not None), torch.get_default_dtype())

    def _bounds(self, key: NestedKey, *, unread: bool = False) -> tuple[Tensor, Tensor]:
        """The bounds of what the environment is given, without the batch's dimensions where all rows have the same.

        Args:
            key: what it is given.
            unread: whether parameters stand in for them: any numbers do.

        Raises:
            RuntimeError: it is part of no environment that could tell.
            ValueError: if it has no finite bounds on both sides.
        """
        if key not in self._known_bounds:
            spec = self._spec(key, INPUTS)
            if not is_bounded(spec):
                if unread:
                    return torch.zeros(()), torch.zeros(())
                if self.parent is None and self._given is None:
                    raise RuntimeError(
                        f"{type(self).__name__} is part of no environment that could tell the bounds of {key!r}: call it"
                        " behind one, TransformedEnv(env, transform).transform.inv(...)"
                    )
                raise ValueError(
                    f"{type(self).__name__} needs finite bounds on both sides of {key!r}, whose spec is {spec}"
                )
            low, high = box_of(spec)
            rank = self._inner_rank(key)
            first = [end.reshape(-1, *end.shape[end.ndim - rank :])[0] for end in (low, high)]
            same = equal(first[0].expand_as(low), low) and equal(first[1].expand_as(high), high)
            self._known_bounds[key] = (first[0], first[1]) if same else (low, high)
        return self._known_bounds[key]

    def _with_bounds(self, env: EnvBase | None, keys: list[NestedKey]) -> list[NestedKey]:
        """`keys`, once they are known to have finite bounds on both sides; raises as `_bounds` does."""
        for key in keys if env is not None else ():
            self._bounds(key)
        return keys

    def _of_kind(
        self,
        env: EnvBase | None,
        keys: list[NestedKey],
        kind: Literal["categorical", "onehot", "multi_categorical", "multi_onehot"],
        counts: tuple[int, ...],
        groups: Sequence[str] = OUTPUTS,
    ) -> list[NestedKey]:
        """`keys`, once their specs are known to be choices of this kind.

        Args:
            env: the environment before this transform, if there is one.
            keys: the keys.
            kind: how choices are written.
            counts: how many classes there are; of several choices one number for all, or one each; empty for any.
            groups: where keys are looked up.

        Raises:
            TypeError: if the spec of a key is another one.
        """
        for key in keys if env is not None else ():
            spec: Any = self._spec(key, groups)
            found: list[int] = []
            if type(spec) is _KINDS[kind]:
                found = (
                    torch.as_tensor(spec.nvec if kind.startswith("multi") else spec.n).reshape(-1).tolist()
                )
            wanted = counts * len(found) if len(counts) == 1 else counts or tuple(found)
            if not found or tuple(found) != wanted:
                said = f"{kind}({', '.join(map(str, counts or ('k',)))})"
                raise TypeError(f"{type(self).__name__} needs {said}, but {key!r} is {spec}")
        return keys

    def _classes(self, row: InverseRow, key: NestedKey) -> tuple[int, ...]:
        """How many classes each of several choices has."""
        if key not in self._known_classes:
            spec: Any = self._outer_specs(row)[key]
            self._known_classes[key] = (
                spec._widths
            )  # `nvec` is a tensor, which has no numbers on the meta device
        return self._known_classes[key]

    def _as_taken(self, tensordict: TensorDictBase) -> TensorDictBase:
        """The entries as the policy wrote them, whatever is written from here on."""
        rows = self.keys_inv
        several = len(rows) > 1 or len(self._gives) > 1 or (bool(rows) and isinstance(rows[0][0], list))
        return tensordict.copy() if several else tensordict

    def _written_by_policy(self, tensordict: TensorDictBase, key: NestedKey, exists: bool) -> Tensor:
        """What the policy wrote; nothing reads it where it does not exist."""
        return self._require(tensordict, key) if exists else torch.empty(0)

    def _inner_rank(self, key: NestedKey) -> int:
        """How many dimensions what the environment is given has, without the batch's."""
        if self.parent is None and self._given is None:
            return self._rank_from_data(key)
        return len(self._spec(key, INPUTS).shape) - self._batch_dims()

    def _rank_from_data(self, key: NestedKey) -> int:
        """The rank of which what recorded data hold in the place of `key` is made, where no environment tells it.

        Each rank of `key` makes another one of what the policy writes, so that at most one fits the data.

        Raises:
            RuntimeError: if the data do not tell it either.
        """
        data = self._data
        row = next(row for row in self.keys_inv if key in self._fields(self._gives, [row]))
        for rank in range(_MOST_DIMS) if data is not None else ():
            twin = self.clone()
            # Without numbers, since parameters that say sizes need not fit; one row, of which no axis is taken.
            blank = Unbounded(shape=(1,) * (rank + 1), device="meta")
            given = Composite(dict.fromkeys(self._fields(self._gives, [row]), blank), shape=(1,))
            twin.__dict__.update(_given=given, _data=TensorDict({}, [1]))
            with suppress(RuntimeError, IndexError, ValueError):
                outer = twin._outer_specs(row)
                if all(_rank_in(data, each) == len(spec.shape) - 1 for each, spec in outer.items()):
                    return rank
        raise RuntimeError(
            f"{type(self).__name__} is part of no environment that could tell the shape of {key!r}"
        )


def _rank_in(tensordict: TensorDictBase, key: NestedKey) -> int | None:
    """How many dimensions an entry has behind the batch's; None where it is missing."""
    value: Tensor | None = tensordict.get(key, None)
    return None if value is None else value.ndim - tensordict.ndim
