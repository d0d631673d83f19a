"""`Stacked` in other shapes.

A stack of bounds that tell every element apart is changed like one spec with all of these bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import (
    Bounded,
    OneHot,
    Stacked,
    Unbounded,
)

from tests.specs.stacked_samples import bounds, sizes, stack

laws = settings(max_examples=60, deadline=None)
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


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
