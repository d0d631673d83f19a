"""Gymnasium's spaces as specs, and specs as spaces."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    MultiOneHot,
    NonTensor,
    OneHot,
    Stacked,
    StackedComposite,
    TensorSpec,
    Unbounded,
)
from specgen_runtime.specs.gymnasium import (
    UnsupportedSpaceError,
    space_kind,
    space_to_spec,
    spec_to_space,
)

from tests.specs import random_spaces as random

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
INF = np.inf


def stacked(*specs: TensorSpec) -> Any:
    return torch.stack(list(specs), 0)  # type: ignore[arg-type]


SPACE_SPECS: list[tuple[Any, bool, Any]] = [
    (BOX, False, Bounded(-1.0, 1.0, (3,))),
    (spaces.Box(-1.0, 1.0, (), np.float32), False, Bounded(-1.0, 1.0, ())),
    (spaces.Box(-INF, INF, (2,), np.float64), False, Unbounded((2,), dtype=torch.float64)),
    (spaces.Box(0, 255, (2, 2), np.uint8), False, Unbounded((2, 2), dtype=torch.uint8)),
    (spaces.Box(-128, 127, (2,), np.int8), False, Unbounded((2,), dtype=torch.int8)),
    (spaces.Box(0, 254, (2,), np.uint8), False, Bounded(0, 254, (2,), dtype=torch.uint8)),
    (spaces.Box(0, 9, (2,), np.int32), False, Bounded(0, 9, (2,), dtype=torch.int32)),
    (spaces.Box(0, 1, (2,), np.bool_), False, Unbounded((2,), dtype=torch.bool)),
    (spaces.Box(0, 0, (2,), np.bool_), False, Bounded(0, 0, (2,), dtype=torch.bool)),
    (spaces.Discrete(3), False, OneHot(3, dtype=torch.int64)),
    (spaces.Discrete(3), True, Categorical(3)),
    (spaces.Discrete(3, dtype=np.int32), False, OneHot(3, dtype=torch.int64)),
    (spaces.Discrete(3, dtype=np.int32), True, Categorical(3, dtype=torch.int32)),
    (spaces.Discrete(3, start=-2), True, Categorical(3)),
    (spaces.MultiBinary(4), False, Binary(4)),
    (spaces.MultiBinary((2, 3)), True, Binary(shape=(2, 3))),
    (spaces.MultiDiscrete([3, 3]), False, OneHot(3, (2, 3), dtype=torch.int64)),
    (spaces.MultiDiscrete([3, 3]), True, Categorical(3, (2,))),
    (spaces.MultiDiscrete([3]), False, OneHot(3, (1, 3), dtype=torch.int64)),
    (spaces.MultiDiscrete([3, 5]), False, MultiOneHot([3, 5], dtype=torch.int64)),
    (spaces.MultiDiscrete([3, 5]), True, MultiCategorical([3, 5])),
    (spaces.MultiDiscrete([3, 5], dtype=np.int16), True, MultiCategorical([3, 5], dtype=torch.int16)),
    (spaces.MultiDiscrete([[4, 4], [4, 4]]), False, OneHot(4, (2, 2, 4), dtype=torch.int64)),
    (spaces.MultiDiscrete([[4, 4], [4, 4]]), True, Categorical(4, (2, 2))),
    (
        spaces.MultiDiscrete([[2, 2], [3, 3]]),
        False,
        stacked(OneHot(2, (2, 2), dtype=torch.int64), OneHot(3, (2, 3), dtype=torch.int64)),
    ),
    (spaces.MultiDiscrete([[2, 2], [3, 3]]), True, stacked(Categorical(2, (2,)), Categorical(3, (2,)))),
    (
        spaces.MultiDiscrete([[2, 3], [4, 5]]),
        False,
        stacked(MultiOneHot([2, 3], dtype=torch.int64), MultiOneHot([4, 5], dtype=torch.int64)),
    ),
    (
        spaces.MultiDiscrete([[2, 3], [3, 3]]),
        False,
        stacked(MultiOneHot([2, 3], dtype=torch.int64), MultiOneHot([3, 3], dtype=torch.int64)),
    ),
    (
        spaces.MultiDiscrete([[2, 3], [3, 3]]),
        True,
        stacked(MultiCategorical([2, 3]), MultiCategorical([3, 3])),
    ),
    (
        spaces.Dict(a=BOX, b=spaces.Dict(c=spaces.Discrete(2))),
        True,
        Composite(a=Bounded(-1.0, 1.0, (3,)), b=Composite(c=Categorical(2))),
    ),
    (spaces.Dict({}), False, Composite()),
    (spaces.Tuple([BOX, BOX]), False, Bounded(-1.0, 1.0, (2, 3))),
    (
        spaces.Tuple([BOX, spaces.Box(0.0, 1.0, (4,))]),
        False,
        stacked(Bounded(-1.0, 1.0, (3,)), Bounded(0.0, 1.0, (4,))),
    ),
    (spaces.Tuple([spaces.Dict(a=BOX)] * 2), False, Composite(a=Bounded(-1.0, 1.0, (2, 3)), shape=(2,))),
    (
        spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(b=BOX)]),
        False,
        stacked(Composite(a=Bounded(-1.0, 1.0, (3,))), Composite(b=Bounded(-1.0, 1.0, (3,)))),
    ),
    (spaces.Text(5, min_length=2, charset="ab"), False, NonTensor((), example_data="aa")),
    (spaces.Text(5, min_length=0, charset="ab"), False, NonTensor((), example_data="a")),
    (spaces.Sequence(BOX, stack=True), False, Bounded(-1.0, 1.0, (1, 3)).make_neg_dim(0)),
    (spaces.Sequence(spaces.Discrete(3), stack=True), True, Categorical(3, (1,)).make_neg_dim(0)),
    (
        spaces.Sequence(spaces.Dict(a=BOX), stack=True),
        False,
        Composite(a=Bounded(-1.0, 1.0, (1, 3)), shape=(1,)).make_neg_dim(0),
    ),
]


@pytest.mark.parametrize(("space", "categorical", "spec"), SPACE_SPECS, ids=str)
def test_space_to_spec(space: Any, categorical: bool, spec: Any) -> None:
    assert space_to_spec(space, categorical_action_encoding=categorical) == spec


def test_classes_of_stacked_specs() -> None:
    two = space_to_spec(spaces.MultiDiscrete([[2, 3], [4, 5]]))
    assert isinstance(two, Stacked)
    assert two.shape == (2, -1)
    assert isinstance(space_to_spec(spaces.Tuple([spaces.Dict(a=BOX), spaces.Dict(b=BOX)])), StackedComposite)


def test_the_flag_reaches_every_depth() -> None:
    inner = spaces.Dict(
        a=spaces.Tuple([spaces.Discrete(2)] * 2), b=spaces.Sequence(spaces.Discrete(3), stack=True)
    )
    spec: Any = space_to_spec(spaces.Dict(inner=inner), categorical_action_encoding=True)
    assert spec["inner", "a"] == Categorical(2, (2,))
    assert spec["inner", "b"] == Categorical(3, (1,)).make_neg_dim(0)


def test_the_device_reaches_every_leaf() -> None:
    space = spaces.Dict(a=BOX, b=spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), c=spaces.Text(3))
    spec: Any = space_to_spec(space, device="meta")
    assert spec.device == torch.device("meta")
    assert {leaf.device for leaf in spec.values(True, True)} == {torch.device("meta")}
    assert space_to_spec(spaces.Dict(a=BOX)).device is None


def test_partly_bounded_boxes() -> None:
    low = np.array([-INF, 0.0], dtype=np.float32)
    spec = space_to_spec(spaces.Box(low, np.array([1.0, INF], dtype=np.float32)))
    assert isinstance(spec, Bounded)
    assert spec.is_in(torch.tensor([-1e9, 1e9]))
    assert not spec.is_in(torch.tensor([2.0, 1.0]))


def test_bounds_are_not_shared_with_the_space() -> None:
    space = spaces.Box(-1.0, 1.0, (2,))
    spec: Any = space_to_spec(space)
    spec.space.low.fill_(0.0)
    assert (space.low == -1.0).all()


@pytest.mark.parametrize("space", [spaces.Graph(BOX, None), spaces.OneOf([BOX, BOX])], ids=str)
@pytest.mark.parametrize("caught", [UnsupportedSpaceError, TypeError, KeyError])
def test_kinds_without_a_spec(space: Any, caught: Any) -> None:
    name = type(space).__name__
    with pytest.raises(caught) as error:
        space_to_spec(spaces.Dict(inner=space))
    assert str(error.value).startswith(f"no spec describes the Gymnasium space {name}; supported are Box, ")


def test_spaces_of_ones_own() -> None:
    class Mine(spaces.Box):
        pass

    class Strange(spaces.Space[Any]):
        pass

    assert space_kind(Mine(0, 1, (2,))) == "Box"
    with pytest.raises(UnsupportedSpaceError, match="Strange"):
        space_kind(Strange())
    with pytest.raises(UnsupportedSpaceError, match="int"):
        space_kind(3)


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (spaces.Sequence(BOX), ValueError, "pass stack=True to Sequence"),
        (spaces.Tuple([BOX, spaces.Discrete(2)]), RuntimeError, "cannot be stacked"),
        (spaces.Tuple([BOX, spaces.Box(0, 1, (3, 2))]), RuntimeError, "cannot be stacked"),
        (spaces.Tuple([]), RuntimeError, "cannot be stacked"),
        (spaces.Box(0, 1, (2,), np.uint16), TypeError, "uint16"),
        (spaces.Discrete(3, dtype=np.uint32), TypeError, "uint32"),
        (spaces.MultiDiscrete(np.ones((0, 2))), UnsupportedSpaceError, "no elements"),
    ],
    ids=str,
)
def test_what_specs_cannot_say(space: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        space_to_spec(space, categorical_action_encoding=True)


SPEC_SPACES: list[tuple[Any, Any]] = [
    (Bounded(-1.0, 1.0, (3,)), BOX),
    (Bounded([-INF, 0.0], [1.0, INF]), spaces.Box(np.array([-INF, 0]), np.array([1, INF]), (2,), np.float32)),
    (Bounded(0, 9, (2,), dtype=torch.int16), spaces.Box(0, 9, (2,), np.int16)),
    (Bounded(0.0, 1.0, (), dtype=torch.float64), spaces.Box(0, 1, (), np.float64)),
    (Unbounded((2, 3), dtype=torch.float16), spaces.Box(-INF, INF, (2, 3), np.float16)),
    (Unbounded((2,), dtype=torch.uint8), spaces.Box(0, 255, (2,), np.uint8)),
    (Unbounded((2,), dtype=torch.bool), spaces.Box(0, 1, (2,), np.bool_)),
    (Categorical(3), spaces.Discrete(3)),
    (Categorical(3, dtype=torch.int32), spaces.Discrete(3, dtype=np.int32)),
    (Categorical(2, dtype=torch.bool), spaces.Discrete(2)),
    (Categorical(256, dtype=torch.uint8), spaces.Discrete(256)),
    (Categorical(3, (2, 1)), spaces.MultiDiscrete([[3], [3]])),
    (Categorical(3, mask=torch.tensor([True, False, True])), spaces.Discrete(3)),
    (OneHot(3), spaces.Discrete(3)),
    (OneHot(3, (2, 3)), spaces.MultiDiscrete([3, 3])),
    (MultiCategorical([2, 4]), spaces.MultiDiscrete([2, 4])),
    (MultiCategorical([2, 4], (3, 2), dtype=torch.int8), spaces.MultiDiscrete([[2, 4]] * 3, dtype=np.int8)),
    (MultiOneHot([2, 4]), spaces.MultiDiscrete([2, 4])),
    (MultiOneHot([2, 4], (3, 6)), spaces.MultiDiscrete([[2, 4]] * 3)),
    (Binary(3), spaces.MultiBinary(3)),
    (Binary(shape=(2, 3), dtype=torch.bool), spaces.MultiBinary((2, 3))),
    (Binary(shape=()), spaces.Discrete(2)),
    (Composite(a=Categorical(2), b=Composite(c=Binary(2))), None),
    (Composite(), spaces.Dict({})),
    (Composite(a=Unbounded((2, 3)), shape=(2,)), spaces.Dict(a=spaces.Box(-INF, INF, (2, 3)))),
    (stacked(Categorical(2), Categorical(3)), spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])),
    (
        stacked(Composite(a=Categorical(2)), Composite(b=Categorical(2))),
        spaces.Tuple([spaces.Dict(a=spaces.Discrete(2)), spaces.Dict(b=spaces.Discrete(2))]),
    ),
    (
        Unbounded((1, 2)).make_neg_dim(0),
        spaces.Sequence(spaces.Box(-INF, INF, (2,)), stack=True),
    ),
    (
        Unbounded((2, 1)).make_neg_dim(1),
        spaces.Tuple([spaces.Sequence(spaces.Box(-INF, INF, ()), stack=True)] * 2),
    ),
]


@pytest.mark.parametrize(("spec", "space"), SPEC_SPACES, ids=lambda value: str(value)[:60])
def test_spec_to_space(spec: TensorSpec, space: Any) -> None:
    if space is None:
        space = spaces.Dict(a=spaces.Discrete(2), b=spaces.Dict(c=spaces.MultiBinary(2)))
    assert spec_to_space(spec) == space


def test_texts() -> None:
    space = spec_to_space(NonTensor((), example_data="größer"))
    assert isinstance(space, spaces.Text)
    assert space.contains("größer")
    assert space.contains("")
    assert space.contains("any printable text, of at most 4096 characters.\n")
    pair = spec_to_space(NonTensor((2,), example_data="a"))
    assert pair.contains(("one", "two"))


def test_an_entry_that_is_none_is_left_out() -> None:
    assert spec_to_space(Composite(a=Binary(2), b=None)) == spaces.Dict(a=spaces.MultiBinary(2))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (NonTensor((), example_data=3), NotImplementedError, "Gymnasium has no space for NonTensor"),
        (Composite(a=NonTensor(())), NotImplementedError, "NonTensor"),
        (Unbounded((2,), dtype=torch.bfloat16), NotImplementedError, "bfloat16"),
        (Categorical(-1), RuntimeError, "unknown"),
    ],
    ids=str,
)
def test_what_spaces_cannot_say(spec: TensorSpec, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        spec_to_space(spec)


def test_gymnasium_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert space_to_spec(BOX) == Bounded(-1.0, 1.0, (3,))
    with pytest.raises(ImportError, match=r"pip install 'specgen-rl\[gym\]'"):
        spec_to_space(Binary(2))


# laws

laws = settings(max_examples=60, deadline=None)

LOSSLESS = st.recursive(
    st.one_of(
        random.boxes(),
        random.discretes(starts=(0,)),
        random.multi_discretes(starts=(0,), dims=1),
        random.MULTI_BINARIES,
    ),
    lambda parts: st.one_of(
        random.dicts(parts), random.dicts(parts, 1).map(lambda part: spaces.Sequence(part, stack=True))
    ),
    max_leaves=4,
)


@laws
@given(LOSSLESS)
def test_space_to_spec_to_space(space: spaces.Space[Any]) -> None:
    assert spec_to_space(space_to_spec(space, categorical_action_encoding=True)) == space


@laws
@given(LOSSLESS)
def test_spec_to_space_to_spec(space: spaces.Space[Any]) -> None:
    for categorical in (True, False):
        spec = space_to_spec(space, categorical_action_encoding=categorical)
        again = space_to_spec(spec_to_space(spec), categorical_action_encoding=categorical)
        assert again == spec
