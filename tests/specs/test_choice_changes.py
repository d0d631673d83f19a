"""A `Choice` in other shapes, copied, and inside composites and stacks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.choice import Choice
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.specs.composites.composite import Composite
from tensordict import NonTensorData, NonTensorStack, TensorDict

from tests.specs.choice_samples import CHOICES, any_choice, dicts, intervals, pairs, words

laws = settings(max_examples=60, deadline=None)
leads = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@pytest.fixture(params=CHOICES)
def spec(request: pytest.FixtureRequest) -> Choice:
    made: Choice = CHOICES[request.param]()
    return made


class TestShapes:
    @laws
    @given(any_choice, leads, st.integers(0, 99))
    def test_commute_with_drawing(self, spec: Choice, lead: tuple[int, ...], seed: int) -> None:
        free = len(spec._free)
        changes: list[Any] = [
            lambda it: it.unsqueeze(0),
            lambda it: it.unsqueeze(free),
            lambda it: it.expand(2, *it.shape),
            lambda it: it.reshape(1, *it.shape),
            lambda it: it[None],
        ]
        if free and spec.shape[0]:
            changes += [
                lambda it: it[-1],
                lambda it: it.unbind(0)[0],
                lambda it: it[[0, 0, 1]],
                lambda it: it.unflatten(0, (1, -1)),
                lambda it: it.unsqueeze(0).flatten(0, 1),
                lambda it: it.unsqueeze(0).squeeze(0),
            ]
        for change in changes:
            changed = change(spec)
            assert changed.shape == change(torch.empty(spec.shape)).shape
            assert changed.num_choices == spec.num_choices
            torch.manual_seed(seed)
            value = changed.rand(lead)
            assert value.shape == (*lead, *changed.shape)
            assert changed.is_in(value)

    def test_stacks_keep_their_places(self) -> None:
        spec = pairs()
        assert [part.choices[1].data for part in spec.unbind(0)] == ["c", "d"]
        assert spec[1].is_in(NonTensorData("b"))
        assert not spec[1].is_in(NonTensorData("a"))
        assert spec.expand(3, 2).is_in(NonTensorStack(*[NonTensorStack("a", "b")] * 3))
        assert spec[[1, 0]].zero().tolist() == ["b", "a"]
        assert isinstance(spec.reshape(2, 1).zero(), NonTensorStack)

    def test_variable_dimensions(self) -> None:
        spec = Choice([Bounded(0, 1, (2,)), Bounded(3, 4, (2,))]).make_neg_dim(0)
        assert spec.shape == (-1,)
        assert spec.is_in(torch.full((7,), 3.5))
        word = CHOICES["wide words"]().make_neg_dim(0)
        assert word.shape == (-1,)
        assert word.rand().batch_size == (1,)
        assert word.is_in(NonTensorData("a", batch_size=(5,)))
        assert word.unsqueeze(0).shape == (1, -1)
        with pytest.raises(ValueError, match="can't be variable"):
            pairs().make_neg_dim(0)
        equal = Choice([NonTensorStack("a", "a")]).make_neg_dim(0)
        assert equal.is_in(NonTensorStack("a", "a", "a"))
        assert not equal.is_in(NonTensorStack("a", "b"))

    def test_columns_stay(self) -> None:
        spec = CHOICES["onehot"]()
        with pytest.raises(ValueError, match="columns"):
            spec.reshape(3, 2)
        with pytest.raises(IndexError):
            spec[0, 0]


class TestCopies:
    def test_equal(self, spec: Choice) -> None:
        for copied in (spec.clone(), pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
            assert copied == spec
            assert copied is not spec

    def test_different(self) -> None:
        assert words() != Choice([NonTensorData(word) for word in ("left", "right", "up")])
        assert words() != Choice([NonTensorData(word) for word in ("left", "right")])
        assert pairs() != Choice([NonTensorStack("a", "b"), NonTensorStack("d", "c")])
        assert intervals() != Choice([Bounded(0, 1, ()), Bounded(3, 5, ())])
        assert Choice([NonTensorData("a", batch_size=(2,))]) != Choice([NonTensorStack("a", "a")])
        assert intervals() != words()
        assert Choice([Categorical(2)]) != Categorical(2)
        arrays = [Choice([NonTensorData(np.zeros(2)), NonTensorData(np.full(2, last))]) for last in (1, 1, 2)]
        assert (arrays[0] == arrays[1], arrays[0] == arrays[2]) == (True, False)

    def test_devices_and_dtypes(self) -> None:
        assert intervals().to("cpu").num_choices == 2
        spec = intervals()
        assert spec.to("cpu") is spec
        assert spec.to(torch.float64).rand().dtype == torch.float64
        assert words().to(torch.float64) == words()
        moved = words().to("cpu")
        assert moved.device == torch.device("cpu")
        assert moved.rand().device == torch.device("cpu")
        assert words().device is None
        assert words() != moved
        assert intervals().to("meta") != intervals()
        nested = Choice([Composite(x=Bounded(at, at + 1, ()), device="cpu") for at in (0, 1)])
        assert nested.device == torch.device("cpu")
        assert nested.clear_device_() is nested
        assert nested.device is None

    def test_text(self) -> None:
        assert repr(intervals()) == (
            f"Choice(\n    {Bounded(0, 1, ())!r},\n    {Bounded(3, 4, ())!r},\n    shape=(), device=cpu)"
        )
        assert "'left'" in repr(words())
        assert "        x: Bounded" in repr(dicts())


class TestInComposites:
    def test_draws(self) -> None:
        spec = Composite(
            word=Choice([NonTensorData(word, batch_size=(2,)) for word in "ab"]),
            x=Choice([Bounded(0, 1, (2, 3)), Bounded(4, 5, (2, 3))]),
            shape=(2,),
        )
        td = spec.rand()
        assert td["word"] in ("a", "b")
        assert spec.is_in(td)
        assert spec.is_in(spec.rand((3,)))
        assert spec.is_in(torch.stack([spec.rand() for _ in range(5)]))
        td["word"] = "c"
        with pytest.raises(AssertionError, match="key 'word': none of the 2 choices"):
            spec.assert_is_in(td)
        assert spec[0]["word"].shape == ()
        assert spec.expand(3, 2).rand().get("word").batch_size == (3, 2)
        assert spec.clone() == spec
        assert pickle.loads(pickle.dumps(spec)) == spec

    def test_encode(self) -> None:
        spec = Composite(word=words(), x=intervals())
        td = spec.encode({"word": "stay", "x": 3.5})
        assert spec.is_in(td)
        assert spec.to_numpy(td) == {"word": "stay", "x": 3.5}
        with pytest.raises(AssertionError, match="none of the 3 choices"):
            spec.encode({"word": "up"})

    def test_takes_the_device(self) -> None:
        spec = Composite(word=words(), x=intervals(), device="cpu")
        assert spec["word"].device == torch.device("cpu")
        assert spec.rand().get("word").device == torch.device("cpu")
        assert spec.is_in(spec.rand())

    def test_project(self) -> None:
        spec = Composite(word=words(), x=intervals())
        td = TensorDict(word="stay", x=torch.tensor(9.0))
        assert spec.project(td) is td
        assert td["x"].tolist() == 4.0


def test_stacks(spec: Choice) -> None:
    stacked = torch.stack([spec, spec.clone()])
    assert stacked.shape == (2, *spec.shape)
    assert isinstance(stacked, Choice)
    assert stacked.is_in(stacked.rand())
    other = torch.stack([words(), Choice([NonTensorData("up")])])
    assert other.rand().tolist()[1] == "up"
    assert other.is_in(other.rand())
