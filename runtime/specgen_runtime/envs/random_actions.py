"""Random actions: any of the action spec, or those that observations allow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from tensordict import TensorDict, TensorDictBase

from specgen_runtime.envs.data_checks import check_entries, check_tensordict
from specgen_runtime.envs.packing import put
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout

D = TypeVar("D", bound=TensorDictBase)

__all__ = ["draw_actions", "draw_masked_actions"]


def draw_actions(layout: Layout, tensordict: D | None) -> D:
    """Write random actions into a root (a new one if it is None), and return it; see `EnvBase.rand_action`."""
    root: Any = tensordict
    if root is None:
        root = TensorDict({}, batch_size=layout.batch_size, device=layout.device)
    else:
        check_tensordict(layout, root, "rand_action")
    result: D = root
    size = root.batch_size if not layout.batch_locked and not layout.batch_size else ()
    spec = layout.action.spec
    if size or not all(isinstance(key, str) for key in layout.action.keys):
        root.update(spec.rand(size))
        return result
    for key, leaf in spec.items():
        if leaf is not None:
            value = leaf.rand()
            if isinstance(value, torch.Tensor) and root.device in (None, value.device):
                put(root, key, value)
            else:
                root.set(key, value)
    return result


def draw_masked_actions(layout: Layout, tensordict: Any, masks: Iterable[tuple[NestedKey, NestedKey]]) -> Any:
    """Write random actions into a root, among those that its masks allow, and return it.

    Args:
        layout: of the environment whose actions they are.
        tensordict: the root.
        masks: each action with the observation that tells its allowed values.

    Raises:
        TypeError: not a tensordict.
        KeyError: an observation is missing.
        RuntimeError: an observation differs from its spec, or the batch size is another.
    """
    check_tensordict(layout, tensordict, "rand_action")
    check_entries(layout, tensordict, layout.observation.entries, "rand_action")
    draw_actions(layout, tensordict)
    for action_key, mask_key in masks:
        spec: Any = layout.action.spec[action_key].clone()
        spec.update_mask(tensordict.get(mask_key))
        tensordict.set(action_key, spec.rand())
    return tensordict
