"""Reading the arguments of a batch of environments: how many, the functions that make them, their kwargs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from specgen_runtime.envs.base import D, EnvBase
from specgen_runtime.specs.arguments import as_count

__all__ = ["EnvFunction", "as_functions", "as_kwargs", "checked_env", "refuse_deprecated"]

EnvFunction: TypeAlias = Callable[..., EnvBase[D]]
"""Makes an environment: its class, a lambda, a `functools.partial`."""


def as_functions(count: Any, functions: Any) -> tuple[EnvFunction[Any], ...]:
    """One function for each environment.

    Raises:
        TypeError: the count is not an integer, or what should be a function is an environment or something else.
        ValueError: the count is less than 1.
        RuntimeError: there are more or fewer functions than environments.
    """
    workers = as_count(count, "num_workers")
    if isinstance(functions, Sequence) and not isinstance(functions, str):
        if len(functions) != workers:
            raise RuntimeError(f"create_env_fn has {len(functions)} functions for {workers} environments")
        return tuple(_as_function(function, f"create_env_fn[{i}]") for i, function in enumerate(functions))
    return (_as_function(functions, "create_env_fn"),) * workers


def _as_function(function: Any, name: str) -> EnvFunction[Any]:
    if isinstance(function, EnvBase):
        raise TypeError(
            f"{name} must be a function that makes an environment, found a {type(function).__name__}: each"
            " place needs an environment of its own. Pass its class, or a function such as"
            f" lambda: {type(function).__name__}(...)"
        )
    if not callable(function):
        raise TypeError(
            f"{name} must be a function that makes an environment, found {type(function).__name__}"
        )
    made: EnvFunction[Any] = function
    return made


def as_kwargs(count: int, kwargs: Any, name: str = "create_env_kwargs") -> list[dict[str, Any]]:
    """The keyword arguments for each environment; one mapping is copied for all of them.

    Raises:
        TypeError: neither a mapping nor a sequence of mappings.
        RuntimeError: there are more or fewer mappings than environments.
    """
    if kwargs is None:
        kwargs = {}
    if isinstance(kwargs, Mapping):
        return [copy.deepcopy(dict(kwargs)) for _ in range(count)]
    if not isinstance(kwargs, Sequence) or isinstance(kwargs, str):
        raise TypeError(f"{name} must be a dict or a list of dicts, found {type(kwargs).__name__}")
    if len(kwargs) != count:
        raise RuntimeError(f"{name} has {len(kwargs)} dicts for {count} environments")
    for i, each in enumerate(kwargs):
        if not isinstance(each, Mapping):
            raise TypeError(f"{name}[{i}] must be a dict, found {type(each).__name__}")
    return [dict(each) for each in kwargs]


def refuse_deprecated(pin_memory: bool, allow_step_when_done: bool, policy_proof: object) -> None:
    """Refuse what TorchRL accepts or names but does not do.

    Raises:
        ValueError: one of them is given.
    """
    if pin_memory:
        raise ValueError("pin_memory is not supported; leave it out")
    if allow_step_when_done:
        raise ValueError(
            "allow_step_when_done is not supported: reset what is done, or use step_and_maybe_reset"
        )
    if policy_proof is not None:
        raise ValueError(
            "policy_proof is not supported, and has no effect in TorchRL: what policies write stays in the"
            " tensordict in any case"
        )


def checked_env(env: Any, place: int) -> EnvBase[Any]:
    """What a function made, if it is an environment that can be used.

    Raises:
        TypeError: it is none.
        RuntimeError: it is closed.
    """
    if not isinstance(env, EnvBase):
        raise TypeError(
            f"create_env_fn must return an EnvBase, found {type(env).__name__} for environment {place}"
        )
    if env.is_closed and not hasattr(type(env), "start"):
        raise RuntimeError(
            f"create_env_fn returned a closed {type(env).__name__} for environment {place}; it must make a new"
            " environment each time it is called"
        )
    return env
