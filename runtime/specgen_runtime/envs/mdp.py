"""`step_mdp`: from one transition to the root of the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor
from torch import Tensor

from specgen_runtime.envs.keys import MissingKeyError, as_tuple, key_list, show_key
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.key_access import KeyAccess

__all__ = ["following_root", "step_mdp"]

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
            other flags keep remains. Containers with nothing in them are left out.
        exclude_reward: leave rewards out; if False, they are those of `"next"`, or of the root if that has none.
        exclude_done: leave done flags out: each of `done_keys`, and the `done`, `terminated` and `truncated`
            beside it; if False, likewise.
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
    following = _next_of(tensordict)
    actions = {as_tuple(key) for key in key_list(action_keys)}
    rewards = {as_tuple(key) for key in key_list(reward_keys)}
    dones = _with_siblings(key_list(done_keys))

    excluded: set[tuple[str, ...]] = set()
    if exclude_reward:
        excluded |= rewards
    if exclude_done:
        excluded |= dones
    if exclude_action:
        excluded |= actions

    if keep_other:
        result = _without(tensordict, excluded | {("next",)})
        _drop_empty(result)
    else:
        result = tensordict.empty()
        if not exclude_action:
            for path in actions:
                value = tensordict.get(path, None)
                if value is not None:
                    result.set(path, value)
    _merge(result, following, excluded, (), keep_empty=False)
    if next_tensordict is not None:
        return next_tensordict.update(result)
    return result


def _next_of(tensordict: TensorDictBase) -> Any:
    following = tensordict.get("next", None)
    if following is None:
        raise MissingKeyError(
            f"step_mdp needs a 'next' entry; the tensordict has {sorted(map(show_key, tensordict.keys()))}."
            " Call env.step first"
        )
    return following


def following_root(env: KeyAccess, transition: TensorDictBase) -> TensorDictBase:
    """`step_mdp` with the keys of an environment, keeping its actions; several times faster for plain tensordicts."""
    plan = env._cache.get("step_mdp")
    if plan is None:
        rewards = {as_tuple(key) for key in env.reward_keys}
        left_out = rewards | _with_siblings(env.done_keys) | {("next",)}
        plan = _tree(left_out), _tree(rewards), left_out, rewards
        env._cache["step_mdp"] = plan
    if type(transition) is TensorDict:
        following = transition._tensordict.get("next")
        if type(following) is TensorDict:
            root = _overlaid(transition, following, *plan[:2])
            if root is not None:
                return root
    if not isinstance(transition, TensorDictBase):
        raise TypeError(f"step_mdp needs a tensordict, found {type(transition).__name__}")
    following = _next_of(transition)
    result = _without(transition, plan[2])
    _merge(result, following, plan[3], (), keep_empty=True)
    return result


def _tree(paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Paths by their first names; an empty dict is the end of one."""
    tree: dict[str, Any] = {}
    for path in paths:
        inner = tree
        for name in path:
            inner = inner.setdefault(name, {})
    return tree


_KEEP: dict[str, Any] = {"": {}}


def _overlaid(
    old: TensorDict | None, new: TensorDict | None, old_left_out: dict[str, Any], new_left_out: dict[str, Any]
) -> TensorDict | None:
    """`new` over `old` without some paths, in new containers; None if there is more than tensors in it."""
    entries: dict[str, Any] = {}
    below: dict[str, tuple[TensorDict | None, TensorDict | None]] = {}
    for place, (source, left_out) in enumerate(((old, old_left_out), (new, new_left_out))):
        if source is None:
            continue
        if source._td_dim_names is not None:
            return None
        for name, value in source._tensordict.items():
            if not left_out.get(name, _KEEP):
                continue
            if isinstance(value, Tensor):
                entries[name] = value
                below.pop(name, None)
            elif type(value) is TensorDict:
                entries[name] = value
                below[name] = (below[name][0] if name in below else None, value) if place else (value, None)
            else:
                return None
    for name, pair in below.items():
        inner = _overlaid(*pair, old_left_out.get(name, _KEEP), new_left_out.get(name, _KEEP))
        if inner is None:
            return None
        entries[name] = inner
    like: Any = new if old is None else old
    make: Any = TensorDict._new_unsafe
    root: TensorDict = make(source=entries, batch_size=like.batch_size, device=like.device)
    return root


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


def _drop_empty(tensordict: TensorDictBase) -> None:
    """Take out containers without entries, in place."""
    for name in list(tensordict.keys()):
        value = tensordict.get(name)
        if isinstance(value, TensorDictBase) and not is_non_tensor(value):
            _drop_empty(value)
            if value.is_empty():
                del tensordict[name]


def _merge(
    result: TensorDictBase,
    source: TensorDictBase,
    excluded: set[tuple[str, ...]],
    prefix: tuple[str, ...],
    *,
    keep_empty: bool,
) -> None:
    """Write the entries of `source` into `result`, nested ones into their nested containers."""
    if (
        isinstance(source, LazyStackedTensorDict)
        and isinstance(result, LazyStackedTensorDict)
        and source.stack_dim == result.stack_dim
    ):
        # What not all parts of a stack have is no item of the stack.
        for inner, value in zip(result.tensordicts, source.tensordicts, strict=True):
            _merge(inner, value, excluded, prefix, keep_empty=keep_empty)
        return
    for name, value in source.items():
        path = (*prefix, name)
        if path in excluded:
            continue
        if isinstance(value, TensorDictBase) and not is_non_tensor(value):
            inner = result.get(name, None)
            if not isinstance(inner, TensorDictBase):
                inner = value.empty()
            _merge(inner, value, excluded, path, keep_empty=keep_empty)
            if keep_empty or not inner.is_empty():
                result.set(name, inner)
        else:
            result.set(name, value)
