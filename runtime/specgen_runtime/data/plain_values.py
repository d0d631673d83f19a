"""Rows of any kind as plain values, which are saved and read without running code; and back."""

from __future__ import annotations

import sys
from typing import Any

import torch
from tensordict import (
    LazyStackedTensorDict,
    NonTensorData,
    TensorDict,
    TensorDictBase,
    is_tensor_collection,
    is_tensorclass,
)
from torch import Tensor

from specgen_runtime.envs.keys import show_key

__all__ = ["from_plain", "to_plain"]


def to_plain(value: Any, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """A row as dicts, lists, tuples, text, numbers and tensors, which `torch.load(weights_only=True)` reads.

    Args:
        value: a tensordict, a tensorclass, a tensor, or an object.
        path: where it is in a row, for messages.

    Raises:
        TypeError: an object is something else than these, or a tensorclass is not found by its name.
    """
    if not is_tensor_collection(value):
        _refuse_unsaved(value, path)
        return {"kind": "value", "value": value}
    device = None if value.device is None else str(value.device)
    if isinstance(value, NonTensorData):
        _refuse_unsaved(value.data, path)
        return {"kind": "object", "value": value.data, "batch_size": list(value.batch_size), "device": device}
    if isinstance(value, LazyStackedTensorDict):
        parts = [to_plain(part, path) for part in value.tensordicts]
        return {"kind": "stack", "dim": value.stack_dim, "parts": parts}
    if not isinstance(value, TensorDictBase):
        name = (type(value).__module__, type(value).__qualname__)
        if _tensorclass(*name) is not type(value):
            raise TypeError(
                f"{_named(path)} is of the tensorclass {name[1]}, which can't be saved: define it in a module"
            )
        fields = dict(value._non_tensordict)
        _refuse_unsaved(fields, path)
        return {
            "kind": "tensorclass",
            "class": name,
            "fields": fields,
            "of": to_plain(value._tensordict, path),
        }
    entries = {name: to_plain(entry, (*path, name)) for name, entry in value.items()}
    return {"kind": "tensordict", "entries": entries, "batch_size": list(value.batch_size), "device": device}


def from_plain(plain: dict[str, Any], device: torch.device | None = None) -> Any:
    """The row that `to_plain` was given.

    Args:
        plain: what it gave.
        device: where its tensors are put; None: where they were.

    Raises:
        LookupError: the module of a tensorclass was not imported. Nothing is imported by its name.
    """
    match plain["kind"]:
        case "value":
            value = plain["value"]
            return value if device is None or not isinstance(value, Tensor) else value.to(device)
        case "object":
            place = _place(plain, device)
            return NonTensorData(plain["value"], batch_size=plain["batch_size"], device=place)
        case "stack":
            parts = [from_plain(part, device) for part in plain["parts"]]
            return LazyStackedTensorDict.lazy_stack(parts, plain["dim"])
        case "tensorclass":
            module, name = plain["class"]
            found = _tensorclass(module, name)
            if found is None:
                raise LookupError(
                    f"the saved rows hold the tensorclass {name} of {module}: import it before they are loaded"
                )
            return found._from_tensordict(from_plain(plain["of"], device), plain["fields"])
    made = TensorDict({}, plain["batch_size"], device=_place(plain, device))
    for name, entry in plain["entries"].items():
        made._set_str(name, from_plain(entry, device), validated=True, inplace=False, non_blocking=False)
    return made


def _place(plain: dict[str, Any], device: torch.device | None) -> Any:
    """The device of what had one, on the given one instead."""
    return plain["device"] if device is None or plain["device"] is None else device


def _tensorclass(module: str, name: str) -> Any:
    """A tensorclass of a module that is imported; None if there is none."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and is_tensorclass(found) else None


def _refuse_unsaved(value: Any, path: tuple[str, ...]) -> None:
    """Refuse what is read again by running code alone."""
    if type(value) is dict:
        for name, entry in value.items():
            _refuse_unsaved(name, path)
            _refuse_unsaved(entry, path)
    elif type(value) in (list, tuple):
        for entry in value:
            _refuse_unsaved(entry, path)
    elif type(value) not in (str, int, float, bool, type(None)) and not isinstance(value, Tensor):
        raise TypeError(
            f"{_named(path)} holds an object of class {type(value).__name__}, which can't be saved: tensors, text, numbers,"
            " and lists, tuples and dicts of them can"
        )


def _named(path: tuple[str, ...]) -> str:
    return show_key(path) if path else "a row"
