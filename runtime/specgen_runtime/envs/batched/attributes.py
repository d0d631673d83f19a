"""What an attribute of all environments of a batch is: a list of values, or something to call or look into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specgen_runtime.envs.batched.messages import Sealed
from specgen_runtime.envs.batched.pool import Pool
from specgen_runtime.envs.batched.worker_env import CALLABLE, OPAQUE

__all__ = ["EachCall", "EachValue", "attribute_of_all", "refuse_params"]


class EachValue(list[Any]):
    """The value of an attribute in each environment. Further attributes of the values can be asked for."""

    def __init__(self, values: Sequence[Any], pool: Pool, path: tuple[str, ...]) -> None:
        super().__init__(values)
        self._pool = pool
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return look_up(self._pool, (*self._path, name))

    def __reduce__(self) -> Any:
        return list, (list(self),)


class EachCall:
    """A method, or a value that can't leave its process, of each environment.

    Calling it calls all of them, and gives the list of the results.
    """

    def __init__(self, pool: Pool, path: tuple[str, ...], kind: str) -> None:
        self._pool = pool
        self._path = path
        self._kind = kind

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Call the method of each environment with these arguments; the list of the results."""
        call = (self._path, args, kwargs)
        return list(self._pool.run("call", dict.fromkeys(range(self._pool.count), call)).values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return look_up(self._pool, (*self._path, name))

    def __repr__(self) -> str:
        what = (
            "can be called"
            if self._kind == CALLABLE
            else "can't be sent from its process; ask for parts of it"
        )
        return f"<{'.'.join(self._path)} of {self._pool.count} environments: {what}>"


def look_up(pool: Pool, path: tuple[str, ...]) -> Any:
    """An attribute of all environments of a pool.

    Raises:
        AttributeError: an environment has no such attribute.
    """
    answers = pool.run("get", dict.fromkeys(range(pool.count), path))
    kinds = {kind for kind, _ in answers.values()}
    for kind in (OPAQUE, CALLABLE):
        if kind in kinds:
            return EachCall(pool, path, kind)
    values = [value.open() if isinstance(value, Sealed) else value for _, value in answers.values()]
    return EachValue(values, pool, path)


def attribute_of_all(pool: Pool, name: str, batch: str) -> Any:
    """An attribute of all environments of a pool, which the batch itself, of a class called `batch`, has not got.

    Raises:
        AttributeError: an environment has no such attribute either.
    """
    try:
        return look_up(pool, (name,))
    except AttributeError as error:
        raise AttributeError(
            f"neither {batch} nor its environments have an attribute {name!r}: {error}"
        ) from error


def refuse_params(name: str, batch: str) -> None:
    """Refuse to set `params` of a batch of a class called `batch`, which no environment would read.

    Raises:
        AttributeError: `name` is that; the message says how they are made with others.
    """
    if name == "params":
        raise AttributeError(
            f"the environments of a {batch} have parameters of their own: make them with others,"
            f" {batch}(..., create_env_kwargs={{...}})"
        )
