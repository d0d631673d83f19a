"""Finds the specs of what a transform computes by computing it: once for shapes, and at the ends of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.keys import each_key
from specgen_runtime.transforms.like import bounded_like, box_of, boxed, flag_like, limits, unbounded_like
from specgen_runtime.transforms.shared_statistics import NotLearnedError
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import TensorSpec
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["Follows", "following_specs", "refuse_shapes"]

ROUNDS = 64
"""So often bounds of what is carried are widened; what has none by then is unbounded."""
_MOST = 6
"""Of so many inputs each combination of ends is tried."""

Box = tuple[Tensor, Tensor]


class Follows(NamedTuple):
    """How the values of an output follow from those of the inputs.

    Attributes:
        image: ``same`` for the input itself, ``structural`` for some of the inputs' elements and constants,
            ``monotone`` for what rises or falls in each element of each input, ``interval`` for anything else.
        low, high: bounds of an ``interval``, whatever the inputs are.
        source: the field of the record whose spec is that of the output.
    """

    image: Literal["same", "structural", "monotone", "interval"]
    low: float = -torch.inf
    high: float = torch.inf
    source: str | None = None


def following_specs(transform: GeneratedTransform[Any, Any]) -> dict[NestedKey, TensorSpec]:
    """The specs of a transform's outputs that no declaration gives, by key.

    Shapes and dtypes are those of a run on zeros. Bounds are found by runs on the ends of the inputs' specs; those of
    what is carried are widened by steps until they no longer change. Nothing outside the transform is changed.
    """
    written = transform._shown_and_hidden()
    found = {name: how for name, how in transform._follows.items() if name in written}
    if not found:
        return {}
    images = _Images(transform, found)
    try:
        with transform._drawing_zeros():
            return images.specs()
    except (RuntimeError, IndexError) as error:
        inputs = {key: transform._mapped_spec(key) for key in images.inputs}
        refuse_shapes(transform, inputs, error)


def refuse_shapes(
    transform: GeneratedTransform[Any, Any], inputs: Mapping[NestedKey, Tensor | TensorSpec], error: Exception
) -> NoReturn:
    """Raise a ValueError that names the inputs whose shapes a transform can't be applied to.

    Where `error`, which that came out as, may be about something else, it is raised as it is: about what a network
    returns, or what has not been learned.
    """
    told = isinstance(error, NotLearnedError) or transform.__dict__.get("_networks")
    if told or not transform._follows:
        raise error
    shapes = ", ".join(f"{key!r} of the shape {list(value.shape)}" for key, value in inputs.items())
    reason = str(error).partition("\n")[0]
    raise ValueError(f"{type(transform).__name__} can't be applied to {shapes}: {reason}") from error


class _Images:
    """The runs of one transform on what its inputs may be."""

    def __init__(self, transform: GeneratedTransform[Any, Any], follows: Mapping[str, Follows]) -> None:
        self.transform = transform
        self.follows = follows
        outputs = {*transform._shown_and_hidden(), *transform._absent()} - {*transform._folds}
        self.sequential = transform._sequential and not transform._around
        shared = False
        self.inputs: dict[NestedKey, str] = {}
        self.written: dict[NestedKey, tuple[str, Any]] = {}
        self.carried: dict[NestedKey, str] = {}
        for row in transform.keys:
            for field in row._fields:
                value = getattr(row, field)
                if field not in outputs:
                    shared |= any(self.inputs.get(key, field) != field for key in each_key(value))
                    self.inputs |= dict.fromkeys(each_key(value), field)
                elif value is None:
                    continue  # an output that needs an optional key
                elif field in follows:
                    self.written[value] = field, row
                elif field in transform._carries and value in transform._declared:
                    self.carried[value] = field
        if shared:  # what rises in one field and falls in another may do neither in a key that stands in both
            self.follows = {
                field: how._replace(image="interval") if how.image == "monotone" else how
                for field, how in follows.items()
            }
        self.fields = list(dict.fromkeys([*self.inputs.values(), *self.carried.values(), *follows]))
        self.mixed = any(how.image == "monotone" for how in self.follows.values())

    def specs(self) -> dict[NestedKey, TensorSpec]:
        """The specs of the outputs."""
        transform = self.transform
        specs = {key: transform._mapped_spec(key) for key in self.inputs}
        blank = self._after_reset({key: spec.zero() for key, spec in specs.items()})
        values = {key: value for key in self.written if (value := blank.get(key, None)) is not None}
        self._refuse_batch_axes(specs, values)
        ends = self._ends({key: box_of(spec) for key, spec in specs.items()}, values)
        made: dict[NestedKey, TensorSpec] = {}
        for key, value in values.items():
            field, row = self.written[key]
            how = self.follows[field]
            if how.image == "same" and how.source is not None:
                made[key] = specs[getattr(row, how.source)].clone()
            else:
                made[key] = boxed(*ends[key]) if key in ends else _within(value, how)
        return made

    def _refuse_batch_axes(
        self, specs: Mapping[NestedKey, TensorSpec], values: Mapping[NestedKey, Tensor]
    ) -> None:
        """Raise an IndexError where an axis is one of the batch's: then a single row is computed otherwise."""
        if self.transform._declared:
            return
        batch = self.transform._batch_dims()
        row = {key: spec.zero().new_zeros(spec.shape[batch:]) for key, spec in specs.items()}
        alone = self._after_reset(row)
        # An axis of size 1 can be squeezed away, so a batch of one row tells what no other does.
        of_one = self._after_reset({key: value[None] for key, value in row.items()})
        if any(
            alone[key].shape != value.shape[batch:] or of_one[key].shape != (1, *alone[key].shape)
            for key, value in values.items()
        ):
            raise IndexError("an axis is one of the batch dimensions")

    def _ends(self, inputs: dict[NestedKey, Box], values: Mapping[NestedKey, Tensor]) -> dict[NestedKey, Box]:
        """The bounds of the outputs that follow from those of the inputs; none where they never settle."""
        transform = self.transform
        if self.mixed and len(self.fields) > _MOST:
            return {}
        if any(value.is_meta for value in values.values()):
            return {}  # bounds on the meta device have no numbers
        fixed = {
            key: box_of(_within(value, how))
            for key, value in values.items()
            if (how := self.follows[self.written[key][0]]).image == "interval"
        }
        found: dict[NestedKey, Box] = {}
        for at in self._choices():
            _widen(found, self._after_reset(self._at(inputs, self.inputs, at)), values)
        found |= fixed
        declared = {key: box_of(transform._declared[key]) for key in self.carried}
        outputs = {**self.carried, **{key: field for key, (field, _) in self.written.items()}}
        for _ in range(ROUNDS if self.sequential else 0):
            before = dict(found)
            for at in self._choices():
                after = self._at(inputs, self.inputs, at)
                root = {**after, **self._at({**declared, **before}, outputs, at)}
                _widen(found, transform._step(self._data(root), self._data(after)), values)
            found |= fixed
            if all(_equal(box, before[key]) for key, box in found.items()):
                break
        else:
            if self.sequential:
                return {}
        return {key: box for key, box in found.items() if key not in fixed}

    def _choices(self) -> Iterator[Mapping[str, int]]:
        """Which end each input is at; all are at the same one for what only takes elements."""
        several: Iterable[tuple[int, ...]] = [(end,) * len(self.fields) for end in (0, 1)]
        if self.mixed:
            several = product((0, 1), repeat=len(self.fields))
        for choice in several:
            yield dict(zip(self.fields, choice, strict=True))

    def _at(
        self, boxes: Mapping[NestedKey, Box], fields: Mapping[NestedKey, str], at: Mapping[str, int]
    ) -> dict[NestedKey, Tensor]:
        return {key: box[at[fields[key]]] for key, box in boxes.items()}

    def _after_reset(self, values: Mapping[NestedKey, Tensor]) -> TensorDictBase:
        data = self._data(values)
        if self.sequential:
            return self.transform._reset(self._data({}), data)
        return self.transform._map(data, False)

    def _data(self, values: Mapping[NestedKey, Tensor]) -> TensorDict:
        """The values as entries, and where the transform keeps them for itself."""
        made = TensorDict({}, [])
        for key, value in values.items():
            made.set(key, value)
            for places in (self.transform._private, self.transform._private_inputs):
                if key in places:
                    made.set(places[key], value)
        return made


def _widen(found: dict[NestedKey, Box], data: TensorDictBase, outputs: Mapping[NestedKey, Tensor]) -> None:
    """Let `found` hold what `data` has, too."""
    for key in outputs:
        value: Tensor | None = data.get(key, None)
        if value is None:
            continue
        if value.is_floating_point():
            low = value.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
            high = value.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)
        else:
            low = high = value
        if key in found:
            low, high = torch.minimum(found[key][0], low), torch.maximum(found[key][1], high)
        found[key] = low, high


def _equal(one: Box, other: Box) -> bool:
    return torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


def _within(value: Tensor, how: Follows) -> TensorSpec:
    """The spec of values like `value` in the interval of `how`."""
    spec = Unbounded(shape=value.shape, dtype=value.dtype, device=value.device)
    if value.dtype == torch.bool:
        return flag_like(spec)
    least, most = limits(value.dtype)
    if how.low > least or how.high < most:
        return bounded_like(spec, how.low, how.high)
    return unbounded_like(spec)
