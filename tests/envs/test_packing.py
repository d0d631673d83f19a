"""Entries that are written past `TensorDict.set` are those that it would have written."""

from __future__ import annotations

import pytest
import torch
from specgen_runtime.envs.packing import put_checked
from tensordict import TensorDict

KEYS = ["x", ("nest", "x"), ("new", "deep", "x"), ("nest", "new", "x")]


def data() -> TensorDict:
    return TensorDict({"nest": TensorDict({"y": torch.zeros(2, 3)}, [2, 3])}, [2])


@pytest.mark.parametrize("key", KEYS)
def test_as_set_does(key: str | tuple[str, ...]) -> None:
    value = torch.ones(2, 3, 4)
    written, expected = data(), data().set(key, value)
    put_checked(written, key, value)
    assert set(written.keys(True)) == set(expected.keys(True))
    assert written.get(key) is value
    for nest in (name for name in expected.keys(True) if not isinstance(expected.get(name), torch.Tensor)):
        assert written.get(nest).batch_size == expected.get(nest).batch_size


def test_names_reach_new_nests() -> None:
    written = data().refine_names("time")
    put_checked(written, ("new", "x"), torch.ones(2))
    assert written["new"].names == ["time"]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="batch dimension mismatch"):
        put_checked(data(), ("nest", "x"), torch.ones(2))
    with pytest.raises(RuntimeError, match="lock"):
        put_checked(data().lock_(), "x", torch.ones(2))
    with pytest.raises(RuntimeError, match="lock"):
        put_checked(data().lock_(), ("new", "x"), torch.ones(2))
