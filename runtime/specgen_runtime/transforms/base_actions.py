"""Random actions of a `TransformedEnv` whose base environment has action masks or a `rand_action` of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tensordict import TensorDictBase

from specgen_runtime.envs.overrides import overrides_rand_action
from specgen_runtime.envs.random_actions import draw_masked_actions
from specgen_runtime.transforms.action_masks import mask_shape, renamed_actions, shown_key
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

    A mask holds until a later transform changes the action, leaves the mask out or gives it another shape; what only gets
    another key is followed.
    """
    base: Any = env.base_env
    own: Masks = getattr(base, "_action_masks", ())
    # with what the base environment calls its own actions
    found: list[tuple[NestedKey, NestedKey, NestedKey | None]] = [(key, mask, key) for key, mask in own]
    for transform in leaves(env.transform):
        renamed, changed = renamed_actions(transform), {*transform.in_keys_inv}
        found = [
            (renamed.get(action, action), shown_key(transform, mask), inner)
            for action, mask, inner in found
            if action not in changed or action in renamed
        ]
        found += [(action, mask, None) for action, mask in transform.action_masks]
    if found:
        inner_specs, outer_specs = base.full_action_spec, env.full_action_spec
        found = [
            one
            for one in found
            if one[0] in env.action_keys
            and (one[2] is None or inner_specs.get(one[2], None) == outer_specs[one[0]])
        ]
    shapes = {key: env.full_observation_spec[key].shape for key in env.observation_keys} if found else {}
    fitting = [
        (action, mask)
        for action, mask, _ in found
        if shapes.get(mask) == mask_shape(env.full_action_spec[action])
    ]
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
