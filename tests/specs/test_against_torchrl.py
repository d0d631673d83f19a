"""Same seed, same numbers as TorchRL; same shapes after the same operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime import specs
from tensordict import assert_close

pytestmark = pytest.mark.peers

MASK = torch.tensor([True, False, True, True])

# Each entry makes the same spec in either library.
SPECS: dict[str, Callable[[Any], Any]] = {
    "bounded_float32": lambda lib: lib.Bounded(-2, 3, (4,)),
    "bounded_float64": lambda lib: lib.Bounded(-2, 3, (2, 3), dtype=torch.float64),
    "bounded_float16": lambda lib: lib.Bounded(0, 1, (7,), dtype=torch.float16),
    "bounded_bfloat16": lambda lib: lib.Bounded(0, 8, (7,), dtype=torch.bfloat16),
    "bounded_rows": lambda lib: lib.Bounded(torch.tensor([-1.0, 0.0, 1e-3]), torch.tensor([1.0, 5.0, 1e6])),
    "bounded_scalar": lambda lib: lib.Bounded(-1, 1, ()),
    "bounded_int64": lambda lib: lib.Bounded(-3, 9, (5,), dtype=torch.int64),
    "bounded_int64_wide": lambda lib: lib.Bounded(-(2**62), 2**62 + 5, (5,), dtype=torch.int64),
    "bounded_int64_full": lambda lib: lib.Bounded(-(2**63), 2**63 - 1, (5,), dtype=torch.int64),
    "bounded_int32": lambda lib: lib.Bounded(-(2**31), 2**31 - 1, (5,), dtype=torch.int32),
    "bounded_uint8": lambda lib: lib.Bounded(0, 255, (4, 4), dtype=torch.uint8),
    "bounded_int8": lambda lib: lib.Bounded(-7, 3, (4,), dtype=torch.int8),
    "bounded_bool": lambda lib: lib.Bounded(False, True, (6,), dtype=torch.bool),
    "unbounded_float32": lambda lib: lib.Unbounded((3,)),
    "unbounded_float32_long": lambda lib: lib.Unbounded((33,)),
    "unbounded_float64": lambda lib: lib.Unbounded((2, 9), dtype=torch.float64),
    "unbounded_default": lambda lib: lib.Unbounded(),
    "unbounded_bool": lambda lib: lib.Unbounded((9,), dtype=torch.bool),
    "unbounded_uint8": lambda lib: lib.Unbounded((9,), dtype=torch.uint8),
    "categorical": lambda lib: lib.Categorical(4),
    "categorical_batch": lambda lib: lib.Categorical(7, (2, 3), dtype=torch.int32),
    "categorical_bool": lambda lib: lib.Categorical(2, (1,), dtype=torch.bool),
    "categorical_mask": lambda lib: lib.Categorical(4, (5,), mask=MASK),
    "categorical_mask_batch": lambda lib: lib.Categorical(4, (5, 2), mask=MASK),
    "onehot": lambda lib: lib.OneHot(4),
    "onehot_batch": lambda lib: lib.OneHot(4, (3, 2, 4), dtype=torch.int64),
    "onehot_mask": lambda lib: lib.OneHot(4, (3, 4), mask=MASK),
    "multi": lambda lib: lib.MultiCategorical([3, 2, 5]),
    "multi_batch": lambda lib: lib.MultiCategorical([3, 2], (6, 2)),
    "multi_deep": lambda lib: lib.MultiCategorical([3, 2, 9], (4, 5, 3)),
    "multi_rows_differ": lambda lib: lib.MultiCategorical(torch.tensor([[3, 2], [7, 4], [5, 9]])),
    "binary": lambda lib: lib.Binary(8),
    "binary_batch": lambda lib: lib.Binary(shape=(3, 2), dtype=torch.bool),
    "composite": lambda lib: lib.Composite(
        action=lib.Categorical(4, (3,)),
        agents=lib.Composite(
            observation=lib.Bounded(-1, 1, (3, 2)), mask=lib.Binary(shape=(3, 4)), shape=(3,)
        ),
        noise=lib.Unbounded((3, 5)),
        shape=(3,),
    ),
}


@pytest.fixture
def torchrl() -> Any:
    return pytest.importorskip("torchrl.data")


def same(left: Any, right: Any) -> None:
    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.device == right.device
        assert torch.equal(left, right)
    else:
        assert left.batch_size == right.batch_size
        assert left.device == right.device
        assert set(left.keys(True)) == set(right.keys(True))
        assert_close(left, right, rtol=0, atol=0)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("lead", [None, (), (1,), (4,), (5, 3)], ids=str)
def test_rand_draws_the_same_numbers(name: str, lead: tuple[int, ...] | None, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    for seed in range(3):
        torch.manual_seed(seed)
        drawn = ours.rand(lead)
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        same(drawn, theirs.rand(lead))
        assert torch.equal(state, torch.get_rng_state())
        assert ours.is_in(drawn)


@pytest.mark.parametrize("name", SPECS)
def test_zero_and_one(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    for lead in (None, (2,), (2, 1)):
        same(ours.zero(lead), theirs.zero(lead))
        same(ours.one(lead), theirs.one(lead))


@pytest.mark.parametrize("name", SPECS)
def test_shape_dtype_device(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    assert ours.shape == theirs.shape
    assert ours.ndim == theirs.ndim
    assert ours.device == theirs.device
    if name != "composite":
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", SPECS)
def test_members_of_one_are_members_of_the_other(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    assert theirs.is_in(ours.rand((6,)))
    assert ours.is_in(theirs.rand((6,)))


@pytest.mark.parametrize("name", SPECS)
def test_expand_and_unsqueeze_give_the_same_shapes(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    for shape in [(3, *ours.shape), (5, 2, *ours.shape)]:
        assert ours.expand(shape).shape == theirs.expand(shape).shape
        assert ours.expand(*shape).expand(shape).shape == shape
    assert ours.unsqueeze(0).shape == theirs.unsqueeze(0).shape
    assert ours.unsqueeze(0).squeeze(0) == ours


@pytest.mark.parametrize(
    "index", [0, -1, slice(1, 3), (0, 1), (slice(None), 1), None, ..., (..., 0), [0, 2]], ids=str
)
@pytest.mark.parametrize("name", ["unbounded", "bounded", "categorical", "onehot", "composite"])
def test_indexing_gives_the_same_shapes(name: str, index: Any, torchrl: Any) -> None:
    make: dict[str, Callable[[Any], Any]] = {
        "unbounded": lambda lib: lib.Unbounded((4, 2)),
        "bounded": lambda lib: lib.Bounded(-1, 1, (4, 2)),
        "categorical": lambda lib: lib.Categorical(3, (4, 2)),
        "onehot": lambda lib: lib.OneHot(3, (4, 2, 3)),
        "composite": lambda lib: lib.Composite(a=lib.Unbounded((4, 2, 7)), shape=(4, 2)),
    }
    assert make[name](specs)[index].shape == make[name](torchrl)[index].shape


@pytest.mark.parametrize(
    "name", ["bounded_float32", "bounded_int64", "bounded_uint8", "categorical_batch", "binary"]
)
def test_project_clamps_alike(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    far = (
        torch.randint(-50, 50, ours.shape)
        if not ours.dtype.is_floating_point
        else torch.randn(ours.shape) * 9
    )
    far = far.abs() if ours.dtype == torch.uint8 else far
    far = far.to(ours.dtype)
    same(ours.project(far.clone()), theirs.project(far.clone()))


def test_encode_and_to_numpy_alike(torchrl: Any) -> None:
    for name, data in {
        "bounded_float32": np.array([1, -1, 0.5, 2]),
        "unbounded_default": 3.5,
        "categorical": 3,
        "onehot": 2,
        "multi": [2, 1, 4],
        "binary": [0, 1, 1, 0, 0, 0, 1, 1],
    }.items():
        ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
        same(ours.encode(data), theirs.encode(data))
        assert np.array_equal(ours.to_numpy(ours.encode(data)), theirs.to_numpy(theirs.encode(data)))


def test_composite_mapping_alike(torchrl: Any) -> None:
    ours, theirs = SPECS["composite"](specs), SPECS["composite"](torchrl)
    for nested in (False, True):
        for leaves in (False, True):
            assert set(ours.keys(nested, leaves)) == set(theirs.keys(nested, leaves))
    assert len(ours) == len(theirs)
    assert list(ours) == list(theirs)
