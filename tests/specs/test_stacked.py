"""`Stacked`: leaf specs that differ, side by side; and what `torch.stack` makes of leaf specs."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    BoxList,
    Categorical,
    Choice,
    Composite,
    MultiCategorical,
    NonTensor,
    OneHot,
    Stacked,
    TensorSpec,
    Unbounded,
)
from tensordict import NonTensorData

from tests.specs.stacked_samples import MASK, bounds, sizes, stack

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


# torch.stack


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize(
    "spec",
    [
        Bounded(torch.tensor([[0.0], [1.0]]), 2, (2, 1)),
        Unbounded((2, 1)),
        Categorical(3, (2, 1), mask=MASK),
        MultiCategorical([3, 4], (2, 2)),
        Binary(shape=(2, 1)),
    ],
)
def test_equal_specs_stack_to_their_class(spec: TensorSpec, dim: int) -> None:
    if dim in (2, -1) and len(spec._free) < spec.ndim:
        with pytest.raises(ValueError, match="stays last"):
            stack(spec, spec.clone(), dim=dim)
        return
    made = stack(spec, spec.clone(), dim=dim)
    assert type(made) is type(spec)
    assert made.shape == torch.stack([torch.empty(spec.shape)] * 2, dim).shape
    assert made.is_in(made.rand())
    assert all(part == spec for part in made.unbind(dim))


def test_one_spec_stacks_to_its_class() -> None:
    assert stack(Categorical(3)) == Categorical(3, (1,))


@pytest.mark.parametrize(
    ("specs", "shape"),
    [
        ([Bounded(0, 1, (2,)), Bounded(0, 2, (2,))], (2, 2)),
        ([Bounded(0, 1, (2, 3)), Bounded(0, 1, (2, 4))], (2, 2, -1)),
        ([Unbounded((1,)), Unbounded((2,)), Unbounded((1,))], (3, -1)),
        ([Categorical(3), Categorical(4)], (2,)),
        ([Categorical(3), Categorical(3, mask=MASK)], (2,)),
        ([OneHot(3), OneHot(4)], (2, -1)),
        ([OneHot(3), OneHot(3, mask=MASK)], (2, 3)),
        ([MultiCategorical([2, 3]), MultiCategorical([3, 2])], (2, 2)),
        ([Binary(2), Binary(3)], (2, -1)),
        ([Unbounded((-1, 2)), Unbounded((3, 2))], (2, -1, 2)),
    ],
)
def test_specs_of_one_kind_stack_to_stacked(specs: list[TensorSpec], shape: tuple[int, ...]) -> None:
    made = stack(*specs)
    assert type(made) is Stacked
    assert made.shape == shape
    assert (made.dim, made.stack_dim) == (0, 0)
    assert (made.dtype, made.device, made.domain) == (specs[0].dtype, specs[0].device, specs[0].domain)
    assert len(made) == len(specs)
    assert all(part is spec for part, spec in zip(made, specs, strict=True))
    assert all(part is spec for part, spec in zip(made.unbind(), specs, strict=True))
    assert made == Stacked(*specs, dim=0)


@pytest.mark.parametrize(
    ("specs", "what"),
    [
        ([Bounded(0, 1, (2,)), Unbounded((2,))], "item 0 has class BoundedContinuous, item 1 Unbounded"),
        ([Categorical(3, (1,)), Binary(1, (1,), dtype=torch.int64)], "class Categorical, item 1 Binary"),
        ([Unbounded((2,)), Unbounded((2, 1))], "number of dimensions 1, item 1 2"),
        ([Categorical(3), Categorical(3), Categorical(3, dtype=torch.int32)], r"dtype torch.int64, item 2 "),
        ([Unbounded((2,)), Unbounded((2,), device="meta")], "device cpu, item 1 meta"),
        ([Unbounded((2,)), Composite()], "item 1 Composite"),
        ([Composite(), Unbounded((2,))], "item 0 has class Composite, item 1 Unbounded"),
        ([Unbounded((2,)), torch.zeros(2)], "item 1 is a Tensor, not a spec"),
    ],
)
def test_specs_of_different_kinds_do_not_stack(specs: list[Any], what: str) -> None:
    with pytest.raises(RuntimeError, match=what):
        stack(*specs)


def test_wrong_arguments() -> None:
    first, second = Bounded(0, 1, (2,)), Bounded(0, 2, (2,))
    for specs in ([first, first], [first, second]):
        for dim in (2, -3):
            with pytest.raises(ValueError, match="out of range"):
                stack(*specs, dim=dim)
    with pytest.raises(ValueError, match="stays last"):
        stack(OneHot(3), OneHot(4), dim=1)
    with pytest.raises(ValueError, match="empty list"):
        Stacked(dim=0)
    with pytest.raises(TypeError, match="StackedComposite"):
        Stacked(Composite(), Composite(), dim=0)
    with pytest.raises(RuntimeError, match="dtype"):
        Stacked(first, Bounded(0, 1, (2,), dtype=torch.float64), dim=0)


def test_stacks_stack_with_specs_of_their_kind() -> None:
    plain = Bounded(0, 1, (2, 3))
    made = stack(bounds(), plain)
    assert made.shape == (2, 2, 3)
    assert made[1] is plain
    assert made[:, 0] == Bounded(0, 1, (2, 3))  # the first row of either
    assert stack(bounds(), bounds()) == bounds().unsqueeze(0).expand(2, 2, 3)


# Values


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("lead", [(), (4,), (2, 0)])
def test_draws_of_one_size(dim: int, lead: tuple[int, ...]) -> None:
    spec = bounds(dim)
    for value in (spec.rand(lead), spec.zero(lead), spec.one(lead), spec.sample(lead), spec.zeros(lead)):
        assert value.shape == (*lead, *spec.shape)
        spec.assert_is_in(value)
    assert spec.zero(lead).sum() == 0
    assert spec.ones(lead).sum() == spec.ones(lead).numel()


def test_draws_are_those_of_the_items_in_order() -> None:
    spec = bounds(1)
    torch.manual_seed(0)
    drawn = spec.rand()
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.stack([item.rand() for item in spec.unbind(1)], 1))


def test_a_sequence_equals_successive_draws() -> None:
    torch.manual_seed(0)
    sequence = bounds().rand_sequence(5)
    torch.manual_seed(0)
    assert torch.equal(sequence, torch.stack([bounds().rand() for _ in range(5)]))
    assert bounds().rand_sequence(0).shape == (0, 2, 3)


def test_draws_of_different_sizes_are_nested() -> None:
    spec = sizes()
    drawn = spec.rand()
    assert drawn.is_nested
    assert [part.shape for part in drawn.unbind()] == [(2,), (3,)]
    assert spec.is_in(drawn)
    assert not spec.is_in(spec.one() * -1)
    for wrong in (lambda: spec.rand((3,)), lambda: spec.unsqueeze(0).zero()):
        with pytest.raises(RuntimeError, match="different shapes"):
            wrong()


def test_membership() -> None:
    spec = bounds(1)
    inside = torch.tensor([1.0, 2.0]).expand(5, 3, 2)
    assert spec.is_in(inside)
    assert not spec.is_in(inside.flip(-1))
    for wrong in (inside.double(), inside[..., :1], inside[0, 0], torch.zeros(2, 2), 3, None, "x", [inside]):
        assert not spec.is_in(wrong)
    with pytest.raises(AssertionError, match="item 1 of the stack: expected values in"):
        spec.assert_is_in(inside + 1e-3)
    with pytest.raises(AssertionError, match=r"expected shape \(3, 2\)"):
        spec.assert_is_in(torch.zeros(3, 3))
    assert sizes().is_in([torch.zeros(2), torch.zeros(3)])
    assert sizes().is_in((torch.zeros(2), torch.zeros(3)))
    assert not sizes().is_in([torch.zeros(2)])
    assert not sizes().is_in(torch.zeros(2, 2))


def test_projection() -> None:
    spec = bounds(1)
    inside = spec.rand((4,))
    assert spec.project(inside) is inside
    assert torch.equal(spec.project(torch.full((4, 3, 2), 9.0)), torch.tensor([1.0, 2.0]).expand(4, 3, 2))
    assert torch.equal(spec.project(torch.full((3, 2), math.nan)), torch.zeros(3, 2))
    ragged = sizes().project(torch.nested.nested_tensor([torch.ones(2), torch.full((3,), 9.0)]))
    assert [part.tolist() for part in ragged.unbind()] == [[1, 1], [3, 4, 5]]
    for wrong in (torch.zeros(2), torch.zeros(3, 3)):
        with pytest.raises(ValueError, match=r"expected shape \(3, 2\)"):
            spec.project(wrong)
    with pytest.raises(TypeError, match="expected a tensor, got str"):
        spec.project("x")


def test_type_check() -> None:
    bounds().type_check(torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"key .a.: expected dtype torch.float32, got torch.int64"):
        bounds().type_check(torch.zeros(2, 3, dtype=torch.int64), "a")
    with pytest.raises(ValueError, match="expected shape"):
        bounds().type_check(torch.zeros(3, 3))


def test_encode() -> None:
    spec = bounds(1)
    array = np.arange(6.0).reshape(3, 2)
    for data in (array, array.tolist(), tuple(array.T)):
        assert torch.equal(spec.encode(data), torch.from_numpy(array).float())
    tensor = torch.zeros(4, 3, 2)
    assert spec.encode(tensor) is tensor
    ragged = sizes().encode([[0, 1], [2, 3, 4]])
    assert ragged.is_nested
    assert [part.tolist() for part in ragged.unbind()] == [[0, 1], [2, 3, 4]]
    for wrong in (array.T, array[0], [[1, 2], [3]], ((1, 2, 3),), 3.0, torch.zeros(2, 3)):
        with pytest.raises(RuntimeError, match="cannot encode"):
            spec.encode(wrong)
    with pytest.raises(AssertionError) as caught:
        stack(Categorical(3), Categorical(4)).encode([3, 3])
    assert "item 0 of the stack: " in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        bounds(),
        bounds(1),
        sizes(),
        stack(Categorical(3), Categorical(4)),
        stack(OneHot(3, (2, 3)), OneHot(4, (2, 4))),
        stack(OneHot(3, (2, 3)), OneHot(3, (2, 3), mask=MASK), dim=1),
    ],
)
def test_to_numpy_and_back(spec: Any) -> None:
    value = spec.rand()
    again = spec.encode(spec.to_numpy(value, safe=True))
    assert all(map(torch.equal, again.unbind(), value.unbind()))


def test_to_numpy() -> None:
    assert stack(OneHot(3), OneHot(4)).to_numpy(stack(OneHot(3), OneHot(4)).encode([2, 3])).tolist() == [2, 3]
    assert isinstance(sizes().to_numpy(sizes().zero()), tuple)
    with pytest.raises(AssertionError, match="item 0"):
        bounds().to_numpy(torch.full((2, 3), 9.0), safe=True)
    with pytest.raises(ValueError, match="expected shape"):
        bounds().to_numpy(torch.zeros(3, 3))


def test_members() -> None:
    spec = stack(Categorical(2), Categorical(3, mask=MASK))
    assert spec.cardinality() == 6
    assert spec.enumerate().tolist() == [[a, b] for a in range(2) for b in range(3)]
    assert spec.enumerate(use_mask=True).tolist() == [[a, b] for a in range(2) for b in (0, 2)]
    assert stack(Categorical(2, (1,)), Categorical(3, (1,)), dim=1).enumerate().shape == (6, 1, 2)
    assert bounds().cardinality() == math.inf
    with pytest.raises(NotImplementedError):
        bounds().enumerate()
    with pytest.raises(NotImplementedError):
        spec.index(torch.tensor([0, 1]), torch.zeros(2, 3))


def test_space() -> None:
    space = stack(Categorical(2), Categorical(3)).space
    assert isinstance(space, BoxList)
    assert [box.n for box in space] == [2, 3]  # type: ignore[attr-defined]


def test_data_that_are_not_tensors() -> None:
    spec = stack(NonTensor((2,), example_data="a"), NonTensor((3,), example_data="b"))
    assert (spec.shape, spec.dtype, spec.device, spec.space) == ((2, -1), None, None, None)
    drawn = spec.rand()
    assert drawn.tolist() == [["a", "a"], ["b", "b", "b"]]
    assert spec.is_in(drawn)
    assert spec.project(drawn) is drawn
    assert spec.to_numpy(drawn) == ("a", "b")
    assert spec.encode(["x", "y"]).tolist() == [["x", "x"], ["y", "y", "y"]]
    with pytest.raises(NotImplementedError):
        spec.cardinality()
    assert type(stack(NonTensor((2,)), NonTensor((2,)))) is NonTensor


@pytest.mark.parametrize("kind", ["bounds", "data", "composites"])
def test_choices(kind: str) -> None:
    choices: dict[str, list[Any]] = {
        "bounds": [Bounded(0, 1, (3,)), Bounded(5, 6, (3,))],
        "data": [NonTensorData("a"), NonTensorData("b")],
        "composites": [Composite(a=Categorical(2)), Composite(a=Categorical(3))],
    }
    spec = stack(Choice(choices[kind]), Choice(choices[kind][:1]))
    assert type(spec) is Stacked
    assert isinstance(spec[0], Choice)
    for lead in ((), (3,)):
        drawn = spec.rand(lead)
        assert drawn.shape == (*lead, *spec.shape)
        assert spec.is_in(drawn)
        assert spec.project(drawn) is drawn
    assert spec.is_in(spec.encode(spec.to_numpy(spec.rand())))


def test_a_default_device_does_not_matter() -> None:
    spec = stack(Categorical(2, (1,)), Categorical(3, (1,)))
    flat = stack(Categorical(2), Categorical(3))
    with torch.device("meta"):
        assert spec.unsqueeze(0)[0, 1, :] == spec[1]
        assert spec.flatten(0, 1) == flat
        assert spec.enumerate().device == torch.device("cpu")


# Copies and text


@pytest.mark.parametrize("spec", [bounds(1), sizes(), stack(bounds(), bounds()[[1, 0]])])
def test_copies(spec: Any) -> None:
    for copied in (spec.clone(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert copied == spec
        assert copied is not spec
    assert spec.clone().unbind(spec.dim)[0] is not spec.unbind(spec.dim)[0]


def test_moves() -> None:
    spec = bounds()
    assert spec.to("cpu") is spec
    assert spec.to(torch.float32) is spec
    assert spec.clear_device_() is spec
    moved = spec.to(torch.float64)
    assert moved == stack(Bounded(0, 1, (3,)).to(torch.float64), Bounded(0, 2, (3,)).to(torch.float64))
    assert moved.dtype == moved.rand().dtype == torch.float64
    assert stack(Unbounded((2,)), Unbounded((3,))).to("meta").device == torch.device("meta")


def test_equality() -> None:
    assert bounds() == bounds()
    assert bounds() != stack(Bounded(0, 1, (3,)), Bounded(0, 3, (3,)))
    square = [Bounded(0, 1, (2,)), Bounded(0, 3, (2,))]  # the shape is the same along either dimension
    assert stack(*square) != stack(*square, dim=1)
    assert bounds() != bounds().to("meta")
    assert bounds() != Bounded(0, 1, (2, 3))
    assert bounds() != 3


def test_text() -> None:
    assert repr(bounds(1)) == (
        "Stacked(\n"
        "    Bounded(low=0.0, high=1.0, shape=(3,), dtype=float32, device=cpu),\n"
        "    Bounded(low=0.0, high=2.0, shape=(3,), dtype=float32, device=cpu),\n"
        "    dim=1, shape=(3, 2))"
    )


def test_in_a_composite() -> None:
    spec = Composite(a=bounds(), b=sizes(), c=Unbounded((2,)), shape=(2,))
    drawn = spec.rand()
    assert drawn["b"].is_nested
    assert spec.is_in(drawn)
    assert spec[0]["a"] == Bounded(0, 1, (3,))
    assert spec.expand(3, 2)["b"].shape == (3, 2, -1)
    assert spec.unsqueeze(0).squeeze(0) == spec
    assert spec.clone() == spec
    assert pickle.loads(pickle.dumps(spec)) == spec
    spec.type_check(drawn)
    assert spec.project(drawn) is drawn
