"""`Stacked`: leaf specs that differ, side by side; and what `torch.stack` makes of leaf specs."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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

laws = settings(max_examples=60, deadline=None)
MASK = torch.tensor([True, False, True])
nested_tensors_warn = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
pytestmark = nested_tensors_warn


def stack(*specs: TensorSpec, dim: int = 0) -> Any:
    made: Any = torch.stack
    return made(list(specs), dim)


def bounds(dim: int = 0) -> Any:
    return stack(Bounded(0, 1, (3,)), Bounded(0, 2, (3,)), dim=dim)


def sizes() -> Any:
    return stack(Bounded(0, torch.tensor([1.0, 2.0])), Bounded(0, torch.tensor([3.0, 4.0, 5.0])))


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
    assert "in item 0 of the stack" in caught.value.__notes__


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
    assert stack(Categorical(2, (1,)), Categorical(3, (1,))) != stack(
        Categorical(2, (1,)), Categorical(3, (1,)), dim=1
    )
    assert bounds() != Bounded(0, 1, (2, 3))
    assert bounds() != 3


def test_text() -> None:
    assert repr(bounds(1)) == (
        "Stacked(\n"
        "    Bounded(low=0.0, high=1.0, shape=(3,), dtype=float32, device=cpu),\n"
        "    Bounded(low=0.0, high=2.0, shape=(3,), dtype=float32, device=cpu),\n"
        "    dim=1, shape=(3, 2))"
    )


# Shapes. A stack of bounds that tell every element apart is changed like one spec with all of these bounds.


def lows(spec: Any) -> torch.Tensor:
    """The lower bounds of a spec, or of all in a stack."""
    if isinstance(spec, Stacked):
        return torch.stack([lows(part) for part in spec.unbind(spec.dim)], spec.dim)
    low: torch.Tensor = spec.low
    assert low.shape == spec.shape
    return low


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Bounded]:
    """A stack, perhaps of stacks, and one spec with the same bounds; nothing in it is equal."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    low = torch.arange(math.prod(shape)).reshape(shape).float()
    return stacked_like(low, draw(st.permutations(range(len(shape))))[: draw(st.integers(1, 2))]), Bounded(
        low, 999, low.shape
    )


def stacked_like(low: torch.Tensor, dims: list[int]) -> Any:
    if not dims:
        return Bounded(low, 999, low.shape)
    dim, *rest = dims
    inner = [place - (place > dim) for place in rest]
    return Stacked(*(stacked_like(part, inner) for part in low.unbind(dim)), dim=dim)


def agree(change: Callable[[Any], Any], stacked: Any, plain: Any) -> None:
    try:
        expected = change(plain)
    except (ValueError, RuntimeError, IndexError) as error:
        with pytest.raises(type(error)):
            change(stacked)
        return
    made = change(stacked)
    assert made.shape == expected.shape
    assert torch.equal(lows(made), expected.low)
    assert made.rand((2,)).shape == (2, *expected.shape)
    assert expected.is_in(made.rand())


