"""`NonTensor`: the spec of strings and other Python objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.unbounded import Unbounded
from tensordict import NonTensorData, NonTensorStack, TensorDict

from tests.specs.non_tensor_samples import wrapped_as

laws = settings(max_examples=60, deadline=None)


class TestConstruction:
    def test_defaults(self) -> None:
        spec = NonTensor()
        assert isinstance(spec, TensorSpec)
        assert spec.shape == (1,)
        assert spec.ndim == 1
        assert spec.device is None
        assert spec.dtype is None
        assert spec.space is None
        assert spec.domain == ""
        assert spec.example_data is None
        assert spec.batched is False
        assert spec.feature_dims == 1

    def test_forms(self) -> None:
        assert NonTensor(3).shape == (3,)
        assert NonTensor([2, 3]).shape == (2, 3)
        spec = NonTensor((2, 3), "cpu", torch.int64, "a", True)
        assert spec.device == torch.device("cpu")
        assert spec.dtype == torch.int64
        assert spec.example_data == "a"
        assert (spec.batched, spec.feature_dims) == (True, 0)
        assert NonTensor((2, 3), batched=False).feature_dims == 2
        assert NonTensor((2, 3), feature_dims=1).batched is False

    @pytest.mark.parametrize(
        ("arguments", "error", "says"),
        [
            ({"batched": True, "feature_dims": 1}, ValueError, "exclude each other"),
            ({"feature_dims": 2}, ValueError, "feature_dims=2"),
            ({"feature_dims": -1}, ValueError, "at least 0"),
            ({"feature_dims": 0.5}, TypeError, "whole number"),
            ({"shape": "a"}, TypeError, "shape"),
            ({"shape": (-2,)}, ValueError, "negative"),
            ({"device": "nowhere"}, ValueError, "nowhere"),
            ({"dtype": "text"}, TypeError, "dtype"),
            ({"examples": "a"}, TypeError, "examples"),
        ],
    )
    def test_errors(self, arguments: dict[str, Any], error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            NonTensor(**arguments)


class TestValues:
    def test_one_object_for_all_places(self) -> None:
        value = NonTensor(example_data="a", shape=(3,)).rand()
        assert isinstance(value, NonTensorData)
        assert value.batch_size == (3,)
        assert value.data == "a"
        assert value.device is None

    def test_batched(self) -> None:
        value = NonTensor(example_data="a", shape=(3,), batched=True).rand()
        assert isinstance(value, NonTensorStack)
        assert value.tolist() == ["a", "a", "a"]

    def test_dimensions_in_front_are_stacked(self) -> None:
        spec = NonTensor(example_data="a", shape=(2, 3), feature_dims=1)
        assert wrapped_as(spec.rand()) == [("a", (3,))] * 2
        assert wrapped_as(spec.rand((4,))) == [[("a", (3,))] * 2] * 4
        assert wrapped_as(spec.rand(4)) == wrapped_as(spec.rand((4,)))
        assert wrapped_as(NonTensor((), example_data=1).rand((2,))) == [(1, ())] * 2

    def test_zero_and_one_are_the_example(self) -> None:
        spec = NonTensor((3, 4), example_data="text")
        for make in (spec.rand, spec.sample, spec.zero, spec.zeros, spec.one, spec.ones):
            value = make((2,))
            assert value.batch_size == (2, 3, 4)
            assert value.data == "text"

    def test_the_wrapper_is_fresh_and_the_object_shared(self) -> None:
        example = {"a": []}
        spec = NonTensor((2,), example_data=example, batched=True)
        first, second = spec.rand().unbind(0)
        assert first is not second
        assert first.data is example

    def test_device(self) -> None:
        assert NonTensor((2,), "cpu").rand((3,)).device == torch.device("cpu")
        assert NonTensor((2,)).cpu().zero().device == torch.device("cpu")

    def test_nothing_is_drawn(self) -> None:
        state = torch.get_rng_state()
        assert NonTensor((2,)).rand_sequence(4).batch_size == (4, 2)
        assert torch.equal(state, torch.get_rng_state())

    def test_variable_dimensions(self) -> None:
        spec = NonTensor((-1, 2), example_data="a")
        assert spec.rand((3,)).batch_size == (3, 1, 2)
        for size in (0, 1, 5):
            assert spec.is_in(NonTensorData("b", batch_size=(size, 2)))
        assert not spec.is_in(NonTensorData("b", batch_size=(5, 3)))
        with pytest.raises(ValueError, match="negative"):
            spec.rand((-1,))

    def test_without_places(self) -> None:
        for value in (NonTensor((0, 2), batched=True).rand(), NonTensor((2,)).rand((0,))):
            assert value.batch_size == (0, 2)
            assert value.tolist() == []


class TestMembership:
    def test_wrapped(self) -> None:
        spec = NonTensor((2,), example_data="a")
        assert spec.is_in(NonTensorData("another", batch_size=(2,)))
        assert spec.is_in(NonTensorData(3, batch_size=(5, 2)))
        assert spec.is_in(NonTensorStack("x", "y"))
        assert not spec.is_in(NonTensorData("a"))
        assert not spec.is_in(NonTensorData("a", batch_size=(2, 3)))
        assert not NonTensor((1,)).is_in(NonTensorData("a", batch_size=(3,)))

    @pytest.mark.parametrize("bare", ["text", 3, None, {"a": 1}, ["x", "y"], np.zeros(2), object()])
    def test_bare_objects_are_members(self, bare: object) -> None:
        assert NonTensor((2,)).is_in(bare) is True

    @pytest.mark.parametrize("value", [torch.zeros(2), TensorDict({}, (2,))])
    def test_tensors_are_not(self, value: object) -> None:
        spec = NonTensor((2,))
        assert spec.is_in(value) is False
        with pytest.raises(AssertionError, match=f"not tensors, got {type(value).__name__}"):
            spec.assert_is_in(value)

    def test_device(self) -> None:
        spec = NonTensor((), "cpu")
        assert spec.is_in(NonTensorData("a", device="cpu"))
        assert spec.is_in(NonTensorData("a"))  # it names none
        assert not spec.is_in(NonTensorData("a", device="meta"))
        assert NonTensor(()).is_in(NonTensorData("a", device="meta"))

    def test_message(self) -> None:
        with pytest.raises(AssertionError, match=r"expected shape \(2,\) .*, got \(3,\)"):
            NonTensor((2,)).assert_is_in(NonTensorData("a", batch_size=(3,)))

    def test_ragged_stacks(self) -> None:
        ragged = NonTensorStack(NonTensorData("x", batch_size=(2,)), NonTensorData("y", batch_size=(3,)))
        assert NonTensor((2, -1)).is_in(ragged)
        spec = NonTensor((2, 3))
        assert not spec.is_in(ragged)
        assert spec.shape == (2, 3)

    def test_type_check(self) -> None:
        spec = NonTensor(())
        spec.type_check(NonTensorData("a", batch_size=(7,)))
        spec.type_check("a")
        with pytest.raises(TypeError, match="key 'text': expected data that are not tensors, got Tensor"):
            spec.type_check(torch.zeros(()), "text")


class TestProject:
    def test_members_stay(self) -> None:
        spec = NonTensor((2,))
        for value in (NonTensorStack("x", "y"), "bare"):
            assert spec.project(value) is value

    def test_device(self) -> None:
        spec = NonTensor((), "cpu")
        projected = spec.project(NonTensorData("a", device="meta"))
        assert spec.is_in(projected)
        assert projected.data == "a"

    def test_what_can_not_be_mapped(self) -> None:
        spec = NonTensor((2,), "cpu")
        with pytest.raises(ValueError, match=r"cannot project: expected shape \(2,\)"):
            spec.project(NonTensorData("a"))
        with pytest.raises(TypeError, match="got Tensor"):
            spec.project(torch.zeros(2))


class TestEncode:
    @pytest.mark.parametrize("bare", ["text", None, {"a": np.zeros(2)}, ["x", "y"], 3])
    def test_one_object(self, bare: Any) -> None:
        spec = NonTensor((2,))
        value = spec.encode(bare)
        assert isinstance(value, NonTensorData)
        assert value.batch_size == (2,)
        assert value.data is bare
        assert spec.is_in(value)
        assert spec.to_numpy(value) is bare

    def test_an_object_for_each_place(self) -> None:
        spec = NonTensor((2, 3), feature_dims=1)
        value = spec.encode(["x", "y"])
        assert wrapped_as(value) == [("x", (3,)), ("y", (3,))]
        assert spec.to_numpy(value) == ["x", "y"]
        assert wrapped_as(spec.encode("x")) == [("x", (3,))] * 2
        assert wrapped_as(spec.encode(["x"])) == [(["x"], (3,))] * 2
        deep = NonTensor((2, 1), batched=True)
        assert deep.to_numpy(deep.encode([["x"], ["y"]])) == [["x"], ["y"]]

    def test_variable_batch(self) -> None:
        spec = NonTensor((-1,), batched=True)
        for texts in ([], ["x"], ["x", "y", "z"]):
            value = spec.encode(texts)
            assert value.batch_size == (len(texts),)
            assert spec.to_numpy(value) == texts

    def test_wrapped_data_stay(self) -> None:
        spec = NonTensor((2,), "cpu")
        value = NonTensorStack("x", "y").to("cpu")
        assert spec.encode(value) is value
        assert spec.encode(NonTensorStack("x", "y")).device == torch.device("cpu")
        assert spec.encode(NonTensorStack("x", "y"), ignore_device=True).device is None
        assert wrapped_as(spec.encode(NonTensorData("x"))) == ("x", (2,))
        for ignore_device in (False, True):
            with pytest.raises(RuntimeError, match=r"expected shape \(2,\)"):
                spec.encode(NonTensorData("x", batch_size=(3,)), ignore_device=ignore_device)

    def test_tensors_can_be_data(self) -> None:
        tensor = torch.zeros(2)
        assert NonTensor(()).encode(tensor).data is tensor

    def test_to_numpy(self) -> None:
        spec = NonTensor((2,))
        assert spec.to_numpy("bare") == "bare"
        assert spec.to_numpy(spec.rand((3,))) == [None] * 3
        # Data that differ along the feature dimensions are not thrown away.
        assert spec.to_numpy(NonTensorStack("x", "y")) == ["x", "y"]
        with pytest.raises(AssertionError, match="shape"):
            spec.to_numpy(NonTensorData("a"), safe=True)
        assert spec.to_numpy(NonTensorData("a", batch_size=(2,)), safe=True) == "a"


EXAMPLES: list[Any] = [
    "text",
    float("nan"),
    torch.tensor([1.0, 2.0]),
    np.array([1.0, np.nan]),
    np.array(["a", {"b": np.zeros(2)}], dtype=object),
    {"a": np.zeros(2), "b": [torch.zeros(3), ("x", 1)]},
    TensorDict(a=torch.zeros(2), b=NonTensorData("x")),
]


OTHERS: list[Any] = [
    "other",
    1.0,
    torch.tensor([1.0, 3.0]),
    torch.tensor([1, 2]),
    torch.zeros(3),
    np.array([1.0, 2.0]),
    np.array(["a", {"b": np.ones(2)}], dtype=object),
    {"a": np.zeros(2), "b": [torch.zeros(3), ("x", 2)]},
    {"a": np.zeros(2)},
    [np.zeros(2)],
    TensorDict(a=torch.zeros(2), b=NonTensorData("y")),
]


class TestEquality:
    @pytest.mark.parametrize("example", EXAMPLES, ids=repr)
    def test_contents_are_compared(self, example: Any) -> None:
        spec = NonTensor((2,), example_data=example)
        assert spec == NonTensor((2,), example_data=copy.deepcopy(example))
        assert spec == spec.clone()
        assert pickle.loads(pickle.dumps(spec)) == spec
        for other in OTHERS:
            assert (spec == NonTensor((2,), example_data=other)) is False
            assert spec != NonTensor((2,), example_data=other)

    @pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
    def test_nested_tensors(self) -> None:
        first, other = (torch.nested.nested_tensor([torch.zeros(2), torch.ones(size)]) for size in (3, 4))
        spec = NonTensor((), example_data=first)
        assert spec == NonTensor((), example_data=first.clone())
        assert spec != NonTensor((), example_data=other)
        assert spec != NonTensor((), example_data=torch.zeros(2, 3))

    def test_objects_that_can_not_be_compared(self) -> None:
        class Odd:
            def __eq__(self, other: object) -> bool:
                raise RuntimeError

        odd = Odd()
        assert NonTensor(example_data=odd) == NonTensor(example_data=odd)
        assert NonTensor(example_data=odd) != NonTensor(example_data=Odd())

    @pytest.mark.parametrize(
        "other",
        [
            NonTensor((3,), example_data="a"),
            NonTensor((2,), "cpu", example_data="a"),
            NonTensor((2,), dtype=torch.int64, example_data="a"),
            Unbounded((2,)),
            "a",
        ],
        ids=repr,
    )
    def test_fields_are_compared(self, other: object) -> None:
        assert NonTensor((2,), example_data="a") != other

    def test_how_data_are_grouped_is_not_compared(self) -> None:
        plain = NonTensor((2, 3), example_data="a")
        assert plain == NonTensor((2, 3), example_data="a", batched=True)
        assert plain == NonTensor((2, 3), example_data="a", feature_dims=1)
        # The data of the new dimension are stacked, those of the others are not.
        assert NonTensor((3,), example_data="a").expand(2, 3) == plain

    def test_text(self) -> None:
        assert (
            repr(NonTensor((2,), example_data="a")) == "NonTensor(example_data='a', shape=(2,), device=None)"
        )
        spec = NonTensor((2, 3), "cpu", example_data="a" * 100, feature_dims=1)
        assert repr(spec).endswith("shape=(2, 3), feature_dims=1, device=cpu)")
        assert len(repr(spec)) < 120


@pytest.mark.parametrize("method", ["cardinality", "enumerate"])
def test_members_are_countless(method: str) -> None:
    with pytest.raises(NotImplementedError, match="NonTensor"):
        getattr(NonTensor(), method)()
    with pytest.raises(NotImplementedError, match="NonTensor"):
        NonTensor().index(0, torch.zeros(2))
