"""Specs on the meta device, where shapes are known and numbers are not; and on another device than their data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    LeafSpec,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)

META = torch.device("meta")
MASK = [True, False, True, True, True]

MAKE: dict[str, Callable[[str], LeafSpec]] = {
    "bounded": lambda device: Bounded(-1, 1, (2, 3), device),
    "bounded rows": lambda device: Bounded(-np.ones((2, 3)), np.arange(6.0).reshape(2, 3), device=device),
    "bounded integers": lambda device: Bounded(0, 5, (2, 3), device, torch.uint8),
    "unbounded": lambda device: Unbounded((2, 3), device),
    "categorical": lambda device: Categorical(4, (2, 3), device),
    "categorical mask": lambda device: Categorical(5, (2, 3), device, mask=MASK),
    "onehot": lambda device: OneHot(4, (2, 4), device),
    "onehot mask": lambda device: OneHot(5, (2, 5), device, torch.int64, mask=MASK),
    "binary": lambda device: Binary(shape=(2, 3), device=device),
    "multi": lambda device: MultiCategorical([3, 2], (2, 2), device),
    "multi mask": lambda device: MultiCategorical([3, 2], (2, 2), device, mask=MASK),
    "multi rows": lambda device: MultiCategorical([[3, 2], [4, 2]], device=device),
    "multi onehot": lambda device: MultiOneHot([3, 2], (2, 5), device),
    "multi onehot mask": lambda device: MultiOneHot([3, 2], (2, 5), device, mask=MASK),
}


def specs(name: str) -> list[LeafSpec]:
    return [MAKE[name]("meta"), MAKE[name]("cpu").to("meta")]


@pytest.mark.parametrize("name", MAKE)
class TestEveryClass:
    def test_values(self, name: str) -> None:
        for spec in specs(name):
            lead = spec.rand((5,))
            assert (lead.shape, lead.dtype, lead.device) == ((5, *spec.shape), spec.dtype, META)
            assert spec.is_in(lead)
            spec.assert_is_in(lead)
            assert spec.project(lead) is lead
            assert spec.project(torch.zeros(spec.shape)).device == META
            assert spec.encode(lead) is lead

    def test_data(self, name: str) -> None:
        data = MAKE[name]("cpu").to_numpy(MAKE[name]("cpu").rand())
        for spec in specs(name):
            assert spec.encode(data).device == META
            assert spec.encode(data).shape == spec.shape

    def test_copies(self, name: str) -> None:
        one, other = specs(name)
        assert one == other == one.clone()
        assert one != one.unsqueeze(0)
        assert "meta" in repr(one)

    def test_shapes(self, name: str) -> None:
        for spec in specs(name):
            assert torch.stack([spec, spec.clone()]).shape == (2, *spec.shape)
            assert spec.expand(3, *spec.shape)[0].shape == spec.shape
            assert spec.unsqueeze(0).make_neg_dim(0).shape == (-1, *spec.shape)


def test_several_groups_are_encoded_where_the_data_are() -> None:
    spec = MultiOneHot([3, 2], (2, 5), "meta")
    encoded = spec.encode(np.array([[2, 1], [0, 0]]), ignore_device=True)
    assert encoded.device.type == "cpu"
    assert encoded.int().tolist() == [[0, 0, 1, 0, 1], [1, 0, 0, 1, 0]]
