"""Random actions where observations tell which ones are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from specgen_runtime.envs.checked import check_entries
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

__all__ = ["draw_allowed_actions"]


def draw_allowed_actions(
    env: EnvBase[Any], tensordict: Any, masks: Iterable[tuple[NestedKey, NestedKey]]
) -> None:
    """Write actions that the masks in a root allow, each drawn uniformly with torch's global generator.

    Args:
        env: whose actions they are.
        tensordict: the root; written to.
        masks: each action with the observation that tells its allowed values.

    Raises:
        KeyError: an observation is missing.
        RuntimeError: an observation differs from its spec.
    """
    check_entries(env, tensordict, env._expected("full_observation_spec"), "rand_action")
    for action_key, mask_key in masks:
        spec: Any = env.full_action_spec[action_key].clone()
        spec.update_mask(tensordict.get(mask_key))
        tensordict.set(action_key, spec.rand())
