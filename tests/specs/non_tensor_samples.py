"""Random `NonTensor` specs, and what their values hold."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from tensordict import NonTensorStack

sizes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
data = st.none() | st.integers() | st.text(max_size=3) | st.just({"a": 1}) | st.just(("x", 2.5))


@st.composite
def non_tensors(draw: Any, shapes: Any = sizes) -> NonTensor:
    shape = draw(shapes)
    return NonTensor(
        shape,
        draw(st.sampled_from([None, "cpu"])),
        example_data=draw(data),
        feature_dims=draw(st.integers(0, len(shape))),
    )


def wrapped_as(value: Any) -> Any:
    """The nesting of stacks, down to the shape of the `NonTensorData`."""
    if isinstance(value, NonTensorStack):
        return [wrapped_as(row) for row in value.unbind(0)]
    return value.data, tuple(value.batch_size)
