from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import (
    Binary,
    Bounded,
    BoxList,
    Categorical,
    CategoricalBox,
    Composite,
    ContinuousBox,
    LeafSpec,
    MultiCategorical,
    OneHot,
    TensorSpec,
    Unbounded,
)

LEAVES: dict[str, LeafSpec] = {
    "bounded": Bounded([-1.0, 0.0, 2.0], [1.0, 5.0, 2.0]),
    "bounded_int": Bounded(-3, 3, (2, 3), dtype=torch.int32),
    "bounded_open": Bounded(0, float("inf"), (3,)),
    "unbounded": Unbounded((3,)),
    "unbounded_int": Unbounded((2,), dtype=torch.int16),
    "categorical": Categorical(5, (2,)),
    "categorical_masked": Categorical(3, (2,), mask=torch.tensor([True, False, True])),
    "onehot": OneHot(4, (2, 4)),
    "onehot_masked": OneHot(3, mask=torch.tensor([True, False, True])),
    "multi": MultiCategorical([3, 2], (4, 2)),
    "multi_rows": MultiCategorical([[3, 2], [2, 7]]),
    "binary": Binary(6),
    "binary_scalar": Binary(shape=(), dtype=torch.bool),
}
leaves = pytest.mark.parametrize("spec", LEAVES.values(), ids=LEAVES)


def test_abstract() -> None:
    with pytest.raises(TypeError):
        TensorSpec()  # type: ignore[abstract]
    with pytest.raises(TypeError):
        LeafSpec((1,), None, None)  # type: ignore[abstract]


@pytest.mark.parametrize(
    ("name", "value"),
    [("shape", (5,)), ("dtype", torch.int64), ("device", torch.device("meta")), ("space", None)],
)
@leaves
def test_fields_are_read_only(spec: LeafSpec, name: str, value: object) -> None:
    with pytest.raises(AttributeError, match="no setter"):
        setattr(spec, name, value)


@leaves
def test_common_behaviour(spec: LeafSpec) -> None:
    assert spec.ndim == spec.ndimension() == len(spec.shape)
    for lead in ((), (3,), (0,), (2, 1)):
        drawn = spec.rand(lead)
        assert drawn.shape == (*lead, *spec.shape)
        assert drawn.dtype == spec.dtype
        assert drawn.device == spec.device
        assert spec.is_in(drawn)
        assert spec.project(drawn) is drawn
        spec.assert_is_in(drawn)
        spec.type_check(drawn)
    assert (spec.zeros((2,)) == 0).all()
    assert (spec.ones() == 1).all()
    assert spec.is_in(spec.sample())
    assert spec.encode(spec.rand()).shape == spec.shape


