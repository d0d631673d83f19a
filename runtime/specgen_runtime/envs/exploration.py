"""How stochastic policies choose their action: sample it, or take a deterministic summary.

The setting is tensordict's own (`tensordict.nn.InteractionType`), so that one context manager drives
tensordict's probabilistic modules, this package's modules and its losses alike.
"""

from __future__ import annotations

from tensordict.nn import InteractionType as ExplorationType
from tensordict.nn.probabilistic import interaction_type, set_interaction_type

__all__ = ["ExplorationType", "exploration_type", "set_exploration_type"]


def exploration_type() -> ExplorationType | None:
    """Return the exploration type in force, or None outside any `set_exploration_type`.

    Modules then use their own default: exploration modules explore, probabilistic modules follow
    their `default_interaction_type`.
    """
    return interaction_type()


class set_exploration_type(set_interaction_type):  # type: ignore[misc]  # noqa: N801
    """Set the exploration type inside a `with` block, or inside a decorated function.

    Args:
        type: an `ExplorationType`, its name, or None for "no setting". Defaults to
            `ExplorationType.DETERMINISTIC`.

    Raises:
        ValueError: the name is not the name of an exploration type.

    Example:
        >>> with set_exploration_type(ExplorationType.DETERMINISTIC):
        ...     exploration_type()
        <InteractionType.DETERMINISTIC: 5>
    """

    def __init__(self, type: ExplorationType | str | None = ExplorationType.DETERMINISTIC) -> None:
        super().__init__(type)
