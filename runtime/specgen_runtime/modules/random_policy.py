"""`RandomPolicy`: actions drawn from their spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.specs import Composite, TensorSpec
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs import EnvBase


class RandomPolicy:
    """Draws actions from their spec, by torch's default generator.

    Args:
        action_spec: of the actions, with the batch size of the data; a composite holds several. None: that of the
            first environment that a rollout or a collector runs it in.
        action_key: where the action is written; a composite has keys of its own.
    """

    def __init__(self, action_spec: TensorSpec | None = None, action_key: NestedKey = "action") -> None:
        self.action_spec = None if action_spec is None else own_spec(action_spec).clone()
        self.action_key = action_key

    def set_action_spec_from_env(self, env: EnvBase[Any]) -> None:
        """Take the action spec of an environment, where there is none yet."""
        if self.action_spec is None:
            self.action_spec = env.full_action_spec.clone()

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write an action into a tensordict.

        Raises:
            RuntimeError: if there is no spec yet.
            ValueError: if it is not of the batch size of the tensordict.
        """
        if self.action_spec is None:
            raise RuntimeError(
                "RandomPolicy has no action_spec yet: give it one, or run it in a rollout or a collector"
            )
        batch = tensordict.batch_size
        for key, leaf in _leaves(self.action_spec, self.action_key):
            if leaf.shape[: len(batch)] != batch:
                raise ValueError(
                    f"RandomPolicy: the spec of {key!r} has the batch size of the data, {list(batch)}, in front of its own"
                    f" dimensions; got the shape {list(leaf.shape)}"
                )
        drawn = self.action_spec.rand()
        if isinstance(self.action_spec, Composite):
            return tensordict.update(drawn)
        return tensordict.set(self.action_key, drawn)


def _leaves(spec: TensorSpec, key: NestedKey) -> list[tuple[NestedKey, TensorSpec]]:
    """The specs of tensors by their keys; of one that is no composite `key`."""
    return list(spec.items(True, True)) if isinstance(spec, Composite) else [(key, spec)]
