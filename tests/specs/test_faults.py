"""What TorchRL 0.14.1 lets pass or gets wrong, and what is done instead (T-numbers of the checklist)."""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    Categorical,
    Composite,
    MultiCategorical,
    OneHot,
    Unbounded,
)
from tensordict import TensorDict

NAN = float("nan")
INF = float("inf")


class TestBounds:
    def test_t1_low_above_high(self) -> None:
        with pytest.raises(ValueError, match=re.escape("low=1.0, high=-1.0")):
            Bounded(1, -1, ())
        with pytest.raises(ValueError, match=re.escape("at index (1,)")):
            Bounded([0.0, 2.0], [1.0, 1.0])

    @pytest.mark.parametrize(("low", "high"), [(NAN, 1), (0, NAN), ([0.0, NAN], 1)])
    def test_t1_nan_bounds(self, low: float, high: float) -> None:
        with pytest.raises(ValueError, match="must not be NaN"):
            Bounded(low, high, (2,))

    def test_t2_unrepresentable_bounds(self) -> None:
        with pytest.raises(ValueError, match=re.escape("low=-1 must be within 0 … 255")):
            Bounded(-1, 3, (1,), dtype=torch.uint8)
        with pytest.raises(ValueError, match="whole number"):
            Bounded(0.5, 3, (1,), dtype=torch.int64)
        with pytest.raises(ValueError, match="whole number"):
            Bounded(0, INF, (1,), dtype=torch.int64)
        with pytest.raises(ValueError, match="too large"):
            Bounded(0, 1e300, (1,))
        with pytest.raises(ValueError, match="64 signed bits"):
            Bounded(0, np.uint64(2**63), (1,), dtype=torch.int64)

    @pytest.mark.parametrize(("low", "high"), [(-INF, INF), (0, INF), (-INF, 0), (-3e38, 3e38), (5, INF)])
    def test_t3_infinite_and_huge_bounds_draw_members(self, low: float, high: float) -> None:
        torch.manual_seed(0)
        spec = Bounded(low, high, (100,))
        drawn = spec.rand((100,))
        assert spec.is_in(drawn)
        assert drawn.isfinite().all()
        assert len(set(drawn.flatten().tolist())) > 1000

    def test_t3_mixed_bounds(self) -> None:
        torch.manual_seed(0)
        spec = Bounded(torch.tensor([-1.0, 0.0, -INF, -INF]), torch.tensor([1.0, INF, 0.0, INF]))
        drawn = spec.rand((20_000,))
        assert spec.is_in(drawn)
        mean, std = drawn.mean(0), drawn.std(0)
        assert torch.allclose(mean, torch.tensor([0.0, 0.798, -0.798, 0.0]), atol=0.03)
        assert torch.allclose(std, torch.tensor([3**-0.5, 0.603, 0.603, 1.0]), atol=0.03)

    def test_t3_huge_bounds_are_uniform(self) -> None:
        torch.manual_seed(0)
        drawn = Bounded(-3e38, 3e38, (1,)).rand((20_000,)).double()
        assert abs(drawn.mean()) < 0.05 * 3e38
        assert abs(drawn.std() / 3e38 - 3**-0.5) < 0.02


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_t4_unbounded_integers_can_be_negative(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    drawn = Unbounded((1000,), dtype=dtype).rand().double() / 2.0 ** (torch.iinfo(dtype).bits - 1)
    assert abs((drawn < 0).double().mean() - 0.5) < 0.06
    assert drawn.min() < -0.95
    assert drawn.max() > 0.95


class TestProject:
    def test_t5_dtype_and_nan(self) -> None:
        spec = Bounded(1, 2, (3,))
        projected = spec.project(torch.tensor([NAN, 9.0, 1.5], dtype=torch.float64))
        assert spec.is_in(projected)
        assert projected.tolist() == [1.0, 2.0, 1.5]
        assert Unbounded((1,)).project(torch.tensor([NAN])).tolist() == [0.0]
        assert Categorical(4).project(torch.tensor(2.6)).item() == 3
        assert Categorical(4).project(torch.tensor(NAN)).dtype == torch.int64

    def test_t5_integers_saturate(self) -> None:
        spec = Unbounded((4,), dtype=torch.int64)
        assert spec.project(torch.tensor([1e30, -1e30, 2.5, -INF], dtype=torch.float64)).tolist() == [
            2**63 - 1,
            -(2**63),
            2,
            -(2**63),
        ]
        assert Bounded(3, 200, (2,), dtype=torch.uint8).project(torch.tensor([300, -1])).tolist() == [200, 3]

    def test_t6_onehot_is_deterministic(self) -> None:
        spec = OneHot(4)
        state = torch.get_rng_state()
        for value in (torch.zeros(4), torch.ones(4), torch.full((4,), NAN), torch.full((4,), -INF)):
            assert spec.project(value).tolist() == [True, False, False, False]
        assert spec.project(torch.tensor([0.1, 0.7, 0.7, -3])).tolist() == [False, True, False, False]
        assert torch.equal(state, torch.get_rng_state())

    def test_masks(self) -> None:
        mask = torch.tensor([False, True, False, True])
        assert Categorical(4, (4,), mask=mask).project(torch.tensor([0, 1, 2, 3])).tolist() == [1, 1, 1, 3]
        spec = OneHot(4, mask=mask)
        assert spec.project(torch.tensor([9.0, -INF, 8.0, -INF])).tolist() == [False, True, False, False]
        with pytest.raises(ValueError, match="allows no class"):
            Categorical(2, mask=torch.tensor([False, False])).project(torch.tensor(5))

    def test_shape(self) -> None:
        with pytest.raises(ValueError, match=re.escape("expected shape (3,)")):
            Unbounded((3,)).project(torch.zeros(4, dtype=torch.float64))
        with pytest.raises(TypeError, match="expected a tensor"):
            Unbounded((3,)).project([1, 2, 3])  # type: ignore[arg-type]


class TestMembership:
    def test_t7_fractions(self) -> None:
        assert not OneHot(3, dtype=torch.float32).is_in(torch.tensor([0.5, 0.5, 0.0]))
        assert not Categorical(3, dtype=torch.float32).is_in(torch.tensor(1.5))
        assert not MultiCategorical([3, 3], dtype=torch.float32).is_in(torch.tensor([1.5, 1.0]))
        assert not Binary(2, dtype=torch.float32).is_in(torch.tensor([0.5, 1.0]))
        assert not Categorical(3, dtype=torch.float32).is_in(torch.tensor(NAN))
        assert not OneHot(3, dtype=torch.int64).is_in(torch.tensor([2, -1, 0]))

    @pytest.mark.parametrize(
        "value", [torch.zeros(()), torch.zeros(4), torch.zeros(3, 4), "x", None, 1.0, [0.0] * 3]
    )
    def test_t8_never_raises(self, value: object) -> None:
        for spec in (Bounded(-1, 1, (3,)), Unbounded((3,)), Categorical(3, (3,)), OneHot(3), Binary(3)):
            assert spec.is_in(value) is False
        assert Composite(a=Unbounded((3,))).is_in(value) is False

    def test_t8_wrong_shapes(self) -> None:
        assert not Bounded(-1, 1, (1,)).is_in(torch.zeros(5))
        assert not Composite(a=Unbounded((3,))).is_in(TensorDict({"b": torch.zeros(3)}))
        assert not Composite(a={"b": Unbounded((3,))}).is_in(TensorDict({"a": torch.zeros(3)}))

    def test_an_index_of_the_cpu(self) -> None:
        # Tensors made there say that they are on "cpu".
        for device in ("cpu:0", torch.device("cpu:0"), torch.device("cpu", 0)):
            spec = Bounded(0, 1, (3,), device=device)
            assert spec.device == torch.device("cpu")
            assert spec.is_in(spec.rand())

    def test_t9_device(self) -> None:
        assert not Unbounded((3,)).is_in(torch.zeros(3, device="meta"))
        assert not Bounded(0, 1, (3,)).is_in(torch.zeros(3, device="meta"))

    def test_t10_python_bool(self) -> None:
        for spec in (Bounded(0, 1, (1,)), Categorical(2), OneHot(2), Binary(2), MultiCategorical([2])):
            assert spec.is_in(spec.rand()) is True
            assert spec.contains(spec.rand()) is True

    def test_nan(self) -> None:
        assert not Unbounded((2,)).is_in(torch.tensor([0.0, NAN]))
        assert not Bounded(-INF, INF, (2,)).is_in(torch.tensor([0.0, NAN]))
        assert Unbounded((2,)).is_in(torch.tensor([0.0, INF]))


class TestEncode:
    def test_t13_one_hot_data_stay(self) -> None:
        spec = OneHot(4)
        hot = [0, 0, 1, 0]
        assert spec.encode(hot).tolist() == [False, False, True, False]
        assert torch.equal(spec.encode(torch.tensor(hot, dtype=torch.bool)), spec.encode(2))
        assert spec.encode(torch.tensor([1, 2, 3])).shape == (3, 4)
        with pytest.raises(AssertionError, match="single 1"):
            spec.encode([0, 1, 1, 0])
        with pytest.raises(AssertionError, match=re.escape("classes 0 … 3, got 4")):
            spec.encode(4)
        with pytest.raises(RuntimeError, match="class indices of shape"):
            spec.encode([1, 2, 3])
        with pytest.raises(ValueError, match="whole numbers"):
            spec.encode(2.5)
        assert OneHot(4, (2, 4)).encode([1, 3]).int().argmax(-1).tolist() == [1, 3]

    def test_t14_classes(self) -> None:
        spec = Categorical(4)
        with pytest.raises(AssertionError, match=re.escape("classes 0 … 3, got 9")):
            spec.encode(9)
        with pytest.raises(AssertionError, match="got -1"):
            spec.encode(-1)
        with pytest.raises(ValueError, match=re.escape("whole numbers for dtype torch.int64, got 2.7")):
            spec.encode(2.7)
        with pytest.raises(RuntimeError, match=re.escape("expected shape (2,)")):
            Categorical(4, (2,)).encode(torch.tensor([1, 2, 3]))
        with pytest.raises(AssertionError):
            Binary(2).encode([0, 2])
        with pytest.raises(AssertionError):
            MultiCategorical([2, 2]).encode([0, 2])
        with pytest.raises(AssertionError, match="mask"):
            Categorical(2, mask=torch.tensor([True, False])).encode(1)

    def test_t16_arrays_are_not_aliased(self) -> None:
        array = np.zeros(3, dtype=np.float32)
        encoded = Unbounded((3,)).encode(array)
        array[:] = 7
        assert encoded.tolist() == [0, 0, 0]

    def test_t15b_memoized_encoding_checks_every_value(self) -> None:
        spec = Unbounded((3,))
        spec.memoize_encode()
        assert spec.encode(np.zeros(3)).tolist() == [0, 0, 0]
        with pytest.raises(RuntimeError, match=re.escape("expected shape (3,), got (5,)")):
            spec.encode(np.zeros(5))
        assert spec.encode([1, 2, 3]).tolist() == [1, 2, 3]
        spec.erase_memoize_cache()
        spec.memoize_encode(mode=False)
        assert Composite(a=spec).encode({"a": [4, 5, 6]})["a"].tolist() == [4, 5, 6]

    def test_wrong_shapes(self) -> None:
        with pytest.raises(RuntimeError, match=re.escape("expected shape (3, 2), got (2, 3)")):
            Unbounded((3, 2)).encode(np.zeros((2, 3)))
        with pytest.raises(RuntimeError):
            Unbounded((3,)).encode(torch.zeros(4))

    def test_overflow(self) -> None:
        with pytest.raises(ValueError, match="within 0 … 255"):
            Unbounded((1,), dtype=torch.uint8).encode([300])
        with pytest.raises(TypeError, match="must be numbers"):
            Unbounded((1,)).encode("text")


class TestArguments:
    def test_t17_reshape(self) -> None:
        with pytest.raises(RuntimeError, match="cannot reshape"):
            Unbounded((3,)).reshape(2, 2)
        with pytest.raises(ValueError, match="columns"):
            OneHot(4).reshape(2, 2)

    def test_t18_reshape_resolves_minus_one(self) -> None:
        assert Unbounded((6,)).reshape(-1, 1).shape == (6, 1)
        assert Bounded(0, 1, (6,)).reshape(2, -1).shape == (2, 3)

    def test_t19_masks_survive(self) -> None:
        mask = torch.tensor([True, False, True])
        spec = Categorical(3, mask=mask)
        for moved in (
            spec.to(torch.int32),
            spec.expand(5),
            spec.unsqueeze(0),
            spec.clone(),
            copy.deepcopy(spec),
        ):
            assert moved.mask is not None
            assert not moved.is_in(moved.one())
        assert spec.expand(5).mask.shape == (5, 3)  # type: ignore[union-attr]

    def test_t26_sizes_as_devices(self) -> None:
        with pytest.raises(ValueError, match="accelerator"):
            Unbounded(2, 1000)

    def test_t26_integers_as_shapes(self) -> None:
        assert Categorical(4, shape=3).shape == (3,)
        assert Unbounded(3).rand(2).shape == (2, 3)
        assert Unbounded(np.int64(3)).shape == (3,)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"shape must be an integer or a sequence of integers, got 2\.5"):
            Unbounded(2.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="negative"):
            Unbounded((2, 3)).rand((-1,))

    @pytest.mark.parametrize("n", [0, -3])
    def test_t30_numbers_of_classes(self, n: int) -> None:
        for make in (Categorical, OneHot):
            with pytest.raises(ValueError, match="n must be at least"):
                make(n)
        with pytest.raises(ValueError, match="at least 1"):
            MultiCategorical([2, n])

    def test_t30_fractions_of_classes(self) -> None:
        for make in (Categorical, OneHot):
            with pytest.raises(TypeError, match=re.escape("n must be a whole number, got 2.5")):
                make(2.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="whole numbers"):
            MultiCategorical([2.5, 1])

    def test_dtypes(self) -> None:
        with pytest.raises(TypeError, match="dtype must be one of"):
            Unbounded((1,), dtype=np.float32)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="dtype must be one of"):
            Unbounded((1,), dtype=torch.complex64)
        with pytest.raises(ValueError, match="holds at most 128 classes"):
            Categorical(300, dtype=torch.int8)


