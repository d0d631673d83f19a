"""What a user's class returns to its generated environment, compared with the declaration, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from specgen_runtime.envs.generated.specs import EnvSpecs
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.specs import TensorSpec
from specgen_runtime.typing import NestedKey

__all__ = ["Method", "ReturnedField", "fields_of"]


@dataclass(frozen=True, slots=True)
class ReturnedField:
    """A field of a record that a user's class returns.

    Attributes:
        name: of the field: its key, nested ones with `_`.
        key: of the entry.
        spec: of the entry, without batch dimensions.
        dtype: the declared dtype.
        dims: the shape of one row. Rewards and done flags are returned without the trailing 1 that they are
            stored with.
        column: whether there is such a 1.
    """

    name: str
    key: NestedKey
    spec: TensorSpec
    dtype: torch.dtype
    dims: tuple[int, ...]
    column: bool

    def outside(self, rows: Tensor) -> str | None:
        """What is wrong with the values of `(rows, *dims)`: a NaN, or a value outside the domain; or None."""
        stored = rows.unsqueeze(-1) if self.column else rows
        whole = not stored.is_floating_point() or not bool(stored.isnan().any())
        if whole and self.spec.expand((len(stored), *self.spec.shape)).is_in(stored):
            return None
        for row, value in enumerate(stored):
            if value.is_floating_point() and bool(value.isnan().any()):
                return f"row {row} holds NaN"
            if not self.spec.is_in(value):
                return f"row {row} is {value.tolist()}, outside {self.spec}"
        return None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a user's class, for messages.

    Attributes:
        env: the name of the generated environment.
        python: the class as the schema names it, `package.module:Class`.
        name: `reset` or `step`.
        record: what it returns.
    """

    env: str
    python: str
    name: str
    record: type[Any]

    def __str__(self) -> str:
        return f"{self.env}: {self.python}.{self.name}"

    def check_record(self, found: Any) -> None:
        """Refuse anything but the declared record.

        Raises:
            TypeError: naming what came instead.
        """
        if not isinstance(found, self.record):
            raise TypeError(f"{self} must return a {self.record.__name__}, found {type(found).__name__}")

    def refuse_changes(self, before: Iterable[tuple[str, Tensor, int]]) -> None:
        """Refuse tensors that the method changed in place: they are data of steps that have been.

        Args:
            before: what each is, the tensor, and its version before the call.

        Raises:
            RuntimeError: naming the tensor.
        """
        for name, value, version in before:
            if value._version != version:
                raise RuntimeError(f"{self} changed {name} in place; make new tensors")

    def refuse(
        self, field: ReturnedField, rows: Sequence[int], device: torch.device | None, found: Any
    ) -> NoReturn:
        """Say that a field is not what was declared.

        Raises:
            TypeError: it is no tensor.
            RuntimeError: its dtype, shape or device is another one.
        """
        place = "" if device is None else f" on {device}"
        expected = f"{field.dtype} {[*rows, *field.dims]}{place}"
        if not isinstance(found, Tensor):
            raise TypeError(
                f"{self} must return {show_key(field.key)} as {expected}, found {type(found).__name__}"
            )
        place = "" if device is None else f" on {found.device}"
        raise RuntimeError(
            f"{self} must return {show_key(field.key)} as {expected}, found {found.dtype} {list(found.shape)}{place}"
        )

    def check_domain(self, field: ReturnedField, rows: Tensor) -> None:
        """Refuse NaN and values outside the declared domain.

        Raises:
            ValueError: naming the row and the value.
        """
        wrong = field.outside(rows)
        if wrong is not None:
            raise ValueError(f"{self} returned {show_key(field.key)} outside its domain: {wrong}")


def fields_of(record: type[Any], specs: EnvSpecs) -> tuple[ReturnedField, ...]:
    """The fields of a record that a user's class returns, in its order.

    Args:
        record: a named tuple whose fields are called after entries of `specs`.
        specs: of the environment itself, without transforms.
    """
    found: dict[str, ReturnedField] = {}
    for group, column in ((specs.observation, False), (specs.reward, True), (specs.done, True)):
        for key, leaf in group.items(True, True):
            name = "_".join(as_tuple(key))
            dims = tuple(leaf.shape[:-1] if column else leaf.shape)
            assert leaf.dtype is not None  # only tensors can be declared
            found[name] = ReturnedField(name, key, leaf, leaf.dtype, dims, column)
    return tuple(found[name] for name in record._fields)
