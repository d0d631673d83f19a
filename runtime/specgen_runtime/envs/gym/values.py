"""What Gymnasium gives, on its way to the specs that `space_to_spec` makes of its spaces.

Each function looks at a space and its spec once and returns what converts the values of all steps. The way back is
in `specgen_runtime.envs.gym.actions`.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torch import Tensor

from specgen_runtime.envs.keys import as_tuple
from specgen_runtime.specs import Composite, OneHot, TensorSpec
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.gymnasium import space_kind
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.values import join
from specgen_runtime.specs.values import to_spec_array

__all__ = [
    "NOT_RAISED",
    "Convert",
    "class_reader",
    "class_representation",
    "classes_reader",
    "leaves_encoder",
    "other_device",
    "parts_of",
    "reward_tensor",
    "rewards_tensor",
    "value_encoder",
]

Convert = Callable[[Any], Any]

NOT_RAISED = np.zeros(1, dtype=np.bool_)
"""A done flag that is not raised; each step has a copy of its own."""

_NUMBERS = (float, int, np.floating, np.integer)


def value_encoder(space: Any, spec: TensorSpec) -> Convert:
    """Return the function from a value of a Gymnasium space to a value of its spec.

    Classes are counted from 0, whatever the `start` of the space. Tensors never share memory with what
    Gymnasium holds. A Dict gives a dict of values.

    The function raises ValueError where Gymnasium gives a value of another shape than its space says, a number
    that the dtype of the space does not hold, or a class that the space does not have.
    """
    kind = space_kind(space)
    if kind == "Dict":
        return _dict_encoder(space, spec)
    if kind in ("Text", "registered"):
        return spec.encode
    if kind == "Sequence":
        return _sequence_encoder(space, spec)
    if kind == "Tuple" or isinstance(spec, Stacked):
        return _parts_encoder(parts_of(space), spec)
    if kind == "Discrete":
        return _class_encoder(space, spec)
    if kind == "MultiDiscrete":
        return _classes_encoder(space, spec)
    return _array_encoder(space, spec)


def leaves_encoder(space: Any, observations: Composite) -> Convert:
    """The function from a value of a Dict space to the tensors of all its keys, those of inner Dicts included.

    They come as a tuple in the order of the specs; one tensor comes alone.
    """
    encode = value_encoder(space, observations)
    paths = [as_tuple(key) for key in observations.keys(True, True)]

    def leaves(value: Any) -> Any:
        found = []
        encoded = encode(value)
        for path in paths:
            leaf = encoded
            for part in path:
                leaf = leaf[part]
            found.append(leaf)
        return found[0] if len(found) == 1 else tuple(found)

    return leaves


def _dict_encoder(space: Any, spec: TensorSpec) -> Convert:
    assert isinstance(spec, Composite)
    inner = {name: value_encoder(space.spaces[name], spec[name]) for name in spec.keys()}  # noqa: SIM118

    def encode(value: Any) -> dict[str, Any]:
        missing = [name for name in inner if name not in value]
        if missing:
            raise ValueError(f"Gymnasium gave {sorted(value)}, its space has {missing} too")
        return {name: part(value[name]) for name, part in inner.items()}

    return encode


def _array_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a Box or a MultiBinary."""
    dtype, device = spec.dtype, other_device(spec)
    assert dtype is not None
    shape = tuple(space.shape)

    def encode(value: Any) -> Tensor:
        tensor = to_spec_array(value, dtype, "what Gymnasium gives")
        if tensor.shape != shape:
            raise _wrong_shape(tensor, shape)
        return tensor if device is None else tensor.to(device)

    return encode


def class_reader(space: Any) -> Callable[[Any], int]:
    """Return the function from a value of a Discrete to its class, counted from 0.

    The function raises ValueError for what is not in the space.
    """
    n, start = int(space.n), int(space.start)

    def place_of(value: Any) -> int:
        try:
            place = operator.index(value) - start
        except TypeError:
            place = -1
        if not 0 <= place < n:
            raise ValueError(f"Gymnasium gave {value!r}, which is not in its space {space}")
        return place

    return place_of


def _class_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a Discrete."""
    n, place_of = int(space.n), class_reader(space)
    device, dtype = other_device(spec), _numpy_dtype(spec)
    vectors = isinstance(spec, OneHot)

    def encode(value: Any) -> Tensor:
        place = place_of(value)
        if vectors:
            array = np.zeros(n, dtype=dtype)
            array[place] = 1
        else:
            array = np.array(place, dtype=dtype)
        tensor = torch.from_numpy(array)
        return tensor if device is None else tensor.to(device)

    return encode


def classes_reader(space: Any) -> Callable[[Any], Any]:
    """Return the function from a value of a MultiDiscrete to the array of its classes, counted from 0.

    The function raises ValueError for what is not in the space.
    """
    shape, start = tuple(space.shape), space.start
    # Compared as unsigned numbers, negative ones are the largest.
    sizes = space.nvec.astype(np.uint64)

    def classes_of(value: Any) -> Any:
        given = np.asarray(value)
        if given.shape != shape:
            raise _wrong_shape(given, shape)
        classes = np.asarray(np.subtract(given, start, dtype=np.int64))
        if (classes.view(np.uint64) >= sizes).any():
            raise ValueError(f"Gymnasium gave {given.tolist()}, which is not in its space {space}")
        return classes

    return classes_of


def _classes_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a MultiDiscrete."""
    device, classes_of = other_device(spec), classes_reader(space)
    represent = class_representation(space.nvec, spec)

    def encode(value: Any) -> Tensor:
        tensor = torch.from_numpy(represent(classes_of(value)))
        return tensor if device is None else tensor.to(device)

    return encode


