"""What is computed of a value before a step and of the same value after it: its bounds hold it."""

from __future__ import annotations

from pathlib import Path

import pytest
from specgen_runtime.envs import check_env_specs
from specgen_runtime.transforms import TransformedEnv

from tests.support import generate, imported

SCHEMA = """\
specgen: 1
envs:
  Walk:
    state: {x: "float32[2] in [-5, 5]"}
    action: {action: "float32[2] in [-1, 1]"}
    reset: {x: "uniform(-1, 1, shape=2)"}
    step: {next.x: "clip(x + action, -5, 5)", reward: "next.x[0]"}
transforms:
  Moved:
    in: {x: {each: [x], type: "float[...]"}}
    out: {moved: {each: x, name: moved}}
    reset: {moved: zeros_like(x)}
    step: {next.moved: CHANGE}
chains:
  Moving: {env: Walk, transforms: [Moved]}
"""


@pytest.mark.parametrize(
    ("change", "bound"), [("next.x - x", 10.0), ("x - 0.5 * next.x", 7.5), ("next.x + x", 10.0)]
)
def test_bounds(change: str, bound: float, tmp_path: Path) -> None:
    """They were those of one value twice: 0 for the first."""
    files = generate({"chain.yaml": SCHEMA.replace("CHANGE", change)}, "differences")
    with imported(files, "differences", tmp_path) as package:
        fused = package.Moving(batch_size=(3,))
        check_env_specs(fused)
        check_env_specs(TransformedEnv(package.Walk(batch_size=(3,)), package.Moved()))
        space = fused.observation_spec["moved"].space
        assert space.low.unique().tolist() == [-bound]
        assert space.high.unique().tolist() == [bound]
