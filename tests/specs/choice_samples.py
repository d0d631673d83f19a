"""A `Choice` of each kind of spec, and of data."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.choice import Choice
from specgen_runtime.specs.classes.categorical import Binary, Categorical
from specgen_runtime.specs.classes.multi_categorical import MultiCategorical
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.composites.composite import Composite
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.unbounded import Unbounded
from tensordict import NonTensorData, NonTensorStack, assert_close

MASK = torch.tensor([True, False, True])


def intervals() -> Choice:
    return Choice([Bounded(0, 1, ()), Bounded(3, 4, ())])


def words() -> Choice:
    return Choice([NonTensorData(word) for word in ("left", "right", "stay")])


def pairs() -> Choice:
    return Choice([NonTensorStack("a", "b"), NonTensorStack("c", "d")])


def dicts() -> Choice:
    return Choice(
        [Composite(x=Bounded(at, at + 1, (2, 3)), y=Categorical(at + 1, (2,)), shape=(2,)) for at in (0, 4)]
    )


CHOICES: dict[str, Any] = {
    "intervals": intervals,
    "rows": lambda: Choice([Bounded(at, at + 1, (2, 3)) for at in (0, 2, 9)]),
    "integers": lambda: Choice(
        [Bounded(-9, -5, (3,), dtype=torch.int64), Bounded(1, 2, (3,), dtype=torch.int64)]
    ),
    "unbounded": lambda: Choice([Unbounded((2,))]),
    "classes": lambda: Choice([Categorical(2, (3,)), Categorical(5, (3,))]),
    "onehot": lambda: Choice([OneHot(3, (2, 3)), OneHot(3, (2, 3), mask=MASK)]),
    "multi": lambda: Choice([MultiCategorical([2, 9]), MultiCategorical([9, 2])]),
    "binary": lambda: Choice([Binary(3)]),
    "composites": dicts,
    "words": words,
    "wide words": lambda: Choice([NonTensorData(word, batch_size=(2,), device="cpu") for word in "ab"]),
    "pairs": pairs,
    "non-tensors": lambda: Choice([NonTensor((2,), example_data=word) for word in "ab"]),
    "nested": lambda: Choice([words(), Choice([NonTensorData("up")])]),
}


any_choice = st.sampled_from(list(CHOICES)).map(lambda name: CHOICES[name]())


def same(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, NonTensorData | NonTensorStack):
        return left.batch_size == right.batch_size and left.tolist() == right.tolist()
    return not assert_close(left, right, rtol=0, atol=0) or True
