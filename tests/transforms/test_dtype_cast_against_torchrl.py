"""DTypeCastTransform: one after another, fused in a chain, of recorded data, and against TorchRL's."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from specgen_runtime.envs import check_env_specs
from specgen_runtime.specs import Bounded, Categorical, Unbounded
from specgen_runtime.transforms import Compose, TransformedEnv
from specgen_std.transforms import DoubleToFloat, DTypeCastTransform, RewardSum, ToTensorImage
from tensordict import TensorDict

from tests.agreement.test_random_chains import drive, same_specs
from tests.support import generate, imported
from tests.transforms.envs import Walk
from tests.transforms.test_against_torchrl import TheirWalk, run, theirs

pytestmark = pytest.mark.peers

BATCHES: list[tuple[int, ...]] = [(), (3,), (2, 3)]

SCHEMA = """
specgen: 1
import: [specgen_std/transforms/dtype_cast, specgen_std/transforms/reward_sum]
envs:
  Mixed:
    state:
      x: float32[2] in [-5, 5]
      moment: int64 in [0, 200]
    action:
      push: float64[2] in [-1, 1]
      kind: categorical(3)
    observation:
      level: uint8[3] in [0, 200]
      exact: float64[2] in [-10, 10]
    reset:
      x: uniform(-1, 1, shape=2)
      moment: 0
    step:
      next.x: clip(x + float32(push) * float32(kind), -5, 5)
      next.moment: min(moment + 1, 200)
      reward: sum(next.x)
      terminated: moment > 11
    observe:
      exact: float64(x) * 2
      level: uint8(min(stack(moment, moment * 2, moment * 3), 200))
chains:
  Single:
    env: Mixed
    transforms: [{DTypeCastTransform: {dtype_in: float64, dtype_out: float32}}, RewardSum]
  Whole:
    env: Mixed
    transforms:
      - DTypeCastTransform: {dtype_in: uint8, dtype_out: int64}
      - DTypeCastTransform: {dtype_in: int64, dtype_out: float32, in_keys: [level], out_keys: [height]}
      - DTypeCastTransform: {dtype_in: int64, dtype_out: bool, in_keys: [level], out_keys: [raised]}
      - DTypeCastTransform: {dtype_in: int64, dtype_out: int8, in_keys: [level]}
      - DTypeCastTransform: {dtype_in: float32, dtype_out: float64, in_keys: [reward]}
"""

DYNAMIC: dict[str, Any] = {
    "Single": lambda: [DTypeCastTransform("float64", "float32"), RewardSum()],
    "Whole": lambda: [
        DTypeCastTransform("uint8", "int64"),
        DTypeCastTransform("int64", "float32", ["level"], ["height"]),
        DTypeCastTransform("int64", "bool", ["level"], ["raised"]),
        DTypeCastTransform("int64", "int8", ["level"]),
        DTypeCastTransform("float32", "float64", ["reward"]),
    ],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    files = generate({"casting.yaml": SCHEMA}, "casting")
    with imported(files, "casting", tmp_path_factory.mktemp("generated")):
        yield importlib.import_module("casting.casting")


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", DYNAMIC)
def test_fused(made: ModuleType, name: str, batch: tuple[int, ...]) -> None:
    fused = getattr(made, name)(batch_size=batch)
    dynamic = TransformedEnv(made.Mixed(batch_size=batch), Compose(*DYNAMIC[name]()))
    check_env_specs(fused)
    check_env_specs(dynamic)
    same_specs(fused, dynamic)
    assert fused.full_action_spec == dynamic.full_action_spec
    drive(fused, dynamic)


@pytest.mark.parametrize("batch", BATCHES)
def test_float64_as_float32(batch: tuple[int, ...]) -> None:
    keys: dict[str, Any] = {
        "in_keys": ["position", "reward"],
        "out_keys": ["seen", "reward"],
        "in_keys_inv": ["action"],
    }
    cast = DTypeCastTransform("float64", "float32", **keys)
    env = TransformedEnv(Walk(*batch, dtype=torch.float64), Compose(cast, RewardSum()))
    their_cast = theirs.DTypeCastTransform(torch.float64, torch.float32, **keys)
    walk = TheirWalk(*batch, dtype=torch.float64)
    peer = theirs.TransformedEnv(walk, theirs.Compose(their_cast, theirs.RewardSum()))
    check_env_specs(env)
    assert env.action_spec.dtype == peer.action_spec.dtype == torch.float32
    assert env.reward_spec.dtype == peer.reward_spec.dtype == torch.float32
    run(env, peer, partial=bool(batch))


def test_as_double_to_float() -> None:
    """The same, for the two dtypes that it knows."""
    made = []
    for cast in (DTypeCastTransform("float64", "float32"), DoubleToFloat()):
        env = TransformedEnv(Walk(3, dtype=torch.float64, bounded=True), cast)
        torch.manual_seed(0)
        made.append((env.output_spec, env.input_spec, env.rollout(9, break_when_any_done=False)))
    assert made[0][0] == made[1][0]
    assert made[0][1] == made[1][1]
    assert (made[0][2] == made[1][2]).all()


@pytest.mark.parametrize(
    ("dtype_in", "dtype_out"),
    [("float32", "int32"), ("uint8", "float64"), ("int64", "uint8"), ("int8", "bool"), ("float32", "bool")],
)
def test_recorded_data(dtype_in: Any, dtype_out: Any) -> None:
    """Keys that are named; theirs takes all of the dtype where none are."""
    data = TensorDict(
        x=(torch.rand(4, 3) * 300).to(getattr(torch, dtype_in)), y=torch.ones(4), batch_size=[4]
    )
    found = DTypeCastTransform(dtype_in, dtype_out, ["x"])(data.clone())
    peer = theirs.DTypeCastTransform(getattr(torch, dtype_in), getattr(torch, dtype_out), in_keys=["x"])
    assert torch.equal(found["x"], peer(data.clone())["x"])
    assert found["x"].dtype == getattr(torch, dtype_out)


def test_dtypes_are_said_by_name_or_as_torch_has_them() -> None:
    named = DTypeCastTransform("float64", "float32", ["x"])
    cast = DTypeCastTransform(torch.float64, torch.float32, ["x"])
    assert (cast.dtype_in, cast.dtype_out) == (named.dtype_in, named.dtype_out) == ("float64", "float32")
    data = TensorDict(x=torch.rand(4, 3, dtype=torch.float64), batch_size=[4])
    assert torch.equal(cast(data.clone())["x"], named(data.clone())["x"])
    image = TensorDict(pixels=torch.zeros(4, 4, 3, dtype=torch.uint8))
    assert ToTensorImage(dtype=torch.float64)(image)["pixels"].dtype == torch.float64


def test_bounds() -> None:
    """Those of floats are cast; integers wrap around, and have none."""
    for dtype, kind in (("float32", Bounded), ("int8", Unbounded), ("bool", Categorical)):
        env = TransformedEnv(
            Walk(dtype=torch.float64, bounded=True), DTypeCastTransform("float64", dtype, ["position"])
        )  # type: ignore[arg-type]
        assert isinstance(env.observation_spec["position"], kind)


def test_another_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="dtype_out must be one of 'bool', 'uint8'"):
        DTypeCastTransform("float64", "float16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"dtype_in must be one of 'uint8'.*got torch\.bfloat16"):
        DTypeCastTransform(torch.bfloat16, torch.float32)
    with pytest.raises(TypeError, match="DTypeCastTransform needs float64, but 'position' is float32"):
        TransformedEnv(Walk(), DTypeCastTransform("float64", "float32", ["position"])).reset()
