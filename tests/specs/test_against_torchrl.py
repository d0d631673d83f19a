"""Same seed, same numbers as TorchRL; same shapes after the same operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime import specs
from tensordict import assert_close

from tests.specs.samples import COLUMN_CLASSES, VARIABLE
from tests.specs.samples import SPECS as DRAWN

pytestmark = pytest.mark.peers

# TorchRL's one-hot specs of variable size can't draw.
SPECS = DRAWN | COLUMN_CLASSES | {name: make for name, make in VARIABLE.items() if "onehot" not in name}


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
    if "composite" not in name:
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("name", SPECS)
def test_members_of_one_are_members_of_the_other(name: str, torchrl: Any) -> None:
    ours, theirs = SPECS[name](specs), SPECS[name](torchrl)
    assert theirs.is_in(ours.rand((6,)))
    assert ours.is_in(theirs.rand((6,)))


# TorchRL's masked MultiCategorical can't be expanded.
@pytest.mark.parametrize("name", sorted(SPECS.keys() - {"multi_mask"}))
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
