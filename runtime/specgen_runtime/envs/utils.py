"""The helpers around environments, under the name by which TorchRL's users know them."""

from specgen_runtime.envs.checks import check_env_specs
from specgen_runtime.envs.exploration import ExplorationType, exploration_type, set_exploration_type
from specgen_runtime.envs.mdp import step_mdp

__all__ = ["ExplorationType", "check_env_specs", "exploration_type", "set_exploration_type", "step_mdp"]
