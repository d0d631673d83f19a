"""Numbers of each part of an action in what a loss returns, by the names of the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tensordict import TensorDict, unravel_key
from tensordict.nn import CompositeDistribution
from torch import Tensor, nn

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.objectives.part_weights import in_order
from specgen_runtime.typing import NestedKey


def part_names(policy: nn.Module) -> tuple[NestedKey, ...] | None:
    """What the parts of a policy's action are called, in the order of its distribution.

    Args:
        policy: a module with a probabilistic one in it, whose ``distribution_class`` and ``distribution_kwargs`` say it.

    Returns:
        None of an action of one part, and where no module says what the distribution is.
    """
    for module in reversed(list(policy.modules())):
        made: Any = getattr(module, "distribution_class", None)
        given = getattr(module, "distribution_kwargs", None)
        known: Mapping[str, object] = {} if given is None else dict(given)
        while isinstance(made, partial):
            made, known = made.func, {**made.keywords, **known}
        if isinstance(made, type) and issubclass(made, CompositeDistribution):
            parts, keys = known.get("distribution_map"), known.get("name_map")
            if not isinstance(parts, Mapping):
                return None
            renamed = (
                {unravel_key(part): key for part, key in keys.items()} if isinstance(keys, Mapping) else {}
            )
            names = (unravel_key(part) for part in parts)
            return tuple(unravel_key(renamed.get(name, name)) for name in names)
    return None


def add_part_names(loss: nn.Module, policy: nn.Module) -> None:
    """Keep what the parts of a policy's action are called, for `entries_of_parts`."""
    loss.__dict__["_part_names"] = part_names(policy)


def has_parts(loss: nn.Module) -> bool:
    """Whether the action of the policy of a loss has several parts."""
    return loss.__dict__.get("_part_names") is not None


def entries_of_parts(
    loss: nn.Module,
    name: str,
    values: Tensor | None,
    entry: str = "{}",
    *,
    parts: Sequence[NestedKey] | None = None,
) -> dict[str, TensorDict]:
    """A metric with a number for each part of an action, as a loss returns it.

    Args:
        loss: the loss, to which `add_part_names` told what the parts are called.
        name: the metric.
        values: shape ``[*batch, parts]``; None where the loss has no such metric.
        entry: what stands in the place of the last part of a name, with ``{}`` for that.
        parts: other names for the parts, in the order of the values, as `in_order` takes them; None: the order of the
            distribution.

    Returns:
        ``{name: TensorDict}`` of the batch size ``[*batch]``; without an entry if there are no values, or if the action has one
        part.

    Raises:
        KeyError: if the other names do not fit.
        RuntimeError: if there are values of another number of parts.
    """
    names: tuple[NestedKey, ...] | None = loss.__dict__.get("_part_names")
    if values is None or names is None:
        return {}
    if parts is not None:
        names = tuple(in_order({one: one for one in names}, parts))
    if values.shape[-1] != len(names):
        raise RuntimeError(
            f"{type(loss).__name__}: {name} has {values.shape[-1]} numbers of each sample, and the parts of the action are"
            f" {', '.join(map(repr, names))}"
        )
    made = TensorDict({}, values.shape[:-1])
    for one, value in zip(names, values.unbind(-1), strict=True):
        path = as_tuple(one)
        made.set((*path[:-1], entry.replace("{}", path[-1])), value)
    return {name: made}
