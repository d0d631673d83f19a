from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Categorical, OneHot

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64]


def hot(*classes: int, n: int = 4) -> list[Any]:
    rows = [[place == index for place in range(n)] for index in classes]
    return rows[0] if len(rows) == 1 else rows


class TestEncode:
    @pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2), 2.0, [2]])
    def test_one_class(self, value: Any) -> None:
        for shape in (None, (1, 4)):
            encoded = OneHot(4, shape).encode(value)
            assert encoded.reshape(-1).tolist() == hot(2)
            assert encoded.shape == (shape or (4,))
        assert OneHot(4).encode(torch.tensor(value).reshape(())).tolist() == hot(2)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_dtypes(self, dtype: torch.dtype) -> None:
        spec = OneHot(4, (3, 4), dtype=dtype)
        for value in ([2, 0, 3], np.array([2, 0, 3], np.int16), torch.tensor([2, 0, 3])):
            encoded = spec.encode(value)
            assert encoded.dtype == dtype
            assert encoded.bool().tolist() == hot(2, 0, 3)
        assert OneHot(4, dtype=dtype).encode(1).dtype == dtype

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_t13_one_hot_data_stay(self, dtype: torch.dtype) -> None:
        spec = OneHot(4, (2, 4), dtype=dtype)
        value = spec.rand()
        for given in (value, value.float().numpy(), value.long().tolist()):
            assert torch.equal(spec.encode(given), value)
        assert spec.encode(value) is value
        with pytest.raises(AssertionError, match=r"single 1 among zeros, got .* at index \(1,\)"):
            spec.encode([[0, 1, 0, 0], [0, 1, 1, 0]])

    def test_only_one_class(self) -> None:
        for value in (0, [0], [1], np.zeros(1), torch.zeros(1), torch.ones(1, dtype=torch.bool)):
            assert OneHot(1).encode(value).bool().tolist() == [True]

    @pytest.mark.parametrize("wrong", [-1, 4, 99])
    def test_classes_that_do_not_exist(self, wrong: int) -> None:
        for value in (wrong, np.array(wrong), torch.tensor(wrong)):
            with pytest.raises(AssertionError, match=rf"classes 0 … 3, got {wrong}$"):
                OneHot(4).encode(value)
        for value in ([0, wrong], np.array([0, wrong]), torch.tensor([0.0, wrong])):
            with pytest.raises(AssertionError, match=rf"got {wrong}(\.0)? at index \(1,\)"):
                OneHot(4, (2, 4)).encode(value)
        with pytest.raises(AssertionError):
            OneHot(4).encode(torch.tensor(1.5))

    def test_masked(self) -> None:
        spec = OneHot(4, mask=[True, False, True, True])
        assert spec.encode(2).tolist() == hot(2)
        for value in (1, np.array(1), torch.tensor(1), [0, 1, 0, 0]):
            with pytest.raises(AssertionError, match="mask allows"):
                spec.encode(value)

    def test_variable_sizes(self) -> None:
        spec = OneHot(4, (-1, 4))
        assert spec.encode([1, 2, 3]).tolist() == hot(1, 2, 3)
        assert spec.encode(hot(1, 2, 3)).tolist() == hot(1, 2, 3)
        assert spec.rand().shape == (1, 4)
        assert spec.zero((2,)).shape == (2, 1, 4)
        assert spec.is_in(torch.tensor(hot(1, 2, 3)))


