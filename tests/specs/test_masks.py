"""Masks, on every class of specs that has them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Categorical, LeafSpec, MultiCategorical, MultiOneHot, OneHot
from specgen_runtime.specs.classes.masks import draw_allowed, greatest_allowed, nearest_allowed, read_mask
from specgen_runtime.specs.classes.spec import ClassSpec

CPU = torch.device("cpu")
# The mask of each spec allows classes 0 and 2 of three, and class 1 of two.
THREE, FIVE = [True, False, True], [True, False, True, False, True]
MASKED: dict[str, Callable[[Any], ClassSpec]] = {
    "categorical": lambda mask: Categorical(3, (4,), mask=mask),
    "onehot": lambda mask: OneHot(3, (4, 3), mask=mask),
    "multi_categorical": lambda mask: MultiCategorical([3, 2], (4, 2), mask=mask),
    "multi_onehot": lambda mask: MultiOneHot([3, 2], (4, 5), mask=mask),
}
masked = pytest.mark.parametrize("name", MASKED)


def row(name: str) -> list[bool]:
    return FIVE if name.startswith("multi") else THREE


def allowed_rows(spec: ClassSpec, value: torch.Tensor) -> set[tuple[int, ...]]:
    classes = spec.to_categorical(value)
    columns = classes if isinstance(spec, MultiCategorical | MultiOneHot) else classes.unsqueeze(-1)
    return {tuple(entry) for entry in columns.reshape(-1, columns.shape[-1]).tolist()}


@masked
class TestEveryClass:
    def test_forms(self, name: str) -> None:
        one = row(name)
        expected = MASKED[name](torch.tensor(one))
        for form in (
            one,
            tuple(one),
            np.array(one),
            np.array(one, np.int8),
            torch.tensor(one, dtype=torch.int64),
            torch.tensor([one] * 4),
            torch.tensor([one]),
        ):
            assert MASKED[name](form) == expected
        assert expected.mask is not None
        assert expected.mask.shape == (4, len(one))
        assert expected.mask.dtype == torch.bool
        assert expected != MASKED[name](None)
        assert "masked" in repr(expected)

    def test_refused(self, name: str) -> None:
        one = row(name)
        spec = MASKED[name](None)
        for shape in ((len(one) + 1,), (3, len(one)), (2, 4, len(one))):
            with pytest.raises(RuntimeError, match="must broadcast to"):
                spec.update_mask(torch.ones(shape, dtype=torch.bool))
        for wrong in (torch.ones(len(one)), torch.full((len(one),), 2)):
            with pytest.raises(ValueError, match="must hold bools"):
                spec.update_mask(wrong)
        assert spec.mask is None

    def test_draws(self, name: str) -> None:
        torch.manual_seed(0)
        spec = MASKED[name](row(name))
        expected = {(0, 1), (2, 1)} if name.startswith("multi") else {(0,), (2,)}
        for lead in (None, (), (50,), (2, 25)):
            drawn = spec.rand(lead)
            assert drawn.shape == (*(lead or ()), *spec.shape)
            assert drawn.dtype == spec.dtype
            spec.assert_is_in(drawn)
        assert allowed_rows(spec, spec.rand((50,))) == expected

    def test_members(self, name: str) -> None:
        spec = MASKED[name](row(name))
        free = MASKED[name](None)
        others = [value for value in free.enumerate() if not spec.is_in(value)]
        assert len(others) == free.cardinality() - 2**4
        with pytest.raises(AssertionError, match="mask allows"):
            spec.assert_is_in(others[0])
        with pytest.raises(AssertionError, match="mask allows"):
            spec.encode(others[0])
        with pytest.raises(AssertionError, match="mask allows"):
            spec.encode(free.to_numpy(others[0]))
        inside = spec.enumerate(use_mask=True)
        assert len(inside) == 2**4
        spec.assert_is_in(inside)
        assert torch.equal(spec.encode(spec.to_numpy(inside[3])), inside[3])

    def test_projections(self, name: str) -> None:
        spec = MASKED[name](row(name))
        for value in MASKED[name](None).enumerate()[::7]:
            projected = spec.project(value)
            spec.assert_is_in(projected)
            assert spec.project(projected) is projected
            assert (projected is value) == spec.is_in(value)

    def test_t19_they_survive(self, name: str) -> None:
        spec = MASKED[name](row(name))
        outside = next(value for value in MASKED[name](None).enumerate() if not spec.is_in(value))
        grown = spec.expand(2, *spec.shape)
        for changed, value in (
            (spec.clone(), outside),
            (copy.deepcopy(spec), outside),
            (pickle.loads(pickle.dumps(spec)), outside),
            (spec.to(torch.int32), outside.int()),
            (grown, outside.expand(grown.shape)),
            (grown[1], outside),
            (grown.unbind(0)[0], outside),
            (torch.stack([spec, spec.clone()])[0], outside),
            (spec.unsqueeze(0).squeeze(0), outside),
            (grown.reshape(8, *spec.shape[1:]).unflatten(0, (2, 4)), outside.expand(grown.shape)),
            (spec.make_neg_dim(0), outside),
        ):
            assert isinstance(changed, ClassSpec)
            assert changed.mask is not None
            assert not changed.is_in(value)
            changed.assert_is_in(changed.rand((3,)))

    def test_rows_of_their_own(self, name: str) -> None:
        rows = torch.tensor([row(name), [True] * len(row(name)), row(name), row(name)])
        spec = MASKED[name](rows)
        assert spec.mask is not None
        assert torch.equal(spec.mask, rows)
        assert spec[1].mask.all()  # type: ignore[union-attr]
        assert spec[0] != spec[1]
        with pytest.raises(ValueError, match="can't be variable"):
            spec.make_neg_dim(0)

    def test_updates_are_in_place_and_independent(self, name: str) -> None:
        given = torch.tensor(row(name))
        spec = MASKED[name](given)
        twin = spec.clone()
        given.fill_(True)
        assert not spec.mask.all()  # type: ignore[union-attr]
        spec.update_mask(None)
        assert spec == MASKED[name](None)
        assert twin == MASKED[name](row(name))

    def test_nothing_allowed(self, name: str) -> None:
        spec = MASKED[name]([False] * len(row(name)))
        with pytest.raises(RuntimeError, match="cannot draw: a row of the mask allows no class"):
            spec.rand()
        with pytest.raises(ValueError, match="cannot project: a row of the mask allows no class"):
            spec.project(spec.zero())
        assert len(spec.enumerate(use_mask=True)) == 0
        assert not spec.is_in(MASKED[name](None).rand())

    def test_variable_sizes(self, name: str) -> None:
        spec = MASKED[name](row(name)).make_neg_dim(0)
        assert spec.mask.shape == (1, len(row(name)))  # type: ignore[union-attr]
        drawn = torch.cat([spec.rand() for _ in range(9)])
        assert spec.is_in(drawn)
        outside = MASKED[name](None).enumerate()
        assert not spec.is_in(outside.reshape(-1, *outside.shape[2:]))


def test_rows_that_differ_cannot_be_masked() -> None:
    with pytest.raises(ValueError, match="differ from row to row"):
        MultiCategorical([[3, 2], [2, 3]], mask=FIVE)


def test_the_nearest_allowed_class() -> None:
    spec = Categorical(6, (6,), mask=[False, True, False, False, True, False])
    assert spec.project(torch.arange(6)).tolist() == [1, 1, 1, 4, 4, 4]
    multi = MultiCategorical([3, 3], mask=[True, False, True, False, False, True])
    assert multi.project(torch.tensor([1, 0])).tolist() == [0, 2]


def test_the_greatest_allowed_class() -> None:
    spec = MultiOneHot([3, 2], mask=FIVE)
    assert spec.project(torch.tensor([0.0, 9, -torch.inf, 5, -torch.inf])).int().tolist() == [1, 0, 0, 0, 1]


def test_a_mask_for_all_classes_may_have_more_dimensions() -> None:
    assert Categorical(3, mask=[THREE]) == Categorical(3, mask=THREE)
    assert OneHot(3, mask=[[THREE]]) == OneHot(3, mask=THREE)
    with pytest.raises(RuntimeError):
        Categorical(6, mask=torch.ones(2, 3, dtype=torch.bool))


class TestFunctions:
    def test_read_mask(self) -> None:
        given = torch.tensor(THREE)
        read = read_mask(given, (2, 3), CPU)
        assert read.tolist() == [THREE, THREE]
        given.fill_(False)
        assert read.any()

    def test_draws_are_uniform(self) -> None:
        torch.manual_seed(0)
        mask = torch.tensor([[True, False, True, True], [False, True, False, False]])
        drawn = draw_allowed(mask, torch.Size([9000, 2]))
        assert drawn.shape == (9000, 2)
        assert torch.allclose(drawn[:, 0].bincount() / 9000, torch.tensor([1, 0, 1, 1]) / 3, atol=0.02)
        assert (drawn[:, 1] == 1).all()
        assert draw_allowed(mask, torch.Size([0, 2])).shape == (0, 2)

    def test_nearest_takes_the_lower_of_two(self) -> None:
        assert nearest_allowed(
            torch.tensor([1, 2, 3]), torch.tensor([True, False, False, False, True])
        ).tolist() == [
            0,
            0,
            4,
        ]

    def test_greatest(self) -> None:
        scores = torch.tensor([[1.0, 3.0, 3.0], [float("nan"), -torch.inf, -torch.inf]])
        assert greatest_allowed(scores, None).tolist() == [1, 0]
        assert greatest_allowed(scores, torch.tensor([True, False, True])).tolist() == [2, 0]
        assert greatest_allowed(scores, torch.tensor([False, False, True])).tolist() == [2, 2]
        # What is masked never wins, however small the others are.
        assert greatest_allowed(scores, torch.tensor([False, True, True])).tolist() == [1, 1]


@pytest.mark.peers
@masked
@pytest.mark.parametrize("lead", [None, (), (5,), (2, 3)], ids=str)
def test_the_same_numbers_as_torchrl(name: str, lead: Any) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    mask = torch.tensor(row(name))
    ours: LeafSpec = MASKED[name](mask)
    theirs = {
        "categorical": lambda: torchrl.Categorical(3, (4,), mask=mask),
        "onehot": lambda: torchrl.OneHot(3, (4, 3), mask=mask),
        "multi_categorical": lambda: torchrl.MultiCategorical([3, 2], (4, 2), mask=mask),
        "multi_onehot": lambda: torchrl.MultiOneHot([3, 2], (4, 5), mask=mask),
    }[name]()
    torch.manual_seed(3)
    drawn = ours.rand(lead)
    torch.manual_seed(3)
    assert torch.equal(drawn, theirs.rand(lead))
    assert torch.equal(ours.mask, theirs.mask)  # type: ignore[attr-defined]
    free = MASKED[name](None)
    for value in free.enumerate()[::11]:
        assert ours.is_in(value) == bool(theirs.is_in(value))
