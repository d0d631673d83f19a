"""Random specs of every class, and of every nesting."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import strategies as st
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Choice,
    Composite,
    LeafSpec,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    TensorSpec,
    Unbounded,
)
from tensordict import NonTensorData

from tests.specs.peer import stack

FLOATS = [torch.float16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]

dims = st.lists(st.integers(0, 3), max_size=3).map(tuple)
"""Shapes with zero-size and singleton dimensions among them."""
variable_dims = st.lists(st.sampled_from([-1, 1, 2]), min_size=1, max_size=3).map(tuple)


@st.composite
def bounded(draw: Any, shapes: Any = dims) -> Bounded:
    dtype = draw(st.sampled_from(FLOATS + INTS))
    if dtype.is_floating_point:
        top = torch.finfo(dtype).max
        numbers = st.floats(-top, top) | st.sampled_from([-math.inf, math.inf, top, -top])
    else:
        info = torch.iinfo(dtype)
        numbers = st.integers(info.min, info.max)
    ends = draw(st.lists(numbers, min_size=2, max_size=2).map(sorted))
    if ends[0] == ends[1] and math.isinf(ends[0]):
        ends = [-math.inf, math.inf]
    return Bounded(ends[0], ends[1], draw(shapes), dtype=dtype)


@st.composite
def bounded_elements(draw: Any) -> Bounded:
    """Bounds that differ from element to element."""
    shape = draw(dims)
    ends = st.floats(-1e3, 1e3, width=32)
    count = math.prod(shape)
    low, high = (torch.tensor(draw(st.lists(ends, min_size=count, max_size=count))) for _ in range(2))
    low, high = torch.minimum(low, high).reshape(shape), torch.maximum(low, high).reshape(shape)
    return Bounded(low, high, shape)


@st.composite
def masks(draw: Any, n: int) -> torch.Tensor | None:
    """None, or a mask that allows at least one class."""
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return None if allowed is None else torch.tensor(allowed)


@st.composite
def column_masks(draw: Any, nvec: list[int]) -> torch.Tensor | None:
    parts = [draw(masks(n)) for n in nvec]
    if any(part is None for part in parts):
        return None
    return torch.cat(parts)


@st.composite
def categorical(draw: Any, shapes: Any = dims) -> Categorical:
    n = draw(st.integers(1, 6))
    return Categorical(n, draw(shapes), dtype=draw(st.sampled_from(INTS + FLOATS)), mask=draw(masks(n)))


@st.composite
def one_hot(draw: Any, shapes: Any = dims) -> OneHot:
    n = draw(st.integers(1, 6))
    dtype = draw(st.sampled_from([torch.bool, *INTS, *FLOATS]))
    return OneHot(n, (*draw(shapes), n), dtype=dtype, mask=draw(masks(n)))


counts = st.lists(st.integers(1, 5), min_size=1, max_size=3)


@st.composite
def multi_categorical(draw: Any, shapes: Any = dims) -> MultiCategorical:
    nvec = draw(counts)
    return MultiCategorical(
        nvec, (*draw(shapes), len(nvec)), dtype=draw(st.sampled_from(INTS)), mask=draw(column_masks(nvec))
    )


@st.composite
def multi_one_hot(draw: Any, shapes: Any = dims) -> MultiOneHot:
    nvec = draw(counts)
    dtype = draw(st.sampled_from([torch.bool, torch.int64, torch.float32]))
    return MultiOneHot(nvec, (*draw(shapes), sum(nvec)), dtype=dtype, mask=draw(column_masks(nvec)))


def unbounded(shapes: Any = dims) -> Any:
    return st.builds(Unbounded, shapes, dtype=st.sampled_from([*FLOATS, *INTS, torch.bool]))


def binary(shapes: Any = dims) -> Any:
    return st.builds(
        lambda shape, dtype: Binary(shape=shape, dtype=dtype),
        shapes,
        st.sampled_from([torch.bool, torch.int8]),
    )


def tensor_specs(shapes: Any = dims) -> Any:
    """A leaf spec of tensors, of any class."""
    return st.one_of(
        bounded(shapes),
        unbounded(shapes),
        categorical(shapes),
        one_hot(shapes),
        multi_categorical(shapes),
        multi_one_hot(shapes),
        binary(shapes),
    )


leaf_specs = tensor_specs() | bounded_elements()
variable_specs = tensor_specs(variable_dims)

texts = st.text("abc", max_size=3)
non_tensors = st.builds(lambda shape, text: NonTensor(shape, example_data=text), dims, texts)


@st.composite
def choices(draw: Any) -> Choice:
    """One of several specs that differ in their bounds or their number of classes, or one of several texts."""
    kind = draw(st.sampled_from(["bounded", "categorical", "text"]))
    if kind == "text":
        return Choice([NonTensorData(text) for text in draw(st.lists(texts, min_size=1, max_size=3))])
    shape = draw(dims)
    numbers = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    if kind == "bounded":
        return Choice([Bounded(number, number + 1, shape) for number in numbers])
    return Choice([Categorical(number, shape) for number in numbers])


names = st.sampled_from(["a", "b", "c", "observation"])


def batched(entries: dict[str, TensorSpec], batch: tuple[int, ...]) -> Composite:
    """A composite of the entries with the batch dimensions in front of each."""
    return Composite({name: spec.expand(*batch, *spec.shape) for name, spec in entries.items()}, shape=batch)


composites = st.recursive(
    leaf_specs,
    lambda child: st.builds(
        batched, st.dictionaries(names, child, max_size=3), st.sampled_from([(), (2,), (1,)])
    ),
    max_leaves=6,
).map(lambda spec: spec if isinstance(spec, Composite) else Composite(a=spec))

small = st.sampled_from([(), (1,), (2,), (2, 3)])


@st.composite
def stacked_leaves(draw: Any) -> Any:
    """Specs of one class and shape whose domains differ, stacked: the result is a `Stacked`."""
    shape = draw(small)
    numbers = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3, unique=True))
    if draw(st.booleans()):
        parts: list[LeafSpec] = [Bounded(0, number, shape) for number in numbers]
    else:
        parts = [Categorical(number, shape) for number in numbers]
    return stack(parts, draw(st.integers(0, len(shape))))


@st.composite
def stacked_sizes(draw: Any) -> Any:
    """Specs of other shapes, stacked in front, where torch can hold tensors of several shapes."""
    shape = draw(small)
    numbers = draw(st.lists(st.integers(1, 5), min_size=2, max_size=3, unique=True))
    if draw(st.booleans()):
        return stack([OneHot(number, (*shape, number)) for number in numbers], 0)
    return stack([Unbounded((*shape, number)) for number in numbers], 0)


@st.composite
def stacked_composites(draw: Any) -> Any:
    """Composites with other keys or other entries, stacked: the result is a `StackedComposite`."""
    batch = draw(small)
    shared = draw(tensor_specs(small))
    count = draw(st.integers(2, 3))
    parts = []
    for place in range(count):
        entries: dict[str, TensorSpec] = {"shared": shared, "size": Unbounded((place + 1,))}
        if draw(st.booleans()):
            entries[f"only {place}"] = draw(tensor_specs(small))
        parts.append(batched(entries, batch))
    return stack(parts, draw(st.integers(0, len(batch))))


stacks = stacked_leaves() | stacked_composites()
any_specs = leaf_specs | variable_specs | composites | stacks | stacked_sizes() | non_tensors | choices()
