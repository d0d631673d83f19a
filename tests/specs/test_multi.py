"""`MultiCategorical` and `MultiOneHot`: several classes side by side."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    BoxList,
    CategoricalBox,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Stacked,
)

ROWS = [[3, 2], [2, 4]]


class TestMultiCategoricalArguments:
    @pytest.mark.parametrize(
        "nvec", [[3, 2], (3, 2), np.array([3, 2]), torch.tensor([3, 2]), [np.int64(3), 2]], ids=str
    )
    def test_nvec(self, nvec: Any) -> None:
        spec = MultiCategorical(nvec)
        assert spec == MultiCategorical([3, 2])
        assert spec.nvec.tolist() == [3, 2]
        assert spec.space == BoxList((CategoricalBox(3), CategoricalBox(2)))

    def test_rows(self) -> None:
        spec = MultiCategorical(ROWS)
        assert spec.nvec.tolist() == ROWS
        assert spec.space == BoxList(
            (
                BoxList((CategoricalBox(3), CategoricalBox(2))),
                BoxList((CategoricalBox(2), CategoricalBox(4))),
            )
        )
        assert spec.cardinality() == 3 * 2 * 2 * 4
        assert len(spec.enumerate().unique(dim=0)) == spec.cardinality()
        spec.assert_is_in(spec.enumerate())
        assert MultiCategorical(ROWS, (5, 2, 2)).nvec.shape == (5, 2, 2)
        assert MultiCategorical([[3, 2], [3, 2]]) == MultiCategorical([3, 2], (2, 2))
        assert spec != MultiCategorical([[3, 2], [2, 5]])

    def test_refused(self) -> None:
        for nvec in ([], [2, 0], [-1], np.zeros((0, 2), np.int64)):
            with pytest.raises(ValueError, match="each at least 1"):
                MultiCategorical(nvec)
        for wrong in ([2.5], "ab"):
            with pytest.raises(TypeError):
                MultiCategorical(wrong)
        with pytest.raises(ValueError, match="holds at most 128 classes, got nvec"):
            MultiCategorical([2, 129], dtype=torch.int8)
        with pytest.raises(ValueError, match="shape must end with that of nvec"):
            MultiCategorical(ROWS, (3, 2))

    def test_one_column(self) -> None:
        assert MultiCategorical(3).rand().shape == (1,)
        assert MultiCategorical(3).rand((2,)).shape == (2, 1)
        assert not MultiCategorical(3).is_in(torch.tensor(2))
        spec = MultiCategorical(3, remove_singleton=True)
        assert spec.remove_singleton
        assert spec.shape == spec.zero().shape == (1,)
        for lead in ((), (5,), (2, 3)):
            drawn = spec.rand(lead)
            assert drawn.shape == lead
            assert spec.is_in(drawn)
            assert spec.project(drawn) is drawn
            assert spec.encode(drawn) is not None
        assert not spec.is_in(torch.tensor(3))
        assert spec.is_in(torch.tensor([2]))
        assert spec.project(torch.tensor(7)).item() == 2
        assert spec.to_one_hot(torch.tensor(2)).tolist() == [False, False, True]
        assert spec.expand(4, 1).rand().shape == (4, 1)
        assert spec != MultiCategorical(3)

    def test_meta(self) -> None:
        for spec in (MultiCategorical([3, 2], (4, 2)), MultiCategorical(ROWS)):
            moved = spec.to("meta")
            assert moved.device.type == moved.zero().device.type == "meta"
            assert moved.expand(5, *spec.shape).shape == (5, *spec.shape)
        assert MultiCategorical([3, 2]).to("meta").space == MultiCategorical([3, 2]).space

    def test_variable(self) -> None:
        spec = MultiCategorical([3, 2], (-1, 2))
        assert spec.rand((5,)).shape == (5, 1, 2)
        assert spec.nvec.tolist() == [[3, 2]]
        assert spec.is_in(torch.tensor([[2, 1]] * 7))
        assert not spec.is_in(torch.tensor([[2, 1], [0, 2]]))
        assert spec.encode([[2, 1]] * 3).shape == (3, 2)
        assert spec.cardinality() == math.inf
        assert MultiCategorical(ROWS, (-1, 2, 2)).is_in(torch.tensor([[[2, 1], [1, 3]]] * 4))


class TestMultiCategoricalIndexing:
    """As TorchRL does it: like a tensor, the columns included."""

    spec = MultiCategorical([3, 2, 5], (4, 3))

    def test_rows(self) -> None:
        assert self.spec[1] == self.spec[-1] == MultiCategorical([3, 2, 5])
        assert self.spec[1:] == MultiCategorical([3, 2, 5], (3, 3))
        assert self.spec[None].shape == (1, 4, 3)
        assert self.spec[[True, False, True, False]] == self.spec[:2]
        assert MultiCategorical(ROWS)[0] == MultiCategorical([3, 2])

    def test_columns(self) -> None:
        assert self.spec[:, 1:] == MultiCategorical([2, 5], (4, 2))
        assert self.spec[..., [2, 0]] == MultiCategorical([5, 3], (4, 2))
        assert self.spec[:, 1] == MultiCategorical([2] * 4)
        assert self.spec[0, 2] == MultiCategorical(5, remove_singleton=True)
        assert torch.index_select(self.spec, 1, torch.tensor([2])) == self.spec[:, 2:]
        value = self.spec.rand()
        for index in (1, (slice(None), 1), (0, 2), (..., [0, 2]), (slice(1, 3), slice(1))):
            self.spec[index].assert_is_in(value[index])

    def test_too_far(self) -> None:
        for index in ((0, 3), (0, 0, 0), 4):
            with pytest.raises(IndexError):
                self.spec[index]

    def test_masked_columns(self) -> None:
        masked = MultiCategorical([3, 2], (4, 2), mask=[True, False, True, True, False])
        assert masked[0].mask.tolist() == [True, False, True, True, False]
        with pytest.raises(IndexError, match="it is masked"):
            masked[:, 0]


class TestMultiCategoricalValues:
    def test_encode(self) -> None:
        spec = MultiCategorical([3, 2], (2, 2))
        for value in ([[2, 1], [0, 0]], np.array([[2, 1], [0, 0]]), np.array([[2, 1], [0, 0]], np.uint8)):
            assert spec.encode(value).tolist() == [[2, 1], [0, 0]]
        for wrong in ([[2, 1], [0, 2]], np.array([[2, 1], [0, -1]]), torch.tensor([[3, 0], [0, 0]])):
            with pytest.raises(AssertionError, match="cannot encode: expected classes 0 …"):
                spec.encode(wrong)
        assert MultiCategorical(ROWS).encode([[2, 1], [1, 3]]).tolist() == [[2, 1], [1, 3]]
        with pytest.raises(AssertionError, match=r"classes 0 … 1, got 2 at index \(1, 0\)"):
            MultiCategorical(ROWS).encode([[2, 1], [2, 3]])

    def test_index_is_that_of_the_one_hot_vectors(self) -> None:
        spec = MultiCategorical([2, 3])
        values = torch.arange(10).reshape(2, 5)
        assert spec.index(torch.tensor([1, 2]), values).tolist() == [[1, 4], [6, 9]]
        vectors = spec.to_one_hot(torch.tensor([1, 2]))
        assert torch.equal(
            spec.to_one_hot_spec().index(vectors, values),
            spec.index(torch.tensor([1, 2]), values),
        )
        for wrong in (torch.tensor([2, 0]), torch.tensor([1]), 1):
            with pytest.raises(ValueError, match="cannot index"):
                spec.index(wrong, values)
        with pytest.raises(ValueError, match=r"rows of .* differ"):
            MultiCategorical(ROWS).index(torch.zeros(2, 2, dtype=torch.int64), values)

    def test_rows_that_differ_as_vectors(self) -> None:
        spec = MultiCategorical(ROWS)
        nested = spec.to_one_hot(torch.tensor([[1, 1], [0, 3]]))
        assert [row.tolist() for row in nested.unbind()] == [
            [False, True, False, False, True],
            [True, False, False, False, False, True],
        ]
        stack = spec.to_one_hot_spec()
        assert isinstance(stack, Stacked)
        assert stack.is_in(nested)
        with pytest.raises(RuntimeError, match="nested tensor"):
            spec.to_one_hot(spec.rand((3,)))
        with pytest.raises(RuntimeError, match="cannot convert"):
            spec.to_one_hot(torch.tensor([[1, 1], [2, 3]]))


class TestMultiOneHot:
    spec = MultiOneHot([3, 2], (4, 5))

    def test_arguments(self) -> None:
        for nvec in ((3, 2), np.array([3, 2]), torch.tensor([3, 2])):
            spec = MultiOneHot(nvec)
            assert spec == MultiOneHot([3, 2])
            assert spec.nvec == [3, 2]
            assert spec.shape == (5,)
            assert spec.dtype == torch.bool
        assert self.spec.space == BoxList((CategoricalBox(3), CategoricalBox(2)))
        assert repr(self.spec) == "MultiOneHot(nvec=[3, 2], shape=(4, 5), dtype=bool, device=cpu)"
        with pytest.raises(ValueError, match=r"must be sum\(nvec\)=5, got shape \(4,\)"):
            MultiOneHot([3, 2], (4,))
        for wrong in (3, ROWS, [2.5]):
            with pytest.raises(TypeError, match="nvec"):
                MultiOneHot(wrong)
        for nvec in ([], [0, 1]):
            with pytest.raises(ValueError, match="each at least 1"):
                MultiOneHot(nvec)
        assert MultiOneHot([3, 2]) != MultiOneHot([2, 3])

    def test_rand_is_uniform(self) -> None:
        torch.manual_seed(0)
        drawn = MultiOneHot([3, 2], dtype=torch.float32).rand((6000,))
        assert torch.allclose(drawn.mean(0), torch.tensor([1 / 3] * 3 + [1 / 2] * 2), atol=0.03)

    def test_membership(self) -> None:
        spec = MultiOneHot([3, 2], dtype=torch.int64)
        assert spec.is_in(torch.tensor([0, 0, 1, 1, 0]))
        for wrong in ([0, 0, 1, 0, 0], [1, 0, 0, 1, 1], [1, 1, 0, 0, 0], [0, 2, 0, 1, 0], [1, 1, -1, 1, 0]):
            assert not spec.is_in(torch.tensor(wrong))
        assert not spec.is_in(torch.tensor([1, 0, 0, 1]))
        with pytest.raises(AssertionError, match=r"single 1 among zeros in group 1, got \[1, 1\]"):
            spec.assert_is_in(torch.tensor([1, 0, 0, 1, 1]))
        with pytest.raises(AssertionError, match=r"in group 0, got \[0, 0, 0\] at index \(1,\)"):
            spec.assert_is_in(torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 1, 0]]))

    def test_project_takes_the_greatest_of_each_group(self) -> None:
        spec = MultiOneHot([3, 2])
        assert spec.project(torch.tensor([0.1, 0.7, 0.7, -1, math.nan])).int().tolist() == [0, 1, 0, 1, 0]
        assert spec.project(torch.zeros(2, 5)).int().tolist() == [[1, 0, 0, 1, 0]] * 2
        member = spec.rand((3,))
        assert spec.project(member) is member

    def test_encode(self) -> None:
        for value in ([[2, 1]] * 4, np.array([[2, 1]] * 4, np.int32), torch.tensor([[2, 1]] * 4)):
            assert self.spec.encode(value).int().tolist() == [[0, 0, 1, 0, 1]] * 4
        assert self.spec.encode([[0, 0, 1, 0, 1]] * 4).int().tolist() == [[0, 0, 1, 0, 1]] * 4
        assert MultiOneHot([3, 2]).encode(torch.tensor([[0, 1], [2, 0]])).shape == (2, 5)
        with pytest.raises(AssertionError, match="in group 1"):
            MultiOneHot([3, 2]).encode([0, 0, 1, 0, 0])
        for shape in ([1], [1, 1, 1], 1):
            with pytest.raises(
                RuntimeError, match=r"class indices of shape \(2,\) or one-hot vectors of shape"
            ):
                MultiOneHot([3, 2]).encode(shape)

    @pytest.mark.parametrize("wrong", [[0, 2], [-1, 0], np.array([3, 0]), torch.tensor([0, 2])], ids=str)
    def test_classes_that_do_not_exist(self, wrong: Any) -> None:
        with pytest.raises(RuntimeError, match="cannot encode: expected classes 0 …"):
            MultiOneHot([3, 2]).encode(wrong)

    def test_groups_of_one_class(self) -> None:
        spec = MultiOneHot([1, 1])
        for value in ([0, 0], [1, 1], torch.zeros(2), np.ones(2)):
            assert spec.encode(value).bool().tolist() == [True, True]
        assert spec.to_numpy(spec.rand()).tolist() == [0, 0]
        with pytest.raises(AssertionError):
            spec.encode([0, 1])

    def test_to_numpy(self) -> None:
        vectors = torch.tensor([[0, 0, 1, 0, 1], [1, 0, 0, 1, 0]], dtype=torch.bool)
        assert MultiOneHot([3, 2]).to_numpy(vectors).tolist() == [[2, 1], [0, 0]]
        with pytest.raises(AssertionError):
            MultiOneHot([3, 2]).to_numpy(~vectors, safe=True)

    def test_members(self) -> None:
        spec = MultiOneHot([2, 3], dtype=torch.int64)
        assert spec.cardinality() == 6
        assert torch.equal(spec.to_categorical(spec.enumerate()), MultiCategorical([2, 3]).enumerate())
        assert MultiOneHot([2, 3], (2, 5)).cardinality() == 36

    def test_index(self) -> None:
        values = torch.arange(10).reshape(2, 5)
        vectors = torch.tensor([[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]])
        spec = MultiOneHot([2, 3])
        assert spec.index(vectors[0], values).tolist() == [[1, 4], [6, 9]]
        assert spec.index(vectors, values).tolist() == [[1, 0, 4, 2], [6, 5, 9, 7]]
        with pytest.raises(ValueError, match="cannot index"):
            spec.index(torch.ones(5), values)

    def test_shapes(self) -> None:
        assert self.spec[1] == self.spec.unbind()[0] == MultiOneHot([3, 2])
        assert self.spec.expand(7, 4, 5).reshape(28, 5) == MultiOneHot([3, 2], (28, 5))
        for change in (
            lambda: self.spec.reshape(5, 4),
            lambda: self.spec.unsqueeze(-1),
            lambda: self.spec.flatten(0, 1),
            lambda: self.spec.make_neg_dim(1),
        ):
            with pytest.raises(ValueError, match="columns"):
                change()
        with pytest.raises(IndexError):
            self.spec[0, 0]
        for twin in (self.spec.clone(), copy.deepcopy(self.spec), pickle.loads(pickle.dumps(self.spec))):
            assert twin == self.spec
        assert self.spec.to("meta").device.type == "meta"
        assert self.spec.to(torch.float32).rand().dtype == torch.float32
        assert self.spec.make_neg_dim(0) == MultiOneHot([3, 2], (-1, 5))
        assert MultiOneHot([3, 2], (-1, 5)).encode([[2, 0]] * 3).shape == (3, 5)

    def test_register(self) -> None:
        spec = MultiOneHot([3, 2], (2, 5), use_register=True)
        array = np.array([[7, 30], [5, 30]])
        encoded = spec.encode(array)
        assert spec.to_categorical(encoded).tolist() == [[0, 0], [1, 0]]
        assert np.array_equal(spec.to_numpy(encoded), array)
        part = spec[0]
        assert part.to_numpy(part.encode([5, 31])).tolist() == [5, 31]
        with pytest.raises(AssertionError, match="at most 2 different values"):
            spec.encode([[7, 31], [7, 32]])


@pytest.mark.peers
@pytest.mark.parametrize("lead", [None, (), (4,), (2, 3)], ids=str)
@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 5)], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_the_same_numbers_as_torchrl(lead: Any, shape: tuple[int, ...], masked: bool) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    mask = torch.tensor([True, False, True, True, True]) if masked else None
    for ours, theirs in (
        (MultiOneHot([3, 2], shape, mask=mask), torchrl.MultiOneHot([3, 2], shape, mask=mask)),
        (
            MultiCategorical([3, 2], (*shape[:-1], 2), mask=mask),
            torchrl.MultiCategorical([3, 2], (*shape[:-1], 2), mask=mask),
        ),
        (
            OneHot(5, shape, mask=mask),
            torchrl.OneHot(5, shape, mask=mask),
        ),
    ):
        torch.manual_seed(0)
        drawn = ours.rand(lead)
        state = torch.get_rng_state()
        torch.manual_seed(0)
        assert torch.equal(drawn, theirs.rand(lead))
        assert torch.equal(state, torch.get_rng_state())
        assert theirs.is_in(drawn)


@pytest.mark.peers
def test_conversions_as_torchrl() -> None:
    torchrl = pytest.importorskip("torchrl.data")
    ours, theirs = MultiOneHot([3, 2, 4], (6, 9)), torchrl.MultiOneHot([3, 2, 4], (6, 9))
    drawn = ours.rand((7,))
    assert torch.equal(ours.to_categorical(drawn), theirs.to_categorical(drawn))
    assert np.array_equal(ours.to_numpy(drawn), theirs.to_numpy(drawn))
    assert torch.equal(ours[0].enumerate(), torchrl.MultiOneHot([3, 2, 4]).enumerate())
    spec = MultiCategorical(ROWS)
    value = spec.rand()
    nested = torchrl.MultiCategorical(ROWS).to_one_hot(value)
    assert all(map(torch.equal, spec.to_one_hot(value).unbind(), nested.unbind()))


@pytest.mark.peers
@pytest.mark.parametrize(
    "index",
    [1, -1, (1, 2), (slice(None), 1), (..., 0), None, slice(1, 3), (slice(None), slice(1)), [2, 0]],
    ids=str,
)
def test_indices_as_torchrl(index: Any) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    for nvec, shape in (([3, 2, 5], (4, 3)), (torch.arange(1, 13).reshape(4, 3), None)):
        ours = MultiCategorical(nvec, shape)[index]
        theirs = torchrl.MultiCategorical(nvec, shape)[index]
        assert ours.shape == theirs.shape
        assert torch.equal(ours.nvec, theirs.nvec)
