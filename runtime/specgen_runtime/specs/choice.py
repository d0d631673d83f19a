"""`Choice`: the spec of values that belong to one of several specs, or are one of several data."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase, is_non_tensor, is_tensor_collection

from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.non_tensors.constant import Constant
from specgen_runtime.specs.shapes import Change
from specgen_runtime.specs.stacks.values import join
from specgen_runtime.typing import DEVICE_TYPING, NestedKey, ShapeLike, SpecValue

__all__ = ["Choice"]

_LISTED = 4
"""How many choices an error message describes."""


class Choice(TensorSpec):
    """The spec of values that belong to one of several specs of one kind, or are one of several data.

    ```python
    Choice([Bounded(0, 1, ()), Bounded(10, 11, ())]).rand()  # between 0 and 1, or between 10 and 11
    Choice([NonTensorData("left"), NonTensorData("right")]).rand()  # NonTensorData(data=right, …)
    ```

    A value with further dimensions in front belongs to the spec if each of its parts does; `rand(shape)` draws
    one choice for all of them.

    Args:
        choices: specs of one class, or `NonTensorData`, or `NonTensorStack`; of one shape, dtype and device.
            They are copied.

    Raises:
        TypeError: if it is not a list, or the choices are of different or other classes.
        ValueError: if the list is empty, or shapes, dtypes or devices differ.
    """

    def __init__(self, choices: list[Any]) -> None:
        if not isinstance(choices, list):
            raise TypeError(f"choices must be a list, got {type(choices).__name__}")
        if not choices:
            raise ValueError("choices must hold at least one choice")
        first = choices[0]
        for place, choice in enumerate(choices):
            if not isinstance(choice, TensorSpec | NonTensorData | NonTensorStack):
                raise TypeError(
                    f"choice {place} must be a spec, NonTensorData or NonTensorStack, got {type(choice).__name__}"
                )
            if type(choice) is not type(first):
                raise TypeError(
                    f"choices must be of one class: choice 0 is a {type(first).__name__}, "
                    f"choice {place} a {type(choice).__name__}"
                )
        self._choices: list[TensorSpec] = [
            choice.clone() if isinstance(choice, TensorSpec) else Constant(choice) for choice in choices
        ]
        for name in ("shape", "dtype", "device"):
            for place, spec in enumerate(self._choices):
                expected, got = getattr(self._choices[0], name), getattr(spec, name)
                if got != expected:
                    raise ValueError(
                        f"choices must have one {name}: choice 0 has {_plainly(expected)}, "
                        f"choice {place} {_plainly(got)}"
                    )

    @property
    def num_choices(self) -> int:
        """How many choices there are."""
        return len(self._choices)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The choices: specs, or wrapped data."""
        return tuple(spec.value if isinstance(spec, Constant) else spec for spec in self._choices)

    @property
    def shape(self) -> torch.Size:
        """The shape of each choice."""
        return self._choices[0].shape

    @property
    def device(self) -> torch.device | None:
        """The device of each choice; None if they don't say."""
        return self._choices[0].device

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of each choice; None if they have none."""
        return self._choices[0].dtype

    @property
    def domain(self) -> str:
        """The domain of each choice."""
        return self._choices[0].domain

    # Values

    def rand(self, shape: ShapeLike | None = None) -> SpecValue:
        """Draw a choice from torch's global generator, then a value of it.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        return self._choices[int(torch.randint(0, len(self._choices), ()))].rand(shape)

    def zero(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return the first choice's zeros, or data.

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        return self._choices[0].zero(shape)

    def one(self, shape: ShapeLike | None = None) -> SpecValue:
        """Return the second choice's ones, or data (the first's, if there is only one choice).

        Args:
            shape: dimensions to put in front of the spec's own.
        """
        return self._choices[min(1, len(self._choices) - 1)].one(shape)

    def rand_sequence(self, length: int) -> SpecValue:
        """Draw `length` values, in front: those of `length` successive calls of `rand`."""
        return join([self.rand() for _ in range(length)], 0) if length else self.zero((0,))

    def cardinality(self) -> int | float:
        """The sum over the choices: a member of two of them counts twice."""
        return sum(spec.cardinality() for spec in self._choices)

    def enumerate(self, use_mask: bool = False) -> SpecValue:
        """Return the members of all choices, one choice after the other, along a new dimension in front."""
        members = [spec.enumerate(use_mask) for spec in self._choices]
        if is_non_tensor(members[0]):
            return join([row for rows in members for row in rows.unbind(0)], 0)
        joined: SpecValue = torch.cat(members)
        return joined

    # Membership

    def _allows(self, value: Any) -> bool:
        if any(spec.is_in(value) for spec in self._choices):
            return True
        parts = self._parts(value)
        return bool(parts) and all(self._allows(part) for part in parts)

    def _parts(self, value: Any) -> list[Any]:
        """The parts of a value with further dimensions in front, along the first of them."""
        if isinstance(value, torch.Tensor) or is_tensor_collection(value):
            return list(value.unbind(0)) if value.ndim > self.ndim and value.shape[0] >= 0 else []
        # What a tensordict gives out for a stack of data that are not tensors.
        return value if isinstance(value, list) and isinstance(self._choices[0], Constant) else []

    def _problem(self, value: Any) -> str | None:
        if self._allows(value):
            return None
        for place, part in enumerate(self._parts(value)):
            problem = self._problem(part)
            if problem is not None:
                return f"in part {place}: {problem}"
        return self._refusals(value)

    def _refusals(self, value: Any) -> str:
        """What each choice has against a value."""
        found: dict[str, None] = {}
        for spec in self._choices:
            path, what = next(spec._problems(value), ((), ""))
            found[f"key {'/'.join(path)}: {what}" if path else what] = None
        listed = "; ".join(list(found)[:_LISTED]) + ("; …" if len(found) > _LISTED else "")
        return f"none of the {len(self._choices)} choices allows it: {listed}"

    def type_check(self, value: Any, key: NestedKey | None = None) -> None:
        """Check the dtype of a value, and nothing else.

        Raises:
            TypeError: if the dtype is another one.
        """
        self._choices[0].type_check(value, key)

    def project(self, val: Any) -> SpecValue:
        """Map a value into the choice whose projection is nearest; a member comes back as the same object.

        Nearest is the least sum of absolute differences; of equal ones, the first. Dimensions in front are
        projected part by part, and a tensordict in place.

        Raises:
            TypeError: if the value is of the wrong type.
            ValueError: if its shape does not end with the spec's, or it is none of the data to choose from.
        """
        if self._allows(val):
            return val
        parts = self._parts(val)
        result = join([self.project(part) for part in parts], 0) if parts else self._nearest(val)
        if isinstance(val, TensorDictBase) and not is_non_tensor(val):
            val.update(result)
            return val
        return result

    def _nearest(self, val: Any) -> SpecValue:
        candidates, errors = self._attempts(lambda spec: spec.project(_copied(val)))
        if not candidates:
            raise self._refused("project", errors)
        distances = _distances([candidate for _, candidate in candidates], val)
        return candidates[distances.index(min(distances))][1]

    # NumPy and Python data

    def encode(self, val: Any, *, ignore_device: bool = False) -> SpecValue:
        """Encode with the first choice to which the result belongs, or else that can encode the data at all.

        Raises:
            RuntimeError, ValueError, TypeError, AssertionError: as the choices say, if none can.
        """
        encoded, errors = self._attempts(lambda spec: spec.encode(val, ignore_device=ignore_device))
        if not encoded:
            raise self._refused("encode", errors)
        for spec, value in encoded:
            if spec.is_in(value):
                return value
        return encoded[0][1]

    def to_numpy(self, val: Any, safe: bool | None = None) -> Any:
        """Turn a value into NumPy data, or bare objects, with the choice that it belongs to."""
        self._check(val, safe)
        for spec in self._choices:
            if spec.is_in(val):
                return spec.to_numpy(val, safe=False)
        if isinstance(val, torch.Tensor) and self._parts(val):
            return np.stack([self.to_numpy(part, safe=False) for part in val])
        return self._choices[0].to_numpy(val, safe=False)

    def _attempts(
        self, make: Callable[[TensorSpec], SpecValue]
    ) -> tuple[list[tuple[TensorSpec, SpecValue]], list[Exception]]:
        """What each choice makes of something, and the errors of those that can't."""
        made: list[tuple[TensorSpec, SpecValue]] = []
        errors: list[Exception] = []
        for spec in self._choices:
            try:
                made.append((spec, make(spec)))
            except (RuntimeError, ValueError, TypeError, AssertionError, KeyError) as error:
                errors.append(error)
        return made, errors

    def _refused(self, what: str, errors: list[Exception]) -> Exception:
        kind = type(errors[0])
        if kind not in (RuntimeError, ValueError, TypeError, AssertionError):
            return errors[0]
        texts = list(dict.fromkeys(str(error).removeprefix(f"cannot {what}: ") for error in errors))
        listed = "; ".join(texts[:_LISTED]) + ("; …" if len(texts) > _LISTED else "")
        return kind(f"cannot {what}: none of the {len(self._choices)} choices can: {listed}")

    # Copies and shapes

    def _mapped(self, change: Callable[[TensorSpec], TensorSpec]) -> Self:
        new = copy.copy(self)
        new._choices = [change(spec) for spec in self._choices]
        return new

    def clone(self) -> Self:
        """Return an independent copy (of wrapped data, the objects are shared)."""
        return self._mapped(lambda spec: spec.clone())

    def to(self, dest: torch.dtype | DEVICE_TYPING) -> Self:
        """Return the spec with each choice on another device or in another dtype (itself if nothing changes)."""
        new = self._mapped(lambda spec: spec.to(dest))
        same = all(after is before for after, before in zip(new._choices, self._choices, strict=True))
        return self if same else new

    def clear_device_(self) -> Self:
        """Forget the device, if the choices are composites."""
        for spec in self._choices:
            spec.clear_device_()
        return self

    @property
    def _free(self) -> torch.Size:
        return self._choices[0]._free

    def _remap(self, change: Change) -> Self:
        return self._mapped(lambda spec: spec._remap(change))

    def _vary(self, dim: int) -> Self:
        return self._mapped(lambda spec: spec._vary(dim))

    # Text and comparison

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Choice):
            return NotImplemented
        return self._choices == other._choices

    def __repr__(self) -> str:
        lines = "".join(f"    {spec!r},\n".replace("\n    ", "\n        ") for spec in self._choices)
        return f"{type(self).__name__}(\n{lines}    shape={tuple(self.shape)}, device={self.device})"