def class_representation(sizes: Any, spec: TensorSpec) -> Convert:
    """Return the function from arrays `(..., *sizes.shape)` of class indices to what the spec holds for them."""
    dtype, shape = _numpy_dtype(spec), tuple(spec.shape)
    if not isinstance(spec, OneHot | MultiOneHot):
        return lambda classes: classes.astype(dtype, copy=False)
    if isinstance(spec, MultiOneHot):  # every row has the same sizes, else the spec is Stacked
        begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
    else:
        begins = np.arange(sizes.size) * spec.n
    # Where the vector of each index begins among all elements.
    length = int(np.prod(shape))

    def vectors(classes: Any) -> Any:
        flat = classes.reshape(-1, sizes.size)
        elements = np.zeros((len(flat), length), dtype=dtype)
        np.put_along_axis(elements, begins + flat, 1, axis=1)
        return elements.reshape(*classes.shape[: classes.ndim - sizes.ndim], *shape)

    return vectors


def _parts_encoder(parts: list[Any], spec: TensorSpec) -> Convert:
    """For a Tuple, and for a MultiDiscrete whose rows differ: the values of the parts, stacked."""
    encoders = [_value_encoder(part, inner) for part, inner in zip(parts, spec.unbind(0), strict=True)]

    def encode(value: Any) -> Any:
        if len(value) != len(encoders):
            raise ValueError(f"Gymnasium gave {len(value)} parts, its space has {len(encoders)}")
        return join([part(given) for part, given in zip(encoders, value, strict=True)], 0)

    return encode


def _sequence_encoder(space: Any, spec: TensorSpec) -> Convert:
    sequence: Any = spec
    element = sequence[0]
    encode_one = _value_encoder(space.feature_space, element)
    iterate = importlib.import_module("gymnasium.vector.utils").iterate
    stacked_space = space.stacked_feature_space

    def encode(value: Any) -> Any:
        values = [encode_one(given) for given in iterate(stacked_space, value)]
        return join(values, 0) if values else element.zero((0,))

    return encode


def _value_encoder(space: Any, spec: TensorSpec) -> Convert:
    """`value_encoder`, with a tensordict instead of a dict: a value that can be stacked."""
    encode = value_encoder(space, spec)
    if space_kind(space) != "Dict":
        return encode
    shape, device = spec.shape, spec.device
    return lambda value: TensorDict(encode(value), batch_size=shape, device=device)


def reward_tensor(reward: Any) -> Tensor:
    """A reward as float32 `(1,)`.

    Raises:
        TypeError: it is no number, but None or a text, say.
        ValueError: it is several numbers.
    """
    if isinstance(reward, _NUMBERS):
        return torch.from_numpy(np.array(reward, dtype=np.float32).reshape(1))
    tensor = to_spec_array(np.asarray(reward), torch.float32, "the reward")
    if tensor.numel() != 1:
        raise ValueError(f"the reward must be one number, Gymnasium gave {reward!r}")
    return tensor.reshape(1)


def rewards_tensor(rewards: list[Any]) -> Tensor:
    """The rewards of T steps as float32 `(T, 1)`.

    Raises:
        TypeError: one is no number.
        ValueError: one is several numbers.
    """
    try:
        column = np.array(rewards)
    except ValueError:  # numbers beside arrays of one number
        column = None
    if column is None or column.size != len(rewards):
        return torch.stack([reward_tensor(reward) for reward in rewards])
    return to_spec_array(column, torch.float32, "the rewards").reshape(len(rewards), 1)


def parts_of(space: Any) -> list[Any]:
    """The spaces along the first dimension of a Tuple or a MultiDiscrete."""
    if space_kind(space) == "Tuple":
        return list(space.spaces)
    return [space[place] for place in range(len(space.nvec))]


def _numpy_dtype(spec: TensorSpec) -> Any:
    return torch.empty((), dtype=spec.dtype).numpy().dtype


def other_device(spec: TensorSpec) -> torch.device | None:
    """The device of the spec, if it is not the CPU."""
    return spec.device if spec.device is not None and spec.device.type != "cpu" else None


def _wrong_shape(array: Any, shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"Gymnasium gave a value of shape {list(array.shape)}, its space says {list(shape)}")
