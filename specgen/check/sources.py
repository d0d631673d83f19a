"""What behaviour comes from that a schema names and does not say: Gymnasium's environments, classes of the user's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specgen.values import dataclass


@dataclass(frozen=True)
class GymnasiumSource:
    """The Gymnasium environment behind a declaration.

    Attributes:
        id: as Gymnasium registers it.
        module: the module that registers it, where Gymnasium itself does not.
        kwargs: of `gymnasium.make`.
        categorical_action_encoding: whether discrete actions are numbers, in place of one-hot vectors.
        max_episode_steps: its time limit.
    """

    id: str
    module: str | None
    kwargs: Mapping[str, Any]
    categorical_action_encoding: bool
    max_episode_steps: int | None


@dataclass(frozen=True)
class PythonSource:
    """The user's class behind a declaration."""

    module: str
    name: str
    stateful: bool = False

    @property
    def text(self) -> str:
        """The class as the schema names it."""
        return f"{self.module}:{self.name}"
