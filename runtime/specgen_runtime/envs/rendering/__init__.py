"""Pictures of environments: what is drawn of a state, and environments that can be rendered."""

from specgen_runtime.envs.rendering.env import RenderedEnv
from specgen_runtime.envs.rendering.picture import Picture

__all__ = ["Picture", "RenderedEnv"]