@leaves
def test_copies(spec: LeafSpec) -> None:
    for twin in (spec.clone(), copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert twin is not spec
        assert twin == spec
        assert repr(twin) == repr(spec)
    assert spec.to(spec.dtype) is spec
    assert spec.cpu() is spec
    assert spec.clear_device_() is spec
    assert spec != Composite()
    assert spec != 1
    with pytest.raises(TypeError):
        hash(spec)


@leaves
def test_shapes(spec: LeafSpec) -> None:
    expanded = spec.expand(5, *spec.shape)
    assert expanded.shape == (5, *spec.shape)
    assert expanded.is_in(expanded.rand())
    for part in (expanded[2], expanded[-1], *expanded.unbind(0)):
        assert part == spec
    assert expanded[1:3].shape == (2, *spec.shape)
    assert expanded[[0, 3]].shape == (2, *spec.shape)
    assert expanded[np.array([0, 3])].shape == (2, *spec.shape)
    assert expanded[torch.tensor([True, False, True, False, False])].shape == (2, *spec.shape)
    assert expanded[None].shape == (1, 5, *spec.shape)
    assert expanded[...] == expanded
    assert spec.unsqueeze(0).squeeze(0) == spec
    assert spec.unsqueeze(-spec.ndim - 1) == spec.unsqueeze(0)
    assert spec.expand(2, 3, *spec.shape).flatten(0, 1) == spec.expand(6, *spec.shape)
    assert spec.expand(6, *spec.shape).unflatten(0, (2, -1)) == spec.expand(2, 3, *spec.shape)
    assert spec.reshape(spec.shape) == spec
    assert spec.view(1, *spec.shape) == spec.unsqueeze(0)
    for dim in (spec.ndim + 2, -spec.ndim - 2):
        with pytest.raises(ValueError, match="out of range"):
            spec.unsqueeze(dim)
        with pytest.raises(IndexError, match="out of range"):
            spec.squeeze(dim)
    with pytest.raises(ValueError, match=r"cannot expand|columns"):
        spec.expand(-1, *spec.shape)
    with pytest.raises(IndexError):
        spec[(0,) * (spec.ndim + 1)]
    with pytest.raises(IndexError):
        expanded[5]


@leaves
def test_devices(spec: LeafSpec) -> None:
    meta = spec.to("meta") if not isinstance(spec, MultiCategorical | Bounded) else None
    if meta is not None:
        assert meta.device == torch.device("meta")
        assert meta != spec


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@leaves
def test_cuda(spec: LeafSpec) -> None:
    moved = spec.cuda()
    assert moved.device == torch.device("cuda", torch.cuda.current_device())
    assert moved.is_in(moved.rand((7,)))
    assert not moved.is_in(spec.rand())
    assert moved.is_in(moved.project(spec.rand()))
    assert moved.expand(3, *spec.shape)[1] == moved
    assert moved.cpu() == spec
    assert moved.rand_sequence(4).shape == (4, *spec.shape)
    assert moved.encode(spec.rand()).device == moved.device


@leaves
@pytest.mark.parametrize("length", [0, 1, 7, 50])
def test_a_sequence_equals_successive_draws(spec: LeafSpec, length: int) -> None:
    torch.manual_seed(3)
    drawn = spec.rand_sequence(length)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    singles = [spec.rand() for _ in range(length)]
    assert drawn.shape == (length, *spec.shape)
    assert all(torch.equal(one, other) for one, other in zip(drawn, singles, strict=True))
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(3)
    spec._skip_draws(length)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    "name", ["bounded", "bounded_int", "categorical", "onehot", "binary", "categorical_masked"]
)
def test_one_batch_equals_successive_draws(name: str) -> None:
    spec = LEAVES[name].expand(33, *LEAVES[name].shape)
    torch.manual_seed(3)
    drawn = spec.rand((100,))
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.stack([spec.rand() for _ in range(100)]))


def test_a_sequence_of_composites() -> None:
    one = Composite(agents={"action": Categorical(4, (3,))}, shape=(3,))
    several = Composite(a=Categorical(4), b={"c": Bounded(-1, 1, (2,)), "d": Unbounded((2,))})
    for spec in (one, several, Composite()):
        torch.manual_seed(5)
        drawn = spec.rand_sequence(6)
        torch.manual_seed(5)
        for step in range(6):
            assert (drawn[step] == spec.rand()).all()
        assert drawn.batch_size == (6, *spec.shape)


