"""More of what TorchRL 0.14.1 gets wrong: sizes, counting, Gymnasium's spaces, equality, stacks."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from specgen_runtime.envs.gym.actions import action_decoder
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    OneHot,
    Unbounded,
)
from specgen_runtime.specs.gymnasium import space_to_spec

from tests.specs.peer import stack

NAN = float("nan")


class TestVariableDimensions:
    def test_t11_a_new_spec(self) -> None:
        spec = Unbounded((3, 2))
        variable = spec.make_neg_dim(0)
        assert variable.shape == (-1, 2)
        assert spec.shape == (3, 2)
        assert variable.is_in(torch.zeros(7, 2))
        assert Bounded(-1, 1, (3, 2)).make_neg_dim(-1).shape == (3, -1)

    def test_t12_composites(self) -> None:
        spec = Composite(a=Unbounded((3, 2)), b={"c": Categorical(4, (3,))}, shape=(3,))
        variable = spec.make_neg_dim(0)
        assert variable.shape == (-1,)
        assert variable["a"].shape == (-1, 2)
        assert variable["b"].shape == variable["b", "c"].shape == (-1,)
        assert variable.is_in(spec.expand(3).rand())
        assert spec.shape == (3,)

    @pytest.mark.parametrize("dim", [2, -3])
    def test_t11_a_dimension_that_is_not_there(self, dim: int) -> None:
        with pytest.raises((ValueError, IndexError)):
            Unbounded((3, 2)).make_neg_dim(dim)

    def test_t18_variable_sizes_are_not_made_up(self) -> None:
        assert Unbounded((6,)).reshape(-1, 1).shape == (6, 1)
        for value in (torch.zeros(4, 3), torch.zeros(0, 3)):
            assert Unbounded((-1, 3)).is_in(value)
        assert not Unbounded((-1, 3)).is_in(torch.zeros(3))


class TestCounting:
    def test_t20_cardinality(self) -> None:
        assert Categorical(3, shape=(2,)).cardinality() == 9
        assert OneHot(3, (2, 3)).cardinality() == 9
        assert Binary(2).cardinality() == 4
        assert MultiCategorical([3, 2]).cardinality() == MultiOneHot([3, 2]).cardinality() == 6
        assert Composite(a=Categorical(3), b=Binary(2)).cardinality() == 12
        for spec in (Bounded(0, 1, (1,)), Unbounded(), Composite(a=Unbounded(), b=Binary(2))):
            assert spec.cardinality() == math.inf

    def test_t20_every_member_once(self) -> None:
        specs = (
            Categorical(3, shape=(2,)),
            OneHot(3),
            Binary(2),
            MultiCategorical([3, 2], (2, 2)),
            MultiOneHot([3, 2]),
        )
        for spec in specs:
            members = spec.enumerate()
            assert len(members) == spec.cardinality() == len(torch.unique(members, dim=0))
            assert spec.is_in(members)


class TestGymnasium:
    def test_t27_discrete_spaces_keep_their_start(self) -> None:
        spaces = pytest.importorskip("gymnasium.spaces")
        space = spaces.Discrete(3, start=1)
        for categorical in (False, True):
            spec = space_to_spec(space, categorical_action_encoding=categorical)
            decode = action_decoder(space, spec)
            torch.manual_seed(0)
            assert {int(decode(spec.rand())) for _ in range(50)} == {1, 2, 3}

    def test_t27_binary_matrices(self) -> None:
        spaces = pytest.importorskip("gymnasium.spaces")
        spec = space_to_spec(spaces.MultiBinary((2, 3)))
        assert isinstance(spec, Binary)
        assert spec.shape == (2, 3)


class TestEquality:
    def test_t29_python_bool(self) -> None:
        with pytest.raises(ValueError, match="NaN"):
            Bounded(NAN, NAN, (1,))
        for left in (Bounded(0, 1, (2,)), Categorical(2, mask=torch.tensor([True, False])), OneHot(3)):
            assert (left == left.clone()) is True
            assert (left != left.clone()) is False
            assert (left == Bounded(0, 2, (2,))) is False


class TestStacks:
    def test_stacked_project(self) -> None:
        spec = stack([Bounded(0, 1, (2,)), Bounded(0, 2, (2,))])
        assert spec.project(torch.full((2, 2), 9.0)).tolist() == [[1, 1], [2, 2]]
        inside = torch.zeros(2, 2)
        assert spec.project(inside) is inside

    def test_stacked_composite_encode(self) -> None:
        parts = [Composite(a=Unbounded((2,))), Composite(a=Unbounded((2,)), b=Categorical(4))]
        spec = stack(parts)
        value = spec.rand()
        back = spec.encode(spec.to_numpy(value))
        assert spec.is_in(back)
        assert (back["a"] == value["a"]).all()


@pytest.mark.parametrize("index", ["a", 1.5, True, ["a"], [1, [2, 3]], [0.5]], ids=repr)
def test_what_is_no_index_is_an_index_error(index: Any) -> None:
    for spec in (Unbounded((3, 3)), Composite(shape=(3, 3))):
        with pytest.raises(IndexError, match="index"):
            spec[0, index]
