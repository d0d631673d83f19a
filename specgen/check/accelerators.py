"""The accelerators that devices name."""

from __future__ import annotations


def accelerator(device: str | None) -> str | None:
    """The kind of accelerator that a device is on, `cuda` of `cuda:1`; None for the CPU, and where none is said."""
    kind = (device or "cpu").partition(":")[0]
    return None if kind == "cpu" else kind
