"""`step_mdp`: from one transition to the root of the next."""

from __future__ import annotations

from collections.abc import Iterable

from tensordict import LazyStackedTensorDict, TensorDictBase, is_non_tensor

from specgen_runtime.envs.keys import MissingKeyError, as_tuple, key_list, show_key
from specgen_runtime.typing import NestedKey

__all__ = ["step_mdp"]

_FLAGS = ("done", "terminated", "truncated")


def step_mdp(
    tensordict: TensorDictBase,
    next_tensordict: TensorDictBase | None = None,
    keep_other: bool = True,
    exclude_reward: bool = True,
    exclude_done: bool = False,
    exclude_action: bool = True,
    reward_keys: NestedKey | list[NestedKey] = "reward",
    done_keys: NestedKey | list[NestedKey] = "done",
    action_keys: NestedKey | list[NestedKey] = "action",
) -> TensorDictBase:
    """Return a tensordict whose root is the `"next"` entry of `tensordict`.

    Tensors are shared with the input, containers are not.

    Args:
        tensordict: a transition, with a `"next"` entry.
        next_tensordict: written to, if given, instead of a new tensordict.
        keep_other: keep the root entries that `"next"` does not have. Without it only `"next"` and what the
            other flags keep remains.
        exclude_reward: leave rewards out.
        exclude_done: leave done flags out: each of `done_keys`, and the `done`, `terminated` and `truncated`
            beside it.
        exclude_action: leave actions out.
        reward_keys: where the rewards are.
        done_keys: where the done flags are.
        action_keys: where the actions are.

    Returns:
        `next_tensordict`, or a new tensordict.

    Raises:
        TypeError: `tensordict` is not a tensordict.
        KeyError: there is no `"next"` entry.
    """
    if not isinstance(tensordict, TensorDictBase):
        raise TypeError(f"step_mdp needs a tensordict, found {type(tensordict).__name__}")
    following = tensordict.get("next", None)
    if following is None:
        raise MissingKeyError(
            f"step_mdp needs a 'next' entry; the tensordict has {sorted(map(show_key, tensordict.keys()))}."
            " Call env.step first"
        )
    actions = {as_tuple(key) for key in key_list(action_keys)}
    rewards = {as_tuple(key) for key in key_list(reward_keys)}
    dones = _with_siblings(key_list(done_keys))

    from_next: set[tuple[str, ...]] = set()
    if exclude_reward:
        from_next |= rewards
    if exclude_done:
        from_next |= dones
    if exclude_action:
        from_next |= actions
    from_root = rewards | dones | {("next",)}
    if exclude_action:
        from_root |= actions

    if keep_other:
        result = _without(tensordict, from_root)
    else:
        result = tensordict.empty()
        if not exclude_action:
            for path in actions:
                value = tensordict.get(path, None)
                if value is not None:
                    result.set(path, value)
    _merge(result, following, from_next, ())
    if next_tensordict is not None:
        return next_tensordict.update(result)
    return result


def _with_siblings(keys: Iterable[NestedKey]) -> set[tuple[str, ...]]:
    """A flag and the other flags of its done set."""
    return {(*as_tuple(key)[:-1], flag) for key in keys for flag in _FLAGS} | {as_tuple(key) for key in keys}


def _without(tensordict: TensorDictBase, excluded: set[tuple[str, ...]]) -> TensorDictBase:
    """A copy of the containers, sharing the tensors, without some entries."""
    result = tensordict.copy()
    result.unlock_()
    for path in excluded:
        if result.get(path, None) is not None:
            del result[path]
    return result


def _merge(
    result: TensorDictBase,
    source: TensorDictBase,
    excluded: set[tuple[str, ...]],
    prefix: tuple[str, ...],
) -> None:
    """Write the entries of `source` into `result`, nested ones into their nested containers."""
    if (
        isinstance(source, LazyStackedTensorDict)
        and isinstance(result, LazyStackedTensorDict)
        and source.stack_dim == result.stack_dim
    ):
        # What not all parts of a stack have is no item of the stack.
        for inner, value in zip(result.tensordicts, source.tensordicts, strict=True):
            _merge(inner, value, excluded, prefix)
        return
    for name, value in source.items():
        path = (*prefix, name)
        if path in excluded:
            continue
        if isinstance(value, TensorDictBase) and not is_non_tensor(value):
            inner = result.get(name, None)
            if not isinstance(inner, TensorDictBase):
                inner = value.empty()
            _merge(inner, value, excluded, path)
            result.set(name, inner)
        else:
            result.set(name, value)
