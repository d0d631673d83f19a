"""One composite in either library, and ways to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.specs.peer import Expression


def tree(lib: Any, **kwargs: Any) -> Any:
    return lib.Composite(
        {
            "obs": lib.Bounded(-1, 1, (2, 3)),
            ("agents", "action"): lib.OneHot(4, (2, 4)),
            ("agents", "deep", "x"): lib.Unbounded((2,)),
        },
        shape=(2,),
        **kwargs,
    )


def after(change: Callable[[Any, Any], Any], then: Callable[[Any], Any] = lambda spec: spec) -> Expression:
    """The tree after a change; what the change itself returns is not looked at."""

    def run(lib: Any) -> Any:
        spec = tree(lib)
        change(lib, spec)
        return then(spec)

    return run


def assign(key: Any, make: Expression) -> Callable[[Any, Any], None]:
    def change(lib: Any, spec: Any) -> None:
        spec[key] = make(lib)

    return change


def delete(key: Any) -> Callable[[Any, Any], None]:
    def change(_: Any, spec: Any) -> None:
        del spec[key]

    return change


def put(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda _, spec: setattr(spec, name, value)
