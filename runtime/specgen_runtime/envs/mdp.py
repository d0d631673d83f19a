"""`step_mdp`: from one transition to the root of the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase, is_non_tensor, is_tensorclass
from torch import Tensor

from specgen_runtime.envs.done import FLAGS
from specgen_runtime.envs.keys import MissingKeyError, as_tuple, key_list, show_key
from specgen_runtime.envs.packing import peek
from specgen_runtime.typing import NestedKey

if TYPE_CHECKING:
    from specgen_runtime.envs.spec_properties import SpecProperties

__all__ = ["StepMDP", "StepPlan", "following_root", "step_mdp", "step_plan"]

D = TypeVar("D", bound=TensorDictBase)


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

    kept = tensordict if keep_other else tensordict.select(*(() if exclude_action else actions), strict=False)
    left_out = _tree(excluded)
    result = _following(kept, following, {**left_out, "next": {}}, left_out, keep_empty=False)
    if next_tensordict is not None:
        return next_tensordict.update(result)
    return result


class StepMDP:
    """`step_mdp` with the keys of an environment.

    Args:
        env: whose reward, done and action keys.
        keep_other: see `step_mdp`, as for the other flags.
        exclude_reward: whether rewards are left out.
        exclude_done: whether done flags are left out.
        exclude_action: whether actions are left out.
    """

    def __init__(
        self,
        env: SpecProperties[Any],
        *,
        keep_other: bool = True,
        exclude_reward: bool = True,
        exclude_done: bool = False,
        exclude_action: bool = True,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "keep_other": keep_other,
            "exclude_reward": exclude_reward,
            "exclude_done": exclude_done,
            "exclude_action": exclude_action,
            "reward_keys": env.reward_keys,
            "done_keys": env.done_keys,
            "action_keys": env.action_keys,
        }

    def __call__(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Return a tensordict whose root is the `"next"` entry of `tensordict`.

        Raises:
            TypeError: `tensordict` is not a tensordict.
            KeyError: there is no `"next"` entry.
        """
        return step_mdp(tensordict, **self._arguments)


def _next_of(tensordict: TensorDictBase) -> Any:
    following = peek(tensordict, "next")
    if following is None:
        raise MissingKeyError(
            f"step_mdp needs a 'next' entry; the tensordict has {sorted(map(show_key, tensordict.keys()))}."
            " Call env.step first"
        )
    return following


StepPlan = tuple[dict[str, Any], dict[str, Any]]
"""What the root that follows leaves out of the old root, and of `"next"`, as `_tree` gives it."""


def step_plan(reward_keys: Iterable[NestedKey], done_keys: Iterable[NestedKey]) -> StepPlan:
    """What `following_root` leaves out, for an environment with these keys."""
    rewards = {as_tuple(key) for key in reward_keys}
    return _tree(rewards | _with_siblings(done_keys) | {("next",)}), _tree(rewards)


def following_root(plan: StepPlan, transition: D, given: TensorDictBase | None = None) -> D:
    """`step_mdp` by a plan, keeping actions; several times faster for plain tensordicts.

    Args:
        plan: of the environment's layout.
        transition: with `"next"`, or the root alone.
        given: the entries of the next root; None is `"next"`.
    """
    if not isinstance(transition, TensorDictBase):
        raise TypeError(f"step_mdp needs a tensordict, found {type(transition).__name__}")
    following_entries = _next_of(transition) if given is None else given
    root: Any = _following(transition, following_entries, *plan, keep_empty=True)
    following: D = root
    return following