class TestBounded:
    def test_ways_to_give_bounds(self) -> None:
        expected = Bounded(-1, 1, (2,))
        low: Any
        high: Any
        shape: Any
        for low, high, shape in (
            ([-1, -1], 1, None),
            (-1, np.ones(2), (2,)),
            (torch.tensor(-1), torch.ones(2, dtype=torch.float64), None),
            (np.float64(-1), 1.0, 2),
        ):
            assert Bounded(low, high, shape) == expected
        assert Bounded(np.zeros(2), np.ones(2)).dtype == torch.float32
        for low, high, shape in (
            (0, 1, None),
            ([0, 0], 1, (3,)),
            ([0, 0], [1, 1, 1], None),
            ([0, 0], 1, (3, 2)),
        ):
            with pytest.raises(RuntimeError, match="shape"):
                Bounded(low, high, shape)
        with pytest.raises(TypeError):
            Bounded(minimum=0, maximum=1)  # type: ignore[call-arg]

    def test_bounds_are_copies(self) -> None:
        low = torch.zeros(2)
        spec = Bounded(low, 1)
        low.fill_(9)
        assert spec.low.tolist() == [0, 0]

    def test_integers_include_both_ends(self) -> None:
        torch.manual_seed(0)
        for dtype in (torch.uint8, torch.int32, torch.int64):
            counts = Bounded(2, 5, (1,), dtype=dtype).rand((4000,)).long().flatten().bincount()
            assert counts[:2].tolist() == [0, 0]
            assert (counts[2:] > 850).all()
            assert len(counts) == 6

    def test_to(self) -> None:
        spec = Bounded([-0.5, 0.0], [2.5, float("inf")])
        whole = spec.to(torch.int32)
        assert whole == Bounded([0, 0], [2, 2**31 - 1], dtype=torch.int32)
        assert spec.to(torch.float64) == Bounded([-0.5, 0.0], [2.5, float("inf")], dtype=torch.float64)
        assert Bounded(0, 1e30, (1,)).to(torch.float16).high.item() == 65504
        with pytest.raises(ValueError, match="low must not be above high"):
            Bounded(0.2, 0.8, (1,)).to(torch.int64)

    def test_space(self) -> None:
        spec = Bounded(-1, 1, (2,))
        low, high = spec.space
        assert torch.equal(low, spec.low)
        assert torch.equal(high, spec.high)
        assert spec.space == ContinuousBox(-torch.ones(2), torch.ones(2))
        assert spec.space.to(torch.float64).low.dtype == torch.float64
        assert spec.space.clone() == spec.space

    def test_messages(self) -> None:
        with pytest.raises(
            AssertionError, match=r"expected values in \[-1.0, 1.0\], got 3.0 at index \(0, 1\)"
        ):
            Bounded(-1, 1, (2,)).assert_is_in(torch.tensor([[0.0, 3.0]]))


class TestUnbounded:
    def test_defaults(self) -> None:
        assert Unbounded().shape == (1,)
        assert Unbounded().dtype == torch.float32
        assert Unbounded((2,)).space.high.tolist() == [torch.finfo(torch.float32).max] * 2
        assert Unbounded((2,), dtype=torch.bool).space.low.tolist() == [False] * 2

    def test_is_normal(self) -> None:
        torch.manual_seed(0)
        drawn = Unbounded((1,)).rand((50_000,))
        assert abs(drawn.mean()) < 0.02
        assert abs(drawn.std() - 1) < 0.02

    def test_to_dtype(self) -> None:
        assert Unbounded((2,)).to(torch.int64) == Unbounded((2,), dtype=torch.int64)


class TestCategorical:
    def test_unknown_number_of_classes(self) -> None:
        spec = Categorical(-1, (2,))
        assert spec.is_in(torch.tensor([3, 999]))
        assert spec.zero().tolist() == [0, 0]
        with pytest.raises(RuntimeError, match="set_provisional_n"):
            spec.rand()
        spec.set_provisional_n(3)
        assert spec.n == 3
        assert spec.rand((99,)).max() == 2

    def test_masks(self) -> None:
        torch.manual_seed(0)
        spec = Categorical(4, (2,))
        spec.update_mask(torch.tensor([[True, False, True, True], [False, True, False, False]]))
        drawn = spec.rand((200,))
        assert set(drawn[:, 0].tolist()) == {0, 2, 3}
        assert set(drawn[:, 1].tolist()) == {1}
        assert spec.is_in(drawn)
        assert not spec.is_in(torch.tensor([1, 1]))
        assert spec != Categorical(4, (2,))
        with pytest.raises(AssertionError, match="mask allows, got 1"):
            spec.assert_is_in(torch.tensor([1, 1]))
        spec.update_mask([False] * 4)
        with pytest.raises(RuntimeError, match="allows no class"):
            spec.rand()
        spec.update_mask(None)
        assert spec == Categorical(4, (2,))
        with pytest.raises(RuntimeError, match="must broadcast to"):
            spec.update_mask(torch.ones(3, dtype=torch.bool))
        with pytest.raises(ValueError, match="bools"):
            spec.update_mask(torch.ones(4))

    def test_a_shared_mask_is_copied(self) -> None:
        mask = torch.tensor([True, False])
        spec = Categorical(2, mask=mask)
        mask.fill_(False)
        assert spec.rand() == 0

    def test_space(self) -> None:
        assert Categorical(4).space == CategoricalBox(4) == OneHot(4).space
        assert Categorical(4) != Categorical(5)

    def test_narrow_dtypes(self) -> None:
        spec = Categorical(2, (1,), dtype=torch.bool)
        assert spec.is_in(torch.tensor([True]))
        assert spec.encode(1).tolist() == [True]
        with pytest.raises(ValueError, match="holds at most 2 classes"):
            Categorical(300).to(torch.bool)