def _plainly(value: object) -> object:
    return tuple(value) if isinstance(value, torch.Size) else value


def _copied(value: Any) -> Any:
    """A copy of a tensordict, which composites project in place; anything else as it is."""
    return value.clone() if is_tensor_collection(value) and not is_non_tensor(value) else value


def _distances(candidates: list[Any], value: Any) -> list[float]:
    """How far each candidate is from a value of the same structure; what has no numbers is no distance."""
    if isinstance(value, torch.Tensor):
        found = torch.stack([candidate.detach().to("cpu", torch.float64) for candidate in candidates])
        # Beyond the outermost candidates every distance grows alike; this keeps infinite values comparable.
        target = (
            value.detach().to("cpu", torch.float64).nan_to_num(nan=0.0).clamp(found.amin(0), found.amax(0))
        )
        distances: list[float] = (found - target).abs().unsqueeze(-1).flatten(1).sum(1).tolist()
        return distances
    total = [0.0] * len(candidates)
    if is_tensor_collection(value) and not is_non_tensor(value):
        for key in value.keys():  # noqa: SIM118  # iterating over a tensordict gives its rows
            part = _distances([candidate.get(key) for candidate in candidates], value.get(key))
            total = [before + more for before, more in zip(total, part, strict=True)]
    return total
