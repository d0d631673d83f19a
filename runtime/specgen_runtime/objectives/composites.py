"""Actions of several parts: what the distributions of a composite say of one, and what they draw as one action."""

from __future__ import annotations

from collections.abc import Iterable

from tensordict import TensorDictBase
from tensordict.nn import CompositeDistribution
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.modules.distributions.draws import Draw, sum_of_parts
from specgen_runtime.objectives.keys import listed
from specgen_runtime.typing import NestedKey


def composite_log_prob(distribution: CompositeDistribution, action: Draw) -> Tensor:
    """The log-probability of an action, the sum of those of its parts.

    Args:
        distribution: a composite.
        action: a tensordict ``[*axes, *batch]`` of the parts, by the names of the distributions or by the ends of those
            names; a tensor, where there is one part.

    Returns:
        Shape ``[*axes, *batch]``.

    Raises:
        KeyError: if the action lacks a part.
    """
    parts = [part.log_prob(_part_of(action, name, distribution)) for name, part in distribution.dists.items()]
    axes = action.batch_dims if isinstance(action, TensorDictBase) else len(distribution.batch_shape)
    return sum_of_parts(parts, axes)


def as_action(draw: TensorDictBase) -> TensorDictBase:
    """A draw of a composite as the data hold an action: without what the names of all of its parts begin with.

    Distributions called ``("action", "arm")`` and ``("action", "leg")`` draw an action of the entries ``"arm"`` and
    ``"leg"``.
    """
    names = list(draw.keys())
    while len(names) == 1 and isinstance(inner := draw.get(names[0]), TensorDictBase):
        draw, names = inner, list(inner.keys())
    return draw


def writes_parts_of(key: NestedKey, out_keys: Iterable[NestedKey]) -> bool:
    """Whether a module that writes ``out_keys`` writes entries of ``key``, such as the parameters of a composite."""
    path = as_tuple(key)
    return any(
        not isinstance(one, str) and len(one) > len(path) and one[: len(path)] == path for one in out_keys
    )


def _part_of(action: Draw, name: NestedKey, distribution: CompositeDistribution) -> Tensor:
    if isinstance(action, Tensor):
        if len(distribution.dists) == 1:
            return action
        raise KeyError(f"an action of the parts {', '.join(map(repr, distribution.dists))} is a tensor")
    path = as_tuple(name)
    for start in range(len(path)):
        found = _entry_at(action, path[start:])
        if isinstance(found, Tensor):
            return found
    raise KeyError(f"the action has no part {name!r}; it holds {listed(action)}")


def _entry_at(action: TensorDictBase, path: tuple[str, ...]) -> Draw | None:
    """The entry at a path; None where there is none, also where a tensor stands on the way, which a part may be called as."""
    found: Draw | None = action
    for name in path:
        if not isinstance(found, TensorDictBase):
            return None
        found = found.get(name, None)
    return found
