"""`MetricMeans`: means of metrics over all updates, read from their device once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.training.episode_returns import sum_dtype

__all__ = ["MetricMeans", "lost_losses", "named_metrics", "read_numbers"]


def named_metrics(metrics: Any) -> dict[str, Any]:
    """The entries of a NamedTuple, a mapping or a tensordict, by name; nested names are joined by a slash.

    Raises:
        TypeError: it is none of these.
    """
    # first what printed trainings add at each update
    if isinstance(metrics, tuple) and hasattr(metrics, "_asdict"):
        return cast("dict[str, Any]", metrics._asdict())
    if isinstance(metrics, TensorDictBase):
        return {
            key if isinstance(key, str) else "/".join(key): value for key, value in metrics.items(True, True)
        }
    if isinstance(metrics, Mapping):
        named: dict[str, Any] = {}
        for name, value in metrics.items():
            if isinstance(value, TensorDictBase | Mapping):
                named |= {f"{name}/{below}": one for below, one in named_metrics(value).items()}
            else:
                named[name] = value
        return named
    raise TypeError(f"metrics are a NamedTuple, a mapping or a tensordict, found {type(metrics).__name__}")


def lost_losses(row: Mapping[str, float], names: Iterable[str]) -> str:
    """The losses of a row that are not finite, each with its value; empty if there are none.

    Args:
        row: the numbers, by name.
        names: of the metrics among them; a loss has the word in its name.
    """
    lost = (name for name in names if "loss" in re.split("[_/]", name) and not math.isfinite(row[name]))
    return ", ".join(f"{name} is {row[name]}" for name in lost)


class MetricMeans:
    """Sums of metrics and how many there were. Adding waits for no device."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, ...], Tensor] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, metrics: Any) -> None:
        """Add the metrics of an update.

        Args:
            metrics: numbers or tensors of one element or several, whose mean counts, by name.

        Raises:
            TypeError: no NamedTuple, mapping or tensordict, or no numbers.
        """
        named = named_metrics(metrics)
        if not named:
            return
        device = next((value.device for value in named.values() if isinstance(value, Tensor)), None)
        values = torch.stack([_scalar(name, value, device) for name, value in named.items()])
        names = tuple(named)
        if names not in self._sums:
            zeros = torch.zeros_like(values, dtype=sum_dtype(values.device))
            self._sums[names], self._counts[names] = zeros, 0
        if self._sums[names].device != values.device:  # they were saved on another
            self._sums[names] = self._sums[names].to(values.device)
        self._sums[names] += values
        self._counts[names] += 1

    def take(self) -> dict[str, tuple[Tensor, int]]:
        """The sum and the number of each metric since the last time."""
        taken: dict[str, tuple[Tensor, int]] = {}
        for names, sums in self._sums.items():
            for name, value in zip(names, sums.unbind(), strict=True):
                before = taken.get(name)
                count = self._counts[names]
                taken[name] = (value, count) if before is None else (before[0] + value, before[1] + count)
        self._sums, self._counts = {}, {}
        return taken

    def state_dict(self) -> dict[str, Any]:
        """What was not taken yet."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._sums, self._counts = dict(state["sums"]), dict(state["counts"])


def read_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Numbers and tensors of one element as Python's, by one transfer from each device.

    Raises:
        TypeError: a value is neither.
    """
    tensors = {name: _scalar(name, value) for name, value in values.items() if isinstance(value, Tensor)}
    numbers = {name: value for name, value in values.items() if name not in tensors}
    for name, value in numbers.items():
        if not isinstance(value, bool | int | float):
            raise TypeError(f"{name} is a {type(value).__name__}: numbers and tensors can be logged")
    by_device: dict[torch.device, list[str]] = {}
    for name, tensor in tensors.items():
        by_device.setdefault(tensor.device, []).append(name)
    for device, names in by_device.items():
        read = torch.stack([tensors[name].to(sum_dtype(device)) for name in names]).tolist()
        numbers.update(zip(names, read, strict=True))
    return {name: numbers[name] for name in values}


def _scalar(name: str, value: Any, device: torch.device | None = None) -> Tensor:
    """A metric as a tensor of no dimensions, without its gradient; a number becomes one on `device`."""
    if isinstance(value, Tensor):
        number: Tensor = value.detach() if value.requires_grad else value
        if not number.dim():
            return number
        return (number if number.is_floating_point() else number.to(torch.get_default_dtype())).mean()
    if isinstance(value, bool | int | float):
        return torch.tensor(float(value), device=device)
    raise TypeError(f"metric {name} is a {type(value).__name__}: metrics are tensors or numbers")
