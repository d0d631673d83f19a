"""The rollout of generated environments: a bare loop over records, everything else once over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.data_checks import check_entries, check_tensordict
from specgen_runtime.envs.done import mark_truncated
from specgen_runtime.envs.finite import refuse_not_finite_rollout
from specgen_runtime.envs.generated.records import carried, stacked
from specgen_runtime.envs.packing import entries_of, fast_td, overlay, stack_tds
from specgen_runtime.envs.policy import as_policy, check_actions
from specgen_runtime.envs.rollout import (
    check_rollout_arguments,
    check_truncation,
    finish_rollout,
    start,
    step_through,
)

if TYPE_CHECKING:
    from specgen_runtime.envs.generated.env import GeneratedEnv

__all__ = ["lifted_rollout", "run_steps"]


def lifted_rollout(
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
    """Run a generated environment; see `EnvBase.rollout` for the arguments and errors."""
    max_steps = check_rollout_arguments(max_steps, any_stops, False)
    if set_truncated:
        check_truncation(env._done_sets)
    begin = None if auto_reset and tensordict is None else start(env, auto_reset, tensordict)
    env._refuse_if_closed()
    root = None
    if begin is not None:
        check_tensordict(env._env_layout, begin, "rollout")
        root = env._read(begin)
        env._check_root(root, begin, "rollout")
    if policy is None and env._action_masks:
        policy = env.rand_action  # which actions are allowed depends on the state
    if policy is None and begin is not None and not _only_root(env, begin):
        steps = step_through(env, max_steps, env.rand_action, begin, any_stops=any_stops)
        return _finished(env, finish_rollout(steps, env.ndim, contiguous=contiguous), set_truncated)
    if root is None:
        root = env._fresh()
    if policy is None:
        return _finished(env, _random(env, max_steps, root, begin, any_stops), set_truncated)
    if begin is None:
        begin = fast_td(env._root_entries(root), env.batch_size, env.device, agents=env._agents)
    act = as_policy(env._env_layout, policy, trust_policy)
    result = _with_policy(env, max_steps, act, root, begin, any_stops, contiguous)
    check_actions(env._env_layout, result)
    return _finished(env, result, set_truncated)


def _finished(env: GeneratedEnv[Any], result: Any, set_truncated: bool) -> Any:
    if env._check_finite:
        refuse_not_finite_rollout(env._env_layout, result)
    if set_truncated:
        mark_truncated(result, env._done_sets)
    return result


def _only_root(env: GeneratedEnv[Any], begin: TensorDictBase) -> bool:
    """Whether a root holds nothing that the records don't: further entries would have to be repeated."""
    known = set(env.observation_keys) | set(env.done_keys) | set(env.action_keys)
    return all(key in known for key in begin.keys(True, True))


def _random(
    env: GeneratedEnv[Any], max_steps: int, first: Any, begin: TensorDictBase | None, any_stops: bool
) -> Any:
    """Random actions: drawn for all steps at once, exactly as they would be drawn one by one."""
    drawing = _Draws(env, max_steps)
    root, next_, steps = env._run(first, drawing.slabs, any_stops)
    actions = drawing.taken(steps)
    size, names = _shape_and_names(env, steps)
    entries = env._root_entries(root)
    following = env._next_entries(root, actions, next_)
    result = fast_td(entries, size, env.device, names, env._agents)
    if begin is not None:
        # The caller's own values stand in the first row, even where they are not what the records derive.
        for key in [*env.observation_keys, *env.done_keys]:
            whole = result.get(key).clone()
            whole.select(env.ndim, 0).copy_(begin.get(key))
            result.set(key, whole)
    for key, action in zip(env.action_keys, actions, strict=True):
        result.set(key, action)
    result.set("next", fast_td(following, size, env.device, names, env._agents))
    return result


class _Draws:
    """The random actions of a rollout, and the state of torch's generator that goes with them."""

    def __init__(self, env: GeneratedEnv[Any], max_steps: int) -> None:
        self._spec = env.full_action_spec
        self._keys = env.action_keys
        self._time = env.ndim
        self._length = max_steps
        self._device = env._generator.device
        self._state = self._get_state()
        self.slabs = tuple(self._draw(max_steps))

    def _draw(self, length: int) -> list[Tensor]:
        if len(self._keys) == 1:
            return [self._spec[self._keys[0]].rand_sequence(length)]
        drawn = self._spec.rand_sequence(length)
        return [drawn.get(key) for key in self._keys]

    def _get_state(self) -> Tensor:
        if self._device.type == "cuda":
            return torch.cuda.get_rng_state(self._device)
        return torch.get_rng_state()

    def taken(self, steps: int) -> tuple[Tensor, ...]:
        """The actions of the first `steps` steps, time behind the batch; the rest were never drawn."""
        if steps < self._length:
            if self._device.type == "cuda":
                torch.cuda.set_rng_state(self._state, self._device)
            else:
                torch.set_rng_state(self._state)
            self._draw(steps)
        slabs = [slab[:steps] for slab in self.slabs]
        if self._time:
            return tuple(slab.movedim(0, self._time).contiguous() for slab in slabs)
        return tuple(slab.clone() if steps < self._length else slab for slab in slabs)


