"""`GymSpaceMismatch`: what is raised where an installed Gymnasium environment is not the one that was declared."""

from __future__ import annotations

from typing import Any

from specgen_runtime.envs.keys import show_key
from specgen_runtime.typing import NestedKey

__all__ = ["GymSpaceMismatch"]


class GymSpaceMismatch(ValueError):  # noqa: N818
    """The installed Gymnasium environment is not the one whose specs were declared.

    Attributes:
        key: the key whose spec differs, or `max_episode_steps`.
        declared: what the schema says.
        found: what Gymnasium says.
    """

    def __init__(self, gym_id: str, key: NestedKey, declared: Any, found: Any) -> None:
        super().__init__(
            f"{gym_id}: the installed Gymnasium environment differs from its declaration in {show_key(key)}:"
            f" declared {declared}, found {found}"
        )
        self.key = key
        self.declared = declared
        self.found = found
