"""`ActionMask`: random actions keep to what an observation allows."""

from __future__ import annotations

from typing import Any

from tensordict import TensorDictBase

from specgen_runtime.envs.keys import show_key
from specgen_runtime.specs import Composite
from specgen_runtime.transforms.base import Transform
from specgen_runtime.transforms.keys import leaf_keys, normal_key
from specgen_runtime.typing import NestedKey

__all__ = ["ActionMask"]


class ActionMask(Transform):
    """Lets random actions of an environment (`rand_action`, rollouts without a policy) keep to a mask that it observes.

    The mask is that of the tensordict that gets the action, whatever environments and resets have done meanwhile; the
    action spec stays without one. A later transform that changes the action, or leaves the mask out, ends this.

    Args:
        action_key: an action of classes.
        mask_key: the observation, true where a class is allowed: `bool[*batch, classes]`.

    Raises:
        KeyError: in an environment: it has no such action or observation.
        TypeError: in an environment: the action is none of classes.
        ValueError: in an environment: the mask has another shape.
    """

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        super().__init__(in_keys=[normal_key(action_key), normal_key(mask_key)])

    @property
    def action_masks(self) -> tuple[tuple[NestedKey, NestedKey], ...]:
        """The action with its mask."""
        action, mask = self.in_keys
        return ((action, mask),)

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def _derives_done(self) -> bool:
        return False

    def _offline(self, tensordict: TensorDictBase) -> TensorDictBase:
        raise RuntimeError(
            "ActionMask is about the random actions of an environment: recorded ones are there already"
        )

    def transform_output_spec(self, output_spec: Composite) -> Composite:
        """Check that there are such an action and such a mask."""
        env = self.parent
        action, mask = self.in_keys
        if env is not None:
            masks = env.full_observation_spec
            for key, known, what in (
                (action, env.action_keys, "action"),
                (mask, leaf_keys(masks), "observation"),
            ):
                if key not in known:
                    raise KeyError(
                        f"ActionMask: {show_key(key)} is no {what} of the environment, which has"
                        f" {', '.join(map(show_key, known))}"
                    )
            spec: Any = env.full_action_spec[action]
            if not hasattr(spec, "update_mask"):
                raise TypeError(f"ActionMask: {show_key(action)} is no action of classes: {spec}")
            vectors = spec.to_one_hot_spec() if hasattr(spec, "to_one_hot_spec") else spec
            if masks[mask].shape != vectors.shape:
                raise ValueError(
                    f"ActionMask: {show_key(mask)} is {list(masks[mask].shape)}, and a mask of {show_key(action)} is"
                    f" {list(vectors.shape)}"
                )
        return super().transform_output_spec(output_spec)
