"""Objects that live in processes of their own and are called from here."""

from specgen_runtime.services.choice import HereOrInActors
from specgen_runtime.services.ray import ActorOptions, RayService, actor_options
from specgen_runtime.services.settings import described

__all__ = ["ActorOptions", "HereOrInActors", "RayService", "actor_options", "described"]
