"""Finds the specs of what a transform computes by computing it: once for shapes, and at the ends of its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from specgen_runtime.specs import Unbounded
from specgen_runtime.transforms.like import box_of, boxed, flag_like, unbounded_like
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.specs import TensorSpec
    from specgen_runtime.transforms.generated import GeneratedTransform

__all__ = ["Follows", "following_specs"]

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
    return _Images(transform, found).specs()


class _Images:
    def __init__(self, transform: GeneratedTransform[Any, Any], follows: Mapping[str, Follows]) -> None:
        self.transform = transform
        self.follows = follows
        self.inputs: dict[NestedKey, str] = {}
        outputs = {*transform._shown_and_hidden(), *transform._absent()}
        for row in transform.keys:
            for field in row._fields:
                if field not in outputs:
                    value = getattr(row, field)
                    self.inputs |= dict.fromkeys(value if isinstance(value, list) else [value], field)
        self.carried = {
            key: name
            for row in transform.keys
            for name in transform._carries
            if name not in follows and (key := getattr(row, name)) in transform._declared
        }
        self.boxes: dict[NestedKey, Box] = {}

    def specs(self) -> dict[NestedKey, TensorSpec]:
        transform = self.transform
        specs = {key: transform._spec(key) for key in self.inputs}
        blank = self._after_reset({key: spec.zero() for key, spec in specs.items()})
        kinds = {
            key: (blank.get(key), how, row)
            for row in transform.keys
            for name, how in self.follows.items()
            if blank.get(key := getattr(row, name), None) is not None
        }
        self.boxes = {key: box_of(spec) for key, spec in specs.items()}
        self.boxes |= {key: box_of(transform._declared[key]) for key in self.carried}
        ends = self._widened({key: value for key, (value, _, _) in kinds.items()})
        made: dict[NestedKey, TensorSpec] = {}
        for key, (value, how, row) in kinds.items():
            if how.image == "same" and how.source is not None:
                made[key] = specs[getattr(row, how.source)].clone()
            elif key in ends:
                made[key] = boxed(*ends[key])
            else:
                made[key] = _within(value, how)
        return made

    def _widened(self, outputs: Mapping[NestedKey, Tensor]) -> dict[NestedKey, Box]:
        """The bounds of those outputs whose values follow from ends."""
        how = {getattr(row, name): one for row in self.transform.keys for name, one in self.follows.items()}
        fixed = {
            key: _ends(value, how[key]) for key, value in outputs.items() if how[key].image == "interval"
        }
        if any(one.image == "monotone" for one in how.values()) and len(self._fields()) > _MOST:
            return {}
        found: dict[NestedKey, Box] = {}
        for values in self._corners(self.boxes):
            _widen(found, self._after_reset(values), outputs)
        found |= fixed
        if not self.transform._sequential:
            return {key: box for key, box in found.items() if key not in fixed}
        for _ in range(ROUNDS):
            before = dict(found)
            for values in self._corners({**self.boxes, **found}):
                after = self.transform._step(self._data(values), self._data(values, self.inputs))
                _widen(found, after, outputs)
            found |= fixed
            if all(_equal(box, before[key]) for key, box in found.items()):
                return {key: box for key, box in found.items() if key not in fixed}
        return {}

    def _fields(self) -> list[str]:
        carried = [name for name in self.transform._carries if name in self.follows]
        return [*dict.fromkeys(self.inputs.values()), *dict.fromkeys(self.carried.values()), *carried]

    def _corners(self, boxes: Mapping[NestedKey, Box]) -> Iterator[dict[NestedKey, Tensor]]:
        """Each input at one of its ends; all at the same for what only takes elements."""
        fields = self._fields()
        names = {**self.carried, **self.inputs}
        for row in self.transform.keys:
            names |= {getattr(row, name): name for name in self.follows}
        mixed = any(how.image == "monotone" for how in self.follows.values())
        choices: Iterable[tuple[int, ...]] = (
            product((0, 1), repeat=len(fields)) if mixed else [(end,) * len(fields) for end in (0, 1)]
        )
        for choice in choices:
            at = dict(zip(fields, choice, strict=True))
            yield {key: box[at.get(names[key], choice[0] if choice else 0)] for key, box in boxes.items()}

    def _after_reset(self, values: Mapping[NestedKey, Tensor]) -> TensorDictBase:
        data = self._data(values)
        if self.transform._sequential:
            return self.transform._reset(self._data({}), data)
        return self.transform._map(data, False)

    def _data(
        self, values: Mapping[NestedKey, Tensor], only: Iterable[NestedKey] | None = None
    ) -> TensorDict:
        """The values as entries, and where the transform keeps them for itself."""
        made = TensorDict({}, [])
        for key in values if only is None else only:
            made.set(key, values[key])
            for places in (self.transform._private, self.transform._private_inputs):
                if key in places:
                    made.set(places[key], values[key])
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


def _ends(value: Tensor, how: Follows) -> Box:
    low, high = box_of(_within(value, how))
    return low, high


def _within(value: Tensor, how: Follows) -> TensorSpec:
    """The spec of values like `value` in the interval of `how`."""
    spec = Unbounded(shape=value.shape, dtype=value.dtype, device=value.device)
    if value.dtype == torch.bool:
        return flag_like(spec)
    low, high = box_of(spec)
    if value.is_floating_point() or how.low > float(low.min()) or how.high < float(high.max()):
        return boxed(low.clamp(min=how.low), high.clamp(max=how.high))
    return unbounded_like(spec)
