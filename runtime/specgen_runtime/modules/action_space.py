"""Converts discrete actions, stored as classes, one-hot or as several one-hot vectors, to indices and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.distributions.categorical import index_of, one_hot
from specgen_runtime.specs import Categorical, Composite, MultiOneHot, OneHot, TensorSpec
from specgen_runtime.typing import NestedKey

ActionSpace: TypeAlias = Literal["one_hot", "mult_one_hot", "categorical"]
ActionSpaceName: TypeAlias = Literal[
    "one-hot",
    "one_hot",
    "mult-one-hot",
    "mult_one_hot",
    "multi-one-hot",
    "multi_one_hot",
    "categorical",
]


def action_leaf(spec: TensorSpec, action_key: NestedKey = "action") -> TensorSpec:
    """The spec of the action: ``spec`` itself, or the entry ``action_key`` of a composite.

    Raises:
        KeyError: if a composite has no such entry, or holds None there.
    """
    leaf = known_leaf(spec, action_key)
    if leaf is None:
        raise KeyError(f"the spec of {action_key!r} is None: it says nothing about the action")
    return leaf


def known_leaf(spec: TensorSpec | None, action_key: NestedKey = "action") -> TensorSpec | None:
    """The spec of the action, as `action_leaf`; None if there is no spec, or a composite holds None for the action.

    Raises:
        KeyError: if a composite has no such entry.
    """
    spec = own_spec(spec)
    if not isinstance(spec, Composite):
        return spec
    if action_key not in spec.keys(True, True):
        raise KeyError(
            f"the spec has no entry {action_key!r}; it has {', '.join(map(repr, spec.keys(True, True)))}"
        )
    leaf: TensorSpec | None = spec[action_key]
    return leaf


def find_action_space(
    space: str | TensorSpec | None, spec: TensorSpec | None = None, *, action_key: NestedKey = "action"
) -> ActionSpace:
    """Which encoding a name or a spec stands for.

    Args:
        space: ``"one-hot"``, ``"mult-one-hot"`` or ``"categorical"``, or a spec.
        spec: the spec of the action, if it is known as well; the two must agree.
        action_key: where a composite holds the action.

    Raises:
        ValueError: if neither is given, the encoding is not one of the three, or they disagree.
    """
    given = None if space is None else _encoding(space, action_key)
    leaf = known_leaf(spec, action_key)
    known = None if leaf is None else _encoding(leaf, action_key)
    if given is not None and known is not None and given != known:
        raise ValueError(f"action_space is {given!r}, but the spec of the action is {known!r}")
    found = given or known
    if found is None:
        raise ValueError(
            "the action space is not known: give action_space ('one-hot', 'mult-one-hot' or 'categorical') or a spec"
        )
    return found


def _encoding(space: str | TensorSpec, action_key: NestedKey) -> ActionSpace:
    space = own_spec(space)
    if isinstance(space, TensorSpec):
        space = action_leaf(space, action_key)
        if isinstance(space, OneHot):
            return "one_hot"
        if isinstance(space, MultiOneHot):
            return "mult_one_hot"
        if isinstance(space, Categorical):
            return "categorical"
        raise ValueError(f"a {type(space).__name__} action has no values to choose the greatest of")
    if space in ("one-hot", "one_hot"):
        return "one_hot"
    if space in ("mult-one-hot", "mult_one_hot", "multi-one-hot", "multi_one_hot"):
        return "mult_one_hot"
    if space == "categorical":
        return "categorical"
    raise ValueError(f"action_space must be 'one-hot', 'mult-one-hot' or 'categorical', got {space!r}")


def find_var_nums(
    action_space: ActionSpace,
    var_nums: Sequence[int] | None,
    spec: TensorSpec | None = None,
    *,
    action_key: NestedKey = "action",
) -> tuple[int, ...] | None:
    """How many values each choice of a ``"mult_one_hot"`` action has; None of another action space.

    Args:
        action_space: how actions are stored.
        var_nums: these numbers, if they are given.
        spec: of the action, or a composite that holds it, if it is known; a `MultiOneHot` knows the numbers.
        action_key: where a composite holds the action.

    Raises:
        ValueError: if the numbers are known from neither, are not positive integers, differ from the spec's, or the
            action space has no choices to count.
    """
    if action_space != "mult_one_hot":
        if var_nums is not None:
            raise ValueError(f"var_nums are of 'mult-one-hot' actions, but action_space is {action_space!r}")
        return None
    leaf = known_leaf(spec, action_key)
    known = tuple(leaf.nvec) if isinstance(leaf, MultiOneHot) else None
    if var_nums is None:
        if known is None:
            raise ValueError(
                "a 'mult-one-hot' action needs var_nums, how many values each choice has, or a spec"
            )
        return known
    if (
        not isinstance(var_nums, Sequence)
        or not all(isinstance(n, int) and n > 0 for n in var_nums)
        or not var_nums
    ):
        raise ValueError(f"var_nums must be positive integers, one of each choice, got {var_nums!r}")
    if known is not None and tuple(var_nums) != known:
        raise ValueError(
            f"var_nums are {list(var_nums)}, but the choices of the spec have {list(known)} values"
        )
    return tuple(var_nums)


def split_choices(values: Tensor, var_nums: Sequence[int]) -> tuple[Tensor, ...]:
    """The entries of each choice, ``(*, n_k)``, of a tensor ``(*, sum(var_nums))``.

    Raises:
        ValueError: if the last dimension has another size.
    """
    if values.shape[-1] != sum(var_nums):
        raise ValueError(
            f"choices of {list(var_nums)} values have {sum(var_nums)} entries in all, got shape {tuple(values.shape)}"
        )
    return torch.split(values, list(var_nums), -1)


def joint_values(values: Tensor, var_nums: Sequence[int]) -> Tensor:
    """The value of each joint action: the sum of the values of its choices.

    Args:
        values: of each value of each choice, ``(*, sum(var_nums))``.
        var_nums: how many values each choice has.

    Returns:
        ``(*, prod(var_nums))``; the last choice varies fastest.

    Raises:
        ValueError: as `split_choices`.
    """
    first, *others = split_choices(values, var_nums)
    for other in others:
        first = (first.unsqueeze(-1) + other.unsqueeze(-2)).flatten(-2)
    return first


def joint_log_probs(log_probs: Tensor, var_nums: Sequence[int]) -> Tensor:
    """The distribution of the return of each joint action: the mixture, in equal parts, of those of its choices.

    Its mean is the mean of the choices' means, so that the joint action of the greatest mean makes the choices of the
    greatest mean.

    Args:
        log_probs: of the atoms of each value of each choice, ``(*, n_atoms, sum(var_nums))``.
        var_nums: how many values each choice has.

    Returns:
        ``(*, n_atoms, prod(var_nums))``; the last choice varies fastest.

    Raises:
        ValueError: as `split_choices`.
    """
    first, *others = split_choices(log_probs, var_nums)
    for other in others:
        first = torch.logaddexp(first.unsqueeze(-1), other.unsqueeze(-2)).flatten(-2)
    return first - math.log(len(var_nums))


def action_index(
    action: Tensor, values: Tensor, action_space: ActionSpace, var_nums: Sequence[int] | None = None
) -> Tensor:
    """The index of each action among the action values.

    Args:
        action: one-hot of shape ``(*batch, n)``; a one-hot vector for each choice, side by side, of shape
            ``(*batch, sum(var_nums))``; or categorical of shape ``(*batch,)`` or ``(*batch, 1)``.
        values: action values, shape ``(*batch, n)``; of several choices those of joint actions, as `joint_values`.
        action_space: how ``action`` is stored.
        var_nums: how many values each choice has, if there are several.

    Returns:
        int64, shape ``(*batch,)``.

    Raises:
        ValueError: if the action does not fit the values: it is stored another way, or has another batch.
    """
    batch, n = tuple(values.shape[:-1]), values.shape[-1]
    shape = tuple(action.shape)
    if action_space == "one_hot":
        if shape != (*batch, n):
            raise ValueError(
                f"a one-hot action of {n} values must have shape {(*batch, n)}, got {shape}"
                + ("; is action_space='categorical' meant?" if shape in (batch, (*batch, 1)) else "")
            )
        return index_of(action)
    if action_space == "mult_one_hot":
        nums = () if var_nums is None else tuple(var_nums)
        if shape != (*batch, sum(nums)) or n != math.prod(nums):
            raise ValueError(
                f"an action of choices of {list(nums)} values must have shape {(*batch, sum(nums))}, got {shape},"
                f" and {math.prod(nums)} joint values, got {n}"
            )
        index = torch.zeros(batch, dtype=torch.int64, device=action.device)
        for choice, count in zip(split_choices(action, nums), nums, strict=True):
            index = index * count + index_of(choice)
        return index
    if shape == (*batch, 1):
        action = action.squeeze(-1)
    elif shape != batch:
        raise ValueError(
            f"a categorical action must have shape {batch} or {(*batch, 1)}, got {shape}"
            + ("; is action_space='one-hot' meant?" if shape == (*batch, n) else "")
        )
    if action.is_floating_point() or action.dtype == torch.bool:
        raise ValueError(f"a categorical action must be an integer, got {action.dtype}")
    return action.long()


def greedy_action(
    values: Tensor, action_space: ActionSpace, dtype: torch.dtype, var_nums: Sequence[int] | None = None
) -> Tensor:
    """The action of the greatest value, or of the greatest value in each choice; of equal ones, the first.

    Args:
        values: action values, ``(*batch, n)``.
        action_space: how the action is stored.
        dtype: of the action.
        var_nums: how many values each choice of a ``"mult_one_hot"`` action has.

    Returns:
        Shape ``(*batch, n)``, or ``(*batch,)`` if categorical.

    Raises:
        ValueError: as `split_choices`.
    """
    if var_nums is None:
        return encode_index(values.argmax(-1), values.shape[-1], action_space, dtype)
    choices = split_choices(values, var_nums)
    return torch.cat([encode_index(one.argmax(-1), one.shape[-1], "one_hot", dtype) for one in choices], -1)


def encode_index(index: Tensor, n: int, action_space: ActionSpace, dtype: torch.dtype) -> Tensor:
    """The action of an index, as the action space stores it.

    Args:
        index: int64, shape ``(*batch,)``.
        n: number of values.
        action_space: how the action is stored.
        dtype: of the action.

    Returns:
        Shape ``(*batch, n)`` for one-hot, ``(*batch,)`` for categorical.
    """
    if action_space == "one_hot":
        return one_hot(index, n, dtype)
    return index if index.dtype is dtype else index.to(dtype)


def allowed_values(values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Action values with the least number for actions that are forbidden, and the mask in their shape.

    Args:
        values: ``(*batch, n_actions)``.
        mask: bool, True where an action is allowed, of that shape or one that broadcasts to it.

    Raises:
        ValueError: if it has another dtype or shape.
    """
    sizes = zip(reversed(mask.shape), reversed(values.shape), strict=False)
    fits = mask.ndim <= values.ndim and all(size in (1, whole) for size, whole in sizes)
    if mask.dtype != torch.bool or not fits:
        raise ValueError(
            f"the action mask must be {torch.bool} of shape {list(values.shape)}, got {mask.dtype} {list(mask.shape)}"
        )
    mask = mask.expand(values.shape)
    return torch.where(mask, values, torch.finfo(values.dtype).min), mask


def entry(tensordict: TensorDictBase, key: NestedKey, *, owner: str, role: str) -> Tensor:
    """The tensor under ``key``.

    Raises:
        KeyError: if there is none, naming who reads it and as what.
    """
    value = tensordict.get(key, None)
    if not isinstance(value, Tensor):
        found = ", ".join(sorted(repr(k) for k in tensordict.keys(True, True))) or "nothing"
        raise KeyError(f"{owner}: {role} {key!r} is not in the tensordict; it holds {found}")
    return value
