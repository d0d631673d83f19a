"""`NonTensor` and `Choice`: the same values, shapes and members as TorchRL's, but for its faults."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.choice import Choice
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from tensordict import NonTensorData, NonTensorStack, TensorDict, assert_close

pytestmark = pytest.mark.peers


def wrapped_as(value: Any) -> Any:
    """The nesting of stacks, down to the shape of the `NonTensorData`."""
    if isinstance(value, NonTensorStack):
        return [wrapped_as(row) for row in value.unbind(0)]
    return value.data, tuple(value.batch_size)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, NonTensorData | NonTensorStack):
        return left.batch_size == right.batch_size and left.tolist() == right.tolist()
    return not assert_close(left, right, rtol=0, atol=0) or True


# TorchRL stacks nothing without feature dimensions: those cases are not the same there.
CASES: list[dict[str, Any]] = [
    {"shape": (3,)},
    {"shape": (3, 4), "feature_dims": 1},
    {"shape": (3, 4), "device": "cpu"},
    {"shape": 2},
    {"shape": (-1, 2)},
    {},
]


class TestNonTensor:
    @pytest.mark.parametrize("arguments", CASES, ids=str)
    @pytest.mark.parametrize("lead", [None, (), (2,), (2, 1)])
    @pytest.mark.parametrize("method", ["rand", "zero", "one", "sample", "zeros", "ones"])
    def test_values(self, arguments: dict[str, Any], lead: Any, method: str) -> None:
        theirs = pytest.importorskip("torchrl.data").NonTensor(**arguments, example_data={"a": 1})
        mine = NonTensor(**arguments, example_data={"a": 1})
        left, right = getattr(theirs, method)(lead), getattr(mine, method)(lead)
        assert type(left) is type(right)
        assert wrapped_as(left) == wrapped_as(right)
        assert left.device == right.device
        assert mine.is_in(left)

    @pytest.mark.parametrize("arguments", CASES, ids=str)
    def test_fields(self, arguments: dict[str, Any]) -> None:
        theirs = pytest.importorskip("torchrl.data").NonTensor(**arguments, example_data="a")
        mine = NonTensor(**arguments, example_data="a")
        for name in ("shape", "device", "dtype", "space", "example_data", "batched", "feature_dims", "ndim"):
            assert getattr(theirs, name) == getattr(mine, name)

    @pytest.mark.parametrize("arguments", CASES[:4], ids=str)
    def test_shapes(self, arguments: dict[str, Any]) -> None:
        theirs = pytest.importorskip("torchrl.data").NonTensor(**arguments, example_data="a")
        mine = NonTensor(**arguments, example_data="a")
        for change in (
            lambda it: it.expand(5, *it.shape),
            lambda it: it.unsqueeze(0),
            lambda it: it.reshape(1, *it.shape),
            lambda it: it.unflatten(0, (1, -1)),
            lambda it: it[None],
        ):
            left, right = change(theirs), change(mine)
            assert left.shape == right.shape
            assert left.feature_dims == right.feature_dims
            assert wrapped_as(left.rand((2,))) == wrapped_as(right.rand((2,)))

    @pytest.mark.parametrize("arguments", CASES, ids=str)
    @pytest.mark.parametrize("bare", ["text", ["x", "y"], None, 3])
    def test_encode(self, arguments: dict[str, Any], bare: Any) -> None:
        theirs = pytest.importorskip("torchrl.data").NonTensor(**arguments)
        mine = NonTensor(**arguments)
        assert wrapped_as(theirs.encode(bare)) == wrapped_as(mine.encode(bare))
        assert theirs.is_in(bare)
        assert mine.is_in(bare)

    def test_differences(self) -> None:
        peer = pytest.importorskip("torchrl.data").NonTensor
        # All dimensions are batch dimensions, and yet nothing is stacked.
        assert isinstance(peer((3,), batched=True).rand(), NonTensorData)
        assert isinstance(peer(()).rand((2,)), NonTensorData)
        # Any shape that broadcasts is a member; shapes are not compared.
        assert peer((1,)).is_in(NonTensorData("a", batch_size=(3,)))
        assert peer((3,)) == peer((4,))
        with pytest.raises(RuntimeError, match="broadcast"):
            peer((3,)).is_in(NonTensorData("a", batch_size=(3, 2)))
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(peer(example_data=torch.zeros(2)) == peer(example_data=torch.zeros(2)))
        assert isinstance(peer(()).to_numpy(NonTensorData("a")), NonTensorData)
        assert peer((2, 1), feature_dims=1).encode(["x", "y"])[0].tolist() == [["x", "y"]]


CHOICES: dict[str, Any] = {
    "bounded": lambda lib: lib.Choice([lib.Bounded(at, at + 1, (2,)) for at in (0, 3, 9)]),
    "integers": lambda lib: lib.Choice([lib.Bounded(at, at + 3, (2,), dtype=torch.int64) for at in (-5, 3)]),
    "classes": lambda lib: lib.Choice([lib.Categorical(10, (2,)), lib.Categorical(20, (2,))]),
    "onehot": lambda lib: lib.Choice([lib.OneHot(4), lib.OneHot(4)]),
    "data": lambda lib: lib.Choice([NonTensorData(word) for word in "abcd"]),
    "stacks": lambda lib: lib.Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")]),
    "composites": lambda lib: lib.Choice([lib.Composite(x=lib.Bounded(at, at + 1, (2,))) for at in (0, 3)]),
}


class Ours:
    Bounded, Categorical, OneHot, Composite, Choice = Bounded, Categorical, OneHot, Composite, Choice


@pytest.mark.parametrize("name", CHOICES)
class TestChoice:
    @pytest.fixture
    def theirs(self, name: str) -> Any:
        return CHOICES[name](pytest.importorskip("torchrl.data"))

    @pytest.fixture
    def mine(self, name: str) -> Any:
        return CHOICES[name](Ours)

    def test_same_draws(self, theirs: Any, mine: Any, name: str) -> None:
        for lead in (None, (), (3,), (2, 3)):
            for seed in range(6):
                torch.manual_seed(seed)
                left = theirs.rand(lead)
                torch.manual_seed(seed)
                right = mine.rand(lead)
                if lead and name in ("data", "stacks"):  # TorchRL leaves the dimensions in front out
                    left = left.expand(*lead, *left.batch_size)
                assert same(left, right)
                assert mine.is_in(right)
                assert type(left) is type(right)

    def test_fields(self, theirs: Any, mine: Any, name: str) -> None:
        for field in ("shape", "device", "dtype", "space", "ndim", "num_choices"):
            if field == "dtype" and name == "composites":
                continue  # TorchRL's composites claim float32
            assert getattr(theirs, field) == getattr(mine, field)
        assert same(theirs.zero(), mine.zero())
        for change in (
            lambda it: it.expand(3, *it.shape),
            lambda it: it.unsqueeze(0),
            lambda it: it.unsqueeze(0).squeeze(0),
            lambda it: it.clone(),
            lambda it: it.to("cpu"),
        ):
            left, right = change(theirs), change(mine)
            assert (left.shape, left.device) == (right.shape, right.device)
            assert left == change(theirs)
            assert right == change(mine)
            torch.manual_seed(0)
            drawn = left.rand()
            torch.manual_seed(0)
            assert same(drawn, right.rand())

    def test_members(self, theirs: Any, mine: Any, name: str) -> None:
        for choice in mine.choices:
            value = choice.rand() if isinstance(choice, TensorSpec) else choice
            assert theirs.is_in(value)
            assert mine.is_in(value)
        if name in ("data", "stacks"):
            outside = mine.zero()
            outside = NonTensorData("z") if name == "data" else NonTensorStack("a", "d")
        elif name == "composites":
            outside = TensorDict(x=torch.full((2,), 2.0))
        else:
            outside = torch.full(mine.shape, 99, dtype=mine.dtype)
        assert not theirs.is_in(outside)
        assert not mine.is_in(outside)


def test_differences() -> None:
    lib = pytest.importorskip("torchrl.data")
    with pytest.raises(IndexError):
        lib.Choice([])
    theirs = lib.Choice([lib.Bounded(0, 1, ()), lib.Bounded(3, 4, ())])
    with pytest.raises(TypeError):
        theirs.one()
    with pytest.raises(TypeError):
        theirs[0]
    with pytest.raises(NotImplementedError):
        theirs.project(torch.tensor(2.0))
    assert not theirs.is_in(torch.tensor([0.5, 3.5]))
    data = lib.Choice([NonTensorData("a")])
    assert data.rand((2,)).batch_size == ()
    with pytest.raises(TypeError):
        data.encode("a")
    with pytest.raises(AttributeError):
        data.is_in("a")
    with pytest.raises(AttributeError):
        data.enumerate()
    assert data.rand() is data.rand()
