"""The rollout of any environment: its options, and the loop over its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from tensordict import TensorDictBase

from specgen_runtime.envs.done import mark_truncated, refuse_meta
from specgen_runtime.envs.policy import as_policy, on_policy_device
from specgen_runtime.envs.rollout_steps import fill_randomly
from specgen_runtime.specs.arguments import as_count, as_device

if TYPE_CHECKING:
    from specgen_runtime.envs.base import EnvBase

T = TypeVar("T", bound=TensorDictBase)

__all__ = ["RolloutOptions", "policy_function", "run_rollout"]


@dataclass(slots=True)
class RolloutOptions:
    """The arguments of `EnvBase.rollout`, which says what they mean.

    Attributes:
        any_stops: `break_when_any_done`; None is the opposite of `all_stops`.
        all_stops: `break_when_all_done`.
        storing_device: a torch.device, or None.
        policy_device: where the policy is called, if that is not where the environment is; None leaves it open.
        goes_on: whether the rollout goes on where an earlier one ended: `tensordict` is the `following` of that one (None
            begins episodes), and is used as it is; what is done after the last step is reset, too.
        following: written by a rollout that goes on: the root behind its last step.

    Raises:
        TypeError: `max_steps` is not an integer, or both ways to stop are asked for.
        ValueError: `max_steps` is less than 1.
    """

    max_steps: int
    policy: Callable[..., Any] | None = None
    callback: Callable[..., Any] | None = None
    auto_reset: bool = True
    auto_cast_to_device: bool = False
    any_stops: bool | None = None
    all_stops: bool | None = None
    return_contiguous: bool | None = None
    tensordict: Any = None
    set_truncated: bool = False
    out: Any = None
    trust_policy: bool = False
    storing_device: Any = None
    set_state: bool | None = None
    policy_device: Any = None
    goes_on: bool = False
    following: Any = None

    def __post_init__(self) -> None:
        self.max_steps = as_count(self.max_steps, "max_steps")
        if self.any_stops and self.all_stops:
            raise TypeError("break_when_any_done and break_when_all_done exclude each other")
        if self.storing_device is not None:
            self.storing_device = as_device(self.storing_device)
        if self.any_stops is None:
            self.any_stops = not self.all_stops

    @property
    def whole_only(self) -> bool:
        """Whether nobody asks for single transitions, but only for all of them as one tensordict."""
        return (
            self.callback is None
            and not self.auto_cast_to_device
            and self.policy_device is None
            and not self.all_stops
            and self.return_contiguous is not False
            and self.storing_device is None
            and not self.set_state
        )


def run_rollout(env: EnvBase[Any], options: RolloutOptions) -> Any:
    """Step an environment until it is done or `max_steps` are taken; see `EnvBase.rollout`."""
    if options.set_truncated and not any(s.truncated for s in env._env_layout.done_sets):
        raise RuntimeError("set_truncated=True needs a 'truncated' flag, and the done spec has none")
    refuse_meta(env, env.device)
    act = policy_function(env, options)
    rows: Any = env._rollout_steps(options)
    root = options.tensordict if options.goes_on else _start(env, options)
    flat = rows.whole(root)
    blocks = rows.blocks(root) if flat is None and options.policy is None else None
    if flat is not None:
        result = flat.rolled_out()
        if options.goes_on:
            options.following = flat.following(result)
    elif blocks is not None:
        rows, result = blocks, fill_randomly(env, blocks, options)
        if options.goes_on:
            options.following = blocks.following(result)
    else:
        current, left = rows.begin(root), options.max_steps
        while not rows.over:
            left -= 1
            current = rows.step(act(current), last=not left)
        result, options.following = rows.packed(), current
    rows.check(result)
    if options.set_truncated:
        mark_truncated(result, env._env_layout.done_sets)
    return result if options.out is None else _written_to(options.out, result)


def policy_function(env: EnvBase[Any], options: RolloutOptions) -> Callable[[Any], Any]:
    """What writes the actions of a rollout into a root tensordict."""
    if options.policy is None:
        return env.rand_action
    if callable(take_spec := getattr(options.policy, "set_action_spec_from_env", None)):
        take_spec(env)
    act = as_policy(env._env_layout, options.policy, options.trust_policy)
    if options.auto_cast_to_device or options.policy_device is not None:
        return on_policy_device(act, options.policy, env.device, options.policy_device)
    return act


def _start(env: EnvBase[Any], options: RolloutOptions) -> Any:
    """The root that a rollout begins with: a copy of `tensordict`, without what an earlier step wrote to `"next"`.

    Returns:
        None if new episodes are to start, and there is nothing to start them with.

    Raises:
        RuntimeError: `auto_reset=False` and nothing to start from.
    """
    root = options.tensordict
    if root is not None:
        root = root.copy()
        if root.get("next", None) is not None:
            del root["next"]
    if not options.auto_reset:
        if root is None:
            raise RuntimeError("rollout(auto_reset=False) needs a tensordict to start from")
        return env.maybe_reset(root)
    if options.set_state is not None:
        return env.reset(root, set_state=options.set_state)
    return None if root is None else env.reset(root)


def _written_to(out: T, rollout: TensorDictBase) -> T:
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
