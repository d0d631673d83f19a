"""The parameters of generated environments: how a constructor reads each, as one number or as one for each environment."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from numbers import Real
from typing import Any, TypedDict, Unpack

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.typing import ArrayLike

__all__ = ["Limits", "bool_param", "float_param", "int_param", "moved_params", "per_env_param"]


class Limits(TypedDict, total=False):
    """What a parameter must be `at_least`, `at_most`, `above` or `below`."""

    at_least: float | None
    at_most: float | None
    above: float | None
    below: float | None


def float_param(name: str, value: Any, **limits: Unpack[Limits]) -> float:
    """A constructor argument as a float.

    Args:
        name: the keyword, for messages.
        value: a real number of Python or NumPy, or an array or a tensor of one.
        **limits: the range that it must be in.

    Raises:
        TypeError: `value` is no real number (truth values are none), or a tensor that requires gradients.
        ValueError: it is outside the range, or too large for a float.
    """
    number = _only(name, value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise _wrong(name, "a real number", value)
    try:
        made = float(number)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float holds, got {value!r}") from None
    _check_range(name, made, value, limits)
    return made


def int_param(name: str, value: Any, **limits: Unpack[Limits]) -> int:
    """A constructor argument as an integer; as `float_param`.

    Raises:
        TypeError: `value` is no integer: neither an int nor what `operator.index` takes.
        ValueError: it is outside the range, or too large for int64.
    """
    number = _only(name, value)
    try:
        made = operator.index(number)
    except TypeError:
        raise _wrong(name, "an integer", value) from None
    if isinstance(number, bool | np.bool_):
        raise _wrong(name, "an integer", value)
    if not -(2**63) <= made < 2**63:
        raise ValueError(f"{name} must be an integer that int64 holds, got {made}")
    _check_range(name, made, value, limits)
    return made


def bool_param(name: str, value: Any) -> bool:
    """A constructor argument as a truth value.

    Raises:
        TypeError: `value` is none; numbers are not converted.
    """
    truth = _only(name, value)
    if not isinstance(truth, bool | np.bool_):
        raise _wrong(name, "True or False", value)
    return bool(truth)


def per_env_param(
    name: str,
    value: ArrayLike,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device | None,
    **limits: Unpack[Limits],
) -> Tensor:
    """A constructor argument as a tensor of one value for each environment.

    Gradients flow back to a tensor that requires them, and a tensor that needs neither a cast nor a move is
    viewed, not copied: an `nn.Parameter` that an optimiser changes is seen by the next reset.

    Args:
        name: the keyword, for messages.
        value: a number, nested numbers, an array or a tensor that broadcasts to `shape`.
        shape: the batch size, and the parameter's own shape behind it.
        dtype: of the result; floats, integers and truth values are not converted into each other, but for
            integers where floats are wanted.
        device: of the result; None for torch's default.
        **limits: the range that the values must be in.

    Returns:
        A tensor of `shape`, perhaps with several elements in one place: to be read, not written.

    Raises:
        TypeError: `value` is not made of numbers, or of another kind of number.
        ValueError: it does not broadcast to `shape`, or a value is outside the range.
    """
    try:
        given = torch.as_tensor(value)
        if given.is_floating_point() and not isinstance(value, Tensor | np.ndarray | np.generic):
            # of Python's floats torch makes its default dtype, which may have fewer digits than `dtype`
            exact = torch.as_tensor(value, dtype=torch.float64, device="cpu")
        else:
            exact = given
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be numbers or a tensor, got {value!r}") from None
    if _kind(given.dtype) not in _ACCEPTED[_kind(dtype)]:
        raise TypeError(f"{name} must be {dtype}, got {given.dtype}")
    if exact.device.type != "meta":
        _check_range(name, exact, None, limits)
    made = exact.to(device=given.device if device is None else device, dtype=dtype)
    try:
        return made.expand(tuple(shape))
    except RuntimeError:
        raise ValueError(
            f"{name} must be a number or a tensor that broadcasts to {list(shape)} (the batch size, and the"
            f" parameter's own shape), got a tensor of shape {list(made.shape)}"
        ) from None


def moved_params(params: Any, device: torch.device) -> Any:
    """A record of parameters with its tensors on a device."""
    return type(params)._make([value.to(device) if isinstance(value, Tensor) else value for value in params])


def _only(name: str, value: Any) -> Any:
    """The element of an array or a tensor of one; anything else as it is."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(
            f"{name} is a number without gradients, got a tensor that requires them;"
            " declare it with `per_env: true` to have gradients with respect to it"
        )
    if isinstance(value, Tensor | np.ndarray) and tuple(value.shape) in ((), (1,)):
        return value.item()
    return value


def _wrong(name: str, expected: str, value: Any) -> TypeError:
    found = f"{type(value).__name__} of shape {list(value.shape)}" if hasattr(value, "shape") else repr(value)
    return TypeError(f"{name} must be {expected}, got {found}")


_ACCEPTED = {"float": ("float", "int"), "int": ("int",), "bool": ("bool",)}


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"


def _check_range(name: str, made: Any, value: Any, limits: Limits) -> None:
    """Refuse a number, or a tensor with an element, outside its range; a message shows `value`, or the element."""
    if not limits:
        return
    for sign, bound, holds in (
        (">=", limits.get("at_least"), operator.ge),
        ("<=", limits.get("at_most"), operator.le),
        (">", limits.get("above"), operator.gt),
        ("<", limits.get("below"), operator.lt),
    ):
        if bound is None:
            continue
        if isinstance(made, Tensor):
            wrong = made[~holds(made, bound)]
            if not wrong.numel():
                continue
            value = wrong.flatten()[0].item()
        elif holds(made, bound):
            continue
        raise ValueError(f"{name} must be {sign} {bound}, got {value}")
