"""Laws that hold for every spec and every value."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    LeafSpec,
    MultiCategorical,
    OneHot,
    Unbounded,
)

FLOATS = [torch.float16, torch.float32, torch.float64]
INTS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]

dims = st.lists(st.integers(0, 3), max_size=3).map(tuple)
laws = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def bounded(draw: Any) -> Bounded:
    dtype = draw(st.sampled_from(FLOATS + INTS))
    shape = draw(dims)
    if dtype.is_floating_point:
        top = torch.finfo(dtype).max
        numbers = st.floats(-top, top) | st.sampled_from([-float("inf"), float("inf"), top, -top])
    else:
        info = torch.iinfo(dtype)
        numbers = st.integers(info.min, info.max)
    ends = draw(st.lists(numbers, min_size=2, max_size=2).map(sorted))
    if ends[0] == ends[1] and ends[0] in (float("inf"), -float("inf")):
        ends = [-float("inf"), float("inf")]
    return Bounded(ends[0], ends[1], shape, dtype=dtype)


@st.composite
def masks(draw: Any, n: int) -> torch.Tensor | None:
    allowed = draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).filter(any))
    return None if allowed is None else torch.tensor(allowed)


@st.composite
def categorical(draw: Any) -> LeafSpec:
    n = draw(st.integers(1, 6))
    mask = draw(masks(n))
    if draw(st.booleans()):
        return Categorical(n, draw(dims), dtype=draw(st.sampled_from(INTS + FLOATS)), mask=mask)
    return OneHot(n, (*draw(dims), n), dtype=draw(st.sampled_from([torch.bool, *INTS, *FLOATS])), mask=mask)


multi = st.builds(
    lambda nvec, lead: MultiCategorical(nvec, (*lead, len(nvec))),
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    dims,
)
leaf_specs = (
    bounded()
    | categorical()
    | multi
    | st.builds(Unbounded, dims, dtype=st.sampled_from([*FLOATS, *INTS, torch.bool]))
    | st.builds(lambda shape: Binary(shape=shape), dims)
)
names = st.sampled_from(["a", "b", "c", "observation"])
composites = st.recursive(
    leaf_specs, lambda child: st.dictionaries(names, child, max_size=3).map(Composite), max_leaves=6
).map(lambda spec: spec if isinstance(spec, Composite) else Composite(a=spec))


@laws
@given(leaf_specs, dims)
def test_draws_are_members(spec: LeafSpec, lead: tuple[int, ...]) -> None:
    drawn = spec.rand(lead)
    assert drawn.shape == (*lead, *spec.shape)
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn


@laws
@given(leaf_specs, st.data())
def test_projections_are_members_and_stay(spec: LeafSpec, data: Any) -> None:
    array = data.draw(
        hnp.arrays(data.draw(st.sampled_from(["f8", "f4", "i8", "u1", "?"])), tuple(spec.shape))
    )
    projected = spec.project(torch.from_numpy(array))
    spec.assert_is_in(projected)
    assert spec.project(projected) is projected


@laws
@given(leaf_specs)
def test_numpy_round_trip(spec: LeafSpec) -> None:
    value = spec.rand()
    back = spec.encode(spec.to_numpy(value))
    assert back.dtype == value.dtype
    assert torch.equal(back, value)
    again = spec.to_numpy(spec.encode(spec.to_numpy(value)))
    assert np.array_equal(again, spec.to_numpy(value))


@laws
@given(leaf_specs, st.integers(1, 3), st.integers(1, 3))
def test_shape_round_trips(spec: LeafSpec, rows: int, columns: int) -> None:
    grown = spec.expand(rows, columns, *spec.shape)
    assert grown.shape == (rows, columns, *spec.shape)
    assert grown.flatten(0, 1).unflatten(0, (rows, columns)) == grown
    assert grown[rows - 1, 0] == spec
    assert grown.unbind(1)[0] == spec.expand(rows, *spec.shape)
    assert grown.unsqueeze(1).squeeze(1) == grown
    assert grown.reshape(grown.shape) == grown
    grown.assert_is_in(grown.rand())


@laws
@given(leaf_specs)
def test_index_follows_tensors(spec: LeafSpec) -> None:
    grown = spec.expand(3, 2, *spec.shape)
    probe = torch.zeros(grown.shape)
    rows = torch.tensor([2, 0])
    for index in (
        0,
        -1,
        slice(0, 2),
        (slice(None), 1),
        (..., slice(None)),
        (None, 0),
        rows,
        (rows, rows // 2),
        [1],
    ):
        full = index if isinstance(index, tuple) else (index,)
        if not grown.ndim - len(grown._free) or Ellipsis not in full:
            assert grown[index].shape == probe[index].shape


@laws
@given(composites)
def test_composites(spec: Composite) -> None:
    value = spec.rand((2,))
    spec.assert_is_in(value)
    assert spec.expand(3).shape == (3,)
    assert spec.expand(3)[1] == spec == spec.clone() == pickle.loads(pickle.dumps(spec))
    assert Composite(dict(spec.items(True, True))).keys(True, True) == spec.keys(True, True)
    single = spec.rand()
    back = spec.encode(spec.to_numpy(single))
    assert (back == single).all()
    if spec.keys(True, True):
        key = spec.keys(True, True)[0]
        value[key] = value[key].to("meta")
        assert not spec.is_in(value)


@laws
@given(leaf_specs, st.integers(0, 2**31), st.integers(0, 9))
def test_sequences_are_successive_draws(spec: LeafSpec, seed: int, length: int) -> None:
    torch.manual_seed(seed)
    drawn = spec.rand_sequence(length)
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    for step in range(length):
        assert torch.equal(drawn[step], spec.rand())
    assert torch.equal(state, torch.get_rng_state())
