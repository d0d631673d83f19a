"""Converts discrete actions, stored as a class or one-hot, or as several of either side by side, to indices and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.envs.traced import is_traced
from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.modules.choices import split_choices
from specgen_runtime.modules.distributions.categorical import index_of, one_hot
from specgen_runtime.specs import Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, TensorSpec
from specgen_runtime.typing import NestedKey

ActionSpace: TypeAlias = Literal["one_hot", "mult_one_hot", "categorical", "multi_categorical"]
ActionSpaceName: TypeAlias = Literal[
    "one-hot",
    "one_hot",
    "mult-one-hot",
    "mult_one_hot",
    "multi-one-hot",
    "multi_one_hot",
    "categorical",
    "multi-categorical",
    "multi_categorical",
]

SEVERAL_CHOICES = ("mult_one_hot", "multi_categorical")
"""Action spaces of several choices at once: a one-hot vector of each side by side, or a class of each."""


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
        space: ``"one-hot"``, ``"mult-one-hot"``, ``"categorical"`` or ``"multi-categorical"``, or a spec.
        spec: the spec of the action, if it is known as well; the two must agree.
        action_key: where a composite holds the action.

    Raises:
        ValueError: if neither is given, the encoding is not one of the four, or they disagree.
    """
    given = None if space is None else _encoding(space, action_key)
    leaf = known_leaf(spec, action_key)
    known = None if leaf is None else _encoding(leaf, action_key)
    if given is not None and known is not None and given != known:
        raise ValueError(f"action_space is {given!r}, but the spec of the action is {known!r}")
    found = given or known
    if found is None:
        raise ValueError(
            "the action space is not known: give action_space ('one-hot', 'mult-one-hot', 'categorical' or "
            "'multi-categorical') or a spec"
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
        if isinstance(space, MultiCategorical):
            return "multi_categorical"
        if isinstance(space, Categorical):
            return "categorical"
        raise ValueError(f"a {type(space).__name__} action has no values to choose the greatest of")
    if space in ("one-hot", "one_hot"):
        return "one_hot"
    if space in ("mult-one-hot", "mult_one_hot", "multi-one-hot", "multi_one_hot"):
        return "mult_one_hot"
    if space == "categorical":
        return "categorical"
    if space in ("multi-categorical", "multi_categorical"):
        return "multi_categorical"
    raise ValueError(
        f"action_space must be 'one-hot', 'mult-one-hot', 'categorical' or 'multi-categorical', got {space!r}"
    )


def find_var_nums(
    action_space: ActionSpace,
    var_nums: Sequence[int] | None,
    spec: TensorSpec | None = None,
    *,
    action_key: NestedKey = "action",
) -> tuple[int, ...] | None:
    """How many values each choice of an action of several has; None of an action space of one choice.

    Args:
        action_space: how actions are stored.
        var_nums: these numbers, if they are given.
        spec: of the action, or a composite that holds it, if it is known; that of several choices knows the numbers.
        action_key: where a composite holds the action.

    Raises:
        ValueError: if the numbers are known from neither, are not positive integers, differ from the spec's, or the
            action space has no choices to count.
    """
    if action_space not in SEVERAL_CHOICES:
        if var_nums is not None:
            raise ValueError(
                f"var_nums are of actions of several choices, but action_space is {action_space!r}"
            )
        return None
    known = choices_of(known_leaf(spec, action_key))
    if var_nums is None:
        if known is None:
            raise ValueError(
                f"a {action_space.replace('_', '-')!r} action needs var_nums, how many values each choice has, or a "
                "spec"
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


def choices_of(leaf: TensorSpec | None) -> tuple[int, ...] | None:
    """How many values each choice of an action has, by its spec; None where that is not of several choices beside each other.

    Raises:
        ValueError: if rows of choices differ.
    """
    if not isinstance(leaf, (MultiOneHot, MultiCategorical)):
        return None
    rows = torch.as_tensor(leaf.nvec).reshape(-1, torch.as_tensor(leaf.nvec).shape[-1])
    if (rows != rows[0]).any():
        raise ValueError(f"the choices of the spec have other numbers of values in each row: {rows.tolist()}")
    return tuple(rows[0].tolist())


def action_index(
    action: Tensor, values: Tensor, action_space: ActionSpace, var_nums: Sequence[int] | None = None
) -> Tensor:
    """The index of each action among the action values.

    Args:
        action: one-hot of shape ``(*batch, n)``; categorical of shape ``(*batch,)`` or ``(*batch, 1)``; of several choices as
            `choice_indices` takes it.
        values: action values, shape ``(*batch, n)``; of several choices those of joint actions, as `joint_values`.
        action_space: how ``action`` is stored.
        var_nums: how many values each choice has, if there are several.

    Returns:
        int64, shape ``(*batch,)``.

    Raises:
        ValueError: if the action does not fit the values: it is stored another way, or has another batch; of several choices on
            the CPU also for a class that there is not. Elsewhere, and in what is compiled, its value is another joint action's.
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
    if action_space in SEVERAL_CHOICES:
        nums = () if var_nums is None else tuple(var_nums)
        if n != math.prod(nums):
            raise ValueError(f"choices of {list(nums)} values have {math.prod(nums)} joint values, got {n}")
        index = torch.zeros(batch, dtype=torch.int64, device=action.device)
        for choice, count in zip(_chosen(action, batch, action_space, nums), nums, strict=True):
            index = index * count + choice
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


def choice_indices(
    action: Tensor, values: Tensor, action_space: ActionSpace, var_nums: Sequence[int]
) -> Tensor:
    """The index of each choice of an action among the values of that choice.

    Args:
        action: a one-hot vector for each choice, side by side, of shape ``(*batch, sum(var_nums))``, or, where all have n
            values, in rows, ``(*batch, len(var_nums), n)``; or the class of each, ``(*batch, len(var_nums))``.
        values: as `values_by_choice`, ``(*batch, len(var_nums), max(var_nums))``.
        action_space: how ``action`` is stored.
        var_nums: how many values each choice has.

    Returns:
        int64, shape ``(*batch, len(var_nums))``.

    Raises:
        ValueError: as `action_index`.
    """
    return torch.stack(_chosen(action, tuple(values.shape[:-2]), action_space, tuple(var_nums)), -1)


def _chosen(
    action: Tensor, batch: tuple[int, ...], action_space: ActionSpace, nums: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The class of each choice, int64 ``(*batch,)``."""
    if (
        action_space == "mult_one_hot"
        and tuple(action.shape) == (*batch, len(nums), nums[0])
        and len(set(nums)) == 1
    ):
        action = action.flatten(-2)
    shape, sizes = tuple(action.shape), {"mult_one_hot": sum(nums), "multi_categorical": len(nums)}
    if shape != (*batch, sizes[action_space]):
        (other,) = sizes.keys() - {action_space}
        raise ValueError(
            f"an action of choices of {list(nums)} values must have shape {(*batch, sizes[action_space])}, got {shape}"
            + (
                f"; is action_space={other.replace('_', '-')!r} meant?"
                if shape == (*batch, sizes[other])
                else ""
            )
        )
    if action_space == "mult_one_hot":
        return tuple(index_of(one) for one in split_choices(action, nums))
    if action.is_floating_point() or action.dtype == torch.bool:
        raise ValueError(f"the classes of an action must be integers, got {action.dtype}")
    action = action.long()
    if action.device.type == "cpu" and not is_traced():  # elsewhere it would wait for the device
        wrong = (action < 0) | (action >= torch.tensor(nums))
        if bool(wrong.any()):
            place = int(wrong.nonzero()[0, -1])
            one = int(action[wrong][0])
            raise ValueError(f"choice {place} of an action is a class from 0 to {nums[place] - 1}, got {one}")
    return action.unbind(-1)


def greedy_action(
    values: Tensor, action_space: ActionSpace, dtype: torch.dtype, var_nums: Sequence[int] | None = None
) -> Tensor:
    """The action of the greatest value, or of the greatest value in each choice; of equal ones, the first.

    Args:
        values: action values, ``(*batch, n)``.
        action_space: how the action is stored.
        dtype: of the action.
        var_nums: how many values each choice has, if there are several.

    Returns:
        Shape ``(*batch, n)``, ``(*batch,)`` if categorical, or ``(*batch, len(var_nums))`` if "multi_categorical".

    Raises:
        ValueError: as `split_choices`.
    """
    if var_nums is None:
        return encode_index(values.argmax(-1), values.shape[-1], action_space, dtype)
    choices = split_choices(values, var_nums)
    if action_space == "multi_categorical":
        return torch.stack([one.argmax(-1) for one in choices], -1).to(dtype)
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
