"""Specs whose last dimension holds columns: nothing but singletons can be joined with it or split off it."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.specs import Categorical, LeafSpec, MultiCategorical, MultiOneHot, OneHot

MASK = [True, False, True, True, True]

SPECS: dict[str, LeafSpec] = {
    "onehot": OneHot(5, (2, 1, 5)),
    "onehot mask": OneHot(5, (2, 1, 5), mask=[[MASK], [[True] * 5]]),
    "onehot variable": OneHot(5, (-1, 1, 5), mask=MASK),
    "multi": MultiCategorical([3, 2], (2, 1, 2)),
    "multi mask": MultiCategorical([3, 2], (2, 1, 2), mask=MASK),
    "multi rows": MultiCategorical([[[3, 2]], [[4, 2]]]),
    "multi onehot": MultiOneHot([3, 2], (2, 1, 5), mask=MASK),
}
samples = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@samples
def test_singletons_are_joined_with_the_columns(spec: LeafSpec) -> None:
    joined = spec.flatten(1, 2)
    assert joined == spec.flatten(1, -1) == spec.squeeze(1)
    assert joined.is_in(spec.rand().flatten(1, 2))
    assert spec.flatten(2, 2) == spec


@samples
def test_singletons_are_split_off_the_columns(spec: LeafSpec) -> None:
    columns = spec.shape[-1]
    split = spec.unflatten(-1, (1, 1, columns))
    assert split == spec.unflatten(2, (1, 1, -1)) == spec.unsqueeze(1).unsqueeze(1)
    assert split.is_in(spec.rand().unflatten(-1, (1, 1, columns)))
    assert spec.unflatten(-1, (columns,)) == spec


@samples
def test_columns_are_neither_joined_nor_split(spec: LeafSpec) -> None:
    columns = spec.shape[-1]
    for change in (
        lambda: spec.flatten(0, 2),
        lambda: spec.unflatten(-1, (columns, 1)),
        lambda: spec.unsqueeze(-1),
        lambda: spec.make_neg_dim(-1),
    ):
        with pytest.raises(ValueError, match="holds its columns"):
            change()
    with pytest.raises(RuntimeError, match="cannot unflatten"):
        spec.unflatten(-1, (7, -1))


@pytest.mark.parametrize("spec", [*SPECS.values(), Categorical(3, (2, 1, 4))])
def test_the_order_of_dimensions(spec: LeafSpec) -> None:
    with pytest.raises(RuntimeError, match="cannot flatten"):
        spec.flatten(2, 1)


def test_no_dimensions() -> None:
    spec = Categorical(3, mask=[True, False, True])
    assert spec.flatten(0, -1) == spec.unsqueeze(0)
    assert spec.flatten(0, -1).shape == torch.zeros(()).flatten(0, -1).shape


def test_empty_dimensions_have_nothing_to_keep() -> None:
    with pytest.raises(ValueError, match="size 0"):
        MultiCategorical([[[3, 2]], [[4, 2]]])[:0].make_neg_dim(0)
