from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from specgen_runtime.specs import Binary, CategoricalBox, OneHot

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int64, torch.float32, torch.bfloat16]


@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"n": 4}, (4,)),
        ({"n": np.int64(4)}, (4,)),
        ({"n": 4, "shape": (2, 4)}, (2, 4)),
        ({"shape": (2, 4)}, (2, 4)),
        ({"shape": 4}, (4,)),
        ({"shape": ()}, ()),
        ({"n": 0, "shape": ()}, ()),
        ({"n": 0}, (0,)),
        ({"n": 3, "shape": (-1, 3)}, (-1, 3)),
    ],
)
def test_shapes(arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    spec = Binary(**arguments)
    assert spec.shape == shape
    assert spec.dtype == torch.int8
    assert spec.n == 2
    spec.assert_is_in(spec.rand((3,)))


def test_refused() -> None:
    with pytest.raises(TypeError, match="needs n or shape"):
        Binary()
    for n, shape in ((3, (4,)), (3, ()), (1, (2, 3))):
        with pytest.raises(ValueError, match="last dimension"):
            Binary(n, shape)
    with pytest.raises(TypeError, match="whole number"):
        Binary(2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: torch.dtype) -> None:
    spec = Binary(3, dtype=dtype)
    assert spec.space == CategoricalBox(2)
    assert (
        Binary(1, dtype=dtype).encode(True).tolist()
        == Binary(1, dtype=dtype).encode(np.True_).tolist()
        == [1]
    )
    for value in ([0, 1, 1], np.array([0, 1, 1]), np.array([False, True, True]), np.array([0.0, 1, 1])):
        encoded = spec.encode(value)
        assert encoded.dtype == dtype
        assert encoded.bool().tolist() == [False, True, True]
    for wrong in ([0, 1, 2], np.array([0, -1, 0])):
        with pytest.raises((AssertionError, ValueError)):
            spec.encode(wrong)
    if dtype != torch.bool:
        assert not spec.is_in(torch.tensor([0, 1, 2], dtype=dtype))
        assert spec.project(torch.tensor([0, 1, 7], dtype=dtype)).tolist() == [0, 1, 1]
    if dtype.is_floating_point:
        for fraction in (0.5, math.nan, math.inf):
            assert not spec.is_in(torch.tensor([0, 1, fraction], dtype=dtype))
        assert spec.project(torch.tensor([-0.2, 0.7, math.nan], dtype=dtype)).tolist() == [0, 1, 0]


def test_bits_are_fair() -> None:
    torch.manual_seed(0)
    drawn = Binary(2).rand((8000,)).double()
    assert torch.allclose(drawn.mean(0), torch.tensor([0.5, 0.5], dtype=torch.float64), atol=0.02)


def test_t20_members() -> None:
    assert Binary(2).cardinality() == 4
    assert Binary(2).enumerate().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert Binary(shape=(2, 3), dtype=torch.bool).enumerate().dtype == torch.bool
    assert len(Binary(shape=(2, 3)).enumerate().unique(dim=0)) == 64
    assert Binary(shape=()).enumerate().tolist() == [0, 1]
    assert Binary(1000).cardinality() == 2**1000
    with pytest.raises(NotImplementedError, match=r"about 10\^301 members"):
        Binary(1000).enumerate()
    assert Binary(shape=(-1,)).cardinality() == math.inf


def test_conversions() -> None:
    spec = Binary(3)
    value = torch.tensor([0, 1, 1], dtype=torch.int8)
    assert spec.to_one_hot(value).tolist() == [[True, False], [False, True], [False, True]]
    assert spec.to_one_hot_spec() == OneHot(2, (3, 2))
    assert spec.to_categorical(value) is value
    assert spec.to_categorical_spec() is spec
    with pytest.raises(RuntimeError, match="cannot convert"):
        spec.to_one_hot(value + 1)
    with pytest.raises(AssertionError):
        spec.to_one_hot(value + 1, safe=True)


def test_masks() -> None:
    spec = Binary(3)
    spec.update_mask([[True, True], [True, False], [False, True]])
    drawn = spec.rand((200,))
    assert drawn[:, 0].unique().tolist() == [0, 1]
    assert drawn[:, 1].unique().tolist() == [0]
    assert drawn[:, 2].unique().tolist() == [1]
    assert "masked" in repr(spec)
    assert spec.enumerate(use_mask=True).tolist() == [[0, 0, 1], [1, 0, 1]]
    assert spec.to_one_hot_spec().mask.tolist() == spec.mask.tolist()  # type: ignore[union-attr]


def test_copies() -> None:
    spec = Binary(shape=(2, 3))
    for twin in (spec.clone(), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert twin == spec
    for dtype in DTYPES:
        assert spec.to(dtype) == Binary(shape=(2, 3), dtype=dtype)
    assert spec.to("meta").device.type == "meta"


def test_every_dimension_can_change() -> None:
    spec = Binary(shape=(2, 6))
    assert spec.reshape(3, 4) == Binary(shape=(3, 4))
    assert spec.unsqueeze(-1).shape == (2, 6, 1)
    assert spec[0, 1] == Binary(shape=())
    assert spec[..., 0] == Binary(2)
    assert len(spec.unbind(-1)) == 6


@pytest.mark.peers
@pytest.mark.parametrize("lead", [None, (), (4,)], ids=str)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_as_torchrl(lead: Any, shape: tuple[int, ...]) -> None:
    torchrl = pytest.importorskip("torchrl.data")
    ours, theirs = Binary(shape=shape), torchrl.Binary(shape=shape)
    torch.manual_seed(0)
    drawn = ours.rand(lead)
    torch.manual_seed(0)
    assert torch.equal(drawn, theirs.rand(lead))
    assert ours.n == theirs.n
    assert ours.to_one_hot_spec().shape == theirs.to_one_hot_spec().shape
    wide = torchrl.Binary(shape=shape, dtype=torch.int64)
    assert torch.equal(ours.to_one_hot(drawn), wide.to_one_hot(drawn.long()))
