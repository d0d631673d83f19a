"""Resets and partial steps without Python branches on tensors, for `torch.compile` and `torch.vmap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from specgen_runtime.envs.data_checks import check_tensordict
from specgen_runtime.envs.done import pop_reset_masks
from specgen_runtime.envs.finite import refuse_not_finite
from specgen_runtime.envs.packing import fast_td
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.partial_steps import keep_others, step_mask

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv

__all__ = ["refuse_mapped", "traced_reset", "traced_restart", "traced_step"]


def _is_mapped() -> bool:
    level: Any = torch._C._functorch.maybe_current_level()
    return level is not None


def refuse_mapped(env: GeneratedEnv[Any], *, stops: bool = False) -> None:
    """Refuse what looks at values, where `torch.vmap` has none.

    Args:
        env: whose `check_finite` is looked at.
        stops: whether a rollout is to stop early.

    Raises:
        RuntimeError: under `torch.vmap`, `check_finite` is set, or a rollout is to stop early.
    """
    if env._check_finite and _is_mapped():
        raise RuntimeError(
            f"{type(env).__name__}: check_finite looks at values, which torch.vmap does not have; check what the mapped"
            " function returns"
        )
    if stops and _is_mapped():
        raise RuntimeError(
            f"{type(env).__name__}.rollout under torch.vmap takes all of its steps, as what is done differs from row"
            " to row: pass break_when_any_done=False"
        )


def traced_reset(env: GeneratedEnv[Any], tensordict: Any) -> Any:
    """`EnvBase.reset` of a given tensordict; a mask that selects nothing is computed like any other."""
    refuse_mapped(env)
    check_tensordict(env._env_layout, tensordict, "reset")
    masks = pop_reset_masks(tensordict, env._done_sets, env.device)
    fresh = fast_td(env._root_entries(env._fresh()), env.batch_size, env.device, agents=env._agents)
    if env._check_finite:
        layout = env._env_layout
        refuse_not_finite(layout, fresh, layout.observation.entries, "_reset")
    if masks:
        merge_reset(tensordict, fresh, masks)
    else:
        tensordict.update(fresh)
    return tensordict


def traced_restart(env: GeneratedEnv[Any], root: Any) -> Any:
    """`EnvBase.maybe_reset`; where nothing is done, that is computed like anything else."""
    for s in env._env_layout.root_sets:
        root.set(s.reset, root.get(s.done))
    return traced_reset(env, root)


def traced_step(env: GeneratedEnv[Any], tensordict: Any) -> Any:
    """`EnvBase.step` of a root with a `_step` mask; one that selects all, or nothing, is computed like any other."""
    env._refuse_if_closed()
    check_tensordict(env._env_layout, tensordict, "step")
    mask = step_mask(env._env_layout, tensordict)
    del tensordict["_step"]
    root = tensordict.copy()
    stepped = env.step(tensordict)
    return stepped.set("next", keep_others(env._env_layout, root, stepped.get("next"), mask))
