"""The parameters of generated environments: how a constructor reads each, as one number or as one for each environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, Unpack

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.params import Limits, check_range
from specgen_runtime.typing import ArrayLike

__all__ = ["HoldsParams", "ReadParam", "assigned", "moved_params", "per_env_param"]

K = ParamSpec("K")
P = TypeVar("P")


class ReadParam(Generic[K, P]):
    """A method that reads an argument of a constructor; how it did is kept, for what is assigned to `env.params` later.

    Args:
        read: the function: its first two arguments are the name and the value.
    """

    def __init__(self, read: Callable[K, P]) -> None:
        self._read = read

    def __get__(self, env: Any, owner: Any) -> Callable[K, P]:
        """The function, as a method of an environment."""
        read = self._read

        def kept(*args: K.args, **kwargs: K.kwargs) -> P:
            made = read(*args, **kwargs)
            env._read_params[args[0]] = (read, kwargs)
            return made

        return kept


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
        ValueError: it does not broadcast to `shape`, a value is outside the range, or it has no values since it is on the
            meta device, and the environment is not.
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
        check_range(name, exact, None, limits)
    elif (wanted := torch.get_default_device() if device is None else device).type != "meta":
        raise ValueError(
            f"{name} is on the meta device, where it has no values, and the environment is on {wanted}"
        )
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


_ACCEPTED = {"float": ("float", "int"), "int": ("int",), "bool": ("bool",)}


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool:
        return "bool"
    return "float" if dtype.is_floating_point else "complex" if dtype.is_complex else "int"


def assigned(env: object, params: Any, name: str, value: Any) -> Any:
    """What is assigned to an attribute of an environment: of parameters the numbers as its constructor reads them.

    An attribute that is called as one of the parameters is refused, since steps would not read it. What `env` has
    already, such as `training`, is its own, though a parameter is called so.

    Raises:
        AttributeError: it is one of `params`; the message says how a parameter is changed. Or an object was made with it.
        TypeError: it is called `params` and lacks one of those, or has one of another type, shape or dtype.
        ValueError: one is outside its range.
    """
    fields = getattr(params, "_fields", ())
    if name in fields and not hasattr(env, name):
        raise AttributeError(
            f"{name} is one of the parameters: write env.params = env.params._replace({name}=...)"
        )
    if fields and name == "env_params":
        raise AttributeError(
            f"env_params follow from params: write env.params = env.params._replace({fields[0]}=...)"
        )
    if not fields or name != "params":
        return value
    if not set(fields) <= {*getattr(value, "_fields", ())}:
        raise TypeError(
            f"params must be a record of {', '.join(fields)}, such as env.params._replace({fields[0]}=...), got {value!r}"
        )
    known, made_with = getattr(env, "_read_params", {}), getattr(env, "_made_with", {})
    numbers: dict[str, Any] = {}
    for field in fields:
        now, new = getattr(params, field), getattr(value, field)
        if new is now:
            continue
        if field in made_with:
            raise AttributeError(
                f"the class behind {made_with[field]} was made with {field}: say it to the constructor, "
                f"{type(env).__name__}({field}=...)"
            )
        read, limits = known.get(field, (None, {}))
        if isinstance(now, Tensor):
            if _said(now) != _said(new):
                raise TypeError(f"the parameter {field} must be a {_said(now)}, got {_said(new)}")
            if not is_traced():
                check_range(field, new, None, limits)
        elif read is not None:
            numbers[field] = read(field, new, **limits)
    return value._replace(**numbers)


def _said(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return f"tensor of {value.dtype} and shape {list(value.shape)}"


class HoldsParams:
    """What has parameters: those that are assigned are read as its constructor reads them."""

    params: Any = None
    """The record of the constructor's keywords, if it has any: what the pure functions take."""

    env_params: Any
    """Of a chain with parameters of its own those of its environment, as that one's functions take them."""

    _env_params_record: ClassVar[type[Any] | None] = None
    """The record of these; None where all are the environment's."""

    _made_with: ClassVar[Mapping[str, str]] = {}
    """The parameters that objects of classes behind transforms are made with, each with the transform of one."""

    def __setattr__(self, name: str, value: Any) -> None:
        value = assigned(self, self.__dict__.get("params"), name, value)
        super().__setattr__(name, value)
        record: Any = self._env_params_record
        if name == "params" and record is not None:
            made = record._make([getattr(value, field) for field in record._fields])
            self.__dict__["env_params"] = made  # which nobody assigns
