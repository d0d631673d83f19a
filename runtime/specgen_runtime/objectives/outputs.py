"""`LossOutputs`: what a loss returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDict
from torch import Tensor

__all__ = ["LossOutputs"]


class LossOutputs(TensorDict):  # type: ignore[misc]  # tensordict is untyped for mypy
    """Terms and metrics without batch dimensions, by name: a tensordict whose entries are attributes, too."""

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getitem__(self, index: Any) -> Any:
            """An entry, or what a tensordict gives for another index."""
            # a training reads all entries of each update: names that are there need none of tensordict's checks
            found = self._tensordict.get(index) if type(index) is str else None
            return found if type(found) is Tensor else super().__getitem__(index)

        def __getattr__(self, name: str) -> Any:
            entries = self.__dict__.get("_tensordict")
            if entries is not None and name in entries:
                return entries[name]
            known = "" if not entries else f"; the loss returned {', '.join(entries)}"
            raise AttributeError(f"there is no {name!r}{known}")
