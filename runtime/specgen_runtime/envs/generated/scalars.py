"""Parameters that are one number for all environments: how the constructor of a generated environment reads them."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

import numpy as np
from torch import Tensor

__all__ = ["bool_param", "float_param", "int_param"]


def float_param(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """A constructor argument as a float.

    Args:
        name: the keyword, for messages.
        value: a real number of Python or NumPy, or an array or a tensor of one.
        at_least: what it may not be below; `at_most`, `above` and `below` likewise.

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
    _check_range(name, made, value, at_least, at_most, above, below)
    return made


def int_param(
    name: str,
    value: Any,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> int:
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
    _check_range(name, made, value, at_least, at_most, above, below)
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


def _check_range(
    name: str,
    made: float,
    value: Any,
    at_least: float | None,
    at_most: float | None,
    above: float | None,
    below: float | None,
) -> None:
    for sign, bound, holds in (
        (">=", at_least, operator.ge),
        ("<=", at_most, operator.le),
        (">", above, operator.gt),
        ("<", below, operator.lt),
    ):
        if bound is not None and not holds(made, bound):
            raise ValueError(f"{name} must be {sign} {bound}, got {value}")
