"""Constructor arguments in every form, right and wrong: the same spec or the same kind of error as TorchRL's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tensordict import NonTensorData, NonTensorStack

from tests.specs.peer import Differs, Expression, compare

pytestmark = pytest.mark.peers

INF, NAN = float("inf"), float("nan")

UNBOUNDED: dict[str, Expression] = {
    "Unbounded()": lambda lib: lib.Unbounded(),
    "Unbounded int": lambda lib: lib.Unbounded(3),
    "Unbounded int64 shape": lambda lib: lib.Unbounded((np.int64(3),)),
    "Unbounded list": lambda lib: lib.Unbounded([2, 3]),
    "Unbounded Size": lambda lib: lib.Unbounded(torch.Size([2])),
    "Unbounded keywords": lambda lib: lib.Unbounded(shape=(2,), device="cpu", dtype=torch.int8),
    "Unbounded positional": lambda lib: lib.Unbounded((2,), torch.device("cpu"), torch.float64),
    "Unbounded zero size": lambda lib: lib.Unbounded((0, 3)),
    "Unbounded no dims": lambda lib: lib.Unbounded(()),
    "Unbounded dtypes": lambda lib: [
        lib.Unbounded((1,), dtype=dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.uint8, torch.int16, torch.bool)
    ],
    "Unbounded two sizes": lambda lib: lib.Unbounded(2, 3),
    "Unbounded float shape": lambda lib: lib.Unbounded(2.5),
    "Unbounded text device": lambda lib: lib.Unbounded((1,), device="nowhere"),
    "UnboundedContinuous": lambda lib: lib.UnboundedContinuous((2,)),
    "UnboundedDiscrete": lambda lib: lib.UnboundedDiscrete((2,)),
    "UnboundedDiscrete float": lambda lib: lib.UnboundedDiscrete((2,), dtype=torch.float32),
    "UnboundedContinuous int": lambda lib: lib.UnboundedContinuous((2,), dtype=torch.int32),
    "Unbounded isinstance": lambda lib: [
        isinstance(lib.Unbounded(dtype=dtype), kind)
        for dtype in (torch.float32, torch.int64, torch.bool)
        for kind in (lib.Unbounded, lib.UnboundedContinuous, lib.UnboundedDiscrete, lib.TensorSpec)
    ],
    "Unbounded class of the instance": lambda lib: type(lib.Unbounded(dtype=torch.int64)) is lib.Unbounded,
}
BOUNDED: dict[str, Expression] = {
    "Bounded keywords": lambda lib: lib.Bounded(low=-1, high=1, shape=(2,)),
    "Bounded positional": lambda lib: lib.Bounded(-1, 1, (2,), "cpu", torch.float64),
    "Bounded int shape": lambda lib: lib.Bounded(-1, 1, 3),
    "Bounded arrays": lambda lib: lib.Bounded(np.zeros(3), np.ones(3)),
    "Bounded array dtype": lambda lib: lib.Bounded(np.zeros(2, np.float64), np.ones(2, np.float64)).dtype,
    "Bounded array and number": lambda lib: lib.Bounded(np.zeros(3), 1),
    "Bounded number and tensor": lambda lib: lib.Bounded(0, torch.ones(2, 2)),
    "Bounded 0-d tensors": lambda lib: lib.Bounded(torch.tensor(0.0), torch.tensor(1.0)),
    "Bounded 0-d tensors, shape": lambda lib: lib.Bounded(torch.tensor(0.0), torch.tensor(1.0), (3,)),
    "Bounded lists": lambda lib: lib.Bounded([0, 1], [2, 3]),
    "Bounded lists, dtype": lambda lib: lib.Bounded([0, 1], [2, 3], dtype=torch.int64),
    "Bounded int arrays": lambda lib: lib.Bounded(np.zeros(2, np.int64), np.ones(2, np.int64)),
    "Bounded int tensors": lambda lib: lib.Bounded(torch.zeros(2, dtype=torch.int64), 1),
    "Bounded array of size 1": lambda lib: lib.Bounded([0.0], [1.0]),
    "Bounded array of size 1, shape": lambda lib: lib.Bounded([0.0], [1.0], (3,)),
    "Bounded numbers without shape": lambda lib: lib.Bounded(0, 1),
    "Bounded shapes that differ": lambda lib: lib.Bounded(np.zeros(2), np.ones(3)),
    "Bounded shape that differs": lambda lib: lib.Bounded(np.zeros(2), np.ones(2), (3,)),
    "Bounded shape in front": lambda lib: lib.Bounded(np.zeros(2), np.ones(2), (3, 2)),
    "Bounded minimum": lambda lib: lib.Bounded(minimum=0, maximum=1, shape=(1,)),
    "Bounded nothing": lambda lib: lib.Bounded(),
    "Bounded low only": lambda lib: lib.Bounded(0),
    "Bounded infinite": lambda lib: lib.Bounded(-INF, INF, (1,)),
    "Bounded equal": lambda lib: lib.Bounded(1, 1, (2,)),
    "Bounded crossed": lambda lib: lib.Bounded(1, -1, ()),
    "Bounded NaN": lambda lib: lib.Bounded(NAN, 1, (1,)),
    "Bounded uint8 -1": lambda lib: lib.Bounded(-1, 3, (1,), dtype=torch.uint8),
    "Bounded int64 .5": lambda lib: lib.Bounded(0.5, 3, (1,), dtype=torch.int64),
    "Bounded text": lambda lib: lib.Bounded("low", "high", (1,)),
    "Bounded bool": lambda lib: lib.Bounded(0, 1, (2,), dtype=torch.bool),
    "BoundedContinuous": lambda lib: lib.BoundedContinuous(0, 1, (2,)),
    "BoundedDiscrete": lambda lib: lib.BoundedDiscrete(0, 1, (2,)),
    "BoundedDiscrete int": lambda lib: lib.BoundedDiscrete(0, 1, (2,), dtype=torch.int32),
    "Bounded isinstance": lambda lib: [
        isinstance(lib.Bounded(0, 1, (1,), dtype=dtype), kind)
        for dtype in (torch.float32, torch.int64)
        for kind in (lib.Bounded, lib.BoundedContinuous, lib.BoundedDiscrete, lib.Unbounded)
    ],
    "Bounded low and high": lambda lib: (lib.Bounded(0, 1, (2,)).low, lib.Bounded(0, 1, (2,)).high),
    "Bounded box": lambda lib: (lib.Bounded(0, 1, (2,)).space.low, lib.Bounded(0, 1, (2,)).space.high),
}
CLASSES: dict[str, Expression] = {
    "Categorical": lambda lib: lib.Categorical(4),
    "Categorical shape": lambda lib: lib.Categorical(4, (2, 3)),
    "Categorical int shape": lambda lib: lib.Categorical(4, shape=3),
    "Categorical none shape": lambda lib: lib.Categorical(4, shape=None),
    "Categorical positional": lambda lib: lib.Categorical(4, (2,), "cpu", torch.int32),
    "Categorical mask": lambda lib: lib.Categorical(2, mask=torch.tensor([True, False])),
    "Categorical mask spread": lambda lib: lib.Categorical(2, (3,), mask=torch.tensor([True, False])),
    "Categorical mask too long": lambda lib: lib.Categorical(2, mask=torch.ones(3, dtype=torch.bool)),
    "Categorical one": lambda lib: lib.Categorical(1),
    "Categorical tensor n": lambda lib: lib.Categorical(torch.tensor(4)),
    "Categorical numpy n": lambda lib: lib.Categorical(np.int64(4)),
    "Categorical 0": lambda lib: lib.Categorical(0),
    "Categorical -1": lambda lib: lib.Categorical(-1, (2,)),
    "Categorical -3": lambda lib: lib.Categorical(-3),
    "Categorical 2.5": lambda lib: lib.Categorical(2.5),
    "Categorical nothing": lambda lib: lib.Categorical(),
    "Categorical unknown n": lambda lib: lib.Categorical(-1).n,
    "Categorical unknown rand": lambda lib: lib.Categorical(-1).rand(),
    "Categorical unknown is_in": lambda lib: bool(lib.Categorical(-1).is_in(torch.tensor(99))),
    "Categorical unknown zero": lambda lib: lib.Categorical(-1, (2,)).zero(),
    "OneHot": lambda lib: lib.OneHot(4),
    "OneHot shape": lambda lib: lib.OneHot(4, (2, 4)),
    "OneHot positional": lambda lib: lib.OneHot(4, (4,), "cpu", torch.int64),
    "OneHot wrong shape": lambda lib: lib.OneHot(4, (2, 3)),
    "OneHot no dims": lambda lib: lib.OneHot(4, ()),
    "OneHot mask": lambda lib: lib.OneHot(2, mask=torch.tensor([True, False])),
    "OneHot register": lambda lib: lib.OneHot(4, use_register=True).shape,
    "OneHot register differs": lambda lib: lib.OneHot(4, use_register=True) == lib.OneHot(4),
    "OneHot 0": lambda lib: lib.OneHot(0).shape,
    "MultiOneHot": lambda lib: lib.MultiOneHot([3, 2]),
    "MultiOneHot tuple": lambda lib: lib.MultiOneHot((3, 2)),
    "MultiOneHot array": lambda lib: lib.MultiOneHot(np.array([3, 2])),
    "MultiOneHot shape": lambda lib: lib.MultiOneHot([3, 2], (4, 5)),
    "MultiOneHot wrong shape": lambda lib: lib.MultiOneHot([3, 2], (4, 4)),
    "MultiOneHot keywords": lambda lib: lib.MultiOneHot(nvec=[3], shape=(3,), device="cpu", dtype=torch.int8),
    "MultiOneHot mask": lambda lib: lib.MultiOneHot([1, 2], mask=torch.tensor([True, True, False])),
    "MultiOneHot nvec": lambda lib: lib.MultiOneHot([3, 2]).nvec,
    "MultiCategorical": lambda lib: lib.MultiCategorical([3, 2]),
    "MultiCategorical int": lambda lib: lib.MultiCategorical(5),
    "MultiCategorical tensor": lambda lib: lib.MultiCategorical(torch.tensor([3, 2])),
    "MultiCategorical array": lambda lib: lib.MultiCategorical(np.array([3, 2])),
    "MultiCategorical matrix": lambda lib: lib.MultiCategorical([[1, 2], [3, 4]]),
    "MultiCategorical deep": lambda lib: lib.MultiCategorical([[[2, 4], [3, 5]], [[4, 5], [2, 3]]]).shape,
    "MultiCategorical shape": lambda lib: lib.MultiCategorical([3, 2], (4, 2)),
    "MultiCategorical wrong shape": lambda lib: lib.MultiCategorical([3, 2], (4, 3)),
    "MultiCategorical float": lambda lib: lib.MultiCategorical([3, 2], dtype=torch.float32),
    "MultiCategorical mask": lambda lib: lib.MultiCategorical([1, 2], mask=torch.tensor([True, True, False])),
    "MultiCategorical remove_singleton": lambda lib: lib.MultiCategorical([3], remove_singleton=False).shape,
    "Binary n": lambda lib: lib.Binary(4),
    "Binary shape": lambda lib: lib.Binary(shape=(2, 3)),
    "Binary int shape": lambda lib: lib.Binary(shape=3).shape,
    "Binary n and shape": lambda lib: lib.Binary(4, (2, 4)),
    "Binary contradiction": lambda lib: lib.Binary(4, (2, 3)),
    "Binary no dims": lambda lib: lib.Binary(shape=()),
    "Binary nothing": lambda lib: lib.Binary(),
    "Binary 0": lambda lib: lib.Binary(0).shape,
    "Binary bool": lambda lib: lib.Binary(4, dtype=torch.bool),
    "Binary space": lambda lib: lib.Binary(4).space,
    "Binary n property": lambda lib: lib.Binary(4).n,
    "isinstance of classes": lambda lib: [
        isinstance(spec, kind)
        for spec in (
            lib.Categorical(2),
            lib.OneHot(2),
            lib.MultiOneHot([2]),
            lib.MultiCategorical([2]),
            lib.Binary(2),
        )
        for kind in (lib.Categorical, lib.OneHot, lib.MultiOneHot, lib.MultiCategorical, lib.Binary)
    ],
}
OTHERS: dict[str, Expression] = {
    "TensorSpec": lambda lib: lib.TensorSpec(),
    "NonTensor": lambda lib: lib.NonTensor(),
    "NonTensor shape": lambda lib: lib.NonTensor((3, 4), device="cpu", example_data="x"),
    "NonTensor int": lambda lib: lib.NonTensor(3),
    "NonTensor feature_dims": lambda lib: (
        lib.NonTensor((3, 4)).feature_dims,
        lib.NonTensor((3, 4), feature_dims=1).feature_dims,
    ),
    "NonTensor example differs": lambda lib: (
        lib.NonTensor((1,), example_data="a") == lib.NonTensor((1,), example_data="b")
    ),
    "NonTensor dtype": lambda lib: lib.NonTensor((1,)).dtype,
    "NonTensor batched": lambda lib: lib.NonTensor((1,), example_data=["a"], batched=True).example_data,
    "Choice specs": lambda lib: lib.Choice([lib.Bounded(0, 1, (2,)), lib.Bounded(5, 6, (2,))]),
    "Choice data": lambda lib: lib.Choice([NonTensorData("a"), NonTensorData("b")]),
    "Choice stacks": lambda lib: lib.Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")]).shape,
    "Choice text": lambda lib: lib.Choice("abc"),
    "Choice texts": lambda lib: lib.Choice(["abc"]),
    "Choice mixed": lambda lib: lib.Choice([lib.Bounded(0, 1, (1,)), lib.Categorical(10, (1,))]),
    "Choice shapes": lambda lib: lib.Choice([lib.Categorical(9, (1,)), lib.Categorical(9, (2,))]),
    "Choice dtypes": lambda lib: lib.Choice([lib.Categorical(9), lib.Categorical(9, dtype=torch.float32)]),
    "Choice empty": lambda lib: lib.Choice([]),
    "Stacked": lambda lib: lib.Stacked(lib.Bounded(0, 1, (2,)), lib.Bounded(0, 2, (2,)), dim=0),
    "StackedComposite": lambda lib: lib.StackedComposite(
        lib.Composite(a=lib.Unbounded()), lib.Composite(b=lib.Unbounded()), dim=0
    ),
    "Composite()": lambda lib: lib.Composite(),
    "Composite dict": lambda lib: lib.Composite({"a": lib.Unbounded((2,))}),
    "Composite keywords": lambda lib: lib.Composite(a=lib.Unbounded((2,)), b=lib.Binary(2)),
    "Composite both": lambda lib: lib.Composite({"a": lib.Unbounded()}, b=lib.Unbounded()),
    "Composite nested dict": lambda lib: lib.Composite({"a": {"b": lib.Unbounded()}}),
    "Composite tuple keys": lambda lib: lib.Composite({("a", "b"): lib.Unbounded(), "c": lib.Unbounded()}),
    "Composite of a composite": lambda lib: lib.Composite(lib.Composite(a=lib.Unbounded())),
    "Composite None": lambda lib: lib.Composite(a=None)["a"],
    "Composite shape": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), shape=(2,)),
    "Composite int shape": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), shape=2).shape,
    "Composite batch_size": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), batch_size=(2,)).shape,
    "Composite shape too long": lambda lib: lib.Composite(a=lib.Unbounded((2,)), shape=(2, 3)),
    "Composite wrong shape": lambda lib: lib.Composite(a=lib.Unbounded((3,)), shape=(2,)),
    "Composite device": lambda lib: lib.Composite(a=lib.Unbounded(), device="cpu"),
    "Composite other device": lambda lib: lib.Composite(a=lib.Unbounded(), device="meta"),
    "Composite int key": lambda lib: lib.Composite({3: lib.Unbounded()}),
    "Composite tensor": lambda lib: lib.Composite(a=torch.zeros(2)),
    "Composite list": lambda lib: lib.Composite([lib.Unbounded()]),
    "Composite names": lambda lib: lib.Composite(a=lib.Unbounded((2, 3)), shape=(2,), names=["time"]).names,
    "Composite data_cls": lambda lib: lib.Composite(a=lib.Unbounded((2,)), data_cls=None).shape,
    "Composite step_mdp_static": lambda lib: lib.Composite(a=lib.Unbounded(), step_mdp_static=True).shape,
    "Composite dtype": lambda lib: lib.Composite().dtype,
}
BOXES: dict[str, Expression] = {
    "ContinuousBox": lambda lib: lib.ContinuousBox(torch.zeros(2), torch.ones(2)),
    "ContinuousBox equality": lambda lib: [
        bool(lib.ContinuousBox(torch.zeros(2), torch.ones(2)) == lib.ContinuousBox(low, low + 1))
        for low in (torch.zeros(2), torch.ones(2), torch.zeros(2).double())
    ],
    "CategoricalBox": lambda lib: (lib.CategoricalBox(3) == lib.CategoricalBox(3), lib.CategoricalBox(3).n),
    "CategoricalBox registers": lambda lib: lib.CategoricalBox(3).register is not None,
    "DiscreteBox": lambda lib: lib.DiscreteBox(3).n,
    "BinaryBox": lambda lib: lib.BinaryBox(3) == lib.BinaryBox(3),
    "BoxList": lambda lib: len(lib.BoxList([lib.CategoricalBox(3)])),
    "BoxList from_nvec": lambda lib: lib.BoxList.from_nvec(torch.tensor([3, 2])),
    "box to": lambda lib: lib.ContinuousBox(torch.zeros(2), torch.ones(2)).to(torch.float64),
    "box clone": lambda lib: lib.ContinuousBox(torch.zeros(2), torch.ones(2)).clone(),
}

CASES = UNBOUNDED | BOUNDED | CLASSES | OTHERS | BOXES

INTEGERS = "an integer is a shape of one dimension everywhere"
NO_CLASS = "a spec of no class has no member"
DIFFERENCES: dict[str, Differs] = {
    "Unbounded two sizes": Differs("names the argument that was taken for a device", ValueError),
    "Unbounded text device": Differs("names the argument", ValueError),
    "UnboundedDiscrete float": Differs("a name that says integers does not make floats", TypeError),
    "UnboundedContinuous int": Differs("a name that says floats does not make integers", TypeError),
    "BoundedDiscrete": Differs("integers unless it is said otherwise"),
    "Bounded crossed": Differs("the domain is empty", ValueError),
    "Bounded NaN": Differs("NaN is no bound", ValueError),
    "Bounded uint8 -1": Differs("the bound does not fit the dtype", ValueError),
    "Bounded int64 .5": Differs("the bound does not fit the dtype", ValueError),
    "Categorical int shape": Differs(INTEGERS),
    "Binary int shape": Differs(INTEGERS, torch.Size([3])),
    "Composite int shape": Differs(INTEGERS, torch.Size([2])),
    "Categorical 0": Differs(NO_CLASS, ValueError),
    "OneHot 0": Differs(NO_CLASS, ValueError),
    "Categorical -3": Differs(NO_CLASS, ValueError),
    "Categorical 2.5": Differs("half a class", TypeError),
    "Choice empty": Differs("says what is missing", ValueError),
    "Composite tensor": Differs("a tensor is no spec", TypeError),
    "Composite dtype": Differs("each entry has its own", None),
    "isinstance of classes": Differs("each is a class of its own: none behaves as another"),
    "CategoricalBox registers": Differs("the register belongs to the spec that uses it", AttributeError),
}


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, torchrl: Any) -> None:
    problem = compare(CASES[name], torchrl, DIFFERENCES.get(name))
    assert problem is None, problem


def test_every_listed_difference_is_a_case() -> None:
    assert DIFFERENCES.keys() <= CASES.keys()
