"""Coefficients of losses that are buffers: in the state dict, and assigned in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import torch
from torch import Tensor, nn

from specgen_runtime.objectives.domains import UnknownDomainError
from specgen_runtime.objectives.parameters import coefficient, device_of
from specgen_runtime.params import Limits, float_param

_Read = TypeVar("_Read", bound="Tensor | None", covariant=True)
_Assigned = TypeVar("_Assigned", contravariant=True)


class Coefficient(Generic[_Read, _Assigned]):
    """The type of an attribute that is read as a buffer, and to which a number may be assigned, which the buffer then holds.

    For type checkers alone: `LossModule` assigns.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: object, owner: object = None) -> _Read: ...
        def __set__(self, instance: object, value: Tensor | _Assigned) -> None: ...


def add_coefficient(
    loss: nn.Module, name: str, value: float | Tensor | None, *, adapted: bool = False
) -> None:
    """Register a coefficient as a buffer of the default dtype, where the parameters of the loss are; None stays None.

    Args:
        loss: the loss, with its networks.
        name: the name of the buffer.
        value: its value.
        adapted: whether the loss changes it by itself, so that its `reset` restores this value.

    Raises:
        ValueError: if it is not one number.
    """
    loss.register_buffer(name, None if value is None else _number(loss, name, value))
    if adapted and value is not None:
        loss.__dict__["_first_values"] = {**loss.__dict__.get("_first_values", {}), name: float(value)}


def adapt(loss: nn.Module, name: str, value: Tensor | float) -> None:
    """Write what a coefficient becomes into its buffer."""
    buffer = loss._buffers[name]
    if buffer is not None:
        buffer.copy_(torch.as_tensor(value))


def restore_adapted(loss: nn.Module) -> None:
    """Write into coefficients that were adapted what they were when the loss was made."""
    for name, value in loss.__dict__.get("_first_values", {}).items():
        buffer = loss._buffers[name]
        assert buffer is not None
        buffer.fill_(value)


def as_pair(value: float | tuple[float, ...], name: str) -> tuple[float, float]:
    """A number twice, or a pair of numbers.

    Raises:
        ValueError: if it is neither.
    """
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(f"{name} is a number or a pair of numbers, got {len(value)} of them")
        return value[0], value[1]
    return value, value


def pair_param(name: str, value: object, low: Limits, high: Limits) -> float | tuple[float, float]:
    """A constructor argument that is a number, or a pair of numbers.

    Args:
        name: the keyword, for messages.
        value: what was given.
        low, high: the ranges of the first and of the second number; one number is in both.

    Raises:
        TypeError: if something is no number.
        ValueError: if it is outside its range, or if they are not two.
    """
    if isinstance(value, (tuple, list)):
        first, second = as_pair(tuple(value), name)
        return float_param(f"{name}[0]", first, **low), float_param(f"{name}[1]", second, **high)
    float_param(name, value, **low)
    return float_param(name, value, **high)


def add_coefficient_parts(
    loss: nn.Module, name: str, value: float | tuple[float, float], parts: tuple[str, str]
) -> None:
    """Register a number as the buffer ``name``, or a pair of numbers as the buffers ``<name>_<part>``.

    The names of the other form can't be assigned on this loss: nothing would read what stands there.

    Raises:
        ValueError: if it is neither.
    """
    of_parts = [f"{name}_{part}" for part in parts]
    pair = isinstance(value, (tuple, list))
    values = dict(zip(of_parts, as_pair(value, name), strict=True)) if pair else {name: value}
    for buffer, number in values.items():
        loss.register_buffer(buffer, _number(loss, buffer, number))  # type: ignore[arg-type]
    absent = [name] if pair else of_parts
    refused = {
        one: f"{type(loss).__name__} was made with {'a pair' if pair else 'one number'} for {name}, and has no {one}: "
        f"assign {' or '.join(values)}"
        for one in absent
    }
    loss.__dict__["_not_assigned"] = {**loss.__dict__.get("_not_assigned", {}), **refused}


def coefficient_part(loss: nn.Module, name: str, part: str) -> Tensor:
    """One of the numbers that `add_coefficient_parts` registered; of one number both parts are that."""
    buffers = loss._buffers
    found = buffers[name] if name in buffers else buffers[f"{name}_{part}"]
    assert found is not None
    return found


def switched(
    value: bool | float | None, number: float | tuple[float, float], name: str, other: str
) -> float | None:
    """A number that may be given as True, which stands for ``number``, or as False, which stands for None.

    Args:
        value: what was given.
        number: the number of the other parameter.
        name: the parameter.
        other: the other one.

    Raises:
        ValueError: if it is True, and the other parameter is a pair.
    """
    if value is True:
        if isinstance(number, (tuple, list)):
            raise ValueError(f"{name}=True stands for {other}, which is a pair here: give {name} a number")
        return number
    return None if value is False else value


def settle(loss: nn.Module, name: str, given: float | str, compute: Callable[[], float]) -> None:
    """Register a coefficient as a buffer; "auto" is computed, now if what that takes is known, else when it is first read.

    Args:
        loss: the loss, with its networks.
        name: the name of the buffer.
        given: the number, or "auto".
        compute: gives what "auto" stands for.

    Raises:
        ValueError: if it is another word.
    """
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(
                f"{type(loss).__name__}: {name.lstrip('_')} is a number or 'auto', got {given!r}"
            )
        loss.register_buffer(name, None)
        try:
            settled(loss, name, compute)
        except UnknownDomainError:
            return
    else:
        loss.register_buffer(name, _number(loss, name, given))


def settled(loss: nn.Module, name: str, compute: Callable[[], float]) -> Tensor:
    """The coefficient that `settle` registered, computed now if it has not been.

    Raises:
        AttributeError: if it registered none.
    """
    if name not in loss._buffers:
        raise AttributeError(f"{type(loss).__name__} has no buffer {name!r}")
    found = loss._buffers[name]
    if found is None:
        found = loss._buffers[name] = _number(loss, name, compute())
    return found


def own_buffer(loss: nn.Module, name: str) -> Tensor:
    """The buffer, also where a property of the loss has its name.

    Raises:
        AttributeError: if there is none.
    """
    found = loss._buffers.get(name)
    if found is None:
        raise AttributeError(f"{type(loss).__name__} has no buffer {name!r}")
    return found


def _number(loss: nn.Module, name: str, value: float | Tensor) -> Tensor:
    return coefficient(name, value, device=device_of(loss.parameters()), dtype=torch.get_default_dtype())
