"""Policies as tensordict modules."""

from .action_space import ActionSpace, ActionSpaceName, action_index, find_action_space
from .egreedy import EGreedyModule
from .qvalue import QValueActor, QValueModule, qvalue_network

__all__ = [
    "ActionSpace",
    "ActionSpaceName",
    "EGreedyModule",
    "QValueActor",
    "QValueModule",
    "action_index",
    "find_action_space",
    "qvalue_network",
]
