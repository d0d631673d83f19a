"""Actions on their way from their specs to Gymnasium.

Each function looks at a space and its spec once and returns what converts the actions of all steps.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specgen_runtime.envs.gym.values import Convert, parts_of
from specgen_runtime.specs import Composite, OneHot, TensorSpec
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.gymnasium import NOT_ARRAYS, space_kind
from specgen_runtime.specs.stacks.stacked import Stacked

__all__ = ["action_decoder", "action_leaves", "actions_decoder", "leaves_decoder"]

_FEW = 32
"""Up to so many elements, Python's lists are faster than operations on tensors."""


def action_decoder(space: Any, spec: TensorSpec) -> Convert:
    """Return the function from a value of `spec` to a Gymnasium action: the inverse of `value_encoder`.

    The action may be a tensordict where the space is a Dict. The function raises ValueError for class indices
    outside their space, and for vectors that are not one-hot.
    """
    kind = space_kind(space)
    if kind == "Dict":
        assert isinstance(spec, Composite)
        inner = {name: action_decoder(space.spaces[name], spec[name]) for name in spec.keys()}  # noqa: SIM118
        return lambda action: {name: decode(action.get(name)) for name, decode in inner.items()}
    if kind == "Text":
        return lambda action: getattr(action, "data", action)
    if kind == "registered":
        return spec.to_numpy
    if kind == "Sequence":
        return _sequence_decoder(space, spec)
    if kind == "Tuple":
        return _parts_decoder(parts_of(space), spec)
    if kind == "Discrete":
        return _class_decoder(space, spec)
    if kind == "MultiDiscrete":
        return _multi_discrete_decoder(space, spec)
    return _array_decoder(space)


