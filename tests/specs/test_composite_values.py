"""Values of a `Composite`: their class, their batch, variable dimensions; specs made from values."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Bounded, Categorical, Composite, Unbounded
from specgen_runtime.specs.composites.from_tensordict import make_composite_from_td
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from tensordict import (
    LazyStackedTensorDict,
    NonTensorStack,
    TensorClass,
    TensorDict,
    TensorDictBase,
    TypedTensorDict,
    lazy_stack,
    tensorclass,
)


@tensorclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


class Triple(TensorClass):
    a: torch.Tensor
    b: torch.Tensor
    c: str = ""


class Plain(TensorDict):
    pass


class Typed(TypedTensorDict):
    a: torch.Tensor
    b: torch.Tensor


CLASSES = [Pair, Triple, Plain, Typed]


def of(data_cls: Any, shape: tuple[int, ...] = (2,), **kwargs: Any) -> Composite:
    return Composite(
        a=Unbounded((*shape, 3)), b=Categorical(4, shape), shape=shape, data_cls=data_cls, **kwargs
    )


@pytest.mark.parametrize("data_cls", CLASSES)
class TestDataClass:
    def test_values(self, data_cls: Any) -> None:
        spec = of(data_cls, device="cpu")
        for value in (spec.rand(), spec.zero((4,)), spec.one(), spec.rand_sequence(3), spec.sample((2, 5))):
            assert type(value) is data_cls
            assert value.batch_size[-1:] == (2,)
            assert value.device == torch.device("cpu")
            assert spec.is_in(value)
            assert spec.project(value) is value
            assert not spec.is_in({"a": value.get("a"), "b": value.get("b")})
        other = of(Pair if data_cls is Plain else Plain).rand()
        with pytest.raises(TypeError, match=f"expected a {data_cls.__name__}, got {type(other).__name__}"):
            spec.project(other)
        assert spec.zero((4,)).batch_size == (4, 2)
        with pytest.raises(AssertionError, match=f"expected a {data_cls.__name__}, got dict"):
            spec.assert_is_in({})

    def test_encode(self, data_cls: Any) -> None:
        spec = of(data_cls)
        value = spec.rand()
        back = spec.encode(spec.to_numpy(value))
        assert type(back) is data_cls
        assert back.batch_size == (2,)
        assert (back == value).all()
        nested = Composite(n=spec)
        assert type(nested.rand().get("n")) is data_cls
        assert type(nested.encode({"n": {"a": np.zeros((2, 3)), "b": [0, 1]}}).get("n")) is data_cls
        assert nested.is_in(nested.rand())
        assert Composite(n=of(None)).is_in(nested.rand())

    def test_kept(self, data_cls: Any) -> None:
        spec = of(data_cls)
        for made in (
            spec.clone(), spec.expand(3, 2), spec.to("meta"), spec.to(torch.float64), spec[0], spec.unbind(0)[0],
            spec.reshape(1, 2), spec.squeeze(), spec.unsqueeze(0), spec.make_neg_dim(0), spec.empty(),
            copy.deepcopy(spec), pickle.loads(pickle.dumps(spec)),
        ):  # fmt: skip
            assert made.data_cls is data_cls
            assert f"data_cls={data_cls.__name__}" in repr(made)
        assert spec == of(data_cls)
        assert spec != of(None)

    def test_names(self, data_cls: Any) -> None:
        assert of(data_cls, names=["time"]).rand((3,)).names == [None, "time"]


class TestData:
    def test_plain(self) -> None:
        spec = of(TensorDict)
        assert type(spec.rand()) is TensorDict
        assert spec.is_in(lazy_stack(list(spec.rand().unbind(0))))
        assert not spec.is_in(spec.rand().to_dict())
        assert of(None).is_in(of(Pair).rand())

    @pytest.mark.parametrize(
        "data_cls", [dict, int, TensorDictBase, LazyStackedTensorDict, "Pair", Pair(a=1, b=2)]
    )
    def test_other_classes(self, data_cls: Any) -> None:
        with pytest.raises(TypeError, match="data_cls must be TensorDict"):
            Composite(data_cls=data_cls)

    def test_updates(self) -> None:
        spec = Composite(a=Unbounded((2, 3)), n=Composite(c=Categorical(3, (2,))), shape=(2,))
        for batch in ((2,), (5, 2)):
            td = TensorDict(kept=torch.ones(batch), a=torch.ones(*batch, 3), batch_size=batch)
            assert spec.zeros_update(td) is td
            assert td["a"].sum() == 0
            assert spec.ones_update(td)["n", "c"].sum() == td["kept"].numel()
            assert spec.is_in(spec.rand_update(td))
            assert td["kept"].all()
        with pytest.raises(RuntimeError):
            spec.rand_update(TensorDict(batch_size=(3,)))

    def test_lead_of_what_is_encoded(self) -> None:
        spec = Composite(a=Unbounded((2, 3)), b=Categorical(4, (2,)), shape=(2,))
        assert spec.encode({"a": torch.zeros(5, 2, 3)}).batch_size == (5, 2)
        assert spec.encode(TensorDict(a=torch.zeros(5, 2, 3), batch_size=5)).batch_size == (5, 2)
        assert spec.encode(TensorDict(a=torch.zeros(5, 2, 3), batch_size=(5, 2))).batch_size == (5, 2)
        with pytest.raises(RuntimeError, match=r"'a' has \(5, 2\), 'b' has \(2,\)"):
            spec.encode({"a": torch.zeros(5, 2, 3), "b": [0, 1]})
        free = Composite(a=Unbounded((3,)))
        assert free.encode({"a": torch.zeros(5, 3)}).batch_size == ()
        assert free.encode(TensorDict(a=torch.zeros(5, 3), batch_size=5)).batch_size == (5,)

    def test_encode_keys(self) -> None:
        spec = Composite({("a", "b"): Unbounded((2,)), ("a", "c"): Unbounded((2,)), "d": Unbounded(())})
        value = spec.encode({("a", "b"): [1, 2], "d": 3, ("a", "c"): [4, 5]})
        assert value["a", "b"].tolist() == [1, 2]
        assert value["a", "c"].tolist() == [4, 5]
        with pytest.raises(TypeError, match="a key must be"):
            spec.encode({3: 1})
        for wrong in (3, [1, 2], torch.zeros(2), None):
            with pytest.raises(
                TypeError, match=f"cannot encode: expected a mapping, got {type(wrong).__name__}"
            ):
                spec.encode(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match=f"expected a tensordict, got {type(wrong).__name__}"):
                spec.to_numpy(wrong)  # type: ignore[arg-type]
        with pytest.raises(RuntimeError) as caught:
            spec.encode({"a": {"b": [1, 2, 3]}})
        assert str(caught.value).startswith("key 'a': key 'b': ")

    def test_devices_of_what_is_encoded(self) -> None:
        spec = Composite(a=Unbounded((2,)), n={"b": Unbounded((2,))}).to("meta")
        assert spec.encode({"a": [1, 2]}).device == torch.device("meta")
        waiting = spec.encode({"a": [1, 2], "n": {"b": [1, 2]}}, ignore_device=True)
        assert waiting.device is None
        assert waiting["n", "b"].device.type == "cpu"

    def test_t12_variable_batch(self) -> None:
        spec = Composite(a=Unbounded((2, 3)), n=Composite(b=Bounded(0, 1, (2,))), shape=(2,)).make_neg_dim(0)
        assert spec.shape == (-1,)
        assert spec["n", "b"].shape == (-1,)
        assert spec.rand().batch_size == (1,)
        assert spec.zero((4,)).batch_size == (4, 1)
        for size in (1, 7):
            value = TensorDict(a=torch.zeros(size, 3), n=TensorDict(b=torch.zeros(size)), batch_size=size)
            assert spec.is_in(value)
            encoded = spec.encode(spec.to_numpy(value))
            assert encoded.batch_size == encoded["n"].batch_size == (size,)
        with pytest.raises(RuntimeError, match="batch dimensions of the entries differ"):
            spec.encode({"a": np.zeros((4, 3)), "n": {"b": np.zeros(3)}})
        with pytest.raises(ValueError, match=r"must start with the batch dimensions \(-1,\)"):
            Composite(a=Unbounded((2, 3)), shape=(-1,))
        with pytest.raises(ValueError, match="shape"):
            spec.rand((-1,))

    def test_entries_that_are_no_tensors(self) -> None:
        spec = Composite(text=NonTensor((), example_data="x"), a=Unbounded((3, 2)), shape=(3,), device="cpu")
        assert spec["text"].shape == (3,)
        assert spec["text"].device == torch.device("cpu")
        value = spec.rand((2,))
        assert value.batch_size == (2, 3)
        assert spec.is_in(value)
        back = spec.to_numpy(spec.encode({"text": "hello", "a": np.ones((3, 2))}))
        assert back["text"] == ["hello"] * 3


class TestFromTensordict:
    def data(self) -> TensorDict:
        return TensorDict(
            obs=torch.randn(4, 3),
            flag=torch.ones(4, 1, dtype=torch.bool),
            next=TensorDict(count=torch.arange(8, dtype=torch.int32).reshape(4, 2), batch_size=4),
            text="hello",
            batch_size=4,
        )

    def test_the_data_belong_to_it(self) -> None:
        data = self.data()
        spec = make_composite_from_td(data)
        assert spec.is_in(data)
        assert spec.shape == (4,)
        assert spec.device is None
        assert spec["flag"] == Unbounded((4, 1), dtype=torch.bool)
        assert spec["next", "count"] == Unbounded((4, 2), dtype=torch.int32)
        assert spec["text"] == NonTensor((4,), example_data="hello", feature_dims=0)
        assert set(spec.zero().keys(True, True)) == set(data.keys(True, True))
        assert spec.data_cls is TensorDict

    def test_null_shapes(self) -> None:
        data = TensorDict(a=torch.tensor(1.0))
        assert make_composite_from_td(data)["a"].shape == (1,)
        spec = make_composite_from_td(data, unsqueeze_null_shapes=False)
        assert spec["a"].shape == ()
        assert spec.is_in(data)

    def test_dynamic_shapes(self) -> None:
        spec = make_composite_from_td(self.data(), dynamic_shape=True)
        assert [spec[key].shape for key in ("obs", "flag", ("next", "count"))] == [(4, -1)] * 3
        with pytest.raises(ValueError, match="batch dimension") as caught:
            make_composite_from_td(
                TensorDict(n=TensorDict(a=torch.zeros(3), batch_size=3)), dynamic_shape=True
            )
        assert str(caught.value).startswith("key 'n': key 'a': ")

    def test_lazy_stacks(self) -> None:
        data = lazy_stack(
            [TensorDict(a=torch.zeros(3), t="x"), TensorDict(a=torch.zeros(3), t="y", b=torch.zeros(1))]
        )
        spec = make_composite_from_td(data)
        assert set(spec.keys()) == {"a", "t"}
        assert spec.shape == (2,)
        assert spec.is_in(data)
        assert spec.is_in(spec.rand())
        with pytest.raises(RuntimeError) as caught:
            make_composite_from_td(lazy_stack([TensorDict(a=torch.zeros(3)), TensorDict(a=torch.zeros(4))]))
        assert str(caught.value).startswith("key 'a': ")

    def test_data_classes_and_names(self) -> None:
        data = Triple(a=torch.zeros(2, 3), b=torch.zeros(2), c="text", batch_size=[2])
        data.names = ["time"]
        spec = make_composite_from_td(data)
        assert spec.data_cls is Triple
        assert spec.names == ["time"]
        assert isinstance(spec["c"], NonTensor)
        assert spec.is_in(data)
        assert type(spec.rand()) is Triple
        stacked = make_composite_from_td(TensorDict(t=NonTensorStack("a", "b"), batch_size=2))
        assert stacked["t"] == NonTensor((2,), example_data="a", feature_dims=0)

    @pytest.mark.parametrize("data", [{"a": torch.zeros(2)}, torch.zeros(2), None, TensorDict, 3])
    def test_other_data(self, data: Any) -> None:
        with pytest.raises(TypeError, match="expected a tensordict or a tensorclass"):
            make_composite_from_td(data)

    def test_dtypes_that_no_spec_has(self) -> None:
        with pytest.raises(TypeError, match="dtype") as caught:
            make_composite_from_td(TensorDict(a=torch.zeros(2, dtype=torch.complex64)))
        assert str(caught.value).startswith("key 'a': ")


@pytest.mark.peers
@pytest.mark.parametrize("arguments", [{}, {"unsqueeze_null_shapes": False}, {"dynamic_shape": True}])
def test_from_tensordict_against_torchrl(arguments: dict[str, bool]) -> None:
    theirs = pytest.importorskip("torchrl.envs.utils").make_composite_from_td
    plain = TensorDict(
        zero=torch.tensor(1.0),
        flag=torch.ones(3, dtype=torch.bool),
        byte=torch.ones(3, 2, dtype=torch.uint8),
        n=TensorDict(x=torch.ones(2, dtype=torch.float64), deep=TensorDict(y=torch.tensor(3))),
        text="hi",
        texts=NonTensorStack("a", "b"),
    )
    batched = TensorDict(a=torch.zeros(4, 3), b=torch.zeros(4, 1, 2), t="x", batch_size=4)
    part = TensorDict(a=torch.zeros(3), n=TensorDict(x=torch.zeros(2, 1)), text="hi")
    for data in (plain, batched, lazy_stack([part, part]), Pair(a=torch.zeros(2), b=torch.ones(3))):
        mine, other = make_composite_from_td(data, **arguments), theirs(data, **arguments)
        assert set(mine.keys(True)) == set(other.keys(True))
        assert mine.shape == other.shape
        assert mine.device == other.device
        for key, leaf in mine.items(True, True):
            same = other[key]
            assert type(leaf).__name__ == type(same).__name__
            assert leaf.shape == same.shape
            assert leaf.device == same.device
            if not isinstance(leaf, NonTensor):
                assert leaf.dtype == same.dtype
            else:
                assert leaf.example_data == same.example_data