@laws
@given(pairs(), st.data())
def test_shapes_follow_plain_specs(pair: tuple[Any, Bounded], data: Any) -> None:
    stacked, plain = pair
    ndim = plain.ndim
    some = st.integers(-ndim - 1, ndim)
    first, second = sorted((data.draw(st.integers(0, ndim - 1)), data.draw(st.integers(0, ndim - 1))))
    numel = plain.shape.numel()
    rows = data.draw(st.sampled_from([size for size in range(1, numel + 1) if numel % size == 0]))
    lead = data.draw(st.lists(st.integers(1, 2), max_size=2))
    grown = [2 if size == 1 and data.draw(st.booleans()) else size for size in plain.shape]
    place = data.draw(some)
    for change in (
        lambda spec: spec.unsqueeze(place),
        lambda spec: spec.squeeze(place),
        lambda spec: spec.squeeze(),
        lambda spec: spec.unsqueeze(0).squeeze(0),
        lambda spec: spec.expand(*lead, *grown),
        lambda spec: spec.reshape(rows, -1),
        lambda spec: spec.reshape(-1, rows),
        lambda spec: spec.view(1, rows, numel // rows),
        lambda spec: spec.flatten(first, second),
        lambda spec: spec.flatten(0, -1).unflatten(0, (rows, -1)),
        lambda spec: spec.unbind(first)[0],
    ):
        agree(change, stacked, plain)


@laws
@given(pairs(), st.data())
def test_indices_follow_plain_specs(pair: tuple[Any, Bounded], data: Any) -> None:
    stacked, plain = pair
    size = plain.shape[0]
    places = st.integers(-size, size - 1)
    items: dict[str, Any] = {
        "int": places,
        "slice": st.slices(size).filter(lambda part: part.step is None or part.step > 0),
        "list": st.lists(places, min_size=1, max_size=3),
        "matrix": st.just(torch.zeros(2, 1, dtype=torch.int64)),
        "mask": st.just(torch.ones(size, dtype=torch.bool)),
        "None": st.none(),
        "...": st.just(...),
    }
    first = data.draw(st.one_of(*items.values()))
    index = data.draw(st.sampled_from([first, (..., 0), (first, ..., 0), (slice(None), None), (..., [0, 0])]))
    if plain.ndim == 1 and isinstance(index, tuple) and index[-1] == 0:
        index = first
    try:
        empty = plain[index].shape.numel() == 0
    except (IndexError, TypeError):
        empty = False
    if empty:
        with pytest.raises(IndexError):
            stacked[index]
        return
    agree(lambda spec: spec[index], stacked, plain)


@laws
@given(st.integers(1, 3), st.integers(0, 2), st.data())
def test_stacking_and_unbinding(count: int, dim: int, data: Any) -> None:
    specs = [
        Bounded(0, data.draw(st.integers(1, 3)), (2, data.draw(st.integers(1, 2)))) for _ in range(count)
    ]
    made = stack(*specs, dim=dim)
    assert list(made.unbind(dim)) == specs
    assert [made[(slice(None),) * dim + (place,)] for place in range(count)] == specs
    assert stack(*made.unbind(dim), dim=dim) == made
    assert isinstance(made, Stacked) == any(spec != specs[0] for spec in specs)


def test_indices_where_sizes_differ() -> None:
    spec = sizes()
    assert lows(spec[0]).shape == (2,)
    assert [part.high.item() for part in spec[:, 1]] == [2, 4]
    assert spec[1, 2].high == 5
    assert spec[:, -1].unbind()[1].high == 5
    assert spec[:, :1] == stack(Bounded(0, torch.tensor([1.0])), Bounded(0, torch.tensor([3.0])))
    assert spec[None].shape == spec.unsqueeze(0).shape == (1, 2, -1)
    assert spec.expand(4, 2, -1)[3] == spec
    for wrong in ((slice(None), 2), (0, 2), 2, (0, 0, 0), "x"):
        with pytest.raises(IndexError):
            spec[wrong]
    with pytest.raises(ValueError, match="differs among the items"):
        spec.flatten(0, 1)
    with pytest.raises(ValueError, match="unbind"):
        spec.unbind(1)
    with pytest.raises(TypeError, match="no length"):
        len(Stacked(Unbounded((1,)), Unbounded((2,)), dim=1))


def test_indices_in_stacks_of_stacks_where_sizes_differ() -> None:
    spec = stack(sizes(), sizes()[[1, 0]])
    assert spec.shape == (2, 2, -1)
    assert [[part.high.item() for part in row] for row in spec[:, :, 1]] == [[2, 4], [4, 2]]


def test_classes_stay_last() -> None:
    spec = stack(OneHot(3, (2, 3)), OneHot(4, (2, 4)))
    assert spec[:, 0] == stack(OneHot(3), OneHot(4))
    assert spec.flatten(0, 1).shape == (4, -1)
    with pytest.raises(IndexError):
        spec[:, :, 0]
    with pytest.raises(ValueError, match="columns"):
        spec.unsqueeze(-1)


def test_items_without_elements() -> None:
    spec = stack(Unbounded((0, 3)), Unbounded((2, 3)))
    assert spec.unbind()[0].shape == (0, 3)
    assert spec.unsqueeze(0).shape == (1, 2, -1, 3)
    assert spec[1].shape == (2, 3)
    with pytest.raises(IndexError, match="no element"):
        spec[0:0]


def test_make_neg_dim() -> None:
    spec = bounds().make_neg_dim(1)
    assert spec.shape == (2, -1)
    assert spec.is_in(torch.ones(2, 7))
    with pytest.raises(ValueError, match="stacked along it"):
        bounds().make_neg_dim(0)


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
