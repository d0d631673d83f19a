"""`AvailableEnvs`: what Gymnasium can make."""

from __future__ import annotations

from specgen_runtime.specs.gymnasium import import_gymnasium

__all__ = ["AvailableEnvs"]


class AvailableEnvs:
    """The ids that Gymnasium can make, as an attribute of classes and instances."""

    def __get__(self, instance: object, owner: type) -> list[str]:
        try:
            return sorted(import_gymnasium().registry.keys())
        except ImportError:
            return []
