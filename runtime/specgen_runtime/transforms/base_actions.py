"""Random actions of a `TransformedEnv` whose base environment has action masks or a `rand_action` of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tensordict import TensorDictBase

from specgen_runtime.envs.overrides import overrides_rand_action
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.transforms.action_masks import mask_shape
from specgen_runtime.transforms.compose import leaves
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.transforms.env import TransformedEnv

__all__ = ["Masks", "base_action_masks", "base_rand_action"]

T = TypeVar("T", bound=TensorDictBase)

Masks: TypeAlias = tuple[tuple[NestedKey, NestedKey], ...]
"""Actions, each with the observation that tells its allowed values."""


def base_action_masks(env: TransformedEnv[Any, Any]) -> Masks:
    """The action masks of the base environment and of transforms, as far as they are those of the outer actions.

    A mask holds until a later transform changes the action, leaves the mask out or gives it another shape.
    """
    base: Any = env.base_env
    chain = leaves(env.transform)
    changed: set[NestedKey] = set()
    found: list[tuple[NestedKey, NestedKey]] = []
    for transform in reversed(chain):
        found[:0] = [pair for pair in transform.action_masks if pair[0] not in changed]
        changed.update(transform.in_keys_inv)
    own: Masks = getattr(base, "_action_masks", ())
    if own:
        inner, outer = base.full_action_spec, env.full_action_spec
        kept = [action for action in env.action_keys if action not in changed]
        found[:0] = [pair for pair in own if pair[0] in kept and inner.get(pair[0], None) == outer[pair[0]]]
    shapes = {key: env.full_observation_spec[key].shape for key in env.observation_keys} if found else {}
    fitting = [pair for pair in found if shapes.get(pair[1]) == mask_shape(env.full_action_spec[pair[0]])]
    return tuple(dict(fitting).items())


def base_rand_action(env: TransformedEnv[T, Any], tensordict: T | None) -> T | None:
    """Draw an action that the base environment allows, or as its own `rand_action` does; None if neither applies.

    Raises:
        RuntimeError: it has a `rand_action` of its own, and transforms change the actions.
    """
    base: Any = env.base_env
    masks = env._action_masks
    if masks:
        allowed: T = draw_masked_actions(
            env._env_layout, env.reset() if tensordict is None else tensordict, masks
        )
        return allowed
    if not overrides_rand_action(base):
        return None
    if not _keeps_actions(env):
        raise RuntimeError(
            f"{type(base).__name__} has a rand_action of its own, which knows nothing of how the transforms change"
            " the actions: give a policy"
        )
    drawn: T = base.rand_action(tensordict)
    return drawn


def _keeps_actions(env: TransformedEnv[Any, Any]) -> bool:
    """Whether actions reach the base environment as they are."""
    env._stages()
    if env._same_actions is None:
        env.__dict__["_same_actions"] = bool(env.full_action_spec == env.base_env.full_action_spec)
    return bool(env._same_actions)
