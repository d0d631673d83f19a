"""Objects that live in processes of their own and are called from here."""

from specgen_runtime.services.ray import RayService

__all__ = ["RayService"]
