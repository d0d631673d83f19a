"""Run one expression under TorchRL's names and under ours, and tell whether the outcomes agree.

An expression is a function of the library (a module with the classes `Bounded`, `Composite`, …). Its outcome is
what it returns, told in plain values that both libraries share (shapes, dtypes, names, numbers), or the exception
that it raises. An exception of ours agrees if `except` clauses written for TorchRL's catch it.

Where the outcomes are meant to differ, `Differs` says why and what ours gives instead. It must stay true: a case
that no longer differs fails, and so does one that differs in another way than it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from specgen_runtime import specs as ours
from tensordict import NonTensorData, NonTensorStack, TensorDictBase

Expression = Callable[[Any], Any]


class Returns:
    """What ours gives instead: some value (checked elsewhere), no exception."""


@dataclass(frozen=True)
class Differs:
    """An intended difference."""

    why: str
    gives: object = Returns
    """What ours gives: an exception class, a value, or `Returns`."""


@dataclass(frozen=True)
class Raised:
    error: Exception

    def __str__(self) -> str:
        lines = str(self.error).splitlines() or [""]
        return f"{type(self.error).__name__}: {lines[0][:110]}"


def stack(specs: Any, dim: int = 0) -> Any:
    """`torch.stack`, which takes specs too."""
    return torch.stack(specs, dim)


def assigned(spec: Any, name: str, value: Any) -> Any:
    """The spec, after an assignment to one of its attributes."""
    setattr(spec, name, value)
    return spec


def outcome(expression: Expression, library: Any) -> Any:
    """What the expression returns, told; or `Raised`."""
    try:
        return told(expression(library))
    except Exception as error:  # whatever it is, it is the outcome
        return Raised(error)


def told(value: Any) -> Any:
    """The value in plain terms that can be compared between the libraries."""
    if isinstance(value, NonTensorData | NonTensorStack):
        return "non-tensor", tuple(value.batch_size), value.tolist()
    if isinstance(value, torch.Tensor):
        if value.device.type == "meta":
            numbers = None
        else:
            numbers = value.tolist() if value.numel() < 10_000 else value.double().sum().item()
        return "tensor", str(value.dtype), tuple(value.shape), str(value.device), numbers
    if isinstance(value, TensorDictBase):
        entries = {name: told(value.get(name)) for name in sorted(value.keys())}
        return type(value).__name__, tuple(value.batch_size), str(value.device), entries
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "is_in"):
        return told_spec(value)
    if type(value).__name__.endswith("Box") or type(value).__name__ == "BoxList":
        return told_box(value)
    if isinstance(value, Mapping):
        return {key: told(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [told(entry) for entry in value]
    if isinstance(value, torch.device | torch.dtype):
        return str(value)
    return value


def told_spec(spec: Any) -> Any:
    """The class, the fields that all specs have, and the domain."""
    name = type(spec).__name__
    # The dtype of specs of several tensors says nothing in TorchRL: it is always float32.
    if name == "Composite":
        entries = {key: told(spec[key]) for key in sorted(spec.keys())}
        return name, tuple(spec.shape), str(spec.device), entries
    if name in ("Stacked", "StackedComposite"):
        parts = [told(part) for part in spec.unbind(spec.dim)]
        return name, tuple(spec.shape), str(spec.device), spec.dim, parts
    if name == "Choice":
        return name, tuple(spec.shape), str(spec.device), spec.num_choices
    common = name, tuple(spec.shape), str(spec.device), str(spec.dtype)
    if name == "NonTensor":
        return *common, spec.example_data
    mask = getattr(spec, "mask", None)
    return *common, told(spec.space), None if mask is None else mask.tolist()


def told_box(box: Any) -> Any:
    name = type(box).__name__
    if name == "ContinuousBox":
        return name, told(box.low), told(box.high)
    if name == "BoxList":
        return name, [told(part) for part in box.boxes]
    return name, int(box.n)


def disagreement(theirs: Any, mine: Any, differs: Differs | None = None) -> str | None:
    """Say what is wrong with the pair of outcomes; None if they agree, or differ as they are meant to."""
    if isinstance(theirs, Raised) and isinstance(mine, Raised):
        agree = isinstance(mine.error, type(theirs.error))
    else:
        agree = same(theirs, mine)
    if differs is None:
        return None if agree else f"TorchRL: {short(theirs)}\n      ours:    {short(mine)}"
    if agree:
        return f"listed as a difference ({differs.why}), but both give {short(mine)}"
    gives = differs.gives
    if isinstance(gives, type) and issubclass(gives, Exception):
        as_told = isinstance(mine, Raised) and isinstance(mine.error, gives)
    elif gives is Returns:
        as_told = not isinstance(mine, Raised)
    else:
        as_told = same(told(gives), mine) or same(gives, mine)
    return None if as_told else f"differs otherwise than listed: expected {gives!r}, ours: {short(mine)}"


def same(left: Any, right: Any) -> bool:
    """Equality, with NaN equal to itself."""
    if isinstance(left, float) and isinstance(right, float) and left != left:
        return right != right
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(type(left) is type(right) and left == right)


def short(result: Any) -> str:
    text = str(result)
    return text if len(text) < 200 else text[:200] + "…"


def compare(expression: Expression, theirs: Any, differs: Differs | None = None) -> str | None:
    """Run the expression under both libraries; say what disagrees."""
    return disagreement(outcome(expression, theirs), outcome(expression, ours), differs)
