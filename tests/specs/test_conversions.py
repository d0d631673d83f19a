"""One-hot vectors, class indices, NumPy data: conversions are inverse, and agree with TorchRL's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import Binary, Categorical, MultiCategorical, MultiOneHot, OneHot
from specgen_runtime.specs.classes.spec import ClassSpec

laws = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DTYPES = [torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
dims = st.lists(st.integers(0, 3), max_size=2).map(tuple)
vectors_of = st.sampled_from([torch.bool, *DTYPES])


@st.composite
def masks(draw: Any, batch: tuple[int, ...], widths: list[int]) -> torch.Tensor | None:
    """At least one class of each group of each row, over the batch or for one row."""
    if not draw(st.booleans()):
        return None
    rows = math.prod(batch) if draw(st.booleans()) else 1
    groups = [
        draw(st.lists(st.booleans(), min_size=width, max_size=width).filter(any))
        for _ in range(rows)
        for width in widths
    ]
    flat = torch.tensor([flag for group in groups for flag in group], dtype=torch.bool)
    return flat.reshape(*batch, sum(widths)) if rows != 1 else flat


@st.composite
def class_specs(draw: Any) -> ClassSpec:
    kind = draw(
        st.sampled_from(["categorical", "onehot", "binary", "multi_categorical", "multi_onehot", "rows"])
    )
    batch = draw(dims)
    if kind == "binary":
        return Binary(shape=batch, dtype=draw(vectors_of))
    if kind in ("categorical", "onehot"):
        n = draw(st.integers(1, 5))
        mask = draw(masks(batch, [n]))
        if kind == "onehot":
            return OneHot(n, (*batch, n), dtype=draw(vectors_of), mask=mask)
        return Categorical(n, batch, dtype=draw(st.sampled_from(DTYPES)), mask=mask)
    nvec = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    if kind == "rows":
        rows = draw(st.lists(st.permutations(nvec), min_size=1, max_size=3))
        return MultiCategorical(rows, dtype=draw(st.sampled_from(DTYPES)))
    mask = draw(masks(batch, nvec))
    if kind == "multi_onehot":
        return MultiOneHot(nvec, (*batch, sum(nvec)), dtype=draw(vectors_of), mask=mask)
    return MultiCategorical(nvec, (*batch, len(nvec)), dtype=draw(st.sampled_from(DTYPES)), mask=mask)


@laws
@given(class_specs(), dims)
def test_draws_are_members_and_stay(spec: ClassSpec, lead: tuple[int, ...]) -> None:
    drawn = spec.rand(lead)
    assert drawn.shape == (*lead, *spec.shape)
    assert drawn.dtype == spec.dtype
    spec.assert_is_in(drawn)
    assert spec.project(drawn) is drawn


@laws
@given(class_specs(), vectors_of, st.integers(0, 2**31))
def test_projections_are_members_and_stay(spec: ClassSpec, dtype: torch.dtype, seed: int) -> None:
    numbers = torch.from_numpy(np.asarray(np.random.default_rng(seed).normal(0, 4, tuple(spec.shape))))
    value = numbers.masked_fill(numbers > 8, math.nan) if dtype.is_floating_point else numbers.abs()
    projected = spec.project(value.to(dtype))
    spec.assert_is_in(projected)
    assert spec.project(projected) is projected


@laws
@given(class_specs())
def test_numpy_round_trip(spec: ClassSpec) -> None:
    value = spec.rand()
    data = spec.to_numpy(value)
    for form in (data, np.asarray(data).tolist()):
        if np.asarray(form).shape == np.asarray(data).shape:
            back = spec.encode(form)
            assert back.dtype == value.dtype
            assert torch.equal(back, value)
    assert torch.equal(spec.encode(value), value)


@laws
@given(class_specs(), dims)
def test_conversions_are_inverse(spec: ClassSpec, lead: tuple[int, ...]) -> None:
    if not isinstance(spec.to_one_hot_spec(), ClassSpec):
        return  # rows that differ have no common tensor
    value = spec.rand(lead)
    vectors, classes = spec.to_one_hot(value, safe=True), spec.to_categorical(value, safe=True)
    one_hot, categorical = spec.to_one_hot_spec(), spec.to_categorical_spec()
    assert isinstance(one_hot, OneHot | MultiOneHot)
    assert isinstance(categorical, ClassSpec)
    assert one_hot.is_in(vectors)
    assert categorical.is_in(classes)
    assert (one_hot.mask is None) == (categorical.mask is None) == (spec.mask is None)
    assert one_hot.cardinality() == categorical.cardinality() == spec.cardinality()
    assert torch.equal(categorical.to_one_hot(classes), vectors.bool())
    assert torch.equal(one_hot.to_categorical(vectors), classes.long())
    assert one_hot.to_one_hot(vectors) is vectors
    assert categorical.to_categorical(classes) is classes
    assert one_hot.to_one_hot_spec() is one_hot
    assert categorical.to_categorical_spec() is categorical


@laws
@given(class_specs().filter(lambda spec: spec.cardinality() < 500))
def test_enumerations_hold_every_member_once(spec: ClassSpec) -> None:
    members = spec.enumerate()
    assert members.shape == (spec.cardinality(), *spec.shape)
    assert members.dtype == spec.dtype
    rows = [tuple(member.flatten().tolist()) for member in members]
    assert len(set(rows)) == len(rows)
    assert spec.to_categorical(members).reshape(len(members), -1).tolist() == sorted(
        spec.to_categorical(members).reshape(len(members), -1).tolist()
    )
    allowed = spec.enumerate(use_mask=True)
    if spec.mask is None:
        spec.assert_is_in(members)
        assert torch.equal(allowed, members)
    else:
        spec.assert_is_in(allowed)
        assert len(allowed) == sum(spec.is_in(member) for member in members)


@laws
@given(class_specs(), st.sampled_from(DTYPES))
def test_dtype_moves(spec: ClassSpec, dtype: torch.dtype) -> None:
    moved = spec.to(dtype)
    assert moved.dtype == dtype
    assert moved.cardinality() == spec.cardinality()
    value = spec.rand()
    assert moved.is_in(value.to(dtype))
    assert moved.to(spec.dtype) == spec
    assert spec.to("meta").expand(2, *spec.shape).zero().device.type == "meta"


class TestSafe:
    def test_values_outside(self) -> None:
        for spec, wrong in (
            (Categorical(3), torch.tensor(3)),
            (Categorical(3, mask=[True, True, False]), torch.tensor(2)),
            (OneHot(3), torch.zeros(3, dtype=torch.bool)),
            (MultiOneHot([2, 2]), torch.ones(4, dtype=torch.bool)),
            (MultiCategorical([2, 2]), torch.tensor([2, 0])),
            (Binary(2), torch.tensor([2, 0], dtype=torch.int8)),
        ):
            for convert in (spec.to_one_hot, spec.to_categorical, spec.to_numpy):
                with pytest.raises(AssertionError, match="does not belong to the"):
                    convert(wrong, safe=True)

    def test_by_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        spec = OneHot(3)
        wrong = torch.zeros(3, dtype=torch.bool)
        assert spec.to_one_hot(wrong) is wrong
        assert spec.to_categorical(wrong).item() == 0
        monkeypatch.setattr("specgen_runtime.specs.values._CHECKS_ENCODE", True)  # read at import
        for convert in (spec.to_one_hot, spec.to_categorical):
            with pytest.raises(AssertionError):
                convert(wrong)
        assert spec.to_one_hot(wrong, safe=False) is wrong

    def test_what_has_no_vector(self) -> None:
        """Without a check there would be a vector without a 1, or another class."""
        for spec, wrong in (
            (Categorical(3), torch.tensor([0, 3])),
            (Categorical(3), torch.tensor(-1)),
            (Categorical(3), torch.tensor(1.5)),
            (MultiCategorical([3, 2]), torch.tensor([0, 2])),
            (MultiCategorical([3, 2]), torch.tensor([0, 1, 0])),
        ):
            with pytest.raises(RuntimeError, match="cannot convert"):
                spec.to_one_hot(wrong)
        for vectors in (OneHot(3), MultiOneHot([2, 1])):
            with pytest.raises(RuntimeError, match="expected 3 columns"):
                vectors.to_categorical(torch.ones(4))


def test_specs() -> None:
    mask = torch.tensor([True, False, True])
    assert Categorical(3, (4,), mask=mask).to_one_hot_spec() == OneHot(3, (4, 3), mask=mask)
    assert OneHot(3, (4, 3), dtype=torch.int64, mask=mask).to_categorical_spec() == Categorical(
        3, (4,), mask=mask
    )
    assert MultiCategorical([1, 2], (4, 2), mask=mask).to_one_hot_spec() == MultiOneHot(
        [1, 2], (4, 3), mask=mask
    )
    assert MultiOneHot([1, 2], mask=mask).to_categorical_spec() == MultiCategorical([1, 2], mask=mask)
    assert Categorical(3, (-1, 2)).to_one_hot_spec() == OneHot(3, (-1, 2, 3))
    assert MultiOneHot([1, 2], (-1, 3)).to_categorical_spec() == MultiCategorical([1, 2], (-1, 2))
    assert Categorical(3, device="meta").to_one_hot_spec().device.type == "meta"


@pytest.mark.peers
@laws
@given(class_specs().filter(lambda spec: spec.dtype in (torch.int64, torch.bool)), dims)
def test_as_torchrl(spec: ClassSpec, lead: tuple[int, ...]) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    options: dict[str, Any] = {"shape": spec.shape, "dtype": spec.dtype}
    if isinstance(spec, Categorical | OneHot):
        theirs = getattr(torchrl, type(spec).__name__)(spec.n, mask=spec.mask, **options)
    elif isinstance(spec, MultiOneHot) or (isinstance(spec, MultiCategorical) and spec.ndim == 1):
        theirs = getattr(torchrl, type(spec).__name__)(spec.nvec, mask=spec.mask, **options)
    else:
        return
    value = spec.rand(lead)
    assert torch.equal(spec.to_categorical(value), theirs.to_categorical(value))
    if 0 not in value.shape:
        assert torch.equal(spec.to_one_hot(value), theirs.to_one_hot(value))
        assert np.array_equal(spec.to_numpy(value), theirs.to_numpy(value))
    assert spec.to_categorical_spec().shape == theirs.to_categorical_spec().shape
    assert spec.to_one_hot_spec().shape == theirs.to_one_hot_spec().shape