def run_steps(
    env: GeneratedEnv[Any], root: Any, slabs: Sequence[Tensor], any_stops: bool
) -> tuple[Any, Any, int]:
    """The hot loop: one `_advance` a step.

    Args:
        env: the environment.
        root: the Root record to start from.
        slabs: the actions, `(T, *batch, ...)` each.
        any_stops: whether to stop as soon as one environment is done.

    Returns:
        The Root and the Next records with time behind the batch, and how many steps were taken.
    """
    advance, batched = env._advance, bool(env.batch_size)
    roots: list[Any] = []
    nexts: list[Any] = []
    last = len(slabs[0]) - 1
    for t, action in enumerate(zip(*(slab.unbind(0) for slab in slabs), strict=True)):
        next_ = advance(root, action)
        roots.append(root)
        nexts.append(next_)
        done = next_.done
        if not (done.any() if batched else done):
            root = carried(root, next_)
        elif any_stops or t == last:
            break
        else:
            root = env._following(root, next_)
    return stacked(roots, env.ndim), stacked(nexts, env.ndim), len(roots)


def _with_policy(
    env: GeneratedEnv[Any],
    max_steps: int,
    act: Callable[[Any], Any],
    root: Any,
    current: Any,
    any_stops: bool,
    contiguous: bool | None,
) -> Any:
    """Actions of a policy: it sees a root tensordict at each step; `"next"` is still made once."""
    expected = env._env_layout.action.entries
    given = env.observation_keys + env.done_keys
    roots: list[Any] = []
    nexts: list[Any] = []
    taken: list[tuple[Tensor, ...]] = []
    seen: list[Any] = []
    for t in range(max_steps):
        before = [current.get(key) for key in given]
        current = act(current)
        if "next" in entries_of(current) or any(
            current.get(key, None) is not value for key, value in zip(given, before, strict=True)
        ):
            # The policy wrote into "next" or changed what it was given: step by step from here.
            steps = step_through(
                env,
                max_steps,
                act,
                current,
                any_stops=any_stops,
                records=_transitions(env, seen, roots, taken, nexts),
                has_action=True,
            )
            return finish_rollout(steps, env.ndim, contiguous=contiguous)
        check_entries(env._env_layout, current, expected, "step")
        actions = env._actions(current)
        next_ = env._advance(root, actions)
        roots.append(root)
        nexts.append(next_)
        taken.append(actions)
        seen.append(current)
        if any_stops and bool(next_.done.any()):
            break
        if t < max_steps - 1:
            root = env._following(root, next_)
            entries = overlay(current, env._root_entries(root))
            current = fast_td(entries, env.batch_size, env.device, agents=env._agents)
    time = env.ndim
    try:
        entries = stack_tds(seen, time)
    except RuntimeError:  # what the policy writes differs in its keys or sizes
        return finish_rollout(_transitions(env, seen, roots, taken, nexts), time, contiguous=contiguous)
    size, names = _shape_and_names(env, len(seen))
    actions = tuple(torch.stack(column, time) for column in zip(*taken, strict=True))
    following = env._next_entries(stacked(roots, time), actions, stacked(nexts, time))
    result = fast_td(entries, size, env.device, names, env._agents)
    result.set("next", fast_td(following, size, env.device, names, env._agents))
    return result


def _transitions(
    env: GeneratedEnv[Any],
    seen: list[Any],
    roots: list[Any],
    taken: list[tuple[Tensor, ...]],
    nexts: list[Any],
) -> list[Any]:
    """The steps so far as tensordicts with `"next"`."""
    for current, root, actions, next_ in zip(seen, roots, taken, nexts, strict=True):
        following = env._next_entries(root, actions, next_)
        current.set("next", fast_td(following, env.batch_size, env.device, agents=env._agents))
    return seen


def _shape_and_names(env: GeneratedEnv[Any], steps: int) -> tuple[torch.Size, list[str | None]]:
    return torch.Size((*env.batch_size, steps)), [*[None] * env.ndim, "time"]
