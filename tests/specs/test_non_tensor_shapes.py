"""`NonTensor` in other shapes, laws over random specs, and inside composites and stacks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.unbounded import Unbounded
from tensordict import NonTensorData, TensorDict

from tests.specs.non_tensor_samples import non_tensors, sizes, wrapped_as

laws = settings(max_examples=60, deadline=None)


class TestShapes:
    def test_feature_dims_stay(self) -> None:
        spec = NonTensor((4, 3), example_data="a", feature_dims=1)
        assert spec.expand(2, 4, 3).feature_dims == 1
        assert spec.reshape(2, 2, 3).feature_dims == 1
        assert spec[0].feature_dims == 1
        assert spec[0, 0].feature_dims == 0
        assert NonTensor((4, 3)).expand(2, 4, 3).feature_dims == 2
        assert NonTensor((4, 3))[0].feature_dims == 1
        assert NonTensor((1,), batched=True).expand(3).unsqueeze(0).feature_dims == 0
        assert NonTensor((1,), batched=True).expand(3).clone().batched is True

    def test_operations(self) -> None:
        spec = NonTensor((4, 1), example_data="a")
        assert spec.view(2, -1).shape == (2, 2)
        assert spec.squeeze().shape == (4,)
        assert spec.squeeze(0) is spec
        assert spec.unsqueeze(-1).shape == (4, 1, 1)
        assert spec.flatten(0, 1).shape == (4,)
        assert spec.unflatten(0, (2, -1)).shape == (2, 2, 1)
        assert [part.shape for part in spec.unbind(0)] == [(1,)] * 4
        assert spec[[0, 2]].shape == (2, 1)
        assert spec[..., None].shape == (4, 1, 1)
        with pytest.raises(ValueError, match="cannot expand"):
            spec.expand(5, 1)
        with pytest.raises(RuntimeError, match="cannot reshape"):
            spec.reshape(3)
        with pytest.raises(IndexError, match="out of range"):
            spec.unbind(-3)

    def test_variable(self) -> None:
        spec = NonTensor((4, 1), example_data="a").make_neg_dim(0)
        assert spec.shape == (-1, 1)
        assert spec.unsqueeze(0).shape == (1, -1, 1)
        assert spec.expand(2, -1, 3).shape == (2, -1, 3)
        assert spec[:, 0].shape == (-1,)

    @laws
    @given(non_tensors(), sizes, st.data())
    def test_commute_with_drawing(
        self, spec: NonTensor, lead: tuple[int, ...], source: st.DataObject
    ) -> None:
        dim = source.draw(st.integers(0, spec.ndim))
        changes: list[Any] = [
            lambda it: it.unsqueeze(dim),
            lambda it: it.reshape(it.shape.numel()),
            lambda it: it.expand(2, *it.shape),
            lambda it: it[None, ...],
        ]
        if spec.ndim and spec.shape[0]:
            changes += [lambda it: it[0], lambda it: it.unbind(0)[-1], lambda it: it[[0, 0]]]
        for change in changes:
            probe = torch.empty(spec.shape)
            changed = change(spec)
            assert changed.shape == change(probe).shape
            value = changed.rand(lead)
            assert value.batch_size == (*lead, *changed.shape)
            assert changed.is_in(value)
            assert changed.example_data is spec.example_data
            assert changed.device == spec.device


class TestLaws:
    @laws
    @given(non_tensors(), sizes)
    def test_draws_are_members(self, spec: NonTensor, lead: tuple[int, ...]) -> None:
        value = spec.rand(lead)
        assert spec.is_in(value)
        spec.assert_is_in(value)
        assert spec.project(value) is value
        assert value.batch_size == (*lead, *spec.shape)

    @laws
    @given(non_tensors())
    def test_encode_inverts_to_numpy(self, spec: NonTensor) -> None:
        value = spec.rand()
        assert spec.encode(value) is value
        bare = spec.to_numpy(value)
        assert spec.to_numpy(spec.encode(bare)) == bare
        assert wrapped_as(spec.encode(bare)) == wrapped_as(value) or not spec.shape.numel()

    @laws
    @given(non_tensors())
    def test_copies_are_equal(self, spec: NonTensor) -> None:
        for copied in (spec.clone(), pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
            assert copied == spec
            assert copied is not spec
            assert copied.batched == spec.batched
        assert spec.to(torch.float64) is spec
        moved = spec.to("meta")
        assert moved != spec
        assert moved.to("meta") is moved
        assert moved.rand().device == torch.device("meta")
        with pytest.raises(TypeError, match="unhashable"):
            hash(spec)


class TestInComposites:
    def spec(self) -> Composite:
        return Composite(
            text=NonTensor((4,), example_data="a"),
            labels=NonTensor((4, 2), example_data="n", feature_dims=1),
            x=Unbounded((4, 3)),
            shape=(4,),
        )

    def test_draws(self) -> None:
        spec = self.spec()
        td = spec.rand()
        assert td["text"] == "a"
        assert wrapped_as(td.get("labels")) == [("n", (2,))] * 4
        assert spec.is_in(td)
        assert spec.rand((2,)).get("text").batch_size == (2, 4)
        assert spec.is_in(spec.rand((2,)))
        assert spec.is_in(torch.stack([td, td]))
        assert spec.project(td) is td

    def test_encode(self) -> None:
        spec = Composite(text=NonTensor(()), x=Unbounded(()))
        td = spec.encode({"text": "hello", "x": 1.5})
        assert td["text"] == "hello"
        assert spec.to_numpy(td) == {"text": "hello", "x": np.float32(1.5)}

    def test_shapes(self) -> None:
        spec = self.spec()
        assert spec[0]["text"].shape == ()
        assert spec[0]["labels"].shape == (2,)
        assert spec.reshape(2, 2)["labels"].shape == (2, 2, 2)
        assert spec.expand(3, 4)["text"].rand().batch_size == (3, 4)
        assert spec.clone() == spec
        assert pickle.loads(pickle.dumps(spec)) == spec

    def test_wrong_entries(self) -> None:
        spec = self.spec()
        td = spec.rand()
        td["text"] = torch.zeros(4)
        assert not spec.is_in(td)
        with pytest.raises(AssertionError, match="key 'text': expected data that are not tensors"):
            spec.assert_is_in(td)
        with pytest.raises(TypeError, match="text"):
            spec.type_check(td)

    def test_shapes_are_checked(self) -> None:
        spec = Composite(text=NonTensor((2,)))
        assert not spec.is_in(TensorDict(text=NonTensorData("a")))
        assert spec.is_in(TensorDict(text=NonTensorData("a", batch_size=(2,))))

    def test_takes_the_device(self) -> None:
        leaf = NonTensor((4,), example_data="a")
        spec = Composite(text=leaf, shape=(4,), device="cpu")
        assert spec["text"].device == torch.device("cpu")
        assert leaf.device is None
        assert spec.rand().get("text").device == torch.device("cpu")
        with pytest.raises(RuntimeError, match="text"):
            Composite(text=NonTensor((4,), "meta"), shape=(4,), device="cpu")

    def test_takes_the_batch_dimensions(self) -> None:
        spec = Composite(text=NonTensor((), example_data="a"), shape=(4,))
        assert spec["text"].shape == (4,)
        assert spec.rand().get("text").tolist() == ["a"] * 4


class TestStacks:
    def test_equal_specs(self) -> None:
        spec = NonTensor((4,), example_data="a")
        stacked = torch.stack([spec, spec.clone()])
        assert stacked == spec.expand(2, 4)
        assert isinstance(stacked, NonTensor)

    def test_other_examples(self) -> None:
        stacked = torch.stack([NonTensor((4,), example_data=word) for word in "ab"])
        assert stacked.shape == (2, 4)
        assert [part.data for part in stacked.rand().unbind(0)] == ["a", "b"]
        assert stacked.is_in(stacked.rand())
