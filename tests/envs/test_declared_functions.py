"""Declared functions: what they read and call, and values that have no batch of their own."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from specgen_runtime.testing import check_env
from tensordict import TensorDict

from tests.support import generate, imported

BATCHES: list[tuple[int, ...]] = [(), (1,), (3,), (4, 3)]

SCHEMA = """\
specgen: 1
doc: Functions that read tables, parameters, each other, or nothing.

envs:
  Table:
    doc: All values follow from functions.
    allow: [SG142]
    params: {dt: 0.25, gain: 2.0}
    consts:
      heights: {type: "float32[3]", value: [0.5, 1.5, 2.5]}
    functions:
      drift: {args: {x: float32, i: "int64 in [0, 2]"}, returns: "heights[clip(i, 0, 2)] - scaled(x)"}
      scaled: {args: {x: float32}, let: {y: gain * x}, returns: "y + level()"}
      level: {args: {}, let: {base: zeros(3)}, returns: "sum(base + heights)"}
      number: {args: {}, returns: "gain + 1"}
      row: {args: {}, returns: "stack(gain, dt, 1.0)"}
      filled: {args: {}, let: {z: zeros(3)}, returns: "z + row()"}
      seven: {args: {x: float32}, returns: "7.0"}
      zero: {args: {x: float32}, returns: "number() - 3"}
      weighted: {args: {v: "float32[3]"}, returns: "v * heights + scaled(v[0])"}
    state:
      x: float32
      v: float32[3]
      s: float32
      i: int64 in [0, 2]
    action:
      action: categorical(3)
    observation:
      observation: float32[3]
    reset:
      x: number()
      v: heights + filled()
      s: seven(1.0)
      i: 1
    step:
      next.x: euler(drift, x, dt, i) + rk4(zero, x, dt)
      next.v: euler(weighted, v, dt)
      next.s: seven(x)
      next.i: clip(action, 0, 2)
      reward: scaled(2.0) + number()
    observe:
      observation: row() * x
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"table.yaml": SCHEMA}, "functions_package")
    with imported(files, "functions_package", tmp_path_factory.mktemp("functions")) as made:
        yield made


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_values(package: ModuleType, batch: tuple[int, ...]) -> None:
    env = package.Table(batch_size=batch)
    heights, row = torch.tensor([0.5, 1.5, 2.5]), torch.tensor([2.0, 0.25, 1.0])
    root = env.reset()
    expected = {"x": torch.tensor(3.0), "v": heights + row, "s": torch.tensor(7.0)}
    following = env.step(root.set("action", torch.zeros(batch, dtype=torch.int64)))["next"]
    # drift(3, 1) = heights[1] - (gain * 3 + sum(heights)); rk4 of 0 leaves x as it is
    after = {"x": torch.tensor(3.0 + 0.25 * (1.5 - 10.5) + 3.0), "s": torch.tensor(7.0)}
    v = expected["v"]
    after["v"] = v + 0.25 * (v * heights + (2.0 * v[0] + 4.5))
    after["reward"] = torch.tensor([2.0 * 2.0 + 4.5 + 3.0])
    for data, values in ((root, expected), (following, after)):
        assert isinstance(data, TensorDict)
        values = {**values, "observation": row * values["x"]}
        for key, value in values.items():
            torch.testing.assert_close(data[key], value.expand((*batch, *value.shape)), msg=key)


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_contract(package: ModuleType, batch: tuple[int, ...]) -> None:
    check_env(lambda: package.Table(batch_size=batch), steps=10, deterministic=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_values_without_arguments_follow_the_device(package: ModuleType) -> None:
    assert package.Table(batch_size=[3], device="cuda:0").rollout(3)["next", "v"].is_cuda
