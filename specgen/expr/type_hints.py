"""What was meant by a text that is no type: the words of PyTorch, NumPy, Gymnasium and C."""

from __future__ import annotations

import re
from typing import Final

from specgen.diagnostics import as_question, did_you_mean
from specgen.expr.dtypes import ABSTRACT, CONCRETE

_DTYPES: Final = {
    "float": "float32",
    "single": "float32",
    "f32": "float32",
    "double": "float64",
    "f64": "float64",
    "int": "int64",
    "integer": "int64",
    "long": "int64",
    "i64": "int64",
    "i32": "int32",
    "short": "int16",
    "byte": "uint8",
    "u8": "uint8",
    "boolean": "bool",
    "number": "float32",
    "any": "float32",
    "scalar": "float32",
    "tensor": "float32",
}
_SPACES: Final = {
    "Discrete": "categorical(4) for a class as a number, or onehot(4) for a one-hot vector",
    "MultiDiscrete": "multi_categorical(3, 2) or multi_onehot(3, 2)",
    "MultiBinary": "binary[8]",
    "Box": "float32[3] in [-1, 1]",
    "Bounded": "float32[3] in [-1, 1]",
    "Unbounded": "float32[3]",
    "OneHotDiscrete": "onehot(4)",
}
_KINDS: Final = ("categorical", "onehot", "multi_categorical", "multi_onehot", "binary")
_MODULES: Final = ("torch", "np", "numpy", "jnp")
NAMED_BOUNDS: Final = {
    "low": "low", "min": "low", "minimum": "low", "high": "high", "max": "high", "maximum": "high",
}  # fmt: skip
"""What people call the ends of an interval, and which of them is meant."""

_NAMED_BOUND: Final = re.compile(rf"\b({'|'.join(NAMED_BOUNDS)})\s*=\s*([^,\]]+)")

_PAIR: Final = re.compile(r"\[([^\[\],]+),([^\[\],]+)\]")


def meant_dtype(name: str) -> str | None:
    """`did you mean 'int64'?` for a name that is no dtype, or None."""
    bare = name.rpartition(".")[2]
    best = bare if bare in CONCRETE else _dtype(bare)
    return None if best is None else as_question(best)


def meant_type(name: str, text: str, *, patterns: bool) -> str | None:
    """The help for a type that starts with an unknown name.

    Args:
        name: The name, dotted or not.
        text: The type from there on.
        patterns: Whether patterns such as `float` are types here.

    """
    module, _, bare = name.rpartition(".")
    space = next((one for one in _SPACES if one.lower() == bare.lower().replace("_", "")), None)
    if space is not None and bare not in _KINDS:
        return f"write {_SPACES[space]}"
    rest = text[len(name) :]
    if module in _MODULES and bare in CONCRETE:
        return f"write {bare}{rest}"
    if bare in _DTYPES and (not module or module in _MODULES):
        return f"write {_DTYPES[bare]}{rest}"
    others = (*ABSTRACT, "text", "like") if patterns else _DTYPES
    best = did_you_mean(bare, (*CONCRETE, *_KINDS, *others))
    best = best if patterns or best is None else _DTYPES.get(best, best)
    return None if best is None else as_question(best)


def _dtype(name: str) -> str | None:
    best = name if name in _DTYPES else did_you_mean(name, (*CONCRETE, *_DTYPES))
    return None if best is None else _DTYPES.get(best, best)


def concrete_form(text: str) -> str | None:
    """What to write for a pattern where a key is declared: `float32[3]` for `float[3]`."""
    match = re.match(r"(\w+)(.*)\Z", text, re.DOTALL)
    if match is None or match[1] == "like":
        return "such as float32[3] in [-1, 1]"
    dtype = match[1] if match[1] in CONCRETE else _DTYPES.get(match[1])
    if dtype is None:
        return None
    if "..." in match[2]:
        return f"with its dimensions, such as {dtype}[3]; a single number is {dtype}"
    return f"write {dtype}{match[2]}"


def bounds_in(text: str, start: int, name: str | None = None) -> str | None:
    """The help where two numbers in brackets, which open at `start`, are bounds without their `in`."""
    match = _PAIR.match(text, start)
    if match is None or name in _KINDS or name == "bool":
        return None
    try:
        if float(match[1]) >= float(match[2]):
            return None
    except ValueError:
        pass  # sums and names: most likely bounds
    return (
        f"bounds stand behind `in`: write {text[:start].strip()} in [{match[1].strip()}, {match[2].strip()}]"
    )


def named_bounds(text: str, opening: int, name_at: int) -> str:
    """The help where bounds stand among the dimensions, by name: `float32[4, low=-5, high=5]`.

    Args:
        text: the whole type.
        opening: where the bracket of the dimensions is.
        name_at: where the first bound is named.
    """
    ends = {"low": "-inf", "high": "inf"} if text.startswith("float") else {"low": "…", "high": "…"}
    ends |= {NAMED_BOUNDS[name]: value.strip() for name, value in _NAMED_BOUND.findall(text, name_at)}
    dims = text[opening + 1 : name_at].strip(" ,")
    shape = f"[{dims}]" if dims else ""
    return (
        f"bounds stand behind `in`: write {text[:opening].strip()}{shape} in [{ends['low']}, {ends['high']}]"
    )


__all__ = ["NAMED_BOUNDS", "bounds_in", "concrete_form", "meant_dtype", "meant_type", "named_bounds"]
