"""The loop of `EnvBase.rollout`, for any environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from specgen_runtime.envs.done import DoneSet, any_done, mark_truncated, rootmost_sets
from specgen_runtime.envs.finite import NotFiniteError
from specgen_runtime.envs.in_place import noted_versions, refuse_changes
from specgen_runtime.envs.keys import as_tuple, show_key
from specgen_runtime.envs.packing import peek, stack_alike
from specgen_runtime.envs.policy import as_policy, check_actions, on_policy_device
from specgen_runtime.specs.arguments import as_count, as_device
from specgen_runtime.typing import DEVICE_TYPING

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

T = TypeVar("T", bound=TensorDictBase)

__all__ = [
    "check_rollout_arguments",
    "check_truncation",
    "finish_rollout",
    "run_rollout",
    "start",
    "step_through",
    "written_to",
]


def check_rollout_arguments(max_steps: int, any_done_stops: bool, all_done_stops: bool) -> int:
    """Refuse arguments that make no rollout.

    Returns:
        `max_steps`, as Python's int.

    Raises:
        TypeError: `max_steps` is not an integer, or both ways to stop are asked for.
        ValueError: `max_steps` is less than 1.
    """
    max_steps = as_count(max_steps, "max_steps")
    if any_done_stops and all_done_stops:
        raise TypeError("break_when_any_done and break_when_all_done exclude each other")
    return max_steps


def check_truncation(sets: tuple[DoneSet, ...]) -> None:
    """Refuse `set_truncated=True` where no done set declares `truncated`.

    Raises:
        RuntimeError: there is no such flag.
    """
    if not any(s.truncated for s in sets):
        raise RuntimeError("set_truncated=True needs a 'truncated' flag, and the done spec has none")


def start(env: EnvBase[Any], auto_reset: bool, tensordict: Any, set_state: bool | None = None) -> Any:
    """The root that a rollout begins with: a copy of `tensordict`, without what an earlier step wrote to `"next"`.

    Raises:
        RuntimeError: `auto_reset=False` and nothing to start from.
    """
    given = None if tensordict is None else _root_of(tensordict)
    if auto_reset:
        return env.reset(given) if set_state is None else env.reset(given, set_state=set_state)
    if given is None:
        raise RuntimeError("rollout(auto_reset=False) needs a tensordict to start from")
    return env.maybe_reset(given)


def _root_of(tensordict: Any) -> Any:
    root = tensordict.copy()
    if root.get("next", None) is not None:
        del root["next"]
    return root


def run_rollout(
    env: EnvBase[Any],
    max_steps: int,
    policy: Callable[..., Any] | None,
    callback: Callable[..., Any] | None,
    *,
    auto_reset: bool,
    auto_cast_to_device: bool,
    break_when_any_done: bool | None,
    break_when_all_done: bool | None,
    return_contiguous: bool | None,
    tensordict: Any,
    set_truncated: bool,
    out: Any = None,
    trust_policy: bool = False,
    storing_device: DEVICE_TYPING | None = None,
    set_state: bool | None = None,
) -> Any:
    """Step an environment until it is done or `max_steps` are taken; see `EnvBase.rollout`."""
    break_when_all_done = bool(break_when_all_done)
    if break_when_any_done is None:
        break_when_any_done = not break_when_all_done
    storing_device = None if storing_device is None else as_device(storing_device)
    max_steps = check_rollout_arguments(max_steps, break_when_any_done, break_when_all_done)
    if set_truncated:
        check_truncation(env._done_sets)
    act = env.rand_action if policy is None else as_policy(env._env_layout, policy, trust_policy)
    if auto_cast_to_device and policy is not None:
        act = on_policy_device(act, policy, env.device)
    current = start(env, auto_reset, tensordict, set_state)
    time = len(current.batch_size)
    records = step_through(
        env,
        max_steps,
        act,
        current,
        callback=callback,
        any_stops=break_when_any_done,
        all_stops=break_when_all_done,
        storing_device=storing_device,
    )
    stacked = finish_rollout(records, time, contiguous=return_contiguous)
    if policy is not None:
        check_actions(env._env_layout, stacked, storing_device, zeros=True)
    if set_truncated:
        mark_truncated(stacked, env._done_sets)
    return stacked if out is None else written_to(out, stacked)


def finish_rollout(records: list[Any], time: int, *, contiguous: bool | None = None) -> Any:
    """Join the transitions of a rollout at the dimension `time`, named `"time"`.

    What the first root lacks, since only `"next"` gave it, is left out of the later ones.

    Args:
        records: the transitions.
        time: where the dimension is put.
        contiguous: whether to stack the entries; False makes a lazy stack of the transitions. If None, they are
            stacked where their keys and sizes are the same at all steps.

    Raises:
        RuntimeError: `contiguous` is True, and an entry differs in its size from step to step.
    """
    lazy = LazyStackedTensorDict
    records = _without_late_entries(records)
    if contiguous is not False and (stacked := stack_alike(records, time)) is not None:
        return stacked
    join: Any = {True: torch.stack, False: lazy.lazy_stack, None: lazy.maybe_dense_stack}[contiguous]
    try:
        stacked = join(records, time)
    except (NotImplementedError, RuntimeError) as error:
        if contiguous:  # torch stacks no nested tensors, and no entries of different sizes
            raise RuntimeError(
                f"rollout(return_contiguous=True) cannot stack its steps: {_difference(records)}. Call rollout with"
                " return_contiguous=False, or None, for a lazy stack of them"
            ) from error
        stacked = lazy.lazy_stack(records, time)
    stacked.names = [*[None] * time, "time"]
    return stacked


def _difference(records: list[Any]) -> str:
    """In what the first step and another one differ."""
    first = dict(records[0].items(True, True))
    for t, record in enumerate(records):
        entries = dict(record.items(True, True))
        for key in first.keys() ^ entries.keys():
            return f"{show_key(key)} is at step {t if key in entries else 0} only"
        for key, value in entries.items():
            sizes = [
                "of several sizes" if each.is_nested else list(each.shape)
                for each in (first[key], value)
                if isinstance(each, torch.Tensor)
            ]
            if len(sizes) == 2 and (sizes[0] != sizes[1] or isinstance(sizes[0], str)):
                return f"{show_key(key)} is {sizes[0]} at step 0 and {sizes[1]} at step {t}"
    return "entries of their lazy stacks differ"


def _without_late_entries(records: list[Any]) -> list[Any]:
    """Roots with the keys of the first one, where what is more came from its `"next"`."""
    if len(records) < 2:
        return records
    keys = set(records[0].keys(True, True))
    late = [
        key
        for key in records[1].keys(True, True)
        if key not in keys and key[0] != "next" and ("next", *as_tuple(key)) in keys
    ]
    return [record.exclude(*late) for record in records] if late else records


def written_to(out: T, rollout: TensorDictBase) -> T:
    """Write a rollout into a tensordict of the same shape and keys, in place; returns it.

    Raises:
        RuntimeError: it has another batch size.
        KeyError: it lacks an entry.
    """
    if out.batch_size != rollout.batch_size:
        raise RuntimeError(
            f"rollout: `out` has batch size {list(out.batch_size)}, the rollout {list(rollout.batch_size)}"
        )
    if torch._C._functorch.maybe_current_level() is None:
        out.update_(rollout)
        return out
    for key in rollout.keys(True, True):  # torch.vmap has no copies of many tensors at once
        out.get(key).copy_(rollout.get(key))
    return out


def step_through(
    env: EnvBase[Any],
    max_steps: int,
    act: Callable[[Any], Any],
    current: Any,
    *,
    callback: Callable[..., Any] | None = None,
    any_stops: bool,
    all_stops: bool = False,
    records: list[Any] | None = None,
    has_action: bool = False,
    storing_device: torch.device | None = None,
) -> list[Any]:
    """The transitions of a rollout, one by one.

    Args:
        env: the environment.
        max_steps: the most transitions, those of `records` included.
        act: writes the actions.
        current: the root to begin with.
        callback: called after each step but the last.
        any_stops: stop when any environment is done.
        all_stops: stop when all are done; the rows of those that are repeat.
        records: transitions that are there already.
        has_action: whether `current` has its actions.
        storing_device: where the transitions are kept.
    """
    layout = env._env_layout
    sets = layout.done_sets
    records = [] if records is None else records
    finished: torch.Tensor | None = None
    previous: Any = None
    leaves_out = all_stops and env._steps_rows()
    for t in range(len(records), max_steps):
        if has_action:
            has_action = False
        else:
            current = act(current)
        last = t == max_steps - 1
        if leaves_out and finished is not None and bool(finished.any()):
            current.set("_step", ~finished)
        held = noted_versions(layout.reward_tensors, peek(records[-1], "next")) if records else []
        try:
            if any_stops or all_stops or last:
                record = env.step(current)
                following = None if last else env.step_mdp(record)
            else:
                record, following = env.step_and_maybe_reset(current)
        except NotFiniteError as error:
            raise error.at(t) from None
        refuse_changes(layout, held, "_step")
        if finished is not None and bool(finished.any()):
            merged: Any = torch.where(finished, previous, record)
            record = merged
        previous = record
        records.append(record if storing_device is None else record.to(storing_device))
        if last:
            break
        if any_stops and any_done(record.get("next"), sets):
            break
        if all_stops:
            finished = _done_rows(record.get("next"), sets, finished)
            if bool(finished.all()):
                break
        if callback is not None:
            callback(env, record)
        current = following
    return records


def _done_rows(
    following: TensorDictBase, sets: tuple[DoneSet, ...], finished: torch.Tensor | None
) -> torch.Tensor:
    """Which environments are done by now, as a mask of the batch shape."""
    n = following.batch_dims
    rows = torch.stack([following.get(s.done).flatten(n).all(-1) for s in rootmost_sets(sets)]).all(0)
    return rows if finished is None else rows | finished
