"""Policies and exploration as tensordict modules."""

from specgen_runtime.modules.action_space import ActionSpace, ActionSpaceName, action_index, find_action_space
from specgen_runtime.modules.egreedy import EGreedyModule
from specgen_runtime.modules.qvalue import QValueActor, QValueModule, as_qvalue_ensemble, as_qvalue_network
from specgen_runtime.modules.recurrent.mode import recurrent_mode, set_recurrent_mode

__all__ = [
    "ActionSpace",
    "ActionSpaceName",
    "EGreedyModule",
    "QValueActor",
    "QValueModule",
    "action_index",
    "as_qvalue_ensemble",
    "as_qvalue_network",
    "find_action_space",
    "recurrent_mode",
    "set_recurrent_mode",
]