class TestOneHot:
    def test_shape(self) -> None:
        assert OneHot(4).shape == (4,)
        for shape in ((3,), ()):
            with pytest.raises(ValueError, match="last dimension of shape must be n=4"):
                OneHot(4, shape)

    def test_the_classes_stay_last(self) -> None:
        spec = OneHot(1, (2, 1))
        assert spec.squeeze() == spec
        for change in (
            lambda: spec.squeeze(-1),
            lambda: spec.unsqueeze(-1),
            lambda: spec.expand(2, 3),
            lambda: spec.unbind(1),
        ):
            with pytest.raises(ValueError):
                change()
        with pytest.raises(IndexError):
            spec[0, 0]

    def test_numpy(self) -> None:
        spec = OneHot(4, (2, 4))
        value = spec.rand()
        assert torch.equal(spec.encode(spec.to_numpy(value)), value)

    def test_masks(self) -> None:
        spec = OneHot(3, (2, 3), mask=torch.tensor([False, True, True]))
        drawn = spec.rand((50,))
        assert not drawn[..., 0].any()
        assert drawn[..., 1].any()
        assert drawn[..., 2].any()
        with pytest.raises(AssertionError, match="mask allows"):
            spec.assert_is_in(torch.tensor([[True, False, False]] * 2))


class TestMultiCategorical:
    def test_shapes(self) -> None:
        assert MultiCategorical(3).shape == (1,)
        assert MultiCategorical([3, 2], (5, 2)).nvec.shape == (5, 2)
        assert MultiCategorical([3, 2]).space == BoxList((CategoricalBox(3), CategoricalBox(2)))
        assert MultiCategorical([3, 2]).rand().shape == (2,)
        for shape in ((3,), (), (2, 3)):
            with pytest.raises(ValueError, match="shape must end with that of nvec"):
                MultiCategorical([3, 2], shape)

    def test_rows(self) -> None:
        torch.manual_seed(0)
        spec = MultiCategorical([[1, 2], [3, 4]])
        assert (spec.rand((500,)).amax(0) == torch.tensor([[0, 1], [2, 3]])).all()
        assert spec[1] == MultiCategorical([3, 4])
        assert spec.project(torch.full((2, 2), 9)).tolist() == [[0, 1], [2, 3]]
        with pytest.raises(AssertionError, match=r"expected classes 0 … 2, got 3 at index \(1, 0\)"):
            spec.assert_is_in(torch.tensor([[0, 0], [3, 0]]))


class TestBinary:
    def test_shapes(self) -> None:
        assert Binary(4).shape == (4,)
        assert Binary(4, (2, 4)).shape == (2, 4)
        assert Binary(shape=(2, 4)).space == CategoricalBox(2)
        assert Binary(4).dtype == torch.int8
        with pytest.raises(TypeError, match="needs n or shape"):
            Binary()
        with pytest.raises(ValueError, match="last dimension"):
            Binary(3, (4,))

    def test_project(self) -> None:
        assert Binary(3).project(torch.tensor([-5.0, 0.7, 3.0])).tolist() == [0, 1, 1]


def test_repr() -> None:
    assert repr(Bounded(-1, 1, (2,))) == "Bounded(low=-1.0, high=1.0, shape=(2,), dtype=float32, device=cpu)"
    assert (
        repr(Bounded([0, 1], 3))
        == "Bounded(low=[0.0 … 1.0], high=3.0, shape=(2,), dtype=float32, device=cpu)"
    )
    assert repr(Categorical(3, mask=torch.ones(3, dtype=torch.bool))).startswith("Categorical(n=3, masked, ")