class TestComposite:
    def test_t21_missing_keys(self) -> None:
        spec = Composite(observation=Unbounded((3,)))
        with pytest.raises(KeyError, match="did you mean observation"):
            spec.get("observaton")
        with pytest.raises(KeyError, match="did you mean observation"):
            spec["observaton"]
        with pytest.raises(KeyError, match="cannot project"):
            spec.project(TensorDict({}))

    def test_t22_delete_from_a_locked_spec(self) -> None:
        spec = Composite(a=Unbounded((3,))).lock_()
        with pytest.raises(RuntimeError, match="locked"):
            del spec["a"]
        assert "a" in spec

    def test_t23_a_refused_shape_changes_nothing(self) -> None:
        spec = Composite(nested=Composite(x=Unbounded((2, 3))), z=Unbounded((4,)))
        before = spec.clone()
        with pytest.raises(ValueError, match=re.escape("('z',)")):
            spec.shape = (2,)
        assert spec == before

    def test_t24_values_that_are_no_specs(self) -> None:
        for value in (torch.zeros(2), 3, "spec"):
            with pytest.raises(TypeError, match="key 'a': expected a spec"):
                Composite(a=value)  # type: ignore[arg-type]

    def test_t25_entries_that_are_none(self) -> None:
        spec = Composite(a=None, b=Unbounded((2,)))
        assert list(spec.keys()) == ["a", "b"]
        assert [entry is None for entry in spec.values()] == [True, False]
        value = spec.rand()
        assert list(value.keys()) == ["b"]
        assert spec.is_in(value)
        assert spec.project(value) is value
        assert spec.to_numpy(spec.zero())["b"].tolist() == [0, 0]
        assert spec.encode({"b": [1, 2]})["b"].tolist() == [1, 2]
        # Nothing is known of the entry: data for it are left out, in both directions.
        assert list(spec.encode({"a": [1, 2], "b": [1, 2]}).keys()) == ["b"]
        assert list(spec.to_numpy(TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}))) == ["b"]

    def test_t28_type_check(self) -> None:
        spec = Composite(a={"b": Unbounded((2,))})
        spec.type_check(torch.zeros(9), ("a", "b"))
        with pytest.raises(TypeError, match=re.escape("key ('a', 'b'): expected dtype torch.float32")):
            spec.type_check(torch.zeros(2, dtype=torch.float64), ("a", "b"))
        with pytest.raises(KeyError):
            spec.type_check(torch.zeros(2), "zz")
        with pytest.raises(TypeError):
            spec.type_check(TensorDict({"a": {"b": torch.zeros(2, dtype=torch.float64)}}))


NUMBERS = (3, 3.0, True, 0, np.int64(1), np.float32(0), np.zeros(()), torch.zeros(()), torch.tensor(1))


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("shape", [(1,), (1, 1), ()], ids=str)
def test_a_number_is_the_one_element(number: Any, shape: tuple[int, ...]) -> None:
    """Whether it comes as a number, an array or a tensor without dimensions."""
    made = {
        "unbounded": Unbounded(shape),
        "bounded": Bounded(0, 3, shape),
        "integers": Bounded(0, 3, shape, dtype=torch.int64),
        "categorical": Categorical(4, shape),
        "binary": Binary(shape=shape) if shape else Categorical(2, shape, dtype=torch.int8),
        "one-hot": OneHot(4, shape=(*shape, 4)),
    }
    for name, spec in made.items():
        if name == "binary" and number > 1:
            continue
        encoded = spec.encode(number)
        assert encoded.shape == spec.shape, name
        assert spec.to_numpy(encoded) == number, name
        assert Composite(a=spec).encode({"a": number})["a"].shape == spec.shape, name
