from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import Categorical

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float64]


class TestEncode:
    @pytest.mark.parametrize("value", [2, True, np.int64(2), np.uint8(2), np.array(2), 2.0, [2], [[2]]])
    def test_numbers(self, value: Any) -> None:
        for shape in ((), (1,), (1, 1)):
            encoded = Categorical(4, shape).encode(value)
            assert encoded.dtype == torch.int64
            assert encoded.shape == shape
            assert encoded.item() == (1 if value is True else 2)

    @pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8", "f4", "f8", ">i8"])
    def test_arrays(self, dtype: str) -> None:
        spec = Categorical(4, (2, 3))
        array = np.array([[0, 1, 2], [3, 2, 1]], dtype=dtype)
        for given_array in (array, np.asfortranarray(array), array.tolist()):
            encoded = spec.encode(given_array)
            assert encoded.dtype == torch.int64
            assert encoded.tolist() == array.tolist()
        assert spec.encode(array[::-1]).tolist() == array[::-1].tolist()

    def test_the_array_stays_the_callers(self) -> None:
        array = np.zeros(3, dtype=np.int64)
        encoded = Categorical(4, (3,)).encode(array)
        array[:] = 2
        assert encoded.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "f8"])
    @pytest.mark.parametrize("wrong", [-1, 4, 100])
    def test_t14_classes_that_do_not_exist(self, dtype: str, wrong: int) -> None:
        for value in (np.array([0, wrong], dtype=dtype), [0, wrong], torch.tensor([0, wrong])):
            with pytest.raises(AssertionError, match=rf"classes 0 … 3, got {wrong}(\.0)? at index \(1,\)"):
                Categorical(4, (2,)).encode(value)
        for value in (wrong, np.int64(wrong), np.array(wrong, dtype=dtype)):
            with pytest.raises(AssertionError, match=f"got {wrong}"):
                Categorical(4).encode(value)

    def test_wrong_shapes_and_kinds(self) -> None:
        for value in (1, [1, 2, 3], np.zeros((2, 2), np.int64), torch.zeros(3)):
            with pytest.raises(RuntimeError, match="shape"):
                Categorical(4, (2,)).encode(value)
        with pytest.raises(TypeError, match="must be numbers"):
            Categorical(4).encode("left")
        with pytest.raises(TypeError, match="of one shape"):
            Categorical(4, (2,)).encode([[1], [1, 2]])

    def test_dtypes(self) -> None:
        for dtype in [*DTYPES, torch.bfloat16]:
            spec = Categorical(4, (2,), dtype=dtype)
            for value in ([1, 3], np.array([1, 3])):
                assert spec.encode(value).dtype == dtype
                assert spec.encode(value).tolist() == [1, 3]
            assert Categorical(4, dtype=dtype).encode(3).dtype == dtype

    def test_unknown_number_of_classes(self) -> None:
        assert Categorical(-1, (2,)).encode([3, 99]).tolist() == [3, 99]
        with pytest.raises(AssertionError):
            Categorical(-1).encode(-1)

    def test_variable_sizes(self) -> None:
        spec = Categorical(4, (-1, 2))
        assert spec.encode(np.array([[1, 2], [3, 0], [0, 0]])).shape == (3, 2)
        with pytest.raises(RuntimeError):
            spec.encode([1, 2, 3])


class TestMembership:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_ends(self, dtype: torch.dtype) -> None:
        spec = Categorical(5, (2,), dtype=dtype)
        assert spec.is_in(torch.tensor([0, 4], dtype=dtype))
        assert not spec.is_in(torch.tensor([0, 5], dtype=dtype))
        if dtype != torch.uint8:
            assert not spec.is_in(torch.tensor([-1, 0], dtype=dtype))
        if dtype.is_floating_point:
            for wrong in (1.5, math.nan, math.inf, -math.inf):
                assert not spec.is_in(torch.tensor([0, wrong], dtype=dtype))

    def test_many_classes(self) -> None:
        for n in (2**24 + 3, 2**40):
            spec = Categorical(n)
            assert spec.is_in(torch.tensor(n - 1))
            assert not spec.is_in(torch.tensor(n))
            assert spec.project(torch.tensor(n + 5)).item() == n - 1
            assert spec.project(torch.tensor(float(2 * n))).item() == n - 1
            assert spec.encode(n - 1).item() == n - 1

    def test_unknown_number_of_classes(self) -> None:
        spec = Categorical(-1, dtype=torch.float32)
        assert spec.is_in(torch.tensor(3.0))
        for wrong in (-1.0, 2.5, math.inf, math.nan):
            assert not spec.is_in(torch.tensor(wrong))
        assert spec.project(torch.tensor(-2.0)).item() == 0
        assert Categorical(-1).project(torch.tensor(7)).item() == 7

    @given(
        st.integers(1, 9),
        st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
        st.sampled_from(DTYPES),
    )
    @settings(max_examples=80, deadline=None)
    def test_projections_are_the_nearest_classes(
        self, n: int, numbers: list[float], dtype: torch.dtype
    ) -> None:
        spec = Categorical(n, (3,), dtype=dtype)
        projected = spec.project(torch.tensor(numbers, dtype=torch.float64))
        spec.assert_is_in(projected)
        assert spec.project(projected) is projected
        for number, found in zip(numbers, projected.tolist(), strict=True):
            whole = 0 if math.isnan(number) else number
            assert found == min(max(round(whole) if math.isfinite(whole) else whole, 0), n - 1)


