"""What arguments are, as text by which processes compare them."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from specgen_runtime.envs.batched.messages import dumps

__all__ = ["described"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.layout)


def described(value: object) -> str:
    """Text that is equal for equal arguments, in whatever process they are made.

    A function or class that can be imported is its name; `functools.partial` its function with the arguments; any
    other function (a lambda, one inside a function, one of a script) its name with a digest of its code and of the
    values that it reads from outside, but for modules, functions and objects among its globals; any other object its
    class with a digest of its pickle.
    """
    match value:
        case partial():
            keywords = [f"{name}={described(each)}" for name, each in sorted(value.keywords.items())]
            return f"{described(value.func)}({', '.join([*map(described, value.args), *keywords])})"
        case list() | tuple():
            return f"[{', '.join(map(described, value))}]"
        case Mapping():
            return f"{{{', '.join(sorted(f'{key!r}: {described(each)}' for key, each in value.items()))}}}"
        case FunctionType() if not _is_importable(value):
            return f"{_name_of(value)}#{_digest(repr(_parts(value)).encode())}"
        case FunctionType() | type():
            return _name_of(value)
        case MethodType():
            return f"{described(value.__self__)}.{value.__name__}"
        case _ if isinstance(value, _PLAIN):
            return repr(value)
        case _:
            try:
                data = dumps(value)
            except Exception:
                return f"{described(type(value))}#{id(value)}"
            return f"{described(type(value))}#{_digest(data)}"


def _is_importable(function: FunctionType) -> bool:
    if function.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _name_of(value: FunctionType | type) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _parts(function: FunctionType) -> tuple[Any, ...]:
    """What a function does."""
    code = function.__code__
    known = inspect.getclosurevars(function)
    outside = {
        **{name: each for name, each in known.globals.items() if isinstance(each, _PLAIN)},
        **{name: each for name, each in known.nonlocals.items() if each is not function},
    }
    return (
        _code(code),
        described(outside),
        described(function.__defaults__),
        described(function.__kwdefaults__),
    )


def _code(code: CodeType) -> tuple[Any, ...]:
    """What code does, without its file and lines."""
    return code.co_code, code.co_names, code.co_varnames, [_constant(each) for each in code.co_consts]


def _constant(value: Any) -> Any:
    if isinstance(value, CodeType):
        return _code(value)
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
