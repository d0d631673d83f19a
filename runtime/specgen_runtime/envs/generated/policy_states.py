"""States of a policy that a generated environment reads as the policy left them to the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.data_checks import check_entries
from specgen_runtime.envs.packing import peek
from specgen_runtime.envs.stepping import written_by_policy

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv

__all__ = ["kept_states", "left_states"]


def left_states(env: GeneratedEnv[Any, Any], tensordict: TensorDictBase) -> list[Tensor]:
    """What the policy put under ``"next"`` for each of an environment's `_policy_states`, or what the root holds.

    Raises:
        KeyError: it is missing.
        RuntimeError: it has another shape or dtype than its spec.
    """
    found: list[Tensor] = []
    if not env._policy_states:
        return found
    written, layout = written_by_policy(env, tensordict), env._env_layout
    for key in env._policy_states:
        given = tensordict if written is None or peek(written, key) is None else written
        check_entries(layout, given, [e for e in layout.state.entries if e.leaf.key == key], "step")
        found.append(given.get(key))
    return found


def kept_states(env: GeneratedEnv[Any, Any], record: Any) -> list[Any]:
    """What a policy that writes nothing leaves: its states in a Root record, or in one of all steps."""
    return [record[env._root_keys.index(key)] for key in env._policy_states]
