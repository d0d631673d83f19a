"""`Choice`: the spec of values of one of several specs, or of one of several data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from specgen_runtime.specs.base import TensorSpec
from specgen_runtime.specs.bounded import Bounded
from specgen_runtime.specs.choice import Choice
from specgen_runtime.specs.classes.categorical import Categorical
from specgen_runtime.specs.classes.onehot import OneHot
from specgen_runtime.specs.non_tensors.non_tensor import NonTensor
from specgen_runtime.specs.unbounded import Unbounded
from tensordict import NonTensorData, NonTensorStack, TensorDict

from tests.specs.choice_samples import CHOICES, MASK, any_choice, dicts, intervals, pairs, same, words

laws = settings(max_examples=60, deadline=None)
leads = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@pytest.fixture(params=CHOICES)
def spec(request: pytest.FixtureRequest) -> Choice:
    made: Choice = CHOICES[request.param]()
    return made


class TestConstruction:
    def test_fields(self) -> None:
        spec = Choice([Bounded(0, 1, (2,)), Bounded(5, 6, (2,))])
        assert isinstance(spec, TensorSpec)
        assert (spec.shape, spec.ndim, spec.num_choices) == ((2,), 1, 2)
        assert (spec.device, spec.dtype, spec.space) == (torch.device("cpu"), torch.float32, None)
        assert spec.domain == "continuous"
        assert spec.choices[1] == Bounded(5, 6, (2,))
        assert (words().shape, words().device, words().dtype, words().domain) == ((), None, None, "")
        assert [choice.data for choice in words().choices] == ["left", "right", "stay"]
        assert pairs().shape == (2,)
        assert dicts().shape == (2,)

    @pytest.mark.parametrize(
        ("choices", "error", "says"),
        [
            ([], ValueError, "at least one"),
            ((Bounded(0, 1, ()),), TypeError, "must be a list, got tuple"),
            ("ab", TypeError, "must be a list, got str"),
            (["a"], TypeError, "choice 0 must be a spec, NonTensorData or NonTensorStack, got str"),
            ([Categorical(2), 3], TypeError, "choice 1 must be a spec"),
            ([torch.zeros(1)], TypeError, "got Tensor"),
            ([Bounded(0, 1, ()), Unbounded(())], TypeError, "choice 0 is a Bounded.*, choice 1 a Unbounded"),
            ([NonTensorData("a"), NonTensorStack("a", "b")], TypeError, "one class"),
            ([Bounded(0, 1, ()), NonTensorData("a")], TypeError, "one class"),
            ([Categorical(2), Categorical(2, (1,))], ValueError, r"choice 0 has \(\), choice 1 \(1,\)"),
            ([Categorical(2), Categorical(2, dtype=torch.int32)], ValueError, "one dtype.*int64.*int32"),
            ([Categorical(2), Categorical(2, device="meta")], ValueError, "one device.*cpu.*meta"),
            ([NonTensorData("a"), NonTensorData("a", device="cpu")], ValueError, "one device"),
            (
                [NonTensorStack(NonTensorData(1, batch_size=(1,)), NonTensorData(1, batch_size=(2,)))],
                ValueError,
                "one shape",
            ),
        ],
        ids=str,
    )
    def test_errors(self, choices: Any, error: type[Exception], says: str) -> None:
        with pytest.raises(error, match=says):
            Choice(choices)

    def test_choices_are_copied(self) -> None:
        given = [Categorical(3), Categorical(4)]
        spec = Choice(given)
        given[0].update_mask(MASK)
        given.pop()
        assert spec == Choice([Categorical(3), Categorical(4)])
        value = NonTensorData("a")
        word = Choice([value])
        value.data = "b"
        word.rand().data = "c"
        assert word.rand().data == "a"


class TestValues:
    def test_each_choice_is_drawn(self) -> None:
        torch.manual_seed(0)
        drawn = [float(intervals().rand()) for _ in range(40)]
        assert all(0 <= number <= 1 or 3 <= number <= 4 for number in drawn)
        assert 5 < sum(number > 2 for number in drawn) < 35
        assert {words().rand().data for _ in range(40)} == {"left", "right", "stay"}

    def test_one_choice_for_all_places(self) -> None:
        for _ in range(9):
            value = intervals().rand((50,))
            assert (value > 2).all() or (value < 2).all()

    def test_zero_and_one(self) -> None:
        assert intervals().zero((2,)).tolist() == [0, 0]
        assert intervals().one((2,)).tolist() == [1, 1]
        assert words().zero().data == "left"
        assert words().one().data == "right"
        assert words().zeros((2,)).tolist() == ["left", "left"]
        assert words().ones((2,)).tolist() == ["right", "right"]
        assert Choice([NonTensorData("a")]).one().data == "a"

    def test_non_tensor_data(self) -> None:
        wide = CHOICES["wide words"]()
        assert isinstance(wide.rand(), NonTensorData)
        assert wide.rand().batch_size == (2,)
        assert wide.rand((3,)).batch_size == (3, 2)
        assert wide.rand((3,)).device == torch.device("cpu")
        assert isinstance(pairs().rand(), NonTensorStack)
        assert pairs().zero((2,)).tolist() == [["a", "b"]] * 2

    def test_sequences_are_successive_draws(self, spec: Choice) -> None:
        for length in (0, 1, 5):
            torch.manual_seed(3)
            expected = [spec.rand() for _ in range(length)]
            after = torch.rand(1)
            torch.manual_seed(3)
            value = spec.rand_sequence(length)
            assert value.shape == (length, *spec.shape)
            assert torch.equal(torch.rand(1), after)
            assert spec.is_in(value)
            assert all(map(same, value.unbind(0), expected))


class TestMembership:
    def test_any_choice(self) -> None:
        spec = intervals()
        for inside in (0.0, 0.5, 1.0, 3.0, 4.0):
            assert spec.is_in(torch.tensor(inside)) is True
        for outside in (-0.1, 1.1, 2.9, math.nan, math.inf):
            assert spec.is_in(torch.tensor(outside)) is False

    def test_parts_in_front_choose_on_their_own(self) -> None:
        spec = intervals()
        assert spec.is_in(torch.tensor([0.5, 3.5]))
        assert not spec.is_in(torch.tensor([[0.5, 3.5], [0.5, 2.0]]))
        assert spec.is_in(torch.empty(0, 4))
        assert not spec.is_in(torch.empty(0, 4, dtype=torch.int64))
        row = Choice([Bounded(0, 1, (2,)), Bounded(3, 4, (2,))])
        assert not row.is_in(torch.tensor([0.5, 3.5]))
        assert row.is_in(torch.tensor([[0.5, 0.5], [3.5, 3.5]]))
        assert words().is_in(NonTensorStack("left", "stay"))
        assert not words().is_in(NonTensorStack("left", "up"))
        td = torch.stack([spec.zero() for spec in dicts().choices])
        assert dicts().is_in(td)
        td["x"][1] = 4.5
        assert dicts().is_in(td)
        td["x"][1, 0] = 0.5  # its other row belongs to another choice
        assert not dicts().is_in(td)

    @pytest.mark.parametrize(
        "value", ["text", None, 3, [1.0], [torch.zeros(())], torch.zeros((), dtype=torch.int64)]
    )
    def test_never_raises(self, spec: Choice, value: object) -> None:
        assert spec.is_in(value) in (True, False)
        assert intervals().is_in(value) is False

    def test_data(self) -> None:
        assert words().is_in(NonTensorData("right"))
        assert not words().is_in(NonTensorData("up"))
        assert pairs().is_in(NonTensorStack("c", "d"))
        assert not pairs().is_in(NonTensorStack("a", "d"))
        assert not pairs().is_in(NonTensorData("a"))
        assert Choice([NonTensorData("a", batch_size=(2,))]).is_in(NonTensorStack("a", "a"))
        arrays = Choice([NonTensorData(np.zeros(2)), NonTensorData({"x": torch.ones(2)})])
        assert arrays.is_in(NonTensorData(np.zeros(2)))
        assert arrays.is_in(NonTensorData({"x": torch.ones(2)}))
        assert not arrays.is_in(NonTensorData(np.ones(2)))

    def test_bare_data(self) -> None:
        td = torch.stack([TensorDict(a=words().rand()) for _ in range(3)])
        assert words().is_in(td[0]["a"])
        assert words().is_in(td["a"])
        assert not words().is_in("up")
        assert not words().is_in(["left", "up"])
        assert pairs().is_in(["a", "b"])
        assert not pairs().is_in(["a"])
        assert pairs().is_in([["a", "b"], ["c", "d"]])

    def test_messages(self) -> None:
        with pytest.raises(AssertionError, match=r"none of the 2 choices allows it: .*1.*; .*3.*"):
            intervals().assert_is_in(torch.tensor(2.0))
        with pytest.raises(AssertionError, match="in part 1: none of the 2 choices"):
            intervals().assert_is_in(torch.tensor([0.5, 2.0, 0.5]))
        with pytest.raises(AssertionError, match="expected 'left', got 'up'; expected 'right', got 'up'"):
            words().assert_is_in(NonTensorData("up"))
        many = Choice([NonTensorData(number) for number in range(9)])
        with pytest.raises(AssertionError, match=r"expected 3, got 'up'; …$"):
            many.assert_is_in("up")
        with pytest.raises(AssertionError, match=r"none of the 2 choices.*key x: expected"):
            dicts().assert_is_in(TensorDict(batch_size=(2,)))

    def test_type_check(self) -> None:
        intervals().type_check(torch.zeros(7))
        with pytest.raises(TypeError, match=r"key 'a': expected dtype torch.float32"):
            intervals().type_check(torch.zeros(7, dtype=torch.int64), "a")
        with pytest.raises(TypeError, match="not tensors"):
            words().type_check(torch.zeros(1))


class TestProject:
    def test_nearest(self) -> None:
        spec = intervals()
        values = torch.tensor([-1.0, 0.5, 1.9, 2.0, 2.1, 3.5, 9.0, math.nan, math.inf, -math.inf])
        expected = [0.0, 0.5, 1.0, 1.0, 3.0, 3.5, 4.0, 0.0, 4.0, 0.0]
        assert spec.project(values).tolist() == expected
        assert [float(spec.project(value)) for value in values] == expected

    def test_whole_rows(self) -> None:
        spec = Choice([Bounded(0, 1, (2,)), Bounded(3, 4, (2,))])
        assert spec.project(torch.tensor([[0.0, 4.0], [0.5, 4.0], [3.0, 3.5]])).tolist() == [
            [0, 1],
            [3, 4],
            [3.0, 3.5],
        ]

    def test_other_dtypes(self) -> None:
        assert intervals().project(torch.tensor(7, dtype=torch.int64)).tolist() == 4.0
        spec = CHOICES["integers"]()
        assert spec.project(torch.tensor([0.7, 1.6, 9.0])).tolist() == [1, 2, 2]

    def test_data(self) -> None:
        value = NonTensorData("right")
        assert words().project(value) is value
        assert words().project("right") == "right"
        with pytest.raises(
            ValueError, match="cannot project: none of the 3 choices can: expected 'left', got 'up'"
        ):
            words().project(NonTensorData("up"))
        with pytest.raises(TypeError, match="got Tensor"):
            words().project(torch.zeros(()))
        with pytest.raises(ValueError, match=r"shape \(2,\)"):
            Choice([NonTensor((2,))]).project(NonTensorData("a"))

    def test_wrong_shapes_and_types(self) -> None:
        spec = Choice([Bounded(0, 1, (2,)), Bounded(3, 4, (2,))])
        with pytest.raises(ValueError, match=r"shape \(2,\).*got \(3,\)"):
            spec.project(torch.zeros(3))
        with pytest.raises(TypeError, match="got str"):
            spec.project("text")

    def test_composites_are_projected_in_place(self) -> None:
        spec = dicts()
        td = TensorDict(
            x=torch.full((2, 3), 3.9), y=torch.tensor([0, 9]), more=torch.ones(2), batch_size=(2,)
        )
        assert spec.project(td) is td
        assert td["x"].tolist() == [[4.0] * 3] * 2
        assert td["y"].tolist() == [0, 4]
        assert td["more"].tolist() == [1, 1]
        rows = TensorDict(x=torch.zeros(2, 2, 3), y=torch.tensor([[0, 9], [9, 0]]), batch_size=(2, 2))
        rows["x"][1] = 8
        assert spec.project(rows) is rows
        assert rows["x"][:, 0, 0].tolist() == [0, 5]
        assert spec.is_in(rows)

    @laws
    @given(
        st.sampled_from(["intervals", "rows", "integers", "classes", "onehot", "multi", "binary"]),
        leads,
        st.integers(0, 99),
    )
    def test_laws(self, name: str, lead: tuple[int, ...], seed: int) -> None:
        spec = CHOICES[name]()
        generator = torch.Generator().manual_seed(seed)
        value = torch.randn((*lead, *spec.shape), generator=generator) * 9
        before = value.clone()
        state = torch.get_rng_state()
        projected = spec.project(value)
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(value, before)
        assert projected.shape == value.shape
        assert spec.is_in(projected)
        assert spec.project(projected) is projected


class TestEncode:
    def test_first_choice_that_holds_it(self) -> None:
        assert intervals().encode(3.5).tolist() == 3.5
        assert intervals().encode(2.0).tolist() == 2.0  # bounds are checked on request, as for Bounded
        classes = Choice([Categorical(2), Categorical(5)])
        assert classes.encode(3).tolist() == 3
        with pytest.raises(AssertionError, match="none of the 2 choices"):
            classes.encode(7)
        with pytest.raises(RuntimeError, match=r"cannot encode: none of the 2 choices can: .*shape"):
            Choice([Bounded(0, 1, (2,)), Bounded(3, 4, (2,))]).encode([1.0, 2.0, 3.0])
        assert dicts().encode({"y": [0, 4]})["y"].tolist() == [0, 4]
        with pytest.raises(KeyError, match="z"):
            dicts().encode({"z": 1})

    def test_bounds_on_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("specgen_runtime.specs.values._CHECKS_ENCODE", True)
        assert intervals().encode(3.5).tolist() == 3.5
        with pytest.raises(AssertionError, match="none of the 2 choices"):
            intervals().encode(2.0)

    def test_data(self) -> None:
        value = words().encode("stay")
        assert (value.data, value.batch_size) == ("stay", ())
        assert words().encode(value) is value
        assert CHOICES["wide words"]().encode("a").batch_size == (2,)
        assert pairs().encode(["c", "d"]).tolist() == ["c", "d"]
        with pytest.raises(
            AssertionError, match="cannot encode: none of the 3 choices can: expected 'left', got 'up'"
        ):
            words().encode("up")
        with pytest.raises(AssertionError, match="expected 'left'"):
            words().encode(NonTensorData("up"))

    def test_to_numpy(self) -> None:
        assert intervals().to_numpy(torch.tensor([0.5, 3.5])).tolist() == [0.5, 3.5]
        assert words().to_numpy(NonTensorStack("left", "stay")) == ["left", "stay"]
        onehot = Choice([OneHot(3, mask=MASK), OneHot(3)])
        assert onehot.to_numpy(torch.eye(3, dtype=torch.bool)).tolist() == [0, 1, 2]
        with pytest.raises(AssertionError, match="none of"):
            intervals().to_numpy(torch.tensor(2.0), safe=True)

    @laws
    @given(any_choice, st.integers(0, 99))
    def test_round_trip(self, spec: Choice, seed: int) -> None:
        torch.manual_seed(seed)
        value = spec.rand()
        encoded = spec.encode(spec.to_numpy(value))
        assert spec.is_in(encoded)
        assert same(encoded, value)


class TestMembers:
    def test_cardinality(self) -> None:
        assert words().cardinality() == 3
        assert intervals().cardinality() == math.inf
        with pytest.raises(NotImplementedError):
            Choice([NonTensor()]).cardinality()

    def test_enumerate(self) -> None:
        assert words().enumerate().tolist() == ["left", "right", "stay"]
        assert pairs().enumerate().tolist() == [["a", "b"], ["c", "d"]]
        with pytest.raises(NotImplementedError):
            intervals().enumerate()

    def test_classes(self) -> None:
        spec = Choice([Categorical(2), Categorical(3)])
        assert spec.cardinality() == 5
        assert spec.enumerate().tolist() == [0, 1, 0, 1, 2]
        assert Choice([Categorical(2), Categorical(3, mask=MASK)]).enumerate(True).tolist() == [0, 1, 0, 2]

    def test_index(self) -> None:
        with pytest.raises(NotImplementedError, match="Choice"):
            words().index(0, torch.zeros(2))
