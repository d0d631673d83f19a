"""Values on their way between Gymnasium's spaces and the specs that `space_to_spec` makes of them.

Each function looks at a space and its spec once and returns what converts the values of all steps.
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

from specgen_runtime.specs import Composite, OneHot, TensorSpec
from specgen_runtime.specs.classes.multi_onehot import MultiOneHot
from specgen_runtime.specs.gymnasium import space_kind
from specgen_runtime.specs.stacks.stacked import Stacked
from specgen_runtime.specs.stacks.values import join
from specgen_runtime.specs.values import to_spec_array

__all__ = [
    "action_decoder",
    "actions_decoder",
    "class_reader",
    "class_representation",
    "classes_reader",
    "reward_tensor",
    "rewards_tensor",
    "value_encoder",
]

Convert = Callable[[Any], Any]

_NUMBERS = (float, int, np.floating, np.integer)
_FEW = 32
"""Up to so many elements, Python's lists are faster than operations on tensors."""


def value_encoder(space: Any, spec: TensorSpec) -> Convert:
    """Return the function from a value of a Gymnasium space to a value of its spec.

    Classes are counted from 0, whatever the `start` of the space. Tensors never share memory with what
    Gymnasium holds. A Dict gives a dict of values.

    The function raises ValueError where Gymnasium gives a value of another shape than its space says, a number
    that the dtype of the space does not hold, or a class that the space does not have.
    """
    kind = space_kind(space)
    if kind == "Dict":
        assert isinstance(spec, Composite)
        inner = {name: value_encoder(space.spaces[name], spec[name]) for name in spec.keys()}  # noqa: SIM118
        return lambda value: {name: encode(value[name]) for name, encode in inner.items()}
    if kind == "Text":
        return spec.encode
    if kind == "Sequence":
        return _sequence_encoder(space, spec)
    if kind == "Tuple" or isinstance(spec, Stacked):
        return _parts_encoder(_parts(space), spec)
    if kind == "Discrete":
        return _class_encoder(space, spec)
    if kind == "MultiDiscrete":
        return _classes_encoder(space, spec)
    return _array_encoder(space, spec)


def _array_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a Box or a MultiBinary."""
    dtype, device = spec.dtype, _other_device(spec)
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
    device, dtype = _other_device(spec), _numpy_dtype(spec)
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
    device, classes_of = _other_device(spec), classes_reader(space)
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
    """
    if isinstance(reward, _NUMBERS):
        return torch.from_numpy(np.array(reward, dtype=np.float32).reshape(1))
    return to_spec_array(np.asarray(reward), torch.float32, "the reward").reshape(1)


def rewards_tensor(rewards: list[Any]) -> Tensor:
    """The rewards of T steps as float32 `(T, 1)`.

    Raises:
        TypeError: one is no number.
    """
    try:
        column = np.array(rewards)
    except ValueError:  # numbers beside arrays of one number
        return torch.stack([reward_tensor(reward) for reward in rewards])
    return to_spec_array(column, torch.float32, "the rewards").reshape(len(rewards), 1)


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
    if kind == "Sequence":
        return _sequence_decoder(space, spec)
    if kind == "Tuple":
        return _parts_decoder(_parts(space), spec)
    if kind == "Discrete":
        return _class_decoder(space, spec)
    if kind == "MultiDiscrete":
        return _multi_discrete_decoder(space, spec)
    return _array_decoder(space)


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
        rows = _parts_decoder(_parts(space), spec)
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
        start, dtype = int(space.start), space.dtype
        if isinstance(spec, OneHot):
            return lambda actions: list((actions.argmax(-1).cpu().numpy() + start).astype(dtype))
        return lambda actions: list((actions.cpu().numpy() + start).astype(dtype))
    decode = action_decoder(space, spec)
    if kind in ("Dict", "Tuple", "Text", "Sequence") or isinstance(spec, Stacked):
        return lambda actions: [decode(action) for action in actions.unbind(0)]
    return lambda actions: list(decode(actions))


def _parts(space: Any) -> list[Any]:
    """The spaces along the first dimension of a Tuple or a MultiDiscrete."""
    if space_kind(space) == "Tuple":
        return list(space.spaces)
    return [space[place] for place in range(len(space.nvec))]


def _numpy_dtype(spec: TensorSpec) -> Any:
    return torch.empty((), dtype=spec.dtype).numpy().dtype


def _other_device(spec: TensorSpec) -> torch.device | None:
    """The device of the spec, if it is not the CPU."""
    return spec.device if spec.device is not None and spec.device.type != "cpu" else None


def _wrong_shape(array: Any, shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"Gymnasium gave a value of shape {list(array.shape)}, its space says {list(shape)}")
