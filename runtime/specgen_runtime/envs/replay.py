"""A policy that replays given actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase

from specgen_runtime.envs.keys import MissingKeyError, as_tuple, show_key

if TYPE_CHECKING:
    from specgen_runtime.envs.layout import Layout

__all__ = ["replay_policy"]


def replay_policy(
    layout: Layout, actions: Iterable[Any], policy: Callable[..., Any] | None, max_steps: int
) -> tuple[Callable[[Any], Any], int]:
    """A policy that writes one action after the other, whatever is observed, and for how many steps at most.

    Args:
        layout: of the environment; it says where the actions go.
        actions: a tensordict whose last dimension is named `"time"` (a rollout, say), or anything that gives the
            actions of one step after the other: a tensor `[T, *batch, ...]`, a list, a generator.
        policy: must be None.
        max_steps: the most steps.

    Raises:
        TypeError: `actions` cannot be iterated over.
        ValueError: it is empty, or a policy is given too. The policy raises it where there is no action left.
    """
    if policy is not None:
        raise ValueError("a rollout takes its actions from `policy` or from `actions`, not from both")
    steps, length = _steps(actions, max_steps)
    return _replay(layout, steps, length), length


def _steps(actions: Iterable[Any], max_steps: int) -> tuple[Iterator[Any], int]:
    if isinstance(actions, TensorDictBase) and actions.batch_dims and actions.names[-1] == "time":
        actions = actions.unbind(-1)
    if not isinstance(actions, Iterable):
        raise TypeError(f"actions must be iterable, found {type(actions).__name__}")
    if isinstance(actions, Sized):
        if not len(actions):
            raise ValueError("actions must hold at least one step, found none")
        max_steps = min(max_steps, len(actions))
    return iter(actions), max_steps


def _replay(layout: Layout, steps: Iterator[Any], max_steps: int) -> Callable[[Any], Any]:
    taken = 0

    def replay(tensordict: Any) -> Any:
        nonlocal taken
        try:
            action = next(steps)
        except StopIteration:
            raise ValueError(
                f"actions ended after {taken} steps, the rollout of {max_steps} steps needs one for step {taken}"
            ) from None
        taken += 1
        _write(layout, tensordict, action)
        return tensordict

    return replay


def _write(layout: Layout, tensordict: Any, action: Any) -> None:
    keys = layout.action.keys
    if isinstance(action, dict):
        action = tensordict.empty().update(action)
    if not isinstance(action, TensorDictBase):
        if len(keys) != 1:
            raise TypeError(
                f"the environment has the actions {', '.join(map(show_key, keys))}; give a tensordict of them for"
                f" each step, found {type(action).__name__}"
            )
        tensordict.set(keys[0], action)
        return
    inner = {as_tuple(key)[0] for key in keys}
    for key in keys:
        path = as_tuple(key)
        value = action.get(path, None)
        if value is None and len(inner) == 1 and len(path) > 1:
            value = action.get(path[1:], None)  # what stands under the only top-level key
        if value is None:
            found = ", ".join(sorted(map(show_key, action.keys(True, True))))
            raise MissingKeyError(f"actions must hold {show_key(key)}, found {found or 'nothing'}")
        tensordict.set(key, value)
