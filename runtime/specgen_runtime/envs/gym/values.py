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

__all__ = ["action_decoder", "actions_decoder", "value_encoder"]

Convert = Callable[[Any], Any]


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


def _class_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a Discrete."""
    n, start = int(space.n), int(space.start)
    device, dtype = _other_device(spec), _numpy_dtype(spec)
    vectors = isinstance(spec, OneHot)

    def encode(value: Any) -> Tensor:
        try:
            place = operator.index(value) - start
        except TypeError:
            place = -1
        if not 0 <= place < n:
            raise ValueError(f"Gymnasium gave {value!r}, which is not in its space {space}")
        if vectors:
            array = np.zeros(n, dtype=dtype)
            array[place] = 1
        else:
            array = np.array(place, dtype=dtype)
        tensor = torch.from_numpy(array)
        return tensor if device is None else tensor.to(device)

    return encode


def _classes_encoder(space: Any, spec: TensorSpec) -> Convert:
    """For a MultiDiscrete."""
    device = _other_device(spec)
    shape, start = tuple(space.shape), space.start
    # Compared as unsigned numbers, negative ones are the largest.
    sizes = space.nvec.astype(np.uint64)
    represent = _representation(space.nvec, spec)

    def encode(value: Any) -> Tensor:
        given = np.asarray(value)
        if given.shape != shape:
            raise _wrong_shape(given, shape)
        classes = np.asarray(np.subtract(given, start, dtype=np.int64))
        if (classes.view(np.uint64) >= sizes).any():
            raise ValueError(f"Gymnasium gave {given.tolist()}, which is not in its space {space}")
        tensor = torch.from_numpy(represent(classes))
        return tensor if device is None else tensor.to(device)

    return encode


def _representation(sizes: Any, spec: TensorSpec) -> Convert:
    """The function from arrays of class indices to what the spec holds for them."""
    dtype, shape = _numpy_dtype(spec), tuple(spec.shape)
    if not isinstance(spec, OneHot | MultiOneHot):
        return lambda classes: classes.astype(dtype, copy=False)
    if isinstance(spec, MultiOneHot):  # every row has the same sizes, else the spec is Stacked
        steps = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)[:-1]])
    else:
        steps = np.arange(sizes.size) * spec.n
    # Where the vector of each index begins among all elements.
    begins = steps.reshape(sizes.shape)
    length = int(np.prod(shape))

    def vectors(classes: Any) -> Any:
        elements = np.zeros(length, dtype=dtype)
        elements[begins + classes] = 1
        return elements.reshape(shape)

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


def action_decoder(space: Any, spec: TensorSpec) -> Convert:
    """Return the function from a value of `spec` to a Gymnasium action: the inverse of `value_encoder`.

    The action may be a tensordict where the space is a Dict.
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
        start = int(space.start)
        if isinstance(spec, OneHot):
            return lambda action: int(action.argmax(-1)) + start
        return lambda action: int(action) + start
    dtype = space.dtype
    if kind == "MultiDiscrete":
        return _multi_discrete_decoder(space, spec)
    return lambda action: action.detach().cpu().numpy().astype(dtype, copy=True)


def _multi_discrete_decoder(space: Any, spec: TensorSpec) -> Convert:
    start, dtype = space.start, space.dtype
    if isinstance(spec, Stacked):
        rows = _parts_decoder(_parts(space), spec)
        return lambda action: np.stack(rows(action))
    if isinstance(spec, MultiOneHot):
        sizes = space.nvec.reshape(-1, space.nvec.shape[-1])[0].tolist()

        def decode(action: Tensor) -> Any:
            classes = [group.argmax(-1) for group in torch.split(action, sizes, -1)]
            return (torch.stack(classes, -1).cpu().numpy() + start).astype(dtype)

        return decode
    if isinstance(spec, OneHot):
        return lambda action: (action.argmax(-1).cpu().numpy() + start).astype(dtype)
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
