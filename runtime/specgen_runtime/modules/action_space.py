"""Converts discrete actions, stored as classes or one-hot, to indices and back."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from tensordict import TensorDictBase
from torch import Tensor

from specgen_runtime.interop.torchrl_specs import own_spec
from specgen_runtime.specs import Categorical, Composite, OneHot, TensorSpec
from specgen_runtime.typing import NestedKey

ActionSpace: TypeAlias = Literal["one_hot", "categorical"]
ActionSpaceName: TypeAlias = Literal["one-hot", "one_hot", "categorical"]


def action_leaf(spec: TensorSpec, action_key: NestedKey = "action") -> TensorSpec:
    """The spec of the action: ``spec`` itself, or the entry ``action_key`` of a composite.

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
    leaf: TensorSpec = spec[action_key]
    return leaf


def find_action_space(
    space: str | TensorSpec | None, spec: TensorSpec | None = None, *, action_key: NestedKey = "action"
) -> ActionSpace:
    """Which encoding a name or a spec stands for.

    Args:
        space: ``"one-hot"`` or ``"categorical"``, or a spec.
        spec: the spec of the action, if it is known as well; the two must agree.
        action_key: where a composite holds the action.

    Raises:
        ValueError: if neither is given, the encoding is not one of the two, or they disagree.
    """
    given = None if space is None else _encoding(space, action_key)
    known = None if spec is None else _encoding(spec, action_key)
    if given is not None and known is not None and given != known:
        raise ValueError(f"action_space is {given!r}, but the spec of the action is {known!r}")
    found = given or known
    if found is None:
        raise ValueError(
            "the action space is not known: give action_space ('one-hot' or 'categorical') or a spec"
        )
    return found


def _encoding(space: str | TensorSpec, action_key: NestedKey) -> ActionSpace:
    space = own_spec(space)
    if isinstance(space, TensorSpec):
        space = action_leaf(space, action_key)
        if isinstance(space, OneHot):
            return "one_hot"
        if isinstance(space, Categorical):
            return "categorical"
        raise ValueError(f"a {type(space).__name__} action has no values to choose the greatest of")
    if space in ("one-hot", "one_hot"):
        return "one_hot"
    if space == "categorical":
        return "categorical"
    raise ValueError(f"action_space must be 'one-hot' or 'categorical', got {space!r}")


def action_index(action: Tensor, values: Tensor, action_space: ActionSpace) -> Tensor:
    """The index of each action among the action values.

    Args:
        action: one-hot of shape ``(*batch, n)``, or categorical of shape ``(*batch,)`` or ``(*batch, 1)``.
        values: action values, shape ``(*batch, n)``.
        action_space: how ``action`` is stored.

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
        return action.to(torch.uint8).argmax(-1) if action.dtype == torch.bool else action.argmax(-1)
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
        return torch.nn.functional.one_hot(index, n).to(dtype)
    return index.to(dtype)


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
