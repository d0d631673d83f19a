"""Numbers that constructors are given: read as one number, or refused by the keyword, what it takes, and what it got."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from torch import Tensor

__all__ = [
    "Limits",
    "NumberRange",
    "as_ints",
    "bool_param",
    "check_range",
    "element",
    "float_param",
    "int_param",
    "wrong_type",
]


class Limits(TypedDict, total=False):
    """What a parameter must be `at_least`, `at_most`, `above` or `below`."""

    at_least: float | None
    at_most: float | None
    above: float | None
    below: float | None


class NumberRange(Limits, total=False):
    """The limits of a number that may be assigned, and whether None may be, too."""

    optional: bool


def float_param(name: str, value: Any, **limits: Unpack[Limits]) -> float:
    """A constructor argument as a float.

    Args:
        name: the keyword, for messages.
        value: a real number of Python or NumPy, or an array or a tensor of one.
        **limits: the range that it must be in.

    Raises:
        TypeError: `value` is no real number (truth values are none), or a tensor that requires gradients.
        ValueError: it is outside the range, not a number (NaN), or too large for a float.
    """
    number = element(name, value)
    if isinstance(number, bool) or not isinstance(number, Real):
        raise wrong_type(name, "a real number", value)
    try:
        made = float(number)
    except OverflowError:
        raise ValueError(f"{name} must be a number that a float holds, got {value!r}") from None
    check_range(name, made, value, limits)
    if math.isnan(made):
        raise ValueError(f"{name} must be a number, got {made}")
    return made


def int_param(name: str, value: Any, **limits: Unpack[Limits]) -> int:
    """A constructor argument as an integer; as `float_param`.

    Raises:
        TypeError: `value` is no integer: neither an int nor what `operator.index` takes.
        ValueError: it is outside the range, or too large for int64.
    """
    number = element(name, value)
    try:
        made = operator.index(number)
    except TypeError:
        raise wrong_type(name, "an integer", value) from None
    if isinstance(number, bool | np.bool_):
        raise wrong_type(name, "an integer", value)
    if not -(2**63) <= made < 2**63:
        raise ValueError(f"{name} must be an integer that int64 holds, got {made}")
    check_range(name, made, value, limits)
    return made


def bool_param(name: str, value: Any) -> bool:
    """A constructor argument as a truth value.

    Raises:
        TypeError: `value` is none; numbers are not converted.
    """
    truth = element(name, value)
    if not isinstance(truth, bool | np.bool_):
        raise wrong_type(name, "True or False", value)
    return bool(truth)


@overload
def as_ints(value: None, keyword: str) -> None: ...
@overload
def as_ints(value: int | Sequence[int], keyword: str) -> tuple[int, ...]: ...
def as_ints(value: int | Sequence[int] | None, keyword: str) -> tuple[int, ...] | None:
    """A tuple of whole numbers: one for a number alone, those of a tensor or an array, ``None`` for ``None``.

    Raises:
        TypeError: if `value` is neither; `keyword` says which argument it was.
    """
    if value is None:
        return None
    given: Any = value
    whole = given.tolist() if isinstance(given, Tensor | np.ndarray) and given.ndim < 2 else given
    numbers = tuple(whole) if isinstance(whole, Iterable) else (whole,)
    if all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        return numbers
    raise TypeError(f"{keyword} is made of whole numbers, got {value!r}")


def element(name: str, value: Any) -> Any:
    """The element of an array or a tensor of one; anything else as it is."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(
            f"{name} is a number without gradients, got a tensor that requires them;"
            " of parameters only those of environments have gradients, which are declared with `per_env: true`"
        )
    if isinstance(value, Tensor | np.ndarray) and tuple(value.shape) in ((), (1,)):
        return value.item()
    return value


def wrong_type(name: str, expected: str, value: Any) -> TypeError:
    """The error for an argument of another type."""
    found = f"{type(value).__name__} of shape {list(value.shape)}" if hasattr(value, "shape") else repr(value)
    return TypeError(f"{name} must be {expected}, got {found}")


def check_range(name: str, made: Any, value: Any, limits: Limits) -> None:
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
            if made.is_meta:
                continue  # which has no numbers
            wrong = made[~holds(made, bound)]
            if not wrong.numel():
                continue
            value = wrong.flatten()[0].item()
        elif holds(made, bound):
            continue
        raise ValueError(f"{name} must be {sign} {bound}, got {value}")
