"""Patterns of dtypes that meet float32: float64 keeps its digits."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from tensordict import TensorDict

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
transforms:
  Cast:
    params:
      dtype: {type: "enum(float32, float64)", optional: true, static: true}
    in:
      x: {each: [observation], type: "float[...]"}
    out:
      y: {each: x, name: same}
    map:
      y: where(given(dtype), cast(x, dtype), float32(x))
  Shift:
    in:
      x: {each: [observation], type: "number[n]"}
    out:
      y: {each: x, name: same}
    map:
      y: x + 0.1 * ones(n)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"mixed.yaml": SCHEMA}, "of_mixed_dtypes")
    with imported(files, "of_mixed_dtypes", tmp_path_factory.mktemp("mixed")):
        yield importlib.import_module("of_mixed_dtypes.mixed")


VALUE = torch.tensor([0.1, 1 / 3], dtype=torch.float64)


def shown(transform: object, value: torch.Tensor) -> torch.Tensor:
    data = TensorDict({"observation": value.expand(3, 2)}, [3])
    found: torch.Tensor = transform(data)["observation"]  # type: ignore[operator]
    return found[0]


def test_a_cast_that_was_chosen_is_not_cast_again(made: ModuleType) -> None:
    assert torch.equal(shown(made.Cast(dtype=torch.float64), VALUE), VALUE)
    assert torch.equal(shown(made.Cast(), VALUE), VALUE.float())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.uint8])
def test_what_is_bound_decides_the_dtype(made: ModuleType, dtype: torch.dtype) -> None:
    value = VALUE.to(dtype)
    wanted = value + 0.1 * torch.ones(2)
    assert wanted.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    found = shown(made.Shift(), value)
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)
