"""Random actions of a `TransformedEnv` whose base environment draws them in a way of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tensordict import TensorDict

from specgen_runtime.envs.overrides import overrides_rand_action
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.env import TransformedEnv

__all__ = ["Masks", "drawn_inside", "inner_masks"]

Masks: TypeAlias = tuple[tuple[NestedKey, NestedKey], ...]
"""Actions, each with the observation that tells its allowed values."""


def inner_masks(env: TransformedEnv) -> Masks:
    """The masks of the base environment, where observations still hold them and actions are what they were."""
    masks: Masks = getattr(env.base_env, "_action_masks", ())
    if not masks or not _takes_the_same_actions(env):
        return ()
    return tuple(pair for pair in masks if pair[1] in env.observation_keys)


def drawn_inside(env: TransformedEnv, tensordict: TensorDict | None) -> TensorDict | None:
    """What the base environment makes of `rand_action`, or None if it just draws from its spec.

    Raises:
        RuntimeError: it has a `rand_action` of its own, and transforms change the actions.
    """
    base: Any = env.base_env
    masks = env._action_masks
    if masks:
        allowed: TensorDict = draw_masked_actions(
            env._env_layout, env.reset() if tensordict is None else tensordict, masks
        )
        return allowed
    if not overrides_rand_action(base):
        return None
    if not _takes_the_same_actions(env):
        raise RuntimeError(
            f"{type(base).__name__} has a rand_action of its own, which knows nothing of how the transforms change"
            " the actions: give a policy"
        )
    drawn: TensorDict = base.rand_action(tensordict)
    return drawn


def _takes_the_same_actions(env: TransformedEnv) -> bool:
    """Whether actions reach the base environment as they are."""
    env._stages()
    if env._same_actions is None:
        env.__dict__["_same_actions"] = bool(env.full_action_spec == env.base_env.full_action_spec)
    return bool(env._same_actions)
