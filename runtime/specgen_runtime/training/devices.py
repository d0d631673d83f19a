"""The devices that a training runs on."""

from __future__ import annotations

import torch

from specgen_runtime.params import wrong_type
from specgen_runtime.reported import ReportedError

__all__ = ["NoSuchDeviceError", "available_device", "device_param"]


class NoSuchDeviceError(ReportedError, ValueError):
    """A device that this machine does not have."""


def device_param(name: str, value: str) -> torch.device:
    """A device as a configuration names it, whether or not this machine has it.

    Args:
        name: the field, for messages.
        value: as torch names it: `cpu`, `cuda`, `cuda:1`, `mps`.

    Raises:
        TypeError: `value` is no text.
        ValueError: it names no device that computes.
    """
    if not isinstance(value, str):
        raise wrong_type(name, "the name of a device", value)
    try:
        device = torch.device(value)
    except RuntimeError:
        raise ValueError(f"{name} must be a device such as cpu, cuda:0 or mps, got {value!r}") from None
    if device.type == "meta":
        raise ValueError(f"{name} must be a device that computes, got {value!r}")
    return device


def available_device(name: str, value: str) -> torch.device:
    """A device of this machine; an accelerator gets its number.

    Args:
        name: the field of the configuration, for messages.
        value: as torch names it.

    Raises:
        TypeError: `value` is no text.
        ValueError: it names no device; `NoSuchDeviceError` if this machine does not have it.
    """
    device = device_param(name, value)
    if device.type == "cpu":
        return torch.device("cpu")
    here = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if here is None:
        raise NoSuchDeviceError(
            f"{name} is {value!r}, and torch finds no accelerator on this machine: take 'cpu'"
        )
    if here.type != device.type:
        raise NoSuchDeviceError(f"{name} is {value!r}, and this machine has {here.type!r}")
    count = torch.accelerator.device_count()
    index = torch.accelerator.current_device_index() if device.index is None else device.index
    if index >= count:
        raise NoSuchDeviceError(
            f"{name} is {value!r}, and this machine has {count} of {here.type}, counted from 0"
        )
    return torch.device(device.type, index)