def action_leaves(space: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """The action spaces that are no Dict or Tuple, by where they stand in those.

    The parts of a Dict have its keys, those of a Tuple are called `part_0`, `part_1` and so on.
    """
    inner = _named_parts(space)
    if inner is None:
        return {place: space}
    found: dict[tuple[str, ...], Any] = {}
    for name, part in inner.items():
        found |= action_leaves(part, (*place, name))
    return found


def leaves_decoder(space: Any, specs: Mapping[tuple[str, ...], TensorSpec]) -> Callable[..., Any]:
    """Return the function from values of all `specs`, in their order, to a Gymnasium action.

    Args:
        space: the action space.
        specs: of the `action_leaves` of the space, by the same places.
    """
    decoders = [action_decoder(found, specs[place]) for place, found in action_leaves(space).items()]
    order = list(specs)
    if order == [()]:
        return decoders[0]
    at = {
        place: (order.index(place), decode)
        for place, decode in zip(action_leaves(space), decoders, strict=True)
    }
    gathered = _gatherer(space, (), at)
    return lambda *values: gathered(values)


def _gatherer(
    space: Any, place: tuple[str, ...], at: Mapping[tuple[str, ...], tuple[int, Convert]]
) -> Convert:
    """The function from the values of all leaves to the action of one space."""
    inner = _named_parts(space)
    if inner is None:
        index, decode = at[place]
        return lambda values: decode(values[index])
    makers = {name: _gatherer(part, (*place, name), at) for name, part in inner.items()}
    if space_kind(space) == "Tuple":
        return lambda values: tuple(make(values) for make in makers.values())
    return lambda values: {name: make(values) for name, make in makers.items()}


def _named_parts(space: Any) -> Mapping[str, Any] | None:
    """The parts of a Dict or a Tuple, by name; None of any other space."""
    kind = space_kind(space)
    if kind == "Tuple":
        return {f"part_{at}": part for at, part in enumerate(space.spaces)}
    return space.spaces if kind == "Dict" else None


def _array_decoder(space: Any) -> Convert:
    """For a Box or a MultiBinary."""
    dtype = space.dtype
    if 0 < int(np.prod(space.shape)) <= _FEW:  # the shorter way for a few numbers
        return lambda action: np.array(action.tolist(), dtype=dtype)
    return lambda action: action.detach().cpu().numpy().astype(dtype, copy=True)


def _class_decoder(space: Any, spec: TensorSpec) -> Convert:
    """For a Discrete. Gymnasium checks NumPy's integers, which it samples itself, faster than Python's."""
    n, start, number = int(space.n), int(space.start), space.dtype.type
    if not isinstance(spec, OneHot):

        def from_index(action: Tensor) -> Any:
            place = action.item()
            if not 0 <= place < n or place != int(place):
                raise ValueError(f"an action must be a class of 0 to {n - 1}, found {place}")
            return number(int(place) + start)

        return from_index
    if n > _FEW:

        def from_vector(action: Tensor) -> Any:
            _check_one_hot(action)
            return number(int(action.argmax(-1)) + start)

        return from_vector
    table = {tuple(int(at == place) for at in range(n)): number(place + start) for place in range(n)}

    def from_short_vector(action: Tensor) -> Any:
        try:
            return table[tuple(action.tolist())]
        except (KeyError, TypeError):
            raise _not_one_hot(action) from None

    return from_short_vector


def _check_one_hot(vectors: Tensor) -> None:
    """Refuse vectors without exactly one 1 among zeros.

    Raises:
        ValueError: with the first that has not.
    """
    good = (vectors != 0).sum(-1).eq(1) & vectors.sum(-1).eq(1)
    if not bool(good.all()):
        raise _not_one_hot(vectors[~good][0] if vectors.ndim > 1 else vectors)


def _not_one_hot(vector: Tensor) -> ValueError:
    return ValueError(
        f"an action must be a one-hot vector of {vector.shape[-1]} classes, found {vector.tolist()}"
    )


def _multi_discrete_decoder(space: Any, spec: TensorSpec) -> Convert:
    start, dtype = space.start, space.dtype
    if isinstance(spec, Stacked):
        rows = _parts_decoder(parts_of(space), spec)
        return lambda action: np.stack(rows(action))
    if isinstance(spec, MultiOneHot):
        sizes = space.nvec.reshape(-1, space.nvec.shape[-1])[0].tolist()

        def decode(action: Tensor) -> Any:
            groups = torch.split(action, sizes, -1)
            for group in groups:
                _check_one_hot(group)
            return (torch.stack([group.argmax(-1) for group in groups], -1).cpu().numpy() + start).astype(
                dtype
            )

        return decode
    if isinstance(spec, OneHot):

        def decode_rows(action: Tensor) -> Any:
            _check_one_hot(action)
            return (action.argmax(-1).cpu().numpy() + start).astype(dtype)

        return decode_rows
    return lambda action: (action.cpu().numpy() + start).astype(dtype)


def _parts_decoder(parts: list[Any], spec: TensorSpec) -> Convert:
    decoders = [action_decoder(part, inner) for part, inner in zip(parts, spec.unbind(0), strict=True)]
    return lambda action: tuple(decode(part) for decode, part in zip(decoders, action.unbind(0), strict=True))


def _sequence_decoder(space: Any, spec: TensorSpec) -> Convert:
    sequence: Any = spec
    feature = space.feature_space
    decode_one = action_decoder(feature, sequence[0])
    utils = importlib.import_module("gymnasium.vector.utils")

    def decode(action: Any) -> Any:
        values = [decode_one(part) for part in action.unbind(0)]
        empty = utils.create_empty_array(feature, len(values))
        return utils.concatenate(feature, values, empty) if values else empty

    return decode


def actions_decoder(space: Any, spec: TensorSpec) -> Callable[[Any], list[Any]]:
    """Return the function from values `(T, ...)` of `spec` to the list of their T Gymnasium actions."""
    kind = space_kind(space)
    if kind == "Discrete":
        # NumPy integers: Gymnasium checks them faster than Python's
        start, dtype, vectors = int(space.start), space.dtype, isinstance(spec, OneHot)

        def classes(actions: Tensor) -> list[Any]:
            places = (actions.argmax(-1) if vectors else actions).numpy(force=True)
            return list((places + start if start else places).astype(dtype, copy=False))

        return classes
    decode = action_decoder(space, spec)
    if kind in NOT_ARRAYS or isinstance(spec, Stacked):
        return lambda actions: [decode(action) for action in actions.unbind(0)]
    return lambda actions: list(decode(actions))
