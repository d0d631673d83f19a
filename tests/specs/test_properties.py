"""Laws that hold for every spec and every value."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
import torch.multiprocessing  # registers how tensors travel between processes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from specgen_runtime.specs import Composite, LeafSpec, TensorSpec

from tests.specs.strategies import (
    FLOATS,
    INTS,
    any_specs,
    bounded,
    choices,
    composites,
    dims,
    leaf_specs,
    non_tensors,
    stacked_sizes,
    stacks,
    unbounded,
    variable_specs,
)

laws = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def equal(left: Any, right: Any) -> bool:
    """Whether two values are the same, tensor by tensor."""
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return bool((left == right).all())


# Members


@laws
@given(leaf_specs, dims)
def test_draws_are_members(spec: LeafSpec, lead: tuple[int, ...]) -> None:
    drawn = spec.rand(lead)
    assert drawn.shape == (*lead, *spec.shape)
    assert drawn.dtype == spec.dtype
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn


@laws
@given(composites | stacks, st.sampled_from([(), (1,), (3,), (2, 0)]))
def test_drawn_trees_are_members(spec: TensorSpec, lead: tuple[int, ...]) -> None:
    drawn = spec.rand(lead)
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn


@laws
@given(non_tensors | choices(), st.sampled_from([(), (3,)]))
def test_drawn_data_are_members(spec: TensorSpec, lead: tuple[int, ...]) -> None:
    drawn: Any = spec.rand(lead)
    spec.assert_is_in(drawn)
    assert drawn.shape == (*lead, *spec.shape)


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
@given(variable_specs, st.lists(st.integers(0, 3), min_size=3, max_size=3), st.booleans())
def test_a_variable_dimension_takes_any_size(spec: LeafSpec, sizes: list[int], further: bool) -> None:
    actual = [sizes.pop() if size == -1 else size for size in spec.shape]
    single = spec.rand()
    assert single.shape == tuple(1 if size == -1 else size for size in spec.shape)
    value = single.expand(*([2] if further else []), *actual)
    spec.assert_is_in(value)
    assert spec.project(value) is value
    assert not spec.is_in(value.to(torch.complex64))
    array = spec.to_numpy(single.expand(actual))
    assert equal(spec.encode(array), single.expand(actual))


@laws
@given(composites)
def test_other_values_are_no_members(spec: Composite) -> None:
    value = spec.rand()
    for key in spec.keys(True, True):
        wrong = value.clone()
        wrong[key] = wrong[key].to(torch.complex64)
        assert not spec.is_in(wrong)
        assert not spec.is_in(value.clone().exclude(key))


@laws
@given(stacked_sizes())
def test_stacks_of_several_sizes(spec: Any) -> None:
    drawn = spec.rand()
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn
    assert spec.shape[-1] == -1
    back = spec.encode(spec.to_numpy(drawn))
    for part, one, other in zip(spec, drawn.unbind(0), back.unbind(0), strict=True):
        part.assert_is_in(one)
        assert equal(one, other)
    assert torch.stack(spec.unbind(0), 0) == spec
    for place in range(spec.ndim):
        assert spec.unsqueeze(place).squeeze(place) == spec


# Data from and to outside


@laws
@given(leaf_specs)
def test_numpy_round_trip(spec: LeafSpec) -> None:
    value = spec.rand()
    back = spec.encode(spec.to_numpy(value))
    assert equal(back, value)
    again = spec.to_numpy(spec.encode(spec.to_numpy(value)))
    assert np.array_equal(again, spec.to_numpy(value))


@laws
@given(composites)
def test_numpy_round_trip_of_trees(spec: Composite) -> None:
    value = spec.rand()
    assert equal(spec.encode(spec.to_numpy(value)), value)


@laws
@given(stacks)
def test_numpy_round_trip_of_stacks(spec: TensorSpec) -> None:
    value = spec.rand()
    back = spec.encode(spec.to_numpy(value))
    spec.assert_is_in(back)
    for one, other in zip(back.unbind(spec.dim), value.unbind(spec.dim), strict=True):  # type: ignore[attr-defined]
        assert equal(one, other)


@laws
@given(leaf_specs)
def test_encoding_a_member_keeps_it(spec: LeafSpec) -> None:
    value = spec.rand()
    assert equal(spec.encode(value), value)


# Shapes


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
@given(leaf_specs | composites, st.integers(1, 3))
def test_stack_and_unbind_are_inverse(spec: TensorSpec, count: int) -> None:
    grown = spec.expand(count, *spec.shape)
    assert torch.stack([spec] * count) == grown  # type: ignore[list-item]
    for place in range(len(spec.shape[: len(spec._free)]) + 1):
        joined: Any = torch.stack(grown.unbind(0), place)  # type: ignore[arg-type]
        assert joined.shape == torch.stack([torch.zeros(spec.shape)] * count, place).shape
        assert all(part == spec for part in joined.unbind(place))


@laws
@given(stacks)
def test_unbound_stacks_stack_again(spec: Any) -> None:
    parts = spec.unbind(spec.dim)
    assert torch.stack(parts, spec.dim) == spec
    assert len(parts) == spec.shape[spec.dim]
    index = (slice(None),) * spec.dim
    assert all(spec[(*index, place)] == part for place, part in enumerate(parts))
    grown = spec.expand(2, *spec.shape)
    assert grown.shape == (2, *spec.shape)
    assert grown.dim == spec.dim + 1
    for place in range(spec.ndim + 1):
        assert spec.unsqueeze(place).squeeze(place) == spec


@laws
@given(leaf_specs | composites, st.data())
def test_operations_commute_with_draws(spec: TensorSpec, data: Any) -> None:
    """What an operation does to the spec's shape, it does to a draw's."""
    grown = spec.expand(3, 1, *spec.shape)
    drawn: Any = grown.rand()
    place = data.draw(st.integers(0, len(grown._free)))
    index = data.draw(
        st.sampled_from([0, -1, slice(1, None), None, ..., [0, 2], torch.tensor([True, False, True])])
    )
    operations: dict[str, Callable[[Any], Any]] = {
        "unsqueeze": lambda x: x.unsqueeze(place),
        "squeeze": lambda x: x.squeeze(1),
        "flatten": lambda x: x.flatten(0, 1),
        "view": lambda x: x.view(3, *x.shape[1:]),
        "reshape": lambda x: x.reshape(1, 3, *x.shape[2:]),
        "unbind": lambda x: x.unbind(0)[1],
        "index": lambda x: x[index],
    }
    name = data.draw(st.sampled_from(sorted(operations)))
    changed, value = operations[name](grown), operations[name](drawn)
    assert changed.shape == value.shape
    changed.assert_is_in(value)
    assert changed.zero().shape == value.shape


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
@given(variable_specs)
def test_variable_dimensions_stay(spec: LeafSpec) -> None:
    assert spec.unsqueeze(0).squeeze(0) == spec
    assert spec.unsqueeze(0).shape == (1, *spec.shape)
    assert spec.expand(2, *spec.shape).shape == (2, *spec.shape)
    assert spec.expand(2, *spec.shape)[1] == spec
    fixed = [place for place, size in enumerate(spec._free) if size != -1]
    for place in fixed:
        variable = spec.make_neg_dim(place)
        assert variable.shape[place] == -1
        assert variable != spec
        assert variable.is_in(spec.rand())


# Copies and comparison


@laws
@given(any_specs)
def test_copies_are_equal_and_independent(spec: TensorSpec) -> None:
    for twin in (spec.clone(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert twin is not spec
        assert type(twin) is type(spec)
        assert twin == spec
        assert spec == twin
        assert repr(twin) == repr(spec)
        assert (twin != spec) is False
    assert spec == spec
    assert spec != "another thing"


@settings(laws, max_examples=10)
@given(any_specs)
def test_specs_travel_between_processes(spec: TensorSpec) -> None:
    assert pickle.loads(bytes(ForkingPickler.dumps(spec))) == spec


@laws
@given(leaf_specs | composites)
def test_buffers_can_be_shared(spec: TensorSpec) -> None:
    assert spec.zero((2,)).share_memory_().is_shared()


@laws
@given(composites)
def test_clones_do_not_follow(spec: Composite) -> None:
    before, twin = spec.clone(), spec.clone()
    for key in list(twin.keys()):
        del twin[key]
    assert spec == before


@laws
@given(leaf_specs, leaf_specs)
def test_equality_is_symmetric(left: LeafSpec, right: LeafSpec) -> None:
    assert (left == right) is (right == left)
    assert (left == right) is not (left != right)


@laws
@given(leaf_specs)
def test_specs_that_differ_are_unequal(spec: LeafSpec) -> None:
    assert spec.unsqueeze(0) != spec
    assert spec.expand(2, *spec.shape) != spec
    assert Composite(a=spec) != Composite(b=spec)
    assert Composite(a=spec) != Composite(a=spec.unsqueeze(0))
    assert Composite(a=spec) != spec


# Dtypes and devices


@laws
@given(bounded() | unbounded(), st.sampled_from(FLOATS + INTS))
def test_dtypes_move(spec: LeafSpec, dtype: torch.dtype) -> None:
    try:
        moved = spec.to(dtype)
    except ValueError:
        return  # no value of the spec is one of the dtype
    assert moved.dtype == dtype
    assert moved.shape == spec.shape
    moved.assert_is_in(moved.rand())
    assert (moved is spec) is (dtype == spec.dtype)


@laws
@given(leaf_specs | composites)
def test_devices_move(spec: TensorSpec) -> None:
    assert spec.to("cpu").cpu().device == torch.device("cpu")
    assert spec.to("cpu").to("cpu").device == torch.device("cpu")
    moved = spec.to("meta")
    assert moved.device == torch.device("meta")
    assert moved.shape == spec.shape
    assert moved.zero((2,)).shape == spec.zero((2,)).shape
    assert moved.to("meta") is moved
    assert spec.clear_device_() is spec


# Draws in order


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


@laws
@given(composites)
def test_trees(spec: Composite) -> None:
    assert spec.expand(3, *spec.shape).shape == (3, *spec.shape)
    assert spec.expand(3, *spec.shape)[1] == spec
    assert list(Composite(dict(spec.items(True, True)), shape=spec.shape).keys(True, True)) == list(
        spec.keys(True, True)
    )
    for path, leaf in spec.items(True, True):
        assert spec[path] is leaf
        assert path in spec.keys(True)
