"""`LossOutputs`: what a loss returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDict

__all__ = ["LossOutputs"]


class LossOutputs(TensorDict):  # type: ignore[misc]  # tensordict is untyped for mypy
    """Terms and metrics without batch dimensions, by name: a tensordict whose entries are attributes, too."""

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            entries = self.__dict__.get("_tensordict")
            if entries is not None and name in entries:
                return entries[name]
            known = "" if not entries else f"; the loss returned {', '.join(entries)}"
            raise AttributeError(f"there is no {name!r}{known}")
