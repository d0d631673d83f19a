"""Random actions where observations tell which ones are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from specgen_runtime.envs.base import EnvBase
from specgen_runtime.envs.checked import check_entries, check_tensordict
from specgen_runtime.typing import NestedKey

__all__ = ["rand_allowed"]


def rand_allowed(env: EnvBase[Any], tensordict: Any, masks: Iterable[tuple[NestedKey, NestedKey]]) -> Any:
    """`EnvBase.rand_action`, with actions among those that the masks in a root allow.

    Args:
        env: whose actions they are.
        tensordict: the root; written to, and returned.
        masks: each action with the observation that tells its allowed values.

    Raises:
        TypeError: not a tensordict.
        KeyError: an observation is missing.
        RuntimeError: an observation differs from its spec, or the batch size is another.
    """
    check_tensordict(env, tensordict, "rand_action")
    check_entries(env, tensordict, env._expected("full_observation_spec"), "rand_action")
    EnvBase.rand_action(env, tensordict)
    for action_key, mask_key in masks:
        spec: Any = env.full_action_spec[action_key].clone()
        spec.update_mask(tensordict.get(mask_key))
        tensordict.set(action_key, spec.rand())
    return tensordict