def test_provisional_n() -> None:
    spec = Categorical(-1, (3,))
    for use in (spec.rand, spec.cardinality, spec.enumerate, spec.to_one_hot_spec, lambda: spec.n):
        with pytest.raises(RuntimeError, match="set_provisional_n"):
            use()
    spec.set_provisional_n(2)
    assert spec.cardinality() == 8
    assert len(spec.enumerate()) == 8
    assert spec.is_in(torch.tensor([5, 6, 7]))
    with pytest.raises(RuntimeError, match="expected classes 0 … 1, got 5"):
        spec.to_one_hot(torch.tensor([0, 5, 1]))
    assert spec.space.n == -1
    spec.update_mask([True, False])
    assert spec.rand((20,)).sum() == 0
    assert not spec.is_in(torch.tensor([0, 0, 1]))
    assert not spec.is_in(torch.tensor([0, 0, 2]))
    with pytest.raises(ValueError, match="mask is over 2 classes"):
        spec.set_provisional_n(3)
    with pytest.raises(ValueError, match="n must be at least 1"):
        spec.set_provisional_n(0)
    with pytest.raises(RuntimeError, match="set_provisional_n"):
        Categorical(-1, mask=torch.tensor([True, False]))
    known = Categorical(3)
    known.set_provisional_n(9)
    assert known.n == 3


class TestMembers:
    def test_t20_all_of_them_in_order(self) -> None:
        spec = Categorical(3, (2,))
        assert spec.cardinality() == 9
        assert spec.enumerate().tolist() == [[a, b] for a in range(3) for b in range(3)]
        assert Categorical(4).enumerate().tolist() == [0, 1, 2, 3]
        assert Categorical(2, dtype=torch.bool).enumerate().tolist() == [False, True]
        assert Categorical(3, (0,)).enumerate().shape == (1, 0)

    def test_masked(self) -> None:
        spec = Categorical(3, (2,), mask=torch.tensor([[True, False, True], [False, True, True]]))
        assert spec.cardinality() == 9
        assert len(spec.enumerate()) == 9
        assert spec.enumerate(use_mask=True).tolist() == [[0, 1], [0, 2], [2, 1], [2, 2]]
        spec.update_mask([False] * 3)
        assert spec.enumerate(use_mask=True).shape == (0, 2)

    def test_too_many(self) -> None:
        assert Categorical(10, (100,)).cardinality() == 10**100
        with pytest.raises(NotImplementedError, match=r"can't be enumerated: it has about 10\^100 members"):
            Categorical(10, (100,)).enumerate()
        with pytest.raises(NotImplementedError, match=r"about 10\^9"):
            Categorical(10**9).enumerate()
        fixed = Categorical(10, (100,), mask=[True] + [False] * 9)
        assert fixed.enumerate(use_mask=True).tolist() == [[0] * 100]

    def test_variable(self) -> None:
        assert Categorical(3, (-1,)).cardinality() == math.inf
        with pytest.raises(NotImplementedError, match="infinitely many"):
            Categorical(3, (-1,)).enumerate()


class TestIndex:
    def test_one_choice_for_each_place(self) -> None:
        values = torch.arange(12).reshape(3, 4)
        spec = Categorical(4)
        assert spec.index(torch.tensor(2), torch.arange(4)).item() == 2
        assert spec.index(torch.tensor(2), values).tolist() == [2, 6, 10]
        assert spec.index(torch.tensor([3, 0, 1]), values).tolist() == [3, 4, 9]

    def test_the_last_dimension_lists_classes(self) -> None:
        values = torch.arange(12).reshape(3, 4)
        several = Categorical(4, (2,)).index(torch.tensor([3, 1]), values)
        assert several.tolist() == [[3, 1], [7, 5], [11, 9]]
        own = Categorical(4, (3, 1)).index(torch.tensor([[2], [1], [0]]), values)
        assert own.tolist() == [[2], [5], [8]]

    def test_what_is_no_class(self) -> None:
        for index in (2, [1], torch.tensor(4), torch.tensor(-1), torch.tensor(1.5)):
            with pytest.raises(ValueError, match="cannot index"):
                Categorical(4).index(index, torch.arange(4))
        for values in (torch.arange(3), torch.zeros(4, 3), torch.tensor(1)):
            with pytest.raises(ValueError, match="expected at least 4 entries"):
                Categorical(4).index(torch.tensor(0), values)


def test_shapes_given_as_none() -> None:
    assert Categorical(3, None).shape == ()
    assert Categorical(n=torch.tensor(3)).n == 3


def test_to() -> None:
    spec = Categorical(200, (2,))
    assert spec.to(torch.int16).dtype == torch.int16
    assert spec.to("meta").device.type == "meta"
    with pytest.raises(ValueError, match="holds at most 128 classes, got n=200"):
        spec.to(torch.int8)
    assert Categorical(-1).to(torch.int8).dtype == torch.int8


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_index_as_torchrl(shape: tuple[int, ...]) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    classes = torch.randint(4, shape)
    values = torch.randn(*shape[:-1], 4)
    assert torch.equal(
        Categorical(4, shape).index(classes, values),
        torchrl.Categorical(4, shape).index(classes, values),
    )
