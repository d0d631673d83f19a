"""The helpers around environments, under the name by which TorchRL's users know them."""

from specgen_runtime.envs.agents import MarlGroupMapType, check_marl_grouping
from specgen_runtime.envs.check_specs import check_env_specs
from specgen_runtime.envs.done import terminated_or_truncated
from specgen_runtime.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from specgen_runtime.envs.mdp import StepMDP, step_mdp
from specgen_runtime.specs import check_no_exclusive_keys, consolidate_spec, make_composite_from_td

__all__ = [
    "ExplorationType",
    "MarlGroupMapType",
    "StepMDP",
    "check_env_specs",
    "check_marl_grouping",
    "check_no_exclusive_keys",
    "consolidate_spec",
    "exploration_type",
    "make_composite_from_td",
    "set_exploration_type",
    "step_mdp",
    "terminated_or_truncated",
]

_StepMDP = StepMDP  # TorchRL has no public name for it