def _tree(paths: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    """Paths by their first names; an empty dict is the end of one, and what is below it is part of it."""
    tree: dict[str, Any] = {}
    for path in sorted(paths, key=len):
        inner = tree
        for name in path[:-1]:
            if inner.get(name) == {}:
                break
            inner = inner.setdefault(name, {})
        else:
            inner[path[-1]] = {}
    return tree


_KEEP: dict[str, Any] = {"": {}}


def _following(
    old: TensorDictBase,
    new: TensorDictBase,
    old_left_out: dict[str, Any],
    new_left_out: dict[str, Any],
    *,
    keep_empty: bool,
) -> TensorDictBase:
    if type(old) is TensorDict and type(new) is TensorDict:
        root = _overlaid(old, new, old_left_out, new_left_out, keep_empty=keep_empty)
        if root is not None:
            return root
    return _combined(old, new, old_left_out, new_left_out, keep_empty=keep_empty)


def _overlaid(
    old: TensorDict | None,
    new: TensorDict | None,
    old_left_out: dict[str, Any],
    new_left_out: dict[str, Any],
    *,
    keep_empty: bool,
) -> TensorDict | None:
    """As `_combined`, several times faster; None if there is more than tensors in plain containers."""
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
        inner = _overlaid(
            *pair, old_left_out.get(name, _KEEP), new_left_out.get(name, _KEEP), keep_empty=keep_empty
        )
        if inner is None:
            return None
        if keep_empty or inner._tensordict:
            entries[name] = inner
        else:
            del entries[name]
    like: Any = new if old is None else old
    make: Any = TensorDict._new_unsafe
    root: TensorDict = make(source=entries, batch_size=like.batch_size, device=like.device)
    return root


def _with_siblings(keys: Iterable[NestedKey]) -> set[tuple[str, ...]]:
    """A flag and the other flags of its done set."""
    return {(*as_tuple(key)[:-1], flag) for key in keys for flag in FLAGS} | {as_tuple(key) for key in keys}


def _combined(
    old: TensorDictBase | None,
    new: TensorDictBase | None,
    old_left_out: dict[str, Any],
    new_left_out: dict[str, Any],
    *,
    keep_empty: bool,
) -> TensorDictBase:
    """`new` over `old` without some paths, in new containers; item by item where one of them is a lazy stack.

    The items of a lazy stack may differ in keys and in sizes: an entry of them all together may not exist.

    Args:
        old: a container of the root, or None if only `"next"` has it; its batch size is that of the result.
        new: the container of `"next"` of the same name, or None.
        old_left_out: what of `old` is left out, as `_tree` gives it.
        new_left_out: what of `new` is left out.
        keep_empty: whether nested containers with nothing in them are kept.
    """
    given = [each for each in (old, new) if each is not None]
    lazy = next((each for each in given if isinstance(each, LazyStackedTensorDict)), None)
    if lazy is not None:
        dim, count = lazy.stack_dim, len(lazy.tensordicts)
        if all(each.batch_dims > dim and each.shape[dim] == count for each in given):
            pairs = zip(_items(old, dim, count), _items(new, dim, count), strict=True)
            items = [
                _combined(first, second, old_left_out, new_left_out, keep_empty=keep_empty)
                for first, second in pairs
            ]
            return LazyStackedTensorDict(*items, stack_dim=dim, stack_dim_name=lazy._td_dim_name)
    result = given[0].empty()
    below: dict[str, list[TensorDictBase | None]] = {}
    for place, (source, left_out) in enumerate(((old, old_left_out), (new, new_left_out))):
        for name, value in () if source is None else source.items():
            if not left_out.get(name, _KEEP):
                continue
            if isinstance(value, TensorDictBase) and not is_non_tensor(value):
                result.pop(name, None)
                below.setdefault(name, [None, None])[place] = value
            else:
                below.pop(name, None)
                # a container that is no tensordict is taken whole, but not shared
                container = is_tensorclass(value) and not is_non_tensor(value)
                result.set(name, value.copy() if container else value)
    for name, (first, second) in below.items():
        inner = _combined(
            first,
            second,
            old_left_out.get(name, _KEEP),
            new_left_out.get(name, _KEEP),
            keep_empty=keep_empty,
        )
        if keep_empty or not inner.is_empty():
            result.set(name, inner)
    return result


def _items(container: TensorDictBase | None, dim: int, count: int) -> Sequence[TensorDictBase | None]:
    return [None] * count if container is None else container.unbind(dim)