class TestRegister:
    def test_values_become_classes_as_they_are_seen(self) -> None:
        spec = OneHot(3, use_register=True)
        assert spec.use_register
        assert spec.encode(70).tolist() == hot(0, n=3)
        assert spec.encode(np.int64(7)).tolist() == hot(1, n=3)
        assert spec.encode(torch.tensor(70)).tolist() == hot(0, n=3)
        assert spec.encode("left").tolist() == hot(2, n=3)
        for value in (70, 7):
            assert spec.to_numpy(spec.encode(value)).item() == value
        with pytest.raises(AssertionError, match="at most 3 different values, got one more: 8"):
            spec.encode(8)

    def test_batches(self) -> None:
        spec = OneHot(3, (2, 2, 3), use_register=True)
        array = np.array([["b", "a"], ["c", "b"]])
        encoded = spec.encode(array)
        assert spec.to_categorical(encoded).tolist() == [[0, 1], [2, 0]]
        assert np.array_equal(spec.to_numpy(encoded), array)
        assert spec.encode(encoded) is encoded
        with pytest.raises(RuntimeError, match="class indices of shape"):
            spec.encode(["a", "b"])
        with pytest.raises(TypeError, match="numbers or texts"):
            OneHot(3, use_register=True).encode(None)

    def test_a_refused_batch_is_not_remembered(self) -> None:
        spec = OneHot(2, (3, 2), use_register=True)
        with pytest.raises(AssertionError):
            spec.encode([5, 6, 7])
        assert spec.to_categorical(spec.encode([7, 6, 7])).tolist() == [0, 1, 0]

    def test_classes_that_stand_for_nothing_yet(self) -> None:
        with pytest.raises(KeyError, match="no value was encoded as class 0 yet"):
            OneHot(3, use_register=True).to_numpy(torch.tensor(hot(0, n=3)))

    def test_copies_go_their_own_way(self) -> None:
        spec = OneHot(3, use_register=True)
        spec.encode("a")
        for twin in (
            spec.clone(),
            copy.deepcopy(spec),
            pickle.loads(pickle.dumps(spec)),
            spec.to(torch.int64),
        ):
            assert twin.use_register
            assert twin.encode("b").bool().tolist() == hot(1, n=3)
        assert spec.encode("c").tolist() == hot(1, n=3)
        assert spec.expand(2, 3).to_numpy(torch.tensor(hot(0, 1, n=3))).tolist() == ["a", "c"]
        assert spec == OneHot(3, use_register=True) != OneHot(3)


class TestMembers:
    def test_all_of_them_in_order(self) -> None:
        spec = OneHot(3, (2, 3), dtype=torch.int64)
        assert spec.cardinality() == 9
        members = spec.enumerate()
        assert members.dtype == torch.int64
        assert torch.equal(spec.to_categorical(members), Categorical(3, (2,)).enumerate())
        assert OneHot(4).enumerate().tolist() == hot(0, 1, 2, 3)
        assert OneHot(3, (0, 3)).enumerate().shape == (1, 0, 3)

    def test_masked(self) -> None:
        spec = OneHot(3, mask=[True, False, True])
        assert spec.cardinality() == len(spec.enumerate()) == 3
        assert spec.enumerate(use_mask=True).tolist() == hot(0, 2, n=3)

    def test_variable(self) -> None:
        assert OneHot(3, (-1, 3)).cardinality() == math.inf


class TestIndex:
    def test_as_class_indices(self) -> None:
        values = torch.arange(12).reshape(3, 4)
        for vectors, shape in (
            (torch.tensor(hot(2)), (4,)),
            (torch.tensor(hot(2, 1, 0)), (3, 4)),
            (torch.tensor([hot(2, 1)]).float(), (1, 2, 4)),
        ):
            classes = vectors.long().argmax(-1).flatten()
            chosen = OneHot(4, shape).index(vectors, values)
            assert torch.equal(chosen, values[:, classes])

    def test_what_is_not_one_hot(self) -> None:
        for index in (2, torch.tensor([0, 1, 1, 0]), torch.zeros(4), torch.ones(3), torch.tensor(1)):
            with pytest.raises(ValueError, match="cannot index"):
                OneHot(4).index(index, torch.arange(4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_membership(dtype: torch.dtype) -> None:
    spec = OneHot(3, dtype=dtype)
    assert spec.is_in(torch.tensor([0, 1, 0], dtype=dtype))
    for wrong in ([0, 0, 0], [1, 1, 0], [1, 1, 1]):
        assert not spec.is_in(torch.tensor(wrong, dtype=dtype))
        assert not OneHot(3, (2, 3), dtype=dtype).is_in(torch.tensor([[0, 1, 0], wrong], dtype=dtype))
    if dtype != torch.bool:
        assert not spec.is_in(torch.tensor([0, 2, 0], dtype=dtype))
    if dtype.is_floating_point:
        for wrong_floats in ([0.5, 0.5, 0], [2 / 3, 2 / 3, -1 / 3], [1, math.nan, 0], [math.inf, 0, 0]):
            assert not spec.is_in(torch.tensor(wrong_floats, dtype=dtype))


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_index_as_torchrl(shape: tuple[int, ...]) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    vectors = OneHot(4, shape).rand()
    values = torch.randn(*shape)
    assert torch.equal(
        OneHot(4, shape).index(vectors, values),
        torchrl.OneHot(4, shape).index(vectors, values),
    )
