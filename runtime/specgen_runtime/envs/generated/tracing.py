"""Resets and rollouts without Python branches on tensors, for `torch.compile` and `torch.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from specgen_runtime.envs.data_checks import check_tensordict
from specgen_runtime.envs.done import mark_truncated, pop_reset_masks
from specgen_runtime.envs.finite import NotFiniteError, refuse_not_finite
from specgen_runtime.envs.packing import fast_td
from specgen_runtime.envs.partial_resets import merge_reset
from specgen_runtime.envs.partial_steps import keep_others, step_mask
from specgen_runtime.envs.policy import as_policy
from specgen_runtime.envs.rollout import check_rollout_arguments, check_truncation, finish_rollout

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv

__all__ = ["refuse_mapped", "traced_reset", "traced_restart", "traced_rollout", "traced_step"]


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


def traced_rollout(
    env: GeneratedEnv[Any],
    max_steps: int,
    policy: Callable[..., Any] | None,
    *,
    auto_reset: bool,
    any_stops: bool,
    tensordict: Any,
    set_truncated: bool,
    trust_policy: bool = False,
    contiguous: bool | None = None,
) -> Any:
    """A rollout of `max_steps` steps that does not stop early; see `EnvBase.rollout`.

    Whether the policy's actions are in the action spec is not checked.
    """
    max_steps = check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    act = env.rand_action if policy is None else as_policy(env._env_layout, policy, trust_policy)
    if auto_reset:
        current = env.reset(None if tensordict is None else tensordict.copy())
    elif tensordict is None:
        raise RuntimeError("rollout(auto_reset=False) needs a tensordict to start from")
    else:
        current = traced_restart(env, tensordict.copy())
    steps: list[Any] = []
    try:
        for _ in range(max_steps - 1):
            step, current = env.step_and_maybe_reset(act(current))
            steps.append(step)
        steps.append(env.step(act(current)))
    except NotFiniteError as error:
        raise error.at(len(steps)) from None
    result = finish_rollout(steps, env.ndim, contiguous=contiguous)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result
