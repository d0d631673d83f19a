"""Classes that have a subclass which does the same in Ray actors: the choice between the two."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from specgen_runtime.services.ray import ActorOptions, actor_options

__all__ = ["HereOrInActors"]


class HereOrInActors:
    """Base of a class that does its work here, and of its subclass that does it in Ray actors.

    ``class RayThing(Thing, in_actors=True)`` is what ``Thing(use_ray_service=True)`` makes.
    """

    _in_actors: ClassVar[type | None] = None
    runs_in_actors: ClassVar[bool] = False

    def __init_subclass__(cls, in_actors: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if in_actors:
            base: Any = cls.__bases__[0]
            base._in_actors, cls.runs_in_actors = cls, True

    def __new__(cls, *args: Any, use_ray_service: bool = False, **kwargs: Any) -> Self:
        """Choose the class: the one in actors for `use_ray_service`."""
        chosen: Any = cls.__dict__.get("_in_actors") if use_ray_service else None
        made: Self = super().__new__(chosen or cls)
        return made

    def _actor_options(self, use_ray_service: bool, given: ActorOptions) -> ActorOptions:
        """The checked keywords of the actors; see `actor_options`.

        Raises:
            ValueError: the class is derived from the one that does its work here; or see `actor_options`.
        """
        options = actor_options(use_ray_service or self.runs_in_actors, **given)
        if use_ray_service and not self.runs_in_actors:
            there = self._in_actors.__name__ if self._in_actors is not None else "one in actors"
            raise ValueError(f"{type(self).__name__} works here: derive it from {there}")
        return options
